"""Real wikis on 127.0.0.1: Debian's `mediawiki` and `dokuwiki` under PHP's built-in server; and what tests put there.

All that the servers write lies in the folder they are given; nothing of them runs on when the `with` block ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import traceback
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tipbench.publish.send import Published
from tipbench.publish.tree import Entry
from tipbench.publish.wiki import WikiError
from tipbench.report.document import (
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    SideBySide,
    Strong,
    Table,
)

MEDIA_WIKI = Path("/usr/share/mediawiki")
DOKU_WIKI = Path("/usr/share/dokuwiki")

TOKEN = "t0p-secret/Token+of=the&tests%41"
"""What must never be seen in a message; with characters that URLs and forms spell otherwise."""

BOT_TOKEN = "0123456789abcdefghijklmnopqrstuv"
"""MediaWiki takes a bot password of 32 characters, of 0-9 and a-v only."""

SERVE_S = 30.0


def need(**there: object) -> None:
    """Skip, with the reason and the remedy, where something is absent; fail where all tests are to run."""
    absent = [name for name, found in there.items() if not found]
    if not absent:
        return
    told = f"absent here: {', '.join(absent)}; .ci/install-wikis installs it on Debian"
    if os.environ.get("TIPBENCH_TEST_ALL"):
        pytest.fail(told)
    pytest.skip(told)


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
    version: str

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
    """With the users Admin (administrator), Human and Publisher, whose password is TOKEN; Publisher has the bot
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
    maintain("createAndPromote.php", "Human", TOKEN)
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
    version = _first_line(["dpkg-query", "-W", "-f", "${Version}", "mediawiki"])
    with _php(MEDIA_WIKI, folder, environment, [], router) as url:
        yield Server(url, folder, switches, version)


@contextlib.contextmanager
def doku_wiki(folder: Path) -> Iterator[Server]:
    """With the users admin (administrator), human and publisher, whose password is TOKEN; everybody may read, these
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
    users = {"admin": "admin,user", "human": "user", "publisher": "user"}
    lines = [f"{name}:{hashed}:{name.title()}:{name}@example.org:{groups}\n" for name, groups in users.items()]
    (conf / "users.auth.php").write_text("".join(lines))
    (conf / "acl.auth.php").write_text("*\t@ALL\t1\n*\t@user\t8\n")
    prepended = folder / "prepend.php"
    prepended.write_text(f"<?php define('DOKU_CONF', '{conf}/'); define('DOKU_MAIN_CONF', '{conf}/');\n")
    version = (DOKU_WIKI / "VERSION").read_text().strip()
    with _php(DOKU_WIKI, folder, os.environ, ["-d", f"auto_prepend_file={prepended}"]) as url:
        yield Server(url, folder, switches, version)


def unused_port() -> int:
    """One at which nothing answers, for the moment."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


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
        address = f"127.0.0.1:{unused_port()}"
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


