"""The first page of a run, before it is rendered: one table of changes, how to write each, and the rest in lines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import shorten

from tipbench.report.answer import Answer
from tipbench.report.answer_kinds import ACTS, ALONE, DEPENDS, DO_NOT, IMPOSSIBLE, OPERATIONS, UNCLEAR, USE, USE_IF
from tipbench.report.markdown import how
from tipbench.report.measure import Effect
from tipbench.report.price import (
    COMPILED_MODEL,
    IN_WORKERS,
    NONE_MEASURED,
    NOT_MEASURED,
    OF_THE_PROCESS,
    memory_change,
    time_factors,
)
from tipbench.report.questions import WORK_COLUMNS, TipLine, questions, short_lines, why_impossible
from tipbench.report.result import Result
from tipbench.tip.guide import FOREMOST
from tipbench.tip.pair import TOGETHER, Claim
from tipbench.tip.wording import job_words, plural, seconds

RECIPES = (Claim.FEWER_STEPS, Claim.SOONER_AT_TARGET, Claim.BETTER, Claim.STEADIER)
"""Claims about whole trainings, which were counted with the suite: no number of this machine."""

_TABLE_ROWS, SHOWN = 15, 4
"""Rows of the table, and of these the changes whose code the page shows; the pages of all others have theirs."""

LONG_CODE, LONG_CONDITION, LONG_LINE = 8, 40, 156
"""Most lines of code, and characters of a condition in a table and of several jobs in a line, that the page shows; the
tip's page has all."""

DEPRECATED, AS_WORDED = " (deprecated)", "as the guide words it"

GRADES = SURE, LIKELY, VARIES, COSTS = "sure", "likely", "depends", "costs"
"""What the table says of a change, in its order: at 99.5 %, at 95 %, it pays in some jobs alone, it costs."""

