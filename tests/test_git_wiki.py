"""Git wikis, beyond the contract: one commit, flavours, refusals, races, the person's own git."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git_server import CREDENTIALS, GitServer, commits, content, files, git, need, serving
from tests.made_up import stored
from tests.published import on, picture, published, refused
from tipbench.publish.git_wiki import GitWiki
from tipbench.publish.send import send

PAGES = published(machine="amd-epyc-2c")
RUN = PAGES[1].path.replace("/", "-")
OURS = {f"{RUN}.md", f"{RUN}-Evidence.md", f"images/{RUN}/speedups.png"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    need()
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def wiki(server: GitServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wiki of the test's own, for which the person's git has a password."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return server.wiki(f"{re.sub('[^a-z0-9]+', '-', request.node.name)}.git")


def opened(server: GitServer, wiki: Path, kind: str = "github") -> GitWiki:
    return GitWiki(f"{server.url}/{wiki.name}", kind)


def hook(folder: Path, script: str) -> None:
    path = folder / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_publication_is_one_commit_of_our_files_that_says_nothing_of_who_made_it(
    server: GitServer, wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where tipbench is started by a hook of another repository, whose variables git would follow."""
    (tmp_path / ".gitconfig").write_text(
        f"[user]\n\tname = Canary\n[commit]\n\tgpgSign = true\n[core]\n\texcludesFile = {tmp_path}/ignored\n"
    )
    (tmp_path / "ignored").write_text("*\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    git("init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    send(opened(server, wiki), PAGES)
    monkeypatch.undo()
    assert commits(wiki) == 2
    assert set(git("-C", str(wiki), "diff", "--name-only", "master~1", "master").split()) == OURS
    assert content(wiki, f"master:images/{RUN}/speedups.png") == picture(200)
    commit = git("-C", str(wiki), "cat-file", "commit", "master")
    who = re.findall(r"^(?:author|committer) (.*) \d+ (.*)$", commit, re.MULTILINE)
    assert who == [("tipbench <tipbench@users.noreply.invalid>", "+0000")] * 2


LAID_OUT = {
    "github": ("Benchmarks-{m}-{r}.md", "Benchmarks-{m}-{r}", "images/Benchmarks-{m}-{r}/speedups.png", ""),
    "gitlab": ("Benchmarks/{m}/{r}.md", "/Benchmarks/{m}/{r}", "Benchmarks/{m}/{r}/speedups.png", "/"),
    "azure": ("Benchmarks/{M}/{R}.md", "/Benchmarks/{M}/{R}", ".attachments/Benchmarks-{m}-{r}-speedups.png", "/"),
}
"""Of a run: its file, a link to it, its image, and what addresses begin with."""


@pytest.mark.parametrize("kind", LAID_OUT)
def test_each_flavour_has_its_files_links_and_images(server: GitServer, wiki: Path, kind: str) -> None:
    _, machine, run = PAGES[1].path.split("/")
    words = {"m": machine, "r": run, "M": machine.replace("-", "%2D"), "R": run.replace("-", "%2D")}
    send(opened(server, wiki, kind), PAGES)
    written = files(wiki)
    file, link, image, root = (form.format(**words) for form in LAID_OUT[kind])
    assert f"]({root}{image})" in written[file].decode()
    assert image in written
    assert f"]({link}/Evidence#channels-last)".replace("/E", "-E" if not root else "/E") in written[file].decode()


@pytest.mark.parametrize(
    ("host", "kind"), [("gitlab.example.org", "gitlab"), ("codeberg.org", "gitea"), ("dev.azure.com", "azure")]
)
def test_a_flavour_is_guessed_from_the_host(host: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GitWiki, "_git", lambda *words: None)
    by_host, by_name = GitWiki(f"https://{host}/x.git", ""), GitWiki("https://git.example.org/x.git", kind)
    assert by_host.render(PAGES[1]) == by_name.render(PAGES[1])


@pytest.mark.parametrize("branch", ["main", "odd/name"])
def test_pages_of_an_empty_wiki_go_to_the_branch_the_server_names(server: GitServer, wiki: Path, branch: str) -> None:
    folder = server.wiki(f"empty-{branch.replace('/', '-')}.git", branch, first_page=False)
    send(opened(server, folder), PAGES)
    assert f"{RUN}.md" in files(folder, branch)
    assert send(opened(server, folder), PAGES) == []


def test_a_wiki_without_a_repository(server: GitServer, wiki: Path) -> None:
    with refused("none.git cannot be read: .*not found.* create one page there"):
        opened(server, Path("none.git"))


def test_what_a_hook_of_the_server_says_is_shown_and_nothing_is_left(server: GitServer, wiki: Path) -> None:
    hook(wiki, "printf 'pages are frozen \\033[31muntil Monday' >&2; exit 1")
    with refused(r"pages are frozen \[31muntil Monday"):
        send(opened(server, wiki), PAGES)
    assert commits(wiki) == 1


def test_git_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("git is not installed"):
        GitWiki("https://127.0.0.1:9/wiki.git", "github")


def test_of_two_publishers_at_once_the_second_publishes_again(server: GitServer, wiki: Path, tmp_path: Path) -> None:
    # Neither push goes on before both have begun, so one of the two comes second for sure.
    hook(
        wiki,
        "echo x >> arrived\n"
        'tries=0; while [ "$(wc -l < arrived)" -lt 2 ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done',
    )
    commands = []
    for name, cores in (("a", 2), ("b", 4)):
        file = stored(tmp_path / name, on(name, cores))
        target = f"git+{server.url}/{wiki.name}"
        commands.append([sys.executable, "-m", "tipbench", "publish", "--to", target, "--flavour", "github", str(file)])
    env = {**os.environ, **CREDENTIALS}
    processes = [subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) for words in commands]
    printed = [process.communicate(timeout=300)[1] for process in processes]
    ((second, process),) = ((number, each) for number, each in enumerate(processes) if each.returncode)
    assert process.returncode == 2
    assert re.search("cannot be written to: .*rejected.*; if somebody pushed meanwhile, publish again", printed[second])
    subprocess.run(commands[second], env=env, check=True)
    for cores, run in ((2, "2026-03-01-aaaaaaaa"), (4, "2026-03-01-bbbbbbbb")):
        assert f"Benchmarks-amd-epyc-zen4-{cores}c-24g-{run}.md" in files(wiki)
    assert commits(wiki) == 3
