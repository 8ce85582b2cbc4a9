"""Runs set side by side: their labels and grades, and one cell a comparison and run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tipbench.compare.stored import StoredRun
from tipbench.records.store import file_name, folder_name
from tipbench.report.answer import Answer, answers
from tipbench.report.grade import NOT, Grade, facts, grade
from tipbench.report.result import Key, Result
from tipbench.tip.pair import CONTROL
from tipbench.tip.wording import plain, value
from tipbench.verdict.statistics import Mean

MISSING, NOT_COMPARABLE = "missing", "not comparable"


@dataclass(frozen=True)
class Cell:
    """What one run says of one comparison.

    Attributes:
        word: a verdict, or skipped, failed, missing, not comparable.
        why: of the last four, in words.
        result: the run's; None if it has none. That of a cell that is not comparable must not be used.
    """

    word: str
    why: str = ""
    result: Result | None = None

    @property
    def is_measured(self) -> bool:
        """Whether anything was that may be compared."""
        return self.result is not None and self.result.is_measured and self.word != NOT_COMPARABLE

    @cached_property
    def mean(self) -> Mean | None:
        """None if it was not timed, or may not be compared."""
        return None if self.result is None or self.word == NOT_COMPARABLE else self.result.mean


@dataclass(frozen=True)
class Comparison:
    """Runs set side by side.

    Attributes:
        runs: in the order in which they were named; the first is the one that others must be comparable with.
        notes: what a reader must know.
    """

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def grades(self) -> tuple[Grade, ...]:
        """Of each run, set against the first."""
        of_runs = [facts(stored.run) for stored in self.runs]
        return tuple(grade(of_runs[0], of_run) for of_run in of_runs)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The machine's name; date and short id where all runs have the same, both where some do. Kinds of a fleet
        get a number instead."""
        names = [folder_name(stored.run.machine) for stored in self.runs]
        several = Counter(names)
        labels = [
            name
            if several[name] == 1 or stored.nodes
            else file_name(stored.run)
            if len(several) == 1
            else f"{name} {file_name(stored.run)}"
            for name, stored in zip(names, self.runs, strict=True)
        ]
        return tuple(_distinct(labels))

    @cached_property
    def comparable(self) -> tuple[int, ...]:
        """The runs that may be compared with the first, itself included."""
        return tuple(index for index, graded in enumerate(self.grades) if graded.grade != NOT)

    @cached_property
    def answers(self) -> tuple[list[Answer], ...]:
        """Of each comparable run, what its own page says."""
        return tuple(answers(self.runs[index].results) for index in self.comparable)

    @cached_property
    def references(self) -> dict[Key, Result]:
        """By comparison the result whose sizes and code all others must have: that of the first comparable run that
        timed it, or else any."""
        comparable = [self._by_run[index] for index in self.comparable]
        chosen = {}
        for key in self._keys():
            rows = [of_run[key] for of_run in (*comparable, *self._by_run) if key in of_run]
            chosen[key] = next((row for row in rows if row.is_timed), rows[0])
        return chosen

    def _keys(self) -> list[Key]:
        """Tips and their pairs as the first run that has them planned them; what later runs add comes with its tip,
        the controls last."""
        tips: dict[str, int] = {}
        places: dict[Key, tuple[bool, int, int]] = {}
        for stored in self.runs:
            for result in stored.results:
                tip = tips.setdefault(result.tip, len(tips))
                places.setdefault(result.key, (result.tip == CONTROL, tip, len(places)))
        return sorted(places, key=places.__getitem__)

    @cached_property
    def _by_run(self) -> tuple[Mapping[Key, Result], ...]:
        return tuple({result.key: result for result in stored.results} for stored in self.runs)

    @cached_property
    def cells(self) -> dict[Key, tuple[Cell, ...]]:
        """By comparison one cell a run, in the order of `references`."""
        return {key: tuple(self._cell(key, index) for index in range(len(self.runs))) for key in self.references}

    def _cell(self, key: Key, index: int) -> Cell:
        stored, result, reference = self.runs[index], self._by_run[index].get(key), self.references[key]
        if index not in self.comparable:
            differing = [str(field) for field in self.grades[index].differing if field.part == "suite"]
            return Cell(NOT_COMPARABLE, ", ".join(differing), result)
        if result is None:
            stopped = next((listed for listed in stored.results if _covers(listed, reference)), None)
            if stopped is not None:
                return Cell(stopped.verdict, stopped.reason, stopped)
            return Cell(MISSING, "not in this run", None)
        if result.is_timed and result.sizes != reference.sizes:
            return Cell(NOT_COMPARABLE, f"other sizes: {_sizes(result)} (not {_sizes(reference)})", result)
        if result.is_timed and result.file != reference.file:
            return Cell(NOT_COMPARABLE, f"other code: {result.file} (not {reference.file})", result)
        return Cell(result.verdict, "" if result.is_timed else result.reason, result)

    @cached_property
    def called_different(self) -> list[str]:
        """The A/A controls whose identical sides a comparable run called faster or slower, with that run."""
        return [
            f"{key[1]} {cells[index].word} in {self.labels[index]}"
            for key, cells in self.cells.items()
            for index in self.comparable
            if self.references[key].is_identical and cells[index].word in ("faster", "slower")
        ]


def row_name(key: Key, between: str = ".") -> str:
    """The comparison as people read it: `tip.Pair`, with what is out of the ordinary. between: tip and pair."""
    tip, pair, variant, device = key
    special = [part for part in (variant, device) if part not in ("optimized", "cpu")]
    shown = f"{tip}{between}{pair}" if pair else tip
    return plain(f"{shown} ({', '.join(special)})" if special else shown)


def _covers(stopped: Result, reference: Result) -> bool:
    """Whether a run's result tells of all variants of a pair, and of all pairs of a file, that there is none:
    a pair that is skipped or failed may be stored without its variants."""
    if stopped.is_timed or stopped.tip != reference.tip or stopped.is_measured:
        return False
    return not stopped.pair or (stopped.pair, stopped.device) == (reference.pair, reference.device)


def _sizes(result: Result) -> str:
    return value(json.loads(result.sizes))


def _distinct(labels: Sequence[str]) -> list[str]:
    """Labels that stand more than once get a number."""
    return [
        label if labels.count(label) == 1 else f"{label} #{labels[: index + 1].count(label)}"
        for index, label in enumerate(labels)
    ]
