"""A person's job as their own program runs it: its environment, its folder, and what it leaves behind."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch

from tests.given_jobs import encoder
from tipbench.advise.pairs import write_alone
from tipbench.advise.surveyed import NoJob, absolute, job_environment, survey_job, write_command
from tipbench.engine.checks import check_pair
from tipbench.engine.launcher import Launcher
from tipbench.given.forms import job_of
from tipbench.given.frameworks import TrainerJob
from tipbench.given.survey import Survey
from tipbench.machine.activity import OCCUPIED
from tipbench.machine.controls import controls
from tipbench.suite.discover import discover

JOB = """
from torch import nn
import torch

def job():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4)
"""


def survey_of(file: Path, text: str) -> Survey:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    target = absolute(f"{file}:job")
    with job_environment(target):
        return survey_job(target)


# ---- its environment ----


def test_what_the_shell_sets_is_kept_and_shown_and_no_token_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TIPBENCH_TOKEN", "hidden")
    text = f"import os\nassert 'TIPBENCH_TOKEN' not in os.environ, 'the token is here'\n{JOB}"
    survey = survey_of(tmp_path / "train.py", text)
    assert (survey.variables, survey.threads) == (["OMP_NUM_THREADS=1"], 1)


def test_a_file_that_fails_before_it_imports_torch_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(NoJob, match=r"^importing train.py raised ValueError: no data \(train.py, line 1\)$"):
        survey_of(tmp_path / "train.py", f"raise ValueError('no data')\n{JOB}")


# ---- its folder ----


def test_a_relative_path_begins_where_the_command_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "width.txt").write_text("4")
    text = f"from pathlib import Path\nassert Path('width.txt').read_text() == '4'\n{JOB}"
    assert survey_of(tmp_path / "code" / "train.py", text).parameters == 20


@pytest.mark.parametrize("packaged", [True, False])
def test_a_file_with_relative_imports_is_imported_as_a_part_of_its_package(tmp_path: Path, packaged: bool) -> None:
    inside = tmp_path / "project" / "models" / "small"
    inside.mkdir(parents=True)
    (inside.parent / "sizes.py").write_text("WIDTH = 4\n")
    (inside / "names.py").write_text("NAME = 'small'\n")
    if packaged:
        for folder in (inside, inside.parent):
            (folder / "__init__.py").touch()
    text = f"from ..sizes import WIDTH\nfrom .names import NAME\n{JOB.replace('4', 'WIDTH')}"
    assert survey_of(inside / "train.py", text).parameters == 20
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_package_of_theirs_named_benchmarks_is_theirs_when_imported_in_a_step_too(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "data.py").write_text("WIDTH = 4\n")
    (tmp_path / "benchmarks" / "later.py").write_text("HEIGHT = 3\n")
    step = "def step():\n    from benchmarks.later import HEIGHT\n    return torch.ones(HEIGHT, WIDTH)\n"
    file = tmp_path / "train.py"
    file.write_text(f"import torch\nfrom benchmarks.data import WIDTH\n{step}\ndef job():\n    return step\n")
    survey = survey_job(f"{file}:job")
    write_alone(tmp_path / "pairs", f"{file}:job", survey)
    (info,) = (pair for pair in discover(tmp_path / "pairs", "cpu", of_data=True).pairs if pair.tip.id == "as-it-is")
    with closing(Launcher(tmp_path / "pairs", controls(1))) as launcher:
        assert check_pair(info, launcher.start, 0).outcome == "measured"


def test_a_module_of_theirs_with_a_name_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    """As a package; a file is in `test_cases.py`."""
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "__init__.py").write_text("WIDTH = 4\n")
    with pytest.raises(NoJob, match=r"^train.py:job: it imports a module of yours named queue, .*rename yours, or"):
        survey_of(tmp_path / "train.py", f"import queue\n{JOB}")
    assert survey_of(tmp_path / "train.py", JOB).parameters == 20, "it is only beside the file"


def test_a_module_of_theirs_with_a_name_of_the_standard_library_that_nobody_needs_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "test.py").write_text("WIDTH = 4\n")
    assert survey_of(tmp_path / "train.py", f"from test import WIDTH\n{JOB}").parameters == 20


# ---- its step ----


def test_a_step_of_a_trainer_is_of_all_batches_whose_gradients_it_accumulates() -> None:
    job, alike = (job_of(encoder.job(gradient_accumulation_steps=count, seed=1)) for count in (4, 1))
    assert isinstance(job, TrainerJob)
    assert isinstance(alike, TrainerJob)
    for one in (job, alike):
        one.model.load_state_dict(job.model.state_dict())
        one.model.eval()  # the Trainer's own step switches dropout on
        for module in one.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    steps: list[None] = []
    assert job.optimizer is not None
    job.optimizer.register_step_post_hook(lambda *_: steps.append(None))
    loss, _ = job.step()
    batches = [alike.next_batch() for _ in range(4)]
    alone = [alike.trainer.compute_loss(alike.model, batch).detach() for batch in batches]
    assert len(steps) == 1
    assert loss.item() == pytest.approx(sum(alone).item() / 4, rel=1e-5)


def test_a_step_that_maps_large_temporaries_anew_is_seen(tmp_path: Path) -> None:
    """40 MiB each: glibc gives back to the kernel what is larger than 32."""
    text = "import torch\ndef job():\n    return torch.nn.ReLU(), torch.ones(10 * 2**20)\n"
    survey = survey_of(tmp_path / "train.py", text)
    assert survey.faults >= 10 * 2**10
    assert survey.by_name["allocator/glibc-keeping"].first or survey.others > OCCUPIED  # then a step takes long
    assert not survey_of(tmp_path / "train.py", JOB).by_name["allocator/glibc-keeping"].first


REUSING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Again:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class Kept(DataLoader):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        object.__setattr__(self, "batch_sampler", Again(self.batch_sampler))
        self.batches = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.batches)


def job():
    model = nn.Linear(4, 1)
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    return model, Kept(data, batch_size=8, num_workers=1), nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.1)
"""


def test_a_loader_of_a_class_with_batches_of_its_own_is_used_as_it_is(tmp_path: Path) -> None:
    survey = survey_of(tmp_path / "train.py", REUSING)
    assert survey.is_compared
    assert survey.by_name["async-loading"].why_not == "the batches do not come from a DataLoader"


# ---- what it leaves behind ----


def test_a_program_that_a_command_leaves_running_takes_no_time(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 60 &"]
    with job_environment("", command):
        survey = survey_job(f"{write_command(tmp_path)}:job")
    assert survey.step_s < 60


def test_a_command_has_its_own_words_and_not_the_variable_that_holds_them(tmp_path: Path) -> None:
    test = "import os, sys; sys.exit('TIPBENCH_COMMAND' in os.environ or sys.argv[1:] != ['--lr', 'a b'])"
    with job_environment("", [sys.executable, "-c", test, "--lr", "a b"]):
        assert survey_job(f"{write_command(tmp_path)}:job").kind == "command"
