"""Stored runs are found by their names and ids, and read as they are compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.made_up import files, info, measured, realistic, run, stored
from tipbench import compare
from tipbench.compare.inputs import MOST_RUNS
from tipbench.compare.stored import beginning, read_run, results_files
from tipbench.records import store
from tipbench.records.record import Run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose records were read."""
    found: list[Path] = []
    real = store.read

    def read(path: Path) -> tuple[Run, list[store.Notice]]:
        found.append(path)
        return real(path)

    monkeypatch.setattr(store, "read", read)
    return found


def stored_as(folder: Path, id: str) -> Path:
    return stored(folder, run([measured(info(), {"optimized": 0.3})], id=id))


# ---- finding ----


def test_all_results_files_beneath_a_folder_are_listed_by_path(results: Path) -> None:
    names = ["b/2026-03-01-1.jsonl", "a-b/x.jsonl", "a/deep/er/y.jsonl", "c.jsonl"]
    others = ["a/notes.txt", "a/x.jsonl.bak"]
    files(results, dict.fromkeys((*names, *others), ""))
    (results / "folder.jsonl").mkdir()
    assert results_files(results) == [Path(path) for path in sorted(str(results / name) for name in names)]
    assert results_files(results / "none") == results_files(results / "c.jsonl") == []


def test_finding_runs_by_id_reads_no_records(results: Path, parsed: list[Path]) -> None:
    named = [stored_as(results, f"{number:08}") for number in range(20)]
    listed = results_files(results)
    assert listed == named
    assert beginning("0000000", listed) == named[:10]
    assert beginning("00000003", listed) == [named[3]]
    assert beginning("2026-03-01-00000017", listed) == [named[17]]
    assert beginning("none", listed) == []
    assert parsed == []


def test_a_whole_id_and_a_file_of_another_name_are_found(results: Path) -> None:
    file = stored_as(results, "0123456789abcdef")
    assert beginning("0123456789abcdef", [file]) == [file]
    renamed = file.rename(file.with_name("before-the-update.jsonl"))
    assert beginning("before", [renamed]) == [renamed]
    assert beginning("0123", [renamed]) == []


# ---- reading ----


def test_a_run_is_read_as_it_is_compared(results: Path) -> None:
    made = realistic()
    found = read_run(stored(results, made))
    assert found.run.records == ()
    assert (found.run.id, found.run.planned, found.run.machine) == (made.id, made.planned, made.machine)
    assert found.records == len(made.records)
    assert len(found.results) > 15
    assert found.results[0].verdict == "no difference"
    assert found.notices == ()


def test_too_many_runs_are_refused_before_any_record_is_read(results: Path, parsed: list[Path]) -> None:
    file = stored_as(results, "aaaa1111")
    for number in range(MOST_RUNS):
        shutil.copy(file, results / f"{number}.jsonl")
    with pytest.raises(compare.CompareError, match=f"{MOST_RUNS + 1} runs in"):
        compare.read_comparison([str(results)])
    assert parsed == []
