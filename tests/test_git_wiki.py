"""Git wikis, beyond the contract: one commit, bytes, links, flavours, branches, races, a person's own settings."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.git_server import GitServer, commits, content, everything, files, git, need, put, serving
from tests.made_up import stored
from tests.published import TOKEN, on, picture, published, refused
from tipbench.publish import index
from tipbench.publish.git import Git, GitFailed
from tipbench.publish.git_wiki import FLAVOURS, GitWiki, flavour
from tipbench.publish.secret import Secret
from tipbench.publish.send import send
from tipbench.publish.wiki import Conflict, WikiError

RUN = "Benchmarks-box-2026-03-01-aaaaaaaa"
OURS = {"Benchmarks.md", "Benchmarks-box.md", f"{RUN}.md", f"{RUN}-Evidence.md", f"images/{RUN}/speedups.png"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    need()
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture
def wiki(server: GitServer) -> Iterator[Path]:
    folder = server.wiki()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where clones are made."""
    folder = tmp_path / "clones"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def opened(server: GitServer, kind: str = "github", name: str = "wiki.git", token: str = TOKEN) -> GitWiki:
    return GitWiki(f"{server.url}/{name}", Secret("", token), kind)


def in_index(folder: Path) -> dict[str, index.Entry]:
    return {entry.machine: entry for entry in index.entries(files(folder)["Benchmarks.md"].decode())}


# ---- what is written -------------------------------------------------------------------------------


def test_a_publication_is_one_commit_of_our_files_that_says_nothing_of_who_made_it(
    server: GitServer, wiki: Path
) -> None:
    send(opened(server), published())
    assert commits(wiki) == 2
    changed = git("-C", str(wiki), "diff", "--name-only", "master~1", "master").split()
    assert set(changed) == OURS
    assert content(wiki, f"master:images/{RUN}/speedups.png") == picture(200)
    commit = git("-C", str(wiki), "cat-file", "commit", "master")
    who = re.findall(r"^(?:author|committer) (.*) \d+ (.*)$", commit, re.MULTILINE)
    assert who == [("tipbench <tipbench@users.noreply.invalid>", "+0000")] * 2
    assert {line.split()[0] for line in commit.partition("\n\n")[0].splitlines()} == {
        "tree", "parent", "author", "committer",
    }  # fmt: skip


