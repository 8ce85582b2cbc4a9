"""`tipbench.load`: stored runs as one pandas table."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tipbench
from tests.made_up import MACHINE, MIB, both, count, info, measured, realistic, run, stored
from tipbench.report import render

README = Path(tipbench.__file__).parent / "report" / "README.md"


def test_a_row_has_both_sides_of_its_pair(tmp_path: Path) -> None:
    pair = measured(
        info(),
        {"optimized": 0.1},
        memory=both(tensor=400, resident=1000),
        mechanism=count("copies", 40, optimized=0),
        one_off={"baseline": {"build": 0.5}, "optimized": {"build": 1.0, "warm_up": 1.5}},
    )
    table = tipbench.load(stored(tmp_path, run([pair])))
    (row,) = table.to_dict("records")
    assert row["verdict"] == "faster"
    assert row["low"] < row["speedup"] < row["high"]
    assert sum(row["effects"]) / row["launches"] == pytest.approx(math.log(row["speedup"]))
    assert math.log(row["speedup"]) == pytest.approx(0.1, abs=0.01)
    assert row["variant_step_s"] == pytest.approx(row["baseline_step_s"] / row["speedup"])
    assert (row["memory_baseline_tensor_peak"], row["memory_variant_tensor_peak"]) == (800 * MIB, 400 * MIB)
    assert [row[f"mechanism_{name}"] for name in ("what", "baseline", "optimized")] == ["copies", 40, 0]
    assert (row["sizes_batch"], row["one_off_s"]) == (32, 2.0)
    saved = row["baseline_step_s"] - row["variant_step_s"]
    assert row["break_even_steps"] == math.ceil(2.0 / saved)


def test_its_columns_are_the_names_of_the_json_and_of_the_run(tmp_path: Path) -> None:
    """No row has trainings or was measured on a GPU, so there are no columns of that."""
    made = [run([measured(info(), {"optimized": 0.1})], id=name * 8) for name in ("ab", "cd")]
    files = [stored(tmp_path / each.id, each) for each in made]
    table = tipbench.load(*files, stored(tmp_path / "realistic", realistic()))
    assert list(table.run.unique()[:2]) == ["ab" * 8, "cd" * 8]
    assert set(table.machine) == {MACHINE["name"]}
    nested = "sizes", "memory", "equal", "mechanism"
    parts = {next((part for part in nested if name.startswith(f"{part}_")), name) for name in table.columns}
    (pair,) = json.loads(render(made[0], [], "json"))["pairs"]
    assert parts == {"run", "started", "suite", "commit", "machine"} | pair.keys() - {"trainings", "gpu"}
    stopped = table[table.verdict.isin(["skipped", "failed"])]
    assert len(stopped)
    assert stopped.speedup.isna().all()
    assert (stopped.reason != "").all()


def test_the_example_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.chdir(Path(__file__).parents[1])
    exec(compile(example, README, "exec"), {})


def test_importing_the_package_is_light_and_loading_needs_no_torch(tmp_path: Path) -> None:
    file = stored(tmp_path, run([measured(info(), {"optimized": 0.1})]))
    program = (
        "import sys, tipbench; assert 'pandas' not in sys.modules\n"
        f"tipbench.load({str(file)!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
