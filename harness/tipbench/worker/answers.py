"""What a pair's methods may return: only what a record, which is written as JSON, can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tipbench.worker.failed import Failed

REMEDY = "return numbers, text, None, or lists and dicts of these"


def expect_storable(method: str, answer: Any) -> None:
    """Raise Failed where JSON cannot hold what a method of the pair returned; tuples are allowed."""
    try:
        json.dumps(answer, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Failed("not-storable", f"{method} returned what no record can hold: {error}; {REMEDY}") from None


def expect_numbers(method: str, answer: object) -> dict[str, Any]:
    """The answer as a dict of numbers by name. Raises Failed where it is something else."""
    if not isinstance(answer, Mapping) or not all(isinstance(number, int | float) for number in answer.values()):
        raise Failed("not-storable", f"{method} returned {answer!r}; return a mapping from names to numbers")
    expect_storable(method, dict(answer))
    return dict(answer)
