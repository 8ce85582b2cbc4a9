"""Results files that were damaged or tampered with: read, gone on with and reported, or refused in words."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import info, measured
from tipbench import cli
from tipbench.publish.allowed import allowed
from tipbench.records import store
from tipbench.records.record import Run
from tipbench.records.store import Notice, StoreError
from tipbench.report import FORMATS, one_liners, render
from tipbench.report.results import counts, results

SEED = 20261120
# Of a fixed run, as the lines below are chosen from it.
COMMITTED = (
    Path(__file__).parents[1] / "results/reference/amd-epyc-zen4-2c-24g/2026-11-23-d6ae0db3.jsonl"
).read_bytes()


def shortened() -> bytes:
    """The committed run with the skipped and the shortest measured of its pairs: many mutations in little time."""
    header, *lines = COMMITTED.splitlines(keepends=True)
    by_pair: dict[str, list[bytes]] = {}
    for line in lines:
        by_pair.setdefault(json.loads(line)["pair"], []).append(line)
    pairs = sorted(by_pair.values(), key=lambda lines: sum(map(len, lines)))
    skipped = [lines for lines in pairs if b'"outcome":"skipped"' in lines[0]][:2]
    measured = [lines for lines in pairs if len(lines) >= 8][:4]  # with launches enough for a verdict
    return b"".join([header, *(line for lines in (*skipped, *measured) for line in lines)])


SHORT = shortened().replace(b'"scale":"micro"', b'"scale":"macro"')  # whole jobs are drawn

# ---- what must hold of any file ----


def refuse_constant(word: str) -> None:
    raise AssertionError(f"{word} in a JSON report")


def examine(path: Path) -> str:
    """Read the file, go on with a copy, and report it: "refused" with the documented error, or "read" in full."""
    content = path.read_bytes()
    try:
        run, notices = store.read(path)
    except StoreError:
        for door in (store.read, store.resume):
            with pytest.raises(StoreError, match=re.escape(str(path))):
                door(path)
        assert path.read_bytes() == content
        return "refused"
    accounted_for(path, content, run, notices)
    reported(run, notices)
    assert path.read_bytes() == content
    resumed(path, content, run, notices)
    return "read"


UNDRAWN = [format for format in FORMATS if format != "html"]
"""What is rendered of every damaged file; a drawing takes a second, and is made of some of them."""


def accounted_for(path: Path, content: bytes, run: Run, notices: list[Notice]) -> None:
    """Every line is a record, or is named; every planned pair without a record is counted as not reached."""
    lines = content.count(b"\n") + (not content.endswith(b"\n")) - 1
    named = {line for notice in notices for line in (notice.line, *notice.further)} - {1}
    assert {notice.file for notice in notices} <= {path}
    assert named <= set(range(2, lines + 2))
    used = len(run.records) + sum(len(record.launches) for record in run.records)
    # Of a pair that is named as a whole, lines before and after may be unused too.
    if not any("begun anew" in notice.text or "different data" in notice.text for notice in notices):
        assert used <= lines
        assert lines <= used + len(named) + content.count(b'"line":"memory"')
    missing = Counter(run.planned) - Counter(record.name for record in run.records)
    assert counts(run).not_reached == missing.total()


def reported(run: Run, notices: list[Notice]) -> None:
    found = {format: render(run, notices, format).decode() for format in UNDRAWN}
    one_liners(run)
    listed = json.loads(found["json"], parse_constant=refuse_constant)
    lines = list(csv.reader(io.StringIO(found["csv"])))
    assert len(listed["pairs"]) == len(lines) - 1 == len(results(run))
    assert {record.info.pair for record in run.records} == {pair["pair"] for pair in listed["pairs"]}
    for notice in notices:
        assert f"line {notice.line}: {notice.text}" in listed["run"]["notices"]
        assert f", line {notice.line}: " in found["md"]


def resumed(path: Path, content: bytes, run: Run, notices: list[Notice]) -> None:
    """Going on changes at most the end of the last line, and the next record is stored whole."""
    further = measured(info("Further"), {"optimized": 0.1}, launches=1)
    again, writer = store.resume(path)
    with writer:
        assert again == run
        assert [notice.line for notice in writer.notices] == [notice.line for notice in notices]
        kept = path.read_bytes()
        assert kept.endswith(b"\n")
        assert kept in (content, content + b"\n", content[: content.rfind(b"\n") + 1])
        writer.append(further)
    assert store.read(path)[0].records == (*run.records, further)


def examine_all(folder: Path, base: bytes, mutate: Callable[[random.Random, bytes], bytes], count: int) -> Counter[str]:
    found = Counter[str]()
    for number in range(count):
        path = folder / f"{number}.jsonl"
        path.write_bytes(mutate(random.Random(f"{SEED} {mutate.__name__} {number}"), base))
        try:
            found[examine(path)] += 1
        except Exception as error:
            error.add_note(f"mutation {number} of {mutate.__name__}")
            raise
        path.unlink()
    return found


# ---- damage: a bad disk, a bad copy, a bad editor ----

Mutate = Callable[[random.Random, bytes], bytes]


def flip_bits(draw: random.Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 10])):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def replace_bytes(draw: random.Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 10])):
        damaged[draw.randrange(len(damaged))] = draw.choice(b'\x00\n\r"\\{}[],:-0e\xff\xc0\x80')
    return bytes(damaged)


def cut_off(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content))]


def cut_out(draw: random.Random, content: bytes) -> bytes:
    first, end = sorted(draw.sample(range(len(content)), 2))
    return content[:first] + content[end:]


def lose_a_block(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(0, len(content), 512)
    return content[:at] + b"\0" * len(content[at : at + 512]) + content[at + 512 :]


def insert_garbage(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    invalid = b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf"
    return content[:at] + draw.choice([draw.randbytes(9), *invalid, b"\n\n", b"\r\n", b"\0"]) + content[at:]


def edit_lines(draw: random.Random, content: bytes) -> bytes:
    """Delete, double, reorder or glue lines, the header among them now and then."""
    lines = content.splitlines(keepends=True)
    first = draw.choice([0, 1, 1, 1])
    at = draw.randrange(first, len(lines))
    match draw.choice(["delete", "double", "reorder", "glue", "delete many"]):
        case "delete":
            del lines[at]
        case "double":
            lines.insert(draw.randrange(first, len(lines) + 1), lines[at])
        case "reorder":
            lines[first:] = draw.sample(lines[first:], len(lines) - first)
        case "glue":
            lines[at] = lines[at].rstrip(b"\n")
        case _:
            lines = lines[:first] + [line for line in lines[first:] if draw.random() < 0.5]
    return b"".join(lines)


def damage_many_times(draw: random.Random, content: bytes) -> bytes:
    for _ in range(3):
        content = draw.choice([flip_bits, replace_bytes, insert_garbage, edit_lines])(draw, content) or content
    return content


# ---- tampering: whole JSON with other values in it ----

RAW = "raw value "
"""Marks a string as JSON text to be written as it is: Python's json cannot write it."""

