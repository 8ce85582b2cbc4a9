"""Runs of several machines, days and versions set against each other.

Nothing here imports torch: runs are compared on laptops. The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tipbench.compare.comparison import Comparison
from tipbench.compare.gate import gate, gate_lines
from tipbench.compare.inputs import CompareError, read_comparison
from tipbench.compare.page import markdown, title_of
from tipbench.compare.slow import NONE_SLOW, SlowNodes
from tipbench.report import html
from tipbench.report.output import print_bytes, write_file

__all__ = ["CompareError", "Comparison", "check_regression", "markdown", "read_comparison", "show"]


def show(comparison: Comparison, format: str, out: Path | None, slow: SlowNodes = NONE_SLOW) -> list[Path]:
    """Print the comparison, or write it beneath `out` and return the files. Raises ReportError if that fails."""
    page = markdown(comparison, slow)
    content = html.render(page, title_of(comparison)) if format == "html" else page
    as_bytes = content.encode("utf-8", "replace")
    if out is None:
        print_bytes(as_bytes)
        return []
    file = out / f"comparison.{format}"
    write_file(file, as_bytes)
    return [file]


def check_regression(comparison: Comparison, conditions: Sequence[str]) -> int:
    """The gate: print what changed between the two runs, old and new, and return the exit code (`Gate.exit_code`).
    Raises CompareError where there are not just two."""
    if len(comparison.runs) != 2:
        raise CompareError(f"--fail-if takes two runs, OLD and NEW; {len(comparison.runs)} were given")
    result = gate(comparison)
    print_bytes(("\n".join(gate_lines(result, comparison, conditions)) + "\n").encode("utf-8", "replace"))
    return result.exit_code(conditions)
