"""By which rule each tool claims a difference: its own where it has one, else a gate on its statistic."""

from __future__ import annotations

from dataclasses import dataclass

from tests.peers.comparison import Comparison

GATE = 0.05
"""pytest-benchmark's documentation shows `--benchmark-compare-fail=median:5%` or `min:5%`; the same for
torch.utils.benchmark, which leaves the decision to its reader."""


@dataclass(frozen=True)
class Rule:
    """text: as the table tells it. statistic: whose ratio counts. said: the name of the tool's own decision;
    empty: the gate decides."""

    tool: str
    text: str
    statistic: str
    said: str = ""

    def claim(self, comparison: Comparison) -> str:
        """faster, slower, or an empty word where no difference is claimed."""
        if self.said:
            said = comparison.said[self.said]
            return said if said in ("faster", "slower") else ""
        return gate(comparison.speedup[self.statistic])


def gate(speedup: float) -> str:
    """The claim where one side takes over 5 % longer than the other, whichever it is."""
    if speedup > 1 + GATE:
        return "faster"
    if 1 / speedup > 1 + GATE:
        return "slower"
    return ""


RULES = (
    Rule("tipbench", "its verdict: interval beyond ±1 %", "trimmed mean", "verdict"),
    Rule("pytest-benchmark", "medians over 5 % apart", "median"),
    Rule("pytest-benchmark", "minima over 5 % apart", "min"),
    Rule("pytest-benchmark", "means over 5 % apart", "mean"),
    Rule("torch.utils.benchmark", "medians over 5 % apart", "median"),
    Rule("pyperf", "`compare_to`: t-test at 95 %", "mean", "compare_to"),
    Rule("asv", "`compare`: factor 1.1 and 99 % intervals apart", "median", "compare"),
    Rule("asv", "`compare --factor 1`: 99 % intervals apart", "median", "compare --factor 1"),
)
"""One row of the table each. Several rules may judge the same measurements."""
