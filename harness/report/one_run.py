"""The page of one run for a stranger: limits first, then answers, then the evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from harness.page import (
    Block,
    Break,
    Bullets,
    Cell,
    Code,
    Figure,
    Folded,
    Heading,
    Line,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    SideBySide,
    Span,
    Strong,
    Table,
)
from harness.pair import Claim
from harness.record import Run
from harness.report.advice import ANSWERS, MEMORY_KINDS, advise, judged_memory, promise_kept
from harness.report.figures import alts, sweep_name
from harness.report.limit import Rates, Share, rates, shares
from harness.report.rows import CONTROL, JOULES, Row, counts, rows
from harness.report.wording import change, equal_work, percent, plural, ratio, seconds, size, value
from harness.source import SHARED, at_commit, sides
from harness.store import Notice

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

VERDICTS = ("faster", "slower", "no difference", "inconclusive", "skipped", "failed")

ANSWERED = "In one line each"

HOW_TO_READ: tuple[Block, ...] = (
    Heading("How to read a verdict", anchor="how-to-read"),
    Paragraph(
        (
            "A speedup is the baseline's time over the variant's: 2x means half the time. The brackets hold its 95 % "
            "interval, taken over launches: fresh processes in which both sides run in turns.",
        )
    ),
    Bullets(
        (
            (
                Strong("faster"), ", ", Strong("slower"), ": the whole interval lies beyond 1 %, and the finding "
                "stands when all comparisons of the run are judged together (false discoveries held to 5 %).",
            ),
            (Strong("no difference"), ": the whole interval lies within 1 % of equal."),
            (
                Strong("inconclusive"), ": the interval is too wide or too unsure to say; the reason tells what could "
                "have been seen.",
            ),
            (
                Strong("skipped"), ", ", Strong("failed"), ": not measured; the reason and the remedy are given.",
            ),
        )
    ),
    Paragraph(
        (
            "Guide items: A is the official guide's summary, B the ten-tricks article, G the official Performance "
            "Tuning Guide, M modern practice beyond them.",
        )
    ),
    Paragraph(
        (
            "The answers: ", Strong(ANSWERS[0]), " (it pays, on the whole job where one was measured), ",
            Strong(ANSWERS[1]), " (no difference), ", Strong(ANSWERS[2]), " (it costs), ", Strong(ANSWERS[3]),
            " (inconclusive or failed), ", Strong(ANSWERS[4]), " (something is missing). A tip that promises less "
            "memory is judged by its peak, from 5 % on, and its price in time is told. A step's time is the median "
            "of the baseline's; memory is the peak of one fresh process; one-off is what the variant needs once "
            'beyond the baseline (build, compile, warm-up), and "pays after" is how many steps earn that back.',
        )
    ),
)  # fmt: skip


def page(run: Run, notices: Sequence[Notice] = (), drawn: Mapping[str, str] | None = None) -> Page:
    """The page of a run. drawn: by name, what its figures show; None for those of `harness.report.figures`."""
    found = rows(run)
    drawn = alts(found) if drawn is None else drawn
    tips: dict[str, list[Row]] = {}
    for row in found:
        tips.setdefault(row.tip, []).append(row)
    controls = tips.pop(CONTROL, [])
    reached = rates(found)
    blocks = [
        _limits(run, controls),
        *_notices(notices),
        *_answers(found),
        _counts(run, found),
        *_overview(drawn),
        *(block for tip, listed in tips.items() for block in _tip(run, tip, listed, drawn, reached)),
        *_controls(controls),
        *HOW_TO_READ,
        *_machine(run),
    ]
    title = f"PyTorch tuning tips, measured on {machine_words(run.machine)}, {run.started[:10]}"
    return Page(title, tuple(blocks))


def _table(name: str, head: Sequence[str], body: Iterable[Sequence[Cell | Line | str]]) -> Table:
    return Table(name, tuple(head), tuple(tuple(map(_as_cell, row)) for row in body))


def _as_cell(found: Cell | Line | str) -> Cell:
    if isinstance(found, Cell):
        return found
    return Cell((found,) if isinstance(found, str) else found)


def _limits(run: Run, controls: Sequence[Row]) -> Quote:
    versions = ", ".join(f"{name} {run.machine[name]}" for name in ("torch", "python") if run.machine.get(name))
    told = f"{_machines(run.machine)}, the sizes named below{f', {versions}' if versions else ''}: "
    lines: list[Line] = [
        (Strong("Limits."), f" {told}elsewhere a verdict can turn round."),
        _noise(controls),
        (
            f"Profile {run.options.get('profile', 'full')}; run {run.id}, begun {run.started}, "
            f"suite {run.suite}, commit {run.commit[:12] or 'unknown'}.",
        ),
    ]
    if run.options.get("bare"):
        lines.insert(2, ("Measured with ", Literal("--bare"), ": the surroundings were not controlled."))
    missing = counts(run).not_reached
    if missing:
        lines.insert(0, (Strong(f"This run was interrupted: {plural(missing, 'pair')} not reached."),))
    return Quote(tuple(lines))


def _noise(controls: Sequence[Row]) -> Line:
    measured = [row for row in controls if row.measured]
    if not measured:
        return ("No A/A control (identical code on both sides) was measured: the noise floor of this run is unknown.",)
    same = sum(row.verdict == "no difference" for row in measured)
    wrong = [row for row in measured if row.verdict in ("faster", "slower")]
    told = f"Noise floor: of {plural(len(measured), 'A/A control')} (identical code on both sides) "
    told += f'{"all" if same == len(measured) else same} said "no difference"'
    widest = max((row for row in measured if row.judgement.high is not None), key=_width, default=None)
    if widest is not None:
        told += f"; the widest interval was {_speedup(widest)} ({widest.info.pair})"
    if not wrong:
        return (f"{told}.",)
    named = ", ".join(f"{row.info.pair} {row.verdict}" for row in wrong)
    warning = f"{named}: identical code was told apart, so distrust small effects in this run"
    return (f"{told}. ", Strong(warning), ".")


def _width(row: Row) -> float:
    return (row.judgement.high or 0.0) - (row.judgement.low or 0.0)


def _notices(notices: Sequence[Notice]) -> list[Block]:
    if not notices:
        return []
    listed = tuple((f"{n.file.name}, line {n.line}: {n.text}",) for n in notices)
    return [Paragraph((Strong("Not everything in the results file could be used:"),)), Bullets(listed)]


def _answers(found: Sequence[Row]) -> list[Block]:
    advice = advise(found)
    if not advice:
        return [Heading(ANSWERED, anchor="answers"), Paragraph(("No tip was reached.",))]
    body = (
        (Cell((Strong(given.answer),), ANSWERS.index(given.answer), given.answer), (_link(given.tip),), given.why)
        for given in advice
    )
    return [Heading(ANSWERED, anchor="answers"), _table("answers", ("answer", "tip", "what was found"), body)]


def _anchor(tip: str) -> str:
    """The tip's id where it can be one; ids are free text in a file edited by hand."""
    return tip if re.fullmatch(r"[a-z0-9-]+", tip) else ""


