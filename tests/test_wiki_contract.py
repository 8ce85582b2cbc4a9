"""What all wikis have in common, on each kind: a real git server, MediaWiki and DokuWiki, and Confluence's stand-in."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests import wikis
from tests.published import BOT_TOKEN, TOKEN, published, refused
from tests.wikis import Real, Site
from tipbench.publish import index
from tipbench.publish.send import Publication, plan, send
from tipbench.publish.wiki import ROOT, Conflict, Page, Unmarked, unmarked


@pytest.fixture(scope="module", params=wikis.OPENED)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with wikis.running(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def machine() -> str:
    return wikis.machine()


def run_of(machine: str, text: str = "It pays.", shade: int = 200, **more: str) -> Publication:
    """A publication of the machine's only run."""
    return published(hashlib.sha1(machine.encode()).hexdigest()[:32], text, machine, shade, **more)


def front(publication: Publication) -> Page:
    return publication.runs[0][1][-1]


def in_index(site: Site) -> set[str]:
    wiki = site.open()
    return {entry.machine for entry in index.entries(unmarked(wiki.read(ROOT), wiki.mark, ROOT))}


def test_a_run_makes_its_pages_once_and_touches_no_other(site: Site, machine: str) -> None:
    run, before = run_of(machine), site.pages()
    path = front(run).path
    written = [f"{path}/Evidence", path, f"{ROOT}/{machine}", ROOT]
    assert send(site.open(), run) == written
    after = site.pages()
    assert {name for name in after if after[name] != before.get(name)} == set(map(site.name, written))
    assert machine in in_index(site)
    assert "Unmistakable." in site.text(f"{path}/Evidence")
    state = after, site.versions(path), site.uploads(path)
    assert state[2] == 1
    assert send(site.open(), run) == []
    assert (site.pages(), site.versions(path), site.uploads(path)) == state


def test_a_changed_run_touches_its_page_and_the_index_and_sends_no_image(site: Site, machine: str) -> None:
    send(site.open(), run_of(machine))
    run = run_of(machine, "It does not pay.", measured="9")
    assert send(site.open(), run) == [front(run).path, ROOT]
    assert "It does not pay." in site.text(front(run).path)
    assert site.uploads(front(run).path) == 1


def test_a_changed_image_is_sent_once_and_leaves_the_page(site: Site, machine: str) -> None:
    send(site.open(), run_of(machine))
    run = run_of(machine, shade=7)
    path = front(run).path
    text = site.text(path)
    site.tick()
    assert send(site.open(), run) == [path]
    assert site.text(path) == text
    assert site.uploads(path) == 2
    assert send(site.open(), run) == []


def test_runs_of_two_publishers_are_both_in_the_index(site: Site, machine: str) -> None:
    first, second = site.open(), site.open()
    send(first, run_of(machine))
    send(second, run_of(f"{machine}b"))
    assert {machine, f"{machine}b"} <= in_index(site)


def test_what_people_change_on_a_page_of_ours_is_put_right(site: Site, machine: str) -> None:
    run = run_of(machine)
    path = front(run).path
    send(site.open(), run)
    site.save(path, site.text(path).replace("It pays", "Different"))
    assert send(site.open(), run) == [path]
    assert "Different" not in site.text(path)


def test_a_page_without_our_mark_is_refused_and_nothing_is_written(site: Site, machine: str) -> None:
    run = run_of(machine)
    path = front(run).path
    send(site.open(), run)
    whole = site.text(path)
    for text in (site.typed("Our own words."), f"{site.typed('Our own words.')}\n\n{whole}"):
        site.save(path, text)
        before = site.pages()
        with refused(machine, kind=Unmarked):
            send(site.open(), run_of(machine, "More."))
        assert site.pages() == before
    site.save(path, whole)
    assert send(site.open(), run_of(machine, "More.")) == [path]


def test_a_page_changed_since_it_was_read_is_a_conflict_and_nothing_is_lost(site: Site, machine: str) -> None:
    run = run_of(machine)
    path = front(run).path
    send(site.open(), run)
    late, page = site.open(), Page(path, "Later.")
    base = late.read(path)
    site.tick()
    site.save(path, f"{site.text(path)}\n\n{site.typed('Faster.')}")
    with contextlib.suppress(Conflict):  # MediaWiki itself puts changes of different lines together
        late.write(path, f"{late.mark}\n{late.render(page)}\n", base)
        late.finish()
    assert "Faster." in site.text(path)
    new = f"{path}/New"
    again = site.open()
    assert again.read(new) is None
    site.save(new, site.typed("Mine."))
    with refused(kind=Conflict):
        again.write(new, f"{again.mark}\n{again.render(Page(new, 'First.'))}\n", None)
        again.finish()
    assert "Mine." in site.text(new)


def test_whoever_was_faster_stays_in_the_index(site: Site, machine: str) -> None:
    wiki = site.open()
    render = wiki.render
    rivals = [f"{machine}b"]

    def rendered_after_a_rival(page: Page) -> str:
        if page.path == ROOT and rivals:
            send(site.open(), run_of(rivals.pop()))
        return render(page)

    wiki.render = rendered_after_a_rival  # type: ignore[method-assign]
    assert ROOT in send(wiki, run_of(machine))
    assert {machine, f"{machine}b"} <= in_index(site)


def test_a_wrong_token_is_refused_and_not_shown(site: Site) -> None:
    with refused("token"):
        site.opened("wr0ng-t0ken").read(ROOT)


def test_no_log_and_no_address_holds_the_token(site: Site, machine: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    send(site.open(), run_of(machine))
    assert TOKEN not in caplog.text
    assert BOT_TOKEN not in caplog.text


def test_a_read_only_wiki_stays_as_it_is(site: Site, machine: str) -> None:
    send(site.open(), run_of(machine))
    before = site.pages()
    with site.read_only(), refused(any_of="read-only|right to edit|may not do that|forbids"):
        send(site.open(), run_of(machine, "Never."))
    assert site.pages() == before
    assert send(site.open(), run_of(machine, "Now."))


real = pytest.mark.parametrize("site", ["mediawiki", "dokuwiki"], indirect=True)


@real
def test_without_a_token_it_is_read_and_not_written(site: Real, machine: str) -> None:
    run = run_of(machine)
    send(site.open(), run)
    stranger = site.stranger()
    assert stranger.read(front(run).path) == site.open().read(front(run).path)
    with refused("TIPBENCH_USER", "TIPBENCH_TOKEN"):
        send(stranger, run_of(machine, "Never."))


@real
def test_a_wiki_that_takes_no_files_gets_figures_in_words(site: Real, machine: str) -> None:
    run = run_of(machine)
    with site.without_files():
        assert len(send(site.open(), run)) == 4
        assert send(site.open(), run) == []
    assert "Speedups of two pairs" in site.text(front(run).path)
    assert site.uploads(front(run).path) == 0


@real
def test_a_file_that_is_refused_leaves_no_page(site: Real, machine: str) -> None:
    run = run_of(machine)
    entry, (evidence, page) = run.runs[0]
    evil = replace(page, files={"speedups.png": b"<html><script>alert(1)</script>"})
    with refused(machine):
        send(site.open(), replace(run, runs=[(entry, [evidence, evil])]))
    assert site.open().read(page.path) is None


def test_a_plan_reads_and_sends_nothing(site: Site, machine: str) -> None:
    before = site.pages()
    assert len(plan(site.open(), run_of(machine))) == 4
    assert site.pages() == before
