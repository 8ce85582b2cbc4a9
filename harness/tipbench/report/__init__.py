"""A run as people read it: rows derived from its records, rendered in one file a format.

Nothing here imports torch: runs are read on laptops. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tipbench.records.record import Run
from tipbench.records.store import Notice, file_name, folder_name
from tipbench.report import as_csv, as_html, as_json, as_markdown, one_run
from tipbench.report.advice import advise, of_runs
from tipbench.report.document import Parted
from tipbench.report.earlier import earlier_effects
from tipbench.report.effect import Effect, effects
from tipbench.report.output import ReportError, print_bytes, write_file
from tipbench.report.rows import Row, rows
from tipbench.report.wording import plain

__all__ = ["FORMATS", "ReportError", "Row", "earlier_effects", "one_liners", "render", "rows", "write"]

Earlier = Sequence[Sequence[Effect]]
"""What earlier runs of the machine found, which the answers count too: `earlier_effects`."""


def _html(run: Run, notices: Sequence[Notice], earlier: Earlier) -> str:
    from tipbench.report.figures import draw

    return as_html.render(one_run.page(run, notices, earlier=earlier), draw(rows(run), "svg"))


FORMATS: dict[str, Callable[[Run, Sequence[Notice], Earlier], str]] = {
    "md": lambda run, notices, earlier: as_markdown.render(one_run.page(run, notices, {}, earlier, sides=False)),
    "html": _html,
    "json": as_json.render,
    "csv": lambda run, notices, _: as_csv.render(run, notices),
}


def render(run: Run, notices: Sequence[Notice], format: str, earlier: Earlier = ()) -> bytes:
    """The report's bytes, in UTF-8, with figures in HTML only. Raises KeyError for a format not in FORMATS."""
    return FORMATS[format](run, notices, earlier).encode("utf-8", "replace")


def write(
    run: Run, notices: Sequence[Notice], format: str, out: Path | None = None, earlier: Earlier = ()
) -> Path | None:
    """Write the report to `<out>/<machine>/<run>.<format>` and return that path, or print it where `out` is None.

    Markdown is a page of answers; the evidence, one page a tip, and the figures as SVG and PNG are written beside it,
    to `<out>/<machine>/<run>/`. Printed it is one page, without figures. Raises ReportError where something cannot be
    written: no half-written file is left.
    """
    if out is None:
        print_bytes(render(run, notices, format, earlier))
        return None
    path = out / folder_name(run.machine) / f"{file_name(run)}.{format}"
    if format == "md":
        _write_figures(run, path.with_suffix(""))
        _write_pages(one_run.parted(run, path.stem, notices, earlier=earlier), path)
    else:
        write_file(path, render(run, notices, format, earlier))
    return path


def _write_pages(found: Parted, front: Path) -> None:
    for key, page in found.below.items():
        shown = as_markdown.render(page, lambda key: f"../{as_markdown.beside(key)}", lambda name: f"{name}.svg")
        write_file(front.parent / f"{key}.md", shown.encode("utf-8", "replace"))
    shown = as_markdown.render(found.front, as_markdown.beside, lambda name: f"{front.stem}/{name}.svg")
    write_file(front, shown.encode("utf-8", "replace"))


def _write_figures(run: Run, folder: Path) -> None:
    from tipbench.report.figures import draw

    found = rows(run)
    for format in ("svg", "png"):
        for name, content in draw(found, format).items():
            write_file(folder / f"{name}.{format}", content)


def one_liners(run: Run, earlier: Earlier = ()) -> list[str]:
    """One line of plain text a tip, the answers that ask for action first; then, where earlier runs count, of how many
    runs they are."""
    found = advise([*earlier, effects(run)])
    answers = max((len(plain(advice.answer)) for advice in found), default=0)
    tips = max((len(plain(advice.tip)) for advice in found), default=0)
    lines = [
        f"{plain(a.answer):<{answers}}  {plain(a.tip):<{tips}}  {plain('; '.join(filter(None, (a.gain, a.price))))}"
        for a in found
    ]
    return [*lines, of_runs(found)] if earlier else lines
