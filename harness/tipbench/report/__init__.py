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
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import ACTS, DEFAULT, DO_NOT, IMPOSSIBLE, KINDS, UNCLEAR, USE, USE_IF
from tipbench.report.front import Row, front
from tipbench.report.output import ReportError, print_bytes, write_file
from tipbench.report.results import results
from tipbench.tip.wording import job_words, plain

if TYPE_CHECKING:
    from tipbench.report.pages import Pages

__all__ = ["RENDERERS", "ReportError", "news", "one_liners", "render", "write"]


def _pages(run: Run, notices: Sequence[Notice], folder: str | None = None, home: str = "") -> Pages:
    from tipbench.report.pages import pages  # with matplotlib, which JSON and comparisons are spared

    return pages(run, notices, folder, home)


def _markdown(run: Run, notices: Sequence[Notice]) -> str:
    """All pages in one text."""
    made = _pages(run, notices)
    return "\n".join([made.front, *made.below.values()])


def _html(run: Run, notices: Sequence[Notice]) -> str:
    from tipbench.report.figures.drawing import save

    made = _pages(run, notices, folder="")
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
    from tipbench.report.figures.drawing import FIGURE_FORMATS, save

    made = _pages(run, notices, f"{path.stem}/", f"../{path.name}")
    below = path.with_suffix("")
    for drawing in made.drawings:
        for picture in FIGURE_FORMATS:
            write_file(below / f"{drawing.name}.{picture}", save(drawing, picture))
    for name, page in made.below.items():
        write_file(below / f"{name}.md", page.encode("utf-8", "replace"))
    write_file(path, made.front.encode("utf-8", "replace"))
    return path


_ANSWER_LINES = 18
"""Most answers with all that they say on a terminal."""


def news() -> Callable[[Run], list[str]]:
    """A function that has a line for each answer of a run that it had not when it was called before."""
    shown: dict[tuple[str, str], str] = {}

    def of(run: Run) -> list[str]:
        made = [answer for answer in answers(results(run)) if answer.kind not in (UNCLEAR, IMPOSSIBLE)]
        fresh = [answer for answer in made if shown.get((answer.tip, answer.workload)) != answer.answer]
        shown.update({(answer.tip, answer.workload): answer.answer for answer in fresh})
        return [_in_a_line(answer) for answer in fresh]

    return of


def _in_a_line(answer: Answer) -> str:
    brings = [f"{job_words(gain.row.pair)} {gain.brought}" for gain in answer.gains] or [answer.gain]
    parts = [] if answer.kind == DEFAULT else [*brings, *answer.remarks]
    if answer.kind in ACTS:
        parts += [f"against {answer.against}"] if answer.against else []
        parts += [f"price: {answer.price}"] if answer.price else []
    word = answer.answer.replace(f"{USE_IF} {answer.when}", USE)  # what it is called, and whether on a toy, stay
    when = f", if {answer.when}" * (answer.kind == USE_IF)
    return plain(f"{word}: {answer.title.removesuffix('.')}{': ' * bool(parts)}{'; '.join(parts)}{when}")


def one_liners(run: Run) -> list[str]:
    """A run's answers in plain text, a line each; where that is more than _ANSWER_LINES, the rows of its page's table,
    and the other answers in a line a kind."""
    made = answers(results(run))
    if len(made) <= _ANSWER_LINES:
        return list(map(_in_a_line, made))
    page = front(made, (), str)
    lines = [plain(_row_in_a_line(row, page.columns)) for row in page.rows]
    lines += [f"{len(page.further)} more stand on the page"] if page.further else []
    for kind in KINDS:
        tips = dict.fromkeys(plain(answer.tip) for answer in made if answer.kind == kind)
        lines += [f"{kind}: {', '.join(tips)}"] if tips and kind not in (*ACTS, DO_NOT) else []
    return lines


def _row_in_a_line(row: Row, columns: Sequence[str]) -> str:
    cells = [(column, f"{cell.strong} {cell.rest}".strip()) for column, cell in zip(columns, row.cells, strict=True)]
    cells.append(("memory", row.memory.strong or row.memory.rest))
    brings = ", ".join(f"{name} {text}" for name, text in cells if text)
    return "; only if ".join(filter(None, (f"{row.grade}: {row.title}: {brings}", row.only_if)))
