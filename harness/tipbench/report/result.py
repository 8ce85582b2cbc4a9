"""One row of a run's results: a pair and variant, with all that a page or a format says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tipbench.records.trainings import Trainings
from tipbench.tip.pair import CONTROL, Claim, TipText
from tipbench.tip.reason import Reason
from tipbench.verdict.rules import MARGIN
from tipbench.verdict.statistics import Mean

READINGS = ("sm_mhz", "memory_mhz", "celsius", "milliwatts")
"""Of `Launch.gpu`, what a row has: the median over the blocks of a side."""

MEMORY_KINDS = {
    "allocated_peak": "GPU memory",
    "steady_peak": "live tensors",
    "tensor_peak": "live tensors, build included",
    "resident_peak": "resident memory",
}
"""What a memory claim is judged by, best first, if both sides have it."""

MEMORY_MARGIN = 0.05
"""Peaks within +-5 % are of no practical size."""

ONE_OFF_NOISE_S = 0.1
ONE_OFF_NOISE_SHARE = 0.1
"""One-off costs are measured once a variant. Identical sides (the controls, 24 pairs on 2 cores) differed by
up to 0.056 s: an excess of up to 0.1 s, or a tenth of the baseline's own, earns no "pays after N steps"."""

Key = tuple[str, str, str, str]
"""What is compared with its like: tip, pair, variant, device."""

Sides = tuple[float, float]
"""Of the baseline and the variant."""


