"""Results as a pandas table: `tipbench.load(*files)`, for notebooks, and what the CSV is made of.

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
from tipbench.report.result import JOULES, LIMIT_PAIRS, MEMORY, READINGS, Result
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
        of: its value in a row.
    """

    name: str
    dtype: str
    meaning: str
    of: Callable[[Result], Any]


def _column(name: str, dtype: str, meaning: str, of: Callable[[Result], Any] | None = None) -> Column:
    """of: the value in a row; if None, the field of `Result` that has the column's name."""
    return Column(name, dtype, meaning, attrgetter(name) if of is None else of)


def _of_tip(name: str, meaning: str) -> Column:
    return Column(name, TEXT, meaning, attrgetter(f"about.{name}"))


def _peak(side: str, kind: str, result: Result) -> int | None:
    memory = result.baseline_memory if side == "baseline" else result.variant_memory
    return memory.get(kind)


def _mechanism_count(side: str, result: Result) -> str | None:
    return value(result.mechanism[side]) if side in result.mechanism else None


def _share(part: str, kind: str, result: Result) -> float | None:
    share = result.limits.get(kind)
    return getattr(share, part) if share else None


def _reading(side: int, name: str, result: Result) -> float | None:
    sides = result.gpu.get(name)
    return sides[side] if sides else None


def _trained(of: Callable[[TrainingEffect], Any], result: Result) -> Any:
    """A property of what whole trainings came to; None in rows without any."""
    trainings = training_effect(result)
    return None if trainings is None else of(trainings)


def _fewer_steps(at: int, trainings: TrainingEffect) -> float | None:
    """The ratio at the lower end of its interval (0), in its middle (1) or at the upper end (2)."""
    if not trainings.both_reach:
        return None
    low, high = trainings.fewer.interval()
    return math.exp((low, trainings.fewer.mean, high)[at])


def _of_trainings(name: str, dtype: str, meaning: str, of: Callable[[TrainingEffect], Any]) -> Column:
    return Column(name, dtype, meaning, partial(_trained, of))


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
    _column("run", TEXT, "id of the run", attrgetter("run_id")),
    _column("started", TEXT, "when the run began, ISO 8601 in UTC"),
    _column("suite", TEXT, "version of the suite"),
    _column("commit", TEXT, "git commit of the suite, with -dirty for uncommitted changes"),
    _column("machine", TEXT, "readable name of the hardware"),
    _column("tip", TEXT, "id of the tip"),
    _of_tip("title", "the tip in words"),
    _of_tip("claim", "what the guide promises"),
    _column("guide", TEXT, "the guides' items that give the advice", lambda row: ", ".join(map(str, row.about.guide))),
    _of_tip("published", "the guide's own figures, with their source"),
    _of_tip("note", "what the guides get wrong"),
    _of_tip("status", "current, or what became of the advice since"),
    _of_tip("do", "what to write to follow the tip"),
    _of_tip("when", "the condition under which the gain is a reader's own"),
    _of_tip("against", "what the baseline is, if not the job as it is in one process"),
    _column("pair", TEXT, "name of the pair"),
    _column("scale", TEXT, "micro: an operation alone; macro: a whole job"),
    _column("variant", TEXT, "name of the variant"),
    _column("is_headline", FLAG, "whether the guide words the tip so"),
    _column("device", TEXT, "cpu or cuda"),
    _column("task", TEXT, "what a whole job does: training, inference, or processes for several at once"),
    _column("job", TEXT, "name of a whole job; pairs of equal job and sizes do the same work"),
    _column("sizes", TEXT, "sizes of the work, as JSON"),
    _column("file", TEXT, "where the pair is written"),
    _column("line", COUNT, "at which line"),
    _column("code", OBJECT, "by side its source code, if the run stored it"),
    _column("cold", FLAG, "whether a GPU's L2 cache was emptied before every step"),
    _column("work", TEXT, "digest of code and sizes: rows of equal tip, pair, variant, device and work are replicates"),
    _column("verdict", TEXT, "faster, slower, no difference, at most 3 %, inconclusive, skipped or failed"),
    _column("speedup", NUMBER, "time of the baseline over the variant's"),
    _column("low", NUMBER, "lower end of its 95 % interval"),
    _column("high", NUMBER, "upper end of its 95 % interval"),
    _column("launches", COUNT, "launches behind the speedup"),
    _column("effects", OBJECT, "ln of the speedup in each of these launches, in their order"),
    _column("error", NUMBER, "standard error of ln speedup"),
    _column("freedom", NUMBER, "degrees of freedom of this error"),
    _column("quarantined", COUNT, "rounds left out as disturbed"),
    _column("truth", NUMBER, "the true speedup, of a planted pair that declares it"),
    _column("baseline_step_s", NUMBER, "seconds of a step of the baseline", attrgetter("step_s")),
    _column("variant_step_s", NUMBER, "seconds of a step of the variant"),
    *(
        _column(f"{side}_{kind}_bytes", COUNT, f"{kind} of the {side}, in bytes", partial(_peak, side, kind))
        for kind in MEMORY
        for side in SIDES
    ),
    _column("memory_kind", TEXT, "the kind of memory that a claim about memory is judged by"),
    _column("equal", TEXT, "how equal work was checked", lambda result: equal_work(result.equal)),
    _column("mechanism", TEXT, "what the mechanism counted", lambda result: result.mechanism.get("what")),
    _column("mechanism_baseline", TEXT, "its count for the baseline", partial(_mechanism_count, "baseline")),
    _column("mechanism_variant", TEXT, "its count for the variant", partial(_mechanism_count, "optimized")),
    _column("engaged", FLAG, "whether the count changed as the tip says", lambda row: row.mechanism.get("engaged")),
    _column("baseline_one_off_s", NUMBER, "seconds the baseline needs once: build and warm-up, with cold caches"),
    _column("variant_one_off_s", NUMBER, "the same of the variant"),
    _column("one_off_s", NUMBER, "seconds the variant needs once beyond the baseline"),
    _column("break_even_steps", COUNT, "steps after which a faster variant has saved what it needs once; 0: at once"),
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
    *(
        _column(f"rate_of_{kind}", NUMBER, f"{kind} a second that this machine reaches", partial(_share, "rate", kind))
        for kind in LIMIT_PAIRS
    ),
    *(
        _column(
            f"{side}_share_of_{kind}",
            NUMBER,
            f"share of this machine's rate of {kind} that the {side} reaches",
            partial(_share, side, kind),
        )
        for kind in LIMIT_PAIRS
        for side in SIDES
    ),
    _column("job_profile", OBJECT, "work of a whole job's step, and seconds of its phases"),
    *(
        _column(
            f"{side}_{name}", NUMBER, f"{name} of the {side}, from the GPU's driver", partial(_reading, number, name)
        )
        for name in (*READINGS, JOULES)
        for number, side in enumerate(SIDES)
    ),
    _column("reason_code", TEXT, "the main reason why there is no clear answer, as a code"),
    _column("reason", TEXT, "why there is no clear answer"),
    _column("remedy", TEXT, "what to do about it"),
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

    return pd.DataFrame(
        {name: pd.Series([column.of(row) for row in rows], dtype=column.dtype) for name, column in COLUMNS.items()}
    )
