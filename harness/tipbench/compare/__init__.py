"""Runs of several machines, days and versions set against each other.

Nothing here imports torch: runs are compared on laptops. The same runs give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tipbench.compare import as_csv, as_json
from tipbench.compare.comparison import Comparison
from tipbench.compare.gate import fails, gate, lines_of
from tipbench.compare.inputs import CompareError, chosen
from tipbench.compare.page import across, page
from tipbench.report.output import print_bytes, write_file
from tipbench.report.wording import plain

FORMATS = ("md", "html", "csv", "json")

NAME = "comparison"
"""Of the files written, without ending; a figure's follows it: `comparison-across.svg`."""

__all__ = ["FORMATS", "CompareError", "Comparison", "against", "compared", "page", "render", "show"]


def compared(words: Sequence[str], results: Path = Path("results")) -> Comparison:
    """The comparison of the runs that `words` name (`inputs.chosen`). Raises CompareError and StoreError."""
    return chosen(words, results)


def show(comparison: Comparison, format: str, out: Path | None) -> list[Path]:
    """Print the comparison, or write it with its figures beneath `out` and return the files.
    Raises ReportError where that cannot be."""
    for note in comparison.notes if format == "csv" else ():
        print(f"tipbench: {plain(note)}", file=sys.stderr)
    if out is None:
        figures = _figures(comparison, "svg") if format == "html" else {}
        print_bytes(render(comparison, format, figures).encode("utf-8", "replace"))
        return []
    files: dict[Path, bytes] = {}
    figures = _figures(comparison, "svg") if format in ("md", "html") else {}
    files[out / f"{NAME}.{format}"] = render(comparison, format, figures).encode("utf-8", "replace")
    if format == "md":
        files |= {out / f"{NAME}-{name}.svg": content for name, content in figures.items()}
        files |= {out / f"{NAME}-{name}.png": content for name, content in _figures(comparison, "png").items()}
    for path, content in reversed(files.items()):  # the page last, when all that it names is there
        write_file(path, content)
    return list(files)


def render(comparison: Comparison, format: str, figures: Mapping[str, bytes] = MappingProxyType({})) -> str:
    """figures: SVG files by name, for `html` to hold and `md` to name. Raises KeyError for an unknown format."""
    if format == "csv":
        return as_csv.render(comparison)
    if format == "json":
        return as_json.render(comparison)
    alts: dict[str, str] = {}
    if figures:
        from tipbench.report.figures import alts_across

        alts = alts_across(across(comparison))
    found = page(comparison, alts)
    if format == "html":
        from tipbench.report import as_html

        return as_html.render(found, figures)
    if format != "md":
        raise KeyError(format)
    from tipbench.report import as_markdown

    return as_markdown.render(found, image=lambda name: f"{NAME}-{name}.svg")


def against(comparison: Comparison, conditions: Sequence[str]) -> bool:
    """The gate: print what was found between the two runs, old and new; whether it is passed.
    Raises CompareError where there are not just two, or nothing can be compared."""
    if len(comparison.runs) != 2:
        raise CompareError(f"--fail-if takes two runs, OLD and NEW; {len(comparison.runs)} were given")
    found = gate(comparison)
    lines = lines_of(found, comparison, list(conditions))
    if not found.changes and not ("failed" in conditions and found.broken):
        raise CompareError("nothing could be compared, so nothing was passed: " + "; ".join(lines[:-2]))
    print_bytes(("\n".join(lines) + "\n").encode("utf-8", "replace"))
    return not fails(found, list(conditions))


def _figures(comparison: Comparison, format: str) -> dict[str, bytes]:
    from tipbench.report.figures import draw_across

    return draw_across(across(comparison), "svg" if format == "svg" else "png")
