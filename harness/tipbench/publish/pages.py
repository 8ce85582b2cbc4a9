"""The pages of a publication: Markdown by the page's path, with figures as PNG, which every wiki takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tipbench.compare.comparison import Comparison
from tipbench.compare.page import across
from tipbench.compare.page import page as compared_page
from tipbench.publish.allowed import Allowed
from tipbench.publish.index import COMPARISON, Entry, entry
from tipbench.publish.wiki import Page
from tipbench.report import as_markdown
from tipbench.report.document import Page as Document
from tipbench.report.figures import alts_across, draw_across
from tipbench.report.pages import Layout, pages
from tipbench.report.results import results


def of_run(publication: Allowed) -> tuple[Entry, list[Page]]:
    """The line in the index, and the run's pages: the evidence of all tips in one, then the answers, which link it."""
    from tipbench.report.figures.drawing import save

    runs = [*map(results, publication.earlier), results(publication.run)]
    line = entry(publication.run, runs)
    evidence = f"{line.path}/Evidence"
    layout = Layout(below=f"{evidence}#", ending="", home=line.path)
    made = pages(publication.run, runs, publication.notices, layout)
    files = {f"{drawing.name}.png": save(drawing, "png") for drawing in made.drawings}
    links_up = f"({line.path})"
    tips = [f"## {name}\n\n{_below(text, links_up)}" for name, text in made.below.items()]
    below = "\n".join(["# Evidence", "", f"[All answers of this run]{links_up}", "", *tips])
    texts = {evidence: below, line.path: made.front}
    return line, [_with_files(path, _pictures(text, layout.below or ""), files) for path, text in texts.items()]


def of_comparison(comparison: Comparison) -> Page:
    effects = across(comparison)
    page = compared_page(comparison, alts_across(effects))
    drawn = {f"{name}.png": content for name, content in draw_across(effects, "png").items()}
    return _with_files(COMPARISON, markdown(page), drawn)


def markdown(page: Document) -> str:
    """A page of the older kind, without the raw HTML that as_markdown still writes."""
    text = as_markdown.render(page, image=lambda name: f"{name}.png")
    text = re.sub(r"^<details><summary>(.*)</summary>$", r"### \1", text, flags=re.M)
    return re.sub(r"<br>$", r"\\", re.sub(r"^</details>$", "", text, flags=re.M), flags=re.M)


def _below(text: str, links_up: str) -> str:
    """A tip's evidence within a page: its headings a level lower, and without its link up."""
    lines, fence = [], ""
    for line in text.split("\n"):
        if mark := re.match(r"`{3,}", line):
            fence = "" if fence and line.strip() == fence else fence or mark[0]
        is_heading = not fence and line.startswith("#")
        if not fence and line == f"[All answers of this run]{links_up}":
            continue
        lines.append(f"**{line[2:]}**" if is_heading and line.startswith("# ") else "#" * is_heading + line)
    return "\n".join(lines)


def _pictures(text: str, folder: str) -> str:
    """Images by their files' names alone."""
    return re.sub(rf"\]\((?:{re.escape(folder)})?([\w.+-]+)\.svg\)", r"](\1.png)", text)


def _with_files(path: str, text: str, files: Mapping[str, bytes]) -> Page:
    shown: Sequence[str] = re.findall(r"!\[(?:[^\]\\]|\\.)*\]\(([\w.+-]+)\)", text)
    return Page(path, text, {name: files[name] for name in shown if name in files})
