"""The lines of the shell that a tip says to write start a process as the harness starts its variant's worker."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

import pytest
import torch

from tests.test_do import IN_JOBS, IN_SEVERAL, NEAR, TEXTS, case
from tests.test_pairs import PAIRS
from tests.test_tips import SHELL
from tipbench.machine import native
from tipbench.machine.controls import FOREIGN, clean_environment
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.pair import Variant, variants
from tipbench.worker.outputs import worst_difference

ALONE = {"PYTHONPATH": str(BENCHMARKS.parent), "GLOO_SOCKET_IFNAME": "lo", "PET_STANDALONE": "1"}
"""With these torchrun takes a free port, as other tests may run beside."""

ASSIGNMENT = re.compile(r"[A-Z_]+=")
LINES = [
    *{
        (name.startswith("launcher."), text, variant.settings): (name, variant, text)
        for name, variant, text in reversed(TEXTS)
        if SHELL.match(text)
    }.values()
][::-1]
"""Each once, in the first pair that it is for."""
BY_LAUNCHER = "launcher."
"""Pairs whose line starts another program, which sets what their workers are started with."""

OTHER_COUNTS = ("openmp-threads.SmallOperations",)
"""Operations alone that are tried with other settings than the line's, which is about two processes."""

TRAIN = """
import json, os
from pathlib import Path
maps, policies = (Path("/proc/self", name).read_text() for name in ("maps", "numa_maps"))
answer = {"env": dict(os.environ), "maps": maps, "policies": policies, "cores": sorted(os.sched_getaffinity(0))}
Path("answer.json").write_text(json.dumps(answer))
"""

FOLLOWS = """
import sys
import torch
import torch.distributed as dist
from tests.following import followed
from tests.test_do import PAIRS, TIPS
from tests.written import text_of
from tipbench.tip.pair import variants
from tipbench.worker.guard import seed_generators
from tipbench.worker.outputs import snapshot

torch.set_num_threads(1)
name, side = sys.argv[1:]
pair = PAIRS[name](torch.device("cpu"), for_test=True)
variant = next(variant for variant in variants(PAIRS[name]) if variant.name == side)
answers = {}
# The text first: it starts the process group that the other side needs.
for key, build in (
    ("written", lambda: followed(pair, variant, text_of(TIPS[name.partition(".")[0]], variant))),
    ("ran", getattr(pair, variant.builder)),
):
    seed_generators(1)
    step = build()
    outputs = [snapshot(step()) for _ in range(3)]
    answers[key] = {"outputs": outputs, "count": pair.mechanism.count(step), "processes": dist.get_world_size()}
torch.save(answers, f"answer-{dist.get_rank()}.pt")
dist.barrier()
dist.destroy_process_group()
"""


def settings_of(name: str, variant: Variant) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """(variables, libraries, words before the interpreter) that a variant's worker has and its baseline's has not."""
    baseline, ours = next(variants(PAIRS[name])).settings, variant.settings
    assert ours.ranks in (baseline.ranks, variant.arguments.get("instances"))  # each is started by the line
    env = dict(sorted(set(ours.env) - set(baseline.env)))
    return env, ours.preload, ours.prefix


def missing(libraries: Sequence[str], files: Sequence[str], prefix: Sequence[str]) -> str:
    """Why a line cannot be tried here; empty if it can."""
    for name in (*libraries, *prefix[:1]):
        if reason := native.missing(name):
            return reason.text
    places = zip(libraries, files, strict=True)
    absent = [file for name, file in places if not ((path := native.find(name)) and (path.parent / file).exists())]
    return f"no {absent[0]} here" if absent else ""


def environment() -> dict[str, str]:
    """Where the line's names mean what they mean on a machine where all is installed."""
    folders = {str(path.parent) for library in ("jemalloc", "tcmalloc", "iomp5") if (path := native.find(library))}
    numactl = native.find("numactl")
    programs = [str(Path(sys.executable).parent), *([str(numactl.parent)] if numactl else []), os.environ["PATH"]]
    return {**clean_environment(), "PATH": ":".join(programs), "LD_LIBRARY_PATH": ":".join(sorted(folders))}


