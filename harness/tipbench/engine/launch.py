"""One launch: fresh processes that build and warm up all open sides of a pair, and then time them in turns."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Any

from tipbench.engine.checks import WARM, Start
from tipbench.engine.handle import DEADLINE, WorkerFailed, WorkerHandle
from tipbench.engine.launcher import compiles
from tipbench.engine.limits import Limits
from tipbench.machine.activity import Usage
from tipbench.records.record import Launch, Record, VariantInfo
from tipbench.tip.process import ProcessSettings
from tipbench.verdict.launches import round_effects
from tipbench.verdict.rules import MARGIN
from tipbench.verdict.steady import suspicious, works_ahead

WARMING = threading.Lock()
"""Held while a launch warms up: one at a time uses all cores while others start, build and compile. OpenMP threads spin
at barriers, so two whole jobs at once take several times as long as one after the other."""


TRIED, LONGER = 3, 4
"""The first launch times TRIED rounds to learn how long a round takes. It stops after one round that takes LONGER times
the limit of a launch, as when a step is a whole command."""

CAP_RAISED = 6
"""After so many launches an undecided pair may use as many rounds as `Limits` allows, not only as many as its first
launch chose in a perhaps calm moment. Evidence: harness/decisions.md, "More rounds after six launches"."""

FINE = 0.1
FEWEST_ROUNDS, FEWEST_LONG_ROUNDS = 5, 2
LONG_ROUND_S = 0.5
"""Minimum rounds of a further launch, see `rounds_enough`. A trimmed mean drops two of five rounds. FEWEST_LONG_ROUNDS
is for rounds of at least LONG_ROUND_S seconds, which are most of a launch's cost, and where a spike matters little."""

LONG_S = 0.02
"""Seconds. Steps at least this long need no untimed step first if the previous block was of the same variant: what gets
cold in a pause of a millisecond is negligible. With blocks of one step this saves a fifth of all steps."""

VERY_LONG_S = 1.0
"""Seconds. Steps at least this long never need an untimed step first: caches refill within milliseconds."""

STRETCH_DEADLINES = 0.25
"""Longest a stretch is planned to last, as a share of the deadline for an answer."""


