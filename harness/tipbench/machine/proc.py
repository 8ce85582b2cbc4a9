"""Reading /proc and /sys. Functions take `root`, so that tests can give them a tree of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

UNAVAILABLE = "unavailable"
"""In place of a value that this machine does not report."""

DENIED = "denied"
"""In place of a value that this machine does not report to us."""

ROOT = Path("/")


def read(path: Path) -> str:
    """A file of /proc or /sys without its line end; "denied" or "unavailable" where it cannot be read."""
    try:
        return path.read_text().strip() or UNAVAILABLE
    except PermissionError:
        return DENIED
    except (OSError, UnicodeDecodeError):
        return UNAVAILABLE


def cgroup_files(root: Path, controller: str, files: tuple[str, ...]) -> Iterator[Path]:
    """Files that exist by these names in this process's cgroup and in those around it, innermost first.

    In a container the path in /proc/self/cgroup may be the host's and missing here; the walk up ends
    at the mount, which is the container's own group then.
    """
    base = root / "sys/fs/cgroup"
    for line in read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        if controllers == "":
            mounts = [base]
        elif controller in controllers.split(","):
            mounts = [base / controllers, base / controller]
        else:
            continue
        mount = next((mount for mount in mounts if mount.is_dir()), None)
        if mount is None:
            continue
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            for file in files:
                path = mount.joinpath(*parts[:depth]) / file
                if path.exists():
                    yield path
