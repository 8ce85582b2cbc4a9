"""Which advice pays on all machines, and where it reverses: made of the answers that each machine's own page has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tipbench.compare.comparison import NOT_COMPARABLE, Comparison
from tipbench.report.answer import Answer
from tipbench.report.answer_kinds import ALONE, DEFAULT, DEPENDS, DO_NOT, IMPOSSIBLE, SMALL, UNCLEAR, USE, USE_IF

REVERSES, SOME, COSTS_SOME, ON_JOB, PAYS_ON_ALL, COSTS_ON_ALL, LITTLE_ON_ALL, NOTHING_TO_DO, UNSURE, ON_ONE, NEVER = (
    CONSISTENCIES
) = (
    "reverses",
    "pays on some",
    "costs on some",
    "depends on the job",
    "pays on all",
    "costs on all",
    "little on all",
    "already the default",
    "can't tell",
    "only seen on one",
    "not measured",
)
"""What several machines say together, those first on which they disagree."""

EFFECTS = {
    USE: PAYS_ON_ALL,
    USE_IF: PAYS_ON_ALL,
    DEPENDS: ON_JOB,
    ALONE: PAYS_ON_ALL,
    DO_NOT: COSTS_ON_ALL,
    SMALL: LITTLE_ON_ALL,
    DEFAULT: NOTHING_TO_DO,
    UNCLEAR: UNSURE,
}
"""What an answer says alone."""


@dataclass(frozen=True)
class MachineAnswer:
    """What one machine says of a tip.

    Attributes:
        answer: as on the page of its run; None if the run has none.
        is_alike: whether it answers the same question: its sizes and code are those compared, and its claim is that of
            the newest run.
    """

    answer: Answer | None
    is_alike: bool

    @property
    def kind(self) -> str:
        """Empty if the run has no answer."""
        return self.answer.kind if self.answer else ""

    @property
    def counts(self) -> bool:
        return self.is_alike and self.kind not in ("", IMPOSSIBLE)


@dataclass(frozen=True)
class TipAcross:
    """A tip in one workload on all machines.

    Attributes:
        title: of the tip.
        workload: as `Answer` has it.
        answers: in the order of `Comparison.comparable`.
    """

    title: str
    workload: str
    answers: tuple[MachineAnswer, ...]

    @cached_property
    def word(self) -> str:
        """One of CONSISTENCIES."""
        word = consistency_of(self.effects)
        return SOME if word == REVERSES and not _is_reversed(self.answers) else word

    @property
    def effects(self) -> list[str]:
        """What each machine that counts says alone, as EFFECTS has it."""
        return [EFFECTS[answer.kind] for answer in self.answers if answer.counts]

    @property
    def when(self) -> str:
        """The condition of a first machine that has one."""
        return next((each.answer.when for each in self.answers if each.answer and each.answer.when), "")

    @property
    def is_decided(self) -> bool:
        """Whether two machines or more could tell."""
        return len(_sure(self.effects)) > 1

    @property
    def agreed(self) -> bool:
        """Whether all machines that could tell say the same, and are several."""
        return self.is_decided and len(set(_sure(self.effects))) == 1


def tips(comparison: Comparison) -> list[TipAcross]:
    """One a tip and workload, controls left out, in the order of CONSISTENCIES, then by what it brings."""
    newest: dict[tuple[str, str], Answer] = {}
    by_run = dict(zip(comparison.comparable, comparison.answers, strict=True))
    for _, answers in sorted(by_run.items(), key=lambda item: comparison.runs[item[0]].run.started):
        newest |= {(answer.tip, answer.workload): answer for answer in answers}
    possible = {tip for (tip, _), answer in newest.items() if answer.kind != IMPOSSIBLE}
    places = {
        place: answer for place, answer in newest.items() if answer.kind != IMPOSSIBLE or place[0] not in possible
    }
    order = {key[0]: number for number, key in reversed(list(enumerate(comparison.references)))}
    listed = []
    for place, answer in sorted(places.items(), key=lambda item: order.get(item[0][0], len(order))):
        of_machines = tuple(_of_machine(comparison, index, place, answer.claim, by_run[index]) for index in by_run)
        listed.append(TipAcross(answer.title, answer.workload, of_machines))
    return sorted(listed, key=lambda tip: (CONSISTENCIES.index(tip.word), -_brings(tip)))


def _of_machine(
    comparison: Comparison, index: int, place: tuple[str, str], claim: str, answers: Sequence[Answer]
) -> MachineAnswer:
    """Where the machine lacks the workload, that the tip is not possible on it, if that is what it says."""
    of_tip = [answer for answer in answers if answer.tip == place[0]]
    answer = next((answer for answer in of_tip if answer.workload == place[1]), None)
    answer = answer or next((answer for answer in of_tip if answer.kind == IMPOSSIBLE), None)
    if answer is None:
        return MachineAnswer(None, is_alike=True)
    cells = [comparison.cells[gain.row.key][index] for gain in answer.gains]
    return MachineAnswer(answer, answer.claim == claim and all(cell.word != NOT_COMPARABLE for cell in cells))


def _is_reversed(answers: Sequence[MachineAnswer]) -> bool:
    """Whether the same way gains in a job on one machine and loses in it on another: two jobs contradict nothing."""
    gains = [gain for each in answers if each.answer and each.counts for gain in each.answer.gains]
    states = {(gain.row.key, gain.state.word) for gain in gains}
    return any(word == "gain" and (key, "loss") in states for key, word in states)


def consistency_of(effects: Sequence[str]) -> str:
    """One of CONSISTENCIES, from what each machine that says anything says alone: PAYS_ON_ALL, COSTS_ON_ALL,
    LITTLE_ON_ALL, ON_JOB, NOTHING_TO_DO or UNSURE. Those that are unsure do not contradict the others."""
    sure = _sure(effects)
    if len(effects) < 2:
        return ON_ONE if effects else NEVER
    if len(sure) < 2:
        return UNSURE
    if len(set(sure)) == 1:
        return sure[0]
    if PAYS_ON_ALL in sure:
        return REVERSES if COSTS_ON_ALL in sure else SOME
    if ON_JOB in sure:
        return ON_JOB
    return COSTS_SOME if COSTS_ON_ALL in sure else LITTLE_ON_ALL


def _sure(effects: Sequence[str]) -> list[str]:
    return [effect for effect in effects if effect != UNSURE]


def _brings(tip: TipAcross) -> float:
    brings = [each.answer.brings for each in tip.answers if each.answer and each.counts]
    return sum(brings) / len(brings) if brings else 0.0
