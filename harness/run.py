"""One run from the first word to the last: selection, lock, results file, summary."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harness import __version__, machine, report, store
from harness.controls import controls
from harness.discover import BENCHMARKS, Discovery, discover
from harness.follower import follow
from harness.lock import only_run
from harness.nodes import NodeLost, Nodes, Place, digest, gathered, place
from harness.profiles import PROFILES
from harness.progress import Progress
from harness.record import PairInfo, Record, Run
from harness.report.wording import plural, ratio
from harness.runner import run
from harness.selection import select, with_controls
from harness.verdict import judge
from harness.workplace import Workplace


class CannotRun(Exception):
    """The run cannot begin as asked; the message says why and what to do."""


@dataclass(frozen=True)
class Options:
    """What a person asked for.

    folder: where the pairs are. results: where the run is stored. place: of several nodes, which this is.
    """

    names: Sequence[str] = ()
    expression: str = ""
    folder: Path = BENCHMARKS
    results: Path = Path("results")
    profile: str = "full"
    device: str = "auto"
    seed: int = 0
    bare: bool = False
    place: Place | None = None

    @property
    def nodes(self) -> int:
        return self.place.count if self.place else 1


def begin(options: Options) -> int:
    """Measure anew. Returns the exit code; raises what `cli.TOLD` lists."""
    if options.place and options.place.number:
        return _follow(options.place, options.folder)
    found, pairs = _found(options)
    chosen = select([*found.pairs, *(record.info for record in found.broken)], options.names, options.expression)
    whole = not options.names and not options.expression and options.folder == BENCHMARKS
    planned = with_controls(chosen, [info for info in pairs if info.tip["id"] == "control"], whole)
    controlled = {} if options.bare else controls(found.threads)
    about = machine.describe()
    with only_run(f"`{typed_command()}`"), _others(options.place, about, options.folder, controlled) as nodes:
        stored = Run(
            id=uuid.uuid4().hex,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            suite=__version__,
            commit=suite_commit(),
            machine=about | ({"nodes": nodes.described()} if nodes else {}),
            controls=controlled,
            options={
                "profile": options.profile,
                "device": found.device,
                "seed": options.seed,
                "bare": options.bare,
                "folder": "" if options.folder == BENCHMARKS else str(options.folder),
                "nnodes": options.nodes,
            },
            planned=tuple(info.name for info in planned),
        )
        with store.create(options.results, stored) as writer:
            return _carry_on(stored, planned, found, options, nodes, writer)


def resume(path: Path, rendezvous: str = "") -> int:
    """Go on with a run that was interrupted, without repeating what its file holds.

    rendezvous: where the nodes of a run on several meet now.
    """
    with only_run(f"`{typed_command()}`"):
        stored, writer = store.resume(path)
        with writer:
            for notice in writer.notices:
                print(f"tipbench: {notice}", file=sys.stderr)
            asked = stored.options
            folder = Path(asked["folder"]) if asked["folder"] else BENCHMARKS
            count = asked.get("nnodes", 1)
            if count > 1 and not rendezvous:
                raise CannotRun(f"{path} was begun on {count} nodes: give --rdzv HOST:PORT beside --resume")
            if count == 1 and rendezvous:
                raise CannotRun(f"{path} was begun on one machine, so --rdzv says nothing")
            options = Options(folder=folder, device=asked["device"], place=place(count, 0, rendezvous))
            here = machine.describe()
            for field in ("name", "torch", "python"):
                if here[field] != stored.machine.get(field):
                    raise CannotRun(
                        f"{path} was begun with {field} {stored.machine.get(field)}; here it is {here[field]}. "
                        "One run is of one machine and one installation: begin a new one with `tipbench run`"
                    )
            found, pairs = _found(options)
            known = {info.name: info for info in [*pairs, *(record.info for record in found.broken)]}
            missing = [name for name in stored.planned if name not in known]
            if missing:
                raise CannotRun(f"{path} planned {missing[0]}, which is no longer in {folder}; begin a new run")
            planned = [known[name] for name in stored.planned]
            with _others(options.place, here, folder, stored.controls) as nodes:
                if nodes and nodes.described() != stored.machine.get("nodes"):
                    raise CannotRun(f"{path} was begun with other nodes: begin a new run with `tipbench run`")
                return _carry_on(stored, planned, found, options, nodes, writer)


@contextmanager
def _others(
    here: Place | None, about: Mapping[str, Any], folder: Path, controlled: Mapping[str, str]
) -> Iterator[Nodes | None]:
    """All other nodes of a run, once they have come; None for a run on one machine. Raises NodesError."""
    if here is None:
        yield None
        return
    listed = "\n".join(f"  {here.command(number)}" for number in range(1, here.count))
    print(f"node 0: waiting at {here.address} for the others, on which is typed:\n{listed}", file=sys.stderr)
    with gathered(here, _told(about, folder), controlled) as nodes:
        yield nodes


def _follow(here: Place, folder: Path) -> int:
    """Be another node than the first, until its run is over."""
    about = machine.describe()
    with only_run(f"`{typed_command()}`"):
        print(f"node {here.number} of {here.count}: looking for node 0 at {here.address}", file=sys.stderr)
        started = follow(here, folder, _told(about, folder))
    print(f"the run is over; {plural(started, 'group')} of ranks had a share here. Node 0 has the results")
    return 0


def _told(about: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """What nodes tell each other: the machine's name and `nodes.SAME`."""
    told = {name: about[name] for name in ("name", "torch", "python")}
    return {**told, "suite": __version__, "commit": suite_commit(), "pairs": digest(folder)}


