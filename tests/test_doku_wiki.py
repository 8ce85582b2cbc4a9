"""Publishing to a real DokuWiki: what is made, what is left alone, what is told when it cannot be done."""

from __future__ import annotations

import re
import time
import xmlrpc.client
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Dialog
from playwright.sync_api import Page as Playwright

from tests import browser as chromium
from tests.servers import HOSTILE, TOKEN, Server, hostile, need_doku_wiki, picture, published, refused, unused_port
from tests.servers import doku_wiki as serve
from tipbench.publish.doku_wiki import DokuWiki, open_wiki
from tipbench.publish.region import placed
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.wiki import Change, Conflict, Stored, WikiError, WikiPage
from tipbench.report.document import Heading, Link, Page, Paragraph
from tipbench.report.wording import lines_of, plain

window, browser = chromium.window, chromium.browser

SECRET = Secret("publisher", TOKEN)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need_doku_wiki()
    with serve(tmp_path_factory.mktemp("dokuwiki")) as running:
        yield running


@pytest.fixture
def wiki(server: Server) -> DokuWiki:
    return open_wiki(server.url, SECRET)


def ids(run: Published) -> list[str]:
    return ["benchmarks", f"benchmarks:{run.entry.machine}", ":".join(run.entry.path).lower()]


def as_human(server: Server, method: str, *arguments: Any) -> Any:
    return open_wiki(server.url, Secret("human", TOKEN))._call("the tests", method, *arguments)


def by_hand(server: Server, id: str, text: str) -> None:
    as_human(server, "wiki.putPage", id, text, {"sum": "by hand", "minor": False})


def revisions(server: Server, id: str) -> int:
    """The page's changes: DokuWiki writes one line each."""
    return len((server.folder / "data/meta" / f"{id.replace(':', '/')}.changes").read_text().splitlines())


def versions(server: Server, id: str) -> int:
    return len((server.folder / "data/media_meta" / f"{id.replace(':', '/')}.changes").read_text().splitlines())


def locks(server: Server) -> list[str]:
    return [file.name for file in (server.folder / "data/locks").glob("*.lock")]


def change(wiki: DokuWiki, run: Published, told: str) -> Change:
    """The run's page with other words, as it would be written on what is there now."""
    page = WikiPage(run.entry.path, Page("Another", (Paragraph((told,)),)))
    before = wiki.read(page.path)
    return Change(page.path, before, placed(before.text, wiki.marks, wiki.render(page), page.key))


def test_a_tree_is_made_once(server: Server, wiki: DokuWiki) -> None:
    run = published("once")
    assert [change.path for change in send(wiki, [run])] == [run.entry.path, run.entry.path[:2], run.entry.path[:1]]
    assert send(wiki, [run]) == []
    assert send(open_wiki(server.url, SECRET), [run]) == []
    assert [revisions(server, id) for id in ids(run)[1:]] == [1, 1]
    assert versions(server, f"{ids(run)[2]}:speedups.png") == 1
    assert locks(server) == []


def test_a_changed_run_touches_its_own_page_and_a_changed_figure_its_file(server: Server, wiki: DokuWiki) -> None:
    send(wiki, [published("changed")])
    index, file = revisions(server, "benchmarks"), f"{ids(published('changed'))[2]}:speedups.png"
    time.sleep(1.1)  # DokuWiki names revisions and versions by their second
    assert len(send(wiki, [published("changed", told="It does not pay.")])) == 1
    assert [revisions(server, id) for id in ids(published("changed"))] == [index, 1, 2]
    assert versions(server, file) == 1
    sent = send(wiki, [published("changed", told="It does not pay.", shade=7)])
    assert [(change.text, list(change.images)) for change in sent] == [(None, ["speedups.png"])]
    assert versions(server, file) == 2
    assert revisions(server, ids(published("changed"))[2]) == 2