Group = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""By words, (id, address) of the tips that they are said of."""


@dataclass(frozen=True)
class TableCell:
    """What a change brings in one kind of work. strong: the number, if it is a gain; rest: what follows it."""

    strong: str = ""
    rest: str = ""


@dataclass(frozen=True)
class Row:
    """A change in the table.

    Attributes:
        grade: one of GRADES.
        tip, title, address: of the tip.
        cells: one for each column.
        memory: of live tensors; empty if not measured.
        only_if: the condition, cut where it is long, as the page shows it whole elsewhere.
        whole: the whole condition.
        remarks: changes that exclude this one, and what it was measured against.
    """

    grade: str
    tip: str
    title: str
    address: str
    cells: tuple[TableCell, ...]
    memory: TableCell
    only_if: str
    whole: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class ChangeText:
    """How to make a change, and what it brings.

    Attributes:
        title, address: of the tip.
        code: what to write, as Markdown; of a long one nothing but the line that says where it is.
        facts: a line each.
    """

    title: str
    address: str
    code: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Front:
    """What the first page says of the answers.

    Attributes:
        summary: the bottom line.
        columns: heads of the columns of `Row.cells`.
        rows: of the table.
        changes: the first of the table.
        further: rows that the table has no room for, of the page of the whole run.
        more: by where these pay, their tips.
        conditions: those of the table's rows whose code the page does not show, where they were cut.
        questions: what people ask, answered in a line.
        little: by what is said of them, tips.
        open, recipes: tips in a line each.
        avoid: ways that cost.
        together: what tips bring together, each precision and several devices, a line each.
        impossible: by why they cannot be tried here, tips.
    """

    summary: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    changes: tuple[ChangeText, ...]
    further: tuple[Row, ...]
    more: Group
    conditions: tuple[TipLine, ...]
    questions: tuple[TipLine, ...]
    little: Group
    open: tuple[TipLine, ...]
    recipes: tuple[TipLine, ...]
    avoid: tuple[TipLine, ...]
    together: tuple[TipLine, ...]
    impossible: Group


def front(
    made: Sequence[Answer], together: Sequence[tuple[str, str, list[str]]], address: Callable[[str], str]
) -> Front:
    """together: as `answer.side_by_side` has it. address: of a tip's page."""
    of_tip: dict[str, list[Answer]] = {}
    for answer in made:
        of_tip.setdefault(answer.tip, []).append(answer)
    recipes = [answer for answer in made if answer.claim in RECIPES and answer.kind not in (UNCLEAR, IMPOSSIBLE)]
    timed = [answer for answer in made if answer.claim not in RECIPES]
    graded = [(grade, answers) for answers in of_tip.values() if (grade := _grade(answers))]
    # What guides name first comes first, then what brings most.
    graded.sort(key=lambda of: (GRADES.index(of[0]), of[1][0].tip not in FOREMOST, -max(a.brings for a in of[1])))
    shown = [
        workload for workload in WORK_COLUMNS if any(a.workload == workload for _, answers in graded for a in answers)
    ]
    columns = tuple(WORK_COLUMNS[workload] for workload in shown)
    rows = [_row(grade, answers, shown, address) for grade, answers in graded]
    little = [answer for answer in timed if answer.kind not in (USE, USE_IF, DEPENDS, DO_NOT, UNCLEAR, IMPOSSIBLE)]
    return Front(
        summary=_summary(made, rows),
        columns=columns,
        rows=tuple(rows[:_TABLE_ROWS]),
        changes=tuple(_change(answers, address) for grade, answers in graded[:SHOWN] if grade != COSTS),
        further=tuple(rows[_TABLE_ROWS:]),
        more=_grouped(_in_brief(row, columns) for row in rows[_TABLE_ROWS:] if row.grade != COSTS),
        conditions=tuple(
            _tip_line(row.tip, row.address, row.whole, row.remarks)
            for row in rows[SHOWN:_TABLE_ROWS]
            if row.whole != row.only_if or row.remarks
        ),
        questions=tuple(questions(made, address)),
        little=_grouped((_little(a), f"{a.tip} ({_of_jobs(a)})", address(a.tip)) for a in little),
        open=tuple(_open(a, address(a.tip)) for a in made if a.kind == UNCLEAR),
        recipes=tuple(
            _tip_line(a.title, address(a.tip), a.answer, [*_gains(a.gains), *_price(a, "price")]) for a in recipes
        ),
        avoid=tuple(line for answer in timed for line in _to_avoid(answer, address(answer.tip))),
        together=tuple(
            TipLine(f"{tip}, " * (tip != TOGETHER) + WORK_COLUMNS[workload], address(tip), first, tuple(below))
            for tip, workload, (first, *below) in together
        ),
        impossible=_grouped(
            (why_impossible(one.gain), one.tip, address(one.tip)) for one in made if one.kind == IMPOSSIBLE
        ),
    )


def _grade(answers: Sequence[Answer]) -> str:
    """Of a tip in the table; empty if it is not in it."""
    timed = [answer for answer in answers if answer.claim not in RECIPES]
    pays = [answer for answer in timed if answer.kind in (USE, USE_IF)]
    if pays:
        return SURE if any(is_sure_of(answer) for answer in pays) else LIKELY
    kinds = {answer.kind for answer in timed}
    return VARIES if DEPENDS in kinds else COSTS if DO_NOT in kinds else ""


def is_sure_of(answer: Answer) -> bool:
    """Whether at least half of the jobs that it pays in are decided at 99.5 %."""
    gains = [gain for gain in answer.gains if gain.state.word == "gain"]
    return 2 * sum(gain.is_sure for gain in gains) >= len(gains)


