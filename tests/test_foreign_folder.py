"""A working folder whose modules have names of the standard library's harms no process that is started from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.noise import noise
from tipbench.machine import doctor


@pytest.fixture(autouse=True)
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "random", "statistics"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the one of the standard library')\n")
    monkeypatch.chdir(tmp_path)


def test_the_noisy_neighbour_burns() -> None:
    with noise(0) as check:
        check()


def test_doctor_asks_torch() -> None:
    assert "torch" in doctor.ask_torch()
