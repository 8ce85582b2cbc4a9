"""Where the time of a job's step goes, in a word: a pure function of what the survey has read."""

from __future__ import annotations

from dataclasses import dataclass

from tipbench.given.survey import Survey, phases_s
from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import FORWARD, LOADING, OPTIMIZER
from tipbench.tip.wording import percent, seconds

WORTH_TRYING, MUCH, LITTLE, BUSY = 0.03, 0.3, 0.1, 0.7
"""Shares: of a step below which a phase allows at most 3 %, and from which on one phase names the step; of what this
machine can, below which neither arithmetic nor memory limits a step; and of a step, for which a card must work not to
wait for the processor."""

FAULT_S = 0.5e-6
"""Least seconds that the kernel takes to map in a page; in virtual machines 2 µs were measured."""

DISTURBED, NOT_DIAGNOSED = "disturbed", "not known"
DATA, OPTIMIZING, PROCESSOR = "waits for data", "the optimizer", "waits for the processor"
SMALL_OPERATIONS, ARITHMETIC, TRAFFIC = "many small operations", "arithmetic", "memory traffic"
MAPPING = "maps memory anew"

ACTS_ON = {
    PROCESSOR: "compile-modes cuda-graphs fused-optimizer no-grad regional-compile",
    SMALL_OPERATIONS: "compile-modes fused-optimizer no-debug-apis no-grad openmp-threads regional-compile",
    ARITHMETIC: "amp channels-last compile-modes dynamic-int8 half-precision openmp-threads tensor-cores",
    MAPPING: "allocator",
    TRAFFIC: "allocator amp channels-last checkpointing compile-modes fused-optimizer half-precision",
}
"""By word, the tips that can act on it; on loading and on the optimizer those whose ways name that phase."""


@dataclass(frozen=True)
class Diagnosis:
    """Where the time of a step goes.

    Attributes:
        word: one of the words above.
        share: of a step's time; of ARITHMETIC and TRAFFIC, of what this machine can.
        evidence: a sentence without its full stop; empty where shares of the phases say it all.
    """

    word: str
    share: float = 0.0
    evidence: str = ""

    def __str__(self) -> str:
        """`waits for data 64 %`, `arithmetic (41 % of what this machine can)`."""
        if self.word in (ARITHMETIC, TRAFFIC):
            return f"{self.word} ({percent(self.share)} of what this machine can)"
        return f"{self.word} {percent(self.share)}" if self.share else self.word

    def acts(self, tip: str, phase: str) -> bool:
        """Whether a way to follow a tip can act on it. phase: as `Way` has it."""
        of_phase = {DATA: LOADING, OPTIMIZING: OPTIMIZER}.get(self.word)
        return phase == of_phase if of_phase else tip in ACTS_ON.get(self.word, "").split()


def diagnose(survey: Survey) -> Diagnosis:
    """What a step waits for, or is limited by."""
    card = survey.card
    if survey.others > OCCUPIED:
        busy = f"other programs kept {survey.others:.1f} cores busy, so where a step's time goes is not known"
        return Diagnosis(DISTURBED, evidence=busy)
    if not card.get(FORWARD):
        return Diagnosis(NOT_DIAGNOSED)
    loading, optimizer = survey.share(LOADING), survey.share(OPTIMIZER)
    if max(loading, optimizer) >= MUCH:
        return Diagnosis(DATA, loading) if loading >= optimizer else Diagnosis(OPTIMIZING, optimizer)
    if card.get("busy", 1.0) < BUSY:
        idle = 1 - card["busy"]
        return Diagnosis(PROCESSOR, idle, f"between its kernels the card idles for {percent(idle)} of a step")
    computing_s = phases_s(card) - card.get(LOADING, 0.0)
    # A product or a copy that fits a cache better than ours is faster than what ours reach.
    reached = min(1.0, card["flops"] / card["peak_flops"] / computing_s)
    moved = min(1.0, card["bytes"] / card["peak_bytes"] / computing_s)
    evidence = (
        f"a step multiplies at {percent(reached)} of the rate of a matrix product here, and its operations read and "
        f"write at {percent(moved)} of the rate of a copy"
    )
    if FAULT_S * survey.faults > max(reached, moved) * survey.step_s:
        return Diagnosis(MAPPING, evidence=f"a step maps {survey.faults:,} pages of memory that it had given back")
    if max(reached, moved) < LITTLE:
        count = card.get("operations", 0.0)
        each = f": {count:,.0f} operations of {seconds(computing_s / count)}" if count else ""
        return Diagnosis(SMALL_OPERATIONS if survey.device == "cpu" else PROCESSOR, evidence=f"{evidence}{each}")
    return Diagnosis(ARITHMETIC, reached, evidence) if reached >= moved else Diagnosis(TRAFFIC, moved, evidence)
