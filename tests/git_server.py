"""git over HTTP as hosts of wikis serve it: `git http-backend` behind a real server on 127.0.0.1, with Basic auth."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests import servers
from tests.published import TOKEN

CLEAN = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "LC_ALL": "C"} | {
    f"GIT_{role}_{part}": "someone@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
}
"""An environment in which git has nobody's settings."""


def need() -> None:
    """Skip, with the reason, where git's server is absent; fail where all tests are to run."""
    backend = Path(git("--exec-path").strip()) / "git-http-backend"
    servers.need(**{"git http-backend, which comes with Debian's git": backend.exists()})


@dataclass
class GitServer:
    """Takes TOKEN as a password, whoever the user is.

    Attributes:
        root: where its bare repositories lie.
        url: without a slash at its end.
        seen: every request's line, headers and body.
    """

    root: Path
    url: str = ""
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)

    def wiki(self, name: str = "wiki.git", branch: str = "master", first_page: bool = True) -> Path:
        """A bare repository, as a host makes one; returns its folder."""
        folder = self.root / name
        git("init", "--quiet", "--bare", f"--initial-branch={branch}", str(folder))
        git("-C", str(folder), "config", "http.receivepack", "true")
        if first_page:
            put(folder, branch, {"Home.md": "Welcome.\n"})
        return folder


CREDENTIALS = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "credential.helper",
    "GIT_CONFIG_VALUE_0": f"!f() {{ echo username=me; echo 'password={TOKEN}'; }}; f",
}
"""A person's own settings of git, by which it may write to a GitServer."""


def git(*words: str, standard_input: bytes = b"") -> str:
    """git with nobody's settings."""
    done = subprocess.run(["git", *words], input=standard_input, capture_output=True, env=CLEAN, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape")


def put(folder: Path, branch: str, files: dict[str, str]) -> None:
    """A commit of someone else's, straight into a bare repository."""
    listed = git("-C", str(folder), "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()
    who = "someone <someone@example.org> 1700000000 +0000"
    script = f"commit refs/heads/{branch}\ncommitter {who}\ndata 4\nedit\n"
    script += f"from {listed}\n" if listed else ""
    for name, text in files.items():
        script += f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n"
    git("-C", str(folder), "fast-import", "--quiet", standard_input=script.encode())


def files(folder: Path, branch: str = "master") -> dict[str, bytes]:
    """What the newest commit of a branch holds."""
    names = git("-C", str(folder), "ls-tree", "-r", "-z", "--name-only", branch).split("\0")
    return {name: content(folder, f"{branch}:{name}") for name in names if name}


def content(folder: Path, name: str) -> bytes:
    return subprocess.run(["git", "-C", str(folder), "cat-file", "blob", name], capture_output=True, check=True).stdout


def commits(folder: Path, branch: str = "master") -> int:
    return int(git("-C", str(folder), "rev-list", "--count", branch))


def everything(folder: Path) -> bytes:
    """Every byte of every object, those that no branch leads to as well."""
    named = ["git", "-C", str(folder), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(named, capture_output=True, check=True).stdout


@contextlib.contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    """Serve the bare repositories beneath `root` until the block ends."""
    server = GitServer(root)

    class Handler(servers.Handler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            body = self.body()
            server.seen.append((self.requestline, str(self.headers), body))
            kind, _, sent = self.headers.get("Authorization", "").partition(" ")
            if kind != "Basic" or base64.b64decode(sent).decode().partition(":")[2] != TOKEN:
                self.reply(401, b"", {"WWW-Authenticate": 'Basic realm="wiki"'})
                return
            parts = urlsplit(self.path)
            environment = {
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "someone",
                "REMOTE_ADDR": "127.0.0.1",
                **CLEAN,
            }
            backend = ["git", "http-backend"]
            answer = subprocess.run(backend, input=body, env=environment, capture_output=True, check=False).stdout
            head, _, rest = answer.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
            self.reply(int(headers.pop("Status", "200").split()[0]), rest, headers)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return super().body()
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

    with servers.answering(Handler) as server.url:
        yield server
