"""The pages of one run: a short one that says what to do, and below it the evidence, one page a tip."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tipbench.records.record import Run
from tipbench.records.store import Notice
from tipbench.report import jobs
from tipbench.report.advice import advise
from tipbench.report.answers import Place, answers, count, needs, noise
from tipbench.report.cells import VERDICTS, speedup, table, verdict_cell
from tipbench.report.document import (
    Block,
    Bullets,
    Cell,
    Figure,
    Folded,
    Heading,
    Line,
    Link,
    Literal,
    Page,
    Paragraph,
    Parted,
    Quote,
    Strong,
)
from tipbench.report.effect import Effect, effect, readable
from tipbench.report.figures import alts
from tipbench.report.how_to_read import of_answers, of_verdicts
from tipbench.report.limit import rates
from tipbench.report.machine_words import all_fields, in_brief, machine_words, versions
from tipbench.report.one_tip import curves, evidence
from tipbench.report.rows import CONTROL, Row, counts, rows
from tipbench.report.wording import plural, seconds
from tipbench.verdict.verdict import serial_of

THE_RUN = "the-run"
"""The key of the evidence that belongs to no tip: controls, figures of all pairs, the machine. No tip is called so."""

FIRST_FIGURE = "jobs"
"""The name of the figure that is shown with the answers."""


def page(
    run: Run,
    notices: Sequence[Notice] = (),
    drawn: Mapping[str, str] | None = None,
    earlier: Sequence[Sequence[Effect]] = (),
    sides: bool = True,
) -> Page:
    """All of a run on one page: what is below is folded.

    drawn: by name, what its figures show; None for those of `tipbench.report.figures`. earlier: what earlier runs of
    the machine found, as `advise` takes it. sides: whether both sides' code is shown, beside the link to it.
    """
    found = _parted(run, notices, drawn, earlier, sides, lambda key: f"#{key}")
    folds = [
        Folded(below.title, (Heading(key, 3, key), *_deeper(below.blocks, 2))) for key, below in found.below.items()
    ]
    return Page(found.front.title, (*found.front.blocks, Heading("The evidence", anchor="evidence"), *folds))


def parted(
    run: Run,
    home: str,
    notices: Sequence[Notice] = (),
    drawn: Mapping[str, str] | None = None,
    earlier: Sequence[Sequence[Effect]] = (),
    sides: bool = False,
) -> Parted:
    """The run as a page that people read, and a page a tip below it. home: the key of the first; those below it have
    keys that begin with it and a slash. The others: as `page` takes them."""
    found = _parted(run, notices, drawn, earlier, sides, lambda key: f"{home}/{key}")
    up = Paragraph((Link("All answers of this run", home), "."))
    below = {f"{home}/{key}": Page(page.title, (up, *page.blocks)) for key, page in found.below.items()}
    return Parted(found.front, below)


def in_two(
    run: Run,
    home: str,
    below: str,
    notices: Sequence[Notice] = (),
    drawn: Mapping[str, str] | None = None,
    earlier: Sequence[Sequence[Effect]] = (),
) -> Parted:
    """The run as a page that people read, and one page below it with all evidence, each tip under its id. home, below:
    their keys. The others: as `page` takes them."""
    found = _parted(run, notices, drawn, earlier, True, lambda key: f"{below}#{key}")
    blocks: list[Block] = [Paragraph((Link("All answers of this run", home), "."))]
    for key, tip in found.below.items():
        blocks += [Heading(key, 2, key), Paragraph((Strong(tip.title),)), *_deeper(tip.blocks, 1)]
    evidence = Page(f"{found.front.title}: the evidence", tuple(blocks))
    return Parted(found.front, {below: evidence})


def _parted(
    run: Run,
    notices: Sequence[Notice],
    drawn: Mapping[str, str] | None,
    earlier: Sequence[Sequence[Effect]],
    sides: bool,
    place: Place,
) -> Parted:
    found = rows(run)
    drawn = alts(found) if drawn is None else drawn
    tips: dict[str, list[Row]] = {}
    for row in found:
        tips.setdefault(readable(row.tip), []).append(row)
    controls = tips.pop(CONTROL, [])
    keys = {tip: _key(tip, number) for number, tip in enumerate(tips, 1)}
    advice = advise([*earlier, list(map(effect, found))])
    by_tip = {given.tip: given for given in advice}
    lacking = needs(found)
    date, words = run.started[:10], versions(run.machine)
    most = max((given.runs for given in advice), default=1)
    of_runs = f"{most} runs, the newest of {date}" if most > 1 else f"1 run, of {date}"
    front: list[Block] = [
        Paragraph((f"{words}{'; ' if words else ''}{of_runs}. ", *count(advice, lacking))),
        Paragraph(noise(controls)),
        _limits(run, found),
        *_notices(notices),
        answers(advice, lacking, lambda tip: place(keys[tip])),
        *(Figure(name, alt) for name, alt in drawn.items() if name == FIRST_FIGURE),
        Heading("The machine", anchor="the-machine"),
        Bullets(tuple(in_brief(run))),
        *jobs.section(found),
        Heading("How to read this", anchor="how-to-read"),
        Bullets(tuple(of_answers())),
        Heading("This run", anchor="this-run"),
        *_identity(run, place(THE_RUN)),
    ]
    reached = rates(found)
    below = {
        keys[tip]: Page(
            str(listed[0].info.tip["title"]),
            tuple(evidence(run, keys[tip], listed, by_tip.get(tip), drawn, reached, sides)),
        )
        for tip, listed in tips.items()
    }
    of_sweeps = {name for listed in tips.values() for name in curves(listed, drawn)}
    figures = [Figure(name, alt) for name, alt in drawn.items() if name not in {*of_sweeps, FIRST_FIGURE}]
    title = f"PyTorch tuning tips on {machine_words(run.machine)}"
    return Parted(Page(title, tuple(front)), {**below, THE_RUN: _the_run(run, found, controls, figures)})


def _deeper(blocks: Sequence[Block], levels: int) -> Iterator[Block]:
    """As they are so many levels below where they are on a page of their own."""
    return (replace(block, level=block.level + levels) if isinstance(block, Heading) else block for block in blocks)


def _key(tip: str, number: int) -> str:
    """The tip's id where it can name a file and an anchor; ids are free text in a file edited by hand."""
    return tip if re.fullmatch(r"[a-z0-9-]{1,80}", tip) and tip != THE_RUN else f"tip-{number}"


