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
from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.engine.launcher import compiles
from tipbench.engine.profiles import Profile
from tipbench.engine.purpose import Purpose
from tipbench.records.record import Launch, Record, VariantInfo
from tipbench.tip.process import ProcessSettings
from tipbench.verdict.launches import round_effects
from tipbench.verdict.rules import MARGIN

WARMING = threading.Lock()
"""One launch warms up at a time, on all cores, while others start, build and compile. OpenMP's threads spin at their
barriers: two whole jobs that run at a time on the same cores take several times as long as one after the other."""


TRIED, LONGER = 3, 4
"""Rounds of the first launch that show how long one takes; it has no fewer, unless one takes LONGER times what all
rounds of a launch may, as with a whole command for a step."""

CAP_RAISED = 6
"""Launches after which a pair that is still open may have as many rounds as `Profile` allows, whatever its first launch
chose: that one may have met a calm moment, and there are 18 launches at most. Planted differences of 3 % were found in
21 of 27 runs where later launches kept to the first one's 10 to 40 rounds; the others ended undecided at 18 launches of
10 to 14 rounds. Since then in 19 of 19."""

FINE = 0.1
FEWEST, FEWEST_LONG = 5, 2
LONG_ROUND_S = 0.5
"""See `rounds_enough`. Of five rounds a trimmed mean leaves two out. Rounds of LONG_ROUND_S or more are most of what a
launch costs, and a spike is a small part of each."""

LONG_S = 0.02
"""Steps that take so long need no untimed one before them where the block before was of the same side: what a pause of
a millisecond leaves cold is nothing to them. With blocks of one step that is a fifth of all steps, by count."""

VERY_LONG_S = 1.0
"""Steps that take so long need none in any case: what the other side's block leaves cold fills in milliseconds."""