def test_what_people_write_around_our_region_survives(server: Server, wiki: DokuWiki) -> None:
    run = published("edited")
    send(wiki, [run])
    by_hand(server, ids(run)[2], f"===== Ours =====\n{{{{x}}}}\n\n{wiki.read(run.entry.path).text}\n\n  * //below//\n")
    assert send(wiki, [run]) == []
    assert len(send(wiki, [published("edited", told="Otherwise.")])) == 1
    text = wiki.read(run.entry.path).text or ""
    assert text.startswith("===== Ours =====\n{{x}}\n\n//What follows is written by tipbench")
    assert text.endswith("//Here ends what tipbench writes.//\n\n\n  * //below//\n")
    assert "Otherwise." in text
    assert "It pays." not in text


def test_a_page_changed_since_it_was_read_is_a_conflict(server: Server, wiki: DokuWiki) -> None:
    run = published("conflict")
    send(wiki, [run])
    ours = change(wiki, run, "Later.")
    image = Change(("Benchmarks", "conflict"), wiki.read(("Benchmarks", "conflict")), None, {"new.png": picture(1)})
    by_hand(server, ids(run)[2], f"{ours.before.text}\nfaster\n")
    with refused("changed by somebody", kind=Conflict):
        wiki.write([image, ours], "too late")
    assert not wiki.has_image(("Benchmarks", "conflict"), "new.png", picture(1))
    assert locks(server) == []
    wiki.write([change(wiki, run, "Later.")], "on top")
    text = wiki.read(run.entry.path).text or ""
    assert "Later." in text
    assert "faster" in text


def test_a_page_that_another_made_meanwhile_is_a_conflict(server: Server, wiki: DokuWiki) -> None:
    run = published("made")
    ours = change(wiki, run, "First.")
    by_hand(server, ids(run)[2], "mine")
    with refused("changed by somebody", kind=Conflict):
        wiki.write([ours], "too late")
    assert wiki.read(run.entry.path).text == "mine"


