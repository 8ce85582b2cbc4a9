"""A run as people read it: rows derived from its records, rendered in one file a format.

Nothing here imports torch: runs are read on laptops. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tipbench.records.record import Run
from tipbench.records.store import Notice, file_name, folder_name
from tipbench.report import as_json, html
from tipbench.report.answer import answers, of_runs
from tipbench.report.earlier import earlier_runs, of_its_kind
from tipbench.report.kind import NONE, OfItsKind, agreement
from tipbench.report.output import ReportError, print_bytes, write_file
from tipbench.report.results import results
from tipbench.report.table import csv
from tipbench.tip.wording import plain

if TYPE_CHECKING:
    from tipbench.report.pages import Pages

__all__ = ["FORMATS", "OfItsKind", "ReportError", "earlier_runs", "of_its_kind", "one_liners", "render", "write"]

Earlier = Sequence[Run]
"""Earlier runs of the machine, which the answers count too: `earlier_runs`."""


def _pages(
    run: Run, notices: Sequence[Notice], earlier: Earlier, kind: OfItsKind, below: str | None = None, home: str = ""
) -> Pages:
    from tipbench.report.pages import Layout, pages  # with matplotlib, which JSON, CSV and comparisons are spared

    return pages(run, [*map(results, earlier), results(run)], notices, Layout(below=below, home=home), kind)


def _markdown(run: Run, notices: Sequence[Notice], earlier: Earlier, kind: OfItsKind) -> str:
    """All pages in one text."""
    made = _pages(run, notices, earlier, kind)
    return "\n".join([made.front, *made.below.values()])


def _html(run: Run, notices: Sequence[Notice], earlier: Earlier, kind: OfItsKind) -> str:
    from tipbench.report.figures.drawing import save

    made = _pages(run, notices, earlier, kind, below="")
    return html.render(made.front, made.title, {each.name: save(each, "svg") for each in made.drawings}, made.below)


FORMATS: dict[str, Callable[[Run, Sequence[Notice], Earlier, OfItsKind], str]] = {
    "md": _markdown,
    "html": _html,
    "json": lambda run, notices, earlier, kind: as_json.render(run, notices, list(map(results, earlier)), kind),
    "csv": lambda run, notices, earlier, kind: csv(results(run)),
}


def render(run: Run, notices: Sequence[Notice], format: str, earlier: Earlier = (), kind: OfItsKind = NONE) -> bytes:
    """The report's bytes, in UTF-8, with figures in HTML only. Raises KeyError for a format not in FORMATS."""
    return FORMATS[format](run, notices, earlier, kind).encode("utf-8", "replace")


def write(
    run: Run,
    notices: Sequence[Notice],
    format: str,
    out: Path | None = None,
    earlier: Earlier = (),
    kind: OfItsKind = NONE,
) -> Path | None:
    """Write the report to `<out>/<machine>/<run>.<format>` and return that path, or print it where `out` is None.

    Markdown is a page of answers; the evidence, one page a tip, and the figures as SVG and PNG are written beside it,
    to `<out>/<machine>/<run>/`. Printed it is one page, without figures. Raises ReportError where something cannot be
    written: no half-written file is left.
    """
    if out is None:
        print_bytes(render(run, notices, format, earlier, kind))
        return None
    path = out / folder_name(run.machine) / f"{file_name(run)}.{format}"
    if format != "md":
        write_file(path, render(run, notices, format, earlier, kind))
        return path
    from tipbench.report.figures.drawing import FORMATS as PICTURES
    from tipbench.report.figures.drawing import save

    made = _pages(run, notices, earlier, kind, f"{path.stem}/", f"../{path.name}")
    below = path.with_suffix("")
    for drawing in made.drawings:
        for picture in PICTURES:
            write_file(below / f"{drawing.name}.{picture}", save(drawing, picture))
    for name, page in made.below.items():
        write_file(below / f"{name}.md", page.encode("utf-8", "replace"))
    write_file(path, made.front.encode("utf-8", "replace"))
    return path


def one_liners(run: Run, earlier: Earlier = (), kind: OfItsKind = NONE) -> list[str]:
    """One line of plain text an answer, those that ask for action first; then, where there are other runs of the
    machine or of its kind, of how many runs the answers are, and how far the latter agree."""
    own = results(run)
    made = answers([*map(results, earlier), own])
    answer_width = max((len(plain(answer.answer)) for answer in made), default=0)
    tip_width = max((len(plain(answer.tip)) for answer in made), default=0)
    lines = [
        f"{plain(answer.answer):<{answer_width}}  {plain(answer.tip):<{tip_width}}  {plain(answer.in_words)}"
        for answer in made
    ]
    lines += [of_runs(made)] if earlier or kind.runs else []
    return [*lines, agreement(run, own, made, kind)] if kind.runs else lines
