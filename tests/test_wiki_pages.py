"""How published pages look in a browser, on a real MediaWiki and DokuWiki: text stays text, links lead on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests import browser as chromium
from tests import wikis
from tests.browser import listening
from tests.published import HOSTILE, hostile, published
from tests.wikis import Real
from tipbench.publish.markup import NOT_TEXT
from tipbench.publish.send import Publication, send
from tipbench.tip.wording import lines_of, plain

window, browser = chromium.window, chromium.browser

SETTINGS = {
    "mediawiki": "$wgEnableMagicLinks = ['ISBN' => true, 'PMID' => true, 'RFC' => true];",
    "dokuwiki": "$conf['camelcase'] = 1; $conf['typography'] = 2; $conf['htmlok'] = 1; $conf['phpok'] = 1;",
}
CONTENT = {"mediawiki": ".mw-parser-output", "dokuwiki": ".page"}
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
    """Without spaces, which browsers and wikis change."""
    return "".join(unicodedata.normalize("NFC", NOT_TEXT.sub("", text)).replace("\u2060", "").split())


def test_hostile_text_is_shown_as_text(site: Real, kind: str, window: chromium.Window) -> None:
    run = published(machine="hostile")
    entry, (evidence, page) = run.runs[0]
    evil: Publication = replace(run, runs=[(entry, [evidence, replace(page, text=hostile())])])
    with site.server.with_settings(SETTINGS[kind]):
        send(site.open(), evil)
        shown = window().new_page()
        heard = listening(shown)
        shown.goto(address(site, kind, page.path))
    content = shown.locator(CONTENT[kind])

    def texts(selector: str) -> list[str]:
        return [normal(text) for text in content.locator(selector).all_text_contents()]

    strings = {text for text in (normal(plain(string)) for string in HOSTILE) if text}
    if kind == "dokuwiki":  # it makes typographic signs and pictures of these, and has no way to write the last
        strings = {text for text in strings if not re.search(r"[\"']|\.\.\.|FIXME|</nowiki>", text)}
    for selector in ("tr td:nth-child(1)", "tr td:nth-child(2)", "tr td:nth-child(4)", "ul > li", "blockquote", "h3"):
        missing = strings - {text.removesuffix("[edit]").strip() for text in texts(selector)}
        assert not missing, selector
    assert {text.replace("`", "'") for text in strings} <= set(texts("code"))
    blocks = " ".join(texts("pre"))
    assert not {text for text in strings if len(text) < 300 and normal(lines_of(text)) not in blocks}
    tags = content.evaluate("content => [...content.querySelectorAll('*')].map(node => node.tagName.toLowerCase())")
    assert not {"script", "iframe", "form", "object", "embed", "style"} & set(tags) - {"style"}
    images = {str(image.get_attribute("src")) for image in content.locator("img").all()}
    assert all("speedups.png" in image.lower() or "/smileys/" in image for image in images), images
    assert heard == []


def test_links_lead_on_and_figures_are_shown(site: Real, kind: str, window: chromium.Window) -> None:
    run = published(machine="linked")
    path = run.runs[0][0].path
    send(site.open(), run)
    shown = window().new_page()
    shown.set_default_timeout(60_000)  # PHP's server resizes the figure first, beside other tests
    heard = listening(shown)
    shown.goto(address(site, kind, "Benchmarks"))
    shown.click(f"a:text-is('{run.runs[0][0].run}')")
    shown.wait_for_function(f"document.querySelector('{CONTENT[kind]} img')?.naturalWidth > 30")
    assert shown.locator("td code").first.inner_text() == "x|y"
    shown.click("a:text-is('evidence')")
    shown.wait_for_selector(":target", state="attached")
    assert path.rpartition("/")[2] in shown.url
    shown.goto(address(site, kind, path))
    shown.click("a:text-is('all runs')")
    assert shown.get_by_text("tipbench-run id=").first.is_visible()
    assert heard == []
