"""Publishing to a real MediaWiki: what is made, what is left alone, what is told when it cannot be done."""

from __future__ import annotations

import contextlib
import io
import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import mwclient  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import Dialog
from playwright.sync_api import Page as Playwright

from tests import browser as chromium
from tests.servers import (
    BOT_TOKEN,
    HOSTILE,
    TOKEN,
    Server,
    hostile,
    need_media_wiki,
    picture,
    published,
    refused,
    unused_port,
)
from tests.servers import media_wiki as serve
from tipbench.publish import media_wiki
from tipbench.publish.media_wiki import MediaWiki, open_wiki
from tipbench.publish.region import placed
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.wiki import Change, Conflict, Stored, WikiPage
from tipbench.report.document import Heading, Link, Page, Paragraph
from tipbench.report.wording import lines_of, plain

window, browser = chromium.window, chromium.browser

SECRET = Secret("Publisher@tipbench", BOT_TOKEN)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_media_wiki()
    with serve(tmp_path_factory.mktemp("mediawiki")) as running:
        yield running


@pytest.fixture(scope="module")
def wiki(server: Server) -> MediaWiki:
    return open_wiki(server.url, SECRET)


@cache
def logged_in(server: Server, user: str) -> mwclient.Site:
    site = mwclient.Site(server.url.split("/")[2], path="/", scheme="http")
    site.login(user, TOKEN)
    return site


def titles(run: Published) -> list[str]:
    return ["Benchmarks", f"Benchmarks/{run.entry.machine}", "/".join(run.entry.path)]


def revisions(server: Server, title: str) -> int:
    return len(list(logged_in(server, "Human").pages[title].revisions()))


def versions(server: Server, file: str) -> int:
    return len(list(logged_in(server, "Human").images[file].imagehistory()))


def change(wiki: MediaWiki, run: Published, told: str) -> Change:
    """The run's page with other words, as it would be written on what is there now."""
    page = WikiPage(run.entry.path, Page("Another", (Paragraph((told,)),)))
    before = wiki.read(page.path)
    return Change(page.path, before, placed(before.text, wiki.marks, wiki.render(page), page.key))


FILE = "/index.php/File:Tipbench-{}-2026-11-21-0e1f8a67-speedups.png"

TEXT = {"p", "b", "i", "code", "a", "span", "br", "ul", "li", "pre", "blockquote", "h2", "h3", "img"}
TABLES = {"table", "thead", "tbody", "tfoot", "tr", "th", "td"}
CONTENTS = {"div", "input", "label"}
"""All elements of a page as the wiki shows it; CONTENTS is of its table of contents."""


def listening(page: Playwright) -> list[str]:
    """What a page must not do: dialogs, and requests to elsewhere."""
    heard: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("request", lambda request: None if "127.0.0.1" in request.url else heard.append(request.url))
    return heard


def as_stored(text: str) -> str:
    """MediaWiki composes characters, and has no noncharacters; what shows nothing joins arrows."""
    return re.sub("[\ufffe\uffff]", "\ufffd", unicodedata.normalize("NFC", text)).replace("\u2060", "")


def test_a_tree_is_made_once(server: Server, wiki: MediaWiki) -> None:
    run = published("once")
    assert [change.path for change in send(wiki, [run])] == [run.entry.path, run.entry.path[:2], run.entry.path[:1]]
    assert send(wiki, [run]) == []
    assert send(open_wiki(server.url, SECRET), [run]) == []
    assert [revisions(server, title) for title in titles(run)[1:]] == [1, 1]
    assert versions(server, "Tipbench-once-2026-11-21-0e1f8a67-speedups.png") == 1


def test_a_changed_run_touches_its_own_page_and_a_changed_figure_its_file(server: Server, wiki: MediaWiki) -> None:
    send(wiki, [published("changed")])
    index = revisions(server, "Benchmarks")
    assert len(send(wiki, [published("changed", told="It does not pay.")])) == 1
    assert [revisions(server, title) for title in titles(published("changed"))] == [index, 1, 2]
    assert versions(server, "Tipbench-changed-2026-11-21-0e1f8a67-speedups.png") == 1
    sent = send(wiki, [published("changed", told="It does not pay.", shade=7)])
    assert [(change.text, list(change.images)) for change in sent] == [(None, ["speedups.png"])]
    assert versions(server, "Tipbench-changed-2026-11-21-0e1f8a67-speedups.png") == 2
    assert revisions(server, titles(published("changed"))[2]) == 2


