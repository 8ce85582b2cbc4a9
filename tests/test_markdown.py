"""A page as Markdown: every block and span, and foreign text that stays text."""

from __future__ import annotations

import pytest

from tipbench.report.as_markdown import blocks, render
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    SideBySide,
    Strong,
    Table,
    figures,
)


def shown(*listed: Block) -> str:
    return blocks(listed)


def test_each_block_in_its_markup() -> None:
    assert shown(Heading("Tip", 3)) == "### Tip\n"
    assert shown(Paragraph(("a ", Strong("b"), ", ", Literal("c"), Break(), "d"))) == "a **b**, `c`<br>d\n"
    assert shown(Quote((("one",), ("two",)))) == "> one<br>\n> two\n"
    assert shown(Bullets((("one",), ("two",)))) == "- one\n- two\n"
    assert shown(Code("x = 1\n", "python")) == "```python\nx = 1\n```\n"
    assert shown(Table("t", ("a", "b"), ((Cell(("1",)), Cell((Literal("x|y"),))), (Cell(()), Cell(("|",)))))) == (
        "| a | b |\n| --- | --- |\n| 1 | `x\\|y` |\n|   | \\| |\n"
    )
    both = SideBySide(("baseline", "optimized"), Code("a"), Code("b"))
    assert shown(both) == "**baseline**\n\n```\na\n```\n\n**optimized**\n\n```\nb\n```\n"
    assert shown(Folded("More", (Paragraph(("x",)),))) == ("<details><summary>More</summary>\n\nx\n\n</details>\n")
    assert render(Page("Title", (Paragraph(("x",)),))) == "# Title\n\nx\n"


def test_figures_are_pictures_where_they_have_a_place_and_words_elsewhere() -> None:
    figure = Figure("speedups", "2 faster [both]", "Dots are launches.")
    assert shown(figure) == "Figure: 2 faster [both]\n\nDots are launches.\n"
    drawn = blocks([figure], image=lambda name: f"run/{name}.svg")
    assert drawn == "![2 faster [both\\]](run/speedups.svg)\n\nDots are launches.\n"
    page = Page("Title", (figure, Folded("More", (Figure("two", "b"),)), Figure("three", "c")))
    assert [found.name for found in figures(page)] == ["speedups", "two", "three"]


def test_links_lead_within_the_page_to_others_and_to_the_web() -> None:
    line = Link("a", "#tip"), " ", Link("b", "Benchmarks/x"), " ", Link("c", 'https://a.b/c_(d) e">')
    assert blocks([Paragraph(line)], link=lambda key: f"../{key}.md") == (
        "[a](#tip) [b](../Benchmarks/x.md) [c](https://a.b/c_%28d%29%20e%22%3E)\n"
    )


@pytest.mark.parametrize(
    ("text", "as_text"),
    [
        ("# no heading", "\\# no heading"),
        ("- no bullet", "\\- no bullet"),
        ("> no quote", "\\> no quote"),
        ("1. no list", "1\\. no list"),
        ("1) no list", "1\\) no list"),
        ("=== no rule", "\\=== no rule"),
        ("2026.jsonl", "2026.jsonl"),
        ("1.5x", "1.5x"),
    ],
)
def test_the_beginning_of_a_line_is_no_markup(text: str, as_text: str) -> None:
    assert shown(Paragraph((text,))) == f"{as_text}\n"
    assert shown(Bullets(((text,),))) == f"- {as_text}\n"


def test_code_does_not_end_its_own_fence() -> None:
    inside = "a\n```\n<script>\n````"
    assert shown(Code(inside, "py`<thon")) == f"`````python\n{inside}\n`````\n"
    assert shown(Code("a\r\n\tb\x1b[31m\u202e", "")) == "```\na\n    b [31m\n```\n"
