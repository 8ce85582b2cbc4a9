"""The comparisons of a file as one Markdown table, a row a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tests.peers.comparison import Comparison
from tests.peers.rules import RULES, Rule

COLUMNS = (
    "tool",
    "claims a difference by",
    "identical: wrong claims",
    "planted: missed",
    "planted: reversed",
    "ratio off by: median (worst)",
    "interval holds the truth",
    "seconds a comparison",
)


def table(header: Mapping[str, Any], comparisons: Sequence[Comparison]) -> str:
    """Markdown. Rules of tools that the file does not hold are left out."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for rule in RULES:
        judged = [comparison for comparison in comparisons if comparison.tool == rule.tool]
        if judged:
            rows.append(row(rule, judged))
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    caption = (
        f"Begun {header['began']} with `{header['command']}`, seed {header['seed']}, suite {header['commit']}, "
        f"on {header['machine']}; {versions}."
    )
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in rows] + ["", caption])


def row(rule: Rule, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The cells of one rule, from all comparisons of its tool."""
    identical = [comparison for comparison in comparisons if comparison.truth == 1]
    planted = [comparison for comparison in comparisons if comparison.truth != 1]
    wrong = Counter(comparison.case for comparison in identical if rule.claim(comparison))
    missed = [comparison for comparison in planted if not rule.claim(comparison)]
    wrong_way = [
        comparison
        for comparison in planted
        if rule.claim(comparison) == ("slower" if comparison.truth > 1 else "faster")
    ]
    errors = [abs(comparison.speedup[rule.statistic] / comparison.truth - 1) for comparison in comparisons]
    return (
        rule.tool,
        rule.text,
        _share(wrong.total(), identical)
        + (f" ({', '.join(f'{name} {n}' for name, n in sorted(wrong.items()))})" if wrong else ""),
        _share(len(missed), planted),
        _share(len(wrong_way), planted),
        f"{median(errors):.1%} ({max(errors):.1%})",
        _held(comparisons),
        f"{median(comparison.seconds for comparison in comparisons):.1f}",
    )


def _held(comparisons: Sequence[Comparison]) -> str:
    intervals = [(comparison.interval, comparison.truth) for comparison in comparisons if comparison.interval]
    if not intervals:
        return "none given"
    return _share(sum(low <= truth <= high for (low, high), truth in intervals), intervals)


def _share(count: int, of: Sequence[object]) -> str:
    return f"{count} of {len(of)}" if of else "not run"
