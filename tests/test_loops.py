"""The scripts that pages show tips in run, and so does each as a diff changes it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.test_do import IN_PYTHON, TIPS, no_code_is_generated, undone
from tipbench.report.markdown import how
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.loops import changed_script, loop_diff

__all__ = ["no_code_is_generated", "undone"]

LOOPS = sorted((BENCHMARKS / "loops").glob("*.py"))

ELSEWHERE = ("model.blocks", "len(sample[0])", "data.samples", "data.transform", "prefetch_factor", "torch.cuda", "{")
"""Texts that need what the scripts have not: a model of blocks, sequences, an ImageFolder, transforms, workers, a GPU,
a value that a run fills in. `test_do.py` runs them in the jobs of their tips."""

TEXTS = {
    f"{name.partition('.')[0]}[{variant.name}]": text
    for name, variant, text in IN_PYTHON
    if loop_diff(text, "training")
    and "Distributed" not in text
    and "no_sync" not in text
    and not any(word in text for word in ELSEWHERE)
}


@pytest.mark.parametrize("script", LOOPS, ids=lambda script: script.stem)
def test_a_script_is_short_and_runs(script: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) <= 25
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"] if "process_group" in text else []
    env = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}  # not the address of the host's name, which may lead nowhere
    # torch 2.15 aborts both ranks at their exit, after the work, in 6 of 84 starts on two busy cores ("terminate called
    # without an active exception"), with a barrier before the group is destroyed or the model deleted as well.
    for _ in range(3):
        done = subprocess.run([sys.executable, *start, script], env=env, capture_output=True, text=True, timeout=120)
        if "without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.usefixtures("undone", "no_code_is_generated")
@pytest.mark.filterwarnings("ignore")  # such as of a precision that this machine does not speed up
@pytest.mark.parametrize("name", TEXTS)
def test_a_script_that_a_diff_has_changed_runs(name: str, tmp_path: Path) -> None:
    infers = "infer" in TIPS[name.partition("[")[0]].title or name.startswith("no-grad")
    script = (BENCHMARKS / "loops" / f"{'inference' if infers else 'training'}.py").read_text()
    (tmp_path / "job.py").write_text(changed_script(script, TEXTS[name]))
    names = runpy.run_path(str(tmp_path / "job.py"))
    assert torch.isfinite(names["outputs" if infers else "loss"]).all()


def test_a_diff_shows_what_leaves_and_what_stands_in_its_place() -> None:
    assert loop_diff("with torch.no_grad(): outputs = model(batch)  # no training", "inference").splitlines() == [
        " for batch, targets in loader:",
        "     batch, targets = batch.to(device), targets.to(device)",
        "-    outputs = model(batch)",
        "+    # no training",
        "+    with torch.no_grad():",
        "+        outputs = model(batch)",
    ]
    of_a_start = loop_diff("OMP_NUM_THREADS=2 python train.py", "training")
    assert of_a_start == "-python train.py\n+OMP_NUM_THREADS=2 python train.py"


@pytest.mark.parametrize("text", ["F.softmax(query @ key.mT)", "nn.GELU()", "tar xf photos.tar", ""])
def test_code_of_a_model_is_shown_by_itself(text: str) -> None:
    assert loop_diff(text, "training") == ""
    assert how(text, "training") == f"```python\n{text}\n```"
