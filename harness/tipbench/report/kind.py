"""What other runs on machines of the same kind say of a run's answers: evidence that is shown apart, never pooled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tipbench.records.record import Run
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import DEFAULT, IMPOSSIBLE, UNCLEAR
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.wording import plain, plural

UNDECIDED = (DEFAULT, IMPOSSIBLE, UNCLEAR)
"""Answers with which nothing agrees: they are not measured."""

MOST_NAMED = 5
"""Tips that the sentence names."""


@dataclass(frozen=True)
class OfItsKind:
    """Runs of the same kind as a run and not of its machine, as far as fingerprints tell.

    Attributes:
        reference: those that the repository ships.
        others: those that were measured by whoever reads the page.
    """

    reference: tuple[Run, ...] = ()
    others: tuple[Run, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        return (*self.others, *self.reference)


NONE = OfItsKind()


def agreement(run: Run, own: Sequence[Result], made: Iterable[Answer], kind: OfItsKind) -> str:
    """A sentence of plain text: which runs of this kind there are, and with how many of the run's answers they agree.

    An answer of the run and one of another run, by itself, are compared if both are decided and are made of the same
    jobs, of the same code at the same sizes. Where several runs have one, all must agree. Empty without such runs.

    own: the run's results. made: its answers.
    """
    if not kind.runs:
        return ""
    work = {(result.key, result.work) for result in own}
    theirs = [
        {(answer.tip, answer.workload): answer for answer in answers([_same_work(results(other), work)])}
        for other in kind.runs
    ]
    compared, differing = 0, []
    for mine in made:
        of_runs = [of_run[place] for of_run in theirs if (place := (mine.tip, mine.workload)) in of_run]
        alike = [answer for answer in of_runs if _answers_the_same(mine, answer)]
        compared += bool(alike)
        if others := dict.fromkeys(answer.answer for answer in alike if answer.kind != mine.kind):
            differing.append(f"{plain(mine.title)} (there: {' or '.join(map(plain, others))})")
    if not compared:
        return f"{_who(run, kind)}; none of their answers can be compared."
    agreed = f"agree with {compared - len(differing)} of {compared} answers that can be compared"
    named = "; ".join([*differing[:MOST_NAMED], *["..."] * (len(differing) > MOST_NAMED)])
    return f"{_who(run, kind)}; they {agreed}{f', and differ on: {named}' if named else ''}."


def _same_work(rows: Iterable[Result], work: Collection[tuple[object, str]]) -> list[Result]:
    return [row for row in rows if (row.key, row.work) in work]


def _answers_the_same(mine: Answer, theirs: Answer) -> bool:
    """Whether both answers are decided, and made of the same jobs, whichever way leads there."""
    return not {mine.kind, theirs.kind} & set(UNDECIDED) and _jobs(mine) == _jobs(theirs)


def _jobs(answer: Answer) -> set[tuple[str, str]]:
    """Pair and device of each."""
    return {(pair, device) for _, pair, _, device in answer.keys}


def _who(run: Run, kind: OfItsKind) -> str:
    nobodys = [other for other in kind.others if not (run.fingerprint and other.fingerprint)]
    words = [
        (len(kind.reference), "reference run", ""),
        (len(kind.others) - len(nobodys), "run", " of other machines"),
        (len(nobodys), "run", " of no known machine (--same-machine counts them as of this one)"),
    ]
    counted = [f"{plural(count, noun)}{which}" for count, noun, which in words if count]
    return f"Not counted, of this kind of machine: {', '.join(counted)}"
