"""One row a pair and variant: its verdict with everything that is derived beside it."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tipbench.records.record import PairInfo, Record, Run, Trainings, VariantRecord
from tipbench.tip.pair import Claim
from tipbench.verdict import rules as verdict_rules
from tipbench.verdict.launches import gpu_medians
from tipbench.verdict.rules import Rules
from tipbench.verdict.verdict import Judgement, judge_suite

CONTROL = "control"
"""Id of the tip whose pairs have identical sides."""

SHOWN_READINGS = ("sm_mhz", "memory_mhz", "celsius", "milliwatts")
"""Of `Launch.gpu`, what is shown: the median over the blocks of a side."""

JOULES = "joules_a_step"
"""The key of `VariantRecord.energy`."""

MEMORY_MARGIN = 0.05
"""Peaks within +-5 % are of no practical size."""

MEMORY_KINDS = {
    "allocated_peak": "GPU memory",
    "steady_peak": "live tensors",
    "tensor_peak": "live tensors, build included",
    "resident_peak": "resident memory",
}
"""What a memory claim is judged by, best first, where both sides have it."""


ONE_OFF_NOISE_S = 0.1
ONE_OFF_NOISE_SHARE = 0.1
"""One-off costs are measured once a variant. Identical sides (the controls, 24 pairs on 2 cores) differed by
up to 0.056 s: an excess of up to 0.1 s, or a tenth of the baseline's own, earns no "pays after N steps"."""


@dataclass(frozen=True)
class Row:
    """A judgement and what follows from it.

    step_s: seconds one step of the baseline takes, the median over all its blocks. one_off_s: seconds
    the variant needs once beyond the baseline (build and warm-up; negative: it needs less).
    break_even_steps: steps after which a faster variant has earned that back. None: not known.
    """

    judgement: Judgement
    step_s: float | None
    one_off_s: float | None
    break_even_steps: int | None

    @property
    def info(self) -> PairInfo:
        return self.judgement.record.info

    @property
    def tip(self) -> str:
        return str(self.info.tip["id"])

    @property
    def verdict(self) -> str:
        return self.judgement.verdict

    @property
    def variant(self) -> str:
        return self.judgement.variant

    @property
    def measured(self) -> bool:
        return self.verdict not in ("skipped", "failed")

    @property
    def variant_step_s(self) -> float | None:
        """Seconds a step of the variant takes: the baseline's over the speedup, so that both agree."""
        speedup = self.judgement.speedup
        return None if self.step_s is None or speedup is None else self.step_s / speedup

    @property
    def memory(self) -> dict[str, Mapping[str, int]]:
        """Bytes of both sides, as `VariantRecord.memory` names them."""
        return {"baseline": _baseline(self.judgement.record).memory, "variant": self.judgement.found.memory}

    @property
    def one_off_sides(self) -> tuple[float, float] | None:
        """Seconds that the baseline and the variant need once; None where either is not known."""
        sides = _baseline(self.judgement.record).one_off, self.judgement.found.one_off
        return (math.fsum(sides[0].values()), math.fsum(sides[1].values())) if all(sides) else None

    @property
    def trainings(self) -> tuple[Trainings, Trainings] | None:
        """Of the baseline and the variant; None where none were counted."""
        before, after = _baseline(self.judgement.record).trainings, self.judgement.found.trainings
        return (before, after) if before is not None and after is not None else None

    @property
    def effects(self) -> list[float]:
        """ln t_baseline - ln t_variant of each launch behind the estimate, in the order they ran."""
        return list(self.judgement.effects)

    def gpu(self, reading: str) -> tuple[float, float] | None:
        """Medians of a reading of `Launch.gpu` over the baseline's blocks and the variant's, or None."""
        return gpu_medians(self.judgement.record, self.variant, reading)

    @property
    def gpu_sides(self) -> dict[str, tuple[float, float] | None]:
        """By name, what a GPU's driver reported of both sides; None where it did not."""
        return {**{name: self.gpu(name) for name in SHOWN_READINGS}, JOULES: self.joules_a_step}

    @property
    def joules_a_step(self) -> tuple[float, float] | None:
        """What a step of both sides takes from the GPU's power supply; None where the driver does not tell."""
        sides = (_baseline(self.judgement.record).energy, self.judgement.found.energy)
        joules = [side[JOULES] for side in sides if JOULES in side]
        return (joules[0], joules[1]) if len(joules) == 2 else None