NUMBERS = (
    *(f"{RAW}{text}" for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-0", "1e-400", "9" * 5000)),
    *(0, -1, 1, 2**31, 2**63, 10**30, 10**400, -(10**400), 1e308, -1e308, 5e-324, 0.5, True, False),
)
HOSTILE = (
    "", "x" * 10_000, "\0", "\n\n# forged", "\ud800", "\u202e\u2028", "NaN", "1e999", "=1+1", "@SUM(A1)", "| a | b |",
    "<script>alert(1)</script>", "](javascript:alert(1))", "../../../etc/passwd", "$(touch ran)", "`touch ran`",
    "__import__('os').system('touch ran')", "{0.__class__}", "%s%n", "!!python/object/apply:os.system ['touch ran']",
)  # fmt: skip
NESTED = [
    *(RAW + "[" * depth + "]" * depth for depth in (5, 60, 90, 95, 450, 990, 100_000)),
    *(RAW + '{"a":' * depth + "0" + "}" * depth for depth in (5, 60, 90, 95, 450, 990)),
]
CONTAINERS: tuple[Any, ...] = ([], {}, [[]], [{}], {"": {}}, {"a": None}, [None], ["a"], [0], {"name": "x"}, None)


def written(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"))
    return re.sub(f'"{RAW}((?:[^"\\\\]|\\\\.)*)"', lambda found: json.loads(f'"{found[1]}"'), text).encode()


def place(draw: random.Random, within: Any) -> tuple[Any, Any]:
    """(container, key) somewhere within, as often near the top as deep down."""
    while True:
        key = draw.choice(list(within) if isinstance(within, dict) else range(len(within)))
        if not isinstance(within[key], dict | list) or not within[key] or draw.random() < 0.3:
            return within, key
        within = within[key]


def alike(draw: random.Random, value: Any) -> Any:
    """Another value of the same type: these come furthest."""
    if isinstance(value, str):
        return draw.choice(HOSTILE)
    if isinstance(value, bool | int | float):
        return draw.choice(NUMBERS)
    return deepcopy(draw.choice([other for other in CONTAINERS if isinstance(other, type(value))]))


def tampered(draw: random.Random, content: bytes, line: int) -> bytes:
    lines = content.splitlines()
    data = json.loads(lines[line])
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        container, key = place(draw, data)
        match draw.choice(["alike"] * 6 + ["number", "text", "container", "nested", "nested", "other", "delete"]):
            case "alike":
                container[key] = alike(draw, container[key])
            case "number":
                container[key] = draw.choice(NUMBERS)
            case "text":
                container[key] = draw.choice(HOSTILE)
            case "container":
                container[key] = deepcopy(draw.choice(CONTAINERS))
            case "nested":
                container[key] = draw.choice(NESTED)
            case "other":
                other, there = place(draw, data)
                container[key] = deepcopy(other[there])
            case _:
                del container[key]
        if not data:
            break  # nothing left to tamper with
    lines[line] = written(data)
    return b"\n".join(lines) + b"\n"


def tamper_with_a_record(draw: random.Random, content: bytes) -> bytes:
    return tampered(draw, content, draw.randrange(1, content.count(b"\n")))


def tamper_with_the_header(draw: random.Random, content: bytes) -> bytes:
    return tampered(draw, content, 0)


# ---- the fuzzing ----


@pytest.mark.parametrize(
    "mutate",
    [
        flip_bits, replace_bytes, cut_off, cut_out, lose_a_block, insert_garbage, edit_lines, damage_many_times,
        tamper_with_a_record, tamper_with_the_header,
    ],
)  # fmt: skip
def test_mutated_files_are_read_in_full_or_refused_in_words(tmp_path: Path, mutate: Mutate) -> None:
    found = examine_all(tmp_path, SHORT, mutate, 50)
    assert found["read"] >= 5, "the mutations damage too much to reach the records"


def test_what_is_not_mutated_is_read_without_a_notice(tmp_path: Path) -> None:
    """The base of all the other tests here is whole, and holds what there is to damage."""
    path = tmp_path / "run.jsonl"
    for base in (COMMITTED, SHORT):
        path.write_bytes(base)
        assert examine(path) == "read"
        path.write_bytes(base)
        whole = store.read(path)
        assert whole[1] == []
        assert {record.outcome for record in whole[0].records} >= {"measured", "skipped"}
        path.write_bytes(base.replace(b"\n", b"\r\n"))
        assert store.read(path) == whole, "line ends of another system change nothing"


OTHERS = {
    "nothing": b"",
    "one empty line": b"\n",
    "empty lines": b"\n\n\n",
    "zeros": b"\0" * 4096,
    "UTF-16": SHORT.decode().encode("utf-16"),
    "gzip": gzip.compress(SHORT, mtime=0),
    "one line": SHORT.replace(b"\n", b""),
    "the line ends of another age": SHORT.replace(b"\n", b"\r"),
    "without its first byte": SHORT[1:],
    "an empty object": b"{}\n",
    "nested": b"[" * 1_000_000,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_files_of_another_kind_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(OTHERS[kind])
    assert examine(path) == "refused"


# ---- what the fuzzing found, each by name ----


def with_values(line: int, **values: Any) -> bytes:
    """SHORT with values in a line (0: the header), each at a path of keys joined by "__"."""
    lines = SHORT.splitlines()
    data = json.loads(lines[line])
    for path, value in values.items():
        *keys, last = (int(key) if key.isdigit() else key for key in path.split("__"))
        container = data
        for key in keys:
            container = container[key]
        container[last] = value
    lines[line] = written(data)
    return b"\n".join(lines) + b"\n"


MEASURED = 3
"""The line of a measured pair in SHORT, counted from 0 as the header."""


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("record__variants__optimized__one_off__build", f"{RAW}1e999", "1e999 is too large a number"),
        ("record__variants__optimized__equal__worst", f"{RAW}-1e999", "-1e999 is too large a number"),
        ("record__variants__optimized__mechanism__baseline", f"{RAW}{'[' * 400}{']' * 400}", "nested too deeply"),
    ],
)
def test_a_record_that_the_report_could_not_show_is_named(tmp_path: Path, path: str, value: Any, why: str) -> None:
    """Others: test_store.py."""
    file = tmp_path / "run.jsonl"
    file.write_bytes(with_values(MEASURED, **{path: value}))
    assert examine(file) == "read"
    notice, *lost = store.read(file)[1]
    assert all("which no line begins" in launch.text for launch in lost)
    assert notice.line == MEASURED + 1
    assert why in notice.text


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        (0, "machine__swap_bytes", 10**400),
        (0, "machine__caches__L2", 10**400),
        (
            MEASURED,
            "record__variants__optimized__mechanism",
            {"what": "bytes", "baseline": 10**400, "optimized": -(10**400)},
        ),
    ],
)
def test_numbers_that_no_float_holds_are_shown(tmp_path: Path, line: int, path: str, value: Any) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(with_values(line, **{path: value}))
    assert examine(file) == "read"
    assert store.read(file)[1] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("machine__further", f"{RAW}1e999"),
        ("machine__further", f"{RAW}{'[' * 400}{']' * 400}"),
        ("machine__\ud800", "x"),
        ("machine__cores", "\ud800"),
    ],
)
def test_a_header_that_the_report_could_not_show_is_refused(tmp_path: Path, path: str, value: Any) -> None:
    file = tmp_path / "run.jsonl"
    file.write_bytes(with_values(0, **{path: value}))
    assert examine(file) == "refused"


