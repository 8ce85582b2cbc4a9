"""One line of a results file: a JSON object with its checksum, to and from bytes."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

CHECKSUM = "crc32"
"""The last field of each line: `zlib.crc32` of the line without this field. Runs until November 2026 have none."""


def parse_line(line: bytes) -> dict[str, Any]:
    """The object in a line, without its checksum. Raises ValueError where the line is no JSON, or was changed after it
    was written."""
    line = line.strip()
    try:
        data = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON object ({error})") from None
    if data.pop(CHECKSUM, None) is not None and line != _with_checksum(line.rpartition(b',"crc32":')[0] + b"}"):
        raise ValueError("changed after it was written: its checksum does not match")
    return data


def dump_line(data: Mapping[str, Any]) -> bytes:
    """The line with its checksum and newline. Raises TypeError, ValueError or RecursionError for what JSON cannot hold;
    half of a surrogate pair, which a file's name may hold, becomes a question mark."""
    text = json.dumps(_finite(data), allow_nan=False, separators=(",", ":"), default=str, ensure_ascii=False)
    return _with_checksum(text.encode("utf-8", "replace")) + b"\n"


def _with_checksum(text: bytes) -> bytes:
    return b'%b,"crc32":%d}' % (text[:-1], zlib.crc32(text))


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
