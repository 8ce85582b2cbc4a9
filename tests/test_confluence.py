"""Confluence as a target: tried against `tests.fake_confluence`, never against a live one."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fake_confluence import PAGE_SIZE, TOKEN, USER, FakeConfluence, Refused, checked, parsed, running, text_of
from tests.made_up import realistic
from tipbench.publish import storage_text
from tipbench.publish.confluence import SETTLING_S, Confluence, open_wiki, title_of
from tipbench.publish.patience import LONGEST_WAIT_S, TRIES
from tipbench.publish.region import Damaged, placed
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.tree import Entry
from tipbench.publish.wiki import Change, Conflict, Stored, WikiError, WikiPage
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Line,
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
from tipbench.report.one_run import page as report
from tipbench.report.rows import rows
from tipbench.report.wording import plain

ROOT = ("Benchmarks",)
MACHINE = ("Benchmarks", "amd-epyc-zen4-2c-24g")
RUN = (*MACHINE, "2026-11-21-0e1f8a67")
TITLES = ["Benchmarks", "Benchmarks: amd-epyc-zen4-2c-24g", "Benchmarks: amd-epyc-zen4-2c-24g: 2026-11-21-0e1f8a67"]
PNG = b"\x89PNG\r\n\x1a\n\x00\r--\n\xff"


@pytest.fixture
def site() -> Iterator[FakeConfluence]:
    with running() as found:
        yield found


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, in place of waiting."""
    waited: list[float] = []
    monkeypatch.setattr("tipbench.publish.confluence.time.sleep", waited.append)
    return waited


def opened(site: FakeConfluence, more: str = "", user: str = USER, token: str = TOKEN) -> Confluence:
    return open_wiki(f"{site.url}?space=KEY{more}", Secret(user, token))


def run_page(*blocks: Block, png: bytes = PNG) -> WikiPage:
    figure = Figure("speedups", "Speedups with their intervals", "Left of one is slower.")
    return WikiPage(RUN, Page("A run", (Paragraph(("Measured.",)), figure, *blocks)), {"speedups.png": png})


def tree(run: WikiPage | None = None) -> list[WikiPage]:
    machines = Table("machines", ("machine",), ((Cell((Link("amd", "/".join(MACHINE)),)),),))
    index = WikiPage(ROOT, Page("Benchmarks", (machines,)))
    machine = WikiPage(MACHINE, Page("A machine", (Bullets(((Link("the run", f"{'/'.join(RUN)}#tip"),),)),)))
    return [index, machine, run or run_page()]


def changes(wiki: Confluence, pages: list[WikiPage]) -> list[Change]:
    found = []
    for page in pages:
        before = wiki.read(page.path)
        text = placed(before.text, wiki.marks, wiki.render(page), page.key)
        images = {name: png for name, png in page.images.items() if not wiki.has_image(page.path, name, png)}
        if text != before.text or images:
            found.append(Change(page.path, before, None if text == before.text else text, images))
    return found


def publish(site: FakeConfluence, pages: list[WikiPage] | None = None, more: str = "") -> list[Change]:
    wiki = opened(site, more)
    found = changes(wiki, tree() if pages is None else pages)
    wiki.write(found, "Benchmarks published")
    return found


def error_of(site: FakeConfluence, **secret: str) -> str:
    wiki = opened(site, **secret)
    with pytest.raises(WikiError) as caught:
        wiki.write(changes(wiki, tree()), "")
    told = str(caught.value)
    assert secret.get("token", TOKEN) not in told
    assert not isinstance(caught.value, Conflict)
    return told


# ---- the tree ----


def test_first_publish_makes_the_tree_with_its_images(site: FakeConfluence) -> None:
    publish(site)
    index, machine, run = map(site.page, TITLES)
    assert site.titles() == set(TITLES)
    assert (index.parent, machine.parent, run.parent) == (site.home.id, index.id, machine.id)
    (image,) = run.attachments.values()
    assert (image.title, image.content, image.media) == ("speedups.png", PNG, "image/png")
    assert 'ri:filename="speedups.png"' in run.body
    assert f'ac:anchor="tip"><ri:page ri:content-title="{TITLES[2]}"' in machine.body
    assert [version.message for version in run.versions] == ["", "Benchmarks published"]
    assert run.versions[-1].minor


