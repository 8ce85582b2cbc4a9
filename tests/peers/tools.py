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
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from statistics import fmean, stdev
from typing import Any, NamedTuple

from tests.peers.cases import CASE, SEED, SIDE
from tests.peers.comparison import Answer
from tipbench.machine.controls import cleaned

HERE = Path(__file__).parent
SIDES = ("baseline", "optimized")


class ToolFailed(RuntimeError):
    """A tool could not be run, or answered what is not understood; the message holds its last words."""


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

    def answer(self, module: str) -> Any:
        """What a module writes into the file that it is given."""
        file = self.scratch / "answer.json"
        self.python("-m", module, str(file))
        return json.loads(file.read_text())


def tipbench(shell: Shell) -> Answer:
    answer = shell.answer("tests.peers.timed_by_tipbench")
    return Answer(
        seconds=shell.seconds,
        speedup={"trimmed mean": answer["speedup"]},
        decisions={"verdict": answer["verdict"]},
        interval=(answer["low"], answer["high"]),
        numbers={name: answer[name] for name in ("launches", "quarantined")},
    )


def pytest_benchmark(shell: Shell) -> Answer:
    (shell.scratch / "empty.ini").write_text("[pytest]\n")
    file = shell.scratch / "answer.json"
    apart = ("-c", "empty.ini", "--noconftest", "-p", "no:cacheprovider")  # from this project's settings
    shell.python("-m", "pytest", "-q", *apart, f"--benchmark-json={file}", str(HERE / "timed_by_pytest_benchmark.py"))
    stats = {item["name"].removeprefix("test_"): item["stats"] for item in json.loads(file.read_text())["benchmarks"]}
    shown = ("min", "median", "mean", "stddev", "iqr", "rounds", "iterations")
    numbers = {side: {name: stats[side][name] for name in shown} for side in SIDES}
    return Answer(seconds=shell.seconds, speedup=ratios(numbers, ("median", "min", "mean")), numbers=numbers)


def torch_benchmark(shell: Shell) -> Answer:
    numbers = shell.answer("tests.peers.timed_by_torch")
    return Answer(seconds=shell.seconds, speedup=ratios(numbers, ("median", "mean")), numbers=numbers)


def pyperf(shell: Shell) -> Answer:
    numbers = {}
    for side in SIDES:
        # It gives its workers no other variables.
        named = f"--inherit-environ={CASE},{SIDE},{SEED}"
        shell.python("-m", "tests.peers.timed_by_pyperf", named, "-o", f"{side}.json", side=side)
        (benchmark,) = json.loads((shell.scratch / f"{side}.json").read_text())["benchmarks"]
        values = [value for run in benchmark["runs"] for value in run.get("values", ())]
        numbers[side] = {"mean": fmean(values), "stdev": stdev(values), "values": len(values)}
    printed = shell.python("-m", "pyperf", "compare_to", *(f"{side}.json" for side in SIDES))
    decisions = {"compare_to": pyperf_decision(printed)}
    return Answer(seconds=shell.seconds, speedup=ratios(numbers, ("mean",)), decisions=decisions, numbers=numbers)


def pyperf_decision(printed: str) -> str:
    """What `pyperf compare_to` says of the second file."""
    if "not significant" in printed.lower():
        return "not significant"
    change = re.search(r": (?:\d+\.\d+x (faster|slower)|no change)$", printed, re.MULTILINE)
    if not change:
        raise ToolFailed(f"pyperf compare_to said: {printed.strip()}")
    return change[1] or "no change"


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
    numbers = {}
    for side, commit in commits.items():
        shell.python("-m", "asv", "run", "--python=same", f"--set-commit-hash={commit}", side=side)
        (file,) = shell.scratch.glob(f"results/*/{commit[:8]}-*.json")
        stored = json.loads(file.read_text())
        (row,) = stored["results"].values()
        columns = dict(zip(stored["result_columns"], row, strict=False))
        numbers[side] = {
            "median": columns["result"][0],
            "low": columns["stats_ci_99_a"][0],
            "high": columns["stats_ci_99_b"][0],
        }
    printed = shell.python("-m", "asv", "compare", *commits.values())
    ungated = shell.python("-m", "asv", "compare", "--factor=1", *commits.values(), counts=False)
    decisions = {"compare": asv_decision(printed), "compare --factor 1": asv_decision(ungated)}
    return Answer(seconds=shell.seconds, speedup=ratios(numbers, ("median",)), decisions=decisions, numbers=numbers)


def asv_decision(printed: str) -> str:
    """What the column "Change" of `asv compare` says of the second commit."""
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[-1].endswith("time_step") and cells[0] in ("-", "+", ""):
            return {"-": "faster", "+": "slower"}.get(cells[0], "no change")
    raise ToolFailed(f"asv compare said: {printed.strip()}")


def ratios(sides: Mapping[str, Mapping[str, float]], statistics: Sequence[str]) -> dict[str, float]:
    """By statistic, baseline / optimized."""
    return {name: sides["baseline"][name] / sides["optimized"][name] for name in statistics}


class Tool(NamedTuple):
    """A tool, the name of its distribution, and what has it compare the two sides of a case."""

    name: str
    package: str
    compare: Callable[[Shell], Answer]


TOOLS = (
    Tool("tipbench", "tipbench", tipbench),
    Tool("pytest-benchmark", "pytest-benchmark", pytest_benchmark),
    Tool("torch.utils.benchmark", "torch", torch_benchmark),
    Tool("pyperf", "pyperf", pyperf),
    Tool("asv", "asv", asv),
)


def environment(case: str, seed: int) -> dict[str, str]:
    """What a tool's commands start with."""
    return {**cleaned(), "PYTHONPATH": str(HERE.parent.parent), CASE: case, SEED: str(seed)}


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
