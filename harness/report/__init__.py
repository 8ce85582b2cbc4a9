"""A run as people read it: rows derived from its records, rendered in one file a format.

Nothing here imports torch: runs are read on laptops. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tipbench.records.record import Run
from tipbench.records.store import Notice, file_name, folder_name
from tipbench.report import as_csv, as_html, as_json, as_markdown, one_run
from tipbench.report.advice import advise
from tipbench.report.effect import effects
from tipbench.report.output import ReportError, print_bytes, write_file
from tipbench.report.rows import Row, rows
from tipbench.report.wording import plain

__all__ = ["FORMATS", "ReportError", "Row", "one_liners", "render", "rows", "write"]


def _html(run: Run, notices: Sequence[Notice]) -> str:
    from tipbench.report.figures import draw

    return as_html.render(one_run.page(run, notices), draw(rows(run), "svg"))


FORMATS: dict[str, Callable[[Run, Sequence[Notice]], str]] = {
    "md": lambda run, notices: as_markdown.render(one_run.page(run, notices, drawn={})),
    "html": _html,
    "json": as_json.render,
    "csv": as_csv.render,
}


def render(run: Run, notices: Sequence[Notice], format: str) -> bytes:
    """The report's bytes, in UTF-8, with figures in HTML only. Raises KeyError for a format not in FORMATS."""
    return FORMATS[format](run, notices).encode("utf-8", "replace")


def write(run: Run, notices: Sequence[Notice], format: str, out: Path | None = None) -> Path | None:
    """Write the report to `<out>/<machine>/<run>.<format>` and return that path, or print it where `out` is None.

    Beside Markdown the figures are written, to `<out>/<machine>/<run>/`, as SVG and PNG. Raises ReportError where
    something cannot be written: no half-written file is left.
    """
    if out is None:
        print_bytes(render(run, notices, format))
        return None
    path = out / folder_name(run.machine) / f"{file_name(run)}.{format}"
    if format == "md":
        _write_figures(run, path.with_suffix(""))
        page = one_run.page(run, notices)
        shown = as_markdown.render(page, image=lambda name: f"{path.stem}/{name}.svg")
        write_file(path, shown.encode("utf-8", "replace"))
    else:
        write_file(path, render(run, notices, format))
    return path


def _write_figures(run: Run, folder: Path) -> None:
    from tipbench.report.figures import draw

    found = rows(run)
    for format in ("svg", "png"):
        for name, content in draw(found, format).items():
            write_file(folder / f"{name}.{format}", content)


def one_liners(run: Run) -> list[str]:
    """One line of plain text a tip, the answers that ask for action first."""
    found = advise([effects(run)])
    answers = max((len(plain(advice.answer)) for advice in found), default=0)
    tips = max((len(plain(advice.tip)) for advice in found), default=0)
    return [
        f"{plain(a.answer):<{answers}}  {plain(a.tip):<{tips}}  {plain('; '.join(filter(None, (a.gain, a.price))))}"
        for a in found
    ]
