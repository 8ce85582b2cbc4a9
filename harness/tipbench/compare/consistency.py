"""Which advice pays on all machines, and where it reverses: made of the answers that each machine's own page has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tipbench.compare.comparison import NOT_COMPARABLE, Comparison, Machine
from tipbench.compare.means import Heterogeneity, heterogeneity
from tipbench.report.answer import DEFAULT, DEPENDS, DO_NOT, IMPOSSIBLE, SMALL, UNCLEAR, USE, USE_IF, Answer
from tipbench.report.result import CONTROL, Key
from tipbench.verdict.statistics import discoveries
from tipbench.verdict.verdict import FALSE_DISCOVERY_RATE

REVERSES, SOME, COSTS_SOME, ON_JOB, PAYS, COSTS, LITTLE, NOTHING_TO_DO, UNSURE, ONE, NEVER = WORDS = (
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
    USE: PAYS,
    USE_IF: PAYS,
    DEPENDS: ON_JOB,
    DO_NOT: COSTS,
    SMALL: LITTLE,
    DEFAULT: NOTHING_TO_DO,
    UNCLEAR: UNSURE,
    "gain": PAYS,
    "loss": COSTS,
    "within": LITTLE,
    "open": UNSURE,
}
"""What an answer, or the state of one job (`pooling.State`), says alone."""


@dataclass(frozen=True)
class Consistency:
    """One comparison across machines, or across runs where all are of one machine.

    Attributes:
        is_measured: whether any of them did.
        spread: None where fewer than two measured it.
        differs: whether their means differ, with false discoveries held to 5 % over all comparisons tested.
        word: one of WORDS, of what the machines' answers count.
    """

    is_measured: bool
    spread: Heterogeneity | None
    differs: bool
    word: str


@dataclass(frozen=True)
class MachineAnswer:
    """What one machine says of a tip.

    Attributes:
        label: of the machine.
        rows: as on the page of its run; empty if the run has none.
        is_alike: whether it answers the same question: its sizes and code are those compared, and its claim is that of
            the newest run.
    """

    label: str
    rows: Sequence[Answer]
    is_alike: bool

    @property
    def kind(self) -> str:
        """Empty if the run has no answer."""
        return self.rows[0].kind if self.rows else ""

    @property
    def gain(self) -> str:
        return "; ".join(row.gain for row in self.rows)

    @property
    def counts(self) -> bool:
        return self.is_alike and self.kind not in ("", IMPOSSIBLE)


@dataclass(frozen=True)
class TipAcross:
    """A tip on all machines.

    Attributes:
        tip, title: of the tip.
        word: one of WORDS.
        answers: in the order of `Comparison.groups`.
    """

    tip: str
    title: str
    word: str
    answers: tuple[MachineAnswer, ...]

    @property
    def effects(self) -> list[str]:
        """What each machine that counts says alone, as EFFECTS has it."""
        return [EFFECTS[answer.kind] for answer in self.answers if answer.counts]

    @property
    def is_decided(self) -> bool:
        """Whether two machines or more could tell."""
        return len(_sure(self.effects)) > 1

    @property
    def agreed(self) -> bool:
        """Whether all machines that could tell say the same, and are several."""
        return self.is_decided and len(set(_sure(self.effects))) == 1

    @property
    def why(self) -> str:
        """Plain text, still to be escaped."""
        return "; ".join(
            f"{answer.label}: {answer.rows[0].answer} ({answer.gain}{'' if answer.is_alike else '; another question'})"
            for answer in self.answers
            if answer.rows
        )


def consistencies(comparison: Comparison) -> dict[Key, Consistency]:
    """One a comparison, the controls' included, in the order of `Comparison.references`."""
    means = {key: comparison.means(key) for key in comparison.references}
    spreads = {key: heterogeneity(of_key) for key, of_key in means.items() if len(of_key) > 1}
    discovered = discoveries([spread.p for spread in spreads.values()], FALSE_DISCOVERY_RATE)
    differs = dict(zip(spreads, discovered, strict=True))
    return {
        key: Consistency(bool(of_key), spreads.get(key), differs.get(key, False), together(_states(comparison, key)))
        for key, of_key in means.items()
    }


def tips(comparison: Comparison) -> list[TipAcross]:
    """One a tip, controls left out, in the order of WORDS, then by what it brings."""
    newest: dict[str, list[Answer]] = {}
    groups = list(zip(comparison.groups, comparison.answers, strict=True))
    for _, answers in sorted(groups, key=lambda group: comparison.runs[group[0].speaks].run.started):
        newest |= answers
    listed = []
    for tip in dict.fromkeys(key[0] for key in comparison.references if key[0] != CONTROL):
        title, claim = (newest[tip][0].title, newest[tip][0].claim) if tip in newest else (tip, "")
        of_machines = tuple(
            MachineAnswer(group.label, answers.get(tip, ()), _is_alike(comparison, group, answers.get(tip, ()), claim))
            for group, answers in groups
        )
        across = TipAcross(tip, title, "", of_machines)
        listed.append(replace(across, word=together(across.effects)))
    return sorted(listed, key=lambda tip: (WORDS.index(tip.word), -_brings(tip)))


def together(effects: Sequence[str]) -> str:
    """One of WORDS, from what each machine that says anything says alone: PAYS, COSTS, LITTLE, ON_JOB, NOTHING_TO_DO or
    UNSURE. Those that are unsure do not contradict the others."""
    sure = _sure(effects)
    if len(effects) < 2:
        return ONE if effects else NEVER
    if len(sure) < 2:
        return UNSURE
    if len(set(sure)) == 1:
        return sure[0]
    return _disagreement(set(sure))


def _sure(effects: Sequence[str]) -> list[str]:
    return [effect for effect in effects if effect != UNSURE]


def _disagreement(effects: Collection[str]) -> str:
    if PAYS in effects:
        return REVERSES if COSTS in effects else SOME
    if ON_JOB in effects:
        return ON_JOB
    return COSTS_SOME if COSTS in effects else LITTLE


def _states(comparison: Comparison, key: Key) -> list[str]:
    groups = zip(comparison.groups, comparison.effects, strict=True)
    of_key = [effects[key] for group, effects in groups if key in effects and _is_compared(comparison, group, key)]
    return [EFFECTS[effect.state.word] for effect in of_key if effect.means]


def _is_alike(comparison: Comparison, group: Machine, rows: Sequence[Answer], claim: str) -> bool:
    keys = [row.key for row in rows if row.role == "job" and row.key is not None]
    is_same_claim = not rows or rows[0].claim == claim
    return is_same_claim and all(_is_compared(comparison, group, key) for key in keys)


def _is_compared(comparison: Comparison, group: Machine, key: Key) -> bool:
    return comparison.cells[key][group.speaks].word != NOT_COMPARABLE


def _brings(tip: TipAcross) -> float:
    brings = [answer.rows[0].brings for answer in tip.answers if answer.counts]
    return sum(brings) / len(brings) if brings else 0.0
