"""The evidence of one tip: what was found of its pairs and how, and the code of both sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tipbench.records.record import Run
from tipbench.report.advice import Advice
from tipbench.report.cells import between, speedup, table, verdict_cell
from tipbench.report.code_link import code_places
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Interval,
    Line,
    Literal,
    Paragraph,
    SideBySide,
    Span,
    Strong,
    Table,
)
from tipbench.report.figures import sweep_name
from tipbench.report.limit import Rates, Share, shares
from tipbench.report.rows import JOULES, MEMORY_KINDS, Row, judged_memory, promise_kept
from tipbench.report.trained import in_full
from tipbench.report.wording import change, equal_work, percent, plural, seconds, size, value
from tipbench.suite.source import SHARED
from tipbench.tip.pair import Claim

GPU_WORDS = {
    "sm_mhz": ("SM clock", 1, "MHz"),
    "memory_mhz": ("memory clock", 1, "MHz"),
    "celsius": ("temperature", 1, "C"),
    "milliwatts": ("power", 1000, "W"),
    JOULES: ("energy a step", 1, "J"),
}
"""By key of `Row.gpu_sides`: name, how many of it make one unit, unit."""


LIMIT_WORDS = {
    "flops": "rate of a float32 matrix product ({:,.0f} GFLOP/s)",
    "bytes": "rate of copying ({:,.1f} GB/s, read and written)",
}
"""By `Share.kind`; the figure is the machine's rate."""


def evidence(
    run: Run,
    key: str,
    found: Sequence[Row],
    given: Advice | None,
    drawn: Mapping[str, str],
    reached: Rates,
    sides: bool,
) -> list[Block]:
    """The answer, the evidence, facts, curves and code. key: of the page. given: the answer, if there is one. drawn: by
    name, what the run's figures show. sides: whether both sides' code is shown, beside the link to it."""
    about = found[0].info.tip
    return [
        *([_answer(given)] if given else []),
        _evidence(key, found),
        Bullets(tuple(_facts(run, about, found, reached))),
        *(Figure(name, drawn[name]) for name in curves(found, drawn)),
        *(_code(found) if sides else []),
    ]


def curves(found: Sequence[Row], drawn: Iterable[str]) -> list[str]:
    """The figures of sweeps that are about these rows."""
    bases = {sweep_name(row.tip, row.info.pair) for row in found}
    return [name for name in drawn if re.sub(r"-\d+$", "", name) in bases or name in bases]


def _answer(given: Advice) -> Paragraph:
    spans: list[Span] = [Strong(given.answer)]
    spans += [": ", Literal(given.do)] if given.do else []
    for gain in given.gains:
        spans += [Break(), *([Interval(*gain.interval)] if gain.interval else []), gain.text]
    spans += [Break(), f"Price: {given.price}"] if given.price else []
    return Paragraph(tuple(spans))


def _evidence(key: str, found: Sequence[Row]) -> Table:
    head = ("pair", "scale", "variant", "verdict", "speedup", "step", "memory", "one-off", "pays after", "launches")
    return table(f"evidence-{key}", head, map(_cells, found), cards=(3, 4, 0, 2, 1, 5, 6, 7, 8, 9))


def _cells(row: Row) -> list[Cell | Line | str]:
    judgement = row.judgement
    launches = str(judgement.launches) if judgement.launches else "-"
    if judgement.quarantined:
        launches += f" ({plural(judgement.quarantined, 'disturbed round')} left out)"
    return [
        row.info.pair or "-",
        f"{row.info.scale}, {row.info.device}" if row.info.scale else row.info.device,
        row.variant,
        verdict_cell(row),
        Cell((speedup(row),), judgement.speedup),
        "-" if row.step_s is None or row.variant_step_s is None else _arrow(row.step_s, row.variant_step_s),
        _memory(row),
        Cell(
            ("-" if row.one_off_s is None else f"{'+' * (row.one_off_s >= 0)}{seconds(row.one_off_s)}",), row.one_off_s
        ),
        Cell(("-" if row.break_even_steps is None else _pays_after(row.break_even_steps),), row.break_even_steps),
        Cell((launches,), judgement.launches),
    ]


def _arrow(baseline_s: float, variant_s: float) -> str:
    return f"{seconds(baseline_s)} -> {seconds(variant_s)}"


def _pays_after(steps: int) -> str:
    return plural(steps, "step") if steps else "at once"


def _memory(row: Row) -> Line:
    """What the tip is judged by first, then what the operating system saw."""
    judged = judged_memory(row)
    kinds = dict.fromkeys([*([judged[0]] if judged else []), "resident_peak", "tree"])
    names = {**MEMORY_KINDS, "resident_peak": "resident", "tree": "all processes"}
    before, after = row.memory["baseline"], row.memory["variant"]
    lines = [
        f"{names[kind]} {size(before[kind])} -> {size(after[kind])} ({change(before[kind], after[kind])})"
        for kind in kinds
        if kind in before and kind in after
    ]
    return tuple(between(lines, Break())) or ("-",)


