"""MediaWiki, beyond the contract: its own refusals and waits, files, names, and how pages look in a browser."""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Iterator, Sequence

import pytest

from tests import browser as chromium
from tests import wikis
from tests.browser import listening
from tests.published import BOT_TOKEN, HOSTILE, TOKEN, hostile, picture, published, refused
from tests.wikis import Media, just_before
from tipbench.publish import http_wiki
from tipbench.publish.media_wiki import MediaWiki
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.wiki import Change, Conflict, Stored, WikiPage
from tipbench.report.document import Heading, Link, Page, Paragraph
from tipbench.report.wording import lines_of, plain

window, browser = chromium.window, chromium.browser

SECRET = Secret("Publisher@tipbench", BOT_TOKEN)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Media]:
    with wikis.running("mediawiki", tmp_path_factory.mktemp("mediawiki")) as running:
        assert isinstance(running, Media)
        yield running


@pytest.fixture
def wiki(site: Media) -> MediaWiki:
    return site.opened(TOKEN)


def own(machine: str, text: str = "It pays.") -> Published:
    return published(machine.encode().hex()[:32].ljust(8, "0"), text, machine)


def overwriting(wiki: MediaWiki, run: Published, text: str) -> Change:
    before = wiki.read(run.entry.path)
    return Change(run.entry.path, before, (before.text or "").replace("It pays.", text) or text)


def test_the_wiki_itself_notices_whoever_comes_between(site: Media, wiki: MediaWiki) -> None:
    """After our comparison. An edit of the same lines is a conflict, and so is a page made; one of others is kept."""
    run, made = own("between"), own("between-two")
    send(wiki, [run])

    def race(text: str, ours: Change) -> None:
        with just_before(b"action=edit", lambda: site.save(ours.path, text)):
            wiki.write([ours], "ours")

    with refused("changed by somebody", kind=Conflict):
        race(site.text(run.entry.path).replace("It pays.", "No."), overwriting(wiki, run, "Yes."))
    assert "No." in site.text(run.entry.path)
    with contextlib.suppress(Conflict):  # where the wiki has no program to merge texts
        race(f"above\n\n\n{site.text(run.entry.path)}", overwriting(wiki, run, "Yes."))
    assert site.text(run.entry.path).startswith("above\n")
    with refused("changed by somebody", kind=Conflict):
        race("mine", overwriting(wiki, made, "First."))
    assert site.text(made.entry.path) == "mine"


def test_a_wiki_that_shows_nothing_to_strangers(site: Media) -> None:
    with site.server.with_settings("$wgGroupPermissions['*']['read'] = false;"):
        with refused("TIPBENCH_TOKEN"):
            MediaWiki(site.server.url, Secret("", "")).read(("Main Page",))
        assert site.opened(TOKEN).read(("Main Page",)).text


def test_a_protected_page_and_nothing_half_published(site: Media, wiki: MediaWiki) -> None:
    run = own("protected")
    send(wiki, [run])
    machine = run.entry.path[:2]
    site.as_admin("protect", title=site.name(machine), protections="edit=sysop")
    with refused("Benchmarks/protected on", "protected", "administrator"):
        wiki.write([overwriting(wiki, run, "Half."), Change(machine, wiki.read(machine), "x")], "both")
    assert "Half." not in site.text(run.entry.path)


def test_a_blocked_user(site: Media, wiki: MediaWiki) -> None:
    site.as_admin("block", user="Publisher", reason="spam")
    try:
        with refused("blocked", "administrator"):
            send(wiki, [own("blocked")])
    finally:
        site.as_admin("unblock", user="Publisher")


