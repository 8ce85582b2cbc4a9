"""Results as a pandas table: `tipbench.load(*files)`, for notebooks.

One row a run, pair, variant and device. COLUMNS documents each column; columns are only ever added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tipbench.records import store
from tipbench.report.result import MEMORY, READINGS, Result
from tipbench.report.results import results
from tipbench.report.trained import TrainingEffect, training_effect
from tipbench.tip.wording import equal_work, value

if TYPE_CHECKING:
    import pandas as pd

SIDES = ("baseline", "variant")

TEXT, NUMBER, COUNT, FLAG, OBJECT = "string", "float64", "Int64", "boolean", "object"
"""The dtypes of columns. A count or a flag that is not known is missing."""


class Column(NamedTuple):
    """A column of the table.

    Attributes:
        name: of the column.
        dtype: of pandas.
        meaning: what the column holds, with its unit.
        of: its value in a row; if None, the field of `Result` that has its name.
    """

    name: str
    dtype: str
    meaning: str
    of: Callable[[Result], Any] | None = None


def _of_tip(name: str, meaning: str) -> Column:
    return Column(name, TEXT, meaning, attrgetter(f"about.{name}"))


def _peak(side: str, kind: str, result: Result) -> int | None:
    memory = result.baseline_memory if side == "baseline" else result.variant_memory
    return memory.get(kind)


def _mechanism_count(side: str, result: Result) -> str | None:
    return value(result.mechanism[side]) if side in result.mechanism else None


def _reading(side: int, name: str, result: Result) -> float | None:
    sides = result.gpu.get(name)
    return sides[side] if sides else None


def _fewer_steps(at: int, trainings: TrainingEffect) -> float | None:
    """The ratio at the lower end of its interval (0), in its middle (1) or at the upper end (2)."""
    if not trainings.both_reach:
        return None
    low, high = trainings.fewer.interval()
    return math.exp((low, trainings.fewer.mean, high)[at])


def _of_trainings(name: str, dtype: str, meaning: str, of: Callable[[TrainingEffect], Any]) -> Column:
    """of: a property of what whole trainings came to; None in rows without any."""

    def value_of(result: Result) -> Any:
        trainings = training_effect(result)
        return None if trainings is None else of(trainings)

    return Column(name, dtype, meaning, value_of)


def _trainings_of_side(side: str) -> list[Column]:
    steps = f"optimizer steps that the {side} is expected to take to the target, failed trainings included"
    reached = f"how many trainings of the {side} reached the target"
    score = f"score of the {side} after training, the mean over its trainings"
    return [
        _of_trainings(f"{side}_steps_to_target", NUMBER, steps, attrgetter(f"{side}.steps")),
        _of_trainings(f"{side}_reached", COUNT, reached, attrgetter(f"{side}.reached")),
        _of_trainings(f"{side}_score", NUMBER, score, attrgetter(f"{side}.score")),
    ]


_COLUMNS = (
    Column("run", TEXT, "id of the run", attrgetter("run_id")),
    Column("started", TEXT, "when the run began, ISO 8601 in UTC"),
    Column("suite", TEXT, "version of the suite"),
    Column("commit", TEXT, "git commit of the suite, with -dirty for uncommitted changes"),
    Column("machine", TEXT, "readable name of the hardware"),
    Column("tip", TEXT, "id of the tip"),
    _of_tip("title", "the tip in words"),
    _of_tip("claim", "what the guide promises"),
    Column("guide", TEXT, "the guides' items that give the advice", lambda row: ", ".join(map(str, row.about.guide))),
    _of_tip("published", "the guide's own figures, with their source"),
    _of_tip("note", "what the guides get wrong"),
    _of_tip("status", "current, or what became of the advice since"),
    _of_tip("do", "what to write to follow the tip"),
    _of_tip("when", "the condition under which the gain is a reader's own"),
    _of_tip("against", "what the baseline is, if not the job as it is in one process"),
    Column("pair", TEXT, "name of the pair"),
    Column("scale", TEXT, "micro: an operation alone; macro: a whole job"),
    Column("variant", TEXT, "name of the variant"),
    Column("is_headline", FLAG, "whether the guide words the tip so"),
    Column("device", TEXT, "cpu or cuda"),
    Column("task", TEXT, "what a whole job does: training, inference, or processes for several at once"),
    Column("job", TEXT, "name of a whole job; pairs of equal job and sizes do the same work"),
    Column("sizes", TEXT, "sizes of the work, as JSON"),
    Column("file", TEXT, "where the pair is written"),
    Column("line", COUNT, "at which line"),
    Column("code", OBJECT, "by side its source code, if the run stored it"),
    Column("cold", FLAG, "whether a GPU's L2 cache was emptied before every step"),
    Column("work", TEXT, "digest of code and sizes: rows of equal tip, pair, variant, device and work are replicates"),
    Column("verdict", TEXT, "faster, slower, no difference, at most 3 %, inconclusive, skipped or failed"),
    Column("speedup", NUMBER, "time of the baseline over the variant's"),
    Column("low", NUMBER, "lower end of its 95 % interval"),
    Column("high", NUMBER, "upper end of its 95 % interval"),
    Column("launches", COUNT, "launches behind the speedup"),
    Column("effects", OBJECT, "ln of the speedup in each of these launches, in their order"),
    Column("error", NUMBER, "standard error of ln speedup"),
    Column("freedom", NUMBER, "degrees of freedom of this error"),
    Column("quarantined", COUNT, "rounds left out as disturbed"),
    Column("truth", NUMBER, "the true speedup, of a planted pair that declares it"),
    Column("baseline_step_s", NUMBER, "seconds of a step of the baseline", attrgetter("step_s")),
    Column("variant_step_s", NUMBER, "seconds of a step of the variant"),
    *(
        Column(f"{side}_{kind}_bytes", COUNT, f"{kind} of the {side}, in bytes", partial(_peak, side, kind))
        for kind in MEMORY
        for side in SIDES
    ),
    Column("memory_kind", TEXT, "the kind of memory that a claim about memory is judged by"),
    Column("equal", TEXT, "how equal work was checked", lambda result: equal_work(result.equal)),
    Column("mechanism", TEXT, "what the mechanism counted", lambda result: result.mechanism.get("what")),
    Column("mechanism_baseline", TEXT, "its count for the baseline", partial(_mechanism_count, "baseline")),
    Column("mechanism_variant", TEXT, "its count for the variant", partial(_mechanism_count, "optimized")),
    Column("engaged", FLAG, "whether the count changed as the tip says", lambda row: row.mechanism.get("engaged")),
    Column("baseline_one_off_s", NUMBER, "seconds the baseline needs once: build and warm-up, with cold caches"),
    Column("variant_one_off_s", NUMBER, "the same of the variant"),
    Column("one_off_s", NUMBER, "seconds the variant needs once beyond the baseline"),
    Column("break_even_steps", COUNT, "steps after which a faster variant has saved what it needs once; 0: at once"),
    _of_trainings("trainings", COUNT, "whole trainings of each side, by seed", attrgetter("baseline.trainings")),
    *_trainings_of_side("baseline"),
    *_trainings_of_side("variant"),
    _of_trainings(
        "fewer_steps",
        NUMBER,
        "timed steps to the target of the baseline over the variant's",
        partial(_fewer_steps, 1),
    ),
    _of_trainings("fewer_steps_low", NUMBER, "lower end of its 95 % interval", partial(_fewer_steps, 0)),
    _of_trainings("fewer_steps_high", NUMBER, "upper end of its 95 % interval", partial(_fewer_steps, 2)),
    Column("job_profile", OBJECT, "work of a whole job's step, and seconds of its phases"),
    *(
        Column(
            f"{side}_{name}", NUMBER, f"{name} of the {side}, from the GPU's driver", partial(_reading, number, name)
        )
        for name in READINGS
        for number, side in enumerate(SIDES)
    ),
    Column("reason_code", TEXT, "the main reason why there is no clear answer, as a code"),
    Column("reason", TEXT, "why there is no clear answer"),
    Column("remedy", TEXT, "what to do about it"),
)

COLUMNS: Mapping[str, Column] = {column.name: column for column in _COLUMNS}


def load(*files: str | Path) -> pd.DataFrame:
    """The results of stored runs as one table, in the order of the files, with the columns of COLUMNS.

    Raises `tipbench.records.store.StoreError` if a file cannot be used; what in a usable file cannot be used is in the
    notices of `tipbench report`.
    """
    return frame([result for file in files for result in results(store.read(Path(file))[0])])


def frame(rows: Sequence[Result]) -> pd.DataFrame:
    """Rows as a table with the columns of COLUMNS."""
    import pandas as pd  # takes half a second, which commands that make no table are spared

    values = {name: map(column.of or attrgetter(name), rows) for name, column in COLUMNS.items()}
    return pd.DataFrame({name: pd.Series(list(values[name]), dtype=column.dtype) for name, column in COLUMNS.items()})
