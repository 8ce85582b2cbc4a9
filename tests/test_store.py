"""Results files: what goes in comes back, and what is damaged is named by file and line."""

from __future__ import annotations

import errno
import json
import os
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import NO_GPU, both, info, learnt, measured, realistic, restored, run, stored
from tipbench.cli import main
from tipbench.engine.limits import LIMITS
from tipbench.records.fields import MalformedRecord
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.listing import newest
from tipbench.records.record import Record, Run, VariantRecord
from tipbench.records.store import SCHEMA, StoreError, create, read, resume
from tipbench.tip.reason import Reason

GOLDEN = Path(__file__).parent / "golden"


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


def edit(path: Path, number: int, line: bytes) -> None:
    """Put `line` in place of line `number`, counted from 1."""
    kept = lines(path)
    kept[number - 1] = line
    path.write_bytes(b"\n".join(kept) + b"\n")


def edit_fields(path: Path, number: int, **fields: Any) -> Path:
    """Give the line `number` these fields, and the checksum that goes with them."""
    edit(path, number, dump_line({**parse_line(lines(path)[number - 1]), **fields}).rstrip())
    return path


def checked(record: Record) -> Record:
    """As it is before its first launch."""
    return replace(record, launches=(), steps=0)


@pytest.fixture
def timed() -> Run:
    return run([measured(info(name), {"optimized": 0.1}) for name in ("One", "Two", "Three")])


@pytest.fixture
def three(timed: Run) -> Run:
    """Each record is one line."""
    return replace(timed, records=tuple(map(checked, timed.records)))


@pytest.fixture
def path(tmp_path: Path, three: Run) -> Path:
    return stored(tmp_path, three)


# ---- what goes in comes back ----


def test_round_trip_of_a_whole_run(tmp_path: Path) -> None:
    made = realistic()
    path = stored(tmp_path, made)
    assert path == tmp_path / "amd-epyc-zen4-2c-24g" / "2026-03-01-3f9a1c07.jsonl"
    assert read(path) == (made, [])


def test_records_are_on_the_disk_once_appended(tmp_path: Path, timed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with create(tmp_path, timed) as writer:
        assert synced.count(writer.descriptor) == 1
        for number, record in enumerate(timed.records, 1):
            writer.append(record)
            assert writer.saved == number
            assert synced.count(writer.descriptor) == 1 + number
            assert read(writer.path)[0].records == timed.records[:number]


def test_numbers_that_json_lacks_and_large_and_foreign_values_are_stored(tmp_path: Path) -> None:
    equal = {"worst": float("nan"), "error": float("inf")}
    mechanism = {"what": "bytes \u2028 \udcff", "baseline": 10**400, "optimized": Path("x"), "engaged": True}
    record = Record(info(), "failed", variants={"optimized": VariantRecord("failed", equal=equal, mechanism=mechanism)})
    path = stored(tmp_path, run([record]))
    (back,) = read(path)[0].records
    assert back.variants["optimized"].equal == {"worst": "nan", "error": "inf"}
    assert back.variants["optimized"].mechanism == {**mechanism, "what": "bytes \u2028 ?", "optimized": "x"}


# ---- damaged lines ----


@pytest.mark.parametrize("line", [b"not json", b"", b"\xff\xfe", b'{"outcome": NaN}', b"[" * 100_000, b"[1]"])
def test_a_line_that_is_no_json_object_is_named(path: Path, three: Run, line: bytes) -> None:
    edit(path, 3, line)
    found, (notice,) = read(path)
    assert found.records == (three.records[0], three.records[2])
    assert notice.line == 3
    assert "not a JSON object" in notice.text


def test_a_bit_that_flips_anywhere_costs_its_line_and_changes_no_number(tmp_path: Path, timed: Run) -> None:
    """In a digit of a second or in the number of cores, no reader could see it."""
    path = stored(tmp_path, timed)
    whole, intact = path.read_bytes(), numbered(timed.records)
    draw = random.Random(20261127)
    for place in [whole.index(b'"cores":2') + 8, *draw.sample(range(len(whole)), 300)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :])
        try:
            found, notices = read(path)
        except StoreError:
            continue  # the header
        assert replace(found, records=()) == replace(timed, records=())
        for record in found.records:
            launches, variants, _ = intact[record.name]
            assert all(launch in launches for launch in record.launches)
            assert notices or len(record.launches) == len(launches)
            assert record.variants == variants


