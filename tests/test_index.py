"""The index of stored runs: it follows the files, survives whatever happens to it, and changes no answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from tests import many_runs
from tests.made_up import info, measured, realistic, run, tip
from tipbench.compare import index
from tipbench.compare.index import Stored, consult
from tipbench.records import store
from tipbench.records.record import Record, Run
from tipbench.records.store import StoreError, create


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "runs.duckdb"


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


def a(effect: float, id: str = "made-up") -> Record:
    return measured(info(tip=tip(id)), {"optimized": effect})


def write(folder: Path, of: Run) -> Path:
    with create(folder, of) as writer:
        for record in of.records:
            writer.append(record)
        return writer.path


def read(files: Sequence[Path], place: Path) -> list[Stored]:
    found, notes = consult(lambda asked: asked.read(files), place)
    assert notes == []
    return found


def test_what_is_kept_is_what_was_read(results: Path, place: Path, parsed: list[Path]) -> None:
    file = write(results, realistic())
    first, second = (read([file], place) for _ in range(2))
    assert parsed == [file]
    assert first == second
    assert first[0].run.planned == realistic().planned
    assert len(first[0].effects) > 15
    assert first[0].effects[0].verdict == "no difference"


def test_a_changed_file_is_read_anew_and_only_it(results: Path, place: Path, parsed: list[Path]) -> None:
    files = [write(results, run([a(0.3)], id=id)) for id in ("aaaaaaaa", "bbbbbbbb")]
    read(files, place)
    parsed.clear()
    with store.resume(files[1])[1] as writer:
        writer.append(a(0.1, "second"))
    parsed.clear()
    found = read(files, place)
    assert parsed == [files[1]]
    assert [len(stored.effects) for stored in found] == [1, 2]


def test_a_file_of_the_same_size_that_was_written_later_is_read_anew(results: Path, place: Path) -> None:
    file = write(results, run([a(0.3)]))
    assert read([file], place)[0].effects[0].tip == "made-up"
    file.write_text(file.read_text().replace("made-up", "edited!"))
    os.utime(file, ns=(1, 1))
    assert read([file], place)[0].effects[0].tip == "edited!"


def test_finding_runs_by_id_reads_no_records(results: Path, place: Path, parsed: list[Path]) -> None:
    files = [write(results, run([a(0.3)], id=f"{number:08}")) for number in range(20)]
    (results / "calibration-2026-01-01-00000003.jsonl").write_text("{}")

    def ask(asked: index.Index) -> tuple[dict[str, str], dict[str, list[str]]]:
        return asked.scan(results), asked.beginning(["0000000", "00000003", "2026-03-01-00000017", "none"], results)

    scanned, found = consult(ask, place)[0]
    assert list(scanned.values()) == sorted(map(str, files))
    assert len(found["0000000"]) == 10
    assert found["00000003"] == [str(files[3])]
    assert found["2026-03-01-00000017"] == [str(files[17])]
    assert "none" not in found
    assert parsed == []


def test_a_deleted_file_is_forgotten(results: Path, place: Path) -> None:
    files = [write(results, run([a(0.3)], id=id)) for id in ("aaaaaaaa", "bbbbbbbb")]
    consult(lambda asked: asked.read(files), place)
    files[0].unlink()
    scanned, found = consult(lambda asked: (asked.scan(results), asked.beginning(["aaaa"], results)), place)[0]
    assert list(scanned.values()) == [str(files[1])]
    assert found == {}
    with duckdb.connect(str(place)) as database:
        assert database.execute("SELECT DISTINCT path FROM effects").fetchall() == [(str(files[1]),)]


def test_a_folder_beside_it_is_not_forgotten(results: Path, place: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "results-2", run([a(0.3)]))
    read([file], place)
    results.mkdir()
    consult(lambda asked: asked.scan(results), place)
    with duckdb.connect(str(place)) as database:
        assert database.execute("SELECT path FROM runs").fetchall() == [(str(file),)]


@pytest.mark.parametrize("content", [b"", b"no database" * 1000, b"\0" * 20000])
def test_a_damaged_index_is_made_anew_with_a_note(results: Path, place: Path, content: bytes) -> None:
    file = write(results, run([a(0.3)]))
    expected = read([file], place)
    place.write_bytes(content)
    found, notes = consult(lambda asked: asked.read([file]), place)
    assert found == expected
    assert [note for note in notes if "damaged" not in note] == []
    assert read([file], place) == expected


def test_an_index_cut_short_never_changes_the_answer(results: Path, place: Path) -> None:
    files = [write(results, run([a(0.3)], id=f"{number:08}")) for number in range(30)]
    expected = read(files, place)
    whole = place.read_bytes()
    for share in (0.2, 0.5, 0.9):
        place.write_bytes(whole[: int(share * len(whole))])
        assert consult(lambda asked: asked.read(files), place)[0] == expected


def test_an_index_of_another_version_is_made_anew(
    results: Path, place: Path, parsed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(results, run([a(0.3)]))
    read([file], place)
    monkeypatch.setattr(index, "_version", lambda: "another")
    read([file], place)
    assert parsed == [file, file]


def test_where_no_index_can_be_kept_it_does_without(results: Path, tmp_path: Path, parsed: list[Path]) -> None:
    file = write(results, run([a(0.3)]))
    (tmp_path / "file").write_text("not a folder")
    for _ in range(2):
        assert len(read([file], tmp_path / "file" / "runs.duckdb")) == 1
    assert parsed == [file, file]


def test_beside_another_comparison_that_has_the_index_it_does_without(
    results: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(results, run([a(0.3)]))
    expected = read([file], place)
    code = f"import duckdb; c = duckdb.connect({str(place)!r}); print('open', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        monkeypatch.setattr(index, "PATIENCE_S", 0.1)
        assert read([file], place) == expected
    finally:
        other.communicate(b"\n")
    assert place.exists()


def test_it_waits_for_another_comparison_that_is_soon_done(
    results: Path, place: Path, parsed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(results, run([a(0.3)]))
    read([file], place)
    code = f"import duckdb; c = duckdb.connect({str(place)!r}); print('open', flush=True); input()"
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"open\n"
    monkeypatch.setattr(index, "PATIENCE_S", 60.0)
    ending = threading.Timer(0.2, lambda: other.communicate(b"\n"))
    ending.start()
    read([file], place)
    ending.join()
    assert parsed == [file], "kept, and found again"


def test_an_error_of_a_file_is_told_and_nothing_is_kept_of_it(results: Path, place: Path) -> None:
    file = write(results, run([a(0.3)]))
    whole = file.read_bytes()
    file.write_text("{}")
    for _ in range(2):
        with pytest.raises(StoreError, match="no schema version"):
            consult(lambda asked: asked.read([file]), place)
    file.write_bytes(whole)
    assert len(read([file], place)[0].effects) == 1
    with pytest.raises(StoreError, match="cannot read"):
        consult(lambda asked: asked.read([file.with_name("gone.jsonl")]), place)


def test_names_that_are_no_unicode(results: Path, place: Path) -> None:
    file = write(results, run([a(0.3)]))
    odd = file.with_name(os.fsdecode(b"odd-\xff.jsonl"))
    file.rename(odd)
    first, second = (consult(lambda asked: asked.read([odd]), place)[0] for _ in range(2))
    assert first == second
    assert list(consult(lambda asked: asked.scan(results), place)[0].values()) == [str(odd)]


def test_many_bytes_are_read_by_several_processes(results: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(results, run([a(0.1 * number)], id=f"{number:08}")) for number in range(3)]
    alone = consult(lambda asked: asked.read(files), place)[0]
    monkeypatch.setattr(index, "WORTH_A_PROCESS", 0)
    monkeypatch.setattr(index, "available_cores", lambda: 2)
    assert consult(lambda asked: asked.read(files), place.with_name("other.duckdb"))[0] == alone


def test_made_up_runs_for_timing_are_runs(tmp_path: Path, place: Path) -> None:
    ids = many_runs.write(25, tmp_path, many_runs.GOLDEN, 3)
    assert many_runs.write(25, tmp_path, many_runs.GOLDEN, 3) == ids
    found = consult(lambda asked: asked.read([Path(path) for path in asked.scan(tmp_path).values()]), place)[0]
    assert {stored.run.id for stored in found} == set(ids)
    assert {stored.records for stored in found} == {3}
    assert len({stored.run.machine["cpu"] for stored in found}) == many_runs.MACHINES


def test_an_index_that_fails_in_the_middle_is_left_for_one_in_memory(results: Path, place: Path) -> None:
    file = write(results, run([a(0.3)]))
    expected = read([file], place)
    with duckdb.connect(str(place)) as database:
        database.execute("DROP TABLE effects")
    found, notes = consult(lambda asked: asked.read([file]), place)
    assert found == expected
    assert [note for note in notes if "could not be used and is deleted" in note]
    assert read([file], place) == expected