def test_what_the_wiki_says_of_its_files_changes_no_byte_of_anybodys(
    server: GitServer, wiki: Path, tmp_path: Path
) -> None:
    """Filters, line ends, keywords and another encoding, and files that are to be ignored."""
    theirs = {"CRLF.md": b"a\r\nb\n", "Id.md": b"$Id$\n", "Latin.md": b"caf\xe9\r", ".gitignore": b"*.png\nBench*\n"}
    theirs[".gitattributes"] = b"* text=auto eol=crlf filter=canary ident working-tree-encoding=UTF-16\n"
    work = tmp_path / "work"
    git("clone", "--quiet", str(wiki), str(work))
    (work / ".git" / "info" / "attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
    for name, bytes_of_file in theirs.items():
        (work / name).write_bytes(bytes_of_file)
    git("-C", str(work), "add", "--force", ".")
    git("-C", str(work), "commit", "--quiet", "-m", "theirs")
    git("-C", str(work), "push", "--quiet")
    send(opened(server), published())
    assert set(git("-C", str(wiki), "diff", "--name-only", "master~1", "master").split()) == OURS
    after = files(wiki)
    assert {name: after[name] for name in theirs} == theirs
    assert b"\r" not in after[f"{RUN}.md"]
    assert send(opened(server), published()) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("github", "Benchmarks.md"), ("github", "images"), ("gitlab", "Benchmarks"), ("gitlab", "Benchmarks/box")],
)
def test_no_link_of_a_wiki_is_followed(server: GitServer, wiki: Path, tmp_path: Path, kind: str, name: str) -> None:
    """Of a page, of an image's folder, of all pages' and of a machine's."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs.md").write_text("theirs")
    put(wiki, "master", {name: str(outside / "theirs.md" if name.endswith(".md") else outside)}, mode="120000")
    with refused(name, "in its place"):
        send(opened(server, kind), published())
    assert commits(wiki) == 2
    assert {file.name: file.read_text() for file in outside.rglob("*")} == {"theirs.md": "theirs"}


def test_a_folder_in_the_place_of_a_page(server: GitServer, wiki: Path) -> None:
    put(wiki, "master", {"Benchmarks.md/x.md": "x"})
    with refused("Benchmarks.md", "in its place"):
        send(opened(server), published())


# ---- flavours --------------------------------------------------------------------------------------


LAID_OUT = {
    "github": ("Benchmarks-{m}-{r}.md", "Benchmarks-{m}-{r}", "images/Benchmarks-{m}-{r}/speedups.png", ""),
    "gitea": ("Benchmarks-{m}-{r}.md", "Benchmarks-{m}-{r}", "images/Benchmarks-{m}-{r}/speedups.png", ""),
    "gitlab": ("Benchmarks/{m}/{r}.md", "/Benchmarks/{m}/{r}", "Benchmarks/{m}/{r}/speedups.png", "/"),
    "azure": ("Benchmarks/{M}/{R}.md", "/Benchmarks/{M}/{R}", ".attachments/Benchmarks-{m}-{r}-speedups.png", "/"),
}
"""Of a run: its file, a link to it, its image, and what addresses begin with."""


@pytest.mark.parametrize("kind", LAID_OUT)
def test_each_flavour_has_its_files_links_and_images(server: GitServer, wiki: Path, kind: str) -> None:
    machine, run = "amd-epyc-2c", "2026-03-01-aaaaaaaa"
    words = {"m": machine, "r": run, "M": machine.replace("-", "%2D"), "R": run.replace("-", "%2D")}
    send(opened(server, kind), published(machine=machine))
    written = files(wiki)
    file, link, image, root = (form.format(**words) for form in LAID_OUT[kind])
    assert f"]({root}{image})" in written[file].decode()
    assert image in written
    assert f"]({link})" in written["Benchmarks.md"].decode()
    assert f"]({link}/Evidence#channels-last)".replace("/E", "-E" if not root else "/E") in written[file].decode()
    # every link and every image leads to a file that is there
    for name, text in written.items():
        if name.startswith("Benchmarks") and name.endswith(".md"):
            for drawn, to in re.findall(r"(!?)\[[^]]*\]\(([^)#]+)", text.decode()):
                path = to.removeprefix("/")
                assert (path if drawn else f"{path}.md") in written, (name, to)


def test_a_flavour_is_guessed_from_the_host_or_named() -> None:
    hosts = {"github.com": "github", "gitlab.example.org": "gitlab", "codeberg.org": "gitea", "dev.azure.com": "azure"}
    assert {host: flavour("", host) for host in hosts} == {host: FLAVOURS[name] for host, name in hosts.items()}
    for name, host in (("", "git.example.org"), ("trac", "github.com")):
        with pytest.raises(WikiError, match="--flavour"):
            flavour(name, host)


# ---- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["main", "odd/name"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_pages_go_to_the_branch_that_the_server_names(server: GitServer, branch: str, is_empty: bool) -> None:
    folder = server.wiki(f"{branch.replace('/', '-')}-{is_empty}.git", branch, first_page=not is_empty)
    if not is_empty:
        put(folder, "unrelated", {"Other.md": "x"})
    send(opened(server, name=folder.name), published())
    assert "Benchmarks.md" in files(folder, branch)
    assert is_empty or files(folder, "unrelated") == {"Other.md": b"x"}
    assert send(opened(server, name=folder.name), published()) == []


def test_a_default_branch_that_is_not_there(server: GitServer) -> None:
    folder = server.wiki("dangling.git", "main")
    git("-C", str(folder), "symbolic-ref", "HEAD", "refs/heads/master")
    send(opened(server, name=folder.name), published())
    assert "Benchmarks.md" in files(folder, "main")
    put(folder, "more", {"Other.md": "x"})
    with refused("main, more", "default"):
        opened(server, name=folder.name)


# ---- refusals --------------------------------------------------------------------------------------


def test_no_token_where_one_is_wanted(server: GitServer, wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with refused("refuses the token", "TIPBENCH_TOKEN"):
        opened(server, token="")


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """git speaks by a program of its own, which would hold the pipes open; it is ended too."""
    monkeypatch.setattr("tipbench.publish.git.DEADLINE_S", 1.0)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with refused("no answer within 1 s"):
            GitWiki(f"http://127.0.0.1:{silent.getsockname()[1]}/wiki.git", Secret("", ""), "github")
        assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_a_wiki_without_a_repository(server: GitServer) -> None:
    with refused("no such repository", "create one page"):
        opened(server, name="none.git")


def test_what_a_hook_of_the_server_says_is_shown_and_nothing_is_left(server: GitServer, wiki: Path) -> None:
    hook(wiki, "echo 'pages are frozen until Monday' >&2; exit 1")
    with refused("pages are frozen until Monday", "pre-receive hook declined"):
        send(opened(server), published())
    assert commits(wiki) == 1


def test_git_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("git is not installed"):
        GitWiki("https://127.0.0.1:9/wiki.git", Secret("", ""), "github")


# ---- races -----------------------------------------------------------------------------------------


def hook(folder: Path, script: str) -> None:
    path = folder / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


RIVAL = """
count=$(cat count 2>/dev/null || echo 0)
[ "$count" -ge 2 ] && exit 0
echo $((count + 1)) > count
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
blob=$(echo "rival $count" | git hash-object -w --stdin)
export GIT_INDEX_FILE=rival-index GIT_AUTHOR_NAME=r GIT_AUTHOR_EMAIL=r@r GIT_COMMITTER_NAME=r GIT_COMMITTER_EMAIL=r@r
git read-tree master
git update-index --add --cacheinfo "100644,$blob,Rival-$count.md"
git update-ref refs/heads/master "$(git commit-tree "$(git write-tree)" -p master -m rival)"
"""
"""The next two pushes find that somebody else has pushed while they were on their way."""


def test_a_push_that_comes_second_is_done_again_on_top_of_the_first(server: GitServer, wiki: Path) -> None:
    hook(wiki, RIVAL)
    send(opened(server), published())
    written = files(wiki)
    assert [written[f"Rival-{number}.md"] for number in (0, 1)] == [b"rival 0\n", b"rival 1\n"]
    assert "Benchmarks.md" in written
    assert commits(wiki) == 4  # the first page, two of the rival, and one of ours: nothing was forced, nothing merged


def test_two_first_pages_of_an_empty_wiki(server: GitServer) -> None:
    folder = server.wiki("race-to-be-first.git", first_page=False)
    first, second = opened(server, name=folder.name), opened(server, name=folder.name)
    send(first, published(machine="one"))
    send(second, published("b" * 32, machine="two"))
    assert in_index(folder).keys() == {"one", "two"}
    assert commits(folder) == 2


def test_two_publishers_at_once_both_end_in_the_index(server: GitServer, wiki: Path, tmp_path: Path) -> None:
    # Neither push goes on before both have begun, so one of the two comes second for sure.
    hook(
        wiki,
        "echo x >> arrived\n"
        'tries=0; while [ "$(wc -l < arrived)" -lt 2 ] && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done',
    )
    processes = []
    for name, cores in (("a", 2), ("b", 4)):
        file = stored(tmp_path / name, on(name, cores))
        words = [sys.executable, "-m", "tipbench", "publish", "--to", server.target(), "--flavour", "github", str(file)]
        env = {**os.environ, "TIPBENCH_TOKEN": TOKEN}
        processes.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    printed = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert len((wiki / "arrived").read_text().splitlines()) == 3
    listed = in_index(wiki)
    assert listed.keys() == {"amd-epyc-zen4-2c-24g", "amd-epyc-zen4-4c-24g"}
    assert {f"{entry.path.replace('/', '-')}.md" for entry in listed.values()} <= files(wiki).keys()
    assert commits(wiki) == 3


def test_a_push_that_came_second_leaves_nothing_behind_in_the_clone(server: GitServer, wiki: Path) -> None:
    """What was written for it is neither read as the wiki's nor in the next commit."""
    late = opened(server)
    put(wiki, "master", {"Home.md": "Else.\n"})
    late.attach("Benchmarks/late", "x.png", b"x")
    late.write("Benchmarks/late", "late", None)
    with pytest.raises(Conflict):
        late.finish()
    assert late.read("Benchmarks/late") is None
    assert not late.has("Benchmarks/late", "x.png", b"x")
    send(late, published())
    assert files(wiki).keys() == OURS | {"Home.md"}


