"""The page of a comparison: the answers of all machines, what is behind them, and how far runs may be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tipbench.compare.comparison import MISSING, NOT_REACHED, Comparison
from tipbench.compare.comparison import Cell as Found
from tipbench.compare.consistency import Consistency, consistencies, tips
from tipbench.compare.matrix import agreement, machines, matrix, words
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Figure,
    Folded,
    Heading,
    Line,
    Page,
    Paragraph,
    Quote,
    Strong,
    Table,
)
from tipbench.report.effect import Key, memory_change
from tipbench.report.grade import hardware
from tipbench.report.rows import CONTROL, MEMORY_KINDS
from tipbench.report.wording import change, plural, ratio, seconds
from tipbench.verdict.pooling import Mean

MOST_GRADES = 100
"""Comparisons of two runs that the page lists; JSON has all."""

HOW_TO_READ: tuple[Block, ...] = (
    Heading("How to read this"),
    Paragraph(
        (
            "A speedup is the baseline's time over the variant's, both measured on the same machine in turns: so "
            "speedups can be set side by side where times cannot. Brackets hold 95 % intervals over launches.",
        )
    ),
    Bullets(
        (
            (
                Strong("pays on all"),
                " (between runs of one machine: ",
                Strong("pays in all"),
                '): "use it" or "use it if" wherever it was decided, and on two machines at least. ',
                Strong("reverses"),
                ': so on one, and "don\'t" on another. ',
                Strong("pays on some"),
                ", ",
                Strong("costs on some"),
                ": elsewhere another answer. ",
                Strong("little on all"),
                ": at most so many percent everywhere. ",
                Strong("can't tell"),
                ": fewer than two machines decided it. Each answer is that of one run's page: the machine's newest run "
                "with whole jobs. It counts the machine's earlier runs too. After it come the changes in whole jobs: "
                "+29 % is a speedup of 1.29x.",
            ),
            (
                Strong("differ?"),
                " Whether the machines' speedups differ by more than their errors explain: the p-value of Welch's "
                "test, which is Cochran's Q corrected for errors that are estimated from few launches, and I², the "
                "share of Q that is not error. Of all that differ, 5 % are expected to be wrong at most "
                "(Benjamini-Hochberg over all comparisons tested).",
            ),
            (
                "Runs of one machine are not independent machines: they are averaged first, and what lies between "
                "them widens the error. With one run a machine, drift from day to day counts as a difference between "
                "machines.",
            ),
            (
                "Cells show the run's own verdict and interval, and peak memory beside the baseline's. ",
                Strong("missing"),
                ": not in this run. ",
                Strong("not reached"),
                ": planned, but the run ended before. ",
                Strong("not comparable"),
                ": the suite is not that of the first run, or sizes or code are not those that most runs measured.",
            ),
        )
    ),
)


def page(comparison: Comparison, alts: Mapping[str, str]) -> Page:
    """alts: of the figures that go with it, by name, what each shows."""
    found = consistencies(comparison)
    what = "machine" if len(comparison.machines) > 1 else "run"
    answered = tips(comparison)
    return Page(
        title=_title(comparison),
        blocks=(
            machines(comparison),
            agreement(answered, what),
            *matrix(comparison, answered),
            Heading("The same in words"),
            words(answered, what),
            _limits(comparison),
            *_notes(comparison),
            *(Figure(name, alt) for name, alt in alts.items()),
            Heading("Every comparison"),
            *_evidence(comparison, found),
            *_geometric_means(comparison),
            *_absolute(comparison),
            *_comparability(comparison),
            *HOW_TO_READ,
        ),
    )


def across(comparison: Comparison) -> list[tuple[str, list[tuple[str, float, float, float, str]]]]:
    """What `tipbench.report.figures.draw_across` draws: machine, speedup, low, high, verdict, by comparison; of whole
    jobs alone, where two machines measured one."""
    found = {key: found for key, found in consistencies(comparison).items() if key[0] != CONTROL}
    whole = {
        key: found_across
        for key, found_across in found.items()
        if comparison.references[key].scale == "macro" and len(found_across.measured) > 1
    }
    drawn = []
    for key, found_across in (whole or found).items():
        effects = []
        for place in found_across.measured:
            if place.mean is not None:
                low, high = place.mean.interval()
                effects.append((place.label, math.exp(place.mean.mean), math.exp(low), math.exp(high), place.word))
        drawn.append((_row_name(key), effects))
    return drawn


def _title(comparison: Comparison) -> str:
    if len(comparison.machines) > 1:
        return f"PyTorch tuning tips on {plural(len(comparison.machines), 'machine')}"
    return f"PyTorch tuning tips in {plural(len(comparison.runs), 'run')} of {comparison.machines[0].label}"


def _limits(comparison: Comparison) -> Quote:
    machines, runs = len(comparison.machines), len(comparison.runs)
    few = (
        "All runs are of one machine, or of machines with the same hardware: nothing here says what another "
        "machine would show."
        if machines == 1
        else f"{plural(machines, 'machine')}: these are compared, not all there are. "
        "What pays on all of these may not pay on the next one"
        + ("." if machines > 4 else ", and so few cannot say how often.")
    )
    lines: list[Line] = [(Strong("Limits."), f" {few}")]
    away = runs - len(comparison.comparable)
    if away:
        lines.append((f"{plural(away, 'run')} cannot be compared with the first one, and no statement rests on it.",))
    if comparison.called_different:
        named = ", ".join(comparison.called_different)
        lines.append((Strong(f"Identical code was called different ({named}): distrust small effects there."),))
    return Quote(tuple(lines))


def _notes(comparison: Comparison) -> tuple[Block, ...]:
    if not comparison.notes:
        return ()
    lines = tuple((note,) for note in comparison.notes)
    return (Paragraph((Strong("Not everything could be used:"),)), Bullets(lines))


def _evidence(comparison: Comparison, found: Mapping[Key, Consistency]) -> tuple[Block, ...]:
    """What no run measured has nothing to be compared: only its names are given."""
    head = ("tip and pair", "differ?", *comparison.labels)
    tried = {key: cells for key, cells in comparison.cells.items() if found[key].measured or not _skipped(cells)}
    rows = tuple((Cell((_row_name(key),)), _spread(found[key]), *map(_cell, cells)) for key, cells in tried.items())
    nowhere = [_row_name(key) for key in comparison.cells if key not in tried]
    left_out = Folded(f"Skipped in all runs: {plural(len(nowhere), 'comparison')}", (Paragraph((", ".join(nowhere),)),))
    return (Table("matrix", head, rows), *([left_out] if nowhere else []))


def _skipped(cells: Sequence[Found]) -> bool:
    return all(cell.word in ("skipped", MISSING, NOT_REACHED) for cell in cells)


def _row_name(key: Key) -> str:
    tip, pair, variant, device = key
    beside = [part for part in (variant, device) if part not in ("optimized", "cpu")]
    name = f"{tip} {pair}".strip()
    return f"{name} ({', '.join(beside)})" if beside else name


def _spread(found_across: Consistency) -> Cell:
    spread = found_across.spread
    if spread is None:
        return Cell(("-",))
    word = "differs" if found_across.differs else "no"
    return Cell((Strong(word), f" p {p_value(spread.p)}, I² {100 * spread.i2:.0f} %"), sort=spread.p, kind=word)


def p_value(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _cell(found: Found) -> Cell:
    effect = found.effect
    if found.mean is None or effect is None or effect.mean is None or effect.low is None or effect.high is None:
        why = f": {found.why}" if found.why else ""
        return Cell((Strong(found.word), why), kind=found.word)
    shown = ratio(math.exp(effect.mean), math.exp(effect.low), math.exp(effect.high))
    line: Line = (Strong(found.word), f" {shown}")
    memory = memory_change(effect)
    if memory is not None and effect.memory_before is not None and effect.memory_after is not None:
        kind = MEMORY_KINDS.get(effect.memory_kind, effect.memory_kind)
        changed = change(effect.memory_before, effect.memory_after)
        line = (*line, Break(), f"{kind if changed != 'same' else 'memory'} {changed}")
    return Cell(line, sort=math.exp(effect.mean), kind=found.word)


def _geometric_means(comparison: Comparison) -> tuple[Block, ...]:
    heading = Heading("Geometric means")
    rows = []
    for scale, name in (("macro", "whole jobs"), ("micro", "operations alone")):
        means = [comparison.geometric_mean(index, scale) for index in comparison.comparable]
        sentences = [mean for mean in means if mean is not None]
        if sentences:
            shown = (Cell((_interval(mean),), sort=math.exp(mean.mean)) for mean, _ in sentences)
            rows.append((Cell((name,)), Cell((str(sentences[0][1]),), sort=float(sentences[0][1])), *shown))
    if not rows:
        return heading, Paragraph(("No pair was measured in all comparable runs, so there is none.",))
    labels = (comparison.labels[index] for index in comparison.comparable)
    about = (
        "Over the pairs that all comparable runs measured, each counted once whatever the number of its variants, the "
        "controls left out. The interval is the error of measuring these pairs; of other tips it says nothing."
    )
    return heading, Paragraph((about,)), Table("means", ("scale", "pairs", *labels), tuple(rows))


def _interval(mean: Mean) -> str:
    low, high = mean.interval()
    return ratio(math.exp(mean.mean), math.exp(low), math.exp(high))


def _absolute(comparison: Comparison) -> tuple[Block, ...]:
    """Seconds a step, only between runs that are graded SAME."""
    blocks: list[Block] = [Heading("Absolute times")]
    for number, members in enumerate(comparison.alike, 1):
        rows = []
        for key, cells in comparison.cells.items():
            shown = [cells[index] for index in members]
            if sum(cell.mean is not None for cell in shown) > 1:
                rows.append((Cell((_row_name(key),)), *map(_times, shown)))
        if rows:
            labels = tuple(comparison.labels[index] for index in members)
            blocks.append(Table(f"times-{number}", ("baseline -> variant, a step", *labels), tuple(rows)))
    about = (
        "Only between runs of the same machine in the same state. Medians, without intervals: on a shared machine "
        "they drift by more than speedups do, so they are shown and never judged."
        if len(blocks) > 1
        else "None can be compared: no two runs are of the same machine in the same state and share a pair."
    )
    blocks.insert(1, Paragraph((about,)))
    return (blocks[0], blocks[1], Folded("Seconds a step", tuple(blocks[2:]))) if len(blocks) > 2 else tuple(blocks)


def _times(cell: Found) -> Cell:
    effect = cell.effect
    if cell.mean is None or effect is None or effect.step_s is None or effect.variant_step_s is None:
        return Cell((cell.word,), kind=cell.word)
    return Cell((f"{seconds(effect.step_s)} -> {seconds(effect.variant_step_s)}",), sort=effect.variant_step_s)


def _comparability(comparison: Comparison) -> tuple[Block, ...]:
    count = len(comparison.runs)
    legend = tuple(
        (
            Cell((label,)),
            Cell((hardware(stored.run),)),
            Cell(
                (", ".join(f"{name} {stored.run.machine.get(name, 'not recorded')}" for name in ("torch", "python")),)
            ),
            Cell((str(stored.run.options.get("profile", "not recorded")),)),
            Cell((f"{stored.run.started}, {stored.run.id}",)),
            Cell((f"{len([effect for effect in stored.effects if effect.mean is not None])}",)),
        )
        for label, stored in zip(comparison.labels, comparison.runs, strict=True)
    )
    places = [(left, right) for left in range(count) for right in range(left + 1, count)]
    graded = tuple(_graded(comparison, left, right) for left, right in places[:MOST_GRADES])
    rest = len(places) - len(graded)
    more = (
        (Paragraph((f"{plural(rest, 'further comparison')} of two runs: `--format json` has all.",)),) if rest else ()
    )
    return (
        Heading("What may be compared with what"),
        Table("runs", ("run", "hardware", "versions", "profile", "begun, id", "comparisons measured"), legend),
        Paragraph(
            (
                "Fields of the machine's description are compared one by one. What a machine does not report, or an "
                "older tipbench did not record, is unknown: neither equal nor different. Machines are not identified, "
                "so the same machine means one that looks like it. Between two commits of the suite a pair's code may "
                "have changed: its sizes and file are compared, its lines are not.",
            )
        ),
        Folded(
            f"{plural(len(places), 'comparison')} of two runs, with what differs",
            (Table("grades", ("run", "with", "grade", "differing (left / right)", "unknown"), graded), *more),
        ),
    )


def _graded(comparison: Comparison, left: int, right: int) -> tuple[Cell, ...]:
    found = comparison.grade(left, right)
    differing = "; ".join(map(str, found.differing)) or "nothing"
    unknown = "; ".join(map(str, found.unknown)) or "nothing"
    labels = (Cell((comparison.labels[left],)), Cell((comparison.labels[right],)))
    return (*labels, Cell((Strong(found.shown),), kind=found.grade), Cell((differing,)), Cell((unknown,)))
