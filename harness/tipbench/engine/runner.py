"""Measures pairs: what is checked, what is timed next, when to stop. Yields what has been learnt, and prints nothing.

One pair of each tip is checked, many at a time, and launched once; then all others are. A group of next launches, each
of another pair, is prepared at once, and stopped; then each is measured alone. After this round `allocation` says
whose launch is next. Memory comes early where it is what a tip claims, else when nothing is open or time runs short.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from tipbench.engine.allocation import FIRST, UNANSWERED, WHOLE_JOB, OpenPair, next_group
from tipbench.engine.checks import MemoryPass, Start, checked, failed, measurable
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launch import NextLaunch
from tipbench.engine.launcher import compiles
from tipbench.engine.profiles import Profile
from tipbench.engine.team import Team
from tipbench.records.record import PairInfo, Record
from tipbench.tip.pair import Claim
from tipbench.verdict.launches import launch_effects
from tipbench.verdict.rules import Rules
from tipbench.verdict.verdict import judge, undecided

MEMORY_S = 4.0
"""Seconds that a memory pass takes for each side, mostly to import torch, until one was seen; 2 to 4 on 2 cores."""

GROUP = 8
"""Most launches that stand prepared at a time."""

UNKNOWN_BYTES = 3 << 29
"""What the processes of a pair are taken to need before its memory has been measured; few need more."""

COMPILED = 5
"""What has been compiled in a check is not compiled again: launches were seen to take this much less time."""

IMPORTED_BYTES = 512 << 20
"""What a process needs that has imported torch and the pair's file; 320 to 450 MB were seen."""

ALONE = (Claim.LEANER, Claim.SOONER)
"""Claims that are judged by what the memory passes find."""

Show = Callable[[str], None]
"""Called with what begins, only between blocks: whatever it draws costs no measured time."""


@dataclass(frozen=True)
class Plan:
    """How a run is made.

    cores: of the machine, which the rule that leaves rounds out asks for. at_once: how many pairs are checked, and
    launches prepared, at a time; 1: one after another, and nothing is prepared beside a launch. room: bytes that
    what is prepared may need. side_bytes: what one side of a pair needs, where that is known before it is measured.
    budget_s: seconds after which nothing more is begun. first: names of pairs that are checked, and launched once,
    before all others.
    """

    profile: Profile
    rules: Rules
    seed: int
    cores: int
    at_once: int = 1
    room: float = math.inf
    side_bytes: int = 0
    budget_s: float = math.inf
    first: Sequence[str] = ()


class Passing(Protocol):
    """What is prepared beside others, and measured alone."""

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
) -> Generator[Record, None, None]:
    """Measure the pairs. Yields a pair's record whenever something has been learnt of it: checks, memory, a launch.

    broken: by name, the records of files that could not be imported. begun: by name, the records of pairs that were
    interrupted; they are gone on with where the pair is still the same, its code included, and else measured anew.
    """
    with closing(Team(start, plan.at_once)) as team:
        yield from _Runner(team, plan, show).run(pairs, broken or {}, begun or {})


def measure(info: PairInfo, start: Start, plan: Plan) -> Record:
    """One pair from check to last launch. Never raises for what the pair does: that is its record."""
    *_, record = run([info], start, plan, lambda what: None)
    return record


def answered(record: Record, rules: Rules, cores: int) -> bool:
    """Whether no further launch is to be made of a pair."""
    return record.outcome != "measured" or not undecided(record, rules, cores)


def complete(record: Record, rules: Rules, cores: int) -> bool:
    """Whether nothing more is to be learnt of a pair."""
    return answered(record, rules, cores) and not _lacks_memory(record)


def first_of_tips(pairs: Sequence[PairInfo]) -> list[PairInfo]:
    """One pair of each tip, a whole job where it has any: a number of it is what a reader wants first. And all that
    cannot run here, which takes no time to say."""
    first: dict[str, PairInfo] = {}
    for info in sorted(pairs, key=lambda info: info.scale != "macro"):
        if not info.why:
            first.setdefault(info.tip["id"], info)
    return [info for info in pairs if info.why or info is first[info.tip["id"]]]


