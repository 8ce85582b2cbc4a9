"""How each tool is given a case, the way its users run it, and what it answers.

Every tool starts from the caller's environment without the variables that change what is measured
(`tipbench.machine.controls.cleaned`), so torch has its own default of threads for all; tipbench sets its controls
itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from statistics import fmean, stdev
from typing import Any

from tests.peers.cases import CASE, SEED, SIDE
from tipbench.engine.profiles import PROFILES
from tipbench.machine.controls import cleaned
from tipbench.verdict.rules import RULES

HERE = Path(__file__).parent
SIDES = ("baseline", "optimized")


class ToolFailed(RuntimeError):
    """A tool could not be run, or answered what is not understood; the message holds its last words."""


@dataclass(frozen=True)
class Answer:
    """seconds: wall time of the commands that count. The rest as in `Comparison`."""

    seconds: float
    speedup: Mapping[str, float]
    said: Mapping[str, str] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    behind: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Shell:
    """Runs a tool's commands in its scratch folder, adding up the seconds of those that count."""

    scratch: Path
    env: Mapping[str, str]
    seconds: float = 0.0

    def run(self, *command: str, side: str = "", counts: bool = True) -> str:
        """What the command printed. Nothing else runs beside it. Raises ToolFailed."""
        log = self.scratch / "printed"
        env = {**self.env, SIDE: side} if side else self.env
        with log.open("wb") as printed:
            began = time.perf_counter()
            ended = subprocess.run(
                command,
                cwd=self.scratch,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                check=False,
            )
            took = time.perf_counter() - began
        text = log.read_text(errors="replace")
        if ended.returncode:
            raise ToolFailed(f"`{' '.join(command)}` left with exit code {ended.returncode}: {text[-2000:].strip()}")
        self.seconds += took if counts else 0.0
        return text

    def python(self, *arguments: str, side: str = "", counts: bool = True) -> str:
        return self.run(sys.executable, *arguments, side=side, counts=counts)


def tipbench(shell: Shell) -> Answer:
    file = shell.scratch / "found.json"
    shell.python("-m", "tests.peers.timed_by_tipbench", str(file))
    found = json.loads(file.read_text())
    return Answer(
        seconds=shell.seconds,
        speedup={"trimmed mean": found["speedup"]},
        said={"verdict": found["verdict"]},
        interval=(found["low"], found["high"]),
        behind={name: found[name] for name in ("launches", "quarantined")},
    )


def pytest_benchmark(shell: Shell) -> Answer:
    (shell.scratch / "empty.ini").write_text("[pytest]\n")
    file = shell.scratch / "found.json"
    # Not this project's settings, and not its plugin.
    apart = ("-c", "empty.ini", "--noconftest", "-p", "no:tipbench", "-p", "no:cacheprovider")
    shell.python("-m", "pytest", "-q", *apart, f"--benchmark-json={file}", str(HERE / "timed_by_pytest_benchmark.py"))
    benchmarks = {found["name"].removeprefix("test_"): found for found in json.loads(file.read_text())["benchmarks"]}
    kept = ("min", "median", "mean", "stddev", "iqr", "rounds", "iterations")
    behind = {side: {name: benchmarks[side]["stats"][name] for name in kept} for side in SIDES}
    return Answer(shell.seconds, ratios(behind, ("median", "min", "mean")), behind=behind)


def torch_benchmark(shell: Shell) -> Answer:
    file = shell.scratch / "found.json"
    shell.python("-m", "tests.peers.timed_by_torch", str(file))
    behind = json.loads(file.read_text())
    return Answer(shell.seconds, ratios(behind, ("median", "mean")), behind=behind)


def pyperf(shell: Shell) -> Answer:
    behind = {}
    for side in SIDES:
        # It gives its workers no other variables.
        named = f"--inherit-environ={CASE},{SIDE},{SEED}"
        shell.python("-m", "tests.peers.timed_by_pyperf", named, "-o", f"{side}.json", side=side)
        (benchmark,) = json.loads((shell.scratch / f"{side}.json").read_text())["benchmarks"]
        values = [value for run in benchmark["runs"] for value in run.get("values", ())]
        behind[side] = {"mean": fmean(values), "stdev": stdev(values), "values": len(values)}
    printed = shell.python("-m", "pyperf", "compare_to", *(f"{side}.json" for side in SIDES))
    return Answer(shell.seconds, ratios(behind, ("mean",)), {"compare_to": pyperf_said(printed)}, behind=behind)


def pyperf_said(printed: str) -> str:
    """What `pyperf compare_to` says of the second file."""
    if "not significant" in printed.lower():
        return "not significant"
    found = re.search(r": (?:\d+\.\d+x (faster|slower)|no change)$", printed, re.MULTILINE)
    if not found:
        raise ToolFailed(f"pyperf compare_to said: {printed.strip()}")
    return found[1] or "no change"