def test_images_lie_there_before_the_page_shows_them(site: FakeConfluence) -> None:
    site.fail("POST", "child/attachment", 500)
    assert "HTTP 500" in error_of(site)
    assert "ri:attachment" not in site.page(TITLES[2]).body
    publish(site)
    assert "ri:attachment" in site.page(TITLES[2]).body


def test_pages_may_be_written_before_what_they_hang_below(site: FakeConfluence) -> None:
    publish(site, tree()[::-1])
    assert [len(site.page(title).versions) for title in TITLES] == [2, 2, 2]  # made bare, then filled
    assert site.page(TITLES[2]).parent == site.page(TITLES[1]).id
    assert publish(site) == []


def test_below_a_parent(site: FakeConfluence) -> None:
    team = site.add("Team", "<p>We</p>", parent=site.home.id)
    publish(site, more=f"&parent={team.id}")
    assert site.page("Benchmarks").parent == team.id
    assert publish(site, more=f"&parent={team.id}") == []


# ---- once is enough ----


def test_publishing_again_writes_nothing(site: FakeConfluence) -> None:
    publish(site)
    before = len(site.writes()), site.versions(), site.uploads()
    assert publish(site) == []
    assert (len(site.writes()), site.versions(), site.uploads()) == before


def test_the_fake_rewrites_what_it_stores(site: FakeConfluence) -> None:
    """Else the test before would show nothing."""
    publish(site)
    rendered = opened(site).render(run_page())
    stored = site.page(TITLES[2]).body
    assert rendered not in stored
    assert rendered.splitlines()[0] in stored
    assert "ac:macro-id" in stored
    assert "\n" not in stored.replace("Left of one", "")


def test_a_changed_run_touches_its_own_page_only(site: FakeConfluence) -> None:
    publish(site)
    before = site.versions()
    publish(site, tree(run_page(Heading("More"))))
    assert site.versions() == {**before, TITLES[2]: before[TITLES[2]] + 1}
    assert list(site.uploads().values()) == [1]


def test_a_changed_image_makes_no_version_of_the_page(site: FakeConfluence) -> None:
    publish(site)
    before = site.versions()
    for png in (PNG + b"more", PNG + b"else"):  # another size, then another content of the same size
        (change,) = publish(site, tree(run_page(png=png)))
        assert (change.text, list(change.images)) == (None, ["speedups.png"])
        (image,) = site.page(TITLES[2]).attachments.values()
        assert image.content == png
    assert site.versions() == before
    assert list(site.uploads().values()) == [3]


def test_without_the_digests_the_page_is_written_once_more(site: FakeConfluence) -> None:
    publish(site)
    site.page(TITLES[1]).properties.clear()
    assert [change.path for change in publish(site)] == [MACHINE]
    assert publish(site) == []


def test_many_images_are_found_again(site: FakeConfluence) -> None:
    """A site lists them in parts."""
    many = {f"figure-{number}.png": PNG + bytes([number]) for number in range(2 * PAGE_SIZE + 1)}
    pages = [WikiPage(ROOT, Page("t", tuple(Figure(name.removesuffix(".png"), "x") for name in many)), many)]
    publish(site, pages)
    assert publish(site, pages) == []
    assert list(site.uploads().values()) == [1] * len(many)


def entry(id: str, run: str) -> Entry:
    fixed = {"torch": "2.15.0", "device": "cpu", "measured": "3", "noise": "", "answers": "1-0-0-0-0"}
    begun = {"machine": MACHINE[1], "run": run, "begun": f"{run[:10]}T09:30:00+00:00"}
    return Entry(id=id, **begun, **fixed, skipped="0", failed="0", missing="0")