class _Runner:
    def __init__(self, team: Team, plan: Plan, show: Show) -> None:
        self._team = team
        self._plan = plan
        self._show = show
        self._end = time.monotonic() + plan.budget_s
        self._group_size = 1 if plan.at_once == 1 else GROUP
        self._draw = random.Random(plan.seed)
        self._open: dict[str, Record] = {}
        self._undecided: dict[str, list[str]] = {}
        self._check_s: dict[str, float] = {}
        self._launch_s: dict[str, float] = {}
        self._memory_taken_s = 0.0
        self._sides_read = 0
        self._last = ""
        self._carded: set[tuple[str, str]] = set()
        self._answered: set[str] = set()

    def run(
        self, pairs: Sequence[PairInfo], broken: Mapping[str, Record], begun: Mapping[str, Record]
    ) -> Iterator[Record]:
        to_check = []
        for info in pairs:
            before = begun.get(info.name)
            if info.name in broken:
                yield broken[info.name]
            elif before is not None and before.info == info:
                self._learnt(before)
            else:
                to_check.append(info)
        urgent = [info for info in to_check if info.name in self._plan.first]
        first = [info for info in first_of_tips(to_check) if info not in urgent]
        for part in (urgent, first, [info for info in to_check if info not in (*urgent, *first)]):
            yield from self._check(part)
            yield from self._launches(FIRST)
        yield from self._memory([record for record in self._open.values() if record.info.tip["claim"] in ALONE])
        yield from self._launches()
        yield from self._memory(list(self._open.values()))
        yield from self._launches()

    def _left_s(self) -> float:
        return self._end - time.monotonic()

    def _kept_s(self) -> float:
        """Seconds of the budget that launches leave to the memory passes."""
        if math.isinf(self._plan.budget_s):
            return 0.0
        sides = sum(len(measurable(record)) for record in self._open.values() if _lacks_memory(record))
        return min(self._plan.profile.memory * self._plan.budget_s, self._memory_s() * sides)

    def _memory_s(self) -> float:
        """Expected seconds that a memory pass takes for each side."""
        return self._memory_taken_s / self._sides_read if self._sides_read else MEMORY_S

    def _learnt(self, record: Record) -> Record:
        """Keep the record of a pair, as long as there is more to learn of it."""
        self._open.pop(record.name, None)
        if record.launches and record.launches[0].card:
            self._carded.add(_job(record.info))
        if record.outcome == "measured":
            self._undecided[record.name] = undecided(record, self._plan.rules, self._plan.cores)
            if record.info.scale == "macro" and not self._undecided[record.name]:
                self._answered.add(record.info.tip["id"])
            if self._undecided[record.name] or _lacks_memory(record):
                self._open[record.name] = record
        return record

    def _check(self, pairs: Sequence[PairInfo]) -> Iterator[Record]:
        """Those that compile come first, as they take longest: the last one to end would be checked alone."""
        if pairs:
            self._show(f"checking {len(pairs)} pairs")
        for info, found in self._team.each(self._checked, sorted(pairs, key=compiles, reverse=True)):
            if found is not None:
                self._check_s[info.name] = found.wall_s
                yield self._learnt(found)

    def _checked(self, info: PairInfo) -> Record | None:
        """None where the time is up."""
        began = time.monotonic()
        if not info.why and self._left_s() <= 0:
            return None
        record = checked(info, self._team.start, self._plan.seed)
        return replace(record, wall_s=round((time.monotonic() - began) / self._plan.at_once, 3))

    def _memory(self, records: Sequence[Record]) -> Iterator[Record]:
        wanting = [record for record in records if _lacks_memory(record)]
        # What a tip costs in memory matters first where it pays.
        wanting.sort(key=self._pays, reverse=True)
        while wanting:
            most = self._left_s() / self._memory_s()
            group: list[Record] = []
            sides = 0
            for record in wanting:
                more = len(measurable(record))
                room = not group or (sides + more) * IMPORTED_BYTES <= self._plan.room
                if room and sides + more <= most and len(group) < self._group_size:
                    group.append(record)
                    sides += more
            if not group:
                return
            wanting = [record for record in wanting if record not in group]
            passes = [MemoryPass(record, self._team.start, self._plan.seed) for record in group]
            began = time.monotonic()
            yield from self._one_by_one(passes, "memory")
            self._memory_taken_s += time.monotonic() - began
            self._sides_read += sides

    def _pays(self, record: Record) -> bool:
        return any(one.verdict == "faster" for one in judge(record, self._plan.rules, self._plan.cores))

    def _launches(self, most: float = math.inf) -> Iterator[Record]:
        """Groups of launches until nothing is open, or nothing more fits into the budget; `most` of each pair."""
        while group := self._group(most):
            yield from self._one_by_one(group, "launch")

    def _group(self, most: float) -> list[NextLaunch]:
        plan = self._plan
        candidates = [
            self._candidate(record)
            for record in self._open.values()
            if len(record.launches) < most and self._undecided[record.name]
        ]
        left_s = self._left_s() - self._kept_s()
        names = next_group(candidates, plan.rules.looks, self._group_size, left_s, self._last, self._draw)
        room = plan.room
        group: list[NextLaunch] = []
        for name in names:
            record = self._open[name]
            room -= _bytes(record, plan.side_bytes)
            if room < 0 and group:
                continue
            timed = "baseline", *self._undecided[name]
            variants = [variant for variant in measurable(record) if variant.name in timed]
            # One process has the whole job: of several ranks each has a part.
            card = bool(record.info.job) and not record.launches and variants[0].settings.ranks == 1
            card = card and _job(record.info) not in self._carded
            if card:
                self._carded.add(_job(record.info))
            start, profile = self._team.start, plan.profile
            group.append(NextLaunch(record, variants, start, profile, plan.seed, plan.at_once, card))
        return group

    def _candidate(self, record: Record) -> OpenPair:
        effects = {}
        for variant in self._undecided[record.name]:
            timed = [launch for launch in record.launches if variant in launch.variant]
            effects[variant], _ = launch_effects(timed, variant, self._plan.cores)
        check_s = self._check_s.get(record.name, 0.0) / (COMPILED if compiles(record.info) else 1)
        cost_s = self._launch_s.get(record.name, check_s)
        answered = record.info.tip["id"] in self._answered
        worth = (WHOLE_JOB if answered else UNANSWERED * WHOLE_JOB) if record.info.scale == "macro" else 1.0
        return OpenPair(record.name, len(record.launches), effects, cost_s, worth)

    def _one_by_one(self, group: Sequence[Passing], what: str) -> Iterator[Record]:
        """Prepare all at once, then measure each with nothing beside it. Their wall time is shared out among them."""
        began = time.monotonic()
        self._show(f"preparing {', '.join(one.name for one in group)}")
        try:
            failures = dict(self._team.each(_prepared, group))
            wall_s, taken_s = time.monotonic() - began, sum(one.prepared_s for one in group)
            for one in group:
                record = self._open[one.name]
                self._show(f"{one.name}: {what}")
                began = time.monotonic()
                try:
                    if failure := failures[one]:
                        raise failure
                    record = one.measure()
                except WorkerFailed as why:
                    record = failed(record, why)
                one.end()
                self._last = one.name
                share = one.prepared_s / taken_s if taken_s else 1 / len(group)
                spent = wall_s * share + time.monotonic() - began
                if what == "launch":
                    self._launch_s[one.name] = spent
                yield self._learnt(replace(record, wall_s=round(record.wall_s + spent, 3)))
        finally:
            for one in group:
                one.end()


def _prepared(one: Passing) -> WorkerFailed | None:
    """What went wrong."""
    try:
        one.prepare()
    except WorkerFailed as failure:
        one.end()  # now: what it holds would be missing to those that are prepared beside it
        return failure
    return None


def _job(info: PairInfo) -> tuple[str, str]:
    """Equal for pairs whose jobs do the same work."""
    return info.job, json.dumps(info.sizes, sort_keys=True)


def _lacks_memory(record: Record) -> bool:
    return record.outcome == "measured" and any(
        found.outcome == "measured" and not found.one_off for found in record.variants.values()
    )


def _bytes(record: Record, side_bytes: int) -> float:
    """What its processes need at most, all its sides in memory at a time. side_bytes: as `Plan` has it."""
    peaks = [max(found.memory.values()) for found in record.variants.values() if found.memory]
    return sum(peaks) if peaks else max(UNKNOWN_BYTES, side_bytes * len(measurable(record)))