def _first_line(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return "unknown"


@contextlib.contextmanager
def refused(*words: str, kind: type[WikiError] = WikiError) -> Iterator[None]:
    """Just this error, with these words and no token, neither in its message nor in what a traceback would show."""
    with pytest.raises(WikiError) as caught:
        yield
    assert type(caught.value) is kind
    for word in words:
        assert word in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    for token in (TOKEN, BOT_TOKEN):
        assert not any(spelt in shown for spelt in (token, quote(token), quote(token, safe=""), quote_plus(token)))


def picture(shade: int) -> bytes:
    """A PNG of 64 x 32 pixels, all of one grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = zlib.compress((b"\0" + bytes([shade]) * 64) * 32)
    header = struct.pack(">IIBBBBB", 64, 32, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def published(machine: str, told: str = "It pays.", shade: int = 200) -> Published:
    """A run of one short page with one figure. told: what changes when the run is measured further."""
    id = hashlib.sha1(machine.encode()).hexdigest()[:8]
    entry = Entry(
        id=id, machine=machine, run="2026-11-21-0e1f8a67", begun="2026-11-21T09:30:00+00:00", torch="2.15.0",
        device="cpu", measured="2", skipped="1", failed="0", missing="0", noise="0.994..1.008", answers="1-1-0-0-1",
    )  # fmt: skip
    blocks = (
        Paragraph((Strong("Limits."), " One machine; ", Link("all runs", "Benchmarks"), ".")),
        Heading("channels-last", anchor="channels-last"),
        Paragraph((told,)),
        Figure("speedups", "Speedups of two pairs", "Figure 1: speedups"),
    )
    return Published(entry, Page(f"Tips on {machine}", blocks), {"speedups.png": picture(shade)})


HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</pre></code></nowiki><b onclick=alert(1)>x</b>",
    "&lt;b&gt; &amp; &#60;i&#62; &nbsp;x", "<!-- x", "x -->", "<ref>x</ref><references />", "<nowiki>''x''</nowiki>",
    "<includeonly>x</includeonly><onlyinclude>y</onlyinclude>", "{{Main Page}}", "{{subst:CURRENTTIME}}", "{{{1|x}}}",
    "{{:wiki:dokuwiki-128.png|x}}", "{{rss>http://example.org/feed}}", "{{#if:x|y}}", "[[Main Page|x]]", "[[x", "]]",
    "x]", "[[start|x]] ]]] }}", "[https://example.org x]", "https://example.org/x", "www.example.org",
    "//example.org/x", "mailto:somebody@example.org", "<somebody@example.org>", r"\\server\share",
    "javascript:alert(1)", "file:///etc/passwd", "'''x''' ''y'' '", "**x** //y// __z__ ''w''", "~~~~", "~~~~~",
    "~~NOTOC~~ ~~NOCACHE~~", "__TOC__", "__NOEDITSECTION__", "_", "__", "no_grad", "| x || y", "! x !! y", "|-", "|}",
    "{|", "|+", "|", "!", "^ x ^ y ^", ":::", "* x", "# x", ": x", "; x : y", "- x", "-5 %", "+5 %", "> x", "== x ==",
    "=", "==", "x ==", "====== x ======", "----", "-{zh:x}-", "#REDIRECT [[Main Page]]", "#redirect start",
    "ISBN 978-0-306-40615-7", "RFC 2616", "PMID 12345", "%%", "%", "50 %", "x%%y%%%z%", "%%</nowiki>%%",
    "<code>x</code>", "</code", "<file>x</file>", "<html><b>x</b></html>", "<HTML><b>x</b></HTML>",
    "<php>echo 1;</php>", "((x))", r"x \\ y", r"\\", "\\",
    "quotes \"x\" 'y' -- --- ... -> <- => <-> (c) (tm) 640x480 10x", ":-) FIXME DELETEME 8-)", "HTML FTP PHP",
    "CamelCaseLink", "<sub>x</sub><del>y</del>", "1.35x [1.33, 1.38]", "a\tb", "x\ny", "caf\u00e9 e\u0301 \u00b5s",
    "\u0301x", "\U0001f600 \u4e2d\u6587", "\ufffe\uffff", "\x7f'\"`UNIQ--nowiki-00000001-QINU`\"'\x7f", "a\u202eb", "0",
    "x" * 700, "tipbench-run id=00000000", "=cmd|' /C calc'!A0",
    "<!-- Begin of what tipbench writes: changes below are lost at the next publishing -->",
    "<!-- End of what tipbench writes -->",
    "//What follows is written by tipbench: changes to it are lost at the next publishing.//",
    "//Here ends what tipbench writes.//",
)  # fmt: skip
"""Foreign text that means something to one of the wikis, or once did to such a program."""


def hostile() -> Page:
    """Each of HOSTILE in every place where a page takes text."""
    cells = tuple(
        (
            Cell((string,)),
            Cell((Strong(string),)),
            Cell((Literal(string),)),
            Cell((Link(string, "Benchmarks"),)),
            Cell(("before ", string, " after"), sort=1.5),
        )
        for string in HOSTILE
    )
    return Page(
        HOSTILE[0],
        (
            Table("hostile", (HOSTILE[0], "! x !! y", "^ x", "| x", "literal"), cells),
            Quote(tuple((string,) for string in HOSTILE)),
            Bullets(tuple((string,) for string in HOSTILE)),
            *(Paragraph((string,)) for string in HOSTILE),
            *(Code(string, "python") for string in HOSTILE),
            Code("\n".join(HOSTILE)),
            SideBySide((HOSTILE[0], "| x"), Code("\n".join(HOSTILE)), Code(HOSTILE[2], "</code>")),
            Folded(HOSTILE[0], (Paragraph((HOSTILE[1],)),)),
            *(Heading(string, 3, string) for string in HOSTILE),
            *(Figure("speedups", string, string) for string in HOSTILE),
        ),
    )