# ---- nothing in a file is ever run ----

RUNS_SOMETHING = ("compile", "exec", "os.exec", "os.fork", "os.posix_spawn", "os.system", "pickle.find_class",
                  "shutil.", "socket.", "subprocess.", "ctypes.", "urllib.")  # fmt: skip


def hostile_everywhere(word: str) -> bytes:
    """The words of a record and of the header that a person could write into a file, all `word`."""
    header, *lines = (json.loads(line) for line in SHORT.splitlines())
    header.update(id=word, started=word, suite=word, commit=word, planned=[word], controls={word: word})
    header["machine"].update({"name": word, "cpu": word, "torch": word, "flags": [word], ascii(word): word})
    why = {"code": word, "fields": {word: word}, "detail": word, "fix": word}
    for line in lines:
        line["run"] = word
    records = [line["record"] for line in lines if "record" in line]
    for record in records:
        about, variants = record["info"], record["variants"].values()
        about["tip"].update(title=word, note=word, published=word, status=word, guide=[word])
        about.update(
            scale=word if record is not records[-1] else "macro", file=word, sizes={word: word}, equal=word, why=why
        )
        record.update(why=why)
        for variant in variants:
            variant.update(why=why)
            variant["mechanism"] = {"what": word, "baseline": word, "optimized": [word], "engaged": True}
            variant["equal"] = {"method": word, "tolerance": word, "seeds": word, "worst": word}
    return b"".join(json.dumps(data).encode() + b"\n" for data in (header, *lines))


