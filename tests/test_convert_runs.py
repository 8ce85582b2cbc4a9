"""Files of older schemas become files that are read, and what is none stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.convert_runs import convert
from tests.made_up import both, info, measured, run, stored
from tipbench.records import store
from tipbench.records.json_line import parse_line


def as_schema_3(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it was before lines named their run and their number."""
    if "schema" in line:
        return {**line, "schema": 3}
    if line["line"] == "pair":
        return dict(line["record"])
    more = {key: value for key, value in line.items() if key in ("steps", "wall_s", "launch", "variants")}
    return {"of": line["pair"], "device": line["device"], **more}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return stored(tmp_path, run([measured(info(), {"optimized": 0.1}, memory=both(800, 1000))]))


def test_a_run_of_schema_3_is_read_as_it_was(file: Path) -> None:
    run_before, _ = store.read(file)
    lines = [as_schema_3(parse_line(line)) for line in file.read_bytes().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    convert(file)
    run_after, notices = store.read(file)
    assert notices == []
    assert run_after.records == run_before.records
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    "text",
    ["", "[]\n", "no JSON\n", '{"schema": 0}\n', '{"schema": 4}\n', '{"schema": 3}\n{"of": 1}\n', '{"schema": "3"}'],
)
def test_what_is_no_older_run_is_named_and_left_as_it_is(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SystemExit, match=str(file)):
        convert(file)
    assert file.read_text() == text
    assert [path.name for path in file.parent.iterdir()] == [file.name]
