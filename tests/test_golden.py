"""What the reports of the stored runs say stays the same to the last digit.

`python -m tests.test_golden` writes the expected tables anew: only for a change that is meant to move numbers, and the
commit says which.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.cli import main

RESULTS = Path(__file__).parents[1] / "results/reference"
GOLDEN = Path(__file__).parent / "golden"
RUNS = (
    "amd-epyc-zen4-2c-24g/2026-11-23-d6ae0db3",
    "amd-epyc-zen4-2c-24g/2026-11-23-e0aae6ce",
    "amd-epyc-zen4-2c-24g/2026-11-23-5917d0d7",
    "amd-epyc-zen4-2c-24g/2026-11-23-c89c4793",
)
"""The complete runs that the current rules looked at."""

NEWEST = RUNS[-1:]
"""The pairs of this one are compared one by one; of all runs the answers are."""

PAIR = ("tip", "pair", "variant", "device", "verdict", "speedup", "low", "high", "launches", "one_off_s",
        "break_even_steps")  # fmt: skip

Table = list[list[str]]


def _pairs() -> Iterator[list[object]]:
    yield ["run", *PAIR]
    for run in NEWEST:
        report = _report(run)
        yield from ([Path(run).name, *(pair[name] for name in PAIR)] for pair in report["pairs"])


def _answers() -> Iterator[list[object]]:
    """By tip and workload the answer of each run."""
    yield ["run", "tip", "workload", "answer"]
    for run in RUNS:
        for answer in _report(run)["answers"]:
            yield [Path(run).name, answer["tip"], answer["workload"], answer["answer"]]


def _report(run: str) -> dict[str, list[dict[str, object]]]:
    with tempfile.TemporaryDirectory() as out:
        assert main(["report", f"{RESULTS / run}.jsonl", "--format", "json", "--out", out]) == 0
        (written,) = Path(out).rglob("*.json")
        return dict(json.loads(written.read_text()))


TABLES = {"pairs.csv": _pairs, "answers.csv": _answers}


@pytest.mark.parametrize("name", TABLES)
def test_no_number_and_no_answer_of_a_stored_run_changed(name: str) -> None:
    with (GOLDEN / name).open(newline="") as file:
        expected = list(csv.reader(file))
    assert _as_text(TABLES[name]()) == expected


def _as_text(rows: Iterator[list[object]]) -> Table:
    return [["" if cell is None else str(cell) for cell in row] for row in rows]


if __name__ == "__main__":
    for name, table in TABLES.items():
        with (GOLDEN / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(_as_text(table()))
