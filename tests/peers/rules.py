"""By which rule each tool claims a difference: its own where it has one, else a gate on its statistic."""

from __future__ import annotations

from dataclasses import dataclass

from tests.peers.comparison import Comparison

GATE = 0.05
"""pytest-benchmark's documentation shows `--benchmark-compare-fail=median:5%` or `min:5%`; the same for
torch.utils.benchmark, which leaves the decision to its reader."""


@dataclass(frozen=True)
class Rule:
    """A rule by which a tool claims a difference.

    Attributes:
        tool: its name.
        text: the rule, as the table shows it.
        statistic: whose ratio counts.
        decision: the name of the tool's own decision; empty: GATE decides.
    """

    tool: str
    text: str
    statistic: str
    decision: str = ""

    def claim(self, comparison: Comparison) -> str:
        """faster, slower, or an empty word if no difference is claimed."""
        if self.decision:
            word = comparison.decisions[self.decision]
            return word if word in ("faster", "slower") else ""
        speedup = comparison.speedup[self.statistic]
        return "faster" if speedup > 1 + GATE else "slower" if 1 / speedup > 1 + GATE else ""


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
