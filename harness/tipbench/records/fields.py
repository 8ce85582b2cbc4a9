"""Types of stored fields, and the conversion of parsed JSON to them.

JSON puts any type in any place, so each field is checked once, on reading; statistics and reports rely on that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

LARGEST = 2**63
"""Bound of every stored number. No count of bytes, seconds or steps comes near it, and below it arithmetic neither
overflows nor becomes infinite."""

Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=LARGEST - 1)]
Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Number = Annotated[float, msgspec.Meta(gt=-float(LARGEST), lt=float(LARGEST))]
Ratio = Annotated[float, msgspec.Meta(gt=1e-12, lt=1e12)]
Seconds = Annotated[float, msgspec.Meta(ge=1e-9, lt=1e12)]
"""Duration of a block. No clock measures less than a nanosecond, and every ratio of two durations, and its exponential,
is finite."""


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that its header stores, for whoever continues or reads it. A new one is one line here.

    Attributes:
        device: where pairs run; stored as it was resolved.
        size: tier of the jobs; empty: the one for this machine. Stored as it was resolved.
        seed: of inputs, weights and block order.
        bare: whether the process settings are not controlled.
        folder: where the pairs are; empty for the guides' own.
        budget_s: seconds after which nothing more is started; 0: until all is decided.
        given: the name of the person's own job that the pairs are about.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    size: Literal["", "S", "M", "L"] = ""
    seed: Seed = 0
    bare: bool = False
    folder: str = ""
    budget_s: Number = 0.0
    given: str = ""


class MalformedRecord(ValueError):
    """Stored data lacks a field or holds one of the wrong type; the message names it."""


def convert(data: Any, kind: type[T], where: str = "") -> T:
    """`data` as a `kind`. Raises MalformedRecord where a field is missing or has another type.

    where: path of `data` within the record, for the message.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise MalformedRecord(_sentence(str(error), where)) from None


def _sentence(text: str, where: str) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.info.line`" as "info.line: expected `int`, got `str`"."""
    what, _, path = text.replace("`key` in ", "").partition(" - at `$")
    missing = re.fullmatch("Object missing required field `(.*)`", what)
    what = f"the field {missing[1]!r} is missing" if missing else what[0].lower() + what[1:]
    place = f"{where}{path.rstrip('`')}".strip(".")
    return f"{place}: {what}" if place else what