def asv(shell: Shell) -> Answer:
    """`asv run` in this very environment, once for each of two empty commits of a repository made for it, then
    `asv compare`. What asv asks for once does not count."""
    # Its entry of this machine goes to HOME, and so does what git would read. It hides PYTHONPATH from benchmarks.
    shell.env = {**shell.env, "HOME": str(shell.scratch), "ASV_PYTHONPATH": shell.env["PYTHONPATH"]}
    config = {"version": 1, "project": "peers", "repo": ".", "branches": ["main"], "dvcs": "git"}
    config |= {"environment_type": "existing", "benchmark_dir": str(HERE / "asv_suite"), "results_dir": "results"}
    (shell.scratch / "asv.conf.json").write_text(json.dumps(config))
    shell.run("git", "init", "-q", "-b", "main", ".", counts=False)
    commits = {}
    for side in SIDES:
        named = ("-c", "user.name=peers", "-c", "user.email=peers@localhost")
        shell.run("git", *named, "commit", "-q", "--allow-empty", "-m", side, counts=False)
        commits[side] = shell.run("git", "rev-parse", "HEAD", counts=False).strip()
    shell.python("-m", "asv", "machine", "--yes", counts=False)
    behind = {}
    for side, commit in commits.items():
        shell.python("-m", "asv", "run", "--python=same", f"--set-commit-hash={commit}", side=side)
        (file,) = shell.scratch.glob(f"results/*/{commit[:8]}-*.json")
        stored = json.loads(file.read_text())
        (row,) = stored["results"].values()
        found = dict(zip(stored["result_columns"], row, strict=False))
        behind[side] = {
            "median": found["result"][0],
            "low": found["stats_ci_99_a"][0],
            "high": found["stats_ci_99_b"][0],
        }
    printed = shell.python("-m", "asv", "compare", *commits.values())
    ungated = shell.python("-m", "asv", "compare", "--factor=1", *commits.values(), counts=False)
    said = {"compare": asv_said(printed), "compare --factor 1": asv_said(ungated)}
    return Answer(shell.seconds, ratios(behind, ("median",)), said, behind=behind)


def asv_said(printed: str) -> str:
    """What the column "Change" of `asv compare` says of the second commit."""
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[-1].endswith("time_step") and cells[0] in ("-", "+", ""):
            return {"-": "faster", "+": "slower"}.get(cells[0], "no change")
    raise ToolFailed(f"asv compare said: {printed.strip()}")


def ratios(sides: Mapping[str, Mapping[str, float]], statistics: Sequence[str]) -> dict[str, float]:
    """By statistic, baseline / optimized."""
    return {name: sides["baseline"][name] / sides["optimized"][name] for name in statistics}


@dataclass(frozen=True)
class Tool:
    """package: its distribution's name. processes: how many a comparison starts that import torch, and
    timed_s: how many seconds it times steps, both by the tool's documented defaults; for the estimate alone.
    """

    name: str
    package: str
    processes: int
    timed_s: float
    compare: Callable[[Shell], Answer]


LAUNCHES = RULES.looks.launches
FULL = PROFILES["full"]
TOOLS = (
    # Discovery, check, two to weigh, and launches up to the look in the middle.
    Tool(
        "tipbench",
        "tipbench",
        4 + LAUNCHES[len(LAUNCHES) // 2],
        LAUNCHES[len(LAUNCHES) // 2] * FULL.rounds[1] * 4 * FULL.block_s,
        tipbench,
    ),
    # Rounds for a second a side (`--benchmark-max-time`).
    Tool("pytest-benchmark", "pytest-benchmark", 1, 2 * 1.0, pytest_benchmark),
    # `min_run_time` a side.
    Tool("torch.utils.benchmark", "torch", 1, 2 * 0.2, torch_benchmark),
    # A side: the script, a worker to calibrate, 20 workers of one warm-up and 3 values of 0.1 to 0.2 s.
    Tool("pyperf", "pyperf", 2 * 22, 2 * 20 * 4 * 0.15, pyperf),
    # A side: discovery and 2 rounds of 0.1 s warm-up and 5 samples of 0.01 s.
    Tool("asv", "asv", 2 * 3, 2 * 2 * 0.15, asv),
)


def environment(case: str, seed: int) -> dict[str, str]:
    """What a tool's commands start with."""
    return {**cleaned(), CASE: case, SEED: str(seed)}


def start_seconds(scratch: Path) -> float:
    """Wall time of one process that only imports what all the tools' processes import."""
    shell = Shell(scratch, cleaned())
    shell.python("-c", "import tests.peers.steps")
    return shell.seconds


def missing(tools: Sequence[Tool]) -> list[str]:
    """Names of what cannot run here."""
    lacking = []
    for tool in tools:
        try:
            version(tool.package)
        except PackageNotFoundError:
            lacking.append(tool.package)
    if any(tool.name == "asv" for tool in tools) and not which("git"):
        lacking.append("git")
    return lacking