def _link(tip: str) -> Span:
    return Link(tip, f"#{tip}") if _anchor(tip) else tip


def _counts(run: Run, found: Sequence[Row]) -> Paragraph:
    counted = counts(run)
    reached = f"{counted.measured} measured + {counted.skipped} skipped + {counted.failed} failed"
    missing = f" + {counted.not_reached} not reached" if counted.not_reached else ""
    verdicts = Counter(row.verdict for row in found)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    if counted.not_reached:
        names = list((Counter(run.planned) - Counter(record.name for record in run.records)).elements())
        missing += f" ({', '.join(names[:10]) + ', ...' * (len(names) > 10)})"
    pairs = f"{plural(counted.planned, 'pair')} planned = {reached}{missing}."
    comparisons = f" {plural(len(found), 'comparison')} (a pair can have several variants): {told}." if found else ""
    return Paragraph((f"{pairs}{comparisons}",))


def _overview(drawn: Mapping[str, str]) -> list[Block]:
    """The figures of the whole run; sweeps stand with their tips."""
    whole: list[Block] = [Figure(name, alt) for name, alt in drawn.items() if not name.startswith("sweep-")]
    return [Heading("At a glance", anchor="at-a-glance"), *whole] if whole else []


def _tip(run: Run, tip: str, found: Sequence[Row], drawn: Mapping[str, str], reached: Rates) -> list[Block]:
    about = found[0].info.tip
    guide = ", ".join(map(str, about.get("guide") or ()))
    bases = {sweep_name(tip, row.info.pair) for row in found}
    curves = [name for name in drawn if re.sub(r"-\d+$", "", name) in bases or name in bases]
    return [
        Heading(tip, anchor=_anchor(tip)),
        Paragraph((Strong(str(about["title"])), f" (guide: {guide})" if guide else "")),
        _evidence(tip, found),
        Bullets(tuple(_facts(run, about, found, reached))),
        *(Figure(name, drawn[name]) for name in curves),
        *_code(run, found),
    ]


