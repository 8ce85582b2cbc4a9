"""The pages of a publication: Markdown by the page's path, with figures as PNG, which every wiki takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tipbench.publish.redaction import Publication
from tipbench.publish.wiki import ROOT_PAGE, Page
from tipbench.records.store import file_name
from tipbench.report.pages import pages

PAGE_DPI = 96
"""Pixels of an inch of a page: a wiki shows a figure at its own size."""

CODE = r"^(?P<fence>`{3,}).*?^(?P=fence)$|(?P<tick>`)[^`\n]+`"
"""Code as `report.markdown` writes it: a block has a longer fence than any backticks within it, a line has none."""


def pages_of_run(publication: Publication) -> list[Page]:
    """The evidence of all tips in one page, then the answers, which link it."""
    from tipbench.report.figures.drawing import save

    path = f"{ROOT_PAGE}/{publication.run.machine['name']}/{file_name(publication.run)}"
    evidence = f"{path}/Evidence"
    made = pages(publication.run, publication.notices, "below/")
    figures = {f"{drawing.name}.png": save(drawing, "png", PAGE_DPI) for drawing in made.drawings}
    sections = [f"## {name}\n\n{_section(text)}" for name, text in made.below.items()]
    below = "\n".join([f"# Evidence\n\n[All answers of this run]({path})\n", *sections])
    return [_page(evidence, below, evidence, figures), _page(path, made.front, evidence, figures)]


def _section(page: str) -> str:
    """A tip's page within another one: tables of contents need not name its headings."""
    return _outside_code(r"^#+ (?P<heading>[^\n]*)$", lambda part: f"**{part['heading']}**", page)


def _page(path: str, text: str, evidence: str, figures: Mapping[str, bytes]) -> Page:
    """The page with links to sections of the evidence in place of files, and with its figures."""
    files: dict[str, bytes] = {}

    def addressed(part: re.Match[str]) -> str:
        if part["kind"] == "md":
            return f"]({evidence}#{part['name']})"
        file = f"{part['name']}.png"
        files[file] = figures[file]
        return f"]({file})"

    address = r"\]\((?:below/)?(?P<name>[\w.+-]+)\.(?P<kind>md|svg)\)"
    return Page(path, _outside_code(address, addressed, text), files)


def _outside_code(pattern: str, change: Callable[[re.Match[str]], str], text: str) -> str:
    return re.sub(
        f"{CODE}|{pattern}",
        lambda part: part[0] if part["fence"] or part["tick"] else change(part),
        text,
        flags=re.M | re.S,
    )
