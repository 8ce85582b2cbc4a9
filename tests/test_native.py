"""Where native libraries are looked for, and what a person is told if they cannot be fetched. No network."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tipbench.machine import native
from tipbench.machine.controls import controls, environment
from tipbench.tip.process import ProcessSettings

Done = subprocess.CompletedProcess[str]
Answer = Callable[[tuple[str, ...], Path | None], Done]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    return tmp_path / "cache/tipbench/native"


def a_library(path: Path, header: bytes | None = None) -> Path:
    """A file that has this machine's ELF header, and nothing else of a library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header or Path(sys.executable).read_bytes()[:20])
    return path


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[str]:
    """Have `answer` in place of every program that would be started; returns the programs, in order."""
    started: list[str] = []

    def run(*command: str, cwd: Path | None = None, **_: object) -> Done:
        started.append(" ".join(command))
        return answer(command, cwd)

    monkeypatch.setattr(native, "_run", run)
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/bin/{name}" if name != "numactl" else None)
    return started


@pytest.fixture
def nothing_installed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of the machine that runs the tests do not count."""
    monkeypatch.setattr(native, "_folders", lambda root: iter([cache]))


def a_real_library(path: Path) -> Path:
    """One that the loader accepts."""
    (mapped,) = set(re.findall(r"(/\S*/libm\.so\.6)\n", Path("/proc/self/maps").read_text()))
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(mapped, path)
    return path


def test_cache_goes_before_environment_before_system(cache: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert native.find("jemalloc", root) is None
    system = a_library(root / "usr/lib64/libjemalloc.so.2")
    assert native.find("jemalloc", root) == system
    environment = a_library(tmp_path / "prefix/lib/libjemalloc.so.2")
    assert native.find("jemalloc", root) == environment
    cached = a_library(cache / "libjemalloc.so.2")
    assert native.find("jemalloc", root) == cached


def mapped_by(*preload: str) -> tuple[list[str], str]:
    """Of a process with such a variant's settings: the libraries that it has mapped, and what the loader printed."""
    env = environment(controls(1), ProcessSettings(preload=preload))
    done = subprocess.run(["/bin/cat", "/proc/self/maps"], env=env, capture_output=True, text=True, check=True)
    return [line[73:] for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("folder", ["with blank", "with:colon"])
def test_a_path_that_ld_preload_cannot_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    library = a_real_library(tmp_path / folder / "tipbench/native/libjemalloc.so.2")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    monkeypatch.setattr(native, "_folders", lambda root: iter([native.cache_folder()]))
    for name in ("jemalloc", str(library)):
        assert native.find(name) is None
        reason = native.missing(name)
        assert reason is not None
        assert str(library) in reason.text
        assert "XDG_CACHE_HOME" in reason.remedy
    mapped, printed = mapped_by(str(library))
    assert str(library) not in mapped, "the loader does not find it"
    assert "cannot be preloaded" in printed


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"\x7fELF\x01\x01\x01" + bytes(11) + b"\x03\x00", id="32-bit x86"),
        pytest.param(b"/* GNU ld script */ INPUT(libjemalloc.so.2)", id="linker script"),
        pytest.param(b"\x7fELF", id="truncated"),
    ],
)
def test_what_cannot_be_preloaded_is_not_found(cache: Path, tmp_path: Path, header: bytes) -> None:
    a_library(cache / "libjemalloc.so.2", header)
    assert native.find("jemalloc", tmp_path / "root") is None


@pytest.mark.usefixtures("nothing_installed")
def test_fetch_unpacks_what_is_missing_and_leaves_the_rest(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: tuple[str, ...], cwd: Path | None) -> Done:
        if command[0] == "apt-get":
            assert cwd is not None
            (cwd / f"{command[-1]}_1.0_amd64.deb").touch()
        elif command[0] == "dpkg-deb":
            package, files = Path(command[2]).name.split("_")[0], Path(command[3])
            holds = {
                "libtcmalloc-minimal4t64": "usr/lib/x/libtcmalloc_minimal.so.4.5.10",
                "numactl": "usr/bin/numactl",
                "libnuma1": "usr/lib/x/libnuma.so.1.0.0",
            }
            a_library(files / holds[package])
        elif "pip" in command:
            return Done(command, 1, stderr="ERROR: Could not find a version\nERROR: No matching distribution found\n")
        return Done(command, 0, stdout="", stderr="")

    started = answering(monkeypatch, answer)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    a_library(cache / "libjemalloc.so.2")
    lines: list[str] = []
    native.fetch(lines.append)
    expected = (
        "already there: ",
        "package libtcmalloc",
        "could not install",
        "fetched from the Debian package numactl",
    )
    for line, words in zip(lines, expected, strict=True):
        assert words in line
    assert not any("jemalloc" in command for command in started)
    files = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
    assert files == ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "numa/libnuma.so.1", "numa/numactl", "numactl"]


def fetched() -> dict[str, str]:
    """The line about each library."""
    lines: list[str] = []
    native.fetch(lines.append)
    return {line.split()[0]: line for line in lines}


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize("root", [True, False])
def test_missing_package_lists_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, root: bool) -> None:
    unknown = "E: Unable to locate package libjemalloc2\n"
    started = answering(monkeypatch, lambda command, cwd: Done(command, 100, "", unknown))
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    assert "run `apt-get update` as root, then `make native`" in fetched()["jemalloc"]
    assert ("apt-get -qq update" in started) == root, "root can update the lists, and others cannot"


def hang(command: tuple[str, ...], cwd: Path | None) -> Done:
    raise subprocess.TimeoutExpired(command[0], 180)


def without_network(command: tuple[str, ...], cwd: Path | None) -> Done:
    return Done(command, 100, "", "W: Download is performed unsandboxed\nE: Failed to fetch: Temporary failure\n")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("answer", "why"),
    [(hang, "'apt-get' timed out"), (without_network, "could not download libjemalloc2: Failed to fetch: Temp")],
)
def test_a_download_that_fails_or_hangs_is_one_line_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: Answer, why: str
) -> None:
    answering(monkeypatch, answer)
    native.fetch()
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("  jemalloc  not fetched: ")
    assert why in first


def test_a_library_the_loader_refuses_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusal = "ERROR: ld.so: object 'libx.so' cannot be preloaded: ignored.\n"
    answering(monkeypatch, lambda command, cwd: Done(command, 0, "", refusal))
    cache.mkdir(parents=True)
    with pytest.raises(native.NotFetched, match=r"the loader refuses libx\.so: ld\.so: object"):
        native._place(a_library(tmp_path / "libx.so"), cache / "libx.so")
    assert list(cache.iterdir()) == []