def _code(run: Run, found: Sequence[Row]) -> list[Block]:
    """Each pair's two sides, its further arms, and what all of them use; where none is known, only its place."""
    blocks: list[Block] = []
    for info in {row.info.name: row.info for row in found}.values():
        place = _place(info.file)
        code = dict(info.code or sides(at_commit(run.commit, place), info.pair))
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


def _evidence(tip: str, found: Sequence[Row]) -> Table:
    head = ("pair", "scale", "variant", "verdict", "speedup", "step", "memory", "one-off", "pays after", "launches")
    return _table(f"evidence-{_anchor(tip) or 'of-another-name'}", head, map(_cells, found))


def _cells(row: Row) -> list[Cell | Line | str]:
    judgement = row.judgement
    launches = str(judgement.launches) if judgement.launches else "-"
    if judgement.quarantined:
        launches += f" ({plural(judgement.quarantined, 'disturbed round')} left out)"
    return [
        row.info.pair or "-",
        f"{row.info.scale}, {row.info.device}" if row.info.scale else row.info.device,
        row.variant,
        _verdict(row),
        Cell((_speedup(row),), judgement.speedup),
        "-" if row.step_s is None or row.variant_step_s is None else _arrow(row.step_s, row.variant_step_s),
        _memory(row),
        Cell(
            ("-" if row.one_off_s is None else f"{'+' * (row.one_off_s >= 0)}{seconds(row.one_off_s)}",), row.one_off_s
        ),
        Cell(("-" if row.break_even_steps is None else _pays_after(row.break_even_steps),), row.break_even_steps),
        Cell((launches,), judgement.launches),
    ]


def _verdict(row: Row) -> Cell:
    return Cell((Strong(row.verdict),), VERDICTS.index(row.verdict), row.verdict)


def _arrow(baseline_s: float, variant_s: float) -> str:
    return f"{seconds(baseline_s)} -> {seconds(variant_s)}"


def _pays_after(steps: int) -> str:
    return plural(steps, "step") if steps else "at once"


def _speedup(row: Row) -> str:
    judgement = row.judgement
    if judgement.speedup is None or judgement.low is None or judgement.high is None:
        return "-"
    return ratio(judgement.speedup, judgement.low, judgement.high)


def _memory(row: Row) -> Line:
    """What the tip is judged by first, then what the operating system saw."""
    judged = judged_memory(row)
    kinds = dict.fromkeys([*([judged[0]] if judged else []), "resident_peak", "tree"])
    names = {**MEMORY_KINDS, "resident_peak": "resident", "tree": "all processes"}
    before, after = row.memory["baseline"], row.memory["variant"]
    told = [
        f"{names[kind]} {size(before[kind])} -> {size(after[kind])} ({change(before[kind], after[kind])})"
        for kind in kinds
        if kind in before and kind in after
    ]
    return tuple(_between(told, Break())) or ("-",)


def _between(listed: Sequence[Span], mark: Span) -> Iterator[Span]:
    for index, span in enumerate(listed):
        if index:
            yield mark
        yield span


