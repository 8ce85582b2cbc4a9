"""Publishing: the tree of pages, what is refused, and the command from a results file to a wiki."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from PIL import Image

from tests import wikis
from tests.git_server import CREDENTIALS, commits, files, git, put
from tests.made_up import info, measured, run, stored
from tests.published import TOKEN, of, on, suite_run
from tipbench import cli
from tipbench.publish import pages
from tipbench.publish.pages import pages_of_run
from tipbench.publish.redaction import redact
from tipbench.publish.target import Target, open_wiki, parse
from tipbench.publish.web import Login
from tipbench.publish.wiki import WikiError
from tipbench.records.json_line import dump_line, parse_line

# ---- pages -----------------------------------------------------------------------------------------


def test_code_that_looks_like_an_address_stays() -> None:
    code = "`f[0](x.svg)` and\n\n````python\n# f[0](x.md)\n```\n````\n"
    page = pages._page("P", f"{code}[to it](below/x.md)\n", "Evidence", {})
    assert page.text == f"{code}[to it](Evidence#x)\n"


def test_every_link_of_a_run_leads_to_a_heading_and_every_image_to_a_file() -> None:
    sweep = {f"num_workers={number}": 0.1 * number for number in (1, 2, 4, 8)}
    more = [
        measured(of("channels-last", "ResNetTraining", scale="macro", job="ResNetTraining"), {"optimized": 0.2}),
        measured(of("amp", "ResNetTraining", scale="macro", job="ResNetTraining"), {"optimized": 0.4}),
        measured(of("async-loading", "Decoding", tuple(sweep)), sweep),
    ]
    records = (*suite_run().records, *more)
    whole = replace(suite_run(), records=records, planned=tuple(record.name for record in records))
    of_whole = pages_of_run(redact(whole))
    path = of_whole[-1].path
    parser, nodes = MarkdownIt("commonmark").enable("table"), []
    for page in of_whole:
        nodes += [(page, node) for node in SyntaxTreeNode(parser.parse(page.text)).walk()]
    headings = {f"{page.path}#{node.children[0].content}" for page, node in nodes if node.type == "heading"}
    links = {str(node.attrs["href"]) for _, node in nodes if node.type == "link"}
    assert {link for link in links if not link.startswith("http")} - headings == {path}
    assert f"{path}/Evidence#async-loading" in links
    images = [(page.path, str(node.attrs["src"])) for page, node in nodes if node.type == "image"]
    assert images == [(page.path, name) for page in of_whole for name in page.files]
    assert len(images) == 2
    figures = [Image.open(BytesIO(content)) for page in of_whole for content in page.files.values()]
    assert {(figure.format, round(figure.info["dpi"][0])) for figure in figures} == {("PNG", 96)}


# ---- targets and tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "url", "user"),
    [
        ("git+https://github.com/o/r.wiki.git", "git", "https://github.com/o/r.wiki.git", ""),
        ("git+ssh://git@host:2222/o/r.wiki.git", "git", "ssh://git@host:2222/o/r.wiki.git", ""),
        ("git+file:///srv/wiki.git", "git", "file:///srv/wiki.git", ""),
        ("git+https://me@dev.azure.com/o/_git/w", "git", "https://me@dev.azure.com/o/_git/w", ""),
        ("mediawiki+https://Me%40Bot@h/w/", "mediawiki", "https://h/w/", "Me@Bot"),
        ("dokuwiki+http://[::1]:8080/d/", "dokuwiki", "http://[::1]:8080/d/", "someone"),
        ("confluence+https://s.net/wiki?space=K", "confluence", "https://s.net/wiki?space=K", "someone"),
    ],
)
def test_targets(text: str, kind: str, url: str, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIPBENCH_USER", "someone")
    monkeypatch.setenv("TIPBENCH_TOKEN", "Hunter2\n")
    assert parse(text) == Target(kind, url, Login(user, "Hunter2" if user else ""))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, r"--to wants one of: git\+https") for text in ("", "https://github.com/x", "git+ftp://h/x", "trac+https://h/",
          "mediawiki+ssh://h/", "git+https:///x", "git+https://[::1/x", "git+--upload-pack=touch")),
        ("git+https://me:Hunter2@h/x.git", "--to holds a password.*set TIPBENCH_TOKEN"),
        ("dokuwiki+http://wiki.corp/", r"the token would go to wiki\.corp for all to read: use https"),
    ],
)  # fmt: skip
def test_what_is_no_target(text: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIPBENCH_TOKEN", "Hunter2")
    with pytest.raises(WikiError, match=why) as error:
        parse(text)
    assert "Hunter2" not in str(error.value)


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
    """The newest run, then two, which are compared."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "results", on("a"))
    assert publish(wiki, "--dry-run") == 0
    shown, messages = capsys.readouterr()
    assert "# What to change in PyTorch code on AMD EPYC (Zen 4), 2 cores" in shown
    assert messages.endswith("dry run: 2 pages would be written; nothing was sent\n")
    assert commits(wiki) == 1
    assert publish(wiki) == 0
    first = "Benchmarks-amd-epyc-zen4-2c-24g-2026-03-01-aaaaaaaa"
    assert capsys.readouterr().out.splitlines()[-1] == "written: Benchmarks/amd-epyc-zen4-2c-24g/2026-03-01-aaaaaaaa"
    assert publish(wiki) == 0
    assert capsys.readouterr().out == "nothing to write: the wiki has all of it already\n"
    second = stored(tmp_path / "results", on("b", 4, started="2026-03-02T09:30:00+00:00"))
    assert publish(wiki, second, tmp_path / "results") == 2
    assert "is a folder: name results files" in capsys.readouterr().err
    assert publish(wiki, second, *(tmp_path / "results").rglob("*-aaaaaaaa.jsonl")) == 0
    texts = {name: text.decode() for name, text in files(wiki).items() if name.endswith(".md")}
    assert "2 machines" in texts["Benchmarks-Comparison.md"]
    assert "Benchmarks-amd-epyc-zen4-4c-24g-2026-03-02-bbbbbbbb.md" in texts
    assert f"({first}-Evidence#channels-last)" in texts[f"{first}.md"]
    assert "1.35x" in texts[f"{first}.md"]
    assert "## channels-last" in texts[f"{first}-Evidence.md"]
    assert commits(wiki) == 3