def test_two_publishers_share_the_index(site: FakeConfluence) -> None:
    first = [Published(entry("0e1f8a67", RUN[2]), run_page().page, {"speedups.png": PNG})]
    second = [Published(entry("77777777", "2026-11-22-77777777"), Page("Another", (Paragraph(("x",)),)))]
    send(opened(site), first)
    site.meanwhile("PUT", "/pages/", lambda: site.edit("Benchmarks", lambda body: f"<p>Hello</p>{body}"))
    send(opened(site), second)
    body = site.page("Benchmarks").body
    assert body.startswith("<p")
    assert "Hello" in body
    assert "0e1f8a67" in body
    assert "77777777" in body
    assert send(opened(site), first) == []
    assert send(opened(site), second) == []


def test_a_whole_report_is_accepted(site: FakeConfluence) -> None:
    shown = report(realistic(), ())
    images = {f"{figure.name}.png": PNG for figure in figures(shown)}
    pages = [WikiPage(ROOT, shown, images)]
    publish(site, pages)
    assert publish(site, pages) == []
    told = text_of(parsed(site.page("Benchmarks").body))
    assert all(row.tip in told for row in rows(realistic()))


# ---- people's edits ----


def test_what_people_write_around_survives(site: FakeConfluence) -> None:
    publish(site)
    site.edit(TITLES[2], lambda body: f"<h2>Ours &mdash; caf&eacute;</h2>{body}<ul><li>see <em>below</em></li></ul>")
    assert publish(site) == []  # saving changed ids and versions of links within our region, and no more
    publish(site, tree(run_page(Heading("More"))))
    body = site.page(TITLES[2]).body
    assert body.startswith("<h2>Ours &mdash; caf&eacute;</h2>")
    assert body.endswith("<ul><li>see <em>below</em></li></ul>")
    assert "<h2>More</h2>" in body
    assert publish(site, tree(run_page(Heading("More")))) == []


def test_what_people_change_within_is_put_right(site: FakeConfluence) -> None:
    publish(site)
    site.edit(TITLES[2], lambda body: body.replace("Measured.", "Faster than light."))
    (change,) = publish(site)
    assert change.before.text is not None
    assert "Faster than light." in change.before.text
    assert "Measured." in site.page(TITLES[2]).body
    assert publish(site) == []


@pytest.mark.parametrize("which", ["begin", "end"])
def test_what_people_type_beside_a_mark_is_theirs(site: FakeConfluence, which: str) -> None:
    publish(site)
    macro = rf"(<ac:structured-macro [^>]*><ac:parameter ac:name=\"\">tipbench-{which}</ac:parameter>.*?</p>)"
    site.edit(TITLES[2], lambda body: re.sub(macro, r"I <em>typed</em> \1", body))
    assert publish(site) == []
    publish(site, tree(run_page(Heading("More"))))
    body = site.page(TITLES[2]).body
    assert body.count("I <em>typed</em>") == 1
    outside = body.index("typed") < body.index("Measured") if which == "begin" else "typed" in body.split("More")[1]
    assert outside
    assert publish(site, tree(run_page(Heading("More")))) == []


def test_a_page_of_theirs_below_ours_is_added_to(site: FakeConfluence) -> None:
    site.add("Benchmarks", "<p>Our own words</p>", parent=site.home.id)
    publish(site)
    assert re.match("<p[^>]*>Our own words</p><p", site.page("Benchmarks").body)
    assert publish(site) == []


def test_a_page_of_theirs_elsewhere_is_refused(site: FakeConfluence) -> None:
    site.add("Benchmarks", "<p>Of shoes</p>", parent=site.add("Shoes", "<p>s</p>", parent=site.home.id).id)
    told = error_of(site)
    assert '"Benchmarks"' in told
    assert "rename" in told
    assert site.writes() == []


def test_a_page_of_ours_may_be_moved(site: FakeConfluence) -> None:
    publish(site)
    site.page(TITLES[1]).parent = site.home.id
    assert publish(site) == []