def test_what_people_write_around_our_region_survives(server: Server, wiki: MediaWiki) -> None:
    run = published("edited")
    send(wiki, [run])
    page = logged_in(server, "Human").pages[titles(run)[2]]
    page.edit(f"== Ours ==\n{{{{Main Page}}}}\n\n{page.text()}\n\n* ''below'' ~~~~", "around")
    assert send(wiki, [run]) == []
    assert len(send(wiki, [published("edited", told="Otherwise.")])) == 1
    text = wiki.read(run.entry.path).text
    assert text is not None
    assert text.startswith("== Ours ==\n{{Main Page}}\n\n<!-- Begin")
    assert "<!-- End of what tipbench writes -->\n\n* ''below'' [[User:Human" in text
    assert "Otherwise." in text
    assert "It pays." not in text


def test_a_page_changed_since_it_was_read_is_a_conflict(server: Server, wiki: MediaWiki) -> None:
    run = published("conflict")
    send(wiki, [run])
    ours = change(wiki, run, "Later.")
    image = Change(("Benchmarks", "conflict"), wiki.read(("Benchmarks", "conflict")), None, {"new.png": picture(1)})
    logged_in(server, "Human").pages[titles(run)[2]].append("\nfaster")
    with refused("changed by somebody", kind=Conflict):
        wiki.write([image, ours], "too late")
    assert not wiki.has_image(("Benchmarks", "conflict"), "new.png", picture(1))  # and nothing else was written
    wiki.write([change(wiki, run, "Later.")], "on top")
    text = wiki.read(run.entry.path).text or ""
    assert "Later." in text
    assert "faster" in text


def test_a_page_that_another_made_meanwhile_is_a_conflict(server: Server, wiki: MediaWiki) -> None:
    run = published("made")
    ours = change(wiki, run, "First.")
    logged_in(server, "Human").pages[titles(run)[2]].edit("mine", "faster")
    with refused("changed by somebody", kind=Conflict):
        wiki.write([ours], "too late")
    assert wiki.read(run.entry.path).text == "mine"


