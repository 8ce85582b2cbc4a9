"""Results as a pandas table: `tipbench.load(*files)`, for notebooks, and what the CSV is made of.

One row a run, pair, variant and device. COLUMNS documents each column; columns are only ever added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tipbench.records import store
from tipbench.report.result import JOULES, LIMITS, MEMORY, READINGS, Result
from tipbench.report.results import results
from tipbench.report.trained import Trained, trained
from tipbench.tip.wording import equal_work, plain, value

if TYPE_CHECKING:
    import pandas as pd

SIDES = ("baseline", "variant")


class Column(NamedTuple):
    """dtype: of pandas. meaning: what the column holds, with its unit. of: its value in a row."""

    dtype: str
    meaning: str
    of: Callable[[Result], Any]


def _field(name: str) -> Callable[[Result], Any]:
    return lambda result: getattr(result, name)


def _text(name: str, meaning: str) -> dict[str, Column]:
    return {name: Column("string", meaning, _field(name))}


def _number(name: str, meaning: str) -> dict[str, Column]:
    return {name: Column("float64", meaning, _field(name))}


def _count(name: str, meaning: str) -> dict[str, Column]:
    return {name: Column("Int64", meaning, _field(name))}


def _flag(name: str, meaning: str) -> dict[str, Column]:
    return {name: Column("boolean", meaning, _field(name))}


def _memory(side: str, kind: str) -> dict[str, Column]:
    column = Column("Int64", f"{kind} of the {side}, in bytes", lambda result: _memory_of(result, side).get(kind))
    return {f"{side}_{kind}_bytes": column}


def _memory_of(result: Result, side: str) -> Mapping[str, int]:
    return result.baseline_memory if side == "baseline" else result.variant_memory


def _gpu(side: int, name: str) -> dict[str, Column]:
    def of(result: Result) -> float | None:
        sides = result.gpu.get(name)
        return sides[side] if sides else None

    return {f"{SIDES[side]}_{name}": Column("float64", f"{name} of the {SIDES[side]}, from the GPU's driver", of)}


def _share(side: str, kind: str) -> dict[str, Column]:
    def of(result: Result) -> float | None:
        share = result.limits.get(kind)
        return getattr(share, side) if share else None

    meaning = f"share of this machine's rate of {kind} that the {side} reaches"
    return {f"{side}_share_of_{kind}": Column("float64", meaning, of)}


def _rate(kind: str) -> dict[str, Column]:
    def of(result: Result) -> float | None:
        share = result.limits.get(kind)
        return share.rate if share else None

    return {f"rate_of_{kind}": Column("float64", f"{kind} a second that this machine reaches", of)}


def _trained(name: str, dtype: str, meaning: str, of: Callable[[Trained], Any]) -> dict[str, Column]:
    """Of what whole trainings came to; missing in rows without any."""

    def of_row(result: Result) -> Any:
        found = trained(result)
        return None if found is None else of(found)

    return {name: Column(dtype, meaning, of_row)}


def _trained_side(side: str) -> dict[str, Column]:
    return {
        **_trained(
            f"{side}_steps_to_target",
            "float64",
            f"optimizer steps that the {side} is expected to take to the target, failed trainings included",
            lambda result: getattr(result, side).steps,
        ),
        **_trained(
            f"{side}_reached",
            "Int64",
            f"how many trainings of the {side} reached the target",
            lambda result: getattr(result, side).reached,
        ),
        **_trained(
            f"{side}_score",
            "float64",
            f"score of the {side} after training, the mean over its trainings",
            lambda result: getattr(result, side).score,
        ),
    }


def _fewer_steps(result: Trained, at: int) -> float | None:
    """The ratio at the lower end of its interval (-1), in its middle (0) or at the upper end (1)."""
    if not result.both_reach:
        return None
    low, high = result.fewer.interval()
    return math.exp((low, result.fewer.mean, high)[at + 1])


COLUMNS: Mapping[str, Column] = {
    "run": Column("string", "id of the run", _field("run_id")),
    **_text("started", "when the run began, ISO 8601 in UTC"),
    **_text("suite", "version of the suite"),
    **_text("commit", "git commit of the suite, with -dirty for uncommitted changes"),
    **_text("profile", "quick or full"),
    **_text("machine", "readable name of the hardware"),
    **_text("tip", "id of the tip"),
    **_text("title", "the tip in words"),
    **_text("claim", "what the guide promises"),
    "guide": Column("string", "the guides' items that give the advice", lambda row: ", ".join(row.guide)),
    **_text("published", "the guide's own figures, with their source"),
    **_text("note", "what the guides get wrong"),
    **_text("status", "current, or what became of the advice since"),
    **_text("do", "what to write to follow the tip"),
    **_text("when", "for whom the tip pays, if it has a price"),
    **_text("pair", "name of the pair"),
    **_text("scale", "micro: an operation alone; macro: a whole job"),
    **_text("variant", "name of the variant"),
    **_flag("is_headline", "whether the guide words the tip so"),
    **_text("device", "cpu or cuda"),
    **_text("job", "name of a whole job; pairs of equal job and sizes do the same work"),
    **_text("sizes", "sizes of the work, as JSON"),
    **_text("file", "where the pair is written"),
    **_count("line", "at which line"),
    "code": Column("object", "by side its source code, if the run stored it", _field("code")),
    **_flag("cold", "whether a GPU's L2 cache was emptied before every step"),
    **_text("work", "digest of code and sizes: rows of equal tip, pair, variant, device and work are replicates"),
    **_text("verdict", "faster, slower, no difference, at most 3 %, inconclusive, skipped or failed"),
    **_number("speedup", "time of the baseline over the variant's"),
    **_number("low", "lower end of its 95 % interval"),
    **_number("high", "upper end of its 95 % interval"),
    **_flag("is_provisional", "whether the speedup is from too few launches for a verdict"),
    **_count("launches", "launches behind the speedup"),
    "effects": Column("object", "ln of the speedup in each of these launches, in their order", _field("effects")),
    **_number("p", "p-value of the test against +-1 %"),
    **_number("error", "standard error of ln speedup"),
    **_number("smallest", "of an inconclusive verdict: the smallest speedup that could have been detected"),
    **_count("quarantined", "rounds left out as disturbed"),
    **_number("truth", "the true speedup, of a planted pair that declares it"),
    "baseline_step_s": Column("float64", "seconds of a step of the baseline", _field("step_s")),
    **_number("variant_step_s", "seconds of a step of the variant"),
    **{name: column for kind in MEMORY for side in SIDES for name, column in _memory(side, kind).items()},
    **_text("memory_kind", "the kind of memory that a claim about memory is judged by"),
    "equal": Column("string", "how equal work was checked", lambda result: equal_work(result.equal)),
    "mechanism": Column("string", "what the mechanism counted", lambda row: row.mechanism.get("what")),
    "mechanism_baseline": Column("string", "its count for the baseline", lambda row: _counted(row, "baseline")),
    "mechanism_variant": Column("string", "its count for the variant", lambda row: _counted(row, "optimized")),
    "engaged": Column("boolean", "whether the count changed as the tip says", lambda row: row.mechanism.get("engaged")),
    **_number("baseline_one_off_s", "seconds the baseline needs once: build and warm-up, with cold caches"),
    **_number("variant_one_off_s", "the same of the variant"),
    **_number("one_off_s", "seconds the variant needs once beyond the baseline"),
    **_count("break_even_steps", "steps after which a faster variant has saved what it needs once; 0: at once"),
    **_trained("trainings", "Int64", "whole trainings of each side, by seed", lambda result: result.baseline.trainings),
    **_trained_side("baseline"),
    **_trained_side("variant"),
    **_trained(
        "fewer_steps",
        "float64",
        "timed steps to the target of the baseline over the variant's",
        lambda result: _fewer_steps(result, 0),
    ),
    **_trained("fewer_steps_low", "float64", "lower end of its 95 % interval", lambda result: _fewer_steps(result, -1)),
    **_trained("fewer_steps_high", "float64", "upper end of its 95 % interval", lambda result: _fewer_steps(result, 1)),
    **{name: column for kind in LIMITS for name, column in _rate(kind).items()},
    **{name: column for kind in LIMITS for side in SIDES for name, column in _share(side, kind).items()},
    "job_profile": Column("object", "work of a whole job's step, and seconds of its phases", _field("job_profile")),
    **{name: column for key in (*READINGS, JOULES) for side in (0, 1) for name, column in _gpu(side, key).items()},
    **_text("reason_code", "the main reason why there is no clear answer, as a code"),
    **_text("reason", "why there is no clear answer"),
    **_text("remedy", "what to do about it"),
}


def _counted(result: Result, side: str) -> str | None:
    return value(result.mechanism[side]) if side in result.mechanism else None


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


def csv(rows: Sequence[Result]) -> str:
    """The table as CSV, without the columns of objects.

    Text that a spreadsheet would run as a formula gets an apostrophe, which makes it text.
    """
    table = frame(rows).select_dtypes(exclude="object")
    for name in (name for name, column in COLUMNS.items() if column.dtype == "string"):
        table[name] = table[name].map(_safe, na_action="ignore")
    return str(table.to_csv(index=False, lineterminator="\n"))


def _safe(text: str) -> str:
    shown = plain(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
