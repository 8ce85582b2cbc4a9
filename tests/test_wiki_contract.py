"""What all wikis have in common, on each kind: git, a real MediaWiki and DokuWiki, and Confluence's stand-in."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from tests import wikis
from tests.published import BOT_TOKEN, TOKEN, published, refused
from tests.wikis import KINDS, OVER_HTTP, Real, Site, answering, opened
from tipbench.publish.send import plan, send
from tipbench.publish.wiki import ROOT_PAGE

REAL = KINDS[1:3]


@pytest.fixture(scope="module", params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with wikis.running(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def machine() -> str:
    return wikis.machine()


def test_a_run_is_written_once_and_what_changed_again(site: Site, machine: str) -> None:
    evidence, front = published(machine=machine)
    changes = plan(site.open(), [evidence, front])
    assert [change.path for change in changes] == [evidence.path, front.path]
    assert not site.text(front.path)  # a plan sends nothing
    assert send(site.open(), [evidence, front]) == [evidence.path, front.path]
    assert "Unmistakable." in site.text(evidence.path)
    assert send(site.open(), [evidence, front]) == []
    for text, shade in (("It does not pay.", 200), ("It does not pay.", 7)):
        time.sleep(1)  # MediaWiki names the old version of a file by the second
        changed = published(text, machine, shade)
        assert send(site.open(), changed) == [front.path]
        assert text in site.text(front.path)
        assert send(site.open(), changed) == []


def test_a_page_without_our_mark_is_refused_and_nothing_is_written(site: Site, machine: str) -> None:
    evidence, front = published(machine=machine)
    theirs = "<p>Our own words.</p>"
    site.save(front.path, theirs)
    with refused(f"the page {front.path} exists .* rename or delete it"):
        send(site.open(), [evidence, front])
    assert "Our own words." in site.text(front.path)
    assert site.text(evidence.path) == ""


def test_a_read_only_wiki_stays_as_it_is(site: Site, machine: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _, front = published(machine=machine)
    send(site.open(), [front])
    before = site.text(front.path)
    _, later = published("Later.", machine)
    with site.read_only(), refused("read-only|right to edit|may not"):
        send(site.open(), [later])
    assert site.text(front.path) == before
    assert send(site.open(), [later]) == [front.path]
    assert TOKEN not in caplog.text
    assert BOT_TOKEN not in caplog.text


@pytest.mark.parametrize("site", OVER_HTTP, indirect=True)
def test_a_wrong_token_is_refused_and_not_shown(site: Site) -> None:
    with refused("token"):
        site.open("wr0ng-t0k\u20acn").read(ROOT_PAGE)


@pytest.mark.parametrize("site", REAL, indirect=True)
def test_without_a_token_it_is_read_and_not_written(site: Real, machine: str) -> None:
    _, front = published(machine=machine)
    send(site.open(), [front])
    kind, _, url = site.target.partition("+")
    stranger = opened(kind, url, "", "")
    assert stranger.read(front.path) == site.text(front.path)
    with refused("TIPBENCH_USER and TIPBENCH_TOKEN|TIPBENCH_USER to its user"):
        stranger.write(front.path, "Never.")


@pytest.mark.parametrize("site", ["mediawiki"], indirect=True)
def test_a_wiki_that_takes_no_files_gets_figures_in_words(site: Real, machine: str) -> None:
    _, front = published(machine=machine)
    with site.server.with_settings("$wgEnableUploads = false;"):
        assert send(site.open(), [front]) == [front.path]
        assert send(site.open(), [front]) == []
    assert "''Speedups of two pairs''" in site.text(front.path)


# ---- servers that are none, or refuse ----


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [(401, b"", "HTTP 401"), (404, b"", "HTTP 404"), (500, b"", "HTTP 500|too busy, or down"),
     (200, b"<html>Log in</html>", "does not answer as|InvalidResponse"), (200, b"{}", "does not answer as")],
)  # fmt: skip
@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_server_that_refuses_or_is_no_wiki_is_one_sentence(
    kind: str, status: int, body: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tipbench.publish.media_wiki.RETRY_S", 0)
    with answering(status, body) as (url, _), refused(words):
        opened(kind, url).read(ROOT_PAGE)


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_no_redirect_is_followed_with_a_token(kind: str) -> None:
    with answering(200) as (elsewhere, there), answering(307, Location=elsewhere) as (url, here), refused("sends on"):
        opened(kind, url).read(ROOT_PAGE)
    assert (there, len(here)) == ([], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_down(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tipbench.publish.media_wiki.RETRY_S", 0)
    with refused("nothing answers|cannot be read|is too busy, or down"):
        opened(kind, "http://127.0.0.1:9/wiki/").read(ROOT_PAGE)
