"""What the process that first runs a person's job may write, and where."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.advise.job_words import slow
from tipbench.advise.surveyed import NoJob, job_environment, survey_job, write_command


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


FILLING = r"""
import os, tempfile
from pathlib import Path
from torch import nn
import torch

def compiles_into():
    print(os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"], tempfile.gettempdir(), file=SHOWN)
    return nn.Linear(2, 2), torch.ones(1, 2)

def prints():
    def step():
        while True:
            print("x" * 2**20)
    return step

def raises():
    raise ValueError("\033]0;another title\007")

def leaves():
    print("\033[2J", flush=True)
    os._exit(3)

def writes():
    def step():
        with open(os.environ["TMPDIR"] + "/large", "wb") as file:
            os.truncate(file.fileno(), 2**40)
    return step
"""


KEEPS = """
import functools, time
import torch

class Kept(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    @functools.cache
    def __getitem__(self, number):
        time.sleep(0.02)
        return torch.ones(4)

def job():
    return torch.nn.Linear(4, 1), torch.utils.data.DataLoader(Kept(), batch_size=4)
"""


def test_what_a_data_set_keeps_is_no_reason_for_workers(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(KEEPS)
    survey = survey_job(f"{tmp_path / 'job.py'}:job")
    assert survey.unlike
    assert survey.by_name["async-loading"].why_not.endswith("it can save time in the first epoch alone")
    assert "a first epoch is unlike all later ones" in slow(survey)[-1]


def test_a_command_that_goes_on_from_its_own_checkpoint_is_reported(tmp_path: Path) -> None:
    text = f"from pathlib import Path; import time\nmade = Path({str(tmp_path / 'checkpoint')!r})\n"
    (tmp_path / "train.py").write_text(f"{text}time.sleep(0.1 if made.exists() else 3); made.touch()\n")
    with job_environment("", [sys.executable, str(tmp_path / "train.py")]):
        survey = survey_job(f"{write_command(tmp_path)}:job")
    assert "If a run goes on from what an earlier one has left, as from a checkpoint" in slow(survey)[-1]


@pytest.mark.parametrize(
    ("job", "why"),
    [("prints", r"job.py:prints printed over 16 MiB"), ("writes", r"job.py:writes: its step raised .*File too large")],
)
def test_what_a_survey_may_write_is_limited(tmp_path: Path, job: str, why: str) -> None:
    (tmp_path / "job.py").write_text(FILLING)
    with pytest.raises(NoJob, match=why):
        survey_job(f"{tmp_path / 'job.py'}:{job}")


def test_a_survey_compiles_and_writes_in_a_folder_of_its_own(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a name that others can guess could hold what they have put there."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shown = tmp_path / "shown"
    (tmp_path / "job.py").write_text(FILLING.replace("SHOWN", f"open({str(shown)!r}, 'w')"))
    survey_job(f"{tmp_path / 'job.py'}:compiles_into")
    for folder in shown.read_text().split():
        assert Path(folder).relative_to(temporary).parts[0].startswith(f"tipbench-{os.getpid()}-")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("job", ["raises", "leaves"])
def test_what_a_job_says_does_not_steer_a_terminal(tmp_path: Path, job: str) -> None:
    (tmp_path / "job.py").write_text(FILLING)
    with pytest.raises(NoJob, match=f"job.py:{job}") as why:
        survey_job(f"{tmp_path / 'job.py'}:{job}")
    assert str(why.value).isprintable()
