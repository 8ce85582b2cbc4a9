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
from tipbench.report.answer import answers
from tipbench.report.answer_kinds import ACTS, IMPOSSIBLE, UNCLEAR
from tipbench.report.output import ReportError, print_bytes, write_file
from tipbench.report.results import results
from tipbench.tip.wording import plain

if TYPE_CHECKING:
    from tipbench.report.pages import Pages

__all__ = ["RENDERERS", "ReportError", "news", "one_liners", "render", "write"]


def _pages(run: Run, notices: Sequence[Notice], below: str | None = None, home: str = "") -> Pages:
    from tipbench.report.pages import Layout, pages  # with matplotlib, which JSON, CSV and comparisons are spared

    return pages(run, results(run), notices, Layout(below=below, home=home))


def _markdown(run: Run, notices: Sequence[Notice]) -> str:
    """All pages in one text."""
    made = _pages(run, notices)
    return "\n".join([made.front, *made.below.values()])


def _html(run: Run, notices: Sequence[Notice]) -> str:
    from tipbench.report.figures.drawing import save

    made = _pages(run, notices, below="")
    return html.render(made.front, made.title, {each.name: save(each, "svg") for each in made.drawings}, made.below)


RENDERERS: dict[str, Callable[[Run, Sequence[Notice]], str]] = {
    "md": _markdown,
    "html": _html,
    "json": as_json.render,
}


def render(run: Run, notices: Sequence[Notice], format: str) -> bytes:
    """The report's bytes, in UTF-8, with figures in HTML only. Raises KeyError for a format not in RENDERERS."""
    return RENDERERS[format](run, notices).encode("utf-8", "replace")


def write(
    run: Run,
    notices: Sequence[Notice],
    format: str,
    out: Path | None = None,
) -> Path | None:
    """Write the report to `<out>/<machine>/<run>.<format>` and return that path, or print it where `out` is None.

    Markdown is a page of answers; the evidence, one page a tip, and the figures as SVG and PNG are written beside it,
    to `<out>/<machine>/<run>/`. Printed it is one page, without figures. Raises ReportError where something cannot be
    written: no half-written file is left.
    """
    if out is None:
        print_bytes(render(run, notices, format))
        return None
    path = out / folder_name(run.machine) / f"{file_name(run)}.{format}"
    if format != "md":
        write_file(path, render(run, notices, format))
        return path
    from tipbench.report.figures.drawing import FIGURE_FORMATS as PICTURES
    from tipbench.report.figures.drawing import save

    made = _pages(run, notices, f"{path.stem}/", f"../{path.name}")
    below = path.with_suffix("")
    for drawing in made.drawings:
        for picture in PICTURES:
            write_file(below / f"{drawing.name}.{picture}", save(drawing, picture))
    for name, page in made.below.items():
        write_file(below / f"{name}.md", page.encode("utf-8", "replace"))
    write_file(path, made.front.encode("utf-8", "replace"))
    return path


_ANSWER_LINES = 18
"""Answers with a line of their own on a terminal."""


def news() -> Callable[[Run], list[str]]:
    """A function that has a line for each answer of a run that it had not when it was called before."""
    shown: dict[tuple[str, str], str] = {}

    def of(run: Run) -> list[str]:
        made = [answer for answer in answers(results(run)) if answer.kind not in (UNCLEAR, IMPOSSIBLE)]
        fresh = [answer for answer in made if shown.get((answer.tip, answer.workload)) != answer.answer]
        shown.update({(answer.tip, answer.workload): answer.answer for answer in fresh})
        return [f"{plain(answer.answer)}: {plain(answer.tip)}, {plain(answer.gain)}" for answer in fresh]

    return of


def one_liners(run: Run) -> list[str]:
    """One line of plain text an answer, those that ask for action first; of more than _ANSWER_LINES answers those that
    do not in a line a kind."""
    made = answers(results(run))
    shown = made if len(made) <= _ANSWER_LINES else [answer for answer in made if answer.kind in ACTS][:_ANSWER_LINES]
    lines = [f"{plain(answer.answer)}: {plain(answer.tip)}, {plain(answer.in_words)}" for answer in shown]
    for of in dict.fromkeys(answer.kind for answer in made if answer not in shown):
        tips = dict.fromkeys(plain(answer.tip) for answer in made if answer.kind == of and answer not in shown)
        lines.append(f"{of}{' (more)' * (of in ACTS)}: {', '.join(tips)}")
    return lines
