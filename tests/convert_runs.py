"""Results files of schemas 2 and 3, converted to the one that is read: `python -m tests.convert_runs FILE...`.

Each file is replaced. Schema 2 has the launches of a pair in the line of its record; schema 3 has launches and memory
in lines that name neither their run nor their number. Runs whose options name no rules were judged by older ones as
they were measured; converted, they are judged by those of today. The suite up to commit 13036a6 converts schema 1.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tipbench.records.fields import RunOptions
from tipbench.records.store import SCHEMA, read

Json = dict[str, Any]


def converted(lines: list[Json]) -> Iterator[Json]:
    """The lines of a file in the present schema, from those of an older one."""
    header, *older = lines
    yield {**header, "schema": SCHEMA, "options": {**header["options"], "rules": RunOptions.rules}}
    numbers: Counter[tuple[Any, ...]] = Counter()
    for line in older:
        yield from _lines(header["id"], numbers, line)


def _lines(run: str, numbers: Counter[tuple[Any, ...]], line: Json) -> Iterator[Json]:
    """numbers: of each pair the version, and of each version the launches and memory lines, so far."""

    def written(kind: str, pair: tuple[str, str], **more: Any) -> Json:
        named = {"line": kind, "run": run, "pair": pair[0], "device": pair[1], "version": numbers[pair]}
        if kind != "pair":
            numbers[(*pair, numbers[pair], kind)] += 1
            named[f"{kind}_number"] = numbers[(*pair, numbers[pair], kind)]
        return {**named, **more}

    if "launch" in line or "of" in line:
        pair = line.pop("of"), line.pop("device")
        yield written("launch" if "launch" in line else "memory", pair, **line)
        return
    info = line["info"]
    name = f"{info['tip']['id']}.{info['pair']}" if info["pair"] else info["tip"]["id"]
    pair = name, info["device"]
    numbers[pair] += 1
    steps, launches = line.pop("steps", 0), line.pop("launches", ())
    yield written("pair", pair, record=line)
    for launch in launches:
        yield written("launch", pair, steps=steps, wall_s=line.get("wall_s", 0.0), launch=launch)


def convert(path: Path) -> None:
    """Replace a results file. Raises SystemExit where it is none, or would not be read without a notice then."""
    try:
        header, *_ = lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        if header["schema"] not in range(2, SCHEMA):
            sys.exit(f"{path} is of schema {header['schema']}: there is nothing to convert")
        text = "".join(_line(line) for line in converted(lines))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"{path} is no whole results file of schemas 2 to {SCHEMA - 1}: {error!r}")
    new = path.with_suffix(".converting")
    try:
        with new.open("x") as file:  # not through a link that somebody has put there
            file.write(text)
    except OSError as error:
        sys.exit(f"cannot write {new}: {error.strerror}")
    _, notices = read(new)
    if notices:
        new.unlink()
        sys.exit(f"{path} would not be read whole: {notices[0]}")
    new.replace(path)


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        convert(Path(name))
