"""What one run found of one variant of one pair: all that a comparison needs of a record."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.records.record import Run
from tipbench.report.advice import judged_memory
from tipbench.report.rows import Row, rows
from tipbench.verdict.rules import EARLY, EARLY_HALF, Rules, rules_of
from tipbench.verdict.statistics import half_width

EARLY_ERROR = EARLY_HALF / 2
"""Least standard error of a mean of fewer than EARLY launches, whose own spread says nothing: their interval
is widened to EARLY_HALF on either side, and of a 95 % interval half that is the standard error."""

LEAST_ERROR = 1e-4
"""Least standard error of all: nothing here is known to better than 0.01 %."""

Key = tuple[str, str, str, str]
"""What is compared with its like: tip, pair, variant, device."""


@dataclass(frozen=True)
class Effect:
    """A verdict with the numbers behind it.

    sizes: the pair's, as JSON with sorted keys. code: the file it is written in, with " cold" where a GPU's L2
    cache was emptied before every step. mean: ln t_baseline - ln t_variant; error: its standard error over
    launches; low, high: the interval that the verdict rests on, also logarithms. step_s, variant_step_s:
    seconds a step takes. memory_kind: a key of `tipbench.report.advice.MEMORY_KINDS`; before and after: bytes of
    the baseline and the variant. None (memory_kind: "") where nothing was measured; what is provisional, from too few
    launches for a verdict, is not compared, so its mean and interval are None too.
    """

    tip: str
    title: str
    claim: str
    pair: str
    variant: str
    device: str
    scale: str
    sizes: str
    code: str
    verdict: str
    reason: str
    remedy: str
    launches: int
    mean: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    step_s: float | None = None
    variant_step_s: float | None = None
    memory_kind: str = ""
    memory_before: int | None = None
    memory_after: int | None = None

    @property
    def key(self) -> Key:
        return self.tip, self.pair, self.variant, self.device

    @property
    def pair_name(self) -> str:
        """As `Run.planned` has it."""
        return f"{self.tip}.{self.pair}" if self.pair else self.tip


def effects(run: Run) -> list[Effect]:
    """Those of all records, in the order the pairs were planned; verdicts as the run's own report has them."""
    judged_by = rules_of(run.options)
    return [_effect(row, judged_by) for row in rows(run)]


def standard_error(low: float, high: float, launches: int, judged_by: Rules) -> float:
    """The deviation over launches / sqrt(launches), which the interval of the look after `launches` was made from."""
    looks = judged_by.looks
    alpha = dict(zip(looks.launches, looks.alphas, strict=True))[launches]
    error = (high - low) / 2 / (half_width(1.0, launches, alpha) * math.sqrt(launches))
    return max(error, EARLY_ERROR if launches < EARLY else LEAST_ERROR)


def _effect(row: Row, judged_by: Rules) -> Effect:
    info, judged = row.info, row.judgement
    mean = error = low = high = None
    provisional = judged.p is None
    if not provisional and judged.speedup is not None and judged.low is not None and judged.high is not None:
        mean, low, high = math.log(judged.speedup), math.log(judged.low), math.log(judged.high)
        error = standard_error(low, high, judged.launches, judged_by)
    kind, before, after = _memory(row)
    return Effect(
        tip=readable(row.tip),
        title=readable(str(info.tip["title"])),
        claim=readable(str(info.tip["claim"])),
        pair=readable(info.pair),
        variant=readable(row.variant),
        device=readable(info.device),
        scale=readable(info.scale),
        sizes=json.dumps(info.sizes, sort_keys=True),
        code=readable(info.file + " cold" * info.flush_l2),
        verdict=row.verdict,
        reason=readable(judged.reason),
        remedy=readable(judged.remedy),
        launches=judged.launches,
        mean=mean,
        error=error,
        low=low,
        high=high,
        step_s=row.step_s,
        variant_step_s=row.variant_step_s,
        memory_kind=kind,
        memory_before=before,
        memory_after=after,
    )


def readable(text: str) -> str:
    """The text without the halves of surrogate pairs, which JSON can hold and no file can."""
    return text.encode("utf-8", "replace").decode()


def _memory(row: Row) -> tuple[str, int | None, int | None]:
    found = judged_memory(row) if row.measured else None
    return found or ("", None, None)


def memory_change(effect: Effect) -> float | None:
    """The variant's peak over the baseline's; None where not known."""
    if not effect.memory_before or effect.memory_after is None:
        return None
    return effect.memory_after / effect.memory_before


def measured(found: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in found if effect.mean is not None]
