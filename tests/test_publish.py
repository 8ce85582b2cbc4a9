"""Publishing: the tree of pages, what is written in which order, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from tests import fake_confluence, wikis
from tests.git_server import commits, files, git, put
from tests.made_up import info, measured, run, stored
from tests.published import BOT_TOKEN, TOKEN, entry, of, on, picture, published, suite_run
from tipbench import cli
from tipbench.publish import index, markup, pages, secret, target
from tipbench.publish import send as sending
from tipbench.publish.allowed import allowed
from tipbench.publish.index import COMPARISON, Entry
from tipbench.publish.pages import of_run
from tipbench.publish.secret import Secret
from tipbench.publish.send import Publication, plan, preview, send
from tipbench.publish.wiki import ROOT, Conflict, Page, Unmarked, WikiError, unmarked
from tipbench.records.json_line import parsed, written

MARK = "<!-- ours -->"

exactly = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Shelf:
    """A wiki that is a dictionary.

    Attributes:
        order: the pages that were written.
        tries: how often the index was about to be written.
    """

    mark = MARK

    def __init__(self, before_write: Callable[[Shelf, int], None] = lambda wiki, number: None) -> None:
        """before_write: called before the index is written, with the number of the try, as a rival would be."""
        self.pages: dict[str, str] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.order: list[str] = []
        self.tries = 0
        self._before_write = before_write

    def render(self, page: Page) -> str:
        return page.text

    def read(self, path: str) -> str | None:
        return self.pages.get(path)

    def write(self, path: str, text: str, base: str | None) -> None:
        if path == ROOT:
            self.tries += 1
            self._before_write(self, self.tries)
        if self.pages.get(path) != base:
            raise Conflict(f"{path} was changed")
        self.pages[path] = text
        self.order.append(path)

    def has(self, path: str, name: str, content: bytes) -> bool:
        return self.files.get((path, name)) == content

    def attach(self, path: str, name: str, content: bytes) -> None:
        self.files[path, name] = content

    def finish(self) -> None: ...


def index_of(wiki: Shelf) -> list[Entry]:
    return index.entries(unmarked(wiki.pages[ROOT], MARK, ROOT))


def both(first: Publication, second: Publication, **more: Any) -> Publication:
    return Publication([*first.runs, *second.runs], **more)


# ---- whose a page is -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\r\n", "\n\n"])
def test_a_page_that_is_there_already_is_not_written_again_whatever_ends_its_lines(end: str) -> None:
    wiki = Shelf()
    send(wiki, published())
    wiki.pages[RUN] = wiki.pages[RUN].strip().replace("\n", "\r\n") + end
    assert send(wiki, published()) == []


@pytest.mark.parametrize("text", ["Mine.\n", f"Mine.\n{MARK}\n", f"> {MARK}\n"])
def test_a_page_of_somebody_else_is_refused_before_anything_is_written(text: str) -> None:
    wiki = Shelf()
    wiki.pages[RUN] = text
    with pytest.raises(Unmarked, match=f"the page {RUN} exists .* rename or delete it"):
        send(wiki, published())
    assert (wiki.pages, wiki.order) == ({RUN: text}, [])


# ---- the index -------------------------------------------------------------------------------------

ADDRESSES = markup.Addresses(lambda path, anchor: path, lambda name: name)

RENDERED: Mapping[str, Callable[[str], str]] = {
    "Markdown": str,
    "MediaWiki": lambda text: markup.converted(text, "mediawiki", ADDRESSES),
    "DokuWiki": lambda text: markup.converted(text, "dokuwiki", ADDRESSES),
    "Confluence": lambda text: markup.storage(text, ADDRESSES),
}

ENTRIES = st.builds(
    entry,
    st.text("0123456789abcdef", min_size=8, max_size=32),
    st.from_regex(r"[A-Za-z0-9]{1,9}([-._][A-Za-z0-9]{1,5}){0,3}", fullmatch=True),
    st.sampled_from(["2026-03-01T09:30:00+00:00", "2025-12-31T23:59:59+00:00"]),
    torch=st.sampled_from(["2.15.0", "2.11.0+cu128", ""]),
    noise=st.sampled_from(["", "0.990..1.010"]),
    answers=st.sampled_from(["0-0-0-0-0", "20-1-5-5-9-0-0-1"]),
)


@pytest.mark.parametrize("wiki", RENDERED)
@settings(derandomize=True, deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(listed=st.lists(ENTRIES, max_size=4, unique_by=lambda entry: entry.id))
def test_the_index_is_read_back_from_every_wikis_markup(wiki: str, listed: list[Entry]) -> None:
    assert index.entries(RENDERED[wiki](index.index_page(listed, True).text)) == listed


@pytest.mark.parametrize("wiki", RENDERED)
def test_the_runs_of_a_comparison_are_read_back_from_every_wikis_markup(wiki: str) -> None:
    ids = ["a" * 32, "0123456789abcdef"]
    page = index.comparison_page(Page(COMPARISON, "tipbench-compared nothing"), map(entry, ids))
    assert index.compared_ids(RENDERED[wiki](page.text)) == ids


NO_NAMES = ("a b", "a/b", "../x", "-a", "x-", "a--b", "x" * 61, "Comparison", "a|b", "é", "x-2026-03-01-aaaaaaaa", "'")


@pytest.mark.parametrize(
    "line",
    [
        *(entry("a" * 32, machine=name).line for name in NO_NAMES),
        "tipbench-run id=zz",
        entry("a" * 32).line.replace("2026-03-01T", "yesterday"),
        entry("a" * 32).line.replace("machine=box", "machine=box owner=me"),
        entry("a" * 32).line.replace(" device=cpu", ""),
    ],
)
def test_lines_of_another_form_are_no_runs(line: str) -> None:
    assert index.entries(line) == []


def test_the_index_names_the_newest_run_first() -> None:
    old, new = entry("a" * 32, begun="2026-01-01T00:00:00+00:00"), entry("b" * 32, begun="2026-02-01T00:00:00+00:00")
    assert index.merged([old], [new]) == index.merged([new], [old]) == [new, old]
    assert index.merged([old, new], [replace(old, measured="9")]) == [new, replace(old, measured="9")]


def test_code_that_looks_like_an_address_stays() -> None:
    code = "`f[0](x.svg)` and\n\n````python\n# f[0](x.md)\n```\n````\n"
    page = pages._page("P", f"{code}[to it](below/x.md)\n", "Evidence", {})
    assert page.text == f"{code}[to it](Evidence#x)\n"


def test_what_the_index_tells_of_a_run() -> None:
    line, of_whole = of_run(allowed(suite_run()))
    assert line.path == of_whole[-1].path == "Benchmarks/amd-epyc-zen4-2c-24g/2026-03-01-aaaaaaaa"
    assert (line.measured, line.skipped, line.failed, line.missing) == ("4", "1", "1", "0")
    assert line.noise == "0.994..1.004"
    assert line.answers == "0-0-0-2-0-0-0-1-1"
    text = index.index_page([line], False).text
    assert "4 measured, 1 skipped, 1 failed" in text
    assert "2 faster alone, 1 can't tell, 1 not possible here" in text
    assert "0.994..1.004" in text


def test_every_link_of_a_run_leads_to_a_heading_and_every_image_to_a_file() -> None:
    sweep = {f"num_workers={number}": 0.1 * number for number in (1, 2, 4, 8)}
    more = [
        measured(of("channels-last", "ResNetTraining", scale="macro", job="ResNetTraining"), {"optimized": 0.2}),
        measured(of("amp", "ResNetTraining", scale="macro", job="ResNetTraining"), {"optimized": 0.4}),
        measured(of("async-loading", "Decoding", tuple(sweep)), sweep),
    ]
    records = (*suite_run().records, *more)
    whole = replace(suite_run(), records=records, planned=tuple(record.name for record in records))
    line, of_whole = of_run(allowed(whole))
    parser, nodes = MarkdownIt("commonmark").enable("table"), []
    for page in of_whole:
        nodes += [(page, node) for node in SyntaxTreeNode(parser.parse(page.text)).walk()]
    headings = {f"{page.path}#{node.children[0].content}" for page, node in nodes if node.type == "heading"}
    links = {str(node.attrs["href"]) for _, node in nodes if node.type == "link"}
    assert {link for link in links if not link.startswith("http")} - headings == {line.path}
    assert f"{line.path}/Evidence#async-loading" in links
    images = [(page.path, str(node.attrs["src"])) for page, node in nodes if node.type == "image"]
    assert images == [(page.path, name) for page in of_whole for name in page.files]
    assert len(images) == 2
    assert all(content.startswith(b"\x89PNG") for page in of_whole for content in page.files.values())


# ---- sending ---------------------------------------------------------------------------------------


RUN = "Benchmarks/box/2026-03-01-aaaaaaaa"


def test_the_index_is_written_last() -> None:
    wiki, ids = Shelf(), frozenset(("a" * 32, "b" * 32))
    runs = both(published(), published("b" * 32, machine="other"), comparison=Page(COMPARISON, "x"), compared=ids)
    send(wiki, runs)
    other = "Benchmarks/other/2026-03-01-bbbbbbbb"
    assert wiki.order == [
        f"{RUN}/Evidence", RUN, f"{other}/Evidence", other, "Benchmarks/Comparison", "Benchmarks/other",
        "Benchmarks/box", "Benchmarks",
    ]  # fmt: skip


def test_a_comparison_with_runs_of_others_is_left_to_them() -> None:
    wiki, (a, b, c) = Shelf(), ("a" * 32, "b" * 32, "c" * 32)

    def compared(text: str, *ids: str) -> dict[str, Any]:
        return {"comparison": Page(COMPARISON, text), "compared": frozenset(ids)}

    send(wiki, both(published(a), published(b), **compared("Compared", a, b)))
    before = wiki.pages[COMPARISON]
    send(wiki, replace(published(c), **compared("Another", a, c)))
    assert wiki.pages[COMPARISON] == before
    assert "All of them compared" in wiki.pages[ROOT]
    send(wiki, replace(published(c), **compared("Of all", a, b, c)))
    assert "Of all" in wiki.pages[COMPARISON]


def with_rival(wiki: Shelf, entry: Entry) -> None:
    """Somebody else publishes a run."""
    entries = index_of(wiki) if ROOT in wiki.pages else []
    page = index.index_page(index.merged(entries, [entry]), False)
    wiki.pages[ROOT] = f"{MARK}\n{page.text}"


def test_a_rival_that_writes_the_index_in_between_stays() -> None:
    def rival(wiki: Shelf, number: int) -> None:
        if number <= 2:
            with_rival(wiki, entry(str(number) * 32, machine=f"rival-{number}"))

    wiki = Shelf(rival)
    send(wiki, published())
    assert {entry.machine for entry in index_of(wiki)} == {"rival-1", "rival-2", "box"}
    assert wiki.tries == 3


def test_tries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    wiki = Shelf(lambda wiki, number: with_rival(wiki, entry(f"{number}" * 32)))
    with pytest.raises(WikiError, match=r"Benchmarks was changed, 8 times in a row: try again when fewer"):
        send(wiki, published())
    assert wiki.tries == sending.TRIES
    assert len(index_of(wiki)) == sending.TRIES


def test_a_publication_that_broke_off_is_completed_by_the_next() -> None:
    def fails(wiki: Shelf, number: int) -> None:
        if number == 1:
            raise WikiError("the network is gone")

    wiki = Shelf(fails)
    with pytest.raises(WikiError, match="the network is gone"):
        send(wiki, published())
    assert ROOT not in wiki.pages  # nothing names what is not there
    assert send(wiki, published()) == [ROOT]
    assert [entry.id for entry in index_of(wiki)] == ["a" * 32]


def test_two_runs_that_would_be_one_page() -> None:
    wiki = Shelf()
    send(wiki, published("abcdef01" + "0" * 24))
    with pytest.raises(WikiError, match="would both be the page Benchmarks/box/2026-03-01-abcdef01: publish one of"):
        send(wiki, published("abcdef01" + "1" * 24))


def test_a_machine_that_got_another_name_loses_the_run_on_its_old_page() -> None:
    wiki = Shelf()
    send(wiki, both(published(machine="old"), published("b" * 32, machine="old")))
    send(wiki, published(machine="new"))
    assert [entry.machine for entry in index_of(wiki)] == ["old", "new"]
    assert "aaaaaaaa" not in wiki.pages["Benchmarks/old"]
    assert "aaaaaaaa" in wiki.pages["Benchmarks/new"]


def test_the_preview_shows_every_line_that_would_be_sent_and_sends_nothing() -> None:
    wiki = Shelf()
    wiki.pages[ROOT] = f"{MARK}\nOld.\n"
    changes = plan(wiki, published(text="What was measured.\x1b[31m"))
    shown = list(preview(changes))
    assert wiki.order == []
    added = [line[1:] for line in shown if line.startswith("+") and not line.startswith("+++")]
    for change in changes:
        for line in change.text.replace("\x1b", " ").splitlines():
            assert line in added or line in wiki.pages[ROOT]
    assert f"+++ {RUN}: image speedups.png, {len(picture(200)):,} bytes" in shown
    assert f" {MARK}" in shown  # a line that is there already
    assert "--- nothing" in shown
    assert not any("\x1b" in line for line in shown)


# ---- targets and tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "url", "host", "user"),
    [
        ("git+https://github.com/o/r.wiki.git", "git", "https://github.com/o/r.wiki.git", "github.com", ""),
        ("git+ssh://git@host:2222/o/r.wiki.git", "git", "ssh://git@host:2222/o/r.wiki.git", "host:2222", ""),
        ("git+file:///srv/wiki.git", "git", "file:///srv/wiki.git", "", ""),
        ("git+https://me@dev.azure.com/o/_git/w", "git", "https://dev.azure.com/o/_git/w", "dev.azure.com", "me"),
        ("mediawiki+https://Me%40Bot@h/w/", "mediawiki", "https://h/w/", "h", "Me@Bot"),
        ("dokuwiki+http://[::1]:8080/d/", "dokuwiki", "http://[::1]:8080/d/", "::1:8080", ""),
        ("confluence+https://s.atlassian.net/wiki?space=K", "confluence", "https://s.atlassian.net/wiki?space=K",
         "s.atlassian.net", ""),
    ],
)  # fmt: skip
def test_targets(text: str, kind: str, url: str, host: str, user: str) -> None:
    assert target.parse(text) == target.Target(kind, url, host, user)


@pytest.mark.parametrize(
    "text", ["", "https://github.com/x", "git+ftp://h/x", "mediawiki+ssh://h/", "trac+https://h/", "git+https://h:x/",
             "git+https:///x", "git+https://[::1/x", "git+--upload-pack=touch"],
)  # fmt: skip
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(WikiError, match=r"--to (wants one of: git\+https|names no host)"):
        target.parse(text)


def test_a_target_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(WikiError, match=r"--to holds a password.*set TIPBENCH_TOKEN") as error:
        target.parse("git+https://me:Hunter2@h/x.git")
    assert "Hunter2" not in str(error.value)


def test_a_token_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIPBENCH_TOKEN", "Hunter2")
    with pytest.raises(WikiError, match=r"the token would go to wiki\.corp for all to read: use https") as error:
        target.secret_for(target.parse("dokuwiki+http://wiki.corp/"))
    assert "Hunter2" not in str(error.value)
    assert target.secret_for(target.parse("dokuwiki+http://127.0.0.1:8/")).token == "Hunter2"


def test_a_token_comes_from_the_environment_or_else_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ring(keyring.backend.KeyringBackend):
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            if username == "broken.corp":
                raise OSError("no bus\x1b[31m")
            return (
                {"wiki.corp": "from the ring", "odd.corp": "two\nlines"}.get(username) if service == "tipbench" else ""
            )

        def set_password(self, service: str, username: str, password: str) -> None:
            raise AssertionError("nothing is stored")

    before = keyring.get_keyring()
    keyring.set_keyring(Ring())
    try:
        for name in ("TIPBENCH_USER", "TIPBENCH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        assert secret.find("wiki.corp", "me") == Secret("me", "from the ring")
        assert secret.find("other.corp") == Secret("", "")
        with pytest.raises(WikiError, match=r"the keyring cannot be read \(OSError: no bus \[31m\): set TIPBENCH"):
            secret.find("broken.corp")
        with pytest.raises(WikiError, match=r"the token, .* holds a line break"):
            secret.find("odd.corp")
        monkeypatch.setenv("TIPBENCH_TOKEN", "from the shell")
        monkeypatch.setenv("TIPBENCH_USER", "someone")
        assert secret.find("wiki.corp") == Secret("someone", "from the shell")
    finally:
        keyring.set_keyring(before)


@exactly
@given(st.text(min_size=3, max_size=30), st.text(max_size=10))
def test_a_secret_does_not_show(token: str, user: str) -> None:
    held = Secret(user, f"tok{token}")
    assert f"tok{token}" not in repr(held) + f"{held}" or f"tok{token}" in user
    assert f"tok{token}" not in held.hide(f"GET /?p=tok{token} tok{token}") or f"tok{token}" in secret.HIDDEN


# ---- the command -----------------------------------------------------------------------------------


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    folder = tmp_path / "wiki.git"
    git("init", "--quiet", "--bare", "--initial-branch=master", str(folder))
    put(folder, "master", {"Home.md": "Welcome.\n"})
    return folder


def publish(wiki: Path, *words: str | Path) -> int:
    return cli.main(["publish", "--to", f"git+file://{wiki}", "--flavour", "github", *map(str, words)])


def test_from_results_to_a_wiki(
    wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest run, then a second whose comparison takes in the first, found again by the wiki's index."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "results", on("a"))
    assert publish(wiki, "--dry-run") == 0
    shown, messages = capsys.readouterr()
    assert "+# PyTorch tuning tips on AMD EPYC (Zen 4), 2 cores" in shown
    assert messages.endswith("dry run: 4 pages would be written; nothing was sent\n")
    assert commits(wiki) == 1
    assert publish(wiki) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written: Benchmarks"
    assert publish(wiki) == 0
    assert capsys.readouterr().out == "nothing to write: the wiki has all of it already\n"
    second = stored(tmp_path / "results", on("b", 4, started="2026-03-02T09:30:00+00:00"))
    assert publish(wiki, second) == 0
    texts = {name: text.decode() for name, text in files(wiki).items() if name.endswith(".md")}
    first = "Benchmarks-amd-epyc-zen4-2c-24g-2026-03-01-aaaaaaaa"
    for part in ("2 machines", f"]({first})", "](Benchmarks-amd-epyc-zen4-4c-24g-2026-03-02-bbbbbbbb)"):
        assert part in texts["Benchmarks-Comparison.md"]
    assert f"({first}-Evidence#channels-last)" in texts[f"{first}.md"]
    assert "1.35x" in texts[f"{first}.md"]
    assert "## channels-last" in texts[f"{first}-Evidence.md"]
    assert commits(wiki) == 3


def test_the_comparison_is_left_where_results_of_others_are_in_it(
    wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = [stored(tmp_path / "theirs", on(name, cores)) for name, cores in (("a", 2), ("b", 4))]
    assert publish(wiki, *theirs) == 0
    before = files(wiki)["Benchmarks-Comparison.md"]
    ours = [stored(tmp_path / "ours", on(name, cores)) for name, cores in (("c", 8), ("d", 16))]
    capsys.readouterr()
    assert publish(wiki, *ours) == 0
    assert "the comparison stays as it is: it holds 2 runs that results lacks" in capsys.readouterr().err
    assert files(wiki)["Benchmarks-Comparison.md"] == before
    assert publish(wiki, *ours, *theirs) == 0
    assert "4 machines" in files(wiki)["Benchmarks-Comparison.md"].decode()


@pytest.mark.parametrize(
    ("fingerprints", "more", "title", "count"),
    [
        (("fedcba98" * 4, "fedcba98" * 4), (), "in 2 runs of", 2),
        (("fedcba98" * 4, "01234567" * 4), (), "on 2 machines", 1),
        (("", ""), (), "in 2 runs of", 1),
        (("", ""), ("--same-machine",), "in 2 runs of", 2),
    ],
)
def test_which_runs_are_of_one_machine_is_known_on_the_wiki_and_how_is_not(
    wiki: Path, tmp_path: Path, fingerprints: tuple[str, str], more: tuple[str, ...], title: str, count: int
) -> None:
    runs = [
        on(name, fingerprint=each, started=f"2026-03-0{day}T09:30:00+00:00")
        for day, (name, each) in enumerate(zip("ab", fingerprints, strict=True), 1)
    ]
    assert publish(wiki, *more, *(stored(tmp_path, each) for each in runs)) == 0
    texts = {name: text.decode("latin-1") for name, text in files(wiki).items()}
    assert title in texts["Benchmarks-Comparison.md"]
    (newest,) = [text for name, text in texts.items() if name.endswith("2026-03-02-bbbbbbbb.md")]
    assert ("2 runs of this machine" in newest) == (count == 2)
    assert not [name for name, text in texts.items() if any(each and each in text for each in fingerprints)]


def test_a_public_name(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stored(tmp_path, on("a"))
    assert publish(wiki, "--public-name", "Build-box.2", file) == 0
    assert "Benchmarks-Build-box.2-2026-03-01-aaaaaaaa.md" in files(wiki)
    assert b"amd-epyc-zen4" not in b"".join(files(wiki).values())
    for name in NO_NAMES:
        assert publish(wiki, f"--public-name={name}", file) == 2
        assert "a machine's public name is made of letters" in capsys.readouterr().err
    assert publish(wiki, "--public-name", "box", file, stored(tmp_path, on("b", 4))) == 2
    assert "--public-name names one machine; these runs are of 2 machines" in capsys.readouterr().err


def test_pairs_of_ones_own_stay_here(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret_pair, ours = measured(info("TopSecretKernel"), {"optimized": 0.2}), on("a")
    records = (*ours.records, secret_pair)
    file = stored(tmp_path, replace(ours, records=records, planned=tuple(record.name for record in records)))
    assert publish(wiki, file) == 0
    assert "1 pair left out, as this suite has none of that name: made-up.TopSecretKernel" in capsys.readouterr().err
    assert b"TopSecret" not in b"".join(files(wiki).values())
    own = stored(tmp_path, run([secret_pair], id="b" * 32))
    assert publish(wiki, own) == 2
    assert "no pair of the suite is finished in it, so there is nothing to publish" in capsys.readouterr().err


def test_files_that_cannot_be_published(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of a good one is published either: nothing is half done."""
    good, bad = stored(tmp_path, on("a")), tmp_path / "bad.jsonl"
    header = good.read_text().splitlines()[0]
    for text, why in (
        (written(parsed(header.encode()) | {"schema": 99}).decode(), "schema 99; this version of tipbench reads"),
        ("", "is empty"),
        (f"{header}\n", "no pair of the suite is finished in it"),
        (f"{header[:50]}\n", "the header is not a JSON object"),
    ):
        bad.write_text(text)
        assert publish(wiki, good, bad) == 2
        assert why in capsys.readouterr().err.splitlines()[-1]
    assert publish(wiki, tmp_path / "none.jsonl") == 2
    assert commits(wiki) == 1


