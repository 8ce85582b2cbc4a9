"""Pages as Markdown: whatever a template inserts is shown as it is, and numbers have units."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tipbench.report.markdown import template_environment, text
from tipbench.tip.wording import lines_of, plain

FRIGHTENING = st.text(st.sampled_from("ab1.2)#>-+=*_~`|[](){}!<>&\\$:/@ \n\r\t\x1b\u202e\ud800"), max_size=30)
PLACES = {
    "a paragraph": "{{ x }}\n",
    "an item": "- {{ x }}\n",
    "a quotation": "> {{ x }}\n",
    "a heading": "## {{ x }}\n",
    "words in bold": "a {{ x | strong }} b\n",
    "a link": "a {{ x | link('https://example.org/') }} b\n",
    "a picture": "a {{ x | image('a.svg') }} b\n",
    "a cell": "| a | b |\n| --- | --- |\n| c | {{ x }} |\n",
    "code in a cell": "| a | b |\n| --- | --- |\n| c | {{ x | code_cell }} |\n",
    "code": "a {{ x | code }} b\n",
    "a list of words": "a {{ [x, x] | join }} b\n",
}


def markdown(template: str, **context: object) -> str:
    return template_environment().from_string(template).render(context)


def parsed(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": False}).enable("table").parse(markdown)


def shape(tokens: list[Token]) -> list[str]:
    """What the Markdown is made of, without its text."""
    inside = [child.type for token in tokens for child in token.children or [] if child.type != "text"]
    return [*(token.type for token in tokens), *inside]


def words(tokens: list[Token]) -> str:
    return "".join(
        words([child]) if child.children else child.content for each in tokens for child in each.children or []
    )


@pytest.mark.parametrize("place", PLACES)
@given(foreign=FRIGHTENING.filter(lambda foreign: plain(foreign) != ""))
def test_foreign_text_is_shown_as_it_is_wherever_it_is_inserted(place: str, foreign: str) -> None:
    shown, harmless = (parsed(markdown(PLACES[place], x=inserted)) for inserted in (foreign, "x"))
    assert shape(shown) == shape(harmless)
    expected = plain(foreign).replace("`", "'") if place.startswith("code") else plain(foreign)
    assert words(shown) == words(parsed(markdown(PLACES[place], x="X"))).replace("X", expected)


def test_what_other_renderers_would_read_is_escaped_too() -> None:
    assert text("[[page]] $x$ ~~gone~~ #1") == r"\[[page]] \$x\$ \~\~gone\~\~ #1"
    assert text("-49 %") == "-49 %", "a number needs no escape"


@given(code=st.text(st.sampled_from("ab `~\n<>\t\x1b"), max_size=40))
def test_code_does_not_end_its_own_block(code: str) -> None:
    tokens = parsed(markdown("{{ x | fence('python') }}\n\nafter\n", x=code))
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content.rstrip("\n") == lines_of(code).rstrip("\n")


@pytest.mark.parametrize(
    ("address", "leads"),
    [
        ("#tip", True),
        ("run/a b.md#tip", True),
        ("../run.md", True),
        ('https://a.b/c_(d) e">', True),
        ("javascript:alert(1)", False),
        ("JavaScript:alert(1)//", False),
        ("data:text/html,x", False),
        ("//elsewhere.org/x", False),
        ("/etc/passwd", False),
        ("\\\\elsewhere.org", False),
        ("", False),
    ],
)
def test_links_lead_to_pages_beside_and_to_the_web_alone(address: str, leads: bool) -> None:
    shown = parsed(markdown("{{ 'word' | link(address) }}", address=address))
    assert words(shown) == "word"
    assert ("link_open" in shape(shown)) == leads


def test_a_number_is_shown_in_its_unit_or_not_at_all() -> None:
    assert markdown("{{ 0.0123 | seconds }} {{ 1024 | size }} {{ 1.35 | ratio(1.33, 1.38) }}") == (
        "12.3 ms 1.00 KiB 1.35x [1.33, 1.38]"
    )
    assert markdown("{{ n | seconds }} {{ n | ratio(1.0, 2.0) }} {{ 1.5 | ratio(n, n) }} {{ n }}", n=None) == (
        "- - about 1.50x -"
    )
    with pytest.raises(TypeError, match="without a filter"):
        markdown("{{ x }}", x=0.5)
    with pytest.raises(jinja2.UndefinedError):
        markdown("{{ misspelt }}")


def test_macros_and_joined_words_are_escaped_once() -> None:
    template = "{% macro cell(x) %}**{{ x }}**{% endmacro %}{{ cell('a|b') }} {{ ['<', 'b'|code] | join(' & ') }}"
    assert markdown(template) == r"**a\|b** &lt; & `b`"
