"""Results files of schemas 1 to 3, converted to the one that is read: `python -m tests.convert_runs FILE...`.

Each file is replaced. Schema 1 has sentences for reasons, other names for two fields and no number of rounds; schemas 1
and 2 have the launches of a pair in the line of its record; schema 3 has launches and memory in lines that name neither
their run nor their number. Runs whose options name no rules were judged by older ones as they were measured; converted,
they are judged by those of today.
"""

from __future__ import annotations

import json
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from tipbench.records.fields import RunOptions
from tipbench.records.store import SCHEMA, read
from tipbench.tip.reason import NEEDS, NEEDS_SENTENCES, Reason

LONGEST = 1000
"""Characters of a reason that is compared with the sentences."""

Json = dict[str, Any]


def converted(lines: list[Json]) -> Iterator[Json]:
    """The lines of a file in the present schema, from those of an older one."""
    header, *older = lines
    schema = header["schema"]
    yield {**header, "schema": SCHEMA, "options": {**header["options"], "rules": RunOptions.rules}}
    numbers: Counter[tuple[Any, ...]] = Counter()
    for line in older:
        yield from _lines(header["id"], numbers, line if schema > 1 else _of_schema_1(line))


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


# ---- schema 1 ----


def _of_schema_1(record: Json) -> Json:
    """Unless a later version added the record on resuming: what it names already stays as it is."""
    record = _with_reason(record)
    info = _with_reason(record["info"])
    variants = [_renamed(_with_reason(variant), "surroundings", "settings") for variant in info["variants"]]
    record["info"] = _renamed({**info, "variants": variants}, "cold", "flush_l2")
    record["variants"] = {name: _with_reason(variant) for name, variant in record["variants"].items()}
    record["launches"] = [
        {"rounds": len(launch["variant"]) // (2 * len(set(launch["variant"]))), **launch}
        for launch in record["launches"]
    ]
    return record


def _renamed(data: Json, old: str, new: str) -> Json:
    return {new if name == old else name: value for name, value in data.items()}


def _with_reason(data: Json) -> Json:
    rest = dict(data)
    words = [rest.pop(name, "") for name in ("kind", "reason", "remedy")]
    return {"why": asdict(_reason(*words)) if any(words) else None, **rest}


def _reason(kind: str, sentence: str, remedy: str) -> Reason:
    """With its code, where it says what a sentence on needs says; else one that is worded by its detail alone."""
    if not kind and len(sentence) < LONGEST:
        for code in NEEDS_SENTENCES:
            if code != "own" and (match := _form(code).fullmatch(sentence)):
                fields = {name: _field(text) for name, text in match.groupdict().items() if name != "detail"}
                why = Reason(f"{NEEDS}.{code}", fields, match.groupdict().get("detail", ""))
                if why.text == sentence:
                    return why if why.remedy == remedy else replace(why, fix=remedy)
    return Reason(f"{kind.replace(' ', '-') or NEEDS}.stored", detail=sentence, fix=remedy)


@cache
def _form(code: str) -> re.Pattern[str]:
    """What a sentence looks like with its fields filled in."""
    form = ""
    for literal, name, noun, _ in string.Formatter().parse(NEEDS_SENTENCES[code].text):
        form += re.escape(literal) + (f"(?P<{name}>.*?)" if name else "")
        form += f" {noun}s?" if noun and noun[0].isupper() else ""
    return re.compile(form, re.DOTALL)


def _field(text: str) -> int | str:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def convert(path: Path) -> None:
    """Replace a results file. Raises SystemExit where it is none, or would not be read without a notice then."""
    try:
        header, *_ = lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        if header["schema"] not in range(1, SCHEMA):
            sys.exit(f"{path} is of schema {header['schema']}: there is nothing to convert")
        text = "".join(_line(line) for line in converted(lines))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"{path} is no whole results file of schemas 1 to {SCHEMA - 1}: {error!r}")
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