@dataclass(frozen=True)
class Counts:
    """How the planned pairs ended; planned is the sum of the four others."""

    planned: int
    measured: int
    skipped: int
    failed: int
    not_reached: int


def rows(run: Run) -> list[Row]:
    """All rows of a run in the order its pairs were planned."""
    place = {name: index for index, name in reversed(list(enumerate(run.planned)))}
    records = sorted(run.records, key=lambda record: place.get(record.name, len(place)))
    return [_row(judgement) for judgement in judge_suite(records, *rules(run))]


def rules(run: Run) -> tuple[Rules, int]:
    """By which the run is judged, and the cores by which it left rounds out."""
    return verdict_rules.RULES, _cores(run.machine)


def counts(run: Run) -> Counts:
    """Records beyond the plan (a file edited by hand) count as planned, so that the sum holds."""
    outcomes = Counter(record.outcome for record in run.records)
    missing = Counter(run.planned) - Counter(record.name for record in run.records)
    reached, not_reached = len(run.records), missing.total()
    return Counts(reached + not_reached, outcomes["measured"], outcomes["skipped"], outcomes["failed"], not_reached)


def promise_kept(row: Row) -> bool | None:
    """Whether a row shows what the guide promises; None where that is not a gain in a step's time or memory."""
    claim = row.info.tip["claim"]
    if claim not in (Claim.FASTER, Claim.LEANER) or not row.measured:
        return None
    if claim == Claim.FASTER:
        return row.verdict == "faster"
    memory = judged_memory(row)
    return memory is not None and memory[2] <= (1 - MEMORY_MARGIN) * memory[1]


def judged_memory(row: Row) -> tuple[str, int, int] | None:
    """(kind, baseline's bytes, variant's bytes) of the best kind that both sides have."""
    before, after = row.memory["baseline"], row.memory["variant"]
    for kind in MEMORY_KINDS:
        if before.get(kind) and kind in after:
            return kind, before[kind], after[kind]
    return None


def _row(judgement: Judgement) -> Row:
    record = judgement.record
    if judgement.verdict in ("skipped", "failed"):
        return Row(judgement, None, None, None)
    blocks = [
        seconds
        for launch in record.launches
        for variant, seconds in zip(launch.variant, launch.seconds, strict=True)
        if variant == "baseline"
    ]
    step_s = statistics.median(blocks) / record.steps if blocks else None
    one_off_s = _extra(judgement.found.one_off, _baseline(record).one_off)
    return Row(judgement, step_s, one_off_s, _break_even(judgement, step_s, one_off_s))


def _break_even(judgement: Judgement, step_s: float | None, one_off_s: float | None) -> int | None:
    if judgement.verdict != "faster" or judgement.speedup is None or step_s is None or one_off_s is None:
        return None
    before_s = math.fsum(_baseline(judgement.record).one_off.values())
    return steps_to_pay(one_off_s, before_s, step_s - step_s / judgement.speedup)


def steps_to_pay(extra_s: float, before_s: float, saved_s: float) -> int:
    """Steps, each shorter by saved_s, that save what a variant needs once beyond the before_s of the baseline; 0 where
    that is within noise."""
    if extra_s <= max(ONE_OFF_NOISE_S, ONE_OFF_NOISE_SHARE * before_s):
        return 0
    return math.ceil(extra_s / saved_s)


def _extra(variant: Mapping[str, float], baseline: Mapping[str, float]) -> float | None:
    if not variant or not baseline:
        return None
    return math.fsum(variant.values()) - math.fsum(baseline.values())


def _baseline(record: Record) -> VariantRecord:
    return record.variants.get("baseline", VariantRecord(record.outcome))


def _cores(machine: Mapping[str, object]) -> int:
    """1 where the machine does not tell."""
    cores = machine.get("cores")
    return cores if isinstance(cores, int) else 1
