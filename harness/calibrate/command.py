"""`tipbench calibrate` from the first word to the last: plan, lock, file, page."""

from __future__ import annotations

import random
import shlex
import signal
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tipbench import __version__
from tipbench.calibrate import page, plan, stored
from tipbench.calibrate.findings import wrong
from tipbench.calibrate.measure import measured
from tipbench.calibrate.plan import Case
from tipbench.calibrate.stored import Calibration, Comparison
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import only_run
from tipbench.engine.profiles import PROFILES
from tipbench.engine.run import CannotRun, suite_commit, typed_command
from tipbench.machine import describe
from tipbench.machine.controls import controls
from tipbench.records.record import PairInfo
from tipbench.records.store import StoreError, folder_name
from tipbench.report.wording import ratio, size
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS

PLANTED = Path(__file__).parent / "planted.py"


@dataclass(frozen=True)
class Options:
    """The options of the command. repeat: 0 for the profile's own number. only: names of cases, or their beginnings."""

    profile: str = "quick"
    repeat: int = 0
    only: Sequence[str] = ()
    results: Path = Path("results")
    reports: Path = Path("reports")
    device: str = "auto"
    seed: int = 0


def begin(options: Options) -> int:
    """Calibrate anew. Returns the exit code; raises UserError."""
    with only_run(f"`{typed_command()}`"):
        listed, threads, device = _cases(options.profile, options.device)
        chosen = plan.select(listed, options.only)
        engine = plan.ENGINE[options.profile]
        repeat = options.repeat or plan.REPEAT[options.profile]
        begun = Calibration(
            id=uuid.uuid4().hex,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            suite=__version__,
            machine=describe.describe(),
            controls=controls(threads),
            options={
                "profile": options.profile,
                "engine": engine,
                "looks": _looks(engine),
                "device": device,
                "seed": options.seed,
                "repeat": repeat,
                "only": list(options.only),
            },
            planned=tuple(case.name for case in chosen),
        )
        path = stored.create(options.results, begun)
        return _carry_on(path, chosen, repeat, options.reports)


def resume(path: Path, only: Sequence[str], repeat: int, reports: Path) -> int:
    """Go on with a calibration: what is left of it, or of the cases named, up to `repeat` repetitions (0: as begun).

    With nothing left it writes the page anew. Returns the exit code; raises UserError.
    """
    with only_run(f"`{typed_command()}`"):
        begun, _ = stored.read(path)
        given = begun.options
        repeat = repeat or given["repeat"]
        # Other cases than at the beginning are welcome; without names it is what was planned then.
        if not only and {(name, number) for name in begun.planned for number in range(repeat)} <= {
            comparison.key for comparison in begun.comparisons
        }:
            return _finish(path, reports)
        here = describe.describe()
        for name in ("name", "torch", "python"):
            if here[name] != begun.machine.get(name):
                raise CannotRun(
                    f"{path} was begun with {name} {begun.machine.get(name)}; here it is {here[name]}. "
                    "A calibration is of one machine and one installation: begin a new one with `tipbench calibrate`"
                )
        if given["looks"] != _looks(given["engine"]):
            raise CannotRun(
                f"{path} was begun with other looks ({given['looks']}) than the {given['engine']} profile has now; "
                "begin a new one with `tipbench calibrate`"
            )
        listed, _, _ = _cases(given["profile"], given["device"])
        chosen = plan.select(listed, only or begun.planned)
        stored.cut_truncated_line(path)
        return _carry_on(path, chosen, repeat, reports, only)


def _cases(profile: str, device: str) -> tuple[list[Case], int, str]:
    """(all cases of the profile, torch's number of threads, the device that "auto" came to)."""
    found, planted = discover(BENCHMARKS / "control.py", device), discover(PLANTED, device)
    for record in (*found.broken, *planted.broken):
        raise CannotRun(f"{record.info.file}: {record.reason}")
    pairs: list[PairInfo] = list(planted.pairs)
    if found.device != "cpu":  # planted memory is main memory, whatever the device
        pairs = [info for info in pairs if not info.reason]
        pairs += [info for info in discover(PLANTED, "cpu").pairs if "mib" in info.sizes]
    return plan.cases(profile, found.pairs, pairs), found.threads, found.device


