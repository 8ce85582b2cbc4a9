"""Every form of job that the READMEs list, by the command itself and from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tipbench.engine.launcher import PASSIVE

pytestmark = pytest.mark.slow

TIPBENCH = [sys.executable, "-P", "-m", "tipbench"]
BUDGET = "60s"

BEFORE = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from tipbench.tip.words import Job

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
        return cross_entropy(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return sgd(self)

class Data(lightning.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(data, batch_size=16)

def job():
"""

TRAINER = """
    import tempfile, transformers
    items = [{"inputs": torch.randn(16), "labels": torch.tensor(number % 4)} for number in range(64)]
    options = transformers.TrainingArguments(tempfile.mkdtemp(), use_cpu=True, report_to=[])
    return transformers.Trainer(made, options, train_dataset=items)
"""

JOBS = {
    "model and batch": "def job():\n    return model(), torch.ones(64, 16)",
    "model and loader": "def job():\n    return model(), DataLoader(data.tensors[0], batch_size=16)",
    "training": "def job():\n    made = model()\n    return made, DataLoader(data, 16), cross_entropy, sgd(made)",
    "loss of the model": f"{WITH_LOSS}    return made, DataLoader(data, batch_size=16), None, sgd(made)",
    "Job": "def job():\n    made = model()\n    return Job(made, data, optimizer=sgd(made), batch_size=16)",
    "Trainer": f"{WITH_LOSS}{TRAINER}",
    "Lightning with a data module": f"{LIGHTNING}    return Module(), Data()",
    "Lightning with a loader": f"{LIGHTNING}    return Module(), DataLoader(data, batch_size=16)",
    "callable": "def job():\n    a = torch.randn(512, 512)\n    return lambda: a @ a",
    "callable that returns nothing": "def job():\n    a = torch.randn(512, 512)\n    return lambda: print(a.sum())",
}
KINDS = {"model": "an inference", "callable": "a step of which nothing is known"}


def ended(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [*TIPBENCH, *words], cwd=folder, env={**os.environ, **PASSIVE}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def expect_advice(folder: Path, described: str, *job: str) -> None:
    """That the command writes an advice in which the job is described, and tips on it are measured."""
    printed = ended(folder, "advise", "--busy", "--budget", BUDGET, *job)
    (place,) = (folder / "advice").iterdir()
    page, stored = (place / "advice.md").read_text(), json.loads((place / "advice.json").read_text())
    assert described in page
    assert described in printed
    assert "fails here" not in page
    assert stored["tips"], "no tip was measured"
    assert (place / "advice.html").exists()


@pytest.mark.parametrize("form", JOBS)
def test_whatever_a_function_may_return_is_measured(tmp_path: Path, form: str) -> None:
    (tmp_path / "train.py").write_text(f"{BEFORE}\n{JOBS[form]}\n")
    kind = next((kind for start, kind in KINDS.items() if form.startswith(start)), "a training")
    expect_advice(tmp_path, f"train.py:job: {kind}", "train.py:job")


def test_a_command_is_measured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.randn(512, 512).sum()\n")
    expect_advice(tmp_path, "train.py: a command", "--", sys.executable, "train.py", "--epochs", "1")
