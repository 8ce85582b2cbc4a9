"""What the process that first runs a person's job may write, and where."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.advise.surveyed import NoJob, surveyed


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


@pytest.mark.parametrize(
    ("job", "why"),
    [("prints", r"job.py:prints printed over 16 MiB"), ("writes", r"job.py:writes: its step raised .*File too large")],
)
def test_what_a_survey_may_write_is_limited(tmp_path: Path, job: str, why: str) -> None:
    (tmp_path / "job.py").write_text(FILLING)
    with pytest.raises(NoJob, match=why):
        surveyed(f"{tmp_path / 'job.py'}:{job}")


def test_a_survey_compiles_and_writes_in_a_folder_of_its_own(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a name that others can guess could hold what they have put there."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shown = tmp_path / "shown"
    (tmp_path / "job.py").write_text(FILLING.replace("SHOWN", f"open({str(shown)!r}, 'w')"))
    surveyed(f"{tmp_path / 'job.py'}:compiles_into")
    for folder in shown.read_text().split():
        assert Path(folder).relative_to(temporary).parts[0].startswith(f"tipbench-{os.getpid()}-")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("job", ["raises", "leaves"])
def test_what_a_job_says_does_not_steer_a_terminal(tmp_path: Path, job: str) -> None:
    (tmp_path / "job.py").write_text(FILLING)
    with pytest.raises(NoJob, match=f"job.py:{job}") as why:
        surveyed(f"{tmp_path / 'job.py'}:{job}")
    assert str(why.value).isprintable()