def test_too_many_edits_a_minute_are_waited_for(site: Media, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = "$wgMainCacheType = CACHE_DB; $wgRateLimits = ['edit' => ['user' => [1, %d], 'newbie' => [1, %d]]];"
    monkeypatch.setattr(http_wiki, "WAITS_S", (1.1, 1.1))
    with site.server.with_settings(limits % (1, 1)):
        assert len(send(wiki, [own("slow")])) == 3
    monkeypatch.setattr(http_wiki, "WAITS_S", (0,))
    with site.server.with_settings(limits % (3600, 3600)), refused("fewer edits a minute"):
        send(wiki, [own("slower")])


def test_a_wiki_whose_databases_lag_behind_is_waited_for(
    site: Media, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with one database never lags, but for who asks for less than none."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    lagging = "if (isset($_POST['maxlag'])) { $_POST['maxlag'] = -2; }"
    with site.server.with_settings(lagging), refused("too busy"):
        send(wiki, [own("busy")])
    assert slept == list(http_wiki.WAITS_S)


def test_a_lost_session_is_made_anew(site: Media, wiki: MediaWiki) -> None:
    send(wiki, [own("session")])
    stale = "if (isset($_POST['token']) && !file_exists('{0}')) {{ touch('{0}'); $_POST['token'] = 'stale+'; }}"
    with site.server.with_settings(stale.format(site.server.folder / "stale")):
        assert send(wiki, [own("session", "Otherwise.")])
    assert "Otherwise." in site.text(own("session").entry.path)


def test_the_address_may_name_the_script_itself(site: Media) -> None:
    for script in ("index.php/Main_Page", "api.php"):
        assert MediaWiki(f"{site.server.url}{script}", SECRET).read(("Main Page",)).text


def test_a_file_of_another_is_never_overwritten(site: Media, wiki: MediaWiki) -> None:
    run = own("foreign")
    file = f"Tipbench-{'-'.join(run.entry.path[1:])}-speedups.png"
    site.as_admin("upload", files={"file": (file, picture(90), "image/png")}, filename=file, comment="mine")
    with refused(f"File:{file}", "Admin", "left alone"):
        send(wiki, [run])
    assert site.uploads(run.entry.path) == 1
    assert wiki.read(run.entry.path[:2]) == Stored(None)


def test_names_that_titles_cannot_have(site: Media, wiki: MediaWiki) -> None:
    path = ("Benchmarks", "a#b<c>[d]{e}|f:g", "..")
    page = WikiPage(path, Page("Odd", (Paragraph(("odd",)),)))
    wiki.write([Change(path, wiki.read(path), wiki.render(page))], "odd")
    assert "odd" in (site.opened(TOKEN).read(("Benchmarks", "a-b-c-d-e-f-g", "unnamed")).text or "")
    with refused("would both be named"):
        wiki.read(("Benchmarks", "a-b-c-d-e-f-g", "unnamed"))


TAGS = {
    "p", "b", "i", "code", "a", "span", "br", "ul", "li", "pre", "blockquote", "h2", "h3", "img", "table", "thead",
    "tbody", "tfoot", "tr", "th", "td", "div", "input", "label",
}  # fmt: skip
"""All elements of a page as the wiki shows it; the last three are of its table of contents."""


def as_stored(text: str) -> str:
    """MediaWiki composes characters, and has no noncharacters; what shows nothing joins arrows."""
    return re.sub("[\ufffe\uffff]", "\ufffd", unicodedata.normalize("NFC", text)).replace("\u2060", "")


def test_hostile_text_is_shown_as_text(site: Media, wiki: MediaWiki, window: chromium.Window) -> None:
    run = own("hostile")
    with site.server.with_settings("$wgEnableMagicLinks = ['ISBN' => true, 'PMID' => true, 'RFC' => true];"):
        send(wiki, [Published(run.entry, hostile(), run.images)])
        page = window().new_page()
        heard = listening(page)
        page.goto(f"{site.server.url}index.php/{site.name(run.entry.path)}")
    content = page.locator(".mw-parser-output")

    def texts(selector: str) -> list[str]:
        return [text.strip().replace("\u2060", "") for text in content.locator(selector).all_text_contents()]

    def attributes(selector: str, name: str) -> list[str]:
        return [str(one.get_attribute(name)) for one in content.locator(selector).all()]

    shown = [as_stored(plain(string)) for string in HOSTILE]
    code = [as_stored(lines_of(string)).strip() for string in HOSTILE]
    whole = as_stored(lines_of("\n".join(HOSTILE)))
    expected: dict[str, Sequence[str]] = {
        ".sortable th": [HOSTILE[0], "! x !! y", "^ x", "| x", "literal"],
        ".sortable td:nth-child(1)": shown,
        ".sortable td:nth-child(2) b": shown,
        ".sortable td:nth-child(3) code": shown,
        ".sortable td:nth-child(4) a": shown,
        ".sortable td:nth-child(5)": [f"before {string} after" for string in shown],
        "> ul > li": shown,
        "h3 .mw-headline": shown,
        "> pre": [*code, whole],
        "td > pre": [whole, HOSTILE[2]],
        ".mw-collapsible p": [shown[0], shown[1], "Contents"],
        "> p > i": shown,
    }
    assert {selector: texts(selector) for selector in expected} == expected
    assert texts("> p > b")[0] == shown[0]
    assert texts("blockquote")[0].split("\n") == shown
    assert attributes("img", "alt") == shown
    assert set(texts("> p")) >= set(shown)
    tags = content.evaluate("content => [...content.querySelectorAll('*')].map(one => one.tagName.toLowerCase())")
    assert set(tags) == TAGS
    links = {link.split("#")[0] for link in attributes("a[href]", "href") if "action=edit" not in link}
    file = f"/index.php/File:Tipbench-{'-'.join(run.entry.path[1:])}-speedups.png"
    assert links == {"", "/index.php/Benchmarks", file}
    assert heard == []


def test_links_lead_on_and_figures_are_shown(site: Media, wiki: MediaWiki, window: chromium.Window) -> None:
    run = own("linked")
    evidence = Page("Evidence", (Paragraph(("Up there. " * 999,)), Heading("no-grad", 2, "no-grad")))
    below = WikiPage(run.entry.evidence, evidence)
    down = Paragraph((Link("down", "#how to <read>"), " ", Link("the evidence", f"{below.key}#no-grad")))
    blocks = (down, *run.page.blocks, Heading("Reading", 3, "how to <read>"))
    send(wiki, [Published(run.entry, Page("Linked", blocks), run.images, below)])
    page = window().new_page()
    heard = listening(page)
    page.goto(f"{site.server.url}index.php/Benchmarks")
    page.click(f"a[href$='linked/{run.entry.run}']")
    page.wait_for_function("document.querySelector('.mw-parser-output img')?.naturalWidth === 32")
    page.click("a:text-is('the evidence')")
    assert page.locator("h2:has(:target)").inner_text().startswith("no-grad")
    page.go_back()
    page.click("a:text-is('down')")
    assert page.locator("h3:has(:target)").inner_text().startswith("Reading")
    page.click("a:text-is('all runs')")
    assert page.locator("h1").inner_text() == "Benchmarks"
    assert heard == []
    page.get_by_role("button", name="Expand").click()
    assert page.get_by_text("tipbench-run id=").first.is_visible()
    unscripted = window(java_script_enabled=False).new_page()
    unscripted.goto(f"{site.server.url}index.php/Benchmarks")
    assert unscripted.get_by_text("tipbench-run id=").first.is_visible()