class NextLaunch:
    """The next launch of a pair: prepared in parallel with others, paused, then measured alone.

    Attributes:
        name: of the pair.
        prepared_s: seconds that its preparation adds to that of the other launches.
        card_bytes: what its processes hold of the GPU where they hold most, once it is prepared; 0 on a CPU.
    """

    def __init__(
        self,
        record: Record,
        variants: Sequence[VariantInfo],
        start: Start,
        limits: Limits,
        seed: int,
        at_once: int = 1,
        card: bool = False,
    ) -> None:
        """variants: those to time, the baseline first. at_once: how many launches are prepared at the same time.
        card: whether to profile the job as well."""
        self.name = record.name
        self._record = record
        self._variants = variants
        self._start = start
        self._limits = limits
        self._seed = seed + len(record.launches)
        self._building = building_order(variants, seed, len(record.launches))
        self._at_once = at_once
        self._card = card
        launches = record.launches
        self._by_stretch = bool(launches) and launches[0].by_stretch
        self._workers: dict[ProcessSettings | str, WorkerHandle] = {}
        self._running: WorkerHandle | None = None
        self._last = ""
        self._step_s: dict[str, float] = {}
        self._has_threads = self._loads = False
        self.prepared_s = 0.0
        self.card_bytes = 0

    def prepare(self) -> None:
        """Start, build and warm up, and stop all of its processes. Raises WorkerFailed."""
        began = time.monotonic()
        for place, settings in {self._place(variant): variant.settings for variant in self._variants}.items():
            self._workers[place] = self._worker(settings)
        first = compiles(self._record.info)
        for variant in self._building:  # processes of their own build at once
            self._workers[self._place(variant)].begin("build", variant=variant.name, seed=self._seed, first=first)
        for variant in self._building:
            with _of(variant.name):
                self._workers[self._place(variant)].finish()
        self.prepared_s = (time.monotonic() - began) / self._at_once
        with WARMING:
            began = time.monotonic()
            held: dict[ProcessSettings | str, int] = {}
            for variant in self._building:
                with _of(variant.name):
                    warm = self._workers[self._place(variant)].ask("warm", variant=variant.name)
                self._step_s[variant.name] = warm["step_s"]
                self._has_threads |= warm["threads"]
                self._loads |= warm["children"]
                held[self._place(variant)] = warm["card_bytes"]
            self.card_bytes = sum(held.values())
            for worker in self._workers.values():
                worker.pause()
            self.prepared_s += time.monotonic() - began

    def measure(self) -> Record:
        """The record with this launch added. The pair's first launch sets the steps per block of all, and the first of
        its variants their maximum number of rounds.

        Raises WorkerFailed, also where a side works ahead between its blocks.
        """
        before_it = Usage.now()
        steps = self._record.steps or self._steps_a_block()
        turns = rounds_of([variant.name for variant in self._variants], self._seed)

        def more(count: int) -> list[list[dict[str, Any]]]:
            return [[self._block(name, steps) for name in order] for order in islice(turns, max(0, count))]

        optimized = [variant.name for variant in self._variants[1:]]
        earlier = self._record.launches
        if before := [launch for launch in earlier if not set(optimized).isdisjoint(launch.variant)]:
            most = before[0].rounds
            if len(before) >= CAP_RAISED:
                most = max(most, self._limits.most_rounds(sum(before[0].seconds) / most))
            rounds = more(min(most, max(rounds_enough(before, name, most) for name in optimized)))
        else:
            began = time.monotonic()
            rounds = more(1)
            if not self._loads and time.monotonic() - began < LONGER * self._limits.longest_s:
                rounds += more(TRIED - 1)
                round_s = (time.monotonic() - began) / TRIED
                rounds += more(self._limits.least_rounds(round_s) - TRIED)
                tried = self._launch_of(rounds)
                spread = median(deviation(round_effects(tried, name)) for name in optimized)
                rounds += more(self._limits.rounds_for(spread, self.prepared_s, round_s) - len(rounds))
        # Before any process ends: the time of those that are killed is in nobody's count.
        launch = replace(self._launch_of(rounds), others=Usage.now().others(before_it))
        # All launches of a pair are judged alike, also those that were made before an interruption.
        by_stretch = earlier[0].by_stretch if earlier else self._loads
        if by_stretch or (self._has_threads and not self._loads and suspicious(earlier, self._sharing())):
            stretches = self._stretches(launch, steps, every=by_stretch)
            launch = replace(launch, stretches=stretches, by_stretch=by_stretch)
        for variant in self._variants:
            if ahead := works_ahead((*earlier, launch), variant.name):
                raise WorkerFailed(ahead, variant.name)
        if self._card:
            launch = replace(launch, card=self._alone("baseline").ask("job_card", seed=self._seed))
        return replace(self._record, steps=steps, launches=(*earlier, launch))

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def _place(self, variant: VariantInfo) -> ProcessSettings | str:
        """Which process has the variant: those with equal settings share one, unless each is timed alone."""
        return variant.name if self._by_stretch else variant.settings

    def _worker(self, settings: ProcessSettings) -> WorkerHandle:
        info = self._record.info
        # Where a tip changes the process settings, no side is forked: the pages a forked worker shares with its
        # server would be a difference that is not the tip's.
        alike = len({variant.settings for variant in info.variants}) == 1
        launch = len(self._record.launches) if alike else None
        return self._start(info, settings, f"{WARM}{self.name}", launch)

    def _launch_of(self, rounds: Sequence[Sequence[dict[str, Any]]]) -> Launch:
        return Launch.of_blocks(self._seed, len(rounds), [block for timed in rounds for block in timed])

    def _block(self, variant: str, steps: int) -> dict[str, Any]:
        """Time one block while the launch's other processes are paused."""
        again = self._step_s[variant] >= (LONG_S if variant == self._last else VERY_LONG_S)
        self._last = variant
        with _of(variant):
            block = self._alone(variant).ask("block", variant=variant, steps=steps, again=again)
        return {"variant": variant, **block}

    def _sharing(self) -> list[str]:
        """The sides that share their process with another."""
        settings = [variant.settings for variant in self._variants]
        return [variant.name for variant in self._variants if settings.count(variant.settings) > 1]

    def _stretches(self, launch: Launch, steps: int, every: bool) -> dict[str, tuple[float, ...]]:
        """Each side that shares its process, timed alone in a fresh one for as long as the blocks of both sides in
        this launch: there nothing can be computed while another side is timed.

        every: also the sides that share none, and for as long as a launch's rounds may take, where launches are judged
        by stretches. Workers that load data are stopped while other sides are timed (`benchmarks/jobs/loading.py`), but
        what each block finds in their queues still differs from what a loop finds that never stops.
        """
        blocks_s = dict.fromkeys(self._step_s, 0.0)
        for name, seconds in zip(launch.variant, launch.seconds, strict=True):
            blocks_s[name] += seconds
        longest = max(seconds for name, seconds in blocks_s.items() if name != "baseline")
        stretches = {}
        if self._running and not self._by_stretch:
            self._running.pause()
            self._running = None
        for variant in self._variants:
            name = variant.name
            if every or name in self._sharing():
                both_s = blocks_s[name] + (longest if name == "baseline" else blocks_s["baseline"])
                longest_s = STRETCH_DEADLINES * DEADLINE
                seconds = min(self._limits.longest_s if every else both_s, longest_s)
                with _of(name):
                    stretches[name] = self._stretch(variant, steps, seconds)
        return stretches

    def _stretch(self, variant: VariantInfo, steps: int, seconds: float) -> tuple[float, ...]:
        if self._by_stretch:  # since it was built, its process has timed nothing else
            return tuple(self._alone(variant.name).ask("stretch", variant=variant.name, steps=steps, seconds=seconds))
        worker = self._worker(variant.settings)
        try:
            worker.ask("build", variant=variant.name, seed=self._seed, first=compiles(self._record.info))
            worker.ask("warm", variant=variant.name)
            return tuple(worker.ask("stretch", variant=variant.name, steps=steps, seconds=seconds))
        finally:
            worker.end()

    def _alone(self, variant: str) -> WorkerHandle:
        """The process of a variant, while the launch's other processes are paused.

        OpenMP's threads spin for milliseconds after their last step (Intel's for 200), on the cores that
        the next process's block needs.
        """
        worker = self._workers[next(self._place(info) for info in self._variants if info.name == variant)]
        if worker is not self._running:
            if self._running:
                self._running.pause()
            worker.resume()
            self._running = worker
        return worker

    def _steps_a_block(self) -> int:
        """How many steps of the fastest variant fill a block of `Limits.block_s` seconds, found by timing blocks.

        The warm-up's step time was measured beside other launches, and a single block may be disturbed. Blocks that are
        too short would stay so in all launches, so the fastest of three must last long enough. Much longer steps need
        no trial.
        """
        block_s = self._limits.block_s
        if min(self._step_s.values()) >= 4 * block_s:
            return 1
        alone: dict[str, float] = {}
        for variant, step_s in self._step_s.items():
            count = max(1, math.ceil(block_s / step_s))
            alone[variant] = self._block(variant, count)["seconds"] / count
        fastest = min(alone, key=alone.__getitem__)
        steps = max(1, math.ceil(block_s / alone[fastest]))
        for _ in range(5):
            seconds: float = min(self._block(fastest, steps)["seconds"] for _ in range(3))
            if seconds >= block_s:
                break
            steps = max(steps + 1, math.ceil(steps * 1.1 * block_s / seconds))
        return steps