def test_where_runs_lie_is_not_on_the_wiki(wiki: Path, tmp_path: Path) -> None:
    runs = [on(name, started=f"2026-03-0{day}T09:30:00+00:00") for day, name in enumerate("ab", 1)]
    assert publish(wiki, *(stored(tmp_path / each.id, each) for each in runs)) == 0
    texts = {name: text.decode("latin-1") for name, text in files(wiki).items()}
    assert "in 2 runs" in texts["Benchmarks-Comparison.md"]
    assert not [name for name, text in texts.items() if str(tmp_path) in text]


def test_pairs_of_ones_own_stay_here(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret_pair, ours = measured(info("TopSecretKernel"), {"optimized": 0.2}), on("a")
    records = (*ours.records, secret_pair)
    file = stored(tmp_path, replace(ours, records=records, planned=tuple(record.name for record in records)))
    assert publish(wiki, file) == 0
    assert (
        "1 pair left out, as this suite has none of that name, or words its tip otherwise: made-up.TopSecretKernel"
        in capsys.readouterr().err
    )
    assert b"TopSecret" not in b"".join(files(wiki).values())
    own = stored(tmp_path, run([secret_pair], id="b" * 32))
    assert publish(wiki, own) == 2
    assert "no pair of the suite is finished in it, so there is nothing to publish" in capsys.readouterr().err


def test_files_that_cannot_be_published(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of a good one is published either: nothing is half done."""
    good, bad = stored(tmp_path, on("a")), tmp_path / "bad.jsonl"
    header = good.read_text().splitlines()[0]
    for text, why in (
        (dump_line(parse_line(header.encode()) | {"schema": 99}).decode(), "schema 99; this version of tipbench"),
        ("", "is empty"),
        (f"{header[:50]}\n", "the header is not a JSON object"),
    ):
        bad.write_text(text)
        assert publish(wiki, good, bad) == 2
        assert why in capsys.readouterr().err.splitlines()[-1]
    assert publish(wiki, tmp_path / "none.jsonl") == 2
    assert commits(wiki) == 1


def test_a_truncated_file_goes_with_its_notice(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stored(tmp_path, on("a"))
    file.write_text(file.read_text()[:-200])
    assert publish(wiki, file) == 0
    assert "truncated" in capsys.readouterr().err
    page = files(wiki)["Benchmarks-amd-epyc-zen4-2c-24g-2026-03-01-aaaaaaaa.md"].decode()
    assert "results, line 15: it could not be used; why is kept on the machine that measured" in page
    assert str(tmp_path) not in page


def test_two_runs_with_one_id(wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The later file counts, so a copy is no run to compare with."""
    first, later = stored(tmp_path / "1", on("a")), stored(tmp_path / "2", on("a", started="2026-03-02T09:30:00+00:00"))
    assert publish(wiki, first, later) == 0
    assert [name for name in files(wiki) if name.endswith(".md") and "Evidence" not in name] == [
        "Benchmarks-amd-epyc-zen4-2c-24g-2026-03-02-aaaaaaaa.md",
        "Home.md",
    ]


@pytest.mark.parametrize(
    ("to", "more", "why"),
    [
        ("nonsense", [], "--to wants one of"),
        ("git+file:///none\x1b[31m.git", ["--flavour", "github"], "create one page there"),
        ("git+http://127.0.0.1:9/x.git", ["--flavour", "github"], "cannot be read: fatal: unable to access"),
        ("git+http://127.0.0.1:9/x.git", [], "add --flavour github|gitlab|gitea|azure"),
        ("dokuwiki+http://127.0.0.1:9/", ["--flavour", "github"], "--flavour is for git wikis only"),
        ("confluence+http://127.0.0.1:9/", [], "add ?space=KEY"),
        ("confluence+http://127.0.0.1:9/?space=K", [], "set TIPBENCH_USER"),
    ],
)
def test_targets_that_do_not_work_are_named_in_one_line(
    to: str, more: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["publish", "--to", to, *more, str(stored(tmp_path, on("a")))]) == 2
    message = capsys.readouterr().err
    assert why in message
    assert "\x1b" not in message
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
def test_a_library_that_is_missing_is_one_sentence(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("media_wiki", "doku_wiki", "confluence", "markup"):
        monkeypatch.delitem(sys.modules, f"tipbench.publish.{module}", raising=False)
    with pytest.raises(WikiError, match=r"pip install 'tipbench\[wikis\]'"):
        open_wiki(parse(f"{kind}+http://127.0.0.1:9/?space=K"))


# ---- each form of --to that the README lists, from a results file to the wiki -------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", ["git+ssh", "mediawiki", "dokuwiki", "confluence"])
def test_a_run_is_published_by_each_form_of_target(form: str, tmp_path: Path) -> None:
    """ssh is stood in for by a command that runs what it is given here. git+file has a test above, and git+http one of
    what is sent, in `test_privacy.py`."""
    file, page = stored(tmp_path / "results", on("a")), "Benchmarks/amd-epyc-zen4-2c-24g/2026-03-01-aaaaaaaa"
    (served := tmp_path / "served").mkdir()
    kind = form.partition("+")[0]
    with wikis.running(kind, served) as site:
        (ssh := tmp_path / "ssh").write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
        ssh.chmod(0o755)
        to = [f"git+ssh://git@localhost{served}/wiki.git", "--flavour", "github"] if kind == "git" else [site.target]
        command = [sys.executable, "-P", "-m", "tipbench", "publish", "--to", *to, str(file)]
        env = {**os.environ, **CREDENTIALS, "GIT_SSH": str(ssh)}
        env |= {"TIPBENCH_USER": site.user, "TIPBENCH_TOKEN": site.token}
        first, second = (subprocess.run(command, env=env, capture_output=True, text=True) for _ in range(2))
        assert (first.returncode, first.stdout.splitlines()[-1:]) == (0, [f"written: {page}"]), first.stderr
        assert second.stdout == "nothing to write: the wiki has all of it already\n", second.stderr
        assert "1.35x" in site.text(page)
        assert TOKEN not in first.stderr + first.stdout
