"""The part of a run's page that is about one tip: its evidence, and the code of both sides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from tipbench.records.record import Run
from tipbench.report.cells import between, speedup, table, verdict_cell
from tipbench.report.document import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Line,
    Literal,
    Paragraph,
    SideBySide,
    Strong,
    Table,
)
from tipbench.report.figures import sweep_name
from tipbench.report.limit import Rates, Share, shares
from tipbench.report.rows import JOULES, MEMORY_KINDS, Row, judged_memory, promise_kept
from tipbench.report.wording import change, equal_work, percent, plural, seconds, size, value
from tipbench.suite.source import SHARED, sides_at
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


def section(run: Run, tip: str, found: Sequence[Row], drawn: Mapping[str, str], reached: Rates) -> list[Block]:
    """Heading, evidence, facts, curves and code. drawn: by name, what the run\'s figures show."""
    about = found[0].info.tip
    guide = ", ".join(map(str, about.get("guide") or ()))
    bases = {sweep_name(tip, row.info.pair) for row in found}
    curves = [name for name in drawn if re.sub(r"-\d+$", "", name) in bases or name in bases]
    return [
        Heading(tip, anchor=anchor(tip)),
        Paragraph((Strong(str(about["title"])), f" (guide: {guide})" if guide else "")),
        _evidence(tip, found),
        Bullets(tuple(_facts(run, about, found, reached))),
        *(Figure(name, drawn[name]) for name in curves),
        *_code(run, found),
    ]


def anchor(tip: str) -> str:
    """The tip's id where it can be one; ids are free text in a file edited by hand."""
    return tip if re.fullmatch(r"[a-z0-9-]+", tip) else ""


def _evidence(tip: str, found: Sequence[Row]) -> Table:
    head = ("pair", "scale", "variant", "verdict", "speedup", "step", "memory", "one-off", "pays after", "launches")
    return table(f"evidence-{anchor(tip) or 'of-another-name'}", head, map(_cells, found))


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
    if about["claim"]:
        yield (f"The guide's claim: {about['claim']}{published}.",)
    if about.get("status", "current") not in ("", "current"):
        yield (f"Status: {about['status']}.",)
    if about.get("note"):
        yield (f"Note: {about['note']}",)
    lines = _unkept(about, found)
    lines += _each(found, "Equal work", lambda row: equal_work(row.judgement.found.equal))
    lines += _each(found, "Mechanism", lambda row: _mechanism(row.judgement.found.mechanism))
    lines += _each(found, "Share of this machine's limit", lambda row: _shares(shares(row, reached)))
    lines += _each(found, "GPU", _gpu)
    lines += _each(found, "Reason", _why)
    yield from ((line,) for line in lines)
    pairs = {row.info.name: row for row in found}
    sizes = [f"{row.info.pair}: {value(row.info.sizes)}" for row in pairs.values() if row.info.sizes]
    if sizes:
        yield (f"Sizes: {'; '.join(sizes)}.",)
    commands = [Literal(_command(run, name)) for name in pairs]
    yield ("Repeat: ", *between(commands, ", "), ".")


def _unkept(about: Mapping[str, Any], found: Sequence[Row]) -> list[str]:
    """Where the guide's promise was not found, by how much, and why we think so."""
    kept = {row.info.pair for row in found if promise_kept(row)}
    unkept = [row for row in found if promise_kept(row) is False and row.info.pair not in kept]
    if not unkept:
        return []
    shown = "; ".join(
        f"{row.info.pair}{'' if row.variant == 'optimized' else f' ({row.variant})'} {_found_instead(row)}"
        for row in unkept
    )
    why = f" Why, we think: {about['why_not']}" if about.get("why_not") else ""
    return [f"Not as the guide promises: {shown}.{why}"]


def _found_instead(row: Row) -> str:
    judged = judged_memory(row) if row.info.tip["claim"] == Claim.LEANER else None
    if judged is None:
        return f"{row.verdict}, {speedup(row)}"
    kind, before, after = judged
    return f"{MEMORY_KINDS[kind]} {size(before)} -> {size(after)} ({change(before, after)})"


def _each(found: Sequence[Row], label: str, tell: Callable[[Row], str]) -> list[str]:
    """`label: pair: what`; variants are named only where a pair's differ."""
    by_pair: dict[str, dict[str, list[str]]] = {}
    for row in found:
        if what := tell(row):
            by_pair.setdefault(row.info.pair, {}).setdefault(what, []).append(row.variant)
    lines = []
    for pair, said in by_pair.items():
        several = sum(row.info.pair == pair for row in found) > 1
        parts = [f"{', '.join(names)}: {what}" if several else what for what, names in said.items()]
        where = f"{label}, {pair}" if pair else label
        lines.append(f"{where}: {'; '.join(parts)}.")
    return lines


def _mechanism(mechanism: Mapping[str, Any]) -> str:
    if not mechanism:
        return ""
    what, sides = str(mechanism.get("what", "count")), (mechanism.get("baseline"), mechanism.get("optimized"))
    for side in sides:
        if isinstance(side, Mapping) and "unseen" in side:
            return f"{what}: not seen, as {side['unseen']}"
    before, after = (
        size(side) if isinstance(side, int) and what.lower().startswith("bytes") else value(side) for side in sides
    )
    return f"{what}: {before} -> {after}"


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


def _shares(found: Sequence[Share]) -> str:
    lines = []
    for share in found:
        of = LIMIT_WORDS[share.kind].format(share.rate / 1e9)
        lines.append(f"{percent(share.baseline)} -> {percent(share.variant)} of its {of}")
    return ", ".join(lines)


def _sides(sides: tuple[float, float], scale: float) -> str:
    before, after = (f"{side / scale:.4g}" for side in sides)
    return f"{before} -> {after}"


def _why(row: Row) -> str:
    reason, remedy = row.judgement.reason, row.judgement.remedy
    if not reason:
        return ""
    return f"{row.verdict}: {reason}" + (f" (remedy: {remedy})" if remedy else "")


def _command(run: Run, name: str) -> str:
    options = " --profile quick" * (run.options.get("profile") == "quick") + " --bare" * bool(run.options.get("bare"))
    if isinstance(nodes := run.options.get("nnodes"), int) and nodes > 1:
        options += f" --nnodes {nodes} --rdzv HOST:PORT"
    return f"tipbench run {name.removesuffix('.')}{options}"  # a file that cannot be imported has no pair's name


def _code(run: Run, found: Sequence[Row]) -> list[Block]:
    """Each pair's two sides, its further variants, and what all of them use; where none is known, only its place."""
    blocks: list[Block] = []
    for info in {row.info.name: row.info for row in found}.values():
        place = _place(info.file)
        code = dict(info.code or sides_at(run.commit, place, info.pair))
        if not {"baseline", "optimized"} <= set(code):
            blocks.append(Paragraph(("Code: ", Literal(place), f", line {info.line}." if info.line else ".")))
            continue
        left, right, shared = code.pop("baseline"), code.pop("optimized"), code.pop(SHARED, "")
        shown: list[Block] = [SideBySide(("baseline", "optimized"), Code(left, "python"), Code(right, "python"))]
        more = {**code, "used by all of them": shared} if shared else code
        for name, text in more.items():
            shown += [Paragraph((Strong(name),)), Code(text, "python")]
        blocks.append(Folded(f"The code of {info.pair} ({place}, line {info.line})", tuple(shown)))
    return blocks


def _place(file: str) -> str:
    """The file as the reader's checkout has it; of one from elsewhere only the name: paths are private."""
    path = PurePath(file)
    if "benchmarks" not in path.parts:
        return path.name
    return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index("benchmarks") :])
