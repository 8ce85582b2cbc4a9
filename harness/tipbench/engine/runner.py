"""Measures pairs: what is checked, what is timed next, when to stop. Yields each new result, and prints nothing.

One pair of each tip is checked and launched first, then all other whole jobs, as a tip's answer depends on them, and
operations alone in what time is left: a few at a time, several in parallel. In between those are launched further that
are expected to be decided for less than a new pair costs; once all have a launch, `allocation` chooses. Of a whole job
the variant that the answer is about is checked and timed first, and the others once that is decided.

Launches are prepared in groups, each launch of another pair, and paused; then each is measured with nothing else
running. Memory is measured early where it is what a tip claims, and otherwise when no pair is open or time runs short.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from statistics import fmean
from typing import Protocol

from tipbench.engine.allocation import UNANSWERED, WHOLE_JOB, OpenPair, next_group
from tipbench.engine.checks import MemoryPass, Start, check_pair, failed_by_chance, mark_failed, measurable, survivors
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launch import NextLaunch
from tipbench.engine.launcher import compiles
from tipbench.engine.order import FIRST, answer_pairs, first_of_tips, headline_variants, lacks_memory, launch_bytes
from tipbench.engine.plan import Plan
from tipbench.engine.team import Team
from tipbench.records.record import PairInfo, Record
from tipbench.tip.pair import Claim
from tipbench.verdict.verdict import launches_to_decide

FOR_MEMORY, MEMORY_S = 0.1, 4.0
"""Largest share of a budget that is kept for memory passes, which are prices of tips, at its end; and the expected
seconds of one a variant before the first was measured, mostly to import torch (on 2 cores 2 to 4 were measured)."""

CHECK_S = 2.0
"""Expected seconds of a check before the first was made, mostly to import torch."""

GROUP = 8
"""Most launches that are prepared at a time (harness/decisions.md, "What prepared launches cost the one that is
measured")."""

SHORT_S = 600.0
"""Longest budget of which a large part would pass before the checks of such a group have ended (s)."""

COMPILED = 5
"""For pairs that compile, launches were shorter than checks by this factor, as only the check compiles their code."""

IMPORTED_BYTES = 512 << 20
"""Memory of a process that has imported torch and the pair's file (bytes); 320 to 450 MB were measured."""

_NO_MEMORY = "out-of-memory"
"""The code of a pair's failure that other pairs may have caused, where all share a GPU."""

Show = Callable[[str], None]
"""Called with the name of what begins, only between blocks, so that drawing it takes no measured time."""


class Measurement(Protocol):
    """A launch or memory pass: prepared in parallel with others, then measured with nothing else running.

    Attributes:
        name: of the pair.
        prepared_s: duration of `prepare` (s).
    """

    name: str
    prepared_s: float

    def prepare(self) -> None: ...

    def measure(self) -> Record: ...

    def end(self) -> None: ...


def run(
    pairs: Sequence[PairInfo],
    start: Start,
    plan: Plan,
    show: Show,
    broken: Mapping[str, Record] | None = None,
    begun: Mapping[str, Record] | None = None,
    stop: Callable[[], None] = lambda: None,
) -> Generator[Record, None, None]:
    """Measure the pairs. Yields a pair's record after each new result: its checks, its memory, a launch.

    broken: records of files that could not be imported, by name. begun: those of an interrupted run, by name; a pair is
    continued if it is unchanged, else measured anew; what failed by chance is tried again. stop: as `Team` has it.
    """
    end = time.monotonic() + plan.budget_s
    with closing(Team(start, plan.at_once, lambda: time.monotonic() >= end, stop)) as team:
        yield from _Runner(team, plan, show, end).run(pairs, broken or {}, begun or {})


def measure(info: PairInfo, start: Start, plan: Plan) -> Record:
    """The record of one pair, from its checks to its last launch. Never raises: a pair's failure is in its record."""
    *_, record = run([info], start, plan, lambda what: None)
    return record


class _Runner:
    def __init__(self, team: Team, plan: Plan, show: Show, end: float) -> None:
        self._team = team
        self._plan = plan
        self._show = show
        self._end = end
        self._group_size = 1 if plan.at_once == 1 else GROUP
        self._draw = random.Random(plan.seed)
        self._unchecked: dict[str, PairInfo] = {}
        self._before: dict[str, Record] = {}
        self._names: set[str] = set()
        self._open: dict[str, Record] = {}
        self._undecided: dict[str, dict[str, float]] = {}
        self._headline: dict[str, list[str]] = {}
        self._lacks_memory: set[str] = set()
        self._check_s: dict[str, float] = {}
        self._compiling: set[str] = set()
        self._launch_s: dict[str, float] = {}
        self._card_bytes: dict[str, float] = {}
        self._memory_taken_s = 0.0
        self._sides_read = 0
        self._last = ""
        self._carded: set[tuple[str, str]] = set()
        self._answered: set[str] = set()

    def run(
        self, pairs: Sequence[PairInfo], broken: Mapping[str, Record], begun: Mapping[str, Record]
    ) -> Iterator[Record]:
        self._launch_s |= {name: before.wall_s / (len(before.launches) + 1) for name, before in begun.items()}
        for info in pairs:
            before = begun.get(info.name)
            if info.name in broken:
                yield broken[info.name]
            elif before is None or before.info != info or before.outcome != "measured":
                self._unchecked[info.name] = info
            elif failed_by_chance(before):
                self._unchecked[info.name], self._before[info.name] = info, before
            else:
                self._update(before)
        answering, tips = answer_pairs(pairs), first_of_tips(pairs)
        yield from self._reach([info for info in pairs if info.why])  # reporting these takes no time
        urgent = [info for name in self._plan.first for info in answering if info.name == name]
        # The fewest at a time give the first answers soonest; in larger groups no core waits for the longest check.
        size = self._plan.at_once if self._plan.budget_s <= SHORT_S else self._group_size
        for stage in ([urgent, tips, answering], [pairs]):
            for part in stage:
                for start in range(0, len(part), size):
                    yield from self._reach(part[start : start + size])
                    yield from self._launches(FIRST)
                    yield from self._launches(within_s=self._new_pair_s())
            yield from self._memory([record for record in self._reached() if self._is_judged_by_pass(record)])
            yield from self._launches()
            yield from self._memory(self._reached())
            yield from self._launches()

    def _reach(self, pairs: Sequence[PairInfo]) -> Iterator[Record]:
        """Let these be measured from now on, and check those that are not yet."""
        self._names |= {info.name for info in pairs}
        waiting = [self._unchecked.pop(info.name) for info in pairs if info.name in self._unchecked]
        yield from self._check(waiting, self._checked)

    def _reached(self) -> list[Record]:
        """The open ones that may be measured."""
        return [record for name, record in self._open.items() if name in self._names]

    def _left_s(self) -> float:
        return self._end - time.monotonic()

    def _reserved_s(self) -> float:
        """Seconds of the budget that are reserved for the memory passes."""
        if math.isinf(self._plan.budget_s):
            return 0.0
        sides = sum(len(survivors(record)) for record in self._reached() if record.name in self._lacks_memory)
        return min(FOR_MEMORY * self._plan.budget_s, self._memory_s() * sides)

    def _memory_s(self) -> float:
        """Expected seconds of a memory pass for each variant."""
        return self._memory_taken_s / self._sides_read if self._sides_read else MEMORY_S

    def _update(self, record: Record) -> Record:
        """Update the state of the run from a pair's new record, which is returned. The pair stays open until it is
        `complete`."""
        self._open.pop(record.name, None)
        if record.launches and record.launches[0].card:
            self._carded.add(_job(record.info))
        if record.outcome == "measured":
            plan = self._plan
            self._undecided[record.name] = launches_to_decide(record, plan.rules, plan.cores)
            self._headline[record.name] = headline_variants(record, plan.rules, plan.cores)
            if record.info.scale == "macro" and not self._requested(record):
                self._answered.add(record.info.tip.id)
            if lacks_memory(record, plan.rules, plan.cores):
                self._lacks_memory.add(record.name)
            else:
                self._lacks_memory.discard(record.name)
            if self._undecided[record.name] or record.name in self._lacks_memory:
                self._open[record.name] = record
        return record

    def _requested(self, record: Record) -> list[str]:
        """The undecided variants that the tip's answer is about."""
        waiting = [*self._undecided[record.name]]
        return [name for name in waiting if self._plan.alike or name in self._headline[record.name]]

    def _timed_next(self, record: Record) -> list[str]:
        """The variants that a pair's next launch times, beside the baseline: all, of tips followed together."""
        return (self._requested(record) if record.info.worded else []) or [*self._undecided[record.name]]

    def _new_pair_s(self) -> float:
        """Expected seconds of a pair's check and first launch."""
        taken = [self._check_s[name] / self._plan.at_once + self._launch_s.get(name, 0.0) for name in self._check_s]
        return fmean(taken) if taken else 0.0

    def _check(self, pairs: Sequence[PairInfo], check: Callable[[PairInfo], Record | None]) -> Iterator[Record]:
        """Check the pairs, or further ways of them. Those that compile come first, as they take longest: at the end,
        one would run alone."""
        if pairs:
            self._show(f"checking {len(pairs)} pairs")
        again = []
        for info, record in self._team.each(check, sorted(pairs, key=compiles, reverse=True)):
            record = record or self._before.get(info.name)
            if record is not None and len(pairs) > 1 and self._card_was_full(record):
                again.append(info)
            elif record is not None:
                yield self._update(record)
        for info in again:
            yield from self._check([info], check)

    def _checked(self, info: PairInfo) -> Record | None:
        """The record of a pair after its checks; None where the time is up."""
        if info.why:  # takes no time, which says nothing of the other checks
            return check_pair(info, self._team.start, self._plan.seed, self._before.get(info.name))
        if self._left_s() < self._expected_check_s(info):
            return None
        began = time.monotonic()
        before = self._before.get(info.name)
        is_answer = info.worded and info.scale == "macro" and not (self._plan.alike or before)
        record = check_pair(info, self._team.start, self._plan.seed, before, [info.worded] if is_answer else [])
        if self._left_s() <= 0 and failed_by_chance(record):  # it was ended
            return None
        self._check_s[info.name] = time.monotonic() - began
        self._compiling |= {info.name} if compiles(info) else set()
        return replace(record, wall_s=round(record.wall_s + self._check_s[info.name] / self._plan.at_once, 3))

    def _expected_check_s(self, info: PairInfo) -> float:
        """By the checks so far: of pairs that compile where this one does, which take several times as long."""
        alike = [taken for name, taken in self._check_s.items() if (name in self._compiling) == compiles(info)]
        return fmean(alike or [*self._check_s.values()] or [CHECK_S])

    def _card_was_full(self, record: Record) -> bool:
        reasons = [record.why, *(variant.why for variant in record.variants.values())]
        return self._plan.card_room is not None and any(why and why.code == _NO_MEMORY for why in reasons)

    def _memory(self, records: Sequence[Record]) -> Iterator[Record]:
        waiting = [record for record in records if record.name in self._lacks_memory]
        # A GPU's free memory is the same for all processes.
        largest = self._group_size if self._plan.card_room is None else 1
        while waiting:
            most = self._left_s() / self._memory_s()
            group: list[Record] = []
            sides = 0
            for record in waiting:
                more = len(survivors(record))
                room = not group or (sides + more) * IMPORTED_BYTES <= self._plan.room
                if room and sides + more <= most and len(group) < largest:
                    group.append(record)
                    sides += more
            if not group:
                return
            waiting = [record for record in waiting if record not in group]
            passes = [MemoryPass(record, self._team.start, self._plan.seed) for record in group]
            began = time.monotonic()
            yield from self._measure_each(passes, "memory")
            self._memory_taken_s += time.monotonic() - began
            self._sides_read += sides

    def _is_judged_by_pass(self, record: Record) -> bool:
        """Of memory, where the checks have not read live tensors: on a GPU."""
        claim = record.info.tip.claim
        return claim == Claim.SOONER or (claim == Claim.LEANER and not record.variants["baseline"].memory)

    def _launches(self, most: float = math.inf, within_s: float = math.inf) -> Iterator[Record]:
        """Launch groups until no pair that may be measured is open, or no launch fits into the budget. most: launches
        of each pair. within_s: seconds within which a pair, by a way that its answer is about, must be decided."""
        while names := self._chosen(most, within_s):
            if due := [record.info for name in names if self._unchecked_ways(record := self._open[name])]:
                yield from self._check(due, self._with_ways)
                continue
            group = self._group(names)
            yield from self._measure_each(group, "launch")
            self._card_bytes |= {each.name: max(each.card_bytes, self._card_bytes.get(each.name, 0)) for each in group}

    def _unchecked_ways(self, record: Record) -> list[str]:
        """Variants that the next launch would time, and that were not checked with what the answer is about."""
        return [name for name in self._timed_next(record) if name not in record.variants]

    def _with_ways(self, info: PairInfo) -> Record:
        """The record of a pair with these checked."""
        record, began = self._open[info.name], time.monotonic()
        ways = check_pair(info, self._team.start, self._plan.seed, record, self._unchecked_ways(record))
        if self._left_s() <= 0:  # some may have been ended
            return record
        return replace(ways, wall_s=round(ways.wall_s + (time.monotonic() - began) / self._plan.at_once, 3))

    def _chosen(self, most: float, within_s: float) -> list[str]:
        """The pairs of the next group of launches."""
        open_ways = self._requested if math.isfinite(within_s) else self._timed_next
        waiting = [each for each in self._reached() if len(each.launches) < most and open_ways(each)]
        candidates = [pair for pair in map(self._candidate, waiting) if pair.seconds <= within_s]
        left_s = self._left_s() - self._reserved_s()
        names = next_group(candidates, self._group_size, left_s, self._last, self._draw)
        alone = names == [self._last] and math.isfinite(within_s)
        return [] if alone else names  # a new pair comes between two launches of this one

    def _group(self, names: Sequence[str]) -> list[NextLaunch]:
        plan = self._plan
        room, card_room, group = plan.room, plan.card_room or 0.0, list[NextLaunch]()
        for name in names:
            record = self._open[name]
            needed = launch_bytes(record, plan.side_bytes)
            on_card = 0.0 if plan.card_room is None else self._card_bytes.get(name, math.inf)
            if group and (needed > room or on_card > card_room):
                continue
            room, card_room = room - needed, card_room - on_card
            timed = "baseline", *self._timed_next(record)
            variants = [variant for variant in measurable(record) if variant.name in timed]
            is_first = not record.launches and variants[0].settings.ranks == 1  # of several, each has a part of the job
            if card := is_first and bool(record.info.job) and _job(record.info) not in self._carded:
                self._carded.add(_job(record.info))
            group.append(NextLaunch(record, variants, self._team.start, plan.limits, plan.seed, plan.at_once, card))
        return group

    def _candidate(self, record: Record) -> OpenPair:
        timed, expected = self._timed_next(record), self._undecided[record.name]
        launches = max(sum(variant in launch.variant for launch in record.launches) for variant in timed)
        left = min(expected[variant] for variant in timed)
        check_s = self._check_s.get(record.name, 0.0)
        cost_s = self._launch_s.get(record.name, check_s / (COMPILED if compiles(record.info) else 1))
        cost_s += check_s if self._unchecked_ways(record) else 0.0
        worth = 1.0
        if record.info.scale == "macro" and self._requested(record):
            worth = WHOLE_JOB if record.info.tip.id in self._answered else UNANSWERED * WHOLE_JOB
        return OpenPair(record.name, launches, left, cost_s, worth)

    def _measure_each(self, group: Sequence[Measurement], what: str) -> Iterator[Record]:
        """Prepare all of a group in parallel, then measure each with nothing else running. The wall time of preparing
        is divided among them."""
        began = time.monotonic()
        self._show(f"preparing {', '.join(measurement.name for measurement in group)}")
        try:
            failures = dict(self._team.each(_prepared, group))
            wall_s, taken_s = time.monotonic() - began, sum(measurement.prepared_s for measurement in group)
            for measurement in group:
                record = self._open[measurement.name]
                if self._left_s() <= 0:
                    break
                self._show(f"{measurement.name}: {what}")
                began = time.monotonic()
                try:
                    if failure := failures[measurement]:
                        raise failure
                    record = measurement.measure()
                except WorkerFailed as why:
                    if why.why.is_chance and self._left_s() <= 0:  # a process of its own was no more started
                        break
                    if len(group) > 1 and self._plan.card_room is not None and why.why.code == _NO_MEMORY:
                        self._card_bytes[measurement.name] = math.inf
                        self._carded.discard(_job(record.info))
                    else:
                        record = mark_failed(record, why)
                measurement.end()
                self._last = measurement.name
                share = measurement.prepared_s / taken_s if taken_s else 1 / len(group)
                spent = wall_s * share + time.monotonic() - began
                if what == "launch":
                    self._launch_s[measurement.name] = spent
                yield self._update(replace(record, wall_s=round(record.wall_s + spent, 3)))
        finally:
            for measurement in group:
                measurement.end()


def _prepared(measurement: Measurement) -> WorkerFailed | None:
    """Prepare a launch or memory pass; the failure, or None."""
    try:
        measurement.prepare()
    except WorkerFailed as failure:
        measurement.end()  # at once, to release its memory to those that are still being prepared
        return failure
    return None


def _job(info: PairInfo) -> tuple[str, str]:
    """Equal for pairs whose jobs do the same work."""
    return info.job, json.dumps(info.sizes, sort_keys=True)