def _facts(run: Run, about: Mapping[str, Any], found: Sequence[Row], reached: Rates) -> Iterator[Line]:
    published = f"; its figure: {about['published']}" if about.get("published") else "; it gives no figure"
    guide = ", ".join(map(str, about.get("guide") or ()))
    if about["claim"]:
        yield (f"The guide's claim{f' ({guide})' if guide else ''}: {about['claim']}{published}.",)
    if about.get("status", "current") not in ("", "current"):
        yield (f"Status: {about['status']}.",)
    if about.get("note"):
        yield (f"Note: {about['note']}",)
    lines = _unkept(about, found)
    lines += _each(found, "Equal work", lambda row: {"": equal_work(row.judgement.found.equal)})
    lines += _each(found, "Mechanism", lambda row: _mechanism(row.judgement.found.mechanism))
    lines += _each(found, "Trainings", lambda row: {"": in_full(row)})
    lines += _each(found, "Share of this machine's limit", lambda row: _shares(shares(row, reached)))
    lines += _each(found, "GPU", lambda row: {"": _gpu(row)})
    lines += _each(found, "Reason", lambda row: {row.verdict: _why(row)})
    yield from ((line,) for line in lines)
    pairs = {row.info.name: row for row in found}
    sizes = [f"{row.info.pair}: {value(row.info.sizes)}" for row in pairs.values() if row.info.sizes]
    if sizes:
        yield (f"Sizes: {'; '.join(sizes)}.",)
    yield ("Code: ", *code_places(run.commit, [row.info for row in pairs.values()]), ".")
    commands = [Literal(_command(run, name)) for name in pairs]
    yield ("Repeat: ", *between(commands, ", "), ".")


def _unkept(about: Mapping[str, Any], found: Sequence[Row]) -> list[str]:
    """The pairs in which the guide's promise was not found, and why we think so. The figures are in the table. A time
    from too few launches for a verdict is not held against a promise."""
    kept = {row.info.pair for row in found if promise_kept(row)}
    judged = (row for row in found if row.judgement.p is not None or about["claim"] == Claim.LEANER)
    unkept = dict.fromkeys(row.info.pair for row in judged if promise_kept(row) is False and row.info.pair not in kept)
    if not unkept:
        return []
    why = f" Why, we think: {about['why_not']}" if about.get("why_not") else ""
    return [f"Not as the guide promises: {', '.join(unkept)}.{why}"]


def _each(found: Sequence[Row], label: str, tell: Callable[[Row], Mapping[str, str]]) -> list[str]:
    """`label, pair: subject: what`. What is the same for all variants of a pair is said once, and pairs of which the
    same is said share a line. tell: by subject, what is said of it, or nothing."""
    said: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in found:
        for subject, what in tell(row).items():
            if what:
                said.setdefault((row.info.pair, subject), {}).setdefault(what, []).append(row.variant)
    lines: dict[str, list[str]] = {}
    for (pair, subject), by_words in said.items():
        is_of_all = any(len(names) == sum(row.info.pair == pair for row in found) for names in by_words.values())
        parts = [what if is_of_all else f"{what} ({', '.join(names)})" for what, names in by_words.items()]
        lines.setdefault(f"{f'{subject}: ' if subject else ''}{'; '.join(parts)}.", []).append(pair)
    return [f"{', '.join(filter(None, (label, *pairs)))}: {words}" for words, pairs in lines.items()]


def _mechanism(mechanism: Mapping[str, Any]) -> dict[str, str]:
    if not mechanism:
        return {}
    what, sides = str(mechanism.get("what", "count")), (mechanism.get("baseline"), mechanism.get("optimized"))
    for side in sides:
        if isinstance(side, Mapping) and "unseen" in side:
            return {what: f"not seen, as {side['unseen']}"}
    before, after = (
        size(side) if isinstance(side, int) and what.lower().startswith("bytes") else value(side) for side in sides
    )
    return {what: f"{before} -> {after}"}


def _gpu(row: Row) -> str:
    """What the card's driver reported: clocks, temperature and power at the blocks' ends, energy over many steps."""
    if row.info.device != "cuda" or not row.measured:
        return ""
    lines = []
    for reading, both in row.gpu_sides.items():
        name, scale, unit = GPU_WORDS[reading]
        lines.append(f"{name} {_sides(both, scale)} {unit}" if both else f"{name} unavailable")
    lines.append(
        f"its L2 cache {'emptied before every step' if row.info.flush_l2 else 'as the step before had left it'}"
    )
    return ", ".join(lines)


def _shares(found: Sequence[Share]) -> dict[str, str]:
    return {
        LIMIT_WORDS[share.kind].format(share.rate / 1e9): f"{percent(share.baseline)} -> {percent(share.variant)}"
        for share in found
    }


def _sides(sides: tuple[float, float], scale: float) -> str:
    before, after = (f"{side / scale:.4g}" for side in sides)
    return f"{before} -> {after}"


def _why(row: Row) -> str:
    reason, remedy = row.judgement.reason, row.judgement.remedy
    if not reason:
        return ""
    return f"{reason} (remedy: {remedy})" if remedy else reason


def _command(run: Run, name: str) -> str:
    options = " --profile quick" * (run.options.get("profile") == "quick") + " --bare" * bool(run.options.get("bare"))
    if isinstance(nodes := run.options.get("nnodes"), int) and nodes > 1:
        options += f" --nnodes {nodes} --rdzv HOST:PORT"
    return f"tipbench run {name.removesuffix('.')}{options}"  # a file that cannot be imported has no pair's name


def _code(found: Sequence[Row]) -> list[Block]:
    """Each pair's two sides, its further variants, and what all of them use, where they are known."""
    blocks: list[Block] = []
    for info in {row.info.name: row.info for row in found}.values():
        code = dict(info.code)
        if not {"baseline", "optimized"} <= set(code):
            continue
        left, right, shared = code.pop("baseline"), code.pop("optimized"), code.pop(SHARED, "")
        shown: list[Block] = [SideBySide(("baseline", "optimized"), Code(left, "python"), Code(right, "python"))]
        more = {**code, "used by all of them": shared} if shared else code
        for name, text in more.items():
            shown += [Paragraph((Strong(name),)), Code(text, "python")]
        blocks.append(Folded(f"The code of {info.pair}", tuple(shown)))
    return blocks
