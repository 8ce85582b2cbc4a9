"""The first screen of a comparison: which machines, in how many tips they agree, and every answer in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tipbench.compare.comparison import Comparison, Machine
from tipbench.compare.consistency import NEVER, REVERSES, WORDS, Said, TipAcross
from tipbench.records.store import file_name
from tipbench.report.advice import IMPOSSIBLE, USE_IF, Advice
from tipbench.report.cells import between
from tipbench.report.document import Block, Bullets, Cell, Line, Paragraph, Strong, Table
from tipbench.report.grade import hardware
from tipbench.report.wording import plural


def machines(comparison: Comparison) -> Bullets:
    """What the columns are, and of which runs: this is the one place that names them."""
    named = zip(columns(comparison), comparison.groups, comparison.answers, strict=True)
    return Bullets(tuple(_machine(comparison, name, group, answers) for name, group, answers in named))


def _machine(comparison: Comparison, name: str, group: Machine, answers: Mapping[str, Advice]) -> Line:
    stored = comparison.runs[group.speaks]
    versions = f"torch {stored.run.machine.get('torch', 'not recorded')}"
    count = max((given.runs for given in answers.values()), default=1)
    newest = f"run {file_name(stored.run)}" if count == 1 else f"{count} runs, the newest {file_name(stored.run)}"
    beside = len(group.runs) - 1
    more = f"; {plural(beside, 'more run')} of it below" if beside else ""
    called = f" ({group.label})" if name != group.label else ""
    return Strong(name), f"{called}: {hardware(stored.run)}, {versions}; {newest}{more}."


def columns(comparison: Comparison) -> list[str]:
    """The groups' labels, of machines without the words at their ends that all of them have."""
    labels = [group.label for group in comparison.groups]
    if len(comparison.machines) < 2:
        return labels
    parts = [label.split("-") for label in labels]
    for end in (0, -1):
        while min(map(len, parts)) > 1 and len({part[end] for part in parts}) == 1:
            parts = [part[1:] if end == 0 else part[:-1] for part in parts]
    names = ["-".join(part) for part in parts]
    return names if len(set(names)) == len(names) else labels


def agreement(found: Sequence[TipAcross], what: str) -> Paragraph:
    """On how many tips all agree. what: "machine" or "run"."""
    decided = [tip for tip in found if tip.decided]
    if not decided:
        return Paragraph((Strong(f"No tip was decided by two {what}s."),))
    agreed = sum(tip.agreed for tip in decided)
    turned = sum(tip.word == REVERSES for tip in decided)
    first = f" {turned} reverse; they come first." if turned else " None reverses."
    unlike = any(not one.alike for tip in found for one in tip.said)
    other = " Another question, by other sizes, code or claim, does not count." if unlike else ""
    counted = Strong(f"All {what}s that could tell agree on {agreed} of {plural(len(decided), 'tip')}.")
    return Paragraph((counted, f"{first}{other}"))


def matrix(comparison: Comparison, found: Sequence[TipAcross]) -> tuple[Block, ...]:
    """Tips down, machines across; tips that none of them can try in a line below."""
    shown = [tip for tip in found if not _impossible(tip)]
    if not shown:
        return (Paragraph(("There are no answers yet.",)),)
    rows = tuple((Cell((tip.title,)), *map(_cell, tip.said)) for tip in shown)
    names = columns(comparison)
    table = Table("across", ("tip", *names), rows, cards=tuple(range(len(names) + 1)))
    nowhere = [tip.title for tip in found if _impossible(tip)]
    line = Paragraph((Strong("Not possible on any of them:"), " ", *between(nowhere, "; "), "."))
    return (table, line) if nowhere else (table,)


def _impossible(tip: TipAcross) -> bool:
    return all(one.advice is None or one.advice.kind == IMPOSSIBLE for one in tip.said)


def _cell(said: Said) -> Cell:
    if said.advice is None:
        return Cell(("not in this run",))
    changes = ", ".join(gain.short for gain in said.advice.gains if gain.short and gain.key is not None)
    kind = said.advice.kind
    answer = kind if kind == USE_IF else said.advice.answer
    unlike = "" if said.alike else " (another question)"
    return Cell(
        (Strong(answer), f" {changes}{unlike}" if changes or unlike else ""), sort=said.advice.brings, kind=kind
    )


def words(found: Sequence[TipAcross], what: str) -> Bullets:
    """The same in words: what is said of which tips."""
    said: dict[str, list[str]] = {word: [] for word in WORDS}
    for tip in found:
        said[tip.word].append(tip.title + _condition(tip))
    lines: list[Line] = [
        (Strong(in_runs(word) if what == "run" else word), f" ({len(titles)}): ", *between(titles, "; "), ".")
        for word, titles in said.items()
        if titles and word != NEVER
    ]
    return Bullets(tuple(lines))


def in_runs(word: str) -> str:
    """A word of `consistency` as it is said of runs of one machine: `pays in all`."""
    return word.replace(" on ", " in ") if word.split(" ")[-1] in ("all", "some", "one") else word


def _condition(tip: TipAcross) -> str:
    """For whom it pays, where that is not everybody."""
    needs = [one.advice.answer for one in tip.said if one.advice is not None and one.advice.kind == USE_IF]
    return f" ({needs[0].removeprefix(f'{USE_IF} ')})" if needs else ""
