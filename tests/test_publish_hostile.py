"""Publishing where what is read is broken or hostile: the environment, a wiki's answers, files."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.git_server import git, put
from tests.made_up import stored
from tests.published import TOKEN, on, refused
from tests.wikis import OPENED, answering
from tipbench import cli
from tipbench.publish import media_wiki
from tipbench.publish.git import Git, GitFailed
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import ROOT, Wiki, WikiError

OVER_HTTP = ("mediawiki", "dokuwiki", "confluence")


@pytest.fixture
def wiki(tmp_path: Path) -> Path:
    folder = tmp_path / "wiki.git"
    git("init", "--quiet", "--bare", "--initial-branch=master", str(folder))
    put(folder, "master", {"Home.md": "Welcome.\n"})
    return folder


def publish(wiki: Path, *words: str | Path) -> int:
    return cli.main(["publish", "--to", f"git+file://{wiki}", "--flavour", "github", *map(str, words)])


# ---- the environment -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OPENED)
@pytest.mark.parametrize(
    ("user", "token", "at"),
    [
        ("me", "Hunter2\nx: y", ""),
        ("me", "Hunter2\x1b[31m", ""),
        ("me\nhost=elsewhere", "Hunter2", ""),
        ("", "Hunter2", "me%00@"),
        ("", "Hunter2", "me%0ahost%3delsewhere@"),
    ],
)
def test_a_user_or_a_token_with_a_line_break_is_refused_and_not_shown(
    kind: str, user: str, token: str, at: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would begin a header of its own, and libraries repeat what they refuse."""
    monkeypatch.setenv("TIPBENCH_USER", user)
    monkeypatch.setenv("TIPBENCH_TOKEN", token)
    assert cli.main(["publish", "--to", f"{kind}+https://{at}127.0.0.1:9/x?space=K", "none.jsonl"]) == 2
    message = capsys.readouterr().err
    assert "holds a line break or another control character" in message
    assert "Hunter2" not in message