def _row(grade: str, answers: Sequence[Answer], shown: Sequence[str], address: Callable[[str], str]) -> Row:
    by_workload = {answer.workload: answer for answer in answers}
    cells = tuple(table_cell(by_workload[workload]) if workload in by_workload else TableCell() for workload in shown)
    about = [answer for answer in answers if answer.kind in (USE, USE_IF, DEPENDS)] or answers
    when = next((answer.when for answer in about if answer.when), "")
    first = about[0]
    title = f"not: {first.title}" if grade == COSTS else first.title
    title += DEPRECATED if first.gains and first.gains[0].row.about.status.startswith("deprecated") else ""
    leads = {("" if way.is_headline else way.name) for answer in about for way in answer.ways[:1]}
    title += f": {lead}" if len(leads) == 1 and (lead := leads.pop()) else ""
    remarks = [f"not with {answer.rival}" for answer in about if answer.rival]
    against = [re.sub(r" \(\w+\)", "", answer.against) for answer in about if answer.one_of == COMPILED_MODEL]
    remarks += [f"measured against {one}" for one in against if one]
    priced = [answer for answer in about if answer.claim != Claim.LEANER and _price(answer, "")]
    differ = len({answer.price for answer in priced}) > 1
    remarks += [_price(answer, "price" + f" in {WORK_COLUMNS[answer.workload]}" * differ)[0] for answer in priced]
    place, remarks = address(first.tip), list(dict.fromkeys(remarks))
    return Row(grade, first.tip, title, place, cells, memory_cell(about), short_condition(when), when, tuple(remarks))


def _in_brief(row: Row, columns: Sequence[str]) -> tuple[str, str, str]:
    """The first kind of work in which a change brings something; `no-padding 1.5x`, or `legacy onednn-graph 1.2x`;
    and the address."""
    cells = list(zip((*columns, "memory"), (*row.cells, row.memory), strict=True))
    where = next((name for name, cell in cells if _number(cell) or cell.rest.startswith("takes")), "memory")
    gain = next(filter(None, (_number(cell) for _, cell in cells)), "")
    return where, f"{'legacy ' * (DEPRECATED in row.title)}{row.tip} {gain}".strip(), row.address


def _number(cell: TableCell) -> str:
    """What a change gains; empty if the cell says another thing."""
    words = cell.strong or cell.rest.partition(" (")[0]
    return "start" if words.startswith("start") else words if words.startswith(tuple("-0123456789")) else ""


def table_cell(answer: Answer) -> TableCell:
    """What the answer says in a cell of at most some 25 characters."""
    gains = [gain for gain in answer.gains if gain.mean is not None]
    if answer.kind not in (USE, USE_IF, DEPENDS, DO_NOT) or not gains:
        return TableCell(rest={IMPOSSIBLE: "", ALONE: "", UNCLEAR: "open"}.get(answer.kind, answer.answer))
    rows = [gain.row for gain in gains]
    if answer.claim == Claim.LEANER:
        return TableCell(rest=_time_of(rows))
    if answer.claim == Claim.SOONER and rows[0].one_off_sides:
        return TableCell(rest="start {} -> {}".format(*map(seconds, rows[0].one_off_sides)))
    if answer.kind in (USE, USE_IF) and job_words(rows[0].pair).endswith(" start"):
        return TableCell(rest=f"start {seconds(rows[0].step_s or 0)} -> {seconds(rows[0].variant_step_s or 0)}")
    decided = ("gain",) if answer.kind in (USE, USE_IF) else ("gain", "loss")
    gains = [gain for gain in gains if gain.state.word in decided] or gains
    if is_sure_of(answer):
        gains = [gain for gain in gains if gain.is_sure] or gains
    means = [gain.mean for gain in gains if gain.mean]
    ratios = [gain.ratio for gain in gains]
    low, high = (math.exp(end) for end in means[0].interval())
    first, least, most = _alike(ratios[0], *((min(ratios), max(ratios)) if len(ratios) > 1 else (low, high)))
    number = f"{least}x to {most}x" if len(ratios) > 1 and least != most else f"{first}x"
    is_one = len(ratios) == 1 and low < high
    in_brackets = [gains[0].row.variant if answer.ways[0].value else f"{least}-{most}" if is_one else ""]
    in_brackets.append("vs compiled" if ", compiled" in answer.against else "")
    in_brackets.append(f"{len(gains)} of {len(rows)}" if len(gains) < len(rows) else "")
    brackets = f"({'; '.join(filter(None, in_brackets))})" if any(in_brackets) else ""
    if answer.kind == DO_NOT:
        return TableCell(rest=f"costs: {number}")
    return TableCell(number, brackets) if is_sure_of(answer) else TableCell(rest=f"{number} {brackets}".strip())