def _looks(engine: str) -> dict[str, list[float]]:
    return {name: list(found) for name, found in asdict(PROFILES[engine].looks).items()}


def _carry_on(path: Path, chosen: Sequence[Case], repeat: int, reports: Path, only: Sequence[str] = ()) -> int:
    """Measure what the file does not hold yet, saving each comparison once it is finished.

    only: the names given at a resumption; those given at the beginning are in the file.
    """
    begun, _ = stored.read(path)
    options, cores, commit = begun.options, begun.machine["cores"], suite_commit()
    done = {comparison.key for comparison in begun.comparisons}
    left = [(number, case) for number in range(repeat) for case in chosen if (case.name, number) not in done]
    say(plan.announcement([case for _, case in left], options["engine"]))
    say(f"into {path}")
    # `kill` asks as Ctrl-C does: comparisons are safe, workers are ended, the command to go on with is printed.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    launcher, current = None, -1
    try:
        for index, (repetition, case) in enumerate(left, 1):
            if launcher is None or repetition != current:
                # Processes of its own for each repetition, as each run has: forked workers inherit from them.
                if launcher is not None:
                    launcher.close()
                launcher, current = Launcher(PLANTED, begun.controls), repetition
            seed = seed_of(options["seed"], repetition, case.name)
            comparison = measured(case, repetition, launcher, PROFILES[options["engine"]], seed, cores, commit)
            stored.append(path, comparison)
            say(f"[{index}/{len(left)}] {_line(comparison)}")
    except KeyboardInterrupt:
        again = ["tipbench", "calibrate", "--resume", str(path)]
        again += ["--repeat", str(repeat)] * (repeat != options["repeat"])
        again += ["--only", *only] if only else []
        say(f"interrupted; every finished comparison is safe in {path}\ngo on with: {shlex.join(again)}")
        _page(path, reports)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
        if launcher is not None:
            launcher.close()
    return _finish(path, reports)


def _finish(path: Path, reports: Path) -> int:
    """Write the page, say what came out, and return the exit code."""
    found, written = _page(path, reports)
    print("\n".join(["", *page.summary(found), "", f"results: {path}", f"page:    {written}"]))
    return int(any(wrong(comparison) or comparison.failed for comparison in found.comparisons))


def _page(path: Path, reports: Path) -> tuple[Calibration, Path]:
    found, notices = stored.read(path)
    for notice in notices:
        print(f"tipbench: {notice}", file=sys.stderr)
    written = reports / folder_name(found.machine) / f"{found.file_name}.md"
    try:
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(page.render(found, notices), encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot write the page {written}: {error.strerror}; all comparisons are in {path}. "
            f"Write it elsewhere with: tipbench calibrate --resume {path} --reports DIR"
        ) from error
    return found, written


def seed_of(seed: int, repetition: int, case: str) -> int:
    """The comparison's own seed: the same at every try, another for every case and repetition."""
    return random.Random(f"{seed} {repetition} {case}").randrange(2**30)


def _line(comparison: Comparison) -> str:
    """What is printed of a finished comparison."""
    mark = "WRONG: " if wrong(comparison) else ""
    if comparison.failed:
        found = f"failed: {comparison.failed}"
    elif comparison.memory:
        live = {name: kinds.get("tensor_peak", 0) for name, kinds in comparison.memory.items()}
        found = f"live tensors {size(live['baseline'])} -> {size(live['optimized'])}"
    elif comparison.seconds:
        found = page.agreements_told(comparison)
    elif comparison.speedup is None or comparison.low is None or comparison.high is None:
        found = comparison.verdict
    else:
        found = f"{comparison.verdict} {ratio(comparison.speedup, comparison.low, comparison.high)}"
    return f"{mark}{comparison.case}: {found} ({comparison.wall_s:.0f} s)"


def say(text: str) -> None:
    """Plain lines, between comparisons only: drawing must not cost measured time."""
    print(text, file=sys.stderr, flush=True)
