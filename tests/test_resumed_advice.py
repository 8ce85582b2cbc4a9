"""An advice that goes on, or whose folder is damaged."""

from __future__ import annotations

import ast
import shlex
import shutil
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
A_JOB = replace(
    SURVEY,
    ways=WAYS,
    card=dict.fromkeys(("flops", "bytes", "peak_flops", "peak_bytes"), 1e9)
    | {"loading": 0.01, "forward": 0.02, "backward": 0.02, "optimizer": 0.01},
    by_hand=[("x", "X", "x()")],
)


@pytest.fixture
def machine() -> Machine:
    return Machine(summed(**{"channels-last": 0.3}))


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    """No process is started."""
    monkeypatch.setattr(surveyed, "early_variables", lambda target: {})
    monkeypatch.setattr(command, "survey_job", lambda *_: A_JOB)
    monkeypatch.setattr(command, "describe_load", lambda: "")
    monkeypatch.setattr(curves, "sweep_job", lambda target, what, within_s: JobCurve(what))
    monkeypatch.setattr(command, "time", machine)
    for name in ("run", "time"):
        monkeypatch.setattr(parts, name, machine)


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "train.py").touch()
    return f"{tmp_path / 'train.py'}:job"


@pytest.fixture
def advice(tmp_path: Path, job: str) -> Path:
    """The folder of an advice that has ended."""
    assert main(["advise", job, "--out", str(tmp_path / "advice")]) == 0
    (folder,) = (tmp_path / "advice").iterdir()
    return folder


def resumed(advice: Path, *words: str) -> int:
    return main(["advise", "--resume", str(advice), *words])


def test_an_advice_is_not_published(tmp_path: Path, advice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", "--to", f"git+file://{tmp_path}", str(advice)]) == 2
    assert "what is about a job of your own is not published" in capsys.readouterr().err


def test_an_unwritable_part_is_one_sentence(advice: Path, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    (pairs,) = advice.glob("together*/pairs")
    shutil.rmtree(pairs)
    pairs.touch()
    assert resumed(advice, job) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"tipbench: {pairs} cannot be written: not a directory; ")
    assert message.endswith("begin a new advice with --out")


@pytest.mark.parametrize("words", [[], ["OTHER"], ["JOB", "--seed", "7"], ["--", sys.executable, "JOB"]])
def test_an_advice_goes_on_only_with_the_job_and_options_that_are_typed_again(
    tmp_path: Path, advice: Path, job: str, machine: Machine, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.py").touch()
    typed = [{"JOB": job, "OTHER": f"{tmp_path / 'other.py'}:job"}.get(word, word) for word in words]
    assert resumed(advice, *typed) == 2
    message = capsys.readouterr().err
    again = shlex.split(message.partition("type ")[2])
    assert again == ["tipbench", "advise", "--resume", str(advice), job]
    assert machine.further == []
    assert main(again[1:]) == 0
    assert machine.further != []


def test_the_words_and_the_folder_of_a_command_are_typed_again(
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
    assert resumed(folder, *typed) == 0
    capsys.readouterr()
    assert resumed(folder, *typed[:-1], "c") == 2
    assert capsys.readouterr().err.endswith(f"tipbench advise --resume {folder} --seed 3 -- train.py ...\n")
    here = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert resumed(folder, *typed) == 2
    message = capsys.readouterr().err
    assert f"{folder} was begun in {here}, where relative paths of the job begin" in message
    assert f"type cd {here} && tipbench advise --resume {folder} --seed 3 -- train.py ..." in message


def test_what_is_taken_away_is_sound_whatever_a_job_is_called(tmp_path: Path) -> None:
    outcome = together(1.5, a=1.5)
    tuned.write(
        tmp_path, "/x.py:job", replace(A_JOB, name='my "best"\\Users"""'), WAYS, outcome.gain, outcome.alone.controls
    )
    ast.parse((tmp_path / "tuned.py").read_text())
    exports = (tmp_path / "tuned.env").read_text().splitlines()
    assert exports[1:3] == ["export MALLOC_TRIM_THRESHOLD_=1", "export MALLOC_MMAP_MAX_=0"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"subject": 3}'])
def test_a_damaged_one_is_one_sentence(advice: Path, job: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (advice / "job.json").write_text(text)
    assert resumed(advice, job) == 2
    assert capsys.readouterr().err.endswith("begin a new advice\n")
