"""Two to fifty runs set side by side: their labels, machines and grades, and one cell a comparison and run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tipbench.compare.stored import StoredRun
from tipbench.records.listing import is_reference
from tipbench.records.store import file_name, folder_name
from tipbench.report.answer import Answer, answers
from tipbench.report.grade import NOT, SAME, STATE, Facts, Grade, facts, grade
from tipbench.report.result import Key, Result
from tipbench.tip.pair import CONTROL
from tipbench.tip.wording import plain, value
from tipbench.verdict.pooling import TIMES, pool_runs
from tipbench.verdict.statistics import Mean

MISSING, NOT_REACHED, NOT_COMPARABLE = "missing", "not reached", "not comparable"

MACHINE, REFERENCE = "machine", "reference"
"""What runs are of: a machine, or one of whoever maintains the suite, whose runs the repository ships."""

OF_ONE_MACHINE = {SAME: "same machine and state", STATE: "same machine, other state"}
"""By grade, what two runs of one machine are."""


@dataclass(frozen=True)
class Cell:
    """What one run says of one comparison.

    Attributes:
        word: a verdict, or skipped, failed, missing, not reached, not comparable.
        why: of the last five, in words.
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
class ComparedMachine:
    """Runs of one machine.

    Attributes:
        label: what a page calls it.
        word: MACHINE or REFERENCE.
        runs: their places in `Comparison.runs`.
        representative: the one of them whose answers are the machine's: the newest that measured a whole job, or
            else the newest.
    """

    label: str
    word: str
    runs: tuple[int, ...]
    representative: int