def test_nothing_in_a_file_is_run_and_no_name_leads_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder := tmp_path / "within").mkdir()
    monkeypatch.chdir(folder)
    path = folder / "run.jsonl"
    path.write_bytes(SHORT)
    listening, heard = False, []

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event.startswith(RUNS_SOMETHING):
            heard.append((event, arguments))

    for format in FORMATS:  # what is imported late is imported now
        assert cli.main(["report", "--format", format, "--out", "reports", str(path)]) == 0
        assert cli.main(["report", "--format", format, str(path)]) == 0
    sys.addaudithook(listen)  # it stays until the interpreter ends, deaf again after this test
    for word in HOSTILE:
        path.write_bytes(hostile_everywhere(word))
        assert store.read(path)[1] == []
        listening = True
        for format in FORMATS:
            assert cli.main(["report", "--format", format, str(path)]) == 0
        listening = False
    listening = True
    for format in FORMATS:
        assert cli.main(["report", "--format", format, "--out", "reports", str(path)]) == 0
    listening = False
    capsysbinary.readouterr()
    assert heard == []
    assert sorted(found.name for found in tmp_path.iterdir()) == ["within"]
    assert sorted(found.name for found in folder.iterdir()) == ["reports", "run.jsonl"]
    written = [found for found in (folder / "reports").rglob("*") if found.is_file()]
    assert {found.suffix for found in written} == {".svg", ".png", *(f".{format}" for format in FORMATS)}