def test_the_wiki_itself_tells_of_whoever_comes_between(
    server: Server, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After our comparison and before our edit: an edit of the same lines is a conflict, of others it is kept."""
    run = published("between")
    send(wiki, [run])
    page = logged_in(server, "Human").pages[titles(run)[2]]
    check = MediaWiki._expect_writable

    def comes_between(text: str) -> None:
        def checked(wiki: MediaWiki, changes: list[Change]) -> None:
            check(wiki, changes)
            page.edit(text, "between")

        monkeypatch.setattr(MediaWiki, "_expect_writable", checked)

    comes_between(page.text().replace("It pays.", "I say no."))
    with refused("changed by somebody", kind=Conflict):
        wiki.write([change(wiki, run, "We say yes.")], "ours")
    assert "I say no." in page.text(cache=False)

    comes_between("above\n\n\n" + page.text(cache=False))
    with contextlib.suppress(Conflict):  # where the wiki has no program to merge texts
        wiki.write([change(wiki, run, "We say yes.")], "ours")
    assert page.text(cache=False).startswith("above\n")

    monkeypatch.undo()
    made = published("between-two")
    new = logged_in(server, "Human").pages[titles(made)[2]]
    ours = change(wiki, made, "First.")
    monkeypatch.setattr(MediaWiki, "_expect_writable", lambda *_: new.edit("mine", "faster"))
    with refused("changed by somebody", kind=Conflict):
        wiki.write([ours], "ours")
    assert wiki.read(made.entry.path).text == "mine"


def test_a_conflict_is_tried_again_on_top_of_the_others_work(
    server: Server, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = published("again")
    send(wiki, [run])
    write, page = MediaWiki.write, logged_in(server, "Human").pages[titles(run)[2]]

    def raced(wiki: MediaWiki, changes: list[Change], summary: str) -> None:
        monkeypatch.undo()
        page.append("\n\nby hand")
        write(wiki, changes, summary)

    monkeypatch.setattr(MediaWiki, "write", raced)
    assert send(wiki, [published("again", told="Otherwise.")])
    text = wiki.read(run.entry.path).text or ""
    assert "Otherwise." in text
    assert "by hand" in text


@pytest.mark.parametrize(
    "secret", [Secret("Publisher@tipbench", TOKEN), Secret("Nobody@tipbench", BOT_TOKEN)], ids=["token", "user"]
)
def test_a_wrong_token(server: Server, secret: Secret) -> None:
    with refused(server.url, f"does not take user {secret.user}", "Special:BotPasswords"):
        open_wiki(server.url, secret)


def test_without_a_token_it_is_read_and_not_written(server: Server) -> None:
    stranger = open_wiki(server.url, Secret("", ""))
    assert "tipbench" not in (stranger.read(("Main Page",)).text or "tipbench")
    with refused("TIPBENCH_USER", "TIPBENCH_TOKEN"):
        send(stranger, [published("stranger")])
    with server.with_settings("$wgGroupPermissions['*']['read'] = false;"):
        with refused("TIPBENCH_TOKEN"):
            open_wiki(server.url, Secret("", "")).read(("Main Page",))
        assert open_wiki(server.url, SECRET).read(("Main Page",)).text


def test_a_read_only_wiki(server: Server, wiki: MediaWiki) -> None:
    with server.with_settings("$wgReadOnly = 'Backup until noon';"), refused("read-only", "Backup until noon"):
        send(wiki, [published("read-only")])
    assert wiki.read(("Benchmarks", "read-only")) == Stored(None)


def test_a_protected_page_and_nothing_half_published(server: Server, wiki: MediaWiki) -> None:
    run = published("protected")
    send(wiki, [run])
    admin = logged_in(server, "Admin")
    protect = {"title": titles(run)[1], "protections": "edit=sysop", "token": admin.get_token("csrf")}
    admin.post("protect", **protect)
    machine = WikiPage(run.entry.path[:2], Page("Another", ()))
    other = Change(machine.path, wiki.read(machine.path), wiki.render(machine))
    with refused("Benchmarks/protected on", "protected", "administrator"):
        wiki.write([change(wiki, run, "Half."), other], "both")
    assert "Half." not in (wiki.read(run.entry.path).text or "")


def test_a_blocked_user(server: Server, wiki: MediaWiki) -> None:
    admin = logged_in(server, "Admin")
    admin.post("block", user="Publisher", reason="spam", token=admin.get_token("csrf"))
    try:
        with refused("blocked", "administrator"):
            send(wiki, [published("blocked")])
    finally:
        admin.post("unblock", user="Publisher", token=admin.get_token("csrf"))


def test_a_lost_session_is_made_anew(server: Server, wiki: MediaWiki) -> None:
    wiki._site.tokens["csrf"] = "0123456789abcdef+\\"
    assert send(wiki, [published("lost-session")])


def test_too_many_edits_a_minute_are_waited_for(
    server: Server, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = "$wgMainCacheType = CACHE_DB; $wgRateLimits = ['edit' => ['user' => [1, %d], 'newbie' => [1, %d]]];"
    monkeypatch.setattr(media_wiki, "WAITS_S", (1.1, 1.1))
    with server.with_settings(limits % (1, 1)):
        assert len(send(wiki, [published("slow")])) == 3
    monkeypatch.setattr(media_wiki, "WAITS_S", (0,))
    with server.with_settings(limits % (3600, 3600)), refused("fewer edits a minute"):
        send(wiki, [published("slower")])


def test_a_wiki_that_is_too_busy(server: Server, wiki: MediaWiki, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose copies of the database lag behind answers edits so; a wiki with one database never does."""
    lagging = "header('X-Database-Lag: 7'); header('Retry-After: 5'); echo '{}'; exit;"
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    with server.with_settings(f"if (isset($_POST['maxlag'])) {{ {lagging} }}"), refused("too busy"):
        wiki.write([change(wiki, published("busy"), "Now.")], "busy")
    assert slept == [5] * media_wiki.TRIES


def test_a_token_without_a_user_goes_in_a_header(server: Server) -> None:
    asked = f"if (($_SERVER['HTTP_AUTHORIZATION'] ?? '') !== 'Bearer {TOKEN}') {{ http_response_code(401); exit; }}"
    with server.with_settings(asked):
        assert open_wiki(server.url, Secret("", TOKEN)).read(("Main Page",)).text
        with refused("401"):
            open_wiki(server.url, Secret("", f"{TOKEN}x")).read(("Main Page",))


def test_a_wiki_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_wiki, "PAUSE_S", 0)
    address = f"127.0.0.1:{unused_port()}"
    with refused("nothing answers at", address):
        open_wiki(f"http://{address}/", SECRET)


