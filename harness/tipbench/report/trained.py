"""What the counted trainings of a pair's two sides come to, in words."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache

from tipbench.records.trainings import Trainings
from tipbench.report.result import Result
from tipbench.tip.wording import ratio, seconds, value
from tipbench.verdict.statistics import Mean
from tipbench.verdict.trainings import expected_steps, fewer_steps, score_change

Counted = tuple[Trainings, Trainings]
"""Of the baseline and the variant."""

step_ratio = lru_cache(maxsize=1024)(fewer_steps)
"""Once for all that is said of two sides: the interval of a ratio takes over a millisecond."""


def both_reach(sides: Counted) -> bool:
    """Whether their ratio is known: of a side that never reaches the target, only that it needs many more steps."""
    return all(any(side.reached) for side in sides)


def steps_text(sides: Counted, fewer: Mean | None = None) -> str:
    """`812 -> 420 steps`, or how many reach the target where some do not. fewer: if the ratio is to be said too, as in
    `812 -> 420 steps to the target, 1.93x [1.70, 2.20]`."""
    reached = " -> ".join(f"{sum(side.reached)} of {len(side.reached)}" for side in sides)
    if not both_reach(sides):
        return f"{reached} trainings reach the target"
    steps = " -> ".join(f"{expected_steps(side):,.0f}" for side in sides)
    to_target = f" to the target, {_factor(fewer)}" if fewer else ""
    failures = "" if all(all(side.reached) for side in sides) else f", failures counted; {reached} trainings reach it"
    return f"{steps} steps{to_target}{failures}"


def _factor(fewer: Mean) -> str:
    low, high = fewer.interval()
    return ratio(math.exp(fewer.mean), math.exp(low), math.exp(high))


def describe_trainings(row: Result) -> str:
    """All of a row's trainings as a sentence without its full stop; empty where none were counted."""
    if row.trainings is None:
        return ""
    sides = before, after = row.trainings
    words = [
        f"a score of {value(before.target)} is the target: {steps_text(sides)}",
        f"{len(before.seeds)} trainings of each side, counted on {before.counted}, not on this machine "
        f"({before.table})",
    ]
    if both_reach(sides):
        words.append(f"timed steps to the target, baseline over variant: {_factor(step_ratio(before, after))}")
    words.append(score_text(sides))
    if row.step_s and row.variant_step_s:
        timed = (before, row.step_s), (after, row.variant_step_s)
        rates = [f"{side.batch * side.steps_timed / step_s:,.0f}" for side, step_s in timed]
        words.append(f"samples a second {' -> '.join(rates)}")
        if both_reach(sides):
            times = [seconds(expected_steps(side) / side.steps_timed * step_s) for side, step_s in timed]
            words.append(f"time to the target {' -> '.join(times)}")
    return "; ".join(words)


def score_text(sides: Counted, as_price: bool = False) -> str:
    """`mean score after training worse: 0.976 -> 0.971 (higher is better), a change between -0.0082 and -0.0013`.

    as_price: shorter if it may not have changed, `score after training unchanged within 0.001`, and empty if it is
    better, which is no price.
    """
    before, after = (_mean_score(side) for side in sides)
    lower_is_better = sides[0].lower_is_better
    is_better = before is not None and after is not None and (after < before if lower_is_better else after > before)
    change = score_change(*sides)
    low, high = change.interval() if change else (math.nan, math.nan)
    if as_price and low <= 0 <= high:
        return f"score after training unchanged within {max(-low, high):.2g}"
    if as_price and is_better:
        return ""
    word = (" better:" if is_better else " worse:") if low > 0 or high < 0 else ""
    scores = " -> ".join("none" if score is None else f"{score:.4g}" for score in (before, after))
    interval = f", a change between {low:+.2g} and {high:+.2g}" if change else ""
    return f"mean score after training{word} {scores} ({'lower' if lower_is_better else 'higher'} is better){interval}"


def _mean_score(side: Trainings) -> float | None:
    """Of those that ended in a number."""
    scores = [score for score in side.scores if score is not None]
    return statistics.fmean(scores) if scores else None
