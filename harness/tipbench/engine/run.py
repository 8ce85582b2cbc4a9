"""One run from the first word to the last: selection, lock, results file, summary.

It goes on with the file of this machine, each time as a new session: first with what is open there; where nothing is,
each pair is timed once more.
"""

from __future__ import annotations

import math
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tipbench import __version__
from tipbench.engine import limits
from tipbench.engine.checks import failed_by_chance
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import only_run
from tipbench.engine.order import complete, is_answered, lacks_memory
from tipbench.engine.plan import Plan
from tipbench.engine.progress import Progress
from tipbench.engine.resume import file_to_continue, same_pairs
from tipbench.engine.runner import run
from tipbench.machine import describe
from tipbench.machine.activity import mostly_beside
from tipbench.machine.controls import HEAP_UNCONTROLLED, controls
from tipbench.machine.temporary import TemporaryFolderFull
from tipbench.records import store
from tipbench.records.fields import RunOptions
from tipbench.records.record import Launch, PairInfo, Record, Run, cores_of_others
from tipbench.suite.commit import suite_commit
from tipbench.suite.discover import Discovery, discover
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.selection import add_control, select
from tipbench.tip.needs import available_cores
from tipbench.tip.pair import CONTROL
from tipbench.tip.reason import reasons_text
from tipbench.tip.wording import plural, ratio
from tipbench.verdict import rules
from tipbench.verdict.launches import SHORTAGE
from tipbench.verdict.verdict import Judgement, judge

CHECK_BYTES = 3 << 30
"""Memory left for each pair that is checked beside others."""

MOST_AT_ONCE = 16

CARD_CHECK_BYTES = 12 << 30
"""The same on the host for a pair at the size of a GPU."""

MOST_ON_CARD = 8
"""As `MOST_AT_ONCE`, on a GPU. With four, 4 of 16 cores were busy (harness/decisions.md, "Eight minutes of a card")."""

SHARE_PREPARED = 0.5
"""Of the memory that is available: what launches that stand prepared may take."""


@dataclass(frozen=True)
class Options(RunOptions):
    """The options of the command: what the run stores, and what it does not.

    Attributes:
        names: which pairs; all without any.
        results: the folder in which the run is stored.
        new: whether to begin another file, although there is one of this machine.
        shared: as `Launcher` has it.
        first, side_bytes: as `Plan` has them.
        of_the_shell: variables of the person's own job, which win over the controls.
        news: lines to print, from the run so far, when a verdict is new; None: a line for each pair.
    """

    names: Sequence[str] = ()
    results: Path = Path("results")
    new: bool = False
    shared: Path | None = None
    first: Sequence[str] = ()
    side_bytes: int = 0
    of_the_shell: Mapping[str, str] = field(default_factory=dict)
    news: Callable[[Run], Sequence[str]] | None = None

    @property
    def pairs(self) -> Path:
        """The folder of the pairs."""
        return Path(self.folder) if self.folder else BENCHMARKS

    def controlled(self, discovery: Discovery) -> dict[str, str]:
        """The variables that are set for every worker."""
        return {} if self.bare else controls(discovery.threads, discovery.keeps_heap) | dict(self.of_the_shell)

    def stored(self, discovery: Discovery) -> dict[str, Any]:
        """What the header stores of them, with the device and the tier as they were resolved."""
        resolved = {"device": discovery.device, "size": discovery.size}
        return {option.name: getattr(self, option.name) for option in fields(RunOptions)} | resolved


