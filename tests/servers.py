"""Servers on 127.0.0.1: of a test's own answers, and Debian's `mediawiki` and `dokuwiki` under PHP's built-in server.

All that they write lies in the folder they are given; nothing of them runs on when the `with` block ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.published import BOT_TOKEN, TOKEN

MEDIA_WIKI = Path("/usr/share/mediawiki")
DOKU_WIKI = Path("/usr/share/dokuwiki")

SERVE_S = 30.0


class Handler(BaseHTTPRequestHandler):
    """Answers every request by `answer`, and logs nothing."""

    def answer(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PUT = do_GET

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None: ...


@contextlib.contextmanager
def answering(handler: type[Handler]) -> Iterator[str]:
    """A server of this handler; its address, without a slash at its end."""
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def need(remedy: str = ".ci/install-for-tests installs it on Debian", /, **there: object) -> None:
    """Skip, with the reason and the remedy, where something is absent; fail where all tests are to run."""
    absent = [name for name, found in there.items() if not found]
    if not absent:
        return
    why = f"absent here: {', '.join(absent)}; {remedy}"
    if os.environ.get("TIPBENCH_TEST_ALL"):
        pytest.fail(why)
    pytest.skip(why)


def need_media_wiki() -> None:
    need(php=shutil.which("php"), mediawiki=(MEDIA_WIKI / "api.php").is_file())


def need_doku_wiki() -> None:
    need(php=shutil.which("php"), dokuwiki=(DOKU_WIKI / "doku.php").is_file())


@dataclass(frozen=True)
class Server:
    """url: with a slash at its end. switches: a file of PHP that is read at every request."""

    url: str
    folder: Path
    switches: Path

    @contextlib.contextmanager
    def with_settings(self, php: str) -> Iterator[None]:
        """The wiki's settings changed for a while."""
        self.switches.write_text(f"<?php\n{php}\n")
        try:
            yield
        finally:
            self.switches.write_text("<?php\n")


@contextlib.contextmanager
def media_wiki(folder: Path) -> Iterator[Server]:
    """With the users Admin (administrator) and Publisher, whose password is TOKEN; Publisher has the bot
    password BOT_TOKEN as `Publisher@tipbench`."""
    settings, switches = folder / "LocalSettings.php", folder / "switches.php"
    environment = {**os.environ, "MW_CONFIG_FILE": str(settings)}
    scripts = MEDIA_WIKI / "maintenance"

    def maintain(script: str, *arguments: str) -> None:
        command = ["php", str(scripts / script), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"

    data = [f"--dbpath={folder / 'data'}", "--dbtype=sqlite", "--dbname=wiki", "--skins=Vector"]
    place = ["--server=http://127.0.0.1", "--scriptpath=", f"--confpath={folder}", "--lang=en", f"--pass={TOKEN}"]
    maintain("install.php", *data, *place, "Test wiki", "Admin")
    for name in ("images", "cache"):
        (folder / name).mkdir()
    with settings.open("a") as file:
        file.write(f"""
$wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? '127.0.0.1');
$wgUploadDirectory = '{folder}/images';
$wgUploadPath = '/images';
$wgCacheDirectory = '{folder}/cache';
$wgTmpDirectory = '{folder}/cache';
$wgEnableUploads = true;
$wgUseImageMagick = false;
$wgJobRunRate = 0;
$wgPasswordAttemptThrottle = [];
require '{switches}';
""")
    switches.write_text("<?php\n")
    maintain("createAndPromote.php", "Publisher", TOKEN)
    grants = "basic,highvolume,editpage,createeditmovepage,uploadfile,uploadeditmovefile"
    maintain("createBotPassword.php", "--appid=tipbench", f"--grants={grants}", "Publisher", BOT_TOKEN)
    router = folder / "router.php"
    router.write_text(f"""<?php
$path = urldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
if (str_starts_with($path, '/images/') && is_file('{folder}' . $path)) {{
    header('Content-Type: ' . mime_content_type('{folder}' . $path));
    readfile('{folder}' . $path);
    return true;
}}
return false;
""")
    with _php(MEDIA_WIKI, folder, environment, [], router) as url:
        yield Server(url, folder, switches)


@contextlib.contextmanager
def doku_wiki(folder: Path) -> Iterator[Server]:
    """With the users admin (administrator) and publisher, whose password is TOKEN; everybody may read, these
    may write and upload."""
    conf, data = folder / "conf", folder / "data"
    conf.mkdir()
    for file in Path("/etc/dokuwiki").iterdir():
        if file.is_file() and not file.is_symlink():
            shutil.copy(file, conf)
    for name in ("pages", "attic", "media", "media_attic", "media_meta", "meta", "cache", "index", "locks", "tmp"):
        (data / name).mkdir(parents=True)
    (data / "log").mkdir()
    switches = folder / "switches.php"
    switches.write_text("<?php\n")
    (conf / "local.php").write_text(f"""<?php
$conf['title'] = 'Test wiki';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['savedir'] = '{data}';
$conf['remote'] = 1;
$conf['remoteuser'] = '';
$conf['updatecheck'] = 0;
require '{switches}';
""")
    hashed = hashlib.sha1(TOKEN.encode()).hexdigest()
    users = {"admin": "admin,user", "publisher": "user"}
    lines = [f"{name}:{hashed}:{name.title()}:{name}@example.org:{groups}\n" for name, groups in users.items()]
    (conf / "users.auth.php").write_text("".join(lines))
    (conf / "acl.auth.php").write_text("*\t@ALL\t1\n*\t@user\t8\n")
    prepended = folder / "prepend.php"
    prepended.write_text(f"<?php define('DOKU_CONF', '{conf}/'); define('DOKU_MAIN_CONF', '{conf}/');\n")
    with _php(DOKU_WIKI, folder, os.environ, ["-d", f"auto_prepend_file={prepended}"]) as url:
        yield Server(url, folder, switches)


@contextlib.contextmanager
def _php(
    root: Path, folder: Path, environment: Mapping[str, str], options: list[str], router: Path | None = None
) -> Iterator[str]:
    """PHP's built-in server, with workers: a browser asks for several files at once."""
    log = folder / "server.log"
    settings = {"opcache.revalidate_freq": 0, "sys_temp_dir": folder, "session.save_path": folder, "memory_limit": -1}
    settings |= {"upload_max_filesize": "20M", "post_max_size": "20M", "display_errors": 0}
    given = [part for name, value in settings.items() for part in ("-d", f"{name}={value}")]
    for _ in range(3):  # another program may take the port first
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["php", *given, *options, "-S", address, "-t", root, *([router] if router else [])],
                env={**environment, "PHP_CLI_SERVER_WORKERS": "3"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            if _answers(f"http://{address}/", process):
                yield f"http://{address}/"
                return
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the workers too, which do not end with their parent
            process.wait()
    pytest.fail(f"PHP's built-in server did not start: {log.read_text()[-2000:]}")


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + SERVE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=SERVE_S).close()
            return True
        except urllib.error.HTTPError as error:
            error.close()
            return True
        except OSError:
            time.sleep(0.05)
    return False
