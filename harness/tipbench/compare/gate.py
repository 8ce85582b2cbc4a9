"""Whether a tip's verdict worsened from one run to a later one: for CI and for driver upgrades."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace

from tipbench.compare.comparison import Cell, Comparison, row_name
from tipbench.report.result import Key
from tipbench.tip.pair import CONTROL
from tipbench.tip.wording import plain, plural, ratio
from tipbench.verdict.rules import AT_MOST, MARGIN
from tipbench.verdict.statistics import FALSE_DISCOVERY_RATE, Mean, difference, discoveries

UNJUDGED = {
    "slower": "no comparison has a verdict in both runs",
    "failed": "no pair that the old run measured was measured, or failed, in the new one",
}
"""By what a gate is asked for, when it cannot tell."""

RANKS = {"faster": 2, "no difference": 1, AT_MOST: 1, "inconclusive": 1, "slower": 0}
"""A verdict fell where its rank did: among those between `faster` and `slower` none is worse than another."""


@dataclass(frozen=True)
class GateChange:
    """One comparison in both runs.

    Attributes:
        key: the comparison.
        old, new: what each run says of it; both have a mean.
        ratio: ln of the new speedup over the old one.
        is_weaker: whether the interval of `ratio` (two-sided 95 %) lies wholly below -1 %, also with false discoveries
            held to 5 % over all comparisons.
    """

    key: Key
    old: Cell
    new: Cell
    ratio: Mean
    is_weaker: bool = False

    @property
    def worsened(self) -> bool:
        """Whether the speedup is weaker, and the verdict fell."""
        return self.is_weaker and RANKS[self.new.word] < RANKS[self.old.word]


@dataclass(frozen=True)
class Gate:
    """What became of each comparison from an old run to a new one, the controls' left out.

    Attributes:
        changes: of those that have a verdict in both runs.
        failures: those that the old run measured and the new one failed at, with the reason.
        uncompared: all others, with the reason.
        repeated: how many both runs measured, with too few launches for a verdict too.
        is_damaged: whether lines of the files could not be used.
    """

    changes: tuple[GateChange, ...]
    failures: tuple[tuple[Key, str], ...]
    uncompared: tuple[tuple[Key, str], ...]
    repeated: int
    is_damaged: bool

    @property
    def alarmed(self) -> list[str]:
        """The pairs that worsened, or failed. Foreign text, and in a command there to be copied into a shell."""
        keys = [change.key for change in self.changes if change.worsened] + [key for key, _ in self.failures]
        return list(dict.fromkeys(plain(f"{tip}.{pair}") for tip, pair, *_ in keys))

    def unjudged(self, conditions: Collection[str]) -> list[str]:
        """Those of the conditions of which these runs say nothing."""
        says = {"slower": bool(self.changes), "failed": bool(self.failures or self.repeated)}
        return [condition for condition in dict.fromkeys(conditions) if not says[condition]]

    def exit_code(self, conditions: Collection[str]) -> int:
        """conditions: of `slower` (a verdict worsened) and `failed` (a pair that was measured fails now).

        0: passed; 1: failed; 3: a condition cannot be judged, or lines are lost, and none fails."""
        slower = "slower" in conditions and any(change.worsened for change in self.changes)
        if slower or ("failed" in conditions and self.failures):
            return 1
        return 3 if self.is_damaged or self.unjudged(conditions) else 0


def gate(comparison: Comparison) -> Gate:
    """The first run of a comparison of two set against the second."""
    changes, failures, uncompared, repeated = [], [], [], 0
    for key, (old, new) in comparison.cells.items():
        if key[0] == CONTROL:
            continue
        repeated += old.is_measured and new.is_measured
        if old.mean is not None and new.mean is not None:
            changes.append(GateChange(key, old, new, difference(old.mean, new.mean)))
        elif old.is_measured and new.word == "failed":
            failures.append((key, new.why))
        else:
            before, now = _with_reason(old), _with_reason(new)
            uncompared.append((key, f"{before} in both" if before == now else f"{before} before, {now} now"))
    discovered = discoveries([change.ratio.p_beyond(MARGIN) for change in changes], FALSE_DISCOVERY_RATE)
    judged = (
        replace(change, is_weaker=is_discovered and change.ratio.interval()[1] < -MARGIN)
        for change, is_discovered in zip(changes, discovered, strict=True)
    )
    is_damaged = any(stored.notices for stored in comparison.runs)
    return Gate(tuple(judged), tuple(failures), tuple(uncompared), repeated, is_damaged)


def gate_lines(result: Gate, comparison: Comparison, conditions: Collection[str]) -> list[str]:
    """The gate's result in lines of plain text; the last one says whether it is passed, and
    if that cannot be judged, why and what to do."""
    grade = comparison.grades[1]
    old, new = comparison.labels
    lines = [f"{old} -> {new}: {grade.grade}"]
    lines += [f"  differing: {plain(str(field))}" for field in grade.differing]
    if comparison.called_different:
        lines.append(f"  identical code was called different: {plain(', '.join(comparison.called_different))}")
    worsened = [change for change in result.changes if change.worsened]
    weaker = [change for change in result.changes if change.is_weaker and not change.worsened]
    lines += [_line("worsened", change) for change in worsened]
    lines += [f"failed now: {row_name(key)}: {plain(why)}" for key, why in result.failures]
    lines += [_line("weaker, but its verdict did not fall", change) for change in weaker]
    names: dict[str, list[str]] = {}
    for key, why in result.uncompared:
        names.setdefault(why, []).append(row_name(key))
    lines += [f"not compared: {', '.join(of_reason)}: {plain(why)}" for why, of_reason in names.items()]
    lines.append(
        f"{plural(len(result.changes), 'comparison')} made: {len(worsened)} worsened, {len(weaker)} weaker, "
        f"{len(result.changes) - len(worsened) - len(weaker)} not; {len(result.failures)} failed now, "
        f"{len(result.uncompared)} could not be compared. Speedups are compared, not times: a machine that became "
        "slower at both sides alike is not seen"
    )
    if worsened:  # a failure has no interval
        again = shlex.join(result.alarmed)
        lines.append(f"intervals know nothing of drift from hour to hour; to be sure: tipbench run {again}")
    match result.exit_code(conditions):
        case 0:
            lines.append("passed")
        case 1:
            lines.append("failed")
        case _ if result.is_damaged:
            lines.append("not judged: lines of the files could not be used; restore the files, or measure again")
        case _:
            why = "; ".join(f"{condition}: {UNJUDGED[condition]}" for condition in result.unjudged(conditions))
            lines.append(
                f"not judged: {why}. Reasons are above: measure the same pairs in both runs, with the same suite, "
                "until they have a verdict"
            )
    return lines


def _line(word: str, change: GateChange) -> str:
    means = [mean for mean in (change.old.mean, change.new.mean, change.ratio) if mean]
    old, new, less = (ratio(*map(math.exp, (mean.mean, *mean.interval()))) for mean in means)
    verdicts = f"{change.old.word} {old} -> {change.new.word} {new}"
    return f"{word}: {row_name(change.key)}: {verdicts}; the speedup is {less} what it was"


def _with_reason(cell: Cell) -> str:
    return f"{cell.word} ({cell.why})" if cell.why else cell.word