class OpenRun:
    """A run whose file is open, one that has just begun or goes on."""

    def __init__(self, stored: Run, writer: store.Writer, options: Options, planned: Sequence[PairInfo]) -> None:
        """planned: what this session measures, as the records of `stored` have it."""
        self._stored, self._writer, self._options, self._planned = stored, writer, options, planned
        self._records = {record.name: record for record in stored.records}
        of_session = {info.name: self._records[info.name] for info in planned if info.name in self._records}
        over = {name for name, record in of_session.items() if complete(record, rules.RULES, stored.cores)}
        self._failed_now: set[str] = set()
        self._once_more = len(over) == len(planned) and not options.given
        if self._once_more:
            print(f"nothing is open in {writer.path}: its pairs are timed once more, as on another day")
            self._continued = {name: replace(record, launches=()) for name, record in of_session.items()}
        else:
            self._continued = {name: record for name, record in of_session.items() if name not in over}
        self._left = [info for info in planned if info.name in self._continued or info.name not in over]
        self._states = {name: self._state(self._continued.get(name, record)) for name, record in of_session.items()}
        if options.news:
            options.news(stored)  # what it has already is no news

    def measure(self, discovery: Discovery, budget_s: float) -> int:
        """Measure what is left, saving what is learnt of a pair as soon as it is known. Returns the exit code."""
        options, stored, writer = self._options, self._stored, self._writer
        # What failed by chance comes last: a pair that fills the temporary folder again ends the run.
        again = {name for name, record in self._continued.items() if failed_by_chance(record)}
        left = sorted(self._left, key=lambda info: info.name in again)
        if not left:
            return self.conclude()
        progress = Progress(len(left), budget_s)
        progress.say(f"{plural(len(left), 'pair')} on {stored.machine['name']}, into {writer.path}")
        broken = {record.name: record for record in discovery.broken}
        launcher = Launcher(options.pairs, stored.controls, options.shared)
        plan = self._plan(discovery, budget_s)
        try:
            learning = run(left, launcher.start, plan, progress.show, broken, self._continued, launcher.stop)
            with closing(learning):
                for record in learning:
                    self._add(record, progress)
        except KeyboardInterrupt:
            progress.say(f"interrupted: {self._resume_hint}")
            return 130
        except TemporaryFolderFull as cut:
            raise TemporaryFolderFull(f"{cut}; {self._resume_hint}", exit_code=1) from None
        finally:
            launcher.close()
        return self.conclude()

    def _plan(self, discovery: Discovery, budget_s: float) -> Plan:
        options, on_card = self._options, discovery.device == "cuda"
        return Plan(
            limits.LIMITS,
            rules.RULES,
            options.seed,
            self._stored.cores,
            at_once=concurrent_checks(options.side_bytes, on_card),
            room=psutil.virtual_memory().available * SHARE_PREPARED,
            card_room=card_room(self._stored.machine["gpus"]) if on_card else None,
            side_bytes=options.side_bytes,
            budget_s=budget_s,
            first=options.first,
            alike=bool(options.given),
        )

    def _add(self, record: Record, progress: Progress) -> None:
        """Store a record, and print it where it is over, or has its first number or a further verdict."""
        if self._once_more and _failed(record) and record.variants != self._records[record.name].variants:
            self._failed_now.add(record.name)
            progress.say(f"{record.name} failed this time; what earlier sessions measured stays")
            return
        self._records[record.name] = self._of_all_sessions(record)
        self._writer.append(self._records[record.name])
        before, now = self._states.get(record.name, _State(False, [])), self._state(record)
        self._states[record.name] = now
        is_over_now = now.is_over and not before.is_over
        is_news = bool(record.launches) and before.verdicts != now.verdicts
        if self._options.news and record.outcome in ("measured", "skipped"):
            progress.answered += is_over_now
            if is_news:
                for line in self._options.news(replace(self._stored, records=tuple(self._records.values()))):
                    progress.answer(line)
        elif is_over_now:
            progress.done(_line(record, self._stored.cores))
        elif is_news and not now.is_over:
            progress.say(_line(record, self._stored.cores))

    def _of_all_sessions(self, record: Record) -> Record:
        """The record as it is stored: with the launches of earlier sessions, and in those of this one its number."""
        before, own = self._continued.get(record.name), record.launches
        launches: tuple[Launch, ...] = ()
        if before and record.outcome == "measured" and own[: len(before.launches)] == before.launches:
            own = own[len(before.launches) :]
            launches = next(each.launches for each in self._stored.records if each.name == record.name)
        of_session = (replace(launch, session=len(self._stored.later)) for launch in own)
        return replace(record, launches=(*launches, *of_session))

    def _state(self, record: Record) -> _State:
        cores = self._stored.cores
        verdicts = [judged.verdict for judged in judge(record, rules.RULES, cores)] if record.launches else []
        return _State(is_answered(record, rules.RULES, cores), verdicts)

    @property
    def _resume_hint(self) -> str:
        saved, path, options = self._writer.saved, self._writer.path, self._options
        go_on = "" if options.given else "\ncontinue with: the same command"
        return f"{saved} of {len(self._stored.planned)} pairs are safe in {path}{go_on}"

    def conclude(self) -> int:
        """Say what is still undecided, and where the results are. Returns the exit code."""
        path = self._writer.path
        records = [self._records[info.name] for info in self._planned if info.name in self._records]
        over = {name for name, state in self._states.items() if state.is_over}
        decided = [record for record in records if record.name in over]
        still_open = {
            "still undecided": len(self._planned) - len(decided),
            "decided without memory": sum(lacks_memory(each, rules.RULES, self._stored.cores) for each in decided),
            "failed in a way that need not come again": sum(bool(failed_by_chance(record)) for record in records),
        }
        if not self._options.given:
            if words := [f"{plural(count, 'pair')} {what}" for what, count in still_open.items() if count]:
                print(f"{'; '.join(words)}; continue with: the same command")
            if others := mostly_beside(cores_of_others(records)):
                print(f"{others}: these are answers of a busy machine")
            print(f"results: {path}\nreport:  tipbench report {shlex.quote(str(path))}")
        return int(bool(self._failed_now) or any(map(_failed, records)))


class _State(NamedTuple):
    """What was last printed of a pair: whether it needs no further launch, and the verdicts of its variants."""

    is_over: bool
    verdicts: list[str]


