"""Which runs are of one machine: a fingerprint that says so, and that names the machine to nobody else.

It is a keyed hash of what identifies the machine: its machine-id and, where they can be read, the serial numbers of its
hardware; in a fleet also the node's name, since nodes that start from one image share a machine-id. The key is random
and lies in the user's state folder, so nobody can tell from a published results file which machine it is of, even who
knows its ids, and two users of a machine have two fingerprints.

There is none in a container, whose machine-id is its image's, unless a fleet names the node. Machines that were cloned
share a machine-id, and have different keys, hence different fingerprints. If the home folder with the key was cloned
too, they count as one machine (unless tipbench may read the hardware's serial numbers, which mostly root alone may):
remove the key of one of them, or give it another machine-id.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from platformdirs import user_state_path

from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE, read

KEY_BYTES = 32

LENGTH = 32
"""Characters of a fingerprint, in hexadecimal."""

MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")

SERIALS = tuple(f"sys/class/dmi/id/{name}" for name in ("product_uuid", "product_serial", "board_serial"))
"""They are hashed beside a machine-id and never without one: many makers leave one text in all their machines."""

CONTAINERS = (".dockerenv", "run/.containerenv", ".singularity.d")
"""What Docker, Podman and Apptainer leave in their containers."""

OF_SYSTEMD, WSL = "run/systemd/container", "wsl"
"""Where systemd names the kind of container that it runs in, and what it says under WSL, which is none of an image."""

POD, NODE = "KUBERNETES_SERVICE_HOST", "SLURMD_NODENAME"
"""Variables that Kubernetes sets in a pod, and Slurm to the node's name in a job."""


def fingerprint(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> str:
    """LENGTH characters; "" if nothing identifies the machine, or if the key can be neither read nor made."""
    identity = list(_identity(root, environment))
    key = _key(key_path()) if identity else b""
    return (
        hmac.digest(key, "\n".join(identity).encode(errors="surrogateescape"), "sha256").hex()[:LENGTH] if key else ""
    )


def key_path() -> Path:
    """`$XDG_STATE_HOME/tipbench/key` or `~/.local/state/tipbench/key`."""
    return user_state_path("tipbench", appauthor=False) / "key"


def _identity(root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """What identifies the machine, as lines `name=value`; nothing if nothing does."""
    machine_id = "" if _in_container(root, environment) else _machine_id(root)
    if machine_id:
        yield f"machine-id={machine_id}"
        for file in SERIALS:
            if (serial := read(root / file)) not in (UNAVAILABLE, DENIED):
                yield f"{Path(file).name}={serial}"
    if node := environment.get(NODE):
        yield f"node={node}"


def _machine_id(root: Path) -> str:
    """Empty where there is none: images are shipped with an empty file, or with `uninitialized` in it."""
    for file in MACHINE_IDS:
        if re.fullmatch("[0-9a-f]{32}", text := read(root / file)) and text.strip("0"):
            return text
    return ""


def _in_container(root: Path, environment: Mapping[str, str]) -> bool:
    if POD in environment or any((root / mark).exists() for mark in CONTAINERS):
        return True
    if read(root / OF_SYSTEMD) not in (UNAVAILABLE, DENIED, WSL):
        return True
    return re.search("docker|containerd|kubepods|libpod|/lxc/", read(root / "proc/1/cgroup")) is not None


def _key(path: Path) -> bytes:
    """The user's key, which is made where there is none; empty where that fails, or where another thing lies there."""
    if not path.is_absolute():  # of a user without a home
        return b""
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read_key(path)
        _make_key(path)
        return _read_key(path)
    except OSError:
        return b""


def _read_key(path: Path) -> bytes:
    """Raises OSError, also for a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # not waiting at a FIFO
    try:
        key = os.read(descriptor, KEY_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        return key if len(key) == KEY_BYTES else b""
    finally:
        os.close(descriptor)


def _make_key(path: Path) -> None:
    """Whole or not at all, and never over another one: two first runs at once, as on two nodes that share a home,
    both get the key of whichever was first. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"key.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