def _found(options: Options) -> tuple[Discovery, list[PairInfo]]:
    """Discover the folder; with a person's own one, the controls of `benchmarks/` come along."""
    found = discover(options.folder, options.device, options.nodes)
    if options.folder == BENCHMARKS:
        return found, list(found.pairs)
    own = discover(BENCHMARKS / "control.py", found.device, options.nodes)
    return found, [*own.pairs, *found.pairs]


def _carry_on(
    stored: Run,
    planned: Sequence[PairInfo],
    found: Discovery,
    options: Options,
    nodes: Nodes | None,
    writer: store.Writer,
) -> int:
    """Measure what `stored.records` does not hold yet, saving each record as it stands."""
    done = {record.name for record in stored.records}
    left = [info for info in planned if info.name not in done]
    broken = {record.name: record for record in found.broken}
    progress = Progress(left)
    progress.say(
        f"{len(left)} pairs on {stored.machine['name']}, {stored.options['profile']} profile, into {writer.path}"
    )
    profile, cores, seed = PROFILES[stored.options["profile"]], stored.machine["cores"], stored.options["seed"]
    records = list(stored.records)
    workplace = Workplace(options.folder, stored.controls, nodes)
    go_on = f"tipbench run --resume {shlex.quote(str(writer.path))}"
    if options.place:
        go_on += f" --rdzv {options.place.address}"
    # `kill` asks as Ctrl-C does: records are safe, workers are ended, the way to go on is told.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        for index, record in enumerate(run(left, workplace.start, profile, seed, cores, progress.tell, broken)):
            writer.append(record)
            records.append(record)
            progress.done(index, _line(record, cores, profile.looks), record.wall_s, record.outcome == "measured")
    except KeyboardInterrupt:
        progress.say(
            f"interrupted: {len(records)} of {len(planned)} pairs are safe in {writer.path}\ngo on with: {go_on}"
        )
        return 130
    except NodeLost as lost:
        raise NodeLost(
            f"{lost}; {len(records)} of {len(planned)} pairs are safe in {writer.path}\n"
            f"go on with: {go_on}, and on the other nodes as before"
        ) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        workplace.close()
    print("\n".join(["", *report.one_liners(replace(stored, records=tuple(records))), ""]))
    print(f"results: {writer.path}\nreport:  tipbench report {shlex.quote(str(writer.path))}")
    return int(any(_failed(record) for record in records))


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _failed(record: Record) -> bool:
    return record.outcome == "failed" or any(found.outcome == "failed" for found in record.variants.values())


def _line(record: Record, cores: int, looks: object) -> str:
    """What stands on the screen of a finished pair."""
    from harness.statistics import Looks

    assert isinstance(looks, Looks)
    if record.outcome != "measured":
        kind = f"{record.kind}: " if record.kind else ""
        return f"{record.name}: {record.outcome}: {kind}{record.reason}"
    told = []
    for judged in judge(record, looks, cores):
        name = "" if judged.variant == "optimized" else f"{judged.variant} "
        if judged.speedup is None or judged.low is None or judged.high is None:
            told.append(f"{name}{judged.verdict}: {judged.reason}")
        else:
            told.append(f"{name}{judged.verdict} {ratio(judged.speedup, judged.low, judged.high)}")
    return f"{record.name}: {'; '.join(told)} ({record.wall_s:.0f} s)"


def suite_commit() -> str:
    """The suite's git commit, with "-dirty" for uncommitted changes; "unavailable" outside a checkout."""
    command = ["git", "-C", str(BENCHMARKS.parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unavailable"
    return told.stdout.strip() or "unavailable"


def typed_command() -> str:
    """The command as it was typed, for whoever finds the machine taken by it."""
    return shlex.join(["tipbench", *sys.argv[1:]])
