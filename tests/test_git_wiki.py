"""Git wikis, against `git http-backend` behind a real HTTP server."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import psutil
import pytest

from tests.git_server import TOKEN, GitServer, commits, content, everything, files, git, put, serving
from tests.published import PNG, on, published, stored
from tipbench.publish import send as sending
from tipbench.publish import tree
from tipbench.publish.git import Git, GitFailed
from tipbench.publish.git_wiki import MARKS, GitWiki, open_wiki
from tipbench.publish.region import Damaged, inside
from tipbench.publish.secret import Secret
from tipbench.publish.send import Compared, Published, plan, send
from tipbench.publish.wiki import Change, Conflict, Stored, WikiError
from tipbench.report.document import Page, Paragraph

BACKEND = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip())
if not (BACKEND / "git-http-backend").exists():
    told = "git http-backend is absent here: it comes with Debian's git, on other systems with a package of its own"
    if os.environ.get("TIPBENCH_TEST_ALL"):
        pytest.fail(told)
    pytest.skip(told, allow_module_level=True)

RUN = "Benchmarks-box-2026-03-01-aaaaaaaa"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def wiki(server: GitServer) -> Iterator[Path]:
    folder = server.wiki()
    server.token = TOKEN
    yield folder
    shutil.rmtree(folder)


def opened(server: GitServer, flavour: str = "github", name: str = "wiki.git", token: str = TOKEN) -> GitWiki:
    return open_wiki(f"{server.url}/{name}", flavour, Secret("", token))


# ---- what is written -------------------------------------------------------------------------------


def test_all_of_a_publication_is_one_commit(server: GitServer, wiki: Path) -> None:
    before = files(wiki)
    changes = send(opened(server), [published()])
    assert commits(wiki) == 2
    assert [change.path[-1] for change in changes] == ["2026-03-01-aaaaaaaa", "box", "Benchmarks"]
    after = files(wiki)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {
        "Benchmarks.md", "Benchmarks-box.md", f"{RUN}.md", f"images/{RUN}/speedups.png",
    }  # fmt: skip
    assert after[f"images/{RUN}/speedups.png"] == PNG + b"a" * 32
    page = after[f"{RUN}.md"].decode()
    assert page.startswith(f"{MARKS[0]}\n# A run\n")
    assert page.endswith(f"{MARKS[1]}\n")


def test_a_commit_says_nothing_of_who_made_it(server: GitServer, wiki: Path) -> None:
    send(opened(server), [published()])
    commit = git("-C", str(wiki), "cat-file", "commit", "master")
    who = re.findall(r"^(?:author|committer) (.*) \d+ (.*)$", commit, re.MULTILINE)
    assert who == [("tipbench <tipbench@users.noreply.invalid>", "+0000")] * 2
    assert commit.endswith("\n\ntipbench: the run 2026-03-01-aaaaaaaa of box\n")


def test_nothing_is_written_twice(server: GitServer, wiki: Path) -> None:
    assert send(opened(server), [published()])
    assert send(opened(server), [published()]) == []
    assert commits(wiki) == 2


def test_a_changed_run_touches_its_page_and_the_index(server: GitServer, wiki: Path) -> None:
    send(opened(server), [published(), published("b" * 32)])
    before = files(wiki)
    send(opened(server), [published(text="More was found.", measured="4")])
    after = files(wiki)
    assert {name for name in after if after[name] != before.get(name)} == {f"{RUN}.md", "Benchmarks.md"}


def test_a_changed_image_alone_leaves_the_pages(server: GitServer, wiki: Path) -> None:
    send(opened(server), [published()])
    before = files(wiki)
    found = published()
    send(opened(server), [Published(found.entry, found.page, {"speedups.png": b"another"})])
    after = files(wiki)
    assert {name for name in after if after[name] != before.get(name)} == {f"images/{RUN}/speedups.png"}
    assert after[f"images/{RUN}/speedups.png"] == b"another"


def test_what_people_write_around_our_region_stays(server: GitServer, wiki: Path) -> None:
    send(opened(server), [published()])
    page = files(wiki)[f"{RUN}.md"].decode()
    put(
        wiki,
        "master",
        {f"{RUN}.md": f"Read this first.\r\n\n{page}\n*Our* notes, and \u00e9\u2028.\n", "Home.md": "Else.\n"},
    )
    send(opened(server), [published(text="More was found.")])
    after = files(wiki)[f"{RUN}.md"].decode()
    assert after.startswith(f"Read this first.\r\n\n{MARKS[0]}\n")
    assert after.endswith(f"{MARKS[1]}\n\n*Our* notes, and \u00e9\u2028.\n")
    assert "More was found." in after
    assert "What was found." not in after
    assert files(wiki)["Home.md"] == b"Else.\n"


def test_bytes_of_peoples_own_that_are_no_utf8_stay(server: GitServer, wiki: Path) -> None:
    work = wiki.parent / "work"
    git("clone", "--quiet", str(wiki), str(work))
    (work / "Benchmarks.md").write_bytes(b"caf\xe9\n")
    git("-C", str(work), "add", "Benchmarks.md")
    git("-C", str(work), "commit", "--quiet", "-m", "latin")
    git("-C", str(work), "push", "--quiet")
    shutil.rmtree(work)
    send(opened(server), [published()])
    assert files(wiki)["Benchmarks.md"].startswith(b"caf\xe9\n\n" + MARKS[0].encode())


def test_a_page_without_marks_gets_the_region_below(server: GitServer, wiki: Path) -> None:
    put(wiki, "master", {"Benchmarks.md": "# Ours\n\nWritten by hand."})
    send(opened(server), [published()])
    assert files(wiki)["Benchmarks.md"].decode().startswith(f"# Ours\n\nWritten by hand.\n\n{MARKS[0]}\n")


def test_damaged_marks_are_told_and_nothing_is_written(server: GitServer, wiki: Path) -> None:
    put(wiki, "master", {"Benchmarks.md": f"{MARKS[0]}\nno end\n"})
    with pytest.raises(Damaged, match="the page Benchmarks holds 1 lines"):
        send(opened(server), [published()])
    assert commits(wiki) == 2


def test_a_link_in_the_place_of_a_page_is_not_followed(server: GitServer, wiki: Path) -> None:
    script = "commit refs/heads/master\ncommitter s <s@e> 1700000000 +0000\ndata 1\nx\nfrom refs/heads/master^0\n"
    git(
        "-C",
        str(wiki),
        "fast-import",
        "--quiet",
        given=f"{script}M 120000 inline Benchmarks.md\ndata 11\n/etc/passwd\n".encode(),
    )
    with pytest.raises(WikiError, match=r"Benchmarks\.md in .* is a link, not a page"):
        send(opened(server), [published()])


# ---- flavours --------------------------------------------------------------------------------------


LAID_OUT = {
    "github": ("Benchmarks-{m}-{r}.md", "Benchmarks-{m}-{r}", "images/Benchmarks-{m}-{r}/speedups.png", ""),
    "gitea": ("Benchmarks-{m}-{r}.md", "Benchmarks-{m}-{r}", "images/Benchmarks-{m}-{r}/speedups.png", ""),
    "gitlab": ("Benchmarks/{m}/{r}.md", "/Benchmarks/{m}/{r}", "Benchmarks/{m}/{r}/speedups.png", "/"),
    "azure": ("Benchmarks/{M}/{R}.md", "/Benchmarks/{M}/{R}", ".attachments/Benchmarks-{m}-{r}-speedups.png", "/"),
}  # fmt: skip


@pytest.mark.parametrize("flavour", LAID_OUT)
def test_each_flavour_has_its_files_links_and_images(server: GitServer, wiki: Path, flavour: str) -> None:
    machine, run = "amd-epyc-2c", "2026-03-01-aaaaaaaa"
    told = {"m": machine, "r": run, "M": machine.replace("-", "%2D"), "R": run.replace("-", "%2D")}
    send(opened(server, flavour), [published(machine=machine)])
    found = files(wiki)
    file, link, image, root = (form.format(**told) for form in LAID_OUT[flavour])
    assert f"![made up]({root}{image})" in found[file].decode()
    assert image in found
    assert f"]({link})" in found["Benchmarks.md"].decode()
    # every link and every image leads to a file that is there
    for name, text in found.items():
        if name.startswith("Benchmarks") and name.endswith(".md"):
            for kind, to in re.findall(r"(!?)\[[^]]*\]\(([^)#]+)", text.decode()):
                path = to.removeprefix("/")
                assert (path if kind else f"{path}.md") in found, (name, to)


def test_a_link_to_a_heading_of_another_page(server: GitServer, wiki: Path) -> None:
    from tipbench.publish.wiki import WikiPage
    from tipbench.report.document import Link

    page = WikiPage(("Benchmarks",), Page("x", (Paragraph((Link("there", "Benchmarks/a-b#sdpa"),)),)))
    assert "[there](Benchmarks-a-b#sdpa)" in opened(server).render(page)
    assert "[there](/Benchmarks/a%2Db#sdpa)" in opened(server, "azure").render(page)


def test_a_flavour_is_guessed_from_the_host_or_asked_for() -> None:
    from tipbench.publish.flavours import FLAVOURS, flavour

    hosts = {"github.com": "github", "gitlab.example.org": "gitlab", "codeberg.org": "gitea", "dev.azure.com": "azure"}
    assert {host: flavour("", host) for host in hosts} == {host: FLAVOURS[name] for host, name in hosts.items()}
    with pytest.raises(WikiError, match=r"the kind of wiki of git\.example\.org is unknown: add --flavour"):
        flavour("", "git.example.org")
    with pytest.raises(WikiError, match="--flavour"):
        flavour("trac", "github.com")


# ---- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["main", "wikiMain", "odd/name"])
def test_pages_go_to_the_default_branch(server: GitServer, branch: str) -> None:
    folder = server.wiki(f"{branch.replace('/', '-')}.git", branch)
    put(folder, "unrelated", {"Other.md": "x"})
    server.token = TOKEN
    send(opened(server, name=folder.name), [published()])
    assert "Benchmarks.md" in files(folder, branch)
    assert files(folder, "unrelated") == {"Other.md": b"x"}


@pytest.mark.parametrize("branch", ["master", "main"])
def test_the_first_page_of_all_goes_to_the_branch_that_the_server_names(server: GitServer, branch: str) -> None:
    folder = server.wiki(f"empty-{branch}.git", branch, first_page=False)
    send(opened(server, name=folder.name), [published()])
    assert "Benchmarks.md" in files(folder, branch)
    assert send(opened(server, name=folder.name), [published()]) == []


def test_a_default_branch_that_is_not_there(server: GitServer) -> None:
    folder = server.wiki("dangling.git", "main")
    git("-C", str(folder), "symbolic-ref", "HEAD", "refs/heads/master")
    send(opened(server, name=folder.name), [published()])
    assert "Benchmarks.md" in files(folder, "main")
    put(folder, "more", {"Other.md": "x"})
    with pytest.raises(WikiError, match="has the branches main, more and names none of them as its default"):
        opened(server, name=folder.name)


# ---- refusals --------------------------------------------------------------------------------------


def test_a_wrong_token(server: GitServer, wiki: Path) -> None:
    with pytest.raises(WikiError, match="cannot be read: its server refuses the token") as error:
        opened(server, token="wrong-Secret/%")
    assert "wrong-Secret" not in str(error.value)


def test_no_token_where_one_is_wanted(server: GitServer, wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(WikiError, match="cannot be read without a token: set TIPBENCH_TOKEN"):
        opened(server, token="")


def test_a_read_only_wiki_stays_as_it_is(server: GitServer, wiki: Path) -> None:
    git("-C", str(wiki), "config", "http.receivepack", "false")
    before = git("-C", str(wiki), "rev-parse", "master")
    with pytest.raises(WikiError, match="cannot be written to: its server forbids it"):
        send(opened(server), [published()])
    assert git("-C", str(wiki), "rev-parse", "master") == before


def test_a_server_that_is_down() -> None:
    with pytest.raises(WikiError, match="its server cannot be reached"):
        open_wiki("http://127.0.0.1:9/wiki.git", "github", Secret("", ""))


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """git speaks by a program of its own, which would hold the pipes open; it is ended too."""
    monkeypatch.setattr("tipbench.publish.git.DEADLINE_S", 1.0)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(WikiError, match="gave no answer within 1 s"):
            open_wiki(f"http://127.0.0.1:{silent.getsockname()[1]}/wiki.git", "github", Secret("", ""))
        assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_a_wiki_without_a_repository(server: GitServer) -> None:
    with pytest.raises(WikiError, match="A wiki has one from its first page on: create one page there"):
        opened(server, name="none.git")


def test_what_a_hook_of_the_server_says_is_told_and_nothing_is_left(server: GitServer, wiki: Path) -> None:
    hook(wiki, "echo 'pages are frozen until Monday' >&2; exit 1")
    before = git("-C", str(wiki), "rev-parse", "master")
    with pytest.raises(WikiError, match=r"its server says: pages are frozen until Monday.*pre-receive hook declined"):
        send(opened(server), [published()])
    assert git("-C", str(wiki), "rev-parse", "master") == before


# ---- races -----------------------------------------------------------------------------------------


def hook(folder: Path, script: str) -> None:
    path = folder / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def rival(folder: Path, times: int) -> None:
    """Each of the next pushes finds that somebody else has pushed while it was on its way."""
    script = f"""