def test_what_is_no_media_wiki_or_fails(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_wiki, "PAUSE_S", 0)
    wiki = open_wiki(server.url, SECRET)
    with refused("404", "api.php"):
        open_wiki(f"{server.url}nowhere/", SECRET)
    with server.with_settings("echo '<p>Welcome</p>'; exit;"), refused("not as a MediaWiki", "api.php"):
        open_wiki(server.url, SECRET)
    with server.with_settings("echo '{}'; exit;"), refused("not as a MediaWiki", "api.php"):
        open_wiki(server.url, SECRET)
    with (
        server.with_settings("header('Location: https://other.example.org/api.php?x=y', true, 301); exit;"),
        refused("sends on to https://other.example.org/api.php: publish to that address"),
    ):
        open_wiki(server.url, SECRET)
    with server.with_settings("http_response_code(503); exit;"), refused("503"):
        wiki.read(("Benchmarks",))


def test_the_address_may_name_the_script_itself(server: Server) -> None:
    assert open_wiki(f"{server.url}index.php/Main_Page", SECRET).read(("Main Page",)).text
    assert open_wiki(f"{server.url}api.php", SECRET).read(("Main Page",)).text


def test_a_wiki_that_takes_no_files_gets_figures_in_words(server: Server) -> None:
    with server.with_settings("$wgEnableUploads = false;"):
        run = published("no-files")
        wiki = open_wiki(server.url, SECRET)
        assert len(send(wiki, [run])) == 3
        assert send(wiki, [run]) == []
    text = wiki.read(run.entry.path).text or ""
    assert "takes no files" in text
    assert "Speedups of two pairs" in text
    assert "[[File:" not in text


def test_a_file_of_another_is_never_overwritten(server: Server, wiki: MediaWiki) -> None:
    human, file = logged_in(server, "Human"), "Tipbench-foreign-2026-11-21-0e1f8a67-speedups.png"
    human.upload(io.BytesIO(picture(90)), file, "mine", ignore=True)
    with refused(f"File:{file}", "Human", "left alone"):
        send(wiki, [published("foreign")])
    assert versions(server, file) == 1
    assert wiki.read(("Benchmarks", "foreign")) == Stored(None)


def test_a_file_that_is_refused(server: Server, wiki: MediaWiki) -> None:
    run = published("bad-file")
    broken = Published(run.entry, run.page, {"speedups.png": b"no picture"})
    with refused("page Benchmarks/bad-file", "MIME"):
        send(wiki, [broken])
    assert wiki.read(run.entry.path) == Stored(None)


def test_names_that_titles_cannot_have(wiki: MediaWiki) -> None:
    path = ("Benchmarks", "a#b<c>[d]{e}|f:g", "..")
    page = WikiPage(path, Page("Odd", (Paragraph(("odd",)),)))
    wiki.write([Change(path, wiki.read(path), wiki.render(page))], "odd")
    assert "odd" in (open_wiki(wiki._url, SECRET).read(("Benchmarks", "a-b-c-d-e-f-g", "unnamed")).text or "")
    with refused("would both be named"):
        wiki.read(("Benchmarks", "a-b-c-d-e-f-g", "unnamed"))