def _facts(run: Run, about: Mapping[str, Any], found: Sequence[Row], reached: Rates) -> Iterator[Line]:
    published = f"; its figure: {about['published']}" if about.get("published") else "; it gives no figure"
    if about["claim"]:
        yield (f"The guide's claim: {about['claim']}{published}.",)
    if about.get("status", "current") not in ("", "current"):
        yield (f"Status: {about['status']}.",)
    if about.get("note"):
        yield (f"Note: {about['note']}",)
    told = _unkept(about, found)
    told += _each(found, "Equal work", lambda row: equal_work(row.judgement.found.equal))
    told += _each(found, "Mechanism", lambda row: _mechanism(row.judgement.found.mechanism))
    told += _each(found, "Share of this machine's limit", lambda row: _shares(shares(row, reached)))
    told += _each(found, "GPU", _gpu)
    told += _each(found, "Reason", _why)
    yield from ((line,) for line in told)
    pairs = {row.info.name: row for row in found}
    sizes = [f"{row.info.pair}: {value(row.info.sizes)}" for row in pairs.values() if row.info.sizes]
    if sizes:
        yield (f"Sizes: {'; '.join(sizes)}.",)
    commands = [Literal(_command(run, name)) for name in pairs]
    yield ("Repeat: ", *_between(commands, ", "), ".")


def _unkept(about: Mapping[str, Any], found: Sequence[Row]) -> list[str]:
    """Where the guide's promise was not found, by how much, and why we think so."""
    kept = {row.info.pair for row in found if promise_kept(row)}
    unkept = [row for row in found if promise_kept(row) is False and row.info.pair not in kept]
    if not unkept:
        return []
    told = "; ".join(
        f"{row.info.pair}{'' if row.variant == 'optimized' else f' ({row.variant})'} {_found_instead(row)}"
        for row in unkept
    )
    why = f" Why, we think: {about['why_not']}" if about.get("why_not") else ""
    return [f"Not as the guide promises: {told}.{why}"]


def _found_instead(row: Row) -> str:
    judged = judged_memory(row) if row.info.tip["claim"] == Claim.LEANER else None
    if judged is None:
        return f"{row.verdict}, {_speedup(row)}"
    kind, before, after = judged
    return f"{MEMORY_KINDS[kind]} {size(before)} -> {size(after)} ({change(before, after)})"


def _each(found: Sequence[Row], label: str, tell: Callable[[Row], str]) -> list[str]:
    """`label: pair: what`; variants are named only where a pair's differ."""
    told: dict[str, dict[str, list[str]]] = {}
    for row in found:
        if what := tell(row):
            told.setdefault(row.info.pair, {}).setdefault(what, []).append(row.variant)
    lines = []
    for pair, said in told.items():
        several = sum(row.info.pair == pair for row in found) > 1
        parts = [f"{', '.join(names)}: {what}" if several else what for what, names in said.items()]
        where = f"{label}, {pair}" if pair else label
        lines.append(f"{where}: {'; '.join(parts)}.")
    return lines


def _mechanism(mechanism: Mapping[str, Any]) -> str:
    if not mechanism:
        return ""
    what, sides = str(mechanism.get("what", "count")), (mechanism.get("baseline"), mechanism.get("optimized"))
    before, after = (
        size(side) if isinstance(side, int) and what.lower().startswith("bytes") else value(side) for side in sides
    )
    return f"{what}: {before} -> {after}"


def _gpu(row: Row) -> str:
    """What the card's driver told: clocks, temperature and power at the blocks' ends, energy over many steps."""
    if row.info.device != "cuda" or not row.measured:
        return ""
    told = []
    for reading, both in row.gpu_sides.items():
        name, scale, unit = GPU_WORDS[reading]
        told.append(f"{name} {_sides(both, scale)} {unit}" if both else f"{name} unavailable")
    told.append(f"its L2 cache {'emptied before every step' if row.info.cold else 'as the step before had left it'}")
    return ", ".join(told)