def _alike(*ratios: float) -> list[str]:
    """With as many digits as the smallest of them needs: 1.05, but 1.4."""
    digits = 2 if min(ratios) < 1.195 else 1 if max(ratios) < 9.95 else 0
    return [f"{ratio:.{digits}f}" for ratio in ratios]


def _time_of(rows: Sequence[Result]) -> str:
    """What a tip that saves memory costs in time."""
    ranges = [time_factors(row) for row in rows if row.speedup]
    factors = [factor for ends in ranges for factor in ends]
    if not factors:
        return ""
    least, most = _alike(min(factors), max(factors))
    if max(factors) <= 1.01:
        return f"{1 / max(factors):.2f}x" if all(row.verdict == "faster" for row in rows) else "same"
    if any(low < high for low, high in ranges):
        return f"time open ({least}-{most}x)"
    return f"takes {most}x as long" if least == most else f"takes {least}x to {most}x as long"


def memory_cell(answers: Iterable[Answer]) -> TableCell:
    """How the memory of their jobs changes, from the least to the most: live tensors where these tell it of any."""
    jobs = [(answer.claim, gain.row) for answer in answers for gain in answer.gains if gain.state.word != "open"]
    if any(row.about.one_of == IN_WORKERS and not row.tree_sides for _, row in jobs):
        return TableCell()  # each job may have another number of workers
    changes = sorted(filter(None, (memory_change(claim, row) for claim, row in jobs)))
    changes = [each for each in changes if not each[1].endswith(OF_THE_PROCESS)] or changes
    words = " to ".join(dict.fromkeys(words for _, words in (*changes[:1], *changes[-1:])))
    words = words.replace(OF_THE_PROCESS, "", words.count(OF_THE_PROCESS) - 1)
    return TableCell(words) if jobs and jobs[0][0] == Claim.LEANER else TableCell(rest=words)


def short_condition(when: str) -> str:
    """A condition, cut where it is long."""
    if len(when) <= LONG_CONDITION:
        return when
    return f"{shorten(re.split(r'[:,(;]', when)[0], LONG_CONDITION, placeholder='')} ..."


def _change(answers: Sequence[Answer], address: Callable[[str], str]) -> ChangeText:
    pays = [answer for answer in answers if answer.kind in (USE, USE_IF, DEPENDS)]
    short = [answer for answer in pays if answer.do and answer.do.count("\n") < LONG_CODE]
    code = how(short[0].do, short[0].workload) if short else ""
    shown = short[0].do if short else ""
    facts = [fact for one in pays for fact in _facts(one, pays, shown not in ("", one.do))]
    if any(answer.do.count("\n") >= LONG_CODE for answer in pays):
        facts.append("What to write is longer: it stands on the page of this change.")
    return ChangeText(pays[0].title, address(pays[0].tip), code, tuple(dict.fromkeys(facts)))


def _facts(answer: Answer, pays: Sequence[Answer], has_other_code: bool) -> Iterator[str]:
    """pays: all answers on the tip that pay; where they differ, the kind of work is named."""
    where = f" in {WORK_COLUMNS[answer.workload]}"
    of_baseline = where * (len({one.against for one in pays}) > 1)
    of_price = where * (len({one.price for one in pays}) > 1)
    if answer.when:
        yield f"Only if {answer.when}."
    lead = answer.ways[0]
    named = lead.gains[0].row.variant if lead.value else lead.name or answer.title
    lines = short_lines(list(_gains(answer.gains)), LONG_LINE)
    yield from (f"With {named}: {line}" if has_other_code else line for line in lines)
    against = [f"against{of_baseline}: {answer.against}"] if answer.against else []
    for line in short_lines([*against, *_price(answer, f"price{of_price}")], LONG_LINE):
        yield f"{line[0].upper()}{line[1:]}."
    yield from (f"{remark[0].upper()}{remark[1:]}." for remark in answer.remarks)
    if answer.rival:
        yield f"In place of it: {answer.rival}. Only one of them can be followed."
    if lead.value and ": " in answer.alternatives:
        yield f"{job_words(answer.gains[0].row.pair)} with other values: {answer.alternatives}."
    others = [f"or {way.name or AS_WORDED}: {'; '.join(_gains(way.gains))}" for way in answer.others]
    lines = short_lines([*others, *(f"not {way.name or AS_WORDED}: {way.cost}" for way in answer.harmful)], LONG_LINE)
    yield from (f"{line[0].upper()}{line[1:]}" for line in lines)


