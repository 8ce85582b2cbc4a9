"""What a pair's methods may return: only what a record, which is written as JSON, can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tipbench.worker.failed import Failed

REMEDY = "return numbers, text, None, or lists and dicts of these"


def expect_storable(method: str, answer: Any) -> None:
    """Raise Failed where JSON cannot hold what a method of the pair returned; tuples are allowed."""
    try:
        refused = _refused(answer)
    except RecursionError:
        refused = "something that contains itself, or is nested too deeply"
    if refused:
        raise Failed("not-storable", f"{method} returned {refused}, which a record cannot hold; {REMEDY}")


def expect_numbers(method: str, answer: object) -> dict[str, Any]:
    """The answer as a dict of numbers by name. Raises Failed where it is something else."""
    if not isinstance(answer, Mapping):
        raise Failed("not-storable", f"{method} returned {_named(answer)}; return a mapping from names to numbers")
    expect_storable(method, dict(answer))
    for name, number in answer.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise Failed("not-storable", f"{method} returned {_named(number)} for {name!r}; return a number")
    return dict(answer)


def _refused(answer: Any) -> str:
    """The first item in an answer that JSON cannot hold, in words; empty where there is none."""
    if isinstance(answer, float):
        return "" if math.isfinite(answer) else f"{answer}, which is no finite number"
    if answer is None or isinstance(answer, bool | int | str):
        return ""
    if isinstance(answer, list | tuple):
        return next(filter(None, map(_refused, answer)), "")
    if isinstance(answer, dict):
        if odd := [name for name in answer if not isinstance(name, str)]:
            return f"a dict with a key of type {type(odd[0]).__qualname__}"
        return next(filter(None, map(_refused, answer.values())), "")
    return _named(answer)


def _named(value: object) -> str:
    """The type of a value, in words."""
    of = type(value)
    return f"a {of.__qualname__}" if of.__module__ == "builtins" else f"a {of.__module__}.{of.__qualname__}"