@dataclass(frozen=True)
class Comparison:
    """Runs set side by side.

    Attributes:
        runs: in the order in which they were named; the first is the one that others must be comparable with.
        notes: what a reader must know.
    """

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...] = ()
    _grades: dict[tuple[int, int], Grade] = field(default_factory=dict, compare=False)

    def grade(self, left: int, right: int) -> Grade:
        """Of the comparison of two runs, by their places."""
        if (left, right) not in self._grades:
            self._grades[left, right] = grade(self._facts[left], self._facts[right])
        return self._grades[left, right]

    @cached_property
    def _facts(self) -> tuple[Facts, ...]:
        return tuple(facts(stored.run) for stored in self.runs)

    def is_one_machine(self, left: int, right: int) -> bool:
        """Whether two runs are of one machine: they lie in one folder, and their hardware is equal."""
        is_one = self.runs[left].file.parent == self.runs[right].file.parent
        return is_one and self.grade(left, right).grade in OF_ONE_MACHINE

    def relation(self, left: int, right: int) -> str:
        """What two runs are to each other, in words: the grade, or how they are of one machine."""
        graded = self.grade(left, right)
        return graded.qualified(OF_ONE_MACHINE[graded.grade] if self.is_one_machine(left, right) else graded.grade)

    def _classes(self, alike: Callable[[int, int], bool]) -> list[tuple[int, ...]]:
        """The comparable runs in classes: each joins the first with all of whose runs it is alike."""
        classes: list[tuple[int, ...]] = []
        for index in self.comparable:
            for place, members in enumerate(classes):
                if all(alike(member, index) for member in members):
                    classes[place] = (*members, index)
                    break
            else:
                classes.append((index,))
        return classes

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The machine's name; date and short id where all runs have the same, both where some do."""
        names = [folder_name(stored.run.machine) for stored in self.runs]
        several = Counter(names)
        labels = [
            name
            if several[name] == 1
            else file_name(stored.run)
            if len(several) == 1
            else f"{name} {file_name(stored.run)}"
            for name, stored in zip(names, self.runs, strict=True)
        ]
        return tuple(distinct(labels))

    @cached_property
    def comparable(self) -> tuple[int, ...]:
        """The runs that may be compared with the first, itself included."""
        return tuple(index for index in range(len(self.runs)) if index == 0 or self.grade(0, index).grade != NOT)

    @cached_property
    def machines(self) -> tuple[ComparedMachine, ...]:
        """Of the comparable runs, in the order in which they first appear."""
        classes = self._classes(self.is_one_machine)
        speaking = list(map(self._representative, classes))
        names = [folder_name(self.runs[index].run.machine) for index in speaking]
        labels = [
            name if names.count(name) == 1 else self.labels[index] for name, index in zip(names, speaking, strict=True)
        ]
        words = [self._word(members[0]) for members in classes]
        return tuple(map(ComparedMachine, distinct(labels), words, classes, speaking))

    @cached_property
    def hardware(self) -> list[tuple[int, ...]]:
        """The comparable runs by their hardware, whatever machine they are of."""
        return self._classes(lambda left, right: self.grade(left, right).grade in (SAME, STATE))

    @cached_property
    def are_machines(self) -> bool:
        """Whether `machines` are several, and no two of them can be the same one, as their hardware differs."""
        return len(self.machines) == len(self.hardware) > 1

    def _word(self, index: int) -> str:
        return REFERENCE if is_reference(self.runs[index].file) else MACHINE

    @cached_property
    def groups(self) -> tuple[ComparedMachine, ...]:
        """What is set against each other: machines, or the runs where all are of one machine."""
        if len(self.machines) > 1:
            return self.machines
        return tuple(
            ComparedMachine(self.labels[index], self._word(index), (index,), index) for index in self.comparable
        )

    def _representative(self, runs: Sequence[int]) -> int:
        def order(index: int) -> tuple[bool, str]:
            stored = self.runs[index]
            return any(result.scale == "macro" and result.is_measured for result in stored.results), stored.run.started

        return max(runs, key=order)

    @cached_property
    def answers(self) -> tuple[list[Answer], ...]:
        """By group, in their order: what the page of the run that represents the group says."""
        return tuple(answers(self.runs[group.representative].results) for group in self.groups)

    @cached_property
    def references(self) -> dict[Key, Result]:
        """By comparison a result whose sizes and code all others must have: those that most comparable runs measured,
        among equals the first; the first result if none was measured."""
        comparable = [self._by_run[index] for index in self.comparable]
        chosen = {}
        for key in self._keys():
            timed = [rows[key] for rows in comparable if key in rows and rows[key].is_timed]
            votes = Counter(map(_work, timed))
            first = next(rows[key] for rows in (*comparable, *self._by_run) if key in rows)
            chosen[key] = max(timed, key=lambda result: votes[_work(result)], default=first)
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
            differing = [str(field) for field in self.grade(0, index).differing if field.part == "suite"]
            return Cell(NOT_COMPARABLE, ", ".join(differing), result)
        if result is None:
            stopped = next((listed for listed in stored.results if _covers(listed, reference)), None)
            if stopped is not None:
                return Cell(stopped.verdict, stopped.reason, stopped)
            has_pair = any(listed.pair_name == reference.pair_name for listed in stored.results)
            if reference.pair_name in stored.run.planned and not has_pair:
                return Cell(NOT_REACHED, "planned, but the run ended before", None)
            return Cell(MISSING, "not in this run", None)
        if result.is_timed and result.sizes != reference.sizes:
            return Cell(NOT_COMPARABLE, f"other sizes: {_sizes(result)} (not {_sizes(reference)})", result)
        if result.is_timed and _code(result) != _code(reference):
            return Cell(NOT_COMPARABLE, f"other code: {_code(result)} (not {_code(reference)})", result)
        return Cell(result.verdict, "" if result.is_timed else result.reason, result)

    def means(self, key: Key) -> list[Mean]:
        """Of a comparison, the mean of each group that measured it."""
        by_group = [[self.cells[key][index].mean for index in group.runs] for group in self.groups]
        measured = [[mean for mean in means if mean is not None] for means in by_group]
        return [pool_runs(means, TIMES) if len(means) > 1 else means[0] for means in measured if means]

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


def _code(result: Result) -> str:
    """The file it is written in, and whether a GPU's L2 cache was emptied before every step."""
    return f"{result.file} cold" if result.cold else result.file


def _work(result: Result) -> tuple[str, str]:
    return result.sizes, _code(result)


def _sizes(result: Result) -> str:
    return value(json.loads(result.sizes))


def distinct(labels: Sequence[str], number: str = " #{}") -> list[str]:
    """Labels that stand more than once get a number. number: how it is written."""
    return [
        label if labels.count(label) == 1 else label + number.format(labels[: index + 1].count(label))
        for index, label in enumerate(labels)
    ]