def _shares(found: Sequence[Share]) -> str:
    told = []
    for share in found:
        of = LIMIT_WORDS[share.kind].format(share.rate / 1e9)
        told.append(f"{percent(share.baseline)} -> {percent(share.variant)} of its {of}")
    return ", ".join(told)


def _sides(sides: tuple[float, float], scale: float) -> str:
    before, after = (f"{side / scale:.4g}" for side in sides)
    return f"{before} -> {after}"


def _why(row: Row) -> str:
    reason, remedy = row.judgement.reason, row.judgement.remedy
    if not reason:
        return ""
    return f"{row.verdict}: {reason}" + (f" (remedy: {remedy})" if remedy else "")


def _place(file: str) -> str:
    """The file as the reader's checkout has it; of one from elsewhere only the name: paths are private."""
    path = PurePath(file)
    if "benchmarks" not in path.parts:
        return path.name
    return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index("benchmarks") :])


def _command(run: Run, name: str) -> str:
    options = " --profile quick" * (run.options.get("profile") == "quick") + " --bare" * bool(run.options.get("bare"))
    if isinstance(nodes := run.options.get("nnodes"), int) and nodes > 1:
        options += f" --nnodes {nodes} --rdzv HOST:PORT"
    return f"tipbench run {name.removesuffix('.')}{options}"  # a file that cannot be imported has no pair's name


def _controls(controls: Sequence[Row]) -> list[Block]:
    """Identical sides: what is shown here is the error of the other tables."""
    heading = Heading("A/A controls", anchor="controls")
    if not controls:
        return [heading, Paragraph(("None in this run.",))]
    body = []
    for row in controls:
        name = row.info.pair if row.variant == "optimized" else f"{row.info.pair} ({row.variant})"
        step = "-" if row.step_s is None else seconds(row.step_s)
        launches = str(row.judgement.launches) if row.judgement.launches else "-"
        told = f"{row.info.scale}, {row.info.device}", _verdict(row), Cell((_speedup(row),), row.judgement.speedup)
        body.append((name, *told, step, launches, row.judgement.reason or "-"))
    about = "Both sides run identical code, so every departure from 1x is error of the measurement."
    head = ("pair", "scale", "verdict", "ratio", "step", "launches", "reason")
    return [heading, Paragraph((about,)), _table("controls", head, body)]


def machine_words(machine: Mapping[str, Any]) -> str:
    """`AMD EPYC with 2 cores and 24 GiB`, or its name where the description is another."""
    cpu, cores, memory = (machine.get(key) for key in ("cpu", "cores", "memory_bytes"))
    if not isinstance(cpu, str) or not isinstance(cores, int) or not isinstance(memory, int):
        return str(machine.get("name") or "an unnamed machine")
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    counted = [f"{number} x {name}" if number > 1 else name for name, number in Counter(names).items()]
    return ", ".join([f"{cpu} with {plural(cores, 'core')} and {size(memory)}", *counted])


def _machines(machine: Mapping[str, Any]) -> str:
    """`One machine`, or each of several with the network it is reached through."""
    nodes = machine.get("nodes")
    listed = [node for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    if len(listed) < 2:
        return "One machine"
    told = [f"{node.get('name')} by {node.get('interface')}" for node in listed]
    told = [
        f"{name} ({node['mbit']} Mbit/s)" if node.get("mbit") else name for name, node in zip(told, listed, strict=True)
    ]
    return f"{len(listed)} machines that share the ranks of a variant, node 0 first: {', '.join(told)}"


def _machine(run: Run) -> list[Block]:
    described = (
        (key, size(found) if isinstance(found, int) and _in_bytes(key) else value(found))
        for key, found in _flat(run.machine)
    )
    controls: Block = _table("surroundings", ("variable", "value"), run.controls.items())
    if not run.controls:
        controls = Paragraph(("None: the run was made with ", Literal("--bare"), "."))
    return [
        Heading("The machine", anchor="the-machine"),
        _table("machine", ("field", "value"), described),
        Paragraph(("Set for every worker, the same on both sides:",)),
        controls,
    ]


def _in_bytes(key: str) -> bool:
    return key.endswith("_bytes") or key.startswith("caches.")


def _flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in found.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item
