"""The checks on a variant: does it do the baseline's work in every step, and does the tip engage?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from tipbench.tip.counts import Unseen
from tipbench.tip.pair import BY_REFERENCE, Equal, Step
from tipbench.tip.training import SET_ASIDE, Trained, Training
from tipbench.worker import switches
from tipbench.worker.answers import expect_numbers, expect_storable
from tipbench.worker.failed import Failed
from tipbench.worker.guard import Guard, seed_generators
from tipbench.worker.outputs import Outputs, Unequal, compare, drawing_alike, exact, snapshot
from tipbench.worker.reuse import (
    KeptTensors,
    floats,
    handed_out_again,
    holds_nan,
    is_marked,
    mark,
    overwrite,
    plain_tensors,
)

CONSECUTIVE = 3
"""Steps in a row that are compared, and that are looked at for results kept: who works at every third one is found."""

SAMPLE = 4_000_000
"""Numbers that are kept of a further step, where they are a sample."""


def check_steps(equal: Equal, device_type: str) -> int:
    """How many steps are run until outputs are compared.

    With mode="reduce-overhead" the first runs uncaptured and the second captures a CUDA graph: only the third is of
    the kind that is timed. Where rounding drives two correct trainings apart each further step adds to it.
    """
    return 3 if device_type == "cuda" and equal in (Equal.BITWISE, Equal.CLOSE) else 2


@dataclass
class Results:
    """What a variant's steps returned, on the host.

    seeds: after `check_steps`, one entry a seed. further: of each of the next steps, with the last seed.
    """

    seeds: list[Outputs] = field(default_factory=list)
    further: list[Outputs] = field(default_factory=list)


def results(guard: Guard, variant: str, seeds: Sequence[int], alone: bool) -> Results:
    """The variant's outputs from fresh inputs, of the last seed alone where they do not follow it. Raises Failed.

    Between the steps what the one before returned is overwritten: handing it out again then shows. With the last seed
    what a step has kept is too, where no other rank takes part (`alone`): see `_look_for_reuse`.
    """
    pair, found = guard.pair_class, Results()
    for seed in seeds if pair.seeded else seeds[-1:]:
        last = seed == seeds[-1]
        steps = _Steps(guard, variant, seed)
        kept = KeptTensors() if last and alone and variant != "reference" else None
        seed_generators(seed)
        with switches.cached_ones_set() as cached:
            steps.run(check_steps(pair.equal, guard.device.type))
            taken = [steps.snapshot()]
            # What is judged by an error over all numbers is judged by a sample too, and in fp64 all may not fit.
            most = SAMPLE if pair.equal in BY_REFERENCE else None
            keeps = kept is not None and steps.are_kept(kept, taken)
            for _ in range(CONSECUTIVE - 1 if last else 0):
                steps.run(1)
                taken.append(steps.snapshot(most))
                keeps = keeps or (kept is not None and steps.are_kept(kept, taken))
        if cached and guard.shares_its_process(variant):
            raise Failed("shared-cache", ", ".join(sorted(cached)), where=variant)
        found.seeds.append(taken[0])
        found.further += taken[1:]
        if kept is not None and keeps:
            _look_for_reuse(steps, kept, taken)
    return found


class _Steps:
    """A variant's step, built anew. What one returned is overwritten before the next runs.

    number: how many have run. result: what the last one returned.
    """

    def __init__(self, guard: Guard, variant: str, seed: int) -> None:
        self.guard, self.variant = guard, variant
        self.step: Step = guard.build(variant, seed)
        guard.expect_restored(variant)
        self.number = 0
        self.result: Any = None

    def run(self, times: int) -> None:
        """Raises Failed, also where a step hands out what the one before it returned."""
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

    def are_kept(self, kept: KeptTensors, taken: Sequence[Outputs]) -> bool:
        """Whether something holds a copy of the last result, beside what was returned and was `taken` of it."""
        ours = [*plain_tensors(self.result), *_tensors(taken)]
        return bool(kept.find(floats(self.result), ours))


def _tensors(taken: Sequence[Outputs]) -> list[torch.Tensor]:
    return [tensor for outputs in taken for tensor in outputs.values()]


def _look_for_reuse(steps: _Steps, kept: KeptTensors, taken: Sequence[Outputs]) -> None:
    """Overwrite what is kept of each result. Raises Failed if one of the next steps hands that out."""
    for _ in range(CONSECUTIVE):
        returned = floats(steps.result)
        steps.result = None  # what is alive of it now, the step keeps
        mark(kept.find(returned, _tensors(taken)))
        try:
            steps.run(1)
        except Failed as failure:
            if failure.why.kind == "global switch":
                raise
            break  # it computes with what was overwritten, so it does compute
        if is_marked(steps.result):
            raise Failed("idle-step", where=steps.variant, step=steps.number)


def compared(guard: Guard, variant: str, baseline: Results, found: Results, reference: Results) -> dict[str, Any]:
    """Compare a variant's results with the baseline's; returns `VariantRecord.equal`. Raises Failed."""
    pair, doing = guard.pair_class, variant
    first = check_steps(pair.equal, guard.device.type)
    try:
        equal = compare(
            pair.equal,
            pair.tolerance,
            baseline.seeds,
            found.seeds,
            reference.seeds,
            seeded=pair.seeded,
        )
        for index, (before, after) in enumerate(zip(baseline.further, found.further, strict=True)):
            doing = f"{variant}, step {first + 1 + index}"
            # Rounding drives two correct trainings apart, about twice as far with each step.
            tolerance = pair.tolerance * 2 ** (index + 1)
            compare(pair.equal, tolerance, [before], [after], reference.further[index : index + 1])
    except Unequal as error:
        raise error.of(doing) from None
    return equal


def count(guard: Guard, variant: str, seed: int) -> Any:
    """What the variant's mechanism counts on a fresh step, or {"unseen": why} where nothing here can count it.

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
        found = guard.step(variant, counted)
    expect_storable(f"{variant}: mechanism", found)
    return found