END = r"(<p[^>]*>)(<ac:structured-macro [^>]*><ac:parameter ac:name=\"\">tipbench-end.*?)(</p>)"


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (END, r"<h2>\2</h2>"),
        (END, r"<blockquote><p>x</p>\1\2\3</blockquote>"),
        (r"^(.*tipbench-begin</ac:parameter></ac:structured-macro></p>)", r"<blockquote>\1</blockquote>"),
    ],
    ids=["the end in a heading", "the end in a quote", "the beginning in a quote"],
)
def test_marks_that_were_moved_apart_are_refused(site: FakeConfluence, found: str, instead: str) -> None:
    publish(site)
    site.edit("Benchmarks", lambda body: re.sub(found, instead, body))
    before = site.versions()
    assert "put them back" in error_of(site)
    assert site.versions() == before


def test_a_lost_mark_is_told(site: FakeConfluence) -> None:
    publish(site)
    site.edit("Benchmarks", lambda body: re.sub(END, "", body))
    with pytest.raises(Damaged, match="0 lines"):
        publish(site)


def test_an_image_that_people_replaced_is_put_back(site: FakeConfluence) -> None:
    publish(site)
    wiki = opened(site)
    assert changes(wiki, tree()) == []
    (image,) = site.page(TITLES[2]).attachments.values()
    image.content = b"a cat, and larger than ours"
    wiki.write(changes(wiki, tree()), "")
    assert image.content == PNG


def test_a_page_that_people_deleted_is_made_anew(site: FakeConfluence) -> None:
    publish(site)
    wiki = opened(site)
    assert changes(wiki, tree()) == []
    for title in TITLES:
        del site.pages[site.page(title).id]
    wiki.write(changes(wiki, tree()), "")
    assert site.titles() == set(TITLES)
    assert publish(site) == []


# ---- others at the same time ----


def test_an_edit_meanwhile_is_a_conflict_and_stays(site: FakeConfluence) -> None:
    publish(site)
    site.meanwhile("PUT", "/pages/", lambda: site.edit(TITLES[2], lambda body: f"<p>Hello</p>{body}"))
    with pytest.raises(Conflict, match=r"0e1f8a67.*meanwhile"):
        publish(site, tree(run_page(Heading("More"))))
    assert "More" not in site.page(TITLES[2]).body
    publish(site, tree(run_page(Heading("More"))))
    assert re.search("Hello.*More", site.page(TITLES[2]).body)


def test_a_page_made_meanwhile_is_a_conflict(site: FakeConfluence) -> None:
    site.meanwhile("POST", "/pages/", lambda: site.add("Benchmarks", "<p>Hello</p>", parent=site.home.id))
    with pytest.raises(Conflict, match='"Benchmarks" meanwhile'):
        publish(site)
    publish(site)
    assert "Hello" in site.page("Benchmarks").body


def test_an_edit_right_after_ours_is_not_vouched_for(site: FakeConfluence) -> None:
    publish(site)
    again = tree(run_page(Heading("More")))
    wiki = opened(site)
    found = changes(wiki, again)
    reads = len(re.findall(r"/pages/\d+\?", " ".join(path for _, path in site.requests)))
    assert reads
    site.meanwhile("GET", r"/pages/\d+\?", lambda: site.edit(TITLES[2], lambda body: body.replace("More", "Less")))
    wiki.write(found, "")
    assert "Less" in site.page(TITLES[2]).body
    publish(site, again)
    assert "More" in site.page(TITLES[2]).body


def test_a_site_that_lags_behind_is_waited_for(site: FakeConfluence, waits: list[float]) -> None:
    site.lag = 2
    publish(site)
    assert waits[:2] == list(SETTLING_S[:2])
    site.lag = 0
    for page in site.pages.values():
        page.stale = 0
    assert publish(site) == []


def test_a_write_that_never_shows_is_told(site: FakeConfluence, waits: list[float]) -> None:
    site.lag = 99
    assert "does not show it" in error_of(site)
    assert waits == list(SETTLING_S)


# ---- refusals ----


def test_a_wrong_token(site: FakeConfluence) -> None:
    told = error_of(site, token="not-the-token-at-all")
    assert "TIPBENCH_TOKEN" in told
    assert site.writes() == []


