"""DokuWiki, beyond the contract: locks, rules, blocked words, names, and how pages look in a browser."""

from __future__ import annotations

import re
import xmlrpc.client
from collections.abc import Iterator, Sequence

import pytest

from tests import browser as chromium
from tests import wikis
from tests.browser import listening
from tests.published import HOSTILE, TOKEN, hostile, published, refused
from tests.wikis import Doku, just_before
from tipbench.publish.doku_wiki import DokuWiki
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.wiki import Change, Conflict, Stored, WikiError, WikiPage
from tipbench.report.document import Heading, Link, Page, Paragraph
from tipbench.report.wording import lines_of, plain

window, browser = chromium.window, chromium.browser

SECRET = Secret("publisher", TOKEN)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doku]:
    with wikis.running("dokuwiki", tmp_path_factory.mktemp("dokuwiki")) as running:
        assert isinstance(running, Doku)
        yield running


@pytest.fixture
def wiki(site: Doku) -> DokuWiki:
    return site.opened(TOKEN)


def own(machine: str, text: str = "It pays.") -> Published:
    return published(machine.encode().hex()[:32].ljust(8, "0"), text, machine)


def id_of(run: Published) -> str:
    return ":".join(run.entry.path).lower()


def locks(site: Doku) -> list[str]:
    return [file.name for file in (site.server.folder / "data/locks").glob("*.lock")]


def rewriting(wiki: DokuWiki, run: Published, text: str) -> Change:
    return Change(run.entry.path, wiki.read(run.entry.path), text)


def test_nobody_comes_between_comparing_and_writing(site: Doku, wiki: DokuWiki) -> None:
    """They are refused by our lock; why, this DokuWiki does not say."""
    run = own("between")
    send(wiki, [run])
    refusals: list[str] = []

    def comes() -> None:
        try:
            site.save(run.entry.path, "mine")
        except WikiError as error:
            refusals.append(str(error))

    ours = rewriting(wiki, run, "Ours.")
    with just_before(b"wiki.putPage", comes):
        wiki.write([ours], "ours")
    assert len(refusals) == 1
    assert wiki.read(run.entry.path).text == "Ours."
    assert locks(site) == []


def test_another_publisher_with_our_user_is_a_conflict_until_the_last_moment(site: Doku, wiki: DokuWiki) -> None:
    """DokuWiki's locks are no help there: it takes both for one."""
    run = own("same-user")
    other = rewriting(wiki, run, "The other's.")
    ours = Change(run.entry.path, other.before, "ours", run.images)
    with (
        refused("changed by somebody", kind=Conflict),
        just_before(b"wiki.putAttachment", lambda: wiki.write([other], "faster")),
    ):
        site.opened(TOKEN).write([ours], "ours")
    assert wiki.read(run.entry.path).text == other.text
    assert send(wiki, [run])


def test_a_page_locked_by_somebody_else(site: Doku, wiki: DokuWiki) -> None:
    """Another page of the same publication is not written either."""
    run = own("locked")
    send(wiki, [run])
    machine = Change(run.entry.path[:2], wiki.read(run.entry.path[:2]), "otherwise")
    with site.locked(id_of(run)):
        with refused(f"page {id_of(run)}", "locked", "15 minutes"):
            wiki.write([machine, rewriting(wiki, run, "Not now.")], "locked")
        assert wiki.read(run.entry.path[:2]).text != "otherwise"
        assert len(locks(site)) == 1  # theirs alone
    wiki.write([rewriting(wiki, run, "Now.")], "free")
    assert wiki.read(run.entry.path).text == "Now."


def test_a_user_who_may_not_even_read(site: Doku, wiki: DokuWiki) -> None:
    with site.rules("*\t@ALL\t0\n"), refused("does not let user publisher"):
        wiki.read(("Benchmarks",))


def test_xml_rpc_that_is_off_or_closed_to_us(site: Doku, wiki: DokuWiki) -> None:
    with site.server.with_settings("$conf['remote'] = 0;"), refused("XML-RPC is off", "`remote`"):
        DokuWiki(site.server.url, SECRET)
    with site.server.with_settings("$conf['remoteuser'] = '@staff';"), refused("user publisher", "`remoteuser`"):
        wiki.read(("Benchmarks",))
    with site.server.with_settings("$conf['remoteuser'] = '@user';"), refused("only users that log in"):
        DokuWiki(site.server.url, Secret("", "")).read(("Benchmarks",))


def test_a_word_that_the_wiki_blocks(site: Doku, wiki: DokuWiki) -> None:
    (site.server.folder / "conf/wordblock.local.conf").write_text("forbidden-word\n")
    with refused("page benchmarks:spam", "blocked words"):
        send(wiki, [own("spam", "A forbidden-word.")])
    assert locks(site) == []


def test_a_wiki_that_goes_down_while_it_is_written(site: Doku) -> None:
    """What is said is what failed first, not that the locks could not be given back."""
    down = "<?php http_response_code(503); exit;"
    with (
        site.server.with_settings(""),
        refused("page benchmarks:gone:", "HTTP 503"),
        just_before(b"wiki.putPage", lambda: site.server.switches.write_text(down)),
    ):
        send(site.opened(TOKEN), [own("gone")])
    assert send(site.opened(TOKEN), [own("gone")])
    assert locks(site) == []


def test_the_address_may_name_the_script_itself(site: Doku) -> None:
    assert DokuWiki(f"{site.server.url}doku.php?id=start", SECRET).read(("nowhere",)) == Stored(None)


