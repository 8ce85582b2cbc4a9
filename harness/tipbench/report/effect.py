"""What one run found of one variant of one pair: all that answers and comparisons need of a record."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass

from tipbench.records.record import Run
from tipbench.report.rows import Row, judged_memory, rows
from tipbench.report.trained import Trained, trained

Key = tuple[str, str, str, str]
"""What is compared with its like: tip, pair, variant, device."""


@dataclass(frozen=True)
class Effect:
    """A verdict with the numbers behind it.

    sizes: the pair's, as JSON with sorted keys. code: the file it is written in, with " cold" where a GPU's L2
    cache was emptied before every step. text: a digest of the code of its sides, its sizes and whether it was cold:
    effects of the same key and text are of the same work. mean: ln t_baseline - ln t_variant;
    error: its standard error over launches; low, high: the interval that the verdict rests on, also logarithms.
    step_s, variant_step_s: seconds a step takes. memory_kind: a key of `tipbench.report.rows.MEMORY_KINDS`; before and
    after: bytes of the baseline and the variant. None (memory_kind: "") where nothing was measured. What is
    provisional, from too few launches for a verdict, is not compared: its mean and interval are None too, and so_far
    has it as a speedup with its interval. Of the baseline and the variant, tree: bytes of all processes; one_off:
    seconds needed once; counts: what the mechanism counted; counted: what that was; trained: what their trainings
    came to.
    worded: whether the guide words the tip so. do, when, status: as `Tip` has them.
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
    text: str = ""
    mean: float | None = None
    error: float | None = None
    low: float | None = None
    high: float | None = None
    step_s: float | None = None
    variant_step_s: float | None = None
    memory_kind: str = ""
    memory_before: int | None = None
    memory_after: int | None = None
    so_far: tuple[float, float | None, float | None] | None = None
    tree: tuple[int, int] | None = None
    one_off: tuple[float, float] | None = None
    break_even_steps: int | None = None
    counts: tuple[int, int] | None = None
    counted: str = ""
    trained: Trained | None = None
    worded: bool = False
    do: str = ""
    when: str = ""
    status: str = ""

    @property
    def measured(self) -> bool:
        return self.verdict not in ("skipped", "failed")

    @property
    def key(self) -> Key:
        return self.tip, self.pair, self.variant, self.device

    @property
    def pair_name(self) -> str:
        """As `Run.planned` has it."""
        return f"{self.tip}.{self.pair}" if self.pair else self.tip


def effects(run: Run) -> list[Effect]:
    """Those of all records, in the order the pairs were planned; verdicts as the run's own report has them."""
    return list(map(effect, rows(run)))


def effect(row: Row) -> Effect:
    info, judged = row.info, row.judgement
    mean = error = low = high = None
    provisional = judged.p is None
    if not provisional and judged.speedup is not None and judged.low is not None and judged.high is not None:
        mean, low, high = math.log(judged.speedup), math.log(judged.low), math.log(judged.high)
        error = judged.error
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
        text=_digest(info.code, info.sizes, info.flush_l2),
        mean=mean,
        error=error,
        low=low,
        high=high,
        step_s=row.step_s,
        variant_step_s=row.variant_step_s,
        memory_kind=kind,
        memory_before=before,
        memory_after=after,
        so_far=(judged.speedup, judged.low, judged.high) if provisional and judged.speedup is not None else None,
        tree=_tree(row),
        one_off=row.one_off_sides,
        break_even_steps=row.break_even_steps,
        counts=_counts(row),
        counted=readable(str(judged.found.mechanism.get("what", ""))),
        trained=trained(row),
        worded=row.variant == (info.worded or "optimized"),
        do=readable(str(info.tip.get("do", ""))),
        when=readable(str(info.tip.get("when", ""))),
        status=readable(str(info.tip.get("status", ""))),
    )


def _digest(*found: object) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def readable(text: str) -> str:
    """The text without the halves of surrogate pairs, which JSON can hold and no file can."""
    return text.encode("utf-8", "replace").decode()


def _memory(row: Row) -> tuple[str, int | None, int | None]:
    found = judged_memory(row) if row.measured else None
    return found or ("", None, None)


def _tree(row: Row) -> tuple[int, int] | None:
    sides = [row.memory[side].get("tree", 0) for side in ("baseline", "variant")]
    return (sides[0], sides[1]) if all(sides) else None


def _counts(row: Row) -> tuple[int, int] | None:
    """A number of each side; None where there is none."""
    found = []
    for side in ("baseline", "optimized"):
        count = row.judgement.found.mechanism.get(side)
        if not isinstance(count, int) or count < 0:
            return None
        found.append(count)
    return found[0], found[1]


def memory_change(found: Effect) -> float | None:
    """The variant's peak over the baseline's; None where not known."""
    if not found.memory_before or found.memory_after is None:
        return None
    return found.memory_after / found.memory_before
