"""How published pages look in a browser, on a real MediaWiki and DokuWiki: text stays text, links lead on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from tests import browser as chromium
from tests import wikis
from tests.browser import listening
from tests.published import published, suite_run
from tests.wikis import Real
from tipbench.publish.pages import pages_of_run
from tipbench.publish.redaction import redact
from tipbench.publish.send import send

window, browser = chromium.window, chromium.browser

CONTENT = {"mediawiki": ".mw-parser-output", "dokuwiki": ".page"}
TYPOGRAPHY = str.maketrans({"\u2192": "->", "\u2018": "'", "\u2019": "'", "\u2013": "--", "\u201c": '"', "\u201d": '"'})
ADDRESS = {"mediawiki": "index.php/", "dokuwiki": "doku.php?id="}


@pytest.fixture(scope="module", params=CONTENT)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def site(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with wikis.running(kind, tmp_path_factory.mktemp(kind)) as running:
        assert isinstance(running, Real)
        yield running


def address(site: Real, kind: str, path: str) -> str:
    name = path if kind == "mediawiki" else path.lower().replace("/", ":")
    return f"{site.server.url}{ADDRESS[kind]}{name}"


def normal(text: str) -> str:
    """Without blanks, which browsers change, and without the typography that DokuWiki adds."""
    return "".join(text.translate(TYPOGRAPHY).split())


def texts(node: SyntaxTreeNode) -> str:
    return normal("".join(part.content for part in node.walk() if part.type in ("text", "code_inline")))


def test_every_cell_and_item_of_a_run_is_shown_as_it_is(site: Real, kind: str, window: chromium.Window) -> None:
    pages = pages_of_run(redact(suite_run()))
    send(site.open(), pages)
    for page in pages:
        shown = window().new_page()
        shown.goto(address(site, kind, page.path))
        content = normal(shown.locator(CONTENT[kind]).text_content() or "")
        nodes = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(page.text)).walk()
        wanted = [texts(node) for node in nodes if node.type in ("td", "th", "paragraph", "heading")]
        assert len(wanted) > 20
        assert [text for text in wanted if text not in content] == []


def test_links_lead_on_and_figures_are_shown(site: Real, kind: str, window: chromium.Window) -> None:
    run = published(machine="linked")
    path = run[1].path
    send(site.open(), run)
    shown = window().new_page()
    shown.set_default_timeout(60_000)  # beside other tests
    heard = listening(shown)
    shown.goto(address(site, kind, path))
    shown.wait_for_function(f"document.querySelector('{CONTENT[kind]} img')?.naturalWidth === 64")
    assert shown.locator(f"{CONTENT[kind]} img").evaluate("image => image.width") == 64, "at its own size"
    assert shown.locator("td code").first.inner_text() == "x|y"
    shown.click("a:text-is('evidence')")
    shown.wait_for_selector(":target", state="attached")
    assert path.rpartition("/")[2] in shown.url
    assert heard == []