def test_names_that_ids_cannot_have(site: Doku, wiki: DokuWiki) -> None:
    """DokuWiki leaves our ids alone, with any of its separators."""
    path = ("Benchmarks", "Böx  A__b:c/d+(e)", "..")
    page = WikiPage(path, Page("Odd", (Paragraph(("odd",)),)))
    for separator in "_-.":
        with site.server.with_settings(f"$conf['sepchar'] = '{separator}';"):
            wiki.write([Change(path, wiki.read(path), f"{wiki.render(page)}{separator}")], "odd")
    assert site.versions(("benchmarks", "box-a_b-c-d-e", "unnamed")) == 3
    with refused("would both be named"):
        wiki.read(("Benchmarks", "box-a_b-c-d-e", "unnamed"))


def as_sent(text: str) -> str:
    """XML has no noncharacters; characters that show nothing part what would end the text."""
    return re.sub("[\ufffe\uffff]", "\ufffd", text).replace("\u2060", "")


TAGS = {
    "p", "strong", "em", "code", "a", "br", "ul", "li", "pre", "blockquote", "h1", "h3", "img", "table", "thead",
    "tbody", "tr", "th", "td", "div", "span",
}  # fmt: skip
"""All elements of a page as the wiki shows it; the last two are around levels, lists and code."""


def test_hostile_text_is_shown_as_text(site: Doku, wiki: DokuWiki, window: chromium.Window) -> None:
    run = own("hostile")
    settings = "$conf['camelcase'] = 1; $conf['typography'] = 2; $conf['htmlok'] = 1; $conf['phpok'] = 1;"
    with site.server.with_settings(f"{settings} $conf['maxseclevel'] = 0;"):
        send(wiki, [Published(run.entry, hostile(), run.images)])
        page = window().new_page()
        heard = listening(page)
        page.goto(f"{site.server.url}doku.php?id={id_of(run)}")
    content = page.locator(".page")

    def texts(selector: str) -> list[str]:
        return [as_sent(text).strip() for text in content.locator(selector).all_text_contents()]

    def attributes(selector: str, name: str) -> list[str]:
        return [as_sent(str(one.get_attribute(name))) for one in content.locator(selector).all()]

    shown = [as_sent(plain(string)) for string in HOSTILE]
    code = [as_sent(lines_of(string)).strip() for string in HOSTILE]
    whole = as_sent(lines_of("\n".join(HOSTILE)))
    expected: dict[str, Sequence[str]] = {
        "h1": [shown[0]],
        "th": [HOSTILE[0], "! x !! y", "^ x", "| x", "literal"],
        "td:nth-child(1)": shown,
        "td:nth-child(2) strong": shown,
        "td:nth-child(3) code": shown,
        "td:nth-child(4) a": shown,
        "td:nth-child(5)": [f"before {string} after" for string in shown],
        "div[class^='level'] > ul > li": shown,
        "h3:not(.toggle)": shown,
        "pre": [*code, whole, whole, HOSTILE[2]],
    }
    assert {selector: texts(selector) for selector in expected} == expected
    assert [text.strip() for text in texts("blockquote")[0].split("\n")] == shown
    assert texts("p > em")[1:-1] == shown
    assert attributes("img", "alt") == ["" if text == "0" else text for text in shown]  # PHP takes "0" for nothing
    assert set(texts("p")) >= set(shown)
    tags = content.evaluate("content => [...content.querySelectorAll('*')].map(one => one.tagName.toLowerCase())")
    assert set(tags) == TAGS
    file = f"/lib/exe/fetch.php?media={id_of(run)}:speedups.png"
    assert set(attributes("a[href]:not([href^='#'])", "href")) == {"/doku.php?id=benchmarks", file}
    assert heard == []


def test_links_lead_on_and_figures_are_shown(site: Doku, wiki: DokuWiki, window: chromium.Window) -> None:
    run = own("linked")
    reading = Heading("How to read: <1 x 2> is | [[x]]", 3, "how to <read>")
    evidence = Page("Evidence", (Paragraph(("Up there. " * 999,)), Heading("no-grad", 2, "no-grad")))
    below = WikiPage(run.entry.evidence, evidence)
    down = Paragraph((Link("down", "#how to <read>"), " ", Link("the evidence", f"{below.key}#no-grad")))
    blocks = (down, *run.page.blocks, reading)
    send(wiki, [Published(run.entry, Page("Linked", blocks), run.images, below)])
    page = window().new_page()
    heard = listening(page)
    page.goto(f"{site.server.url}doku.php?id=benchmarks")
    page.click(f".page a[href$='{id_of(run)}']")
    page.wait_for_function("document.querySelector('.page img')?.naturalWidth === 32")
    page.click("a:text-is('the evidence')")
    assert page.locator(":target").inner_text() == "no-grad"
    page.go_back()
    page.click("a:text-is('down')")
    assert page.locator(":target").inner_text() == "How to read: <1 x 2> is | [[x]]"
    page.click("a:text-is('all runs')")
    assert page.locator(".page h1").inner_text() == "PyTorch tuning tips: benchmarks"
    assert heard == []


def test_what_is_sent_is_xml_rpc_as_the_standard_library_reads_it(wiki: DokuWiki) -> None:
    """Characters that XML has none of would make the wiki refuse the whole page."""
    page = WikiPage(("Benchmarks", "xml"), hostile())
    (_, text), method = xmlrpc.client.loads(xmlrpc.client.dumps(("xml", wiki.render(page)), "wiki.putPage"))
    assert (text, method) == (wiki.render(page), "wiki.putPage")
