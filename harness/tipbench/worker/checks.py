"""The checks on a variant: does it do the baseline's work in every step, and does the tip engage?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tipbench.records.record import LOADING
from tipbench.tip.counts import Unseen
from tipbench.tip.job import MacroPair
from tipbench.tip.pair import BY_REFERENCE, Equal, Step
from tipbench.worker import switches
from tipbench.worker.failed import Failed
from tipbench.worker.guard import Guard, seed_generators
from tipbench.worker.outputs import Outputs, Unequal, compare, drawing_alike, exact, snapshot
from tipbench.worker.reuse import handed_out_again, holds_nan, overwrite

CONSECUTIVE = 3
"""Consecutive steps that are compared."""

LOADING_ON_A_CARD = 0.1
"""Share of a step that loading may take on a GPU. Photos that cores decode took 98 % of a ResNet's step on an H200."""

SAMPLE = 4_000_000
"""Numbers stored of a further step's outputs, where a sample of them is compared."""


def check_steps(equal: Equal, device_type: str) -> int:
    """Number of steps that run before outputs are compared.

    With mode="reduce-overhead" the first step runs uncaptured and the second captures a CUDA graph: only the third is
    like the steps that are timed. Elsewhere fewer run, because with each step rounding drives correct trainings
    further apart.
    """
    return 3 if device_type == "cuda" and equal in (Equal.BITWISE, Equal.CLOSE) else 2


@dataclass
class Results:
    """What a variant's steps returned, on the host.

    Attributes:
        seeds: outputs after `check_steps` steps, one item for each seed.
        further: outputs of each of the next steps, with the last seed.
    """

    seeds: list[Outputs] = field(default_factory=list)
    further: list[Outputs] = field(default_factory=list)


def step_results(guard: Guard, variant: str, seeds: Sequence[int]) -> Results:
    """The variant's outputs from fresh inputs; with the last seed only, where they do not depend on it. Raises Failed.

    Before each step the previous step's result is overwritten, so that returning it again shows.
    """
    pair, collected = guard.pair_class, Results()
    for seed in seeds if pair.seeded else seeds[-1:]:
        last = seed == seeds[-1]
        steps = _Steps(guard, variant, seed)
        seed_generators(seed)
        with switches.changes_of_cached() as changed:
            steps.run(check_steps(pair.equal, guard.device.type))
            collected.seeds.append(steps.snapshot())
            # An error over all numbers can be judged by a sample too, and in fp64 all of them may not fit into memory.
            most = SAMPLE if pair.equal in BY_REFERENCE else None
            for _ in range(CONSECUTIVE - 1 if last else 0):
                steps.run(1)
                collected.further.append(steps.snapshot(most))
        if changed and guard.shares_its_process(variant):
            raise Failed("shared-cache", ", ".join(sorted(changed)), where=variant)
    return collected


class _Steps:
    """A variant's step, built anew. Each result is overwritten before the next step runs.

    Attributes:
        number: steps that have run.
        result: what the last step returned.
    """

    def __init__(self, guard: Guard, variant: str, seed: int) -> None:
        self.guard, self.variant = guard, variant
        self.step: Step = guard.build(variant, seed)
        guard.expect_restored(variant)
        self.number = 0
        self.result: Any = None

    def run(self, times: int) -> None:
        """Run the step. Raises Failed, also where it returns the previous step's result again."""
        with self.guard.scope(self.variant), exact(self.guard.pair_class.equal, self.guard.device), drawing_alike():
            for _ in range(times):
                before, self.result = self.result, None
                sound = before is not None and not holds_nan(before)
                overwrite(before)
                self.number += 1
                self.result = self.guard.step(self.variant, self.guard.from_the_start(self.step), self.number)
                handed_out = handed_out_again(before, self.result)
                if handed_out or (sound and holds_nan(self.result)):
                    code = "stale-results.step" if handed_out else "stale-results.nan"
                    raise Failed(code, where=self.variant, step=self.number, before=self.number - 1)

    def snapshot(self, most: int | None = None) -> Outputs:
        try:
            return snapshot(self.result, most)
        except Unequal as error:
            raise error.of(self.variant) from None


def equality(guard: Guard, variant: str, baseline: Results, optimized: Results, reference: Results) -> dict[str, Any]:
    """`VariantRecord.equal`, from comparing a variant's results (`optimized`) with the baseline's. Raises Failed."""
    pair, doing = guard.pair_class, variant
    first = check_steps(pair.equal, guard.device.type)
    try:
        equal = compare(
            pair.equal,
            pair.tolerance,
            baseline.seeds,
            optimized.seeds,
            reference.seeds,
            seeded=pair.seeded,
        )
        for index, (before, after) in enumerate(zip(baseline.further, optimized.further, strict=True)):
            doing = f"{variant}, step {first + 1 + index}"
            # Rounding drives two correct trainings apart, about twice as far with each step.
            tolerance = pair.tolerance * 2 ** (index + 1)
            compare(pair.equal, tolerance, [before], [after], reference.further[index : index + 1])
    except Unequal as error:
        raise error.of(doing) from None
    return equal


def mechanism_count(guard: Guard, variant: str, seed: int) -> Any:
    """What the variant's mechanism counts on a fresh step, or {"unseen": why} where this machine cannot count it.

    Raises Failed.
    """
    step = guard.build(variant, seed)
    guard.expect_restored(variant)
    pair = guard.pair()

    def counted() -> Any:
        try:
            return pair.mechanism.count(step)
        except Unseen as why:
            return {"unseen": str(why)}

    with guard.scope(variant):
        answer = guard.step(variant, counted)
    expect_storable(f"{variant}: mechanism", answer)
    return answer


def check_engagement(guard: Guard, baseline: Any, optimized: Any) -> dict[str, Any]:
    """Whether two counts show that the tip takes effect: {"engaged", "what"}; "engaged" is None where a count is
    unseen. Raises Failed."""
    mechanism = guard.call("step-raised", "mechanism", lambda: guard.pair().mechanism)
    if any(isinstance(answer, Mapping) and "unseen" in answer for answer in (baseline, optimized)):
        return {"engaged": None, "what": mechanism.what}
    shown = guard.call("step-raised", "mechanism", lambda: bool(mechanism.shows(baseline, optimized)))
    return {"engaged": shown, "what": mechanism.what}


def expect_little_loading(pair: type[MacroPair], phases: Mapping[str, float]) -> None:
    """phases: of a step of its job on a GPU, as of `job_card.phases_of`. Raises Failed where loading takes more than
    LOADING_ON_A_CARD of it, unless the job is there for that."""
    whole = sum(phases.values())
    if not pair.loads and phases[LOADING] > LOADING_ON_A_CARD * whole:
        raise Failed("loads-much", where="baseline", percent=round(100 * phases[LOADING] / whole))


def expect_storable(method: str, answer: Any) -> None:
    """Raise Failed where JSON, as which a record is written, cannot hold what a method of the pair returned; tuples are
    allowed."""
    try:
        json.dumps(answer, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        remedy = "return numbers, text, None, or lists and dicts of these"
        raise Failed("not-storable", f"{method} returned what no record can hold: {error}; {remedy}") from None