def measure_machine(options: Options) -> tuple[int, Path]:
    """Measure, in the file of this machine if it has one. Returns the exit code and the file; raises UserError."""
    began = time.monotonic()
    discovery, pairs = discover_folder(options)
    # Controls that come along with another folder are measured if they are named.
    listed = [*(pairs if options.names else discovery.pairs), *(record.info for record in discovery.broken)]
    chosen = select(listed, options.names)
    # What is given has a control of its own: the job beside itself.
    own = [info for info in pairs if info.tip.id == CONTROL and not options.given]
    planned = add_control(chosen, own)
    commit, why = suite_commit()
    if why:
        print(f"tipbench: the run is stored without a commit, as git does not name it: {why}", file=sys.stderr)
    if not (options.bare or discovery.keeps_heap):
        print(f"tipbench: {HEAP_UNCONTROLLED}", file=sys.stderr)
    with nullcontext() if options.given else only_run():  # an advice holds the lock for all of its parts
        begun = Run(
            id=uuid.uuid4().hex,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            suite=__version__,
            commit=commit,
            machine=describe.describe(),
            controls=options.controlled(discovery),
            options=options.stored(discovery),
            planned=tuple(info.name for info in planned),
        )
        file = None if options.new else file_to_continue(options.results, begun)
        stored, writer = store.resume(file) if file else (begun, store.create(options.results, begun))
        with writer:
            for notice in writer.notices:
                print(f"tipbench: {notice}", file=sys.stderr)
            if file:
                stored, planned = same_pairs(stored, planned)
                writer.begin_session(begun.started, begun.planned)
                all_planned = tuple(dict.fromkeys([*stored.planned, *begun.planned]))
                stored = replace(stored, planned=all_planned, later=(*stored.later, begun.started))
            budget_s = options.budget_s or math.inf
            if not options.given:  # an advice counts all of its parts itself
                budget_s = max(0.0, budget_s - (time.monotonic() - began))
            return OpenRun(stored, writer, options, planned).measure(discovery, budget_s), writer.path


def discover_folder(options: Options) -> tuple[Discovery, list[PairInfo]]:
    """Discover the folder; beside another than `benchmarks/` come its controls."""
    discovery = discover(options.pairs, options.device, options.size, bool(options.given), options.of_the_shell)
    if not options.folder:
        return discovery, list(discovery.pairs)
    own = discover(BENCHMARKS / "control.py", discovery.device, discovery.size)
    return discovery, [*own.pairs, *discovery.pairs]


def concurrent_checks(side_bytes: int, on_card: bool) -> int:
    """How many pairs are checked, and launches prepared, at a time: as many as there are cores, and memory for them.
    Checks on a GPU, which they share, keep more on the host. side_bytes: as `Plan` has it."""
    each, most = (CARD_CHECK_BYTES, MOST_ON_CARD) if on_card else (max(CHECK_BYTES, 2 * side_bytes), MOST_AT_ONCE)
    return max(1, min(available_cores(), most, psutil.virtual_memory().available // each))


def card_room(cards: Sequence[Mapping[str, Any]] | str) -> float:
    """Memory of a GPU that launches which stand prepared may take (bytes); 0 where it is unknown, as that of an
    instance (MIG) is, and where a GPU takes one process at a time. cards: as `gpus` has them."""
    if isinstance(cards, str):
        return 0.0
    for card in cards:
        if isinstance(card["memory_bytes"], str) or card["compute_mode"] != "default" or card["mig"] is True:
            return 0.0
    return SHARE_PREPARED * min((card["memory_bytes"] for card in cards), default=0)


def _failed(record: Record) -> bool:
    return record.outcome == "failed" or any(variant.outcome == "failed" for variant in record.variants.values())


def _line(record: Record, cores: int) -> str:
    """What is printed of a finished pair."""
    if record.outcome != "measured":
        kind = f"{record.kind}: " if record.kind else ""
        return f"{record.name}: {record.outcome}: {kind}{record.reason}"
    timed = {name for launch in record.launches for name in launch.variant}
    verdicts = []
    for judged in judge(record, rules.RULES, cores):
        if timed and judged.variant_record.outcome == "measured" and judged.variant not in timed:
            continue
        name = "" if judged.variant == "optimized" else f"{judged.variant} "
        verdicts.append(f"{name}{verdict(judged)}")
    return f"{record.name}: {'; '.join(verdicts)} ({record.wall_s:.0f} s)"


def verdict(judged: Judgement) -> str:
    """`faster 1.35x [1.33, 1.38]`, or the reason where there is no speedup, or none yet (SHORTAGE)."""
    if judged.speedup is None:
        busy = [reason for reason in judged.reasons if reason.code == SHORTAGE]
        return f"no number yet: {reasons_text(busy)}" if busy else f"{judged.verdict}: {reasons_text(judged.reasons)}"
    return f"{judged.verdict} {ratio(judged.speedup, judged.low, judged.high)}"
