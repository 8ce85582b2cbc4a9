"""Optional native libraries: where they are, and how to get them without root.

`python -m tipbench.machine.native` fills the cache folder, and installs Intel's as a package. It never fails, because
every library here is optional: what is missing turns pairs into `skipped`, with the reason.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from tipbench.machine.home import require_home
from tipbench.tip.reason import Reason
from tipbench.tip.wording import plain

INTEL_OPENMP = "intel-openmp==2026.2.0"
"""A package for Python, which holds libiomp5.so. The other libraries differ from distribution to distribution."""

SEPARATORS = re.compile("[ :$]")
"""What no path in LD_PRELOAD can hold: the first two separate paths, the third begins $LIB and the like."""

LIBRARIES = {
    "jemalloc": ("libjemalloc.so*",),
    "tcmalloc": ("libtcmalloc_minimal.so*", "libtcmalloc.so*"),
    "iomp5": ("libiomp5.so",),
    "numa": ("libnuma.so*",),
}
"""File names by library, preferred first. No pair needs numa itself: numactl does."""

LIBRARY_NAMES = ("jemalloc", "tcmalloc", "iomp5", "numactl")
"""What `find` looks for."""

APT = {
    "jemalloc": ("libjemalloc2",),
    "tcmalloc": ("libtcmalloc-minimal4t64", "libtcmalloc-minimal4"),
    "numactl": ("numactl",),
    "numa": ("libnuma1",),
}
"""Debian packages by library; the first that exists is taken (Ubuntu 24.04 renamed one for 64-bit time)."""

WRAPPER = """#!/bin/sh
# The unpacked numactl finds the unpacked libnuma, which has a folder of its own so that nothing else
# in the cache is put before the system's libraries.
here=$(dirname "$0")
LD_LIBRARY_PATH="$here/numa${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/numa/numactl" "$@"
"""


class NotFetched(Exception):
    """Something could not be fetched; the message says why and, where there is one, names the remedy."""


def cache_folder() -> Path:
    """Where fetched libraries are: `$XDG_CACHE_HOME/tipbench/native` or `~/.cache/tipbench/native`."""
    return user_cache_path("tipbench") / "native"


def find(name: str, root: Path = Path("/")) -> Path | None:
    """The library "jemalloc", "tcmalloc" or "iomp5", one by its absolute path, or the program "numactl"; None if there
    is none that can be used.

    Looked for in the cache folder, then in this Python's environment (wheels and conda put libraries into its `lib`),
    then in the system. A library for another processor does not count, nor one whose path LD_PRELOAD cannot hold.
    """
    if name == "numactl":
        wrapper = cache_folder() / name
        program = str(wrapper) if os.access(wrapper, os.X_OK) else shutil.which(name)
        return Path(program) if program else None
    places = (place for path in _libraries(name, root) for place in (path.resolve(), path))
    return next((place for place in places if not SEPARATORS.search(str(place))), None)


def missing(name: str) -> Reason | None:
    """Why there is nothing that `find` returns; None if there is."""
    if name not in LIBRARY_NAMES and not os.path.isabs(name):
        fix = f"name one of {', '.join(LIBRARY_NAMES)}, or an absolute path"
        return Reason("needs.own", detail=f"no library is called {name!r}", fix=fix)
    if find(name):
        return None
    unusable = next(_libraries(name, Path("/")), None)
    if unusable:
        return Reason("needs.native-path", detail=str(unusable))
    if name not in LIBRARY_NAMES:
        return Reason("needs.own", detail=f"{name} is no shared library for this processor", fix="name another")
    return Reason("needs.native", {"library": name if name == "numactl" else f"lib{name}"})


def _libraries(name: str, root: Path) -> Iterator[Path]:
    if name not in LIBRARY_NAMES:
        yield from filter(_fits, [Path(name)])
        return
    for folder in _folders(root):
        for pattern in LIBRARIES.get(name, ()):
            yield from filter(_fits, sorted(folder.glob(pattern)))


def find_programs(prefix: Sequence[str]) -> list[str]:
    """Words to put before a command; numactl by its path, as one that was fetched is not on the PATH."""
    numactl = find("numactl") if prefix and prefix[0] == "numactl" else None
    return [str(numactl), *prefix[1:]] if numactl else list(prefix)


def _folders(root: Path) -> Iterator[Path]:
    yield cache_folder()
    yield Path(sys.prefix) / "lib"
    triplet = f"{platform.machine()}-linux-gnu"
    for folder in ("usr/local/lib", f"usr/lib/{triplet}", f"lib/{triplet}", "usr/lib64", "usr/lib", "lib64", "lib"):
        yield root / folder


def _fits(path: Path) -> bool:
    """Whether the file is a shared library for the same processor as this Python."""
    return (kind := _elf_kind(path)) is not None and kind == _elf_kind(Path(sys.executable))


def _elf_kind(path: Path) -> tuple[int, bytes] | None:
    """Word size and processor of an ELF file, as its header gives them; None for anything else."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return (header[4], header[18:20]) if header[:4] == b"\x7fELF" and len(header) == 20 else None


def fetch(say: Callable[[str], None] = print) -> None:
    """Fetch what is missing into the cache folder, one line to `say` for each. Never raises for a
    missing network, package or permission: the line says what is missing, why, and the remedy."""
    width = max(len(name) for name in LIBRARY_NAMES)
    for name in LIBRARY_NAMES:
        say(f"  {name:<{width}}  {plain(_fetch_one(name))}")


