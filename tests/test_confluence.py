"""Confluence, beyond the contract: tried against `tests.fake_confluence`, never against a live one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fake_confluence import USER, FakeConfluence, Refused, checked, parsed, running, text_of
from tests.made_up import realistic
from tests.published import HOSTILE, TOKEN, on, picture, published, refused, stored
from tipbench import cli
from tipbench.publish.confluence import SETTLING_S, Confluence
from tipbench.publish.secret import Secret
from tipbench.publish.send import Published, send
from tipbench.publish.storage_text import NOT_XML, Storage
from tipbench.publish.wiki import Change, Conflict, Stored, WikiPage
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
from tipbench.report.one_run import page as report
from tipbench.report.rows import rows
from tipbench.report.wording import plain

INDEX, MACHINE, RUN = TITLES = ["Benchmarks", "Benchmarks: box", "Benchmarks: box: 2026-03-01-aaaaaaaa"]


@pytest.fixture
def site() -> Iterator[FakeConfluence]:
    with running() as found:
        yield found


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, in place of waiting."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def opened(site: FakeConfluence, more: str = "", user: str = USER) -> Confluence:
    return Confluence(f"{site.url}?space=KEY{more}", Secret(user, TOKEN))


def publish(site: FakeConfluence, *runs: Published, more: str = "") -> list[Change]:
    return send(opened(site, more), runs or [published()])


# ---- the tree ----


def test_pages_hang_below_each_other_and_link_by_title(site: FakeConfluence) -> None:
    publish(site)
    index, machine, run = map(site.page, TITLES)
    assert site.titles() == set(TITLES)
    assert (index.parent, machine.parent, run.parent) == (site.home.id, index.id, machine.id)
    (image,) = run.attachments.values()
    assert (image.title, image.content, image.media) == ("speedups.png", picture(200), "image/png")
    assert 'ri:filename="speedups.png"' in run.body
    assert f'ri:content-title="{RUN}"' in machine.body
    assert [version.message for version in run.versions] == ["", "tipbench: the run 2026-03-01-aaaaaaaa of box"]
    assert run.versions[-1].minor


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "child/attachment"), ("POST", "/pages$"), ("PUT", r"/pages/\d+$")]
)
def test_what_broke_off_shows_nothing_that_is_not_there_and_is_completed(
    site: FakeConfluence, method: str, path: str
) -> None:
    site.fail(method, path, 500)
    with refused("HTTP 500"):
        publish(site)
    for page in site.pages.values():
        assert "ri:attachment" not in page.body or page.attachments
        assert set(re.findall('ri:content-title="([^"]*)', page.body)) <= site.titles()
    publish(site)
    assert publish(site) == []
    assert site.titles() == set(TITLES)


def test_below_a_parent(site: FakeConfluence) -> None:
    team = site.add("Team", "<p>We</p>", parent=site.home.id)
    publish(site, more=f"&parent={team.id}")
    assert site.page(INDEX).parent == team.id
    assert publish(site, more=f"&parent={team.id}") == []


def test_an_unknown_parent(site: FakeConfluence) -> None:
    with refused("HTTP 404"):
        publish(site, more="&parent=99999")


def test_the_stand_in_rewrites_what_it_stores(site: FakeConfluence) -> None:
    """Else "publishing again writes nothing" would show nothing."""
    publish(site)
    run = published()
    rendered = opened(site).render(WikiPage(run.entry.path, run.page, run.images))
    stored = site.page(RUN).body
    assert rendered not in stored
    assert rendered.splitlines()[0] in stored
    assert "ac:macro-id" in stored
    assert "\n" not in stored


def test_without_the_digests_the_page_is_written_once_more(site: FakeConfluence) -> None:
    publish(site)
    site.page(MACHINE).properties.clear()
    assert [": ".join(change.path) for change in publish(site)] == [MACHINE]
    assert publish(site) == []


def test_a_whole_report_is_accepted(site: FakeConfluence) -> None:
    shown = report(realistic(), ())
    run = replace(published(), page=shown, images={f"{figure.name}.png": picture(1) for figure in figures(shown)})
    publish(site, run)
    assert publish(site, run) == []
    found = text_of(parsed(site.page(RUN).body))
    assert all(row.tip in found for row in rows(realistic()))


def test_publishing_says_that_it_is_experimental(
    site: FakeConfluence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIPBENCH_TOKEN", TOKEN)
    monkeypatch.setenv("TIPBENCH_USER", USER)
    words = ["publish", "--to", f"confluence+{site.url}?space=KEY", str(stored(tmp_path, on("a")))]
    assert cli.main(words) == 0
    written, said = capsys.readouterr()
    assert written.splitlines()[-1] == "written: Benchmarks"
    assert "experimental" in said
    assert len(said.splitlines()) == 1
    assert cli.main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out == ""


# ---- people's edits ----


@pytest.mark.parametrize("which", ["begin", "end"])
def test_what_people_type_beside_a_mark_is_theirs(site: FakeConfluence, which: str) -> None:
    publish(site)
    macro = rf"(<ac:structured-macro [^>]*><ac:parameter ac:name=\"\">tipbench-{which}</ac:parameter>.*?</p>)"
    site.edit(RUN, lambda body: re.sub(macro, r"I <em>typed</em> \1", body))
    assert publish(site) == []
    publish(site, published(text="More."))
    body = site.page(RUN).body
    assert body.count("I <em>typed</em>") == 1
    assert body.index("typed") < body.index("Limits.") if which == "begin" else "typed" in body.split("More.")[1]
    assert publish(site, published(text="More.")) == []


def test_a_page_of_theirs_elsewhere_is_refused(site: FakeConfluence) -> None:
    site.add(INDEX, "<p>Of shoes</p>", parent=site.add("Shoes", "<p>s</p>", parent=site.home.id).id)
    with refused(INDEX, "rename"):
        publish(site)
    assert site.writes() == []


def test_a_page_of_ours_may_be_moved(site: FakeConfluence) -> None:
    publish(site)
    site.page(MACHINE).parent = site.home.id
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
    site.edit(INDEX, lambda body: re.sub(found, instead, body))
    before = site.versions()
    with refused(INDEX, "put them back"):
        publish(site)
    assert site.versions() == before


def test_what_people_replaced_or_deleted_is_made_anew(site: FakeConfluence) -> None:
    publish(site)
    (image,) = site.page(RUN).attachments.values()
    image.content = b"a cat, and of another size than ours"
    publish(site)
    assert image.content == picture(200)
    for title in TITLES:
        del site.pages[site.page(title).id]
    publish(site)
    assert site.titles() == set(TITLES)
    assert publish(site) == []


# ---- others at the same time ----


@pytest.mark.parametrize("when", ["before the page is written", "before it is made"])
def test_whoever_comes_between_is_kept(site: FakeConfluence, when: str) -> None:
    """After our comparison: the site itself notices."""
    if when == "before it is made":
        site.meanwhile("POST", "/pages$", lambda: site.add(INDEX, "<p>Hello</p>", parent=site.home.id))
    else:
        publish(site)
        site.meanwhile("PUT", r"/pages/\d+$", lambda: site.edit(RUN, lambda body: f"<p>Hello</p>{body}"))
    publish(site, published(text="More."))
    bodies = [site.page(title).body for title in TITLES]
    assert "Hello" in "".join(bodies)
    assert "More." in bodies[2]


def test_whoever_writes_at_any_moment_is_kept() -> None:
    """Somebody makes the index, or writes into it, just before each of our readings in turn."""
    for moment in itertools.count(1):
        with running() as site:
            for _ in range(1, moment):  # the readings before pass
                site.meanwhile("GET", "", lambda: None)
            site.meanwhile("GET", "", partial(theirs, site))
            publish(site)
            if any(fault.times for fault in site.faults):
                break
            assert "Theirs" in site.page(INDEX).body, moment
            assert 'ri:content-title="Benchmarks: box"' in site.page(INDEX).body
    assert moment > 20


def theirs(site: FakeConfluence) -> None:
    if INDEX in site.titles():
        site.edit(INDEX, lambda body: f"<p>Theirs</p>{body}")
    else:
        site.add(INDEX, "<p>Theirs</p>", parent=site.home.id)


def test_an_edit_right_after_ours_is_not_vouched_for(site: FakeConfluence) -> None:
    publish(site)

    def edited() -> None:
        site.edit(RUN, lambda body: body.replace("More.", "Less."))

    site.meanwhile("PUT", r"/pages/\d+$", lambda: site.meanwhile("GET", r"/pages/\d+\?", edited))
    publish(site, published(text="More."))
    assert "Less." in site.page(RUN).body
    publish(site, published(text="More."))
    assert "More." in site.page(RUN).body


def test_a_site_that_lags_behind_is_waited_for(site: FakeConfluence, waits: list[float]) -> None:
    site.lag = 2
    publish(site)
    assert waits[:2] == list(SETTLING_S[:2])
    site.lag = 0
    for page in site.pages.values():
        page.stale = 0
    assert publish(site) == []


def test_a_write_that_never_shows_is_an_error(site: FakeConfluence, waits: list[float]) -> None:
    site.lag = 99
    with refused("is not shown"):
        publish(site)
    assert waits == list(SETTLING_S)


# ---- refusals ----


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/spaces", 403), ("POST", "/pages$", 400), ("PUT", "child/attachment", 413), ("PUT", r"/pages/\d+$", 500)],
)
@pytest.mark.parametrize("form", ['{{"errors": [{{"title": "{0}"}}]}}', '{{"statusCode": 1, "message": "{0}"}}'])
def test_the_sites_own_reason_is_shown_without_the_token(
    site: FakeConfluence, method: str, path: str, status: int, form: str
) -> None:
    site.fail(method, path, status, body=form.format(f"No, {{x}} <b>{TOKEN}</b>\\u0007"))
    with refused(f"(HTTP {status}: No, {{x}} <b>***</b>)"):
        publish(site)


def test_a_bearer_token(site: FakeConfluence) -> None:
    send(opened(site, user=""), [published()])
    assert site.titles() == set(TITLES)


def test_an_unknown_space() -> None:
    with running() as site, refused("shows no space NONE"):
        Confluence(f"{site.url}?space=NONE", Secret(USER, TOKEN)).read(("Benchmarks",))


@pytest.mark.parametrize(
    ("name", "value", "word"), [("status", "archived", "archived: restore"), ("locked", True, "read-only"),
                                ("hidden", True, "cannot see")],
)  # fmt: skip
def test_pages_that_cannot_be_written(site: FakeConfluence, name: str, value: object, word: str) -> None:
    publish(site)
    run = site.page(RUN)
    before = len(run.versions)
    setattr(run, name, value)
    with refused(word):
        publish(site, published(text="More."))
    assert len(run.versions) == before


def test_titles_that_differ_in_capitals_only(site: FakeConfluence) -> None:
    site.add("BENCHMARKS", "<p>x</p>", parent=site.home.id)
    with refused("capitals"):
        publish(site)


def test_too_many_requests_are_waited_for(site: FakeConfluence, waits: list[float]) -> None:
    site.fail("PUT", r"/pages/\d+$", 429, times=2, Retry_After="3")
    publish(site)
    assert waits == [3.0, 3.0]
    assert publish(site) == []


@pytest.mark.parametrize(
    ("query", "token", "word"),
    [
        ("", TOKEN, "space=KEY"),
        ("?space=../x", TOKEN, "space=KEY"),
        ("?space=KEY&parent=Home", TOKEN, "parent"),
        ("?space=KEY", "", "TIPBENCH_TOKEN"),
    ],
)
def test_targets_of_no_use(query: str, token: str, word: str) -> None:
    with refused(word):
        Confluence(f"https://site.atlassian.net/wiki{query}", Secret(USER, token))


# ---- storage format ----

OF_XML = (
    "a ]]> b", "]]>]]>", "&amp; &nosuch; & \"'", "</td></p><h1>x", "\x00\x07\ufffe\ud800é😀",
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


def storage() -> Storage:
    return Storage(lambda key: key.replace("/", ": "), lambda name: (f"{name}.png", 0))


@pytest.mark.parametrize("foreign", [*OF_XML, *(text for text in HOSTILE if NOT_XML.sub("", text))])
def test_foreign_text_is_shown_as_text(foreign: str) -> None:
    """Parsed again the page holds the same text, and the same elements as with harmless text."""
    found = checked(storage().page(everything(foreign)))
    assert _elements(found) == _elements(checked(storage().page(everything("harmless"))))
    shown = NOT_XML.sub("", plain(foreign))
    assert [text_of(node) for node in found.getElementsByTagName("h1")] == [shown]
    assert text_of(found.getElementsByTagName("th")[0]) == shown


@pytest.mark.parametrize("foreign", OF_XML)
def test_foreign_text_survives_the_site_and_cannot_end_our_region(site: FakeConfluence, foreign: str) -> None:
    run = replace(published(), page=everything(foreign))
    publish(site, run)
    site.edit(RUN, lambda body: f"{body}<p>theirs</p>")
    assert publish(site, run) == []
    publish(site)
    body = site.page(RUN).body
    assert body.endswith("theirs</p>")
    assert text_of(parsed(body)).count("theirs") == 1
    assert "return" not in text_of(parsed(body))


def test_code_is_kept_to_the_character() -> None:
    found = checked(storage().page(Page("t", tuple(Code(text) for text in OF_XML[:5]))))
    shown = [text_of(node) for node in found.getElementsByTagName("ac:plain-text-body")]
    assert shown == [*OF_XML[:4], "   é😀"]


def test_a_verdict_is_a_lozenge_with_its_word() -> None:
    lines = {"faster": (Strong("faster"), " by 2x"), "don't": ("don't",), "no difference": (Strong("no difference"),)}
    cells = tuple((Cell(line, kind=kind),) for kind, line in lines.items())
    shown = storage().page(Page("t", (Table("t", ("verdict",), cells),)))
    checked(shown)
    found = re.findall(r'ac:name="colour">(\w+)</ac:parameter><ac:parameter ac:name="title">([^<]+)<', shown)
    assert found == [("Green", "faster"), ("Red", "don&#x27;t"), ("Grey", "no difference")]


def test_a_heading_cannot_be_taken_for_a_mark(site: FakeConfluence) -> None:
    page = Page("t", (Heading("x", anchor="tipbench-end"), Paragraph((Link("y", "#tipbench-end"),))))
    publish(site, replace(published(), page=page))
    assert publish(site, replace(published(), page=page)) == []


def _elements(root: Any) -> list[str]:
    return [node.tagName for node in root.getElementsByTagName("*")]


# ---- the stand-in refuses what a Confluence would ----


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
def test_the_stand_in_refuses_such_a_body(storage: str) -> None:
    with pytest.raises(Refused):
        checked(storage)


def test_the_stand_in_refuses_a_stale_version(site: FakeConfluence) -> None:
    publish(site)
    wiki = opened(site)
    stale = replace(wiki.read(("Benchmarks",)), revision="1")
    site.edit(INDEX, lambda body: f"{body}<p>x</p>")
    with refused(kind=Conflict):
        wiki.write([Change(("Benchmarks",), stale, "<p>a</p>")], "")
    assert wiki.read(("nothing",)) == Stored(None)
