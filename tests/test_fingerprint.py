"""The fingerprint of a machine: what it is made of, where there is none, and what becomes of its key."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.made_up import edited, files, info, measured, run, stored
from tipbench.machine import fingerprint as module
from tipbench.machine.fingerprint import KEY_BYTES, NODE, fingerprint, key_path
from tipbench.records import store

MACHINE_ID, OTHER_ID = "4c4c4544004b3510804bb6c04f4d5931\n", "0123456789abcdef0123456789abcdef\n"
UUID = "4c4c4544-004b-3510-804b-b6c04f4d5931\n"

MACHINE = {"etc/machine-id": MACHINE_ID, "sys/class/dmi/id/product_uuid": UUID}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and no other word of where states are."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def of(tmp_path: Path, machine: Mapping[str, str], environment: Mapping[str, str] | None = None) -> str:
    """Of a machine whose root folder holds these files."""
    root = tmp_path / f"root{len(list(tmp_path.iterdir()))}"
    root.mkdir()
    return fingerprint(files(root, machine), environment or {})


# ---- what it is made of ----


def test_a_machine_has_one_that_stays_and_says_none_of_its_ids(tmp_path: Path) -> None:
    first, again = of(tmp_path, MACHINE), of(tmp_path, MACHINE)
    assert first == again
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first not in MACHINE_ID + UUID.replace("-", "")


@pytest.mark.parametrize(
    "other",
    [
        {"etc/machine-id": OTHER_ID},
        {"sys/class/dmi/id/product_uuid": UUID.replace("4c4c", "5d5d")},
        {"sys/class/dmi/id/product_serial": "SN4711"},
        {"sys/class/dmi/id/board_serial": "SN4711"},
    ],
)
def test_another_id_or_another_serial_number_is_another_machine(tmp_path: Path, other: Mapping[str, str]) -> None:
    assert of(tmp_path, MACHINE) != of(tmp_path, {**MACHINE, **other})


def test_nodes_of_one_image_differ_by_their_names(tmp_path: Path) -> None:
    """They share a machine-id and a home, and so the key."""
    nodes = {of(tmp_path, MACHINE, {NODE: name}) for name in ("node1", "node2", "")}
    assert len(nodes) == 3
    assert of(tmp_path, MACHINE, {NODE: "node1"}) in nodes


# ---- where there is none ----


@pytest.mark.parametrize(
    "machine",
    [
        {},
        {"etc/machine-id": ""},
        {"etc/machine-id": "uninitialized\n"},
        {"etc/machine-id": "0" * 32},
        {"sys/class/dmi/id/product_serial": "To be filled by O.E.M."},
        {"sys/class/dmi/id/product_uuid": UUID},
    ],
)
def test_nothing_that_many_machines_share_identifies_one(
    tmp_path: Path, machine: Mapping[str, str], home: Path
) -> None:
    assert of(tmp_path, machine) == ""
    assert list(home.iterdir()) == [], "no key is made for nothing"


@pytest.mark.parametrize(
    "marks",
    [
        {".dockerenv": ""},
        {"run/.containerenv": ""},
        {"run/systemd/container": "lxc\n"},
        {".singularity.d/runscript": ""},
        {"proc/1/cgroup": "12:memory:/docker/0123456789ab\n0::/\n"},
        {"proc/1/cgroup": "0::/kubepods/besteffort/pod0123\n"},
    ],
)
def test_the_machine_id_of_a_container_is_its_images(tmp_path: Path, marks: Mapping[str, str]) -> None:
    assert of(tmp_path, {**MACHINE, **marks}) == ""
    assert of(tmp_path, {**MACHINE, **marks}, {NODE: "node1"}) != "", "a fleet's name of the node is the node's"


def test_wsl_is_none(tmp_path: Path) -> None:
    assert of(tmp_path, {**MACHINE, "run/systemd/container": "wsl\n", "proc/1/cgroup": "0::/init.scope\n"}) != ""


# ---- the key ----


def test_the_key_is_the_users_own_and_random(tmp_path: Path, home: Path) -> None:
    of(tmp_path, MACHINE)
    key = home / ".local/state/tipbench/key"
    assert key_path() == key
    assert len(key.read_bytes()) == KEY_BYTES
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert list(key.parent.iterdir()) == [key], "nothing else is left there"


def test_two_homes_have_two_fingerprints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = of(tmp_path, MACHINE)
    for name in ("second", "third"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / name))
        assert of(tmp_path, MACHINE) != first
    monkeypatch.delenv("XDG_STATE_HOME")
    assert of(tmp_path, MACHINE) == first


def test_first_runs_at_once_get_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = files(tmp_path / "root", MACHINE)
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda _: fingerprint(root, {}), range(40))}) == 1
    key = key_path().read_bytes()
    # One that was looked for, was not there, and was made by another process meanwhile.
    module._make_key(key_path())
    assert key_path().read_bytes() == key


def read_only(home: Path) -> None:
    (home / ".local").write_text("a file, as root may write into any folder")


def folder(home: Path) -> None:
    key_path().mkdir(parents=True)


def fifo(home: Path) -> None:
    key_path().parent.mkdir(parents=True)
    os.mkfifo(key_path())


def long(home: Path) -> None:
    key_path().parent.mkdir(parents=True)
    key_path().write_bytes(b"0" * 10 * KEY_BYTES)


@pytest.mark.parametrize("broken", [read_only, folder, fifo, long])
def test_without_a_usable_state_folder_there_is_none_and_nothing_is_changed(
    tmp_path: Path, home: Path, broken: object
) -> None:
    assert callable(broken)
    broken(home)
    before = sorted(home.rglob("*"))
    assert of(tmp_path, MACHINE) == ""
    assert sorted(home.rglob("*")) == before


# ---- in a results file ----


def test_it_is_stored_in_the_header_and_older_files_have_none(tmp_path: Path) -> None:
    made = run([measured(info(), {"optimized": 0.3})], fingerprint="0" * 32)
    file = stored(tmp_path, made)
    assert store.header(file).fingerprint == store.read(file)[0].fingerprint == "0" * 32
    edited(file, lambda lines: lines[0].pop("fingerprint"))
    assert store.read(file) == (run(made.records), [])
