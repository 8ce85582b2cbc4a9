"""Whole trainings to a target, from the table beside the file of their pair that its tip names as `evidence`.

No run counts trainings: how many steps one takes hardly depends on the machine. `tipbench.tip.counting` does.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tipbench.records.fields import MalformedRecord, Number, Positive, Whole, convert


@dataclass(frozen=True)
class Trainings:
    """Whole trainings of one variant, counted and not timed; the tuples have one item for each seed.

    Attributes:
        target: score that a training must reach, from above or below.
        batch: samples of an optimizer step.
        steps_timed: optimizer steps within one timed step.
        seeds: the same for all variants of a pair.
        steps: optimizer steps until the target was reached, or until the training was given up.
        reached: whether the target was reached.
        scores: final score; None where it is not finite.
        lower_is_better: of the score, as of a loss.
        counted: the day, in ISO 8601.
        table: name of the file that holds them.
    """

    target: Number
    batch: Positive
    steps_timed: Positive
    seeds: tuple[Whole, ...]
    steps: tuple[Positive, ...]
    reached: tuple[bool, ...]
    scores: tuple[Number | None, ...]
    lower_is_better: bool
    counted: str
    table: str


@cache
def read_trainings(table: Path) -> dict[str, dict[str, Trainings]]:
    """By pair and variant. Raises OSError, and ValueError where the table cannot be used; its message says why."""
    stored = tomllib.loads(table.read_text())
    of_all = {"seeds": stored.get("seeds"), "counted": str(stored.get("counted")), "table": table.name}
    tables = {name: value for name, value in stored.items() if isinstance(value, dict)}
    pairs = convert(tables, dict[str, dict[str, dict[str, Any]]], table.name)
    return {
        pair: {side: _trainings({**fields, **of_all}, f"{table.name}: {pair}.{side}") for side, fields in sides.items()}
        for pair, sides in pairs.items()
    }


def _trainings(fields: dict[str, Any], where: str) -> Trainings:
    scores = convert(fields.get("scores"), tuple[float, ...], f"{where}.scores")
    fields["scores"] = [score if math.isfinite(score) else None for score in scores]
    trainings = convert(fields, Trainings, where)
    columns = trainings.steps, trainings.reached, trainings.scores
    if len(trainings.seeds) < 2 or any(len(column) != len(trainings.seeds) for column in columns):
        raise MalformedRecord(f"{where}: one of each number is expected for each of two or more seeds")
    return trainings