def test_nobody_comes_between_comparing_and_writing(
    server: Server, wiki: DokuWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = published("between")
    send(wiki, [run])
    told: list[str] = []
    ours, call = change(wiki, run, "Ours."), DokuWiki._call

    def comes_between(wiki: DokuWiki, what: str, method: str, *arguments: Any) -> Any:
        if method == "wiki.putPage" and arguments[1] == ours.text:
            try:
                by_hand(server, ids(run)[2], "mine")
            except WikiError as error:
                told.append(str(error))
        return call(wiki, what, method, *arguments)

    monkeypatch.setattr(DokuWiki, "_call", comes_between)
    wiki.write([ours], "ours")
    assert len(told) == 1  # refused; why, this DokuWiki does not tell
    assert wiki.read(run.entry.path).text == ours.text


def test_another_publisher_with_our_user_is_a_conflict_until_the_last_moment(
    server: Server, wiki: DokuWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DokuWiki's locks are no help there: it takes both for one."""
    run, call = published("same-user"), DokuWiki._call
    other = change(open_wiki(server.url, SECRET), run, "The other's.")

    def comes_between(wiki: DokuWiki, what: str, method: str, *arguments: Any) -> Any:
        if method == "wiki.putAttachment":
            monkeypatch.undo()
            open_wiki(server.url, SECRET).write([other], "faster")
        return call(wiki, what, method, *arguments)

    ours = Change(run.entry.path, other.before, "ours", run.images)
    monkeypatch.setattr(DokuWiki, "_call", comes_between)
    with refused("changed by somebody", kind=Conflict):
        wiki.write([ours], "ours")
    assert wiki.read(run.entry.path).text == other.text
    assert send(wiki, [run])


def test_a_conflict_is_tried_again_on_top_of_the_others_work(
    server: Server, wiki: DokuWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = published("again")
    send(wiki, [run])
    write, before = DokuWiki.write, wiki.read(run.entry.path).text

    def raced(wiki: DokuWiki, changes: list[Change], summary: str) -> None:
        monkeypatch.undo()
        by_hand(server, ids(run)[2], f"{before}\nby hand\n")
        write(wiki, changes, summary)

    monkeypatch.setattr(DokuWiki, "write", raced)
    assert send(wiki, [published("again", told="Otherwise.")])
    text = wiki.read(run.entry.path).text or ""
    assert "Otherwise." in text
    assert "by hand" in text


def test_a_page_locked_by_somebody_else(server: Server, wiki: DokuWiki) -> None:
    """Another page of the same publication is not written either."""
    run = published("locked")
    send(wiki, [run])
    machine = Change(run.entry.path[:2], wiki.read(run.entry.path[:2]), "otherwise")
    as_human(server, "dokuwiki.setLocks", {"lock": [ids(run)[2]], "unlock": []})
    with refused(f"page {ids(run)[2]}", "locked", "15 minutes"):
        wiki.write([machine, change(wiki, run, "Not now.")], "locked")
    assert wiki.read(run.entry.path[:2]).text != "otherwise"
    assert len(locks(server)) == 1  # theirs alone
    as_human(server, "dokuwiki.setLocks", {"lock": [], "unlock": [ids(run)[2]]})
    wiki.write([change(wiki, run, "Now.")], "free")
    assert "Now." in (wiki.read(run.entry.path).text or "")


@pytest.mark.parametrize("secret", [Secret("publisher", f"{TOKEN}x"), Secret("nobody", TOKEN)], ids=["token", "user"])
def test_a_wrong_token(server: Server, secret: Secret) -> None:
    with refused(server.url, f"does not take user {secret.user}", "TIPBENCH_TOKEN"):
        open_wiki(server.url, secret)


def test_a_stranger_reads_and_does_not_write(server: Server, wiki: DokuWiki) -> None:
    run = published("stranger")
    send(wiki, [run])
    stranger = open_wiki(server.url, Secret("", ""))
    assert stranger.read(run.entry.path) == wiki.read(run.entry.path)
    with refused("read-only", "strangers", "TIPBENCH_USER"):
        stranger.write([change(stranger, run, "No.")], "no")


def test_a_user_who_may_only_read(server: Server, wiki: DokuWiki) -> None:
    rules = server.folder / "conf/acl.auth.php"
    before = rules.read_text()
    rules.write_text("*\t@ALL\t1\n*\t@user\t1\n")
    try:
        with refused("read-only for user publisher", "administrator"):
            send(wiki, [published("read-only")])
        rules.write_text("*\t@ALL\t0\n")
        with refused("does not let user publisher"):
            wiki.read(("Benchmarks",))
    finally:
        rules.write_text(before)
    assert wiki.read(("Benchmarks", "read-only")) == Stored(None)


def test_a_wiki_that_takes_no_files_gets_figures_in_words(server: Server) -> None:
    rules, run = server.folder / "conf/acl.auth.php", published("no-files")
    before = rules.read_text()
    rules.write_text("*\t@ALL\t1\n*\t@user\t4\n")
    try:
        wiki = open_wiki(server.url, SECRET)
        assert len(send(wiki, [run])) == 3
        assert send(wiki, [run]) == []
    finally:
        rules.write_text(before)
    text = wiki.read(run.entry.path).text or ""
    assert "takes no files" in text
    assert "Speedups of two pairs" in text
    assert "{{" not in text


def test_xml_rpc_that_is_off_or_closed_to_us(server: Server, wiki: DokuWiki) -> None:
    with server.with_settings("$conf['remote'] = 0;"), refused("XML-RPC is off", "`remote`", "administrator"):
        open_wiki(server.url, SECRET)
    with server.with_settings("$conf['remoteuser'] = '@staff';"), refused("user publisher", "`remoteuser`"):
        wiki.read(("Benchmarks",))
    with server.with_settings("$conf['remoteuser'] = '@user';"), refused("only users that log in"):
        open_wiki(server.url, Secret("", "")).read(("Benchmarks",))


def test_a_word_that_the_wiki_blocks(server: Server, wiki: DokuWiki) -> None:
    (server.folder / "conf/wordblock.local.conf").write_text("forbidden-word\n")
    with refused("page benchmarks:spam", "blocked words"):
        send(wiki, [published("spam", told="A forbidden-word.")])
    assert locks(server) == []


def test_a_token_without_a_user_goes_in_a_header(server: Server) -> None:
    asked = f"if (($_SERVER['HTTP_AUTHORIZATION'] ?? '') !== 'Bearer {TOKEN}') {{ http_response_code(401); exit; }}"
    with server.with_settings(asked):
        assert open_wiki(server.url, Secret("", TOKEN)).read(("nowhere",)) == Stored(None)
        with refused("401"):
            open_wiki(server.url, Secret("", f"{TOKEN}x")).read(("Main Page",))


def test_a_wiki_that_is_down() -> None:
    address = f"127.0.0.1:{unused_port()}"
    with refused("nothing answers at", address):
        open_wiki(f"http://{address}/", SECRET)


def test_a_wiki_that_goes_down_while_it_is_written(
    server: Server, wiki: DokuWiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told is what failed first, not that the locks could not be given back."""
    call = DokuWiki._call

    def goes_down(wiki: DokuWiki, what: str, method: str, *arguments: Any) -> Any:
        if method == "wiki.putPage":
            wiki._url = f"http://127.0.0.1:{unused_port()}/"
        return call(wiki, what, method, *arguments)

    monkeypatch.setattr(DokuWiki, "_call", goes_down)
    with refused("page benchmarks:gone:", "nothing answers"):
        send(wiki, [published("gone")])
    monkeypatch.undo()
    assert send(open_wiki(server.url, SECRET), [published("gone")])
    assert locks(server) == []


def test_what_is_no_doku_wiki_or_fails(server: Server, wiki: DokuWiki) -> None:
    with refused("404", "doku.php"):
        open_wiki(f"{server.url}nowhere/", SECRET)
    with server.with_settings("echo '<p>Welcome</p>'; exit;"), refused("not as a DokuWiki", "doku.php"):
        open_wiki(server.url, SECRET)
    with (
        server.with_settings("header('Location: https://other.example.org/?x=y', true, 301); exit;"),
        refused("sends on to https://other.example.org/: publish to that address"),
    ):
        open_wiki(server.url, SECRET)
    with server.with_settings("http_response_code(503); exit;"), refused("503"):
        wiki.read(("Benchmarks",))


def test_the_address_may_name_the_script_itself(server: Server) -> None:
    assert open_wiki(f"{server.url}doku.php?id=start", SECRET).read(("nowhere",)) == Stored(None)


def test_a_file_that_is_refused(server: Server, wiki: DokuWiki) -> None:
    run = published("bad-file")
    with refused("file benchmarks:bad-file:"):
        send(wiki, [Published(run.entry, run.page, {"speedups.png": b"<html><script>alert(1)</script>"})])
    assert wiki.read(run.entry.path) == Stored(None)
    assert locks(server) == []


def test_names_that_ids_cannot_have(server: Server, wiki: DokuWiki) -> None:
    """DokuWiki leaves our ids alone, with any of its separators."""
    path = ("Benchmarks", "Böx  A__b:c/d+(e)", "..")
    page = WikiPage(path, Page("Odd", (Paragraph(("odd",)),)))
    for separator in "_-.":
        with server.with_settings(f"$conf['sepchar'] = '{separator}';"):
            wiki.write([Change(path, wiki.read(path), f"{wiki.render(page)}{separator}")], "odd")
    assert revisions(server, "benchmarks:box-a_b-c-d-e:unnamed") == 3
    with refused("would both be named"):
        wiki.read(("Benchmarks", "box-a_b-c-d-e", "unnamed"))


def listening(page: Playwright) -> list[str]:
    """What a page must not do: dialogs, and requests to elsewhere."""
    heard: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("request", lambda request: None if "127.0.0.1" in request.url else heard.append(request.url))
    return heard


def as_sent(text: str) -> str:
    """XML has no noncharacters; characters that show nothing part what would end the text."""
    return re.sub("[\ufffe\uffff]", "\ufffd", text).replace("\u2060", "")


TEXT = {"p", "strong", "em", "code", "a", "br", "ul", "li", "pre", "blockquote", "h1", "h3", "img", "div", "span"}
TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
"""All elements of a page as the wiki shows it; div and span: around levels, lists and code."""


def test_hostile_text_is_shown_as_text(server: Server, wiki: DokuWiki, window: chromium.Window) -> None:
    run = published("hostile")
    run = Published(run.entry, hostile(), run.images)
    settings = "$conf['camelcase'] = 1; $conf['typography'] = 2; $conf['htmlok'] = 1; $conf['phpok'] = 1;"
    with server.with_settings(f"{settings} $conf['maxseclevel'] = 0;"):
        send(wiki, [run])
        assert send(open_wiki(server.url, SECRET), [run]) == []
        assert revisions(server, ids(run)[2]) == 1
        page = window().new_page()
        heard = listening(page)
        page.goto(f"{server.url}doku.php?id={ids(run)[2]}")
    content = page.locator(".page")

    def texts(selector: str) -> list[str]:
        return [as_sent(text).strip() for text in content.locator(selector).all_text_contents()]

    def attributes(selector: str, name: str) -> list[str]:
        return [as_sent(str(one.get_attribute(name))) for one in content.locator(selector).all()]

    shown = [as_sent(plain(string)) for string in HOSTILE]
    code = [as_sent(lines_of(string)).strip() for string in HOSTILE]
    whole = as_sent(lines_of("\n".join(HOSTILE)))
    assert texts("h1") == [shown[0]]
    assert texts("th") == [HOSTILE[0], "! x !! y", "^ x", "| x", "literal"]
    assert texts("td:nth-child(1)") == shown
    assert texts("td:nth-child(2) strong") == shown
    assert texts("td:nth-child(3) code") == shown
    assert texts("td:nth-child(4) a") == shown
    assert texts("td:nth-child(5)") == [f"before {string} after" for string in shown]
    assert texts("div[class^='level'] > ul > li") == shown
    assert [text.strip() for text in texts("blockquote")[0].split("\n")] == shown
    assert texts("h3:not(.toggle)") == shown
    assert texts("pre") == [*code, whole, whole, HOSTILE[2]]
    assert texts("p > em")[1:-1] == shown
    assert attributes("img", "alt") == ["" if text == "0" else text for text in shown]  # PHP takes "0" for nothing
    assert set(texts("p")) >= set(shown)
    tags = content.evaluate("content => [...content.querySelectorAll('*')].map(one => one.tagName.toLowerCase())")
    assert set(tags) == TEXT | TABLES
    file = f"/lib/exe/fetch.php?media={ids(run)[2]}:speedups.png"
    contents = ":not([href^='#'])"
    assert set(attributes(f"a[href]{contents}", "href")) == {"/doku.php?id=benchmarks", file}
    assert heard == []


def test_links_lead_on_and_figures_are_shown(server: Server, wiki: DokuWiki, window: chromium.Window) -> None:
    shown = published("linked")
    reading = Heading("How to read: <1 x 2> is | [[x]]", 3, "how to <read>")
    blocks = (Paragraph((Link("down", "#how to <read>"),)), *shown.page.blocks, reading)
    send(wiki, [Published(shown.entry, Page("Linked", blocks), shown.images)])
    page = window().new_page()
    heard = listening(page)
    page.goto(f"{server.url}doku.php?id=benchmarks")
    page.click(f".page a[href$='{ids(shown)[2]}']")
    page.wait_for_function("document.querySelector('.page img')?.naturalWidth === 32")
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