def _fetch_one(name: str) -> str:
    """What became of a library, in words."""
    if path := find(name):
        return f"already there: {path}"
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="tipbench-") as scratch:
            source = _from_index() if name == "iomp5" else _from_apt(name, Path(scratch))
    except (NotFetched, OSError, subprocess.SubprocessError) as error:
        return f"not fetched: {error}"
    return f"fetched from {source}"


def _from_apt(name: str, scratch: Path) -> str:
    """Unpack a Debian package into the cache; returns what it was taken from. Raises NotFetched."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NotFetched(f"there is no apt-get here; install {name} with this system's package manager")
    if name == "numactl":
        program = _unpacked("numactl", scratch)
        folder = cache_folder() / "numa"
        folder.mkdir(exist_ok=True)
        # A numactl is of no use without libnuma, so the wrapper, which `find` goes by, comes last.
        if not any(_fits(path) for lib in _folders(Path("/")) for path in lib.glob("libnuma.so.1")):
            _place(_library("numa", _unpacked("numa", scratch)), folder / "libnuma.so.1")
        _place(program / "usr/bin/numactl", folder / "numactl", check=False)
        wrapper = scratch / "wrapper"
        wrapper.write_text(WRAPPER)
        _place(wrapper, cache_folder() / "numactl", check=False)
        return "the Debian package numactl"
    library = _library(name, _unpacked(name, scratch))
    _place(library, cache_folder() / re.sub(r"(\.so\.\d+).*", r"\1", library.name))
    archive = next((scratch / name).glob("*.deb"))
    return f"the Debian package {archive.name.partition('_')[0]}"


def _unpacked(name: str, scratch: Path) -> Path:
    """Download and unpack the library's Debian package; returns the folder. Raises NotFetched."""
    folder = scratch / name
    folder.mkdir()
    archive = _download(name, folder)
    if archive is None and os.geteuid() == 0:
        _run("apt-get", "-qq", "update")
        archive = _download(name, folder)
    if archive is None:
        raise NotFetched(f"apt knows no package {APT[name][-1]}; run `apt-get update` as root, then `make native`")
    unpacking = _run("dpkg-deb", "-x", str(archive), str(folder / "files"))
    if unpacking.returncode:
        raise NotFetched(f"{archive.name} could not be unpacked: {_last_line(unpacking.stderr)}")
    return folder / "files"


def _download(name: str, folder: Path) -> Path | None:
    """The downloaded package; None where apt knows none by these names. Raises NotFetched."""
    options = ("Acquire::Retries=1", "Acquire::http::Timeout=30", "APT::Get::AllowUnauthenticated=false")
    for package in APT[name]:
        words = (word for option in options for word in ("-o", option))
        done = _run("apt-get", "-q", *words, "download", package, cwd=folder)
        archives = list(folder.glob("*.deb"))
        if archives:
            return archives[0]
        if "Unable to locate package" not in done.stderr and "no candidate" not in done.stderr:
            raise NotFetched(f"apt-get could not download {package}: {_last_line(done.stderr)}")
    return None


def _from_index() -> str:
    """Install Intel's library into this Python's environment; returns what it was taken from. Raises NotFetched."""
    if platform.machine() != "x86_64":
        raise NotFetched("Intel builds it for x86-64 only")
    options = ("-qq", "--disable-pip-version-check", "--no-deps", INTEL_OPENMP)
    done = _run(sys.executable, "-P", "-m", "pip", "install", *options, timeout=600)
    if done.returncode:
        raise NotFetched(f"pip could not install {INTEL_OPENMP}: {_last_line(done.stderr)}")
    return f"the package {INTEL_OPENMP}"


def _library(name: str, folder: Path) -> Path:
    for pattern in LIBRARIES[name]:
        for path in sorted(folder.rglob(pattern)):
            if _fits(path):
                return path.resolve()
    raise NotFetched(f"{APT[name][-1]} holds no {LIBRARIES[name][0]}")


def _place(source: Path, target: Path, check: bool = True) -> None:
    """Copy a library or program into the cache in one go, so that a killed fetch leaves no half file.

    Raises NotFetched where `check` finds that the loader refuses it (built for a newer glibc).
    """
    if check and SEPARATORS.search(str(target)):
        raise NotFetched(
            f"LD_PRELOAD cannot hold its path {target}; set XDG_CACHE_HOME to one without blank, colon and $"
        )
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        shutil.copyfile(source, partial)
        partial.chmod(0o755)
        if check:
            loaded = _run(shutil.which("true") or "/bin/true", env={**os.environ, "LD_PRELOAD": str(partial)})
            if loaded.returncode or loaded.stderr:
                raise NotFetched(f"the loader refuses {source.name}: {_last_line(loaded.stderr)}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _run(
    *command: str, cwd: Path | None = None, env: dict[str, str] | None = None, timeout: float = 180
) -> subprocess.CompletedProcess[str]:
    # LC_ALL: the messages are read, so they must be the untranslated ones.
    return subprocess.run(
        command, cwd=cwd, env={**(env or os.environ), "LC_ALL": "C"}, timeout=timeout,
        stdin=subprocess.DEVNULL, capture_output=True, errors="replace", check=False,
    )  # fmt: skip


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith("W:")]
    return lines[-1].removeprefix("E: ").removeprefix("ERROR: ") if lines else "it gave no reason"


if __name__ == "__main__":
    require_home()
    fetch()