def test_a_truncated_file_is_published_with_its_notice(
    wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stored(tmp_path, on("a"))
    file.write_text(file.read_text()[:-200])
    assert publish(wiki, file) == 0
    assert "truncated" in capsys.readouterr().err
    page = files(wiki)["Benchmarks-amd-epyc-zen4-2c-24g-2026-03-01-aaaaaaaa.md"].decode()
    assert "results, line 15: it could not be used; why is kept on the machine that measured" in page
    assert str(tmp_path) not in page


def test_two_runs_with_one_id(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, copy = stored(tmp_path / "1", on("a")), stored(tmp_path / "2", on("a"))
    assert publish(wiki, first, copy) == 0
    other = stored(tmp_path / "3", suite_run())
    capsys.readouterr()
    assert publish(wiki, first, other) == 2
    assert f"{first} and {other} hold different things under the run id {'a' * 32}" in capsys.readouterr().err


def test_targets_that_do_not_work_are_named_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(stored(tmp_path, on("a")))
    for to, more, why in (
        ("nonsense", [], "--to wants one of"),
        ("git+https://me:pw@h/x", [], "--to holds a password"),
        (f"git+file://{tmp_path}/none.git", ["--flavour", "github"], "there is no such repository"),
        ("git+http://127.0.0.1:9/x.git", ["--flavour", "github"], "its server cannot be reached"),
        ("git+http://127.0.0.1:9/x.git", [], "add --flavour github|gitlab|gitea|azure"),
        ("dokuwiki+http://127.0.0.1:9/", ["--flavour", "github"], "--flavour is for git wikis only"),
    ):
        assert cli.main(["publish", "--to", to, *more, file]) == 2
        message = capsys.readouterr().err
        assert why in message
        assert message.count("\n") == 1


def test_publishing_needs_no_torch(wiki: Path, tmp_path: Path) -> None:
    file = stored(tmp_path, on("a"))
    words = ["publish", "--to", f"git+file://{wiki}", "--flavour", "gitlab", str(file)]
    code = f"import sys; sys.modules['torch'] = None; from tipbench.cli import main; sys.exit(main({words!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Benchmarks/amd-epyc-zen4-2c-24g/2026-03-01-aaaaaaaa.md" in files(wiki)


@pytest.mark.parametrize(
    ("kind", "library"), [("mediawiki", "mwclient"), ("confluence", "atlassian"), ("dokuwiki", "pypandoc")]
)
def test_a_library_that_is_missing_is_one_sentence(
    kind: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    module = target.FORMS[kind][0]
    monkeypatch.delitem(sys.modules, f"tipbench.publish.{module}", raising=False)
    with pytest.raises(WikiError, match=r"pip install 'tipbench\[wikis\]'"):
        target.open_wiki(target.parse(f"{kind}+http://127.0.0.1:9/?space=K"), Secret("", "x")).render(Page("x", "x"))


# ---- each form of --to that the README lists, from a results file to the wiki -------------------------------------


def _target(form: str, site: wikis.Site, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """(what `--to` is given, the user, the token). ssh is stood in for by a command that runs what it is given here."""
    if isinstance(site, wikis.Git):
        (ssh := folder / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
        ssh.chmod(0o755)
        monkeypatch.setenv("GIT_SSH", str(ssh))
        bare = site.server.root / "contract.git"
        forms = {"git+http": f"git+{site.server.url}/contract.git", "git+file": f"git+file://{bare}"}
        return {**forms, "git+ssh": f"git+ssh://git@localhost{bare}"}[form], "", TOKEN
    if isinstance(site, wikis.Stand):
        site.save("Team", "<p>ours</p>")
        return f"confluence+{site.site.url}?space=KEY&parent={site.site.pages['Team'].id}", fake_confluence.USER, TOKEN
    assert isinstance(site, wikis.Real)
    is_media = isinstance(site, wikis.Media)
    return f"{form}+{site.server.url}", *(("Publisher@tipbench", BOT_TOKEN) if is_media else ("publisher", TOKEN))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["git+http", "git+file", "git+ssh", "mediawiki", "dokuwiki", "confluence"])
def test_a_run_is_published_by_each_form_of_target(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = stored(tmp_path / "results", on("a"))
    (served := tmp_path / "served").mkdir()
    with wikis.running(form.partition("+")[0], served) as site:
        to, user, token = _target(form, site, tmp_path, monkeypatch)
        flavour = ["--flavour", "github"] if form.startswith("git") else []
        command = [sys.executable, "-P", "-m", "tipbench", "publish", "--to", to, *flavour, str(file)]
        env = {**os.environ, "TIPBENCH_USER": user, "TIPBENCH_TOKEN": token}
        first, second = (subprocess.run(command, env=env, capture_output=True, text=True) for _ in range(2))
        assert (first.returncode, first.stdout.splitlines()[-1:]) == (0, ["written: Benchmarks"]), first.stderr
        assert second.stdout == "nothing to write: the wiki has all of it already\n", second.stderr
        page = site.text("Benchmarks/amd-epyc-zen4-2c-24g/2026-03-01-aaaaaaaa")
        assert "1.35x" in page
        assert TOKEN not in first.stderr + first.stdout
