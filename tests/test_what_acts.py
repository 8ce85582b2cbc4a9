"""What a results file says decides nothing that its readers execute, delete or write elsewhere: watched, not assumed.

Each field of a header is replaced by the values of the others, by paths and by lists of variables, and every command
that reads results files is given the result. Python's audit events say what it starts, writes and removes.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.git_server import GitServer
from tests.test_fuzz_store import SHORT
from tipbench import cli
from tipbench.records.json_line import parsed

HOSTILE: tuple[Any, ...] = (
    "/etc/passwd",
    "../../outside",
    "$(touch outside)",
    "\x1b]0;title\x07",
    "-rf",
    10**18,
    [],
    ["touch", "outside"],
    {"LD_PRELOAD": "/outside.so", "PYTHONSTARTUP": "/outside.py", "PYTHONWARNINGS": "error::outside"},
)

PROGRAMS = ("git", "g++")
"""What the suite asks for its commit and for the compiler's version, and what publishes to a git wiki."""

STARTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
REMOVES = ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
           "os.truncate", "shutil.rmtree")  # fmt: skip
TEMPORARY = Path("/tmp")
"""Where scratch folders are, as pytest's own folders have too long names. A file without a name is opened there too."""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What happens in this process while it is on: a list of what must not."""

    def __init__(self) -> None:
        self.on = False
        self.within: tuple[Path, ...] = ()
        """Folders in which anything may be written and removed, beside our own in TEMPORARY."""
        self.unwanted: list[str] = []
        sys.addaudithook(self.hear)  # it stays until the interpreter ends

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "subprocess.Popen":
            if arguments[1][0] not in PROGRAMS:
                self.unwanted.append(f"started {arguments[1]}")
        elif event in STARTS:
            self.unwanted.append(f"{event} {arguments}")
        elif event in REMOVES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES):
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike) and not self.inside(Path(os.fsdecode(path))):
                self.unwanted.append(f"{event} {os.fsdecode(path)}")

    def inside(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        ours = real == TEMPORARY or (real.is_relative_to(TEMPORARY) and real.parts[2].startswith("tipbench"))
        return ours or real == Path(os.devnull) or any(map(real.is_relative_to, self.within))


WATCH = Watch()


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    WATCH.within, WATCH.unwanted = (tmp_path,), []
    return WATCH


def changes(header: dict[str, Any]) -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    """Name and function of each change: a field, also one of the options and of the machine, gets another value."""
    places: list[tuple[str, ...]] = [(name,) for name in header if name != "schema"]
    places += [("options", name) for name in header["options"]]
    places += [("machine", name) for name in ("name", "cpu", "cores", "memory_bytes", "gpus", "torch")]
    places += [("controls", name) for name in ("OMP_NUM_THREADS", "LD_PRELOAD", "PYTHONSTARTUP")]
    values = [*HOSTILE, *header.values(), *header["options"].values()]
    for place in places:
        for value in values:

            def change(data: dict[str, Any], place: tuple[str, ...] = place, value: Any = value) -> None:
                for name in place[:-1]:
                    data = data[name]
                data[place[-1]] = deepcopy(value)

            yield f"{'.'.join(place)} = {value!r}", change


def watched(
    watch: Watch,
    capfd: pytest.CaptureFixture[str],
    lines: list[str],
    mutated: Path,
    commands: Mapping[str, Sequence[object]],
    share: float = 1.0,
) -> dict[str, set[int]]:
    """The exit codes of each command for all changes of the header, or of this share of them."""
    drawn = random.Random(20261125)
    ended: dict[str, set[int]] = {name: set() for name in commands}
    mutated.write_text("".join(f"{line}\n" for line in lines))
    for command in commands.values():  # what is imported late, and its caches
        cli.main(list(map(str, command)))
    for what, change in changes(parsed(lines[0].encode())):
        if drawn.random() > share:
            continue
        header = parsed(lines[0].encode())
        change(header)
        for name, command in commands.items():
            mutated.write_text("".join(f"{line}\n" for line in (json.dumps(header), *lines[1:])))
            watch.on = True
            try:
                ended[name].add(cli.main(list(map(str, command))))
            finally:
                watch.on = False
            said = "".join(capfd.readouterr())
            assert "Traceback" not in said, (what, name)
            assert "\x1b" not in said, (what, name)
            assert watch.unwanted == [], (what, name)
    return ended


def test_no_header_makes_reading_start_remove_or_write_anything(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    GitServer(tmp_path).wiki("wiki")
    lines = SHORT.decode().splitlines()
    mutated, other = Path("mutated.jsonl"), Path("other.jsonl")
    other.write_bytes(re.sub(rb',"crc32":\d+', b"", SHORT).replace(json.loads(lines[0])["id"].encode(), b"f" * 32))
    commands: dict[str, Sequence[object]] = {
        "json": ["report", "--format", "json", "--out", "reports", mutated],
        "page": ["report", "--format", "md", mutated],
        "compare": ["compare", "--format", "md", other, mutated],
    }
    ended = watched(watch, capfd, lines, mutated, commands)
    assert ended == {name: {0, 2} for name in commands}
    # A page of a wiki takes a second.
    publish = ["publish", "--to", f"git+file://{tmp_path}/wiki", "--flavour", "github", "--dry-run", mutated]
    assert watched(watch, capfd, lines, mutated, {"publish": publish}, share=0.1) == {"publish": {0, 2}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mutated.jsonl", "other.jsonl", "reports", "wiki"]
