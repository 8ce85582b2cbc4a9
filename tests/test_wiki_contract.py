"""What every wiki promises, on each of the four kinds: real ones, and a stand-in for Confluence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from tests import wikis
from tests.published import hostile, picture, published, refused
from tests.wikis import Real, Site
from tipbench.publish import tree
from tipbench.publish.region import Damaged, inside, placed
from tipbench.publish.send import Published, send
from tipbench.publish.target import FORMS
from tipbench.publish.wiki import Change, Conflict, Path, Stored, Wiki, WikiPage
from tipbench.report.document import Figure, Heading, Link, Page, Paragraph


@pytest.fixture(scope="module", params=FORMS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with wikis.running(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def wiki(site: Site) -> Wiki:
    return site.open()


@pytest.fixture
def machine() -> str:
    return wikis.machine()


def run_of(machine: str, text: str = "It pays.", shade: int = 200, **more: str) -> Published:
    return published(hashlib.sha1(machine.encode()).hexdigest()[:32], text, machine, shade, **more)


def change(wiki: Wiki, run: Published, text: str) -> Change:
    """The run's page with other words, as it would be written on what is there now."""
    page = WikiPage(run.entry.path, Page("Another", (Paragraph((text,)),)))
    before = wiki.read(page.path)
    return Change(page.path, before, placed(before.text, wiki.marks, wiki.render(page), page.key))


class Raced:
    """A wiki that somebody writes to just before our first write arrives."""

    def __init__(self, wiki: Wiki, rival: Callable[[], object]) -> None:
        self._wiki = wiki
        self._rival = [rival]
        self.marks, self.render, self.read, self.has_image = wiki.marks, wiki.render, wiki.read, wiki.has_image

    def write(self, changes: Sequence[Change], summary: str) -> None:
        if self._rival:
            self._rival.pop()()
        self._wiki.write(changes, summary)


def in_index(wiki: Wiki) -> set[str]:
    region = inside(wiki.read(tree.INDEX).text, wiki.marks, "the index")
    return {found.machine for found in tree.entries(region)}


def state(site: Site, path: Path) -> tuple[dict[str, str], int, int]:
    return site.pages(), site.versions(path), site.uploads(path)


# ---- what is written ----


def test_a_run_makes_its_pages_and_touches_no_other(site: Site, wiki: Wiki, machine: str) -> None:
    run, before = run_of(machine), site.pages()
    assert [one.path for one in send(wiki, [run])] == [run.entry.path, run.entry.path[:2], tree.INDEX]
    after = site.pages()
    ours = {site.name(run.entry.path[:depth]) for depth in (1, 2, 3)}
    assert ours <= after.keys()
    assert {name for name in after if after[name] != before.get(name)} == ours
    assert machine in in_index(site.open())
    assert site.uploads(run.entry.path) == 1
    assert wiki.has_image(run.entry.path, "speedups.png", picture(200))