def _price(answer: Answer, head: str) -> list[str]:
    """What a change costs, if that was measured."""
    is_measured = answer.price and not answer.price.startswith((NOT_MEASURED, NONE_MEASURED))
    return [f"{head}: {answer.price}"] if is_measured else []


def _tip_line(title: str, address: str, words: str, below: Sequence[str]) -> TipLine:
    line = short_lines([words, *below], LONG_LINE - 2 - len(title))
    return TipLine(title, address, line[0], tuple(short_lines(line[1:], LONG_LINE)))


def _gains(gains: Iterable[Effect]) -> Iterator[str]:
    return (f"{job_words(gain.row.pair)} {gain.brought}" for gain in gains)


def _little(answer: Answer) -> str:
    return f"{answer.answer}{' of memory' * (answer.claim == Claim.LEANER)} in {WORK_COLUMNS[answer.workload]}"


def _of_jobs(answer: Answer) -> str:
    return "; ".join(
        _gains(answer.gains) if answer.kind == ALONE else [job_words(gain.row.pair) for gain in answer.gains]
    )


def _open(answer: Answer, address: str) -> TipLine:
    below = [*_gains(answer.gains), *answer.remarks] or [answer.gain]
    return _tip_line(answer.title, address, WORK_COLUMNS[answer.workload], below)


def _to_avoid(answer: Answer, address: str) -> list[TipLine]:
    """Ways that cost time or memory in whole jobs."""
    ways = [] if answer.workload == OPERATIONS else [*answer.ways[: answer.kind == DO_NOT], *answer.harmful]
    return [TipLine(f"{way.name or answer.title} ({answer.tip})", address, way.cost) for way in ways]


def _summary(made: Sequence[Answer], rows: Sequence[Row]) -> str:
    tried = {answer.tip for answer in made if answer.kind != IMPOSSIBLE}
    still_open = len({answer.tip for answer in made if answer.kind == UNCLEAR} - {row.tip for row in rows})
    recipes = len({answer.tip for answer in made if answer.claim in RECIPES and answer.kind in ACTS})
    no_time = sum(row.grade == SURE and not any(cell.strong for cell in row.cells) for row in rows)
    sure = f"pay for sure{f' ({no_time} only in memory or start)' * (no_time > 0)}"
    words = {SURE: sure, LIKELY: "likely", VARIES: "in some jobs", COSTS: "to avoid"}
    counts = {word: sum(row.grade == grade for row in rows) for grade, word in words.items()}
    counts |= {"recipes": recipes, "wholly open": still_open}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    if not tried:
        return "No tip was tried."
    return f"Of {plural(len(tried), 'tip')} tried, {', '.join(parts) or 'none pays in a job'}; others bring little."


def _grouped(tips: Iterable[tuple[str, str, str]]) -> Group:
    """tips: words, tip and address."""
    by_words: dict[str, list[tuple[str, str]]] = {}
    for words, tip, address in tips:
        by_words.setdefault(words, []).append((tip, address))
    for words, of_words in by_words.items():
        if len(words) + sum(len(tip) + 4 for tip, _ in of_words) > LONG_LINE:  # without their jobs
            by_words[words] = [(tip.partition(" (")[0], address) for tip, address in of_words]
    return tuple((words, tuple(of_words)) for words, of_words in by_words.items())
