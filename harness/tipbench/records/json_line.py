"""One line of a results file: an object of strict JSON, to and from bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MOST_NESTED = 100
"""Levels of objects and lists that a line may have; the lines that we write have fewer than ten."""


def parsed(line: bytes) -> dict[str, Any]:
    """The object in a line.

    Raises ValueError, also for what Python's json accepts and a report could not show: NaN, Infinity, 1e999 (read as
    infinite), two equal keys in an object, and more than MOST_NESTED levels.
    """
    try:
        data = json.loads(
            line.decode("utf-8"), parse_constant=_refuse, parse_float=_finite_float, object_pairs_hook=_distinct
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"an object is expected, not {type(data).__name__}")
    if line.count(b"{") + line.count(b"[") > MOST_NESTED and _depth(data) > MOST_NESTED:
        raise ValueError("nested too deeply")
    return data


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object. Raises ValueError for two equal keys, of which Python's json and msgspec silently use the last."""
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice!a} twice")
    return data


def _depth(data: dict[str, Any]) -> int:
    """Levels of objects and lists."""
    level: list[Any] = [data]
    depth = 0
    while level:
        within = (item for outer in level for item in (outer.values() if isinstance(outer, dict) else outer))
        level = [item for item in within if isinstance(item, dict | list)]
        depth += 1
    return depth


def written(data: Mapping[str, Any]) -> bytes:
    """The line with its newline. Raises TypeError, ValueError or RecursionError for what JSON cannot hold."""
    return json.dumps(_finite(data), allow_nan=False, separators=(",", ":"), default=str).encode() + b"\n"


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _finite_float(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number} is too large a number")
    return value


def _finite(value: Any) -> Any:
    """`value` with NaN and infinities as text: JSON has no numbers for them, and a pair whose outputs differ by NaN
    must still be stored."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