def _limits(run: Run, found: Sequence[Row]) -> Quote:
    lines: list[Line] = []
    missing = counts(run).not_reached
    if missing:
        why = "was interrupted, or its time was up" if _time(run) else "was interrupted"
        lines.append((Strong(f"This run {why}: {plural(missing, 'pair')} not reached."),))
    lines.append((Strong("Limits."), " The answers hold for this machine, these sizes and these versions."))
    if run.options.get("bare"):
        lines.append(("Measured with ", Literal("--bare"), ": the process settings were not controlled."))
    alike = serial_of([row.judgement for row in found])
    if alike is not None and alike.widening > 1:
        wider = f"{100 * (alike.widening - 1):.0f} %"
        lines.append((f"Launches in a row were alike, so every interval is {wider} wider.",))
    return Quote(tuple(lines))


def _time(run: Run) -> str:
    budget_s = run.options.get("budget_s")
    return f", {budget_s / 60:g} minutes at most" if isinstance(budget_s, int | float) and budget_s > 0 else ""


def _notices(notices: Sequence[Notice]) -> list[Block]:
    if not notices:
        return []
    listed = tuple((f"{n.file.name}, line {n.line}: {n.text}",) for n in notices)
    return [Paragraph((Strong("Not everything in the results file could be used:"),)), Bullets(listed)]


def _identity(run: Run, place: str) -> list[Block]:
    counted = counts(run)
    reached = f"{counted.measured} measured + {counted.skipped} skipped + {counted.failed} failed"
    missing = f" + {counted.not_reached} not reached" if counted.not_reached else ""
    if counted.not_reached:
        names = list((Counter(run.planned) - Counter(record.name for record in run.records)).elements())
        missing += f" ({', '.join(names[:10]) + ', ...' * (len(names) > 10)})"
    lines: list[Line] = [
        (f"Run {run.id}, begun {run.started}, profile {run.options.get('profile', 'full')}{_time(run)}.",),
        (f"Suite {run.suite}, commit {run.commit[:12] or 'unknown'}.",),
        (f"{plural(counted.planned, 'pair')} planned = {reached}{missing}.",),
        (Link("What belongs to no single tip", place), ": noise, figures of all pairs, words, the whole machine."),
    ]
    return [Bullets(tuple(lines))]


# ---- the page below that belongs to no tip ----


def _the_run(run: Run, found: Sequence[Row], controls: Sequence[Row], figures: Sequence[Figure]) -> Page:
    verdicts = Counter(row.verdict for row in found)
    by_verdict = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    compared = f"{plural(len(found), 'comparison')} (a pair can have several variants): {by_verdict}."
    blocks: list[Block] = [
        *([Paragraph((compared,))] if found else []),
        *figures,
        *_controls(controls),
        *_alike(run, found),
        Heading("How to read a verdict"),
        Bullets(tuple(of_verdicts())),
        *all_fields(run),
    ]
    return Page("The run as a whole: noise, figures, words, machine", tuple(blocks))


def _controls(controls: Sequence[Row]) -> list[Block]:
    """Identical sides: what is shown here is the error of the other tables."""
    heading = Heading("Identical code, timed against itself (A/A controls)")
    if not controls:
        return [heading, Paragraph(("None in this run.",))]
    body = []
    for row in controls:
        name = row.info.pair if row.variant == "optimized" else f"{row.info.pair} ({row.variant})"
        step = "-" if row.step_s is None else seconds(row.step_s)
        launches = str(row.judgement.launches) if row.judgement.launches else "-"
        cells = f"{row.info.scale}, {row.info.device}", verdict_cell(row), Cell((speedup(row),), row.judgement.speedup)
        body.append((name, *cells, step, launches, row.judgement.reason or "-"))
    about = "Both sides run the same code, so every departure from 1x is error of the measurement."
    head = ("pair", "scale", "verdict", "ratio", "step", "launches", "reason")
    return [heading, Paragraph((about,)), table("controls", head, body)]


def _alike(run: Run, found: Sequence[Row]) -> list[Block]:
    """How alike launches were that followed each other, where every interval was widened for it."""
    alike = serial_of([row.judgement for row in found])
    if alike is None or alike.widening == 1:
        return []
    said = f"correlation {alike.correlation:.2f} on average over {plural(alike.pairs, 'comparison')}, z {alike.z:.1f}"
    wider = f"{100 * (alike.widening - 1):.0f} % wider than independent launches would make it"
    return [Paragraph((f"Launches that followed each other were alike ({said}). Every interval is {wider}.",))]