def test_the_evidence_of_a_run_is_a_page_below_it(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    words = (Heading("no-grad", anchor="no-grad"), Paragraph(("Unmistakable.",)), Figure("curve", "A curve"))
    below = WikiPage(run.entry.evidence, Page("The evidence", words), {"curve.png": picture(9)})
    answers = Page("Answers", (Paragraph((Link("Disable gradients", f"{below.key}#no-grad"),)),))
    run = Published(run.entry, answers, below=below)
    paths = [below.path, run.entry.path, run.entry.path[:2], tree.INDEX]
    assert [one.path for one in send(wiki, [run])] == paths
    assert "Unmistakable." in site.text(below.path)
    assert wiki.has_image(below.path, "curve.png", picture(9))
    assert "Disable gradients" in site.text(run.entry.path)
    assert send(site.open(), [run]) == []
    further = replace(below, page=Page("The evidence", (*words, Paragraph(("More.",)))))
    assert [one.path for one in send(site.open(), [replace(run, below=further)])] == [below.path]


def test_publishing_again_writes_nothing(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    send(wiki, [run])
    before = state(site, run.entry.path)
    assert send(wiki, [run]) == []
    assert send(site.open(), [run]) == []
    assert state(site, run.entry.path) == before


def test_a_changed_run_touches_its_page_and_the_index_and_sends_no_image(site: Site, wiki: Wiki, machine: str) -> None:
    send(wiki, [run_of(machine)])
    before = site.pages()
    run = run_of(machine, "It does not pay.", measured="9")
    send(wiki, [run])
    after = site.pages()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {site.name(run.entry.path), site.name(tree.INDEX)}
    assert "It does not pay." in after[site.name(run.entry.path)]
    assert site.uploads(run.entry.path) == 1


def test_a_changed_image_is_sent_once_and_leaves_the_page(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine, shade=7)
    send(wiki, [run_of(machine)])
    pages, versions, _ = state(site, run.entry.path)
    site.tick()
    assert [(one.text, list(one.images)) for one in send(wiki, [run])] == [(None, ["speedups.png"])]
    assert state(site, run.entry.path) == (pages, versions, 2)
    assert send(site.open(), [run]) == []


def test_runs_of_two_publishers_are_both_in_the_index(site: Site, machine: str) -> None:
    first, second = site.open(), site.open()
    send(first, [run_of(machine)])
    send(second, [run_of(f"{machine}b")])
    assert {machine, f"{machine}b"} <= in_index(site.open())


# ---- people's own ----


def test_what_people_write_around_ours_stays(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    send(wiki, [run])
    site.edit(run.entry.path, "Words above, caf\u00e9.", "Words below.")
    assert send(site.open(), [run]) == []
    send(site.open(), [run_of(machine, "Otherwise.")])
    text = site.text(run.entry.path).replace("&eacute;", "\u00e9")
    assert re.search("Words above, caf\u00e9.*Otherwise.*Words below", text, re.DOTALL)
    assert "It pays." not in text
    assert send(site.open(), [run_of(machine, "Otherwise.")]) == []


def test_what_people_change_within_ours_is_put_right(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine, "Unmistakable")
    send(wiki, [run])
    site.save(run.entry.path, site.text(run.entry.path).replace("Unmistakable", "Different"))
    (put_right,) = send(site.open(), [run])
    assert put_right.path == run.entry.path
    assert "Unmistakable" in site.text(run.entry.path)
    assert "Different" not in site.text(run.entry.path)


def test_a_page_that_was_theirs_before_is_added_to(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    site.save(run.entry.path, "Our own words.")
    send(wiki, [run])
    assert re.search(r"Our own words\..*It pays\.", site.text(run.entry.path), re.DOTALL)
    assert send(site.open(), [run]) == []


def test_a_lost_mark_is_an_error_and_nothing_is_written(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    send(wiki, [run])
    site.save(run.entry.path, re.sub(site.ending, "", site.text(run.entry.path)))
    before = site.pages()
    with refused(machine, kind=Damaged):
        send(site.open(), [run_of(machine, "More.")])
    assert site.pages() == before


def test_hostile_text_neither_ends_our_region_nor_changes_when_it_is_stored(
    site: Site, wiki: Wiki, machine: str
) -> None:
    run = run_of(machine)
    evil = Published(run.entry, hostile(), run.images)
    send(wiki, [evil])
    site.edit(run.entry.path, below="Words below.")
    assert send(site.open(), [evil]) == []
    send(site.open(), [run])
    text = site.text(run.entry.path)
    assert text.count("Words below.") == 1
    assert "alert" not in text


# ---- others at the same time ----


def test_a_page_changed_since_it_was_read_is_a_conflict_and_nothing_is_lost(
    site: Site, wiki: Wiki, machine: str
) -> None:
    run = run_of(machine)
    send(wiki, [run])
    late = replace(change(wiki, run, "Later."), images={"new.png": picture(1)})
    site.edit(run.entry.path, below="Faster.")
    with refused(kind=Conflict):
        site.open().write([late], "too late")
    with refused(kind=Conflict):
        wiki.write([late], "too late")
    assert not site.open().has_image(run.entry.path, "new.png", picture(1))
    assert "Later." not in site.text(run.entry.path)
    again = site.open()
    again.write([change(again, run, "Later.")], "on top")
    assert re.search(r"Later\..*Faster\.", site.text(run.entry.path), re.DOTALL)


def test_a_page_that_another_made_meanwhile_is_a_conflict(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    ours = change(wiki, run, "First.")
    site.save(run.entry.path, "Mine.")
    with refused(kind=Conflict):
        wiki.write([ours], "too late")
    assert "Mine." in site.text(run.entry.path)
    assert "First." not in site.text(run.entry.path)


def test_whoever_was_faster_is_kept_and_ours_is_written_on_top(site: Site, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    send(wiki, [run])
    raced = Raced(site.open(), lambda: site.edit(run.entry.path, below="By hand."))
    assert send(raced, [run_of(machine, "Otherwise.")])
    assert re.search(r"Otherwise\..*By hand\.", site.text(run.entry.path), re.DOTALL)


# ---- refusals ----


def test_a_wrong_token_is_refused_and_not_shown(site: Site) -> None:
    with refused("token"):
        site.opened("wr0ng-t0ken").read(tree.INDEX)


def test_a_read_only_wiki_stays_as_it_is(site: Site, wiki: Wiki, machine: str) -> None:
    send(wiki, [run_of(machine)])
    before = site.pages()
    with site.read_only(), refused("read-only"):
        send(site.open(), [run_of(machine, "Never.")])
    assert site.pages() == before
    assert send(site.open(), [run_of(machine, "Now.")])


def test_a_page_that_is_not_there_is_none(site: Site, wiki: Wiki, machine: str) -> None:
    assert wiki.read(("Benchmarks", machine)) == Stored(None)
    assert not wiki.has_image(("Benchmarks", machine), "speedups.png", picture(200))


# ---- real wikis over HTTP ----

real = pytest.mark.parametrize("site", ["mediawiki", "dokuwiki"], indirect=True)


@real
def test_without_a_token_it_is_read_and_not_written(site: Real, machine: str) -> None:
    run = run_of(machine)
    send(site.open(), [run])
    stranger = site.stranger()
    assert stranger.read(run.entry.path).text == site.open().read(run.entry.path).text
    with refused("TIPBENCH_USER", "TIPBENCH_TOKEN"):
        send(stranger, [run_of(machine, "Never.")])


@real
def test_a_wiki_that_takes_no_files_gets_figures_in_words(site: Real, machine: str) -> None:
    run = run_of(machine)
    with site.without_files():
        wiki = site.open()
        assert len(send(wiki, [run])) == 3
        assert send(wiki, [run]) == []
    assert "takes no files" in site.text(run.entry.path)
    assert "Speedups of two pairs" in site.text(run.entry.path)
    assert site.uploads(run.entry.path) == 0


@real
def test_a_file_that_is_refused_leaves_no_page(site: Real, wiki: Wiki, machine: str) -> None:
    run = run_of(machine)
    evil = {"speedups.png": b"<html><script>alert(1)</script>"}
    with refused(machine):
        send(wiki, [replace(run, images=evil)])
    assert wiki.read(run.entry.path) == Stored(None)