count=$(cat count 2>/dev/null || echo 0)
[ "$count" -ge {times} ] && exit 0
echo $((count + 1)) > count
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
blob=$(echo "rival $count" | git hash-object -w --stdin)
export GIT_INDEX_FILE=rival-index GIT_AUTHOR_NAME=r GIT_AUTHOR_EMAIL=r@r GIT_COMMITTER_NAME=r GIT_COMMITTER_EMAIL=r@r
git read-tree master
git update-index --add --cacheinfo "100644,$blob,Rival-$count.md"
git update-ref refs/heads/master "$(git commit-tree "$(git write-tree)" -p master -m rival)"
"""
    hook(folder, script)


def test_a_push_that_comes_second_is_done_again_on_top_of_the_first(server: GitServer, wiki: Path) -> None:
    rival(wiki, 2)
    send(opened(server), [published()])
    found = files(wiki)
    assert found["Rival-0.md"] == b"rival 0\n"
    assert found["Rival-1.md"] == b"rival 1\n"
    assert "Benchmarks.md" in found
    assert commits(wiki) == 4  # the first page, two of the rival, and one of ours: nothing was forced, nothing merged


def test_tries_come_to_an_end(server: GitServer, wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sending, "TRIES", 3)
    rival(wiki, 100)
    with pytest.raises(WikiError, match=r"somebody pushed to .* meanwhile, 3 times in a row"):
        send(opened(server), [published()])
    assert commits(wiki) == 4
    assert "Benchmarks.md" not in files(wiki)


def test_a_page_edited_meanwhile_is_read_again(server: GitServer, wiki: Path) -> None:
    first, second = opened(server), opened(server)
    changes = plan(first, [published()])
    send(second, [published("b" * 32)])
    with pytest.raises(Conflict):
        first.write(changes, "late")
    with pytest.raises(Conflict, match=r"Benchmarks\.md was changed meanwhile"):
        first.write([Change(tree.INDEX, Stored(None), "late")], "later")


def test_two_first_pages_of_an_empty_wiki(server: GitServer) -> None:
    folder = server.wiki("race-to-be-first.git", first_page=False)
    first, second = opened(server, name=folder.name), opened(server, name=folder.name)
    send(first, [published(machine="one")])
    send(second, [published("b" * 32, machine="two")])
    region = inside(files(folder)["Benchmarks.md"].decode(), MARKS, "Benchmarks")
    assert {entry.machine for entry in tree.entries(region)} == {"one", "two"}
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
    told = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    assert len((wiki / "arrived").read_text().splitlines()) == 3
    found = files(wiki)
    region = inside(found["Benchmarks.md"].decode(), MARKS, "Benchmarks")
    assert {entry.machine for entry in tree.entries(region)} == {"amd-epyc-zen4-2c-24g", "amd-epyc-zen4-4c-24g"}
    for entry in tree.entries(region):
        assert f"{'-'.join(entry.path)}.md" in found
    assert commits(wiki) == 3


# ---- the token -------------------------------------------------------------------------------------


def test_the_token_is_in_no_list_of_processes_and_in_no_file(
    server: GitServer, wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    kept = tmp_path / "kept"
    (tmp_path / ".gitconfig").write_text(f"[credential]\n\thelper = store --file={kept}\n")
    found = opened(server)
    send(found, [published()])
    calls = log.read_text()
    assert "push" in calls
    assert "TIPBENCH_GIT_TOKEN" in calls  # the name of the variable that holds it
    assert TOKEN not in calls
    assert not kept.exists()  # nor did a person's own helper learn it
    for file in found._git.folder.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()
    assert TOKEN not in repr(found._git._secret)


def test_the_token_goes_to_its_own_host_alone(tmp_path: Path) -> None:
    """git asks our helper for the host of the target, and not where a server sends it on to."""
    asked = Git(tmp_path, "https://wiki.example.org/w.git", Secret("", TOKEN))
    git("init", "--quiet", "--bare", str(tmp_path))
    told = asked.ask("credential", "fill", given=b"protocol=https\nhost=wiki.example.org\n\n").decode()
    assert f"password={TOKEN}\n" in told
    with pytest.raises(GitFailed, match="terminal prompts disabled"):
        asked.ask("credential", "fill", given=b"protocol=https\nhost=elsewhere.example.org\n\n")


def test_the_folder_of_the_clone_is_gone_with_the_wiki(server: GitServer, wiki: Path) -> None:
    found = opened(server)
    folder = found._git.folder
    assert folder.exists()
    del found
    assert not folder.exists()


# ---- a person's own settings -----------------------------------------------------------------------


def test_a_persons_git_settings_do_not_show(
    server: GitServer, wiki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in (
        "pre-push",
        "reference-transaction",
        "commit-msg",
        "prepare-commit-msg",
        "pre-commit",
        "post-checkout",
    ):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "attributes").write_text("* filter=mine text eol=crlf\n")
    (tmp_path / ".gitconfig").write_text(
        "[user]\n\tname = Canary Person\n\temail = canary@example.org\n\tsigningKey = canary\n"
        f"[core]\n\thooksPath = {hooks}\n\tautocrlf = true\n\tattributesFile = {tmp_path}/attributes\n"
        '[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = if-asked\n\tpushOption = canary\n\tfollowTags = true\n'
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
    send(opened(server), [published()])
    monkeypatch.undo()
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "trace").exists()
    assert b"canary" not in everything(wiki).lower()
    assert not [line for line, headers, body in server.seen if "canary" in headers.lower() or b"canary" in body.lower()]
    assert not [body for _, _, body in server.seen if b"session-id" in body]
    assert content(wiki, f"master:{RUN}.md").count(b"\r") == 0
    assert "+0000" in git("-C", str(wiki), "log", "-1", "--format=%ad", "--date=raw", "master")


def test_git_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WikiError, match="git is not installed"):
        open_wiki("https://127.0.0.1:9/wiki.git", "github", Secret("", ""))


# ---- the comparison --------------------------------------------------------------------------------


def test_a_comparison_with_runs_of_others_is_left_to_them(server: GitServer, wiki: Path) -> None:
    a, b, c = "a" * 32, "b" * 32, "c" * 32
    page = Page("Compared", (Paragraph(("a and b",)),))
    send(opened(server), [published(a), published(b)], Compared((a, b), page))
    assert "[All of them compared](Benchmarks-Comparison)" in files(wiki)["Benchmarks.md"].decode()
    before = files(wiki)["Benchmarks-Comparison.md"]
    send(opened(server), [published(c)], Compared((a, c), Page("Compared", (Paragraph(("a and c",)),))))
    assert files(wiki)["Benchmarks-Comparison.md"] == before
    assert "[All of them compared](Benchmarks-Comparison)" in files(wiki)["Benchmarks.md"].decode()
    send(opened(server), [published(c)], Compared((a, b, c), Page("Compared", (Paragraph(("all",)),))))
    assert b"all" in files(wiki)["Benchmarks-Comparison.md"]


def test_quoted_names_stay_as_they_are() -> None:
    """Azure's %2D is part of a file's name: a link must not be unquoted on the way."""
    from tipbench.publish.flavours import FLAVOURS

    azure = FLAVOURS["azure"]
    assert unquote(azure.link(("Benchmarks", "a-b"))) == "/Benchmarks/a-b"
    assert azure.file(("Benchmarks", "a-b")) == "Benchmarks/a%2Db.md"