@dataclass(frozen=True)
class Result:
    """One pair and variant in one run. None: not known, or not measured.

    Attributes:
        tip: its id. about: the tip, as stored.
        pair, variant, device: what was measured; device is "cpu" or "cuda".
        scale: "micro" for an operation alone, "macro" for a whole job.
        is_headline: whether the guide words the tip so.
        task: of a whole job, what it does: "training", "inference", or "processes" for several at once.
        job: of a whole job, its name; pairs of equal job and sizes do the same work.
        sizes: the pair's, as JSON with sorted keys.
        ranks: processes of the variant, where they share its work.
        file: where the pair is written.
        work: a digest of code, sizes and `flush_l2`: results of equal key and work are replicates.
        verdict: faster, slower, no difference, at most 3 %, inconclusive, skipped or failed.
        speedup, low, high: time of the baseline over the variant's, with the 95 % interval the verdict rests on.
        launches: behind the speedup.
        effects: ln of the speedup in each of these launches, in the order in which they ran.
        error: standard error of ln speedup; None if the effect may be all of a GPU's clock.
        freedom: degrees of freedom of the error.
        quarantined: rounds that were left out as disturbed.
        truth: the true speedup, if the pair was planted and declares it.
        step_s: seconds of a step of the baseline, the median over its blocks.
        baseline_memory, variant_memory: peaks in bytes, as `VariantRecord.memory` has them.
        one_off_sides: seconds that both sides need once: build and warm-up, with cold caches.
        mechanism: what was counted and on both sides, as `VariantRecord.mechanism` has it.
        equal: how equal work was checked, as `VariantRecord.equal` has it.
        trainings: of the baseline and the variant, from the table that its tip names as evidence.
        gpu: by READINGS, what a GPU's driver reported of both sides.
        sessions: by session that timed it, what `mean` is of all; () where it was one.
        job_profile: of the first launch of a job, as `tipbench.worker.job_card` has it.
        reasons: why there is no clear answer, the main reason first.
        reason, remedy: the same in words, and what to do about it.
    """

    tip: str
    about: TipText
    pair: str
    scale: str
    variant: str
    device: str
    is_headline: bool
    task: str
    job: str
    sizes: str
    ranks: int
    file: str
    work: str
    verdict: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    launches: int = 0
    effects: tuple[float, ...] = ()
    error: float | None = None
    freedom: float | None = None
    quarantined: int = 0
    truth: float | None = None
    step_s: float | None = None
    baseline_memory: Mapping[str, int] = field(default_factory=dict)
    variant_memory: Mapping[str, int] = field(default_factory=dict)
    one_off_sides: Sides | None = None
    mechanism: Mapping[str, Any] = field(default_factory=dict)
    equal: Mapping[str, Any] = field(default_factory=dict)
    trainings: tuple[Trainings, Trainings] | None = None
    gpu: Mapping[str, Sides | None] = field(default_factory=dict)
    sessions: tuple[Mean, ...] = ()
    job_profile: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    reason: str = ""
    remedy: str = ""

    @property
    def key(self) -> Key:
        return self.tip, self.pair, self.variant, self.device

    @property
    def reason_code(self) -> str:
        """Of the main reason; empty if there is none."""
        return self.reasons[0].code if self.reasons else ""

    @property
    def pair_name(self) -> str:
        """As `Run.planned` has it."""
        return f"{self.tip}.{self.pair}" if self.pair else self.tip

    @property
    def is_identical(self) -> bool:
        """Whether both sides run the same code: of a control in which nothing was planted."""
        return self.tip == CONTROL and self.truth in (None, 1.0)

    @property
    def is_measured(self) -> bool:
        return self.verdict not in ("skipped", "failed")

    @property
    def log_speedup(self) -> float | None:
        """ln of the speedup."""
        return math.log(self.speedup) if self.speedup else None

    @property
    def mean(self) -> Mean | None:
        """Of ln speedup; None if nothing was timed, or if the effect may be all of a GPU's clock."""
        if self.log_speedup is None or self.error is None or self.freedom is None:
            return None
        return Mean(self.log_speedup, self.error, self.freedom)

    @property
    def is_timed(self) -> bool:
        return self.speedup is not None

    @property
    def log_high(self) -> float | None:
        """ln of the interval's upper end."""
        return math.log(self.high) if self.high else None

    @property
    def variant_step_s(self) -> float | None:
        """Seconds of a step of the variant: the baseline's over the speedup, so that both agree."""
        return None if self.step_s is None or self.speedup is None else self.step_s / self.speedup

    @property
    def verdict_words(self) -> str:
        """The verdict, or what the interval of too few launches for one says already."""
        if self.verdict != "inconclusive" or not self.low or not self.high:
            return "not measured" if self.verdict == "inconclusive" and not self.launches else self.verdict
        ends = math.log(self.low), math.log(self.high)
        return "likely faster" if ends[0] > MARGIN else "likely slower" if ends[1] < -MARGIN else self.verdict

    @property
    def one_off_s(self) -> float | None:
        """Seconds that the variant needs once beyond the baseline; negative: it needs less."""
        sides = self.one_off_sides
        return sides[1] - sides[0] if sides and self.is_measured else None

    @property
    def break_even_steps(self) -> int | None:
        """Steps after which a faster variant has saved what it needs once; 0: at once."""
        if self.verdict != "faster" or self.step_s is None or self.variant_step_s is None or not self.one_off_sides:
            return None
        before_s, after_s = self.one_off_sides
        return steps_to_pay(after_s - before_s, before_s, self.step_s - self.variant_step_s)

    @cached_property
    def memory_kind(self) -> str:
        """The best of MEMORY_KINDS that both sides have; empty if there is none."""
        if not self.is_measured:
            return ""
        both = (kind for kind in MEMORY_KINDS if self.baseline_memory.get(kind) and kind in self.variant_memory)
        return next(both, "")

    @property
    def memory_sides(self) -> tuple[int, int] | None:
        """Bytes of `memory_kind`."""
        kind = self.memory_kind
        return (self.baseline_memory[kind], self.variant_memory[kind]) if kind else None

    @property
    def tree_sides(self) -> tuple[int, int] | None:
        """Bytes of all processes together."""
        sides = self.baseline_memory.get("tree", 0), self.variant_memory.get("tree", 0)
        return sides if all(sides) else None

    @property
    def counted(self) -> str:
        """What the mechanism counted."""
        return str(self.mechanism.get("what", ""))

    @property
    def counts(self) -> tuple[int, int] | None:
        """What the mechanism counted, if that is a number on both sides."""
        before, after = self.mechanism.get("baseline"), self.mechanism.get("optimized")
        if not isinstance(before, int) or not isinstance(after, int) or min(before, after) < 0:
            return None
        return before, after


def steps_to_pay(extra_s: float, before_s: float, saved_s: float) -> int:
    """Steps, each shorter by saved_s, that save what a variant needs once beyond the before_s of the baseline; 0 if
    that is within noise."""
    if extra_s <= max(ONE_OFF_NOISE_S, ONE_OFF_NOISE_SHARE * before_s):
        return 0
    return math.ceil(extra_s / saved_s)


def meets_claim(result: Result) -> bool | None:
    """Whether a row shows what the guide promises; None if that is not a gain in a step's time or memory."""
    if result.about.claim not in (Claim.FASTER, Claim.LEANER) or not result.is_measured:
        return None
    if result.about.claim == Claim.FASTER:
        return result.verdict == "faster"
    sides = result.memory_sides
    return sides is not None and sides[1] <= (1 - MEMORY_MARGIN) * sides[0]
