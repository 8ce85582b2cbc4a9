"""The pages of a publication: Markdown by the page's path, with figures as PNG, which every wiki takes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tipbench import compare
from tipbench.compare.comparison import Comparison
from tipbench.publish.allowed import Allowed
from tipbench.publish.index import COMPARISON, Entry, entry
from tipbench.publish.wiki import Page
from tipbench.report.pages import Layout, pages
from tipbench.report.results import results

CODE = r"^(`{3,}).*?^\1$"
"""A block of code, which `report.markdown.fence` makes longer than any run of backticks within it."""


def of_run(publication: Allowed) -> tuple[Entry, list[Page]]:
    """The line in the index, and the run's pages: the evidence of all tips in one, then the answers, which link it."""
    from tipbench.report.figures.drawing import save

    runs = [*map(results, publication.earlier), results(publication.run)]
    line = entry(publication.run, runs)
    evidence = f"{line.path}/Evidence"
    made = pages(publication.run, runs, publication.notices, Layout("below/"))
    figures = {f"{drawing.name}.png": save(drawing, "png") for drawing in made.drawings}
    sections = [f"## {name}\n\n{_section(text)}" for name, text in made.below.items()]
    below = "\n".join([f"# Evidence\n\n[All answers of this run]({line.path})\n", *sections])
    return line, [_page(evidence, below, evidence, figures), _page(line.path, made.front, evidence, figures)]


def of_comparison(comparison: Comparison) -> Page:
    return Page(COMPARISON, compare.markdown(comparison))


def _section(page: str) -> str:
    """A tip's page within another one: tables of contents need not name its headings."""
    return re.sub(rf"{CODE}|^#+ (.*)$", lambda part: part[0] if part[1] else f"**{part[2]}**", page, flags=re.M | re.S)


def _page(path: str, text: str, evidence: str, figures: Mapping[str, bytes]) -> Page:
    """The page with links to sections of the evidence in place of files, and with its figures."""
    files: dict[str, bytes] = {}

    def addressed(part: re.Match[str]) -> str:
        if part[1]:
            return part[0]
        if part[3] == "md":
            return f"]({evidence}#{part[2]})"
        files[f"{part[2]}.png"] = figures[f"{part[2]}.png"]
        return f"]({part[2]}.png)"

    shown = re.sub(rf"{CODE}|\]\((?:below/)?([\w.+-]+)\.(md|svg)\)", addressed, text, flags=re.M | re.S)
    return Page(path, shown, files)
