"""What the wikis spoken to over HTTP say when it fails, on a server that gives whatever answer a test wants."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.published import TOKEN, refused
from tests.servers import unused_port
from tipbench.publish import http_wiki
from tipbench.publish.confluence import Confluence
from tipbench.publish.doku_wiki import DokuWiki
from tipbench.publish.http_wiki import LONGEST_WAIT_S, WAITS_S
from tipbench.publish.media_wiki import MediaWiki
from tipbench.publish.secret import Secret
from tipbench.publish.wiki import Conflict, Wiki

KINDS: dict[str, Callable[[str, Secret], Wiki]] = {
    "mediawiki": MediaWiki,
    "dokuwiki": DokuWiki,
    "confluence": lambda url, secret: Confluence(f"{url}?space=KEY", secret),
}

kinds = pytest.mark.parametrize("kind", KINDS)


class Answering:
    """A server that answers all requests alike. seen: the headers of each."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""
        self.seen: list[dict[str, str]] = []


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering() as found:
        yield found


@contextmanager
def answering() -> Iterator[Answering]:
    found = Answering()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.seen.append(dict(self.headers.items()))
            self.send_response(found.status)
            for name, value in {"Content-Length": str(len(found.body)), **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{listening.server_port}/wiki/"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield found
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, in place of waiting."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def read(kind: str, url: str, user: str = "", token: str = TOKEN) -> None:
    KINDS[kind](url, Secret(user, token)).read(("Benchmarks",))


@kinds
@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "refuses what was sent"),
        (401, "TIPBENCH_TOKEN"),
        (403, "right"),
        (404, "address|SITE"),
        (413, "larger"),
        (500, "again later"),
        (503, "again later"),
    ],
)
def test_a_refusal_is_a_sentence_with_its_status(server: Answering, kind: str, status: int, word: str) -> None:
    server.status, server.body = status, f"<p>{TOKEN}</p>".encode()
    with refused(f"HTTP {status}", any_of=word):
        read(kind, server.url)


@kinds
def test_what_the_server_calls_a_conflict_is_one(server: Answering, kind: str) -> None:
    server.status = 409
    with refused("HTTP 409", kind=Conflict):
        read(kind, server.url)


@kinds
@pytest.mark.parametrize(
    "body", [b"<html>Log in</html>", b"", b"[]", b"{}", b"null", b'"x"', b'{"results": 3}', b'{"results": [{}]}',
             b'{"query": {}}', b'{"errors": []}', b"<methodResponse/>"],
)  # fmt: skip
def test_an_answer_of_another_form_is_no_such_wikis(server: Answering, kind: str, body: bytes) -> None:
    server.body = body
    with refused("answers, but not as a"):
        read(kind, server.url)


@kinds
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(server: Answering, kind: str, status: int) -> None:
    with answering() as other:
        server.status, server.headers = status, {"Location": f"{other.url}x?token={TOKEN}"}
        with refused("sends on to", other.url):
            read(kind, server.url)
        assert len(server.seen) == 1
        assert other.seen == []


@kinds
def test_a_server_that_is_down(kind: str) -> None:
    address = f"127.0.0.1:{unused_port()}"
    with refused("nothing answers at", address):
        read(kind, f"http://{address}/")


@kinds
def test_a_server_that_never_answers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_wiki, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, refused("no answer within"):
        read(kind, f"http://127.0.0.1:{silent.getsockname()[1]}/")


@kinds
def test_a_server_that_speaks_no_tls(server: Answering, kind: str) -> None:
    with refused("127.0.0.1", any_of="certificate|nothing answers"):
        read(kind, server.url.replace("http:", "https:"))


@kinds
@pytest.mark.parametrize(
    ("named", "waited"),
    [("3", [3.0] * 3), ("86400", [LONGEST_WAIT_S] * 3), ("soon", list(WAITS_S)), ("", list(WAITS_S))],
)
def test_too_many_requests_are_waited_for_with_an_end(
    server: Answering, kind: str, named: str, waited: list[float], waits: list[float]
) -> None:
    server.status, server.headers = 429, {"Retry-After": named} if named else {}
    with refused("HTTP 429", "some minutes"):
        read(kind, server.url)
    assert waits == waited


@kinds
def test_a_token_without_a_user_is_a_bearer(server: Answering, kind: str) -> None:
    with refused():
        read(kind, server.url)
    assert {headers["Authorization"] for headers in server.seen} == {f"Bearer {TOKEN}"}


@kinds
def test_a_persons_netrc_is_not_used(
    server: Answering, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for token in ("", TOKEN):
        with refused():
            read(kind, server.url, token=token)
    assert not any("Basic" in headers.get("Authorization", "") for headers in server.seen)


@kinds
def test_a_token_with_a_line_end_is_refused_at_once(server: Answering, kind: str) -> None:
    with refused("copied whole"):
        read(kind, server.url, token=f"{TOKEN}\nX-Evil: 1")
    assert server.seen == []


@kinds
def test_the_token_is_in_no_log(server: Answering, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for user in ("", "me"):
        with refused():
            read(kind, server.url, user)
    assert caplog.records
    assert TOKEN not in caplog.text