class NextLaunch:
    """The next launch of a pair. It is prepared beside others, stopped, and then measured with nothing beside it.

    prepared_s: what preparing it adds to that of the others, in seconds.
    """

    def __init__(
        self,
        record: Record,
        variants: Sequence[VariantInfo],
        start: Start,
        profile: Profile,
        seed: int,
        at_once: int = 1,
        card: bool = False,
    ) -> None:
        """variants: those to time, the baseline first. at_once: how many launches share the machine while preparing.
        card: whether that of its job is wanted too."""
        self.name = record.name
        self._record = record
        self._variants = variants
        self._start = start
        self._profile = profile
        self._seed = seed + len(record.launches)
        self._at_once = at_once
        self._card = card
        self._workers: dict[ProcessSettings, WorkerHandle] = {}
        self._running: WorkerHandle | None = None
        self._last = ""
        self._step_s: dict[str, float] = {}
        self.prepared_s = 0.0

    def prepare(self) -> None:
        """Start, build and warm up, and stop all of its processes. Raises WorkerFailed."""
        began = time.monotonic()
        info = self._record.info
        # Where a tip changes the process settings, no side is forked: the pages a forked worker shares with its
        # server would be a difference that is not the tip's.
        alike = len({variant.settings for variant in info.variants}) == 1
        launch = len(self._record.launches) if alike else None
        for settings in dict.fromkeys(variant.settings for variant in self._variants):
            self._workers[settings] = self._start(info, settings, f"{WARM}{self.name}", Purpose.LAUNCH, launch)
        first = compiles(info)
        for variant in self._variants:  # processes of their own build at once
            self._workers[variant.settings].begin("build", variant=variant.name, seed=self._seed, first=first)
        for variant in self._variants:
            with _of(variant.name):
                self._workers[variant.settings].finish()
        self.prepared_s = (time.monotonic() - began) / self._at_once
        with WARMING:
            began = time.monotonic()
            for variant in self._variants:
                with _of(variant.name):
                    warm = self._workers[variant.settings].ask("warm", variant=variant.name)
                self._step_s[variant.name] = warm["step_s"]
            for worker in self._workers.values():
                worker.pause()
            self.prepared_s += time.monotonic() - began

    def measure(self) -> Record:
        """The record with this launch. The first launch settles the steps a block for all, and the most rounds: one,
        where that takes LONGER times what a launch may.

        Raises WorkerFailed.
        """
        steps = self._record.steps or self._steps_a_block()
        turns = rounds_of([variant.name for variant in self._variants], self._seed)

        def more(count: int) -> list[list[dict[str, Any]]]:
            return [[self._block(name, steps) for name in order] for order in islice(turns, max(0, count))]

        others = [variant.name for variant in self._variants[1:]]
        if before := self._record.launches:
            most = before[0].rounds
            if len(before) >= CAP_RAISED:
                most = max(most, self._profile.most_rounds(sum(before[0].seconds) / most))
            rounds = more(min(most, max(rounds_enough(before, name, most) for name in others)))
        else:
            began = time.monotonic()
            rounds = more(1)
            if time.monotonic() - began < LONGER * self._profile.longest_s:
                rounds += more(TRIED - 1)
                round_s = (time.monotonic() - began) / TRIED
                rounds += more(self._profile.least_rounds(round_s) - TRIED)
                tried = self._launch_of(rounds)
                spread = median(deviation(round_effects(tried, name)) for name in others)
                rounds += more(self._profile.rounds_for(spread, self.prepared_s, round_s) - len(rounds))
        launch = self._launch_of(rounds)
        if self._card:
            launch = replace(launch, card=self._alone("baseline").ask("job_card", seed=self._seed))
        return replace(self._record, steps=steps, launches=(*before, launch))

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def _launch_of(self, rounds: Sequence[Sequence[dict[str, Any]]]) -> Launch:
        return Launch.of_blocks(self._seed, len(rounds), [block for timed in rounds for block in timed])

    def _block(self, variant: str, steps: int) -> dict[str, Any]:
        """One block, while the launch's other processes are stopped."""
        again = self._step_s[variant] >= (LONG_S if variant == self._last else VERY_LONG_S)
        self._last = variant
        with _of(variant):
            block = self._alone(variant).ask("block", variant=variant, steps=steps, again=again)
        return {"variant": variant, **block}

    def _alone(self, variant: str) -> WorkerHandle:
        """The process of a variant, while the launch's other processes are stopped.

        OpenMP's threads spin for milliseconds after their last step (Intel's for 200), on the cores that
        the next process's block needs.
        """
        worker = self._workers[next(one.settings for one in self._variants if one.name == variant)]
        if worker is not self._running:
            if self._running:
                self._running.pause()
            worker.resume()
            self._running = worker
        return worker

    def _steps_a_block(self) -> int:
        """How many steps of the fastest variant make a block of `Profile.block_s`, tried out.

        What the warm-up said was measured beside others, and a single block may be disturbed. Too short blocks would
        stay for all launches: the fastest of three blocks must last long enough. Steps far longer need no trying.
        """
        block_s = self._profile.block_s
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
    """What fails here is the variant's fault, and the others of the pair can be measured further."""
    try:
        yield
    except WorkerFailed as failure:
        failure.variant = variant
        raise


def rounds_of(names: Sequence[str], seed: int) -> Iterator[list[str]]:
    """Whose block comes when, round by round without end: each a random order and then its mirror.

    With two variants that is ABBA or BAAB: a drift that is linear over a round cancels.
    """
    order = random.Random(seed)
    while True:
        half = order.sample(names, len(names))
        yield half + half[::-1]


def rounds_enough(launches: Sequence[Launch], variant: str, most: int) -> int:
    """Rounds of a further launch that make its noise FINE of what separates the variant's effect from the margins;
    `most` where it lies within them.

    So much time as an effect near the margins needs would be wasted on one that is far from them. Only launches that
    are over choose: what a launch has found must not decide how much of it counts.
    """
    effects = [effect for launch in launches for effect in round_effects(launch, variant)]
    wanted = FINE * (abs(median(effects)) - MARGIN)
    if wanted <= 0:
        return most
    fewest = FEWEST_LONG if sum(launches[0].seconds) >= LONG_ROUND_S * launches[0].rounds else FEWEST
    return max(fewest, math.ceil((deviation(effects) / wanted) ** 2))


def deviation(effects: Sequence[float]) -> float:
    """Their standard deviation, from the median deviation, which a single spike does not move."""
    middle = median(effects)
    return median(abs(effect - middle) for effect in effects) / 0.6745
