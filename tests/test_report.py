"""Reports of made-up runs: the public JSON exactly, and what a stranger reads."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import CLOSE, HOSTILE, count, hostile, info, measured, on_a_gpu, realistic, run, tip
from tipbench.records.record import Record, Run, VariantRecord
from tipbench.records.store import Notice
from tipbench.report import RENDERERS, ReportError, news, one_liners, render, write
from tipbench.report.results import counts, results
from tipbench.tip import wording as words
from tipbench.tip.reason import Reason

GOLDEN = Path(__file__).parent / "golden" / "run.jsonl"
MACRO: dict[str, Any] = {"scale": "macro"}


@pytest.fixture(scope="module")
def made() -> Run:
    return realistic()


def pairs(shown: Run) -> list[dict[str, Any]]:
    return list(json.loads(render(shown, [], "json"))["pairs"])


# ---- JSON, the public format ----


def test_json_has_exactly_the_documented_names(made: Run) -> None:
    document = json.loads(render(made, [Notice(Path("x.jsonl"), 7, "truncated")], "json"))
    assert list(document) == ["run", "machine", "controls", "pairs", "answers"]
    for answer in document["answers"]:
        assert list(answer) == [
            "tip", "title", "workload", "kind", "answer", "when", "do", "gain", "against", "price", "sessions", "ways",
        ]  # fmt: skip
        assert all(list(way) == ["name", "kind", "do", "gain"] for way in answer["ways"])
    assert document["run"] == {
        "id": "3f9a1c07",
        "started": "2026-03-01T09:30:00+00:00",
        "suite": "0.1.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "planned": 17,
        "measured": 13,
        "skipped": 1,
        "failed": 1,
        "not_reached": 2,
        "notices": ["x.jsonl, line 7: truncated"],
    }
    assert document["machine"] == made.machine
    assert document["controls"] == made.controls
    for pair in document["pairs"]:
        assert list(pair) == [
            "tip", "claim", "pair", "scale", "variant", "is_headline", "device", "task", "sizes", "verdict", "speedup",
            "low", "high", "launches", "effects", "truth", "baseline_step_s", "variant_step_s", "memory", "equal",
            "mechanism", "trainings", "one_off_s", "break_even_steps", "reason_code", "reason", "remedy", "gpu",
        ]  # fmt: skip


def test_json_of_a_measured_pair(made: Run) -> None:
    """Speedups, intervals and break-even of stored runs are in `test_golden.py`."""
    (row,) = [pair for pair in pairs(made) if (pair["tip"], pair["pair"]) == ("channels-last", "Convolution")]
    assert row["speedup"] == pytest.approx(math.exp(0.42))
    assert row["low"] < row["speedup"] < row["high"]
    assert row["memory"] == {
        "baseline": {"tensor_peak": 800 << 20, "resident_peak": 1000 << 20},
        "variant": {"tensor_peak": 800 << 20, "resident_peak": 1004 << 20},
    }
    assert row["equal"] == CLOSE
    assert row["mechanism"] == count("modules whose output is in another layout", 1, optimized=0)["optimized"]
    assert [row[name] for name in ("trainings", "reason_code", "reason", "remedy", "gpu")] == [None, "", "", "", None]


def test_json_of_what_was_not_measured_has_nulls(made: Run) -> None:
    (row,) = [pair for pair in pairs(made) if pair["verdict"] == "failed"]
    numbers = ["speedup", "low", "high", "truth", "baseline_step_s", "variant_step_s"]
    nulls = [*numbers, "equal", "mechanism", "trainings", "one_off_s", "break_even_steps", "gpu"]
    assert [name for name, value in row.items() if value is None] == nulls
    assert (row["launches"], row["memory"]) == (0, {"baseline": {}, "variant": {}})
    assert row["reason_code"] == "hang"
    assert row["reason"].startswith("hang: ")
    assert row["remedy"] == "fix no_sync.py, line 40"


def test_json_holds_one_object_a_pair_and_variant_in_planned_order(made: Run) -> None:
    listed = pairs(made)
    names = [(pair["tip"], pair["pair"], pair["variant"]) for pair in listed]
    assert len(names) == len(set(names)) == 20
    sweep = [variant for _, pair, variant in names if pair == "PhotoEpoch"]
    assert sweep == ["num_workers=1", "num_workers=2", "num_workers=4"]
    assert pairs(replace(made, records=made.records[::-1])) == listed
    verdicts = {"faster", "slower", "no difference", "at most 3 %", "inconclusive", "skipped", "failed"}
    assert {pair["verdict"] for pair in listed} == verdicts


def test_json_is_strict_even_where_a_result_was_not_finite() -> None:
    broken = VariantRecord("failed", Reason("not-finite.x", {}, "output holds NaN"), equal={"worst": "nan"})
    record = Record(info(), "failed", broken.why, variants={"optimized": broken})
    assert pairs(run([record]))[0]["equal"] == {"worst": "nan"}


# ---- what is derived ----


@pytest.mark.parametrize(
    ("effect", "baseline_s", "variant_s", "steps"),
    [
        (0.3, 1.0, 3.0, math.ceil(2.0 / (0.002 * (1 - math.exp(-0.3))))),
        (0.3, 1.0, 1.0, 0),
        (0.3, 3.0, 1.0, 0),
        (0.3, 0.5, 0.59, 0),  # under 0.1 s more: noise of a single reading
        (0.3, 2.0, 2.19, 0),  # under a tenth more: likewise
        (0.3, 2.0, 2.21, math.ceil(0.21 / (0.002 * (1 - math.exp(-0.3))))),
        (0.0, 1.0, 3.0, None),
        (-0.3, 3.0, 1.0, None),
    ],
)
def test_break_even(effect: float, baseline_s: float, variant_s: float, steps: int | None) -> None:
    one_off = {"baseline": {"build": baseline_s}, "optimized": {"build": variant_s / 2, "warm_up": variant_s / 2}}
    (row,) = results(run([measured(info(), {"optimized": effect}, one_off=one_off)]))
    assert row.one_off_s == pytest.approx(variant_s - baseline_s)
    assert row.break_even_steps == steps
    assert row.step_s == pytest.approx(0.002), "a block over its steps"
    del one_off["baseline"]
    (row,) = results(run([measured(info(), {"optimized": effect}, one_off=one_off)]))
    assert (row.one_off_s, row.break_even_steps) == (None, None)


def test_counts_add_up(made: Run) -> None:
    for shown in (made, run(), replace(made, planned=()), replace(made, records=made.records[:4])):
        counted = counts(shown)
        assert counted.planned == counted.measured + counted.skipped + counted.failed + counted.not_reached


def test_a_gpus_readings_are_by_side_and_what_the_driver_refuses_is_missing() -> None:
    shown = run([on_a_gpu()])
    (row,) = pairs(shown)
    assert row["gpu"] == {
        "sm_mhz": {"baseline": 1980, "variant": 1755},
        "memory_mhz": None,
        "celsius": {"baseline": 40, "variant": 40},
        "milliwatts": None,
    }


def test_an_answer_is_told_once_and_more_of_them_than_fit_a_terminal_in_a_line_a_kind() -> None:
    jobs = [measured(info(f"Job{number}", tip=tip(f"t{number}"), **MACRO), {"optimized": 0.3}) for number in range(30)]
    fresh = news()
    (line,) = fresh(run(jobs[:1]))
    assert line.startswith("use it: Do so: Job0 1.35x [")
    assert len(fresh(run(jobs[:2]))) == 1
    assert fresh(run(jobs[:2])) == []
    nothing = [measured(info(f"None{number}", tip=tip(f"n{number}"), **MACRO), {"optimized": 0.0}) for number in (1, 2)]
    lines = one_liners(run([*jobs, *nothing]))
    assert lines[0] == "sure: Do so.: other jobs 1.3x (1.3-1.4)"
    assert lines[15:] == ["15 more stand on the page", "at most: n1, n2"]


# ---- hostile text ----


def test_hostile_text_is_harmless_in_a_terminal_and_unchanged_in_json() -> None:
    for line in one_liners(hostile()):
        assert not re.search("[\x00-\x1f\x7f\x9b\u202e]", line)
    assert pairs(hostile())[0]["tip"] == HOSTILE


# ---- writing ----


def test_reports_neither_depend_on_the_environment_nor_import_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from tipbench import report; from tipbench.records import store\n"
        f"run, notices = store.read(Path({str(GOLDEN)!r})); print(report.one_liners(run))\n"
        "for format in report.RENDERERS: report.write(run, notices, format)\n"
        "heavy = {'torch', 'torchvision'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        for environment in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "MPLBACKEND": "no-such-backend"})
    )
    assert first.stdout == second.stdout != b""


@pytest.mark.parametrize("format", RENDERERS)
def test_reports_are_named_by_machine_and_run(tmp_path: Path, format: str) -> None:
    made = run([measured(info(), {"optimized": 0.1})])
    path = write(made, [], format, tmp_path)
    assert path == tmp_path / "amd-epyc-zen4-2c-24g" / f"2026-03-01-3f9a1c07.{format}"
    beside = [path.stem] if format == "md" else []
    assert sorted(file.name for file in path.parent.iterdir()) == [*beside, path.name]
    assert write(made, [], format, tmp_path) == path


def test_a_failed_write_is_named_and_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run([measured(info(), {"optimized": 0.1})])
    path = write(made, [], "json", tmp_path)
    assert path is not None
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(ReportError, match="no space left on device"):
            write(run(), [], "json", tmp_path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(ReportError, match="name another folder with --out"):
        write(made, [], "json", path)


# ---- numbers as words ----


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (words.ratio(1.35, 1.33, 1.38), "1.35x [1.33, 1.38]"),
        (words.ratio(1.0021, 0.9983, 1.0061), "1.002x [0.998, 1.006]"),
        (words.ratio(12.41, 11.9, 12.9), "12.4x [11.9, 12.9]"),
        (words.ratio(0.02012, 0.0196, 0.0205), "0.0201x [0.0196, 0.0205]"),
        (words.ratio(1.0, 0.5, 2.0), "1.00x [0.50, 2.00]"),
        (words.seconds(0.99999), "1.00 s"),
        (words.seconds(0.0009999), "1.00 ms"),
        (words.seconds(3.2e-6), "3.20 µs"),
        (words.seconds(5e-10), "0.500 ns"),
        (words.seconds(0), "0 s"),
        (words.seconds(86400.0), "1,440 min"),
        (words.size(1023), "1,023 B"),
        (words.size(25276502016), "23.5 GiB"),
        (words.change(100, 33), "-67 %"),
        (words.change(0, 0), "same"),
        (words.change(0, 5), "from nothing"),
        (words.change(1000, 1004), "+0.4 %"),
        (words.value(0.1 + 0.2), "0.3"),
        (words.value(1e-7), "1e-07"),
        (words.value({"a": 1, "b": [2.5, "x"], "c": []}), "a 1, b 2.5, x, c none"),
        (words.equal_work({}), ""),
        (words.equal_work({"method": "bitwise", "worst": 0.0, "seeds": 3}), "the same bits on 3 fresh inputs"),
        (words.plain("x" * 1000), "x" * 597 + "..."),
    ],
)
def test_numbers_and_long_text_as_a_reader_sees_them(shown: str, text: str) -> None:
    assert shown == text