def test_the_command_says_what_is_wrong_in_lines_and_never_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = Counter[int]()
    for number in range(20):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(damage_many_times(random.Random(f"{SEED} {number}"), SHORT))
        codes[cli.main(["report", "--format", "json", "--out", str(tmp_path / "reports"), str(path)])] += 1
        assert all(line.startswith(f"tipbench: {path}") for line in capsys.readouterr().err.splitlines())
    assert set(codes) == {0, 2}


@pytest.mark.parametrize("mutate", [flip_bits, tamper_with_a_record, tamper_with_the_header])
def test_a_mutated_file_is_compared_and_published_or_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mutate: Mutate
) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "mutated.jsonl"
    whole.write_bytes(SHORT.replace(json.loads(SHORT.splitlines()[0])["id"].encode(), b"another"))
    codes = Counter[int]()
    for number in range(25):
        path.write_bytes(mutate(random.Random(f"{SEED} {mutate.__name__} compared {number}"), SHORT))
        codes[cli.main(["compare", "--format", "json", str(whole), str(path)])] += 1
        assert all(line.startswith("tipbench: ") for line in capsys.readouterr().err.splitlines())
        try:
            found = allowed(*store.read(path))
        except StoreError:
            continue
        for format in UNDRAWN:
            render(found.run, found.notices, format)
    assert set(codes) <= {0, 2}
    assert codes[0] >= 5, "the mutations damage too much to reach the comparison"


def test_a_damaged_file_that_can_be_read_has_a_page_with_figures(tmp_path: Path) -> None:
    drawn = 0
    for number in range(12):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(damage_many_times(random.Random(f"{SEED} page {number}"), SHORT))
        try:
            run, notices = store.read(path)
        except store.StoreError:
            continue
        drawn += b"<svg" in render(run, notices, "html")
    assert drawn