def test_hostile_text_is_shown_as_text(server: Server, wiki: MediaWiki, window: chromium.Window) -> None:
    run = published("hostile")
    run = Published(run.entry, hostile(), run.images)
    with server.with_settings("$wgEnableMagicLinks = ['ISBN' => true, 'PMID' => true, 'RFC' => true];"):
        send(wiki, [run])
        assert send(open_wiki(server.url, SECRET), [run]) == []
        assert revisions(server, titles(run)[2]) == 1
        page = window().new_page()
        heard = listening(page)
        page.goto(f"{server.url}index.php/{titles(run)[2]}")
    content = page.locator(".mw-parser-output")

    def texts(selector: str) -> list[str]:
        return [text.strip().replace("\u2060", "") for text in content.locator(selector).all_text_contents()]

    def attributes(selector: str, name: str) -> list[str]:
        return [str(one.get_attribute(name)) for one in content.locator(selector).all()]

    shown = [as_stored(plain(string)) for string in HOSTILE]
    code = [as_stored(lines_of(string)).strip() for string in HOSTILE]
    whole = as_stored(lines_of("\n".join(HOSTILE)))
    assert texts("> p > b")[0] == shown[0]
    assert texts(".sortable th") == [HOSTILE[0], "! x !! y", "^ x", "| x", "literal"]
    assert texts(".sortable td:nth-child(1)") == shown
    assert texts(".sortable td:nth-child(2) b") == shown
    assert texts(".sortable td:nth-child(3) code") == shown
    assert texts(".sortable td:nth-child(4) a") == shown
    assert texts(".sortable td:nth-child(5)") == [f"before {string} after" for string in shown]
    assert texts("> ul > li") == shown
    assert texts("blockquote")[0].split("\n") == shown
    assert texts("h3 .mw-headline") == shown
    assert texts("> pre") == [*code, whole]
    assert texts("td > pre") == [whole, HOSTILE[2]]
    assert texts(".mw-collapsible p") == [shown[0], shown[1], "Contents"]
    assert texts("> p > i") == shown
    assert attributes("img", "alt") == shown
    assert set(texts("> p")) >= set(shown)
    tags = content.evaluate("content => [...content.querySelectorAll('*')].map(one => one.tagName.toLowerCase())")
    assert set(tags) == TEXT | TABLES | CONTENTS
    links = {link.split("#")[0] for link in attributes("a[href]", "href")}
    edits = {link for link in links if "action=edit" in link}
    assert {link.partition("?")[0] for link in links - edits} == {"", "/index.php/Benchmarks", FILE.format("hostile")}
    assert heard == []


def test_links_lead_on_and_figures_are_shown(server: Server, wiki: MediaWiki, window: chromium.Window) -> None:
    shown = published("linked")
    blocks = (Paragraph((Link("down", "#how to <read>"),)), *shown.page.blocks, Heading("Reading", 3, "how to <read>"))
    send(wiki, [Published(shown.entry, Page("Linked", blocks), shown.images)])
    page = window().new_page()
    heard = listening(page)
    page.goto(f"{server.url}index.php/Benchmarks")
    page.click("a:text-is('2026-11-21-0e1f8a67'):right-of(:text-is('linked')), a[href$='linked/2026-11-21-0e1f8a67']")
    page.wait_for_function("document.querySelector('.mw-parser-output img')?.naturalWidth === 32")
    page.click("a:text-is('down')")
    assert page.locator("h3:has(:target)").inner_text().startswith("Reading")
    page.click("a:text-is('all runs')")
    assert page.locator("h1").inner_text() == "Benchmarks"
    assert heard == []
    page.get_by_role("button", name="Expand").click()
    assert page.get_by_text("tipbench-run id=").first.is_visible()
    unscripted = window(java_script_enabled=False).new_page()
    unscripted.goto(f"{server.url}index.php/Benchmarks")
    assert unscripted.get_by_text("tipbench-run id=").first.is_visible()