def test_a_keyring_that_cannot_be_loaded_is_a_sentence(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tipbench", "publish", "--to", "dokuwiki+http://127.0.0.1:9/", "none.jsonl"]
    environment = {**os.environ, "PYTHON_KEYRING_BACKEND": "nowhere.Keyring", "TIPBENCH_TOKEN": ""}
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tipbench: the keyring cannot be read (ModuleNotFoundError")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", OVER_HTTP)
def test_a_token_may_hold_any_letters(kind: str) -> None:
    with answering(401) as (url, requests), refused("HTTP 401"):
        OPENED[kind](url, Secret("", "t\u20ack\u00e9n")).read(ROOT)
    assert requests


@pytest.mark.parametrize("kind", ["mediawiki", "dokuwiki"])
def test_without_a_token_no_authorization_is_sent(kind: str) -> None:
    with answering(404) as (url, requests), contextlib.suppress(WikiError):
        OPENED[kind](url, Secret("", "")).read(ROOT)
    assert requests
    assert "Authorization" not in requests[0][1]


@pytest.mark.parametrize("kind", OPENED)
def test_a_token_for_this_machine_goes_to_no_proxy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes over plain HTTP, which a proxy reads."""
    with answering(200) as (proxy, there), answering(404) as (url, here):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        with refused(any_of="404|no such repository"):
            OPENED[kind](url, Secret("me", TOKEN)).read(ROOT)
    assert there == []
    assert here


def test_a_clone_that_is_gone_leaves_a_repository_around_it_alone(tmp_path: Path) -> None:
    git("init", "--quiet", str(tmp_path))
    (tmp_path / "clone").mkdir()
    with pytest.raises(GitFailed, match="not a git repository"):
        Git(tmp_path / "clone", "https://127.0.0.1:9/x.git", Secret("", "")).run("rev-parse", "--git-dir")


# ---- a wiki's answers ------------------------------------------------------------------------------


@pytest.fixture
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_wiki, "RETRY_S", 0)


@pytest.mark.usefixtures("without_waits")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("user", ["", "me"])
@pytest.mark.parametrize("kind", OPENED)
def test_no_redirect_is_followed_with_a_token(kind: str, user: str, status: int) -> None:
    with (
        answering(200) as (elsewhere, there),
        answering(status, Location=f"{elsewhere}?x") as (url, here),
        refused(any_of="sends on to"),
    ):
        OPENED[kind](url, Secret(user, TOKEN)).read(ROOT)
    assert there == []
    assert here
    assert not [path for path, _ in here if TOKEN in path]


@pytest.mark.usefixtures("without_waits")
@pytest.mark.parametrize("answer", [(401, b""), (403, b""), (404, b""), (500, b""), (503, b"x"), (200, b""),
                                    (200, b"<html>Log in</html>"), (200, b"[]"), (200, b"{}")])  # fmt: skip
@pytest.mark.parametrize("kind", OVER_HTTP)
def test_servers_that_refuse_or_are_no_wiki_are_named_in_one_sentence(kind: str, answer: tuple[int, bytes]) -> None:
    words = f"HTTP {answer[0]}|too busy, or down" if answer[0] != 200 else "does not answer as"
    with answering(*answer) as (url, _), refused(any_of=words):
        OPENED[kind](url, Secret("", TOKEN)).read(ROOT)


@pytest.mark.usefixtures("without_waits")
@pytest.mark.parametrize("kind", OPENED)
def test_a_server_that_is_down(kind: str) -> None:
    with refused(any_of="nothing answers|cannot be reached|is too busy, or down"):
        OPENED[kind]("http://127.0.0.1:9/wiki/", Secret("", TOKEN)).read(ROOT)


def xml(value: str) -> bytes:
    return f"<methodResponse><params><param><value>{value}</value></param></params></methodResponse>".encode()


ANSWERS: Mapping[str, tuple[bytes, ...]] = {
    "confluence": (b"null", b"\xff", b'{"results": [{}]}'),
    "mediawiki": (b"null", b"\xff", b'{"query": []}', b'{"error": {"code": "x\\u001b[31m", "info": "\\u001b[31mred"}}'),
    "dokuwiki": (b"5", b"\xff", xml("<int>5</int>"), b"<methodResponse><params></params></methodResponse>"),
}


def read(wiki: Wiki) -> None:
    wiki.read(ROOT)


def write(wiki: Wiki) -> None:
    wiki.write(ROOT, wiki.mark, None)


def has(wiki: Wiki) -> None:
    wiki.has(ROOT, "x.png", b"x")


def attach(wiki: Wiki) -> None:
    wiki.attach(ROOT, "x.png", b"x")


@pytest.mark.usefixtures("without_waits")
@pytest.mark.parametrize("use", [read, write, has, attach])
@pytest.mark.parametrize(("kind", "answer"), [(kind, answer) for kind in ANSWERS for answer in ANSWERS[kind]])
def test_an_answer_of_another_form_is_a_sentence(kind: str, answer: bytes, use: Callable[[Wiki], None]) -> None:
    with answering(200, answer) as (url, requests), contextlib.suppress(WikiError):
        use(OPENED[kind](url, Secret("", TOKEN)))
    assert requests
    assert not [path for path, _ in requests if TOKEN in path]


@pytest.mark.usefixtures("without_waits")
def test_a_server_does_not_say_how_long_its_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    lagging = {"X-Database-Lag": "99", "Retry-After": "86400"}
    with answering(200, b"{}", **lagging) as (url, requests), refused("too busy"):
        OPENED["mediawiki"](url, Secret("", TOKEN)).read(ROOT)
    assert len(requests) > 1
    assert max(waits, default=0) < 86400


# ---- files -----------------------------------------------------------------------------------------


def test_no_name_of_a_file_and_no_word_of_a_server_acts_on_the_terminal(
    wiki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stored(tmp_path, on("a"))
    text, red = file.read_text(), tmp_path / "\x1b[31mred.jsonl"
    (tmp_path / "\x1b[31mfolder").mkdir()
    for content, words, code in (
        (text[:-100], [red], 0),  # truncated, which a note says
        ("", [red], 2),
        (text.splitlines()[0] + "\n", [red], 2),
        (re.sub(r',"crc32":\d+', "", text).replace("Convolution", "Copy"), [file, red], 2),
        (text, [tmp_path / "\x1b[31mnone.jsonl"], 2),
        (text, [tmp_path / "\x1b[31mfolder"], 2),
        (text, ["--public-name", "\x1b[31m", file], 2),
        (text, ["--to", "git+https://127.0.0.1:9/\x1b[31mx", file], 2),
        (text, ["--to", "confluence+https://127.0.0.1:9/\x1b[31mx", file], 2),
    ):
        red.write_text(content)
        assert publish(wiki, *words) == code
        assert "\x1b" not in "".join(capsys.readouterr())
    hook = wiki / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf '\\033[31mfrozen' >&2; exit 1\n")
    hook.chmod(0o755)
    assert publish(wiki, "--public-name", "new", file) == 2
    message = capsys.readouterr().err
    assert "frozen" in message
    assert "\x1b" not in message
