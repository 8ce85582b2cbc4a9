"""The folder of an advice: what is stored in it, and what is not."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.test_advice_flow import Machine, summed
from tests.test_advise_page import SURVEY, together
from tipbench.advise import command, curves, parts, surveyed, tuned
from tipbench.cli import main
from tipbench.given.curve import JobCurve
from tipbench.given.survey import WayHere

WAYS = [
    WayHere("amp", "amp", "Use it.", "use(it)", changes_numbers=True),
    replace(
        WayHere("allocator", "allocator/glibc", "Keep it.", "X=1", one_of="x"),
        env={"MALLOC_TRIM_THRESHOLD_": "1"},
        preload=["/lib/libx.so"],
    ),
    WayHere("channels-last", "channels-last", "Do so.", "do()"),
]
A_JOB = replace(SURVEY, ways=WAYS)


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started."""
    machine = Machine(summed(**{"channels-last": 0.3}))
    monkeypatch.setattr(surveyed, "early_variables", lambda target: {})
    monkeypatch.setattr(command, "survey_job", lambda *_: A_JOB)
    monkeypatch.setattr(command, "describe_load", lambda: "")
    monkeypatch.setattr(curves, "sweep_job", lambda target, what, within_s: JobCurve(what))
    monkeypatch.setattr(command, "time", machine)
    for name in ("run", "time"):
        monkeypatch.setattr(parts, name, machine)


def test_an_advice_is_not_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").touch()
    assert main(["advise", f"{tmp_path / 'train.py'}:job", "--out", str(tmp_path / "advice")]) == 0
    (advice,) = (tmp_path / "advice").iterdir()
    assert main(["publish", "--to", f"git+file://{tmp_path}", str(advice)]) == 2
    assert "what is about a job of your own is not published" in capsys.readouterr().err


def test_the_words_of_a_command_are_stored_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "survey_job", lambda *_: replace(A_JOB, name="train.py", kind="command"))
    typed = ["--seed", "3", "--", sys.executable, "train.py", "--token", "hidden-one"]
    assert main(["advise", "--out", str(tmp_path / "advice"), *typed]) == 0
    (folder,) = (tmp_path / "advice").iterdir()
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"hidden-one" in file.read_bytes()]
    assert "hidden-one" not in "".join(capsys.readouterr())


def test_what_is_taken_away_is_sound_whatever_a_job_is_called(tmp_path: Path) -> None:
    outcome = together(1.5, a=1.5)
    tuned.write(
        tmp_path, "/x.py:job", replace(A_JOB, name='my "best"\\Users"""'), WAYS, outcome.gain, outcome.alone.controls
    )
    ast.parse((tmp_path / "tuned.py").read_text())
    exports = (tmp_path / "tuned.env").read_text().splitlines()
    assert exports[1:3] == ["export MALLOC_TRIM_THRESHOLD_=1", "export MALLOC_MMAP_MAX_=0"]
