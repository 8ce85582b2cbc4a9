"""git over HTTP as hosts of wikis serve it: `git http-backend` behind a real server on 127.0.0.1, with Basic auth."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests import servers
from tests.published import TOKEN


def need() -> None:
    """Skip, with the reason, where git's server is absent; fail where all tests are to run."""
    backend = Path(git("--exec-path").strip()) / "git-http-backend"
    servers.need(**{"git http-backend, which comes with Debian's git": backend.exists()})


@dataclass
class GitServer:
    """root: where its bare repositories lie. seen: every request's line, headers and body. token: what it takes as
    a password, whoever the user is; "" for anybody."""

    root: Path
    url: str = ""
    token: str = TOKEN
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)

    def wiki(self, name: str = "wiki.git", branch: str = "master", first_page: bool = True) -> Path:
        """A bare repository, as a host makes one; returns its folder."""
        folder = self.root / name
        git("init", "--quiet", "--bare", f"--initial-branch={branch}", str(folder))
        git("-C", str(folder), "config", "http.receivepack", "true")
        if first_page:
            put(folder, branch, {"Home.md": "Welcome.\n"})
        return folder

    def target(self, name: str = "wiki.git") -> str:
        return f"git+{self.url}/{name}"


def git(*words: str, given: bytes = b"") -> str:
    """git with nobody's settings."""
    clean = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "LC_ALL": "C"}
    names = {
        f"GIT_{role}_{part}": "someone@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
    }
    done = subprocess.run(["git", *words], input=given, capture_output=True, env={**clean, **names}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape")


def put(folder: Path, branch: str, files: dict[str, str]) -> None:
    """A commit of someone else's, straight into a bare repository."""
    listed = git("-C", str(folder), "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()
    lines = [
        f"commit refs/heads/{branch}",
        "committer someone <someone@example.org> 1700000000 +0000",
        "data 4",
        "edit",
    ]
    lines += [f"from {listed}"] if listed else []
    script = "\n".join(lines).encode() + b"\n"
    for name, text in files.items():
        content = text.encode()
        script += f"M 100644 inline {name}\ndata {len(content)}\n".encode() + content + b"\n"
    git("-C", str(folder), "fast-import", "--quiet", given=script)


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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _serve(self) -> None:
            body = self._body()
            server.seen.append((self.requestline, str(self.headers), body))
            if server.token and not self._may():
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="wiki"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            parts = urlsplit(self.path)
            given = {
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
                "PATH": os.environ["PATH"],
                "GIT_CONFIG_NOSYSTEM": "1",
                "HOME": "/nonexistent",
            }
            answer = subprocess.run(
                ["git", "http-backend"], input=body, env=given, capture_output=True, check=False
            ).stdout
            head, _, rest = answer.partition(b"\r\n\r\n")
            headers = [line.split(": ", 1) for line in head.decode().split("\r\n") if line]
            status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
            self.send_response(status)
            for name, value in headers:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest)

        def _may(self) -> bool:
            kind, _, given = self.headers.get("Authorization", "").partition(" ")
            return kind == "Basic" and base64.b64decode(given).decode().partition(":")[2] == server.token

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