def engaged(guard: Guard, baseline: Any, optimized: Any) -> dict[str, Any]:
    """Whether two counts show the tip at work: {"engaged", "what"}, None where one is unseen. Raises Failed."""
    mechanism = guard.call("step-raised", "mechanism", lambda: guard.pair().mechanism)
    if any(isinstance(found, Mapping) and "unseen" in found for found in (baseline, optimized)):
        return {"engaged": None, "what": mechanism.what}
    shown = guard.call("step-raised", "mechanism", lambda: bool(mechanism.shows(baseline, optimized)))
    return {"engaged": shown, "what": mechanism.what}


def trained(guard: Guard, variant: str, seed: int) -> dict[str, Any] | None:
    """Whole trainings of a variant, from seeds drawn with `seed`; answers the fields of `record.Trainings`, None where
    the pair has none. Raises Failed.

    On one thread: several pairs are checked at once, and sums of more threads are rounded in another order.
    """
    pair = guard.pair_class
    if not pair.trainings:
        return None
    training = guard.build(variant, seed)
    guard.expect_restored(variant)
    if not isinstance(training, Training):
        raise Failed("build-raised", f"{variant} returned no Training, of which {pair.__name__}.trainings are counted")
    drawn = torch.Generator().manual_seed(seed)
    seeds = torch.randint(SET_ASIDE.stop, 2**31, (pair.trainings,), generator=drawn).tolist()
    with guard.scope(variant), on_one_thread():
        found = [guard.step(variant, partial(training.train, number)) for number in seeds]
    if odd := next((one for one in found if not isinstance(one, Trained)), None):
        raise Failed("step-raised", f"{variant}: train returned a {type(odd).__name__}; return a Trained")
    return {
        "target": training.target,
        "batch": training.batch,
        "steps_timed": training.steps,
        "seeds": seeds,
        "steps": [one.steps for one in found],
        "reached": [one.reached for one in found],
        "scores": [one.score if math.isfinite(one.score) else None for one in found],
    }


@contextmanager
def on_one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def work(guard: Guard, seed: int) -> dict[str, Any]:
    """`Pair.work`. Raises Failed."""
    seed_generators(seed)
    found: object = guard.call("work-raised", "work", guard.pair().work)
    guard.expect_unchanged("work", "global-switch.work")
    return expect_numbers("work", found)
