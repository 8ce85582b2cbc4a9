"""`tipbench.load`: stored runs as one pandas table. `python -m tests.test_table` writes its columns into the README."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

import tipbench
from tests.made_up import MIB, both, count, info, measured, realistic, run, stored, trainings, with_table
from tipbench.report.results import results
from tipbench.report.table import COLUMNS, frame

README = Path(tipbench.__file__).parent / "report" / "README.md"
MARK = "<!-- columns: `python -m tests.test_table` writes them -->\n"


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
    assert (row["baseline_tensor_peak_bytes"], row["variant_tensor_peak_bytes"]) == (800 * MIB, 400 * MIB)
    assert (row["mechanism"], row["mechanism_baseline"], row["mechanism_variant"]) == ("copies", "40", "0")
    assert (row["baseline_one_off_s"], row["variant_one_off_s"], row["one_off_s"]) == (0.5, 2.5, 2.0)
    saved = row["baseline_step_s"] - row["variant_step_s"]
    assert row["break_even_steps"] == math.ceil(2.0 / saved)


def test_whole_trainings_are_in_it_as_what_they_came_to() -> None:
    sides = trainings(baseline=(600, 600, 600), optimized=(300, None, 300))
    rows = results(run([measured(info(), {"optimized": 0.1})]))
    one, none = frame([*with_table(rows, sides), *rows]).to_dict("records")
    assert (one["trainings"], one["baseline_reached"], one["variant_reached"]) == (3, 3, 2)
    assert one["baseline_steps_to_target"] == 600
    assert one["variant_steps_to_target"] == (300 + 1000 + 300) / 2, "what failed is paid by those that succeed"
    assert one["fewer_steps_low"] < one["fewer_steps"] < one["fewer_steps_high"]
    assert one["fewer_steps"] == pytest.approx(600 / 800)
    assert all(math.isnan(none[name]) for name in ("fewer_steps", "baseline_steps_to_target", "variant_score"))


def test_runs_follow_one_another_and_every_column_has_its_type(tmp_path: Path) -> None:
    files = [stored(tmp_path / name, run([measured(info(), {"optimized": 0.1})], id=name * 8)) for name in ("ab", "cd")]
    of_realistic = stored(tmp_path / "realistic", realistic())
    table = tipbench.load(*files, of_realistic)
    assert list(table.run.unique()[:2]) == ["ab" * 8, "cd" * 8]
    for some in (table, tipbench.load(files[0]), tipbench.load()):
        assert {name: str(dtype) for name, dtype in some.dtypes.items()} == {
            name: column.dtype for name, column in COLUMNS.items()
        }
    stopped = table[table.verdict.isin(["skipped", "failed"])]
    assert len(stopped)
    assert stopped.speedup.isna().all()
    assert (stopped.reason != "").all()


def test_importing_the_package_is_light_and_loading_needs_no_torch(tmp_path: Path) -> None:
    file = stored(tmp_path, run([measured(info(), {"optimized": 0.1})]))
    program = (
        "import sys, tipbench; assert 'pandas' not in sys.modules\n"
        f"tipbench.load({str(file)!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_readme_names_every_column() -> None:
    _, shown = README.read_text().split(MARK)
    assert shown == _described(), "run `python -m tests.test_table`"


def _described() -> str:
    rows = "".join(f"| `{name}` | {column.dtype} | {column.meaning} |\n" for name, column in COLUMNS.items())
    return f"\n| column | dtype | meaning |\n|---|---|---|\n{rows}"


if __name__ == "__main__":
    before, _ = README.read_text().split(MARK)
    README.write_text(before + MARK + _described())
