"""Forms of jobs that the READMEs list, by the command itself and from end to end.

A training with a loss of its own, a `transformers.Trainer`, and a bare step go the same way up to a worker in
`test_advise.py` and `test_job_of_a_person.py`, and a Job in `test_given.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tipbench.engine.launcher import PASSIVE
from tipbench.given.survey import AS_IT_IS
from tipbench.records import store

pytestmark = pytest.mark.slow

FEW = f"""
import sys
from dataclasses import replace

sys.path.append({str(Path(__file__).parent.parent)!r})
import pytest
from tests.tiny import shrink
from tipbench.advise import command, parts
from tipbench.cli import main

survey_of, left, CHEAP = command.survey_job, "the test measures one tip", ("fused-optimizer", "no-grad")

def surveyed(*words):
    survey = survey_of(*words)
    one, *others = sorted((way for way in survey.ways if not way.why_not), key=lambda way: way.tip not in CHEAP)
    return replace(survey, ways=[replace(way, why_not=way.why_not or left * (way is not one)) for way in survey.ways])

command.survey_job = surveyed
parts.LEAST_S, parts.first_combination = 1e9, lambda *_: ()  # all of the time is for the tip alone
shrink(pytest.MonkeyPatch())
sys.exit(main())
"""
"""The command with one tip, next to no launches, and no control beside pairs of one's own."""

BEFORE = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

model = lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
data = TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
sgd = lambda model: torch.optim.SGD(model.parameters(), 0.1)
"""

WITH_LOSS = """
class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def forward(self, inputs, labels):
        return {"loss": cross_entropy(self.layer(inputs), labels)}

def job():
    made = WithLoss()
"""

LIGHTNING = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)

    def training_step(self, batch, _):
        loss = cross_entropy(self.layer(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = sgd(self)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10)}

class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(data, batch_size=16)

def job():
"""

JOBS = {
    "model and batch": "def job():\n    return model(), torch.ones(64, 16)",
    "loss of the model": f"{WITH_LOSS}    return made, DataLoader(data, batch_size=16), None, sgd(made)",
    "Lightning with a data module": f"{LIGHTNING}    return Module(), Data()",
}

PAIRS = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from tipbench.tip.words import *

TIP = Tip(id="shapes", title="Do so", guide=("mine",), claim=Claim.FASTER, mechanism=falls("operations", operations))

def four(x, parts):
    for _ in range(parts):
        x = x + 4 / parts
    return x

class Ways(Pair):
    def baseline(self):
        x = torch.randn(1000)
        return lambda: four(x, 4)

    def optimized(self):
        x = torch.randn(1000)
        return lambda: four(x, 1)

    @variant
    @process_settings(env={"OMP_NUM_THREADS": "1"})
    def another(self):
        return self.optimized()

class Swept(Pair):
    def baseline(self):
        x = torch.randn(1000)
        return lambda: four(x, 4)

    @sweep(parts=(1, 2))
    def optimized(self, parts=1):
        x = torch.randn(1000)
        return lambda: four(x, parts)

class Model(nn.Linear):
    parts = 4

    def forward(self, x):
        return super().forward(four(x, self.parts))

def follow(job):
    job.model.parts = 1

class Whole(MacroPair, apply=follow):
    def job(self):
        model = Model(16, 4)
        data = TensorDataset(torch.randn(64, 16), torch.randint(4, (64,)))
        return Job(model, data, optimizer=torch.optim.SGD(model.parameters(), 0.1), batch_size=16)
"""


def ended(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", FEW, *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **PASSIVE}, capture_output=True, text=True)


def expect_advice(folder: Path, described: str, *job: str) -> None:
    """That the command writes an advice in which the job is described, and measures a tip on it."""
    done = ended(folder, "advise", "--busy", "--budget", "3m", *job)
    assert done.returncode in (0, 1), done.stderr  # 1: other tests beside this one make a job differ from itself
    runs = [store.read(file)[0] for file in folder.glob("advice/*/alone/**/*.jsonl")]
    measured = [record.info.tip.id for run in runs for record in run.records if record.outcome == "measured"]
    assert AS_IT_IS in measured
    assert len(measured) == 2
    (page,) = [file.read_text() for file in folder.glob("advice/*/advice.md")]
    assert described in page
    assert "fails here" not in page
    (html,) = folder.glob("advice/*/advice.html")
    assert f"page: {html}" in done.stdout
    assert json.loads(html.with_suffix(".json").read_text())["job"] == described.partition(": ")[0]


@pytest.mark.parametrize("form", JOBS)
def test_whatever_a_function_may_return_is_measured(tmp_path: Path, form: str) -> None:
    (tmp_path / "train.py").write_text(f"{BEFORE}\n{JOBS[form]}\n")
    kind = "an inference" if form == "model and batch" else "a training"
    expect_advice(tmp_path, f"train.py:job: {kind}", "train.py:job")


def test_a_command_is_measured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.randn(512, 512).sum()\n")
    expect_advice(tmp_path, "train.py: a command", "--", sys.executable, "train.py", "--epochs", "1")


def test_pairs_of_ones_own_are_measured(tmp_path: Path) -> None:
    """From a file; `test_cli.py` measures those of a folder."""
    (tmp_path / "shapes.py").write_text(PAIRS)
    done = ended(tmp_path, "run", "--from", "shapes.py", "--results", "results")
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "results").rglob("*.jsonl")
    records = [record for record in store.read(file)[0].records if record.info.tip.id == "shapes"]
    sides = {record.info.pair: {side: of.outcome for side, of in record.variants.items()} for record in records}
    assert sides == {
        "Ways": dict.fromkeys(["baseline", "optimized", "another"], "measured"),
        "Swept": dict.fromkeys(["baseline", "parts=1", "parts=2"], "measured"),
        "Whole": dict.fromkeys(["baseline", "optimized"], "measured"),
    }, [record.reason for record in records]