@contextmanager
def _of(variant: str) -> Iterator[None]:
    """Blame this variant for a failure within, so that the pair's other variants can still be measured."""
    try:
        yield
    except WorkerFailed as failure:
        failure.variant = variant
        raise


def building_order(variants: Sequence[VariantInfo], seed: int, number: int) -> list[VariantInfo]:
    """Random, and in every second launch the reverse of the one before.

    Of two identical sides of a whole job the one that was built last was faster by 2 %: with the same order in each
    launch that was an error, now it is noise. Evidence: harness/decisions.md, "The order in which sides are built".
    """
    order = random.Random(f"building {seed} {number // 2}").sample(list(variants), len(variants))
    return order[::-1] if number % 2 else order


def rounds_of(names: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Endless rounds, each the variants in random order followed by the reverse of that order.

    With two variants a round is ABBA or BAAB, so a drift that is linear over a round cancels.
    """
    order = random.Random(seed)
    while True:
        half = order.sample(names, len(names))
        yield half + half[::-1]


def rounds_enough(launches: Sequence[Launch], variant: str, most: int) -> int:
    """Rounds with which a further launch's noise is FINE times the distance of the variant's effect from the margins;
    `most` if the effect lies within them, or if no launch has timed the variant.

    An effect far from the margins needs less time than one near them. Only finished launches decide: a launch's own
    results must not decide how many of its rounds count.
    """
    timed = [launch for launch in launches if variant in launch.variant]
    effects = [effect for launch in timed for effect in round_effects(launch, variant)]
    target_noise = FINE * (abs(median(effects)) - MARGIN) if effects else 0.0
    if target_noise <= 0:
        return most
    fewest = FEWEST_LONG_ROUNDS if sum(timed[0].seconds) >= LONG_ROUND_S * timed[0].rounds else FEWEST_ROUNDS
    return max(fewest, math.ceil((deviation(effects) / target_noise) ** 2))


def deviation(effects: Sequence[float]) -> float:
    """Standard deviation, estimated from the median absolute deviation, which a single spike does not move."""
    middle = median(effects)
    return median(abs(effect - middle) for effect in effects) / 0.6745