def started(line: str, folder: Path, train: str, *arguments: str, **more: str) -> dict[str, str]:
    """The environment in which a line was started, with this `train.py`."""
    (folder / "train.py").write_text(train)
    torchrun = folder / "torchrun"  # of this environment, wherever its packages are
    torchrun.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m torch.distributed.run "$@"\n')
    torchrun.chmod(0o755)
    env = environment() | more
    env["PATH"] = f"{folder}:{env['PATH']}"
    command = " ".join([line, *map(shlex.quote, arguments)])
    done = subprocess.run(["bash", "-c", command], env=env, cwd=folder, capture_output=True, text=True, timeout=200)
    if "Operation not permitted" in done.stderr:
        pytest.skip(f"not permitted here: {line}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "cannot be preloaded" not in done.stderr
    return env


def words_of(line: str) -> tuple[dict[str, str], list[str]]:
    """(variables that a line sets, its other words), as the shell expands them."""
    command = f"printf '%s\\n' {line}"
    printed = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True, check=True)
    words = printed.stdout.splitlines()
    variables = dict(word.split("=", 1) for word in takewhile(ASSIGNMENT.match, words))
    return variables, words[len(variables) :]


@pytest.mark.parametrize(
    ("name", "variant", "line"),
    [case(*each) for each in LINES if each[0] not in OTHER_COUNTS and not each[0].startswith(BY_LAUNCHER)],
)
def test_a_line_starts_a_process_as_the_worker_starts(name: str, variant: Variant, line: str, tmp_path: Path) -> None:
    expected, libraries, prefix = settings_of(name, variant)
    variables, words = words_of(line)
    preloaded = variables.get("LD_PRELOAD", "").split(":") if libraries else []
    assert {key: value for key, value in variables.items() if key != "LD_PRELOAD" or not libraries} == expected
    assert words == [*prefix, "python", "train.py"]
    for library, file in zip(libraries, preloaded, strict=True):
        assert any(fnmatchcase(file, pattern) for pattern in native.LIBRARIES[library])
    if why_not := missing(libraries, preloaded, prefix):
        pytest.skip(why_not)
    before = started(line, tmp_path, TRAIN)
    here = json.loads((tmp_path / "answer.json").read_text())
    changed = {key: value for key, value in here["env"].items() if key.startswith(FOREIGN) and before.get(key) != value}
    assert changed == variables
    assert all(f"/{file}" in here["maps"] for file in preloaded)
    assert ("bind:0" in here["policies"]) == bool(prefix)


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        pytest.param(variant, line, id=variant.name)
        for name, variant, line in LINES
        if name == f"{BY_LAUNCHER}ResNetInference"
    ],
)
def test_pytorch_s_launcher_sets_what_the_worker_is_started_with(variant: Variant, line: str, tmp_path: Path) -> None:
    settings = variant.settings
    if why_not := [reason.text for library in settings.preload if (reason := native.missing(library))]:
        pytest.skip(why_not[0])
    (tmp_path / "lib").mkdir()
    for library in settings.preload:  # under the names that the launcher looks for
        (tmp_path / "lib" / f"lib{library}.so").symlink_to(str(native.find(library)))
    before = started(line, tmp_path, TRAIN, VIRTUAL_ENV=str(tmp_path), HOME=str(tmp_path))
    here = json.loads((tmp_path / "answer.json").read_text())
    env = {key: value for key, value in here["env"].items() if key.startswith(FOREIGN) and before.get(key) != value}
    preloaded = env.pop("LD_PRELOAD").split(":")
    assert {key: value for key, value in env.items() if not key.startswith("TORCHELASTIC")} == dict(settings.env)
    assert [Path(file).resolve() for file in preloaded] == [native.find(library) for library in settings.preload]
    program, option, cores = settings.prefix
    assert (program, option) == ("taskset", "-c")
    first, last = map(int, cores.split("-"))
    assert here["cores"] == sorted({*range(first, last + 1)} & os.sched_getaffinity(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant", "text"), [case(*each) for each in IN_JOBS if each[0].startswith(IN_SEVERAL)]
)
def test_the_line_starts_processes_that_do_what_ran(name: str, variant: Variant, text: str, tmp_path: Path) -> None:
    ranks = variant.settings.ranks
    # "gpu" has torchrun start a process for each GPU, of which there are as many.
    line = text.splitlines()[0].removeprefix("# ").replace("--nproc-per-node=gpu", f"--nproc-per-node={ranks}")
    _, words = words_of(line)
    assert words == ["torchrun", f"--nproc-per-node={ranks}", "train.py"]
    # As many on however few cores, and on a CPU: no clock is read.
    started(line, tmp_path, FOLLOWS, name, variant.name, **ALONE)
    for rank in range(ranks):
        ran, written = (torch.load(tmp_path / f"answer-{rank}.pt")[side] for side in ("ran", "written"))
        assert written["count"] == ran["count"] > 0
        assert written["processes"] == ranks
        for expected, outputs in zip(ran["outputs"], written["outputs"], strict=True):
            assert worst_difference(expected, outputs)[0] <= NEAR
