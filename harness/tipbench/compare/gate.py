"""Whether a tip's verdict worsened from one run to a later one: for CI and for driver upgrades."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tipbench.compare.comparison import Comparison
from tipbench.compare.means import difference
from tipbench.report.result import CONTROL, Key
from tipbench.tip.wording import plain, plural, ratio
from tipbench.verdict.pooling import Mean
from tipbench.verdict.rules import AT_MOST, MARGIN
from tipbench.verdict.statistics import discoveries
from tipbench.verdict.verdict import FALSE_DISCOVERY_RATE

RANKS = {"faster": 2, "no difference": 1, AT_MOST: 1, "inconclusive": 1, "slower": 0}
"""A verdict fell where its rank did: among those between `faster` and `slower` none is worse than another."""


@dataclass(frozen=True)
class Change:
    """One comparison in both runs. ratio: the new speedup over the old one, as a logarithm.

    less: the interval of that ratio (two-sided 95 %) lies wholly below -1 %, also with false discoveries held to
    5 % over all comparisons. worsened: less, and the verdict fell.
    """

    key: Key
    old: str
    new: str
    old_mean: Mean
    new_mean: Mean
    ratio: Mean
    less: bool = False

    @property
    def worsened(self) -> bool:
        return self.less and RANKS[self.new] < RANKS[self.old]


@dataclass(frozen=True)
class Gate:
    """changes: what was compared. broken: what the old run measured and the new one failed at, with the reason.
    uncompared: what else could not be, and why. Controls are in none of them."""

    changes: tuple[Change, ...]
    broken: tuple[tuple[Key, str], ...]
    uncompared: tuple[tuple[Key, str], ...]


def gate(comparison: Comparison) -> Gate:
    """The first run of a comparison of two set against the second."""
    changes, broken, uncompared = [], [], []
    for key, (old, new) in comparison.cells.items():
        if key[0] == CONTROL:
            continue
        before, after = old.mean, new.mean
        if before is not None and after is not None:
            changes.append(Change(key, old.word, new.word, before, after, difference(before, after)))
        elif before is not None and new.word == "failed":
            broken.append((key, new.why))
        else:
            was, now = _with_reason(old.word, old.why), _with_reason(new.word, new.why)
            uncompared.append((key, f"{was} in both" if was == now else f"{was} before, {now} now"))
    below = [change.ratio.interval()[1] < -MARGIN for change in changes]
    p = [change.ratio.p_beyond(MARGIN) for change in changes]
    discovered = discoveries(p, FALSE_DISCOVERY_RATE)
    judged = [replace(change, less=low and kept) for change, low, kept in zip(changes, below, discovered, strict=True)]
    return Gate(tuple(judged), tuple(broken), tuple(uncompared))


def lines_of(found: Gate, comparison: Comparison, conditions: list[str]) -> list[str]:
    """The gate's finding in lines of plain text; the last one says whether it is passed."""
    grade = comparison.grade(0, 1)
    old, new = comparison.labels
    lines = [f"{old} -> {new}: {grade.shown}"]
    lines += [f"  differing: {plain(str(field))}" for field in grade.differing]
    lines += [f"  unknown: {plain(', '.join(field.field for field in grade.unknown))}"] if grade.unknown else []
    if comparison.called_different:
        lines.append(f"  identical code was called different: {plain(', '.join(comparison.called_different))}")
    worsened = [change for change in found.changes if change.worsened]
    weaker = [change for change in found.changes if change.less and not change.worsened]
    lines += [_line("worsened", change) for change in worsened]
    lines += [f"failed now: {name(key)}: {plain(why)}" for key, why in found.broken]
    lines += [_line("weaker, but its verdict did not fall", change) for change in weaker]
    reasons: dict[str, list[str]] = {}
    for key, why in found.uncompared:
        reasons.setdefault(why, []).append(name(key))
    lines += [f"not compared: {', '.join(names)}: {plain(why)}" for why, names in reasons.items()]
    lines.append(
        f"{plural(len(found.changes), 'comparison')} made: {len(worsened)} worsened, {len(weaker)} weaker, "
        f"{len(found.changes) - len(worsened) - len(weaker)} not; {len(found.broken)} failed now, "
        f"{len(found.uncompared)} could not be compared. Speedups are compared, not times: a machine that became "
        "slower at both sides alike is not seen"
    )
    if worsened:
        again = " ".join(dict.fromkeys(plain(f"{change.key[0]}.{change.key[1]}") for change in worsened))
        lines.append(f"intervals know nothing of drift from hour to hour; to be sure: tipbench run {again}")
    lines.append("failed" if fails(found, conditions) else "passed")
    return lines


def fails(found: Gate, conditions: list[str]) -> bool:
    """conditions: of `slower` (a verdict worsened) and `failed` (a pair that was measured fails now)."""
    slower = "slower" in conditions and any(change.worsened for change in found.changes)
    return slower or ("failed" in conditions and bool(found.broken))


def name(key: Key) -> str:
    """The comparison as people read it: `tip.Pair`, with what is out of the ordinary."""
    tip, pair, variant, device = key
    beside = [part for part in (variant, device) if part not in ("optimized", "cpu")]
    shown = f"{tip}.{pair}" if pair else tip
    return plain(f"{shown} ({', '.join(beside)})" if beside else shown)


def _line(word: str, change: Change) -> str:
    means = [(mean.mean, *mean.interval()) for mean in (change.old_mean, change.new_mean, change.ratio)]
    old, new, less = (ratio(*map(math.exp, mean)) for mean in means)
    return f"{word}: {name(change.key)}: {change.old} {old} -> {change.new} {new}; the speedup is {less} what it was"


def _with_reason(word: str, why: str) -> str:
    return f"{word} ({why})" if why else word