def test_lines_without_a_checksum_are_read_as_runs_had_none_before(path: Path, three: Run) -> None:
    plain = [re.sub(rb',"crc32":\d+}$', b"}", line) for line in lines(path)]
    path.write_bytes(b"\r\n".join([*plain, b""]))
    assert read(path) == (three, [])


def changed(record: Record, path: str, value: Any) -> dict[str, Any]:
    """The record's JSON with this value at a path of keys; `...` takes the key away."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
    found: Any = data
    for key in keys:
        found = found[key]
    if value is ...:
        del found[last]
    else:
        found[last] = value
    return data


OPTIMIZED = "variants.optimized"
LAUNCH = "launches.0"


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("outcome", ..., "the field 'outcome' is missing"),
        ("info.tip.id", ..., r"info\.tip: the field 'id' is missing"),
        (f"{OPTIMIZED}.memory.tensor_peak", -1, "memory.*: expected `int` >= 0"),
        (f"{LAUNCH}.seconds.0", 0, r"launches\[0\].seconds\[0\]: expected `float` >"),
    ],
)
def test_a_record_that_no_report_could_calculate_with_is_named(timed: Run, place: str, value: Any, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        restored(changed(timed.records[1], place, value))


@pytest.mark.parametrize(
    ("field", "value"), [("seconds", (0.1,)), ("rounds", 3), ("variant", ("baseline",) * 16), ("by_stretch", True)]
)
def test_a_launch_that_statistics_could_not_divide_is_not_whole(timed: Run, field: str, value: Any) -> None:
    (launch, *_) = timed.records[1].launches
    assert launch.is_whole
    assert not replace(launch, **{field: value}).is_whole


# ---- headers ----


@pytest.mark.parametrize("line", [b"not json", b"[]"])
def test_an_unreadable_header_is_named(path: Path, line: bytes) -> None:
    edit(path, 1, line)
    with pytest.raises(StoreError, match=r"\.jsonl, line 1: the header is not a JSON object"):
        read(path)


@pytest.mark.parametrize("schema", [None, "4", SCHEMA - 1, SCHEMA + 1])
def test_a_file_of_another_schema_is_refused(path: Path, schema: Any) -> None:
    with pytest.raises(StoreError, match=rf"line 1: schema {schema!r}; .* update tipbench, or read an older"):
        read(edit_fields(path, 1, schema=schema))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, 3) for field in ("id", "started", "machine", "options", "planned")),
        ("controls", {"OMP_NUM_THREADS": 2}),
    ],
)
def test_a_damaged_header_field_is_named(path: Path, field: str, value: Any) -> None:
    with pytest.raises(StoreError, match=rf"line 1: the header is damaged \({field}"):
        read(edit_fields(path, 1, **{field: value}))


def test_empty_missing_and_foreign_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(StoreError, match=r"empty\.jsonl is empty"):
        read(empty)
    with pytest.raises(StoreError, match=r"missing\.jsonl cannot be read: no such file"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(StoreError, match=r"cannot be read: is a directory"):
        read(tmp_path)


# ---- a folder or a disk that refuses ----


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, three: Run) -> None:
    (tmp_path / "results").touch()
    with pytest.raises(StoreError, match=r"cannot write results to .*--results"):
        create(tmp_path / "results", three)
    (tmp_path / three.machine["name"]).touch()
    with pytest.raises(StoreError, match=r"cannot write results to .*file exists"):
        create(tmp_path, three)


def test_two_runs_never_share_a_file(path: Path, tmp_path: Path, three: Run) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match="file exists"):
        create(tmp_path, three)
    assert path.read_bytes() == before


def test_a_full_disk_at_the_header_leaves_no_file(tmp_path: Path, three: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="no space left on device"):
        create(tmp_path, three)
    assert list(tmp_path.rglob("*.jsonl")) == []


# ---- going on ----


def test_resume_cuts_a_truncated_last_line_off_and_says_so(path: Path, three: Run) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    found, writer = resume(path)
    with writer:
        assert found.records == three.records[:2]
        (notice,) = writer.notices
        assert notice.line == 4
        assert notice.text.startswith("truncated: ")
        writer.append(three.records[2])
    assert path.read_bytes() == whole


def test_resume_leaves_an_edited_line_where_it_is(path: Path, three: Run) -> None:
    edit(path, 3, b"scribbled on")
    found, writer = resume(path)
    with writer:
        assert [record.info.pair for record in found.records] == ["One", "Three"]
        assert [notice.line for notice in writer.notices] == [3]
        writer.append(three.records[1])
    assert lines(path)[2] == b"scribbled on"
    assert {record.name for record in read(path)[0].records} == {record.name for record in three.records}


def test_a_file_that_another_run_writes_is_left_to_it(path: Path) -> None:
    """As on two machines that share a folder."""
    before = path.read_bytes()
    _, writer = resume(path)
    with pytest.raises(StoreError, match=r": wait for it$"):
        resume(path)
    writer.close()
    resume(path)[1].close()
    assert path.read_bytes() == before


def test_resume_of_a_file_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"cannot write to .*: read-only file system"):
        resume(path)


# ---- the newest run ----


def test_newest_is_what_was_written_last(tmp_path: Path) -> None:
    first, last = (stored(tmp_path, run(id=id)) for id in ("ffffffff", "00000000"))
    for file, seconds in ((first, 1), (last, 2)):
        os.utime(file, (seconds, seconds))
    assert newest(tmp_path) == last
    _, writer = resume(first)
    with writer:
        writer.begin_session("2026-03-02T08:00:00+00:00", ["amp.Linear"])
    assert newest(tmp_path) == first


def test_newest_is_no_reference_run(tmp_path: Path) -> None:
    late = run(id="ffffffff", started="2026-12-24T08:00:00+00:00")
    shipped = stored(tmp_path / "reference", late)
    with pytest.raises(StoreError, match=r"measure first.*, or name a reference run"):
        newest(tmp_path)
    own = stored(tmp_path, run())
    assert newest(tmp_path) == own
    assert newest(tmp_path / "reference") == shipped, "but where that is what was asked for"


# ---- as it is learnt ----

CHECKED, FIRST, SECOND, MEMORY, THIRD = range(5)
"""What is learnt of a pair, in its order."""


def grown(name: str) -> list[Record]:
    """What is learnt of one pair: its checks, two launches, its memory and a third launch."""
    known: dict[str, Any] = {
        "memory": both(200, 400),
        "one_off": {side: {"build": 0.1} for side in ("baseline", "optimized")},
    }
    parts = list(learnt(measured(info(name), {"optimized": 0.1}, launches=3, **known)))
    assert [bool(part.variants["optimized"].memory) for part in parts] == [False] * 3 + [True] * 2
    return [replace(part, wall_s=1.0 + count) for count, part in enumerate(parts)]


@pytest.fixture
def growing() -> list[Record]:
    return grown("One")


def kept(folder: Path, records: Sequence[Record]) -> Path:
    """The file of a run in which this was learnt."""
    with create(folder, run()) as writer:
        for record in records:
            writer.append(record)
    return writer.path


def test_a_launch_or_memory_is_a_line_and_nothing_is_written_again(tmp_path: Path, growing: list[Record]) -> None:
    with create(tmp_path, run()) as writer:
        for number, record in enumerate(growing):
            writer.append(record)
            assert writer.saved == (number > CHECKED)
            assert read(writer.path) == (run([record], planned=()), [])
    _, begun, *others = [json.loads(line) for line in lines(writer.path)]
    assert "launches" not in begun["record"]
    assert [line["line"] for line in others] == ["launch", "launch", "memory", "launch"]
    seeds = [line["launch"]["seed"] for line in others if "launch" in line]
    assert seeds == [launch.seed for launch in growing[-1].launches]


def test_what_is_learnt_of_several_pairs_in_turns_comes_back(tmp_path: Path) -> None:
    """As a run learns it, in rounds over all pairs. One fails at last, one was only checked, one was skipped."""
    one, two, three = grown("One"), grown("Two"), grown("Three")[: CHECKED + 1]
    failed = Record(two[0].info, "failed", Reason("hang", {}, "made up"))
    skipped = Record(info("Four"), "skipped", NO_GPU)
    in_turns = [part for parts in zip(one[:THIRD], two[:THIRD], strict=True) for part in parts]
    file = kept(tmp_path, [skipped, *three, *in_turns, failed, one[THIRD]])
    found, notices = read(file)
    assert {record.name: record for record in found.records} == {
        record.name: record for record in (skipped, three[-1], failed, one[THIRD])
    }
    assert (len(found.records), notices) == (4, [])


@pytest.mark.parametrize("until", [CHECKED, FIRST, SECOND, MEMORY])
def test_resume_goes_on_within_a_pair(tmp_path: Path, growing: list[Record], until: int) -> None:
    file = kept(tmp_path, growing[: until + 1])
    length = len(lines(file))
    found, writer = resume(file)
    with writer:
        assert found.records == (growing[until],)
        assert [pair.record for pair in writer.stored.values()] == [growing[until]]
        for record in growing[until + 1 :]:
            writer.append(record)
    assert len(lines(file)) == length + THIRD - until
    assert read(file)[0].records == (growing[THIRD],)


@pytest.mark.parametrize("until", range(5))
def test_a_pair_that_fails_later_has_failed(tmp_path: Path, growing: list[Record], until: int) -> None:
    failed = Record(growing[0].info, "failed", Reason("out-of-memory", {}, "made up"))
    found, notices = read(kept(tmp_path, [*growing[: until + 1], failed]))
    assert (found.records, notices) == ((failed,), [])


def test_a_pair_that_begins_anew_leaves_its_launches_with_a_notice(tmp_path: Path, growing: list[Record]) -> None:
    found, (notice,) = read(kept(tmp_path, [*growing, *growing[: FIRST + 1]]))
    assert found.records == (growing[FIRST],)
    assert notice.line == 2 + len(growing)


LINE = {CHECKED: 2, FIRST: 3, SECOND: 4, MEMORY: 5, THIRD: 6}
"""Where in the file each lies."""

OF_NONE: list[dict[str, Any]] = [{"pair": "made-up.Other"}, {"device": "cuda"}, {"wall_s": "long"}, {"version": 2}]


@pytest.mark.parametrize("change", [*OF_NONE, {"steps": 0}, {"launch": {}}])
def test_what_is_no_launch_costs_itself_alone(tmp_path: Path, growing: list[Record], change: dict[str, Any]) -> None:
    file = edit_fields(kept(tmp_path, growing), LINE[SECOND], **change)
    (record,), (notice,) = read(file)[0].records, read(file)[1]
    assert notice.line == LINE[SECOND]
    launches = growing[-1].launches
    assert (record.launches, record.variants) == ((launches[0], launches[2]), growing[-1].variants)


# ---- copies and two runs in one file ----


def numbered(records: Sequence[Record]) -> dict[str, tuple[Any, ...]]:
    return {record.name: (record.launches, record.variants, record.outcome) for record in records}


def test_what_is_in_a_file_twice_counts_once_and_is_reported_once(tmp_path: Path, timed: Run) -> None:
    path = stored(tmp_path, timed)
    header, *rest = lines(path)
    for content in ([header, *rest, *rest], [header, *rest, *rest[-4:]]):
        path.write_bytes(b"\n".join(content) + b"\n")
        found, (notice,) = read(path)
        assert found == timed
        assert notice.line == 2 + len(rest)
        assert "counts once" in notice.text


def test_lines_of_another_run_are_not_used(tmp_path: Path, timed: Run) -> None:
    path = stored(tmp_path, timed)
    others = replace(timed, id="bbbb2222", records=tuple(replace(record, wall_s=9.0) for record in timed.records))
    path.write_bytes(path.read_bytes() + b"<<<<<<< HEAD\n" + stored(tmp_path / "b", others).read_bytes())
    found, (conflict, header, rest) = read(path)
    assert found == timed
    assert ["JSON" in conflict.text, "'line' is missing" in header.text, "of another run" in rest.text] == [True] * 3


def test_a_header_alone_says_that_no_pair_was_measured(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(lines(path)[0] + b"\n")
    found, (notice,) = read(path)
    assert (found.records, notice.line) == ((), 1)
    assert notice.text.startswith("no pair was measured")
    for format in ("md", "html", "json"):
        assert main(["report", "--format", format, str(path)]) == 0
    assert "**No tip was tried.**" in capsys.readouterr().out


# ---- what is committed ----


def test_every_committed_run_stays_readable() -> None:
    files = list((GOLDEN.parents[1] / "results").rglob("*.jsonl"))
    assert files
    for file in files:
        found, notices = read(file)
        assert notices == []
        # A run that was interrupted may lie here too.
        assert {record.name for record in found.records} <= set(found.planned)
        # Loaders are judged by stretches, beside which one round is timed; others if that takes too long for more.
        few = [each for record in found.records for each in record.launches if each.rounds == 1]
        assert all(each.by_stretch or sum(each.seconds) > LIMITS.longest_s for each in few)


def test_the_golden_file_stays_readable() -> None:
    """Its options have a profile, and its variants energy and work, as those of runs until November 2026 have."""
    made = realistic()
    assert read(GOLDEN / "run.jsonl") == (replace(made, options={"profile": "full", **made.options}), [])