def test_a_bearer_token(site: FakeConfluence) -> None:
    wiki = opened(site, user="")
    wiki.write(changes(wiki, tree()), "")
    assert site.titles() == set(TITLES)


@pytest.mark.parametrize(
    ("method", "path", "status", "tells"),
    [
        ("GET", "/spaces", 401, "TIPBENCH_TOKEN"),
        ("GET", "/spaces", 404, "Confluence Cloud"),
        ("GET", "/pages", 403, "permission"),
        ("POST", "/pages/", 403, "permission"),
        ("POST", "/pages/", 404, "may not see it"),
        ("POST", "/pages/", 400, "refuses what was sent"),
        ("POST", "child/attachment", 413, "larger"),
        ("PUT", "/pages/", 403, "read-only"),
        ("PUT", "/pages/", 500, "again later"),
        ("PUT", "/pages/", 503, "again later"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    site: FakeConfluence, method: str, path: str, status: int, tells: str
) -> None:
    said = f'{{"errors": [{{"title": "No, {{x}} <b>{TOKEN}</b>\\u0007"}}]}}'
    site.fail(method, path, status, body=said)
    told = error_of(site)
    assert tells in told
    assert f"(HTTP {status}: No, {{x}} <b>***</b>)" in told


def test_a_reason_in_the_older_form(site: FakeConfluence) -> None:
    site.fail("POST", "child/attachment", 403, body='{"statusCode": 403, "message": "XSRF check failed"}')
    assert "(HTTP 403: XSRF check failed)" in error_of(site)


def test_an_unknown_space(site: FakeConfluence) -> None:
    with pytest.raises(WikiError, match="shows no space NONE"):
        open_wiki(f"{site.url}?space=NONE", Secret(USER, TOKEN)).read(ROOT)


@pytest.mark.parametrize("more", [{"status": "archived"}, {"locked": True}, {"hidden": True}])
def test_pages_that_cannot_be_written(site: FakeConfluence, more: dict[str, Any]) -> None:
    publish(site)
    run = site.page(TITLES[2])
    before = len(run.versions)
    for name, value in more.items():
        setattr(run, name, value)
    with pytest.raises(WikiError, match={"status": "archived: restore", "locked": "read-only",
                                         "hidden": "cannot see"}[next(iter(more))]):  # fmt: skip
        publish(site, tree(run_page(Heading("More"))))
    assert len(run.versions) == before


def test_an_unknown_parent(site: FakeConfluence) -> None:
    with pytest.raises(WikiError, match="the parent that was named"):
        publish(site, more="&parent=99999")


def test_titles_that_differ_in_capitals_only(site: FakeConfluence) -> None:
    site.add("BENCHMARKS", "<p>x</p>", parent=site.home.id)
    assert "capitals" in error_of(site)


def test_too_many_requests_are_waited_for(site: FakeConfluence, waits: list[float]) -> None:
    site.fail("PUT", "/pages/", 429, times=2, Retry_After="3")
    publish(site)
    assert waits == [3.0, 3.0]
    assert len(site.page(TITLES[2]).versions) == 2


def test_waiting_has_an_end(site: FakeConfluence, waits: list[float]) -> None:
    site.fail("GET", "/spaces", 429, times=99, Retry_After="86400")
    assert "in some minutes" in error_of(site)
    assert waits == [LONGEST_WAIT_S] * (TRIES - 1)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_what_is_no_confluence(site: FakeConfluence, method: str, waits: list[float]) -> None:
    site.fail(method, "/spaces|/pages|/content", 200, times=99, body="<html>Log in</html>", Content_Type="text/html")
    assert "login page" in error_of(site) or "does not show it" in error_of(site)


@pytest.mark.parametrize("body", ["[]", "{}", '{"results": [{}]}', '{"results": 3}', "null", '"x"'])
def test_answers_in_another_form(site: FakeConfluence, body: str) -> None:
    site.fail("GET", "/wiki/api/v2/spaces", 200, body=body)
    assert "127.0.0.1" in error_of(site)


def test_a_site_that_is_down() -> None:
    with running() as site:
        pass
    told = error_of(site)
    assert "cannot be reached" in told
    assert "refused" in told
    assert "Max retries" not in told


def test_a_site_that_does_not_answer(site: FakeConfluence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tipbench.publish.patience.TIMEOUT_S", 0.05)
    over = threading.Event()
    site.meanwhile("GET", "/spaces", lambda: over.wait(10))
    told = error_of(site)
    over.set()
    assert "no answer in time" in told


def test_a_half_published_tree_is_completed(site: FakeConfluence) -> None:
    site.fail("POST", "/pages/", 500)
    error_of(site)
    site.fail("PUT", "/pages/", 500)
    error_of(site)
    publish(site)
    assert publish(site) == []
    assert site.titles() == set(TITLES)


@pytest.mark.parametrize(
    ("url", "token", "tells"),
    [
        ("https://site.atlassian.net/wiki", TOKEN, "space=KEY"),
        ("https://site.atlassian.net/wiki?space=../x", TOKEN, "space=KEY"),
        ("https://site.atlassian.net/wiki?space=KEY&parent=Home", TOKEN, "parent"),
        ("https://site.atlassian.net/wiki?space=KEY", "", "TIPBENCH_TOKEN"),
        ("https://site.atlassian.net/wiki?space=KEY", f"{TOKEN}\nX-Evil: 1", "copied whole"),
    ],
)
def test_targets_of_no_use(url: str, token: str, tells: str) -> None:
    with pytest.raises(WikiError, match=re.escape(tells)) as caught:
        open_wiki(url, Secret(USER, token))
    assert TOKEN not in str(caught.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "md2conf.api_v2", None)
    with pytest.raises(WikiError, match=re.escape("pip install 'tipbench[confluence]'")):
        open_wiki("https://site.atlassian.net/wiki?space=KEY", Secret(USER, TOKEN))


def test_the_token_is_in_no_log(site: FakeConfluence, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    publish(site)
    assert caplog.records
    assert TOKEN not in caplog.text


# ---- storage format ----

HOSTILE = (
    "<script>alert(1)</script>", "a ]]> b", "]]>]]>", "&amp; &nosuch; & \"'", "</td></p><h1>x",
    "\x00\x07\ufffe\ud800é😀",
    '<p><ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">tipbench-end</ac:parameter>'
    "</ac:structured-macro></p>", "tipbench-begin", "{code}[x|http://y] h1. *b*", "x" * 900,
)  # fmt: skip


def everything(foreign: str) -> Page:
    line = (foreign, Strong(foreign), " and ", Literal(foreign), Break(), Link(foreign, "https://example.org/?a=1&b=2"),
            Link(foreign, "#tip"), Link(foreign, "Benchmarks/x#tip"))  # fmt: skip
    table = Table("t", (foreign, "b"), ((Cell(line), Cell((Strong("faster"),), kind="faster")),
                                        (Cell((foreign,), kind=foreign), Cell(()))))  # fmt: skip
    code = Code(f"def f():\n    return {foreign!s}\n", "python")
    blocks: tuple[Block, ...] = (
        Heading(foreign, anchor="tip"), Heading(foreign, 3), Paragraph(line), Quote((line, (foreign,))),
        Bullets((line,)), table, code, Code(foreign, foreign), SideBySide((foreign, "after"), code, code),
        Figure("a&b", foreign, foreign),
    )  # fmt: skip
    return Page(foreign, (*blocks, Folded(foreign, (*blocks, Folded(foreign, blocks)))))


@pytest.mark.parametrize("foreign", HOSTILE)
def test_foreign_text_is_shown_as_text(site: FakeConfluence, foreign: str) -> None:
    """Parsed again the page holds the same text, and the same elements as with harmless text."""
    wiki = opened(site)
    page = WikiPage(ROOT, everything(foreign))
    harmless = checked(wiki.render(replace(page, page=everything("harmless"))))
    found = checked(wiki.render(page))
    assert _elements(found) == _elements(harmless)
    shown = storage_text.NOT_XML.sub("", plain(foreign))
    titles = [text_of(node) for node in found.getElementsByTagName("h1")]
    assert titles == [shown]
    (cell, *_) = found.getElementsByTagName("th")
    assert text_of(cell) == shown
    for code in found.getElementsByTagName("ac:plain-text-body"):
        assert storage_text.NOT_XML.sub("", foreign).strip("\x00\x07") in text_of(code).replace("  ", "")


@pytest.mark.parametrize("foreign", HOSTILE)
def test_foreign_text_survives_the_site_and_cannot_end_our_region(site: FakeConfluence, foreign: str) -> None:
    pages = [WikiPage(ROOT, everything(foreign))]
    publish(site, pages)
    site.edit("Benchmarks", lambda body: f"{body}<p>theirs</p>")
    assert publish(site, pages) == []
    publish(site, [WikiPage(ROOT, everything("harmless"))])
    body = site.page("Benchmarks").body
    assert body.endswith("theirs</p>")
    assert text_of(parsed(body)).count("theirs") == 1
    shown = plain(foreign)
    assert shown not in text_of(parsed(body)) or shown in "harmless tipbench-begin"


def test_a_verdict_is_a_lozenge_with_its_word() -> None:
    lines: tuple[Line, ...] = ((Strong("faster"), " by 2x"), ("don't",), (Strong("no difference"),))
    verdicts = tuple(
        (Cell(line, kind=kind),) for line, kind in zip(lines, ("faster", "don't", "no difference"), strict=True)
    )
    told = storage_text.render(Page("t", (Table("t", ("verdict",), verdicts),)), title_of)
    checked(told)
    found = re.findall(r'ac:name="colour">(\w+)</ac:parameter><ac:parameter ac:name="title">([^<]+)<', told)
    assert found == [("Green", "faster"), ("Red", "don&#x27;t"), ("Grey", "no difference")]


def test_a_heading_cannot_be_taken_for_a_mark(site: FakeConfluence) -> None:
    pages = [WikiPage(ROOT, Page("t", (Heading("x", anchor="tipbench-end"), Paragraph((Link("y", "#tipbench-end"),)))))]
    publish(site, pages)
    assert publish(site, pages) == []


def test_rendering_is_deterministic() -> None:
    assert storage_text.render(everything("x"), title_of) == storage_text.render(everything("x"), title_of)


def _elements(root: Any) -> list[str]:
    return [node.tagName for node in root.getElementsByTagName("*")]


# ---- the fake refuses what a Confluence would ----


@pytest.mark.parametrize(
    "storage",
    [
        "<p>open", "<p>&nosuch;</p>", "<script />", '<p onclick="x">a</p>', "loose text", "<p><table /></p>",
        "<table><td>x</td></table>", '<ac:structured-macro ac:name="html" />', "<p><![CDATA[x]]></p>",
        '<p><ac:structured-macro ac:name="status"><ac:parameter ac:name="colour">Pink</ac:parameter>'
        "</ac:structured-macro></p>",
        '<ac:structured-macro ac:name="code"><ac:plain-text-body>x</ac:plain-text-body></ac:structured-macro>',
        '<ac:structured-macro ac:name="code"><ac:parameter ac:name="language">http</ac:parameter>'
        "<ac:plain-text-body><![CDATA[x]]></ac:plain-text-body></ac:structured-macro>",
        '<p><a href="javascript:x">y</a></p>', "<p>\x01</p>",
    ],
)  # fmt: skip
def test_the_fake_refuses_such_a_body(storage: str) -> None:
    with pytest.raises(Refused):
        checked(storage)


def test_the_fake_refuses_a_stale_version(site: FakeConfluence) -> None:
    publish(site)
    wiki = opened(site)
    text = wiki.read(ROOT).text
    wiki.write([Change(ROOT, Stored(text, "1"), f"{text}<p>a</p>")], "")
    with pytest.raises(Conflict):
        wiki.write([Change(ROOT, Stored(text, "1"), f"{text}<p>b</p>")], "")