# ---- the token, and a person's own settings ----------------------------------------------------------


def test_the_token_is_in_no_list_of_processes_and_in_no_file(
    server: GitServer, wiki: Path, clones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every git is started through a program that writes down how it was called."""
    real, log, bin = shutil.which("git"), tmp_path / "calls", tmp_path / "bin"
    bin.mkdir()
    (bin / "git").write_text(
        f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> {log}\nexec {real} "$@"\n'
    )
    (bin / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(f"[credential]\n\thelper = store --file={tmp_path}/passwords\n")
    opened_wiki = opened(server)
    send(opened_wiki, published())
    calls = log.read_text()
    assert "push" in calls
    assert "TIPBENCH_GIT_TOKEN" in calls  # the name of the variable that holds it
    assert TOKEN not in calls
    assert not (tmp_path / "passwords").exists()  # nor did a person's own helper learn it
    written = [file for file in clones.rglob("*") if file.is_file()]
    assert written
    assert not [file for file in written if TOKEN.encode() in file.read_bytes()]
    del opened_wiki
    assert list(clones.iterdir()) == []  # the clone is gone with the wiki


def test_the_token_goes_to_its_own_host_alone(tmp_path: Path) -> None:
    """git asks our helper for the host of the target, and not where a server sends it on to."""
    at_host = Git(tmp_path, "https://wiki.example.org/w.git", Secret("", TOKEN))
    git("init", "--quiet", "--bare", str(tmp_path))
    filled = at_host.run("credential", "fill", standard_input=b"protocol=https\nhost=wiki.example.org\n\n")
    assert f"password={TOKEN}\n" in filled
    with pytest.raises(GitFailed, match="terminal prompts disabled"):
        at_host.run("credential", "fill", standard_input=b"protocol=https\nhost=elsewhere.example.org\n\n")


def test_a_persons_git_settings_do_not_show(
    server: GitServer, wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in (
        "pre-push", "reference-transaction", "commit-msg", "prepare-commit-msg", "pre-commit", "post-commit",
        "post-checkout", "post-index-change", "monitor",
    ):  # fmt: skip
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "attributes").write_text("* filter=mine text eol=crlf\n")
    (tmp_path / "ignored").write_text("*\n")
    (tmp_path / ".gitconfig").write_text(
        "[user]\n\tname = Canary Person\n\temail = canary@example.org\n\tsigningKey = canary\n"
        f"[core]\n\thooksPath = {hooks}\n\tautocrlf = true\n\tattributesFile = {tmp_path}/attributes\n"
        f"\tfsmonitor = {hooks}/monitor\n\texcludesFile = {tmp_path}/ignored\n\tsafecrlf = true\n\tsymlinks = true\n"
        "[commit]\n\tgpgSign = true\n\ttemplate = canary\n[i18n]\n\tcommitEncoding = canary\n"
        '[push]\n\tgpgSign = if-asked\n\tpushOption = canary\n\tfollowTags = true\n'
        "[transfer]\n\tadvertiseSID = true\n[http]\n\tuserAgent = canary\n"
        f'[filter "mine"]\n\tclean = sh -c "echo canary"\n[init]\n\ttemplateDir = {hooks}\n\tdefaultBranch = canary\n'
    )  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "EMAIL"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("GIT_TRACE_CURL", str(tmp_path / "trace"))
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    server.seen.clear()
    send(opened(server), published())
    monkeypatch.undo()
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "trace").exists()
    assert files(wiki).keys() == OURS | {"Home.md"}
    assert b"canary" not in everything(wiki).lower()
    assert not [line for line, headers, body in server.seen if "canary" in headers.lower() or b"canary" in body.lower()]
    assert not [body for _, _, body in server.seen if b"session-id" in body]
    assert content(wiki, f"master:{RUN}.md").count(b"\r") == 0
    assert "+0000" in git("-C", str(wiki), "log", "-1", "--format=%ad", "--date=raw", "master")
