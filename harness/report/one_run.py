"""The page of one run for a stranger: limits first, then answers, then the evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tipbench.records.record import Run
from tipbench.records.store import Notice
from tipbench.report.advice import ANSWERS, IMPOSSIBLE, Advice, advise
from tipbench.report.cells import VERDICTS, between, speedup, table, verdict_cell
from tipbench.report.document import (
    Block,
    Bullets,
    Cell,
    Figure,
    Heading,
    Line,
    Link,
    Literal,
    Page,
    Paragraph,
    Quote,
    Span,
    Strong,
)
from tipbench.report.effect import effect
from tipbench.report.figures import alts
from tipbench.report.limit import rates
from tipbench.report.one_tip import anchor, section
from tipbench.report.rows import CONTROL, Row, counts, rows, rules
from tipbench.report.wording import plural, seconds, size, value
from tipbench.verdict.rules import AT_MOST
from tipbench.verdict.verdict import serial_of

ANSWERED = "In one line each"


def page(run: Run, notices: Sequence[Notice] = (), drawn: Mapping[str, str] | None = None) -> Page:
    """The page of a run. drawn: by name, what its figures show; None for those of `tipbench.report.figures`."""
    found = rows(run)
    drawn = alts(found) if drawn is None else drawn
    tips: dict[str, list[Row]] = {}
    for row in found:
        tips.setdefault(row.tip, []).append(row)
    controls = tips.pop(CONTROL, [])
    reached = rates(found)
    blocks = [
        _limits(run, found, controls),
        *_notices(notices),
        *_answers(found),
        _counts(run, found),
        *_overview(drawn),
        *(block for tip, listed in tips.items() for block in section(run, tip, listed, drawn, reached)),
        *_controls(controls),
        *_how_to_read(rules(run)[0].bounded),
        *_machine(run),
    ]
    title = f"PyTorch tuning tips, measured on {machine_words(run.machine)}, {run.started[:10]}"
    return Page(title, tuple(blocks))


def _how_to_read(bounded: bool) -> list[Block]:
    """bounded: whether the run's rules have answers such as AT_MOST."""
    about = (
        "A speedup is the baseline's time over the variant's: 2x means half the time. The brackets hold its 95 % "
        "interval, taken over launches: fresh processes in which both sides run in turns."
    )
    claims = (
        ": the whole interval lies beyond 1 %, and the finding holds when all comparisons of the run are judged "
        "together (false discoveries held to 5 %)."
    )
    unsure = ": the interval is too wide or too unsure to say; the reason tells what could have been seen."
    small: Line = (
        Strong(AT_MOST),
        " (either way): the whole interval lies within 3 % of equal, if not within 1 %.",
    )
    verdicts: list[Line] = [
        (Strong("faster"), ", ", Strong("slower"), claims),
        (Strong("no difference"), ": the whole interval lies within 1 % of equal."),
        *([small] if bounded else []),
        (Strong("inconclusive"), unsure),
        (Strong("skipped"), ", ", Strong("failed"), ": not measured; the reason and the remedy are given."),
    ]
    items = (
        "Guide items: A is the official guide's summary, B the ten-tricks article, G the official Performance Tuning "
        "Guide, M modern practice beyond them."
    )
    columns = (
        "A tip is judged by what it promises, in whole jobs, as the guide words it; other ways that pay come after "
        '"instead". The brackets in the table of answers also hold what runs of a machine differ by. A gain in memory '
        "counts from 5 %. A step's time is the median of the baseline's; memory is the peak of one fresh process; "
        'one-off is what the variant needs once beyond the baseline (build, compile, warm-up), and "pays after" is '
        "how many steps earn that back."
    )
    answers: list[Line] = [
        (Strong("use it"), ": it pays in at least half of the whole jobs, and costs in none."),
        (Strong("use it if"), " ...: it pays, for those who have that need."),
        (Strong("depends"), ": it pays in some jobs, and costs in others, or may."),
        (Strong("already the default"), ": nothing to do."),
        (Strong("at most"), " x %: whatever it brings or costs is smaller, either way."),
        (Strong("don't"), ": it costs in some job and pays in none."),
        (Strong("can't tell"), ": undecided, or failed."),
    ]
    return [
        Heading("How to read a verdict", anchor="how-to-read"),
        Paragraph((about,)),
        Bullets(tuple(verdicts)),
        Paragraph(("The answers:",)),
        Bullets(tuple(answers)),
        Paragraph((columns,)),
        Paragraph((items,)),
    ]


def _limits(run: Run, found: Sequence[Row], controls: Sequence[Row]) -> Quote:
    versions = ", ".join(f"{name} {run.machine[name]}" for name in ("torch", "python") if run.machine.get(name))
    measured_on = f"{_machines(run.machine)}, the sizes named below{f', {versions}' if versions else ''}. "
    lines: list[Line] = [
        (Strong("Limits."), f" {measured_on}Results can differ on other hardware, sizes or versions."),
        _noise(controls),
        *_alike(run, found),
        (
            f"Profile {run.options.get('profile', 'full')}{_time(run)}; run {run.id}, begun {run.started}, "
            f"suite {run.suite}, commit {run.commit[:12] or 'unknown'}.",
        ),
    ]
    if run.options.get("bare"):
        lines.insert(-1, ("Measured with ", Literal("--bare"), ": the process settings were not controlled."))
    missing = counts(run).not_reached
    if missing:
        why = "was interrupted, or its time was up" if _time(run) else "was interrupted"
        lines.insert(0, (Strong(f"This run {why}: {plural(missing, 'pair')} not reached."),))
    return Quote(tuple(lines))


def _time(run: Run) -> str:
    budget_s = run.options.get("budget_s")
    return f", {budget_s / 60:g} minutes at most" if isinstance(budget_s, int | float) and budget_s > 0 else ""


def _noise(controls: Sequence[Row]) -> Line:
    measured = [row for row in controls if row.measured]
    if not measured:
        return ("No A/A control (identical code on both sides) was measured: the noise floor of this run is unknown.",)
    same = sum(row.verdict == "no difference" for row in measured)
    wrong = [row for row in measured if row.verdict in ("faster", "slower")]
    floor = f"Noise floor: of {plural(len(measured), 'A/A control')} (identical code on both sides) "
    floor += f'{"all" if same == len(measured) else same} said "no difference"'
    small = sum(row.verdict == AT_MOST for row in measured)
    floor += f', {small} "{AT_MOST}"' if small else ""
    widest = max((row for row in measured if row.judgement.high is not None), key=_width, default=None)
    if widest is not None:
        floor += f"; the widest interval was {speedup(widest)} ({widest.info.pair})"
    if not wrong:
        return (f"{floor}.",)
    named = ", ".join(f"{row.info.pair} {row.verdict}" for row in wrong)
    warning = f"{named}: identical code was called different, so distrust small effects in this run"
    return (f"{floor}. ", Strong(warning), ".")


def _alike(run: Run, found: Sequence[Row]) -> list[Line]:
    """Whether every interval was widened, and why."""
    alike = serial_of([row.judgement for row in found], rules(run)[0])
    if alike is None or alike.widening == 1:
        return []
    return [
        (
            f"Launches that followed each other were alike (correlation {alike.correlation:.2f} on average over "
            f"{plural(alike.pairs, 'comparison')}, z {alike.z:.1f}), so every interval is "
            f"{100 * (alike.widening - 1):.0f} % wider than independent launches would make it.",
        )
    ]


def _width(row: Row) -> float:
    return (row.judgement.high or 0.0) - (row.judgement.low or 0.0)


def _notices(notices: Sequence[Notice]) -> list[Block]:
    if not notices:
        return []
    listed = tuple((f"{n.file.name}, line {n.line}: {n.text}",) for n in notices)
    return [Paragraph((Strong("Not everything in the results file could be used:"),)), Bullets(listed)]


def _answers(found: Sequence[Row]) -> list[Block]:
    advice = advise([list(map(effect, found))])
    if not advice:
        return [Heading(ANSWERED, anchor="answers"), Paragraph(("No tip was reached.",))]
    counted = Counter(given.kind for given in advice if given.kind != IMPOSSIBLE)
    kinds = ", ".join(f"{counted[kind]} {kind}" for kind in ANSWERS if counted[kind])
    tried = f"{plural(counted.total(), 'tip')} could be tried here{f': {kinds}' if kinds else ''}."
    missing: dict[str, list[Span]] = {}
    for given in advice:
        if given.kind == IMPOSSIBLE:
            missing.setdefault(given.gain, []).append(_link(given))
    body: list[list[Cell | Line | str]] = [
        [_answer(given), (_link(given),), (Literal(given.do),) if given.do else "", given.gain, given.price]
        for given in advice
        if given.kind != IMPOSSIBLE
    ]
    impossible = Cell((Strong(IMPOSSIBLE),), ANSWERS.index(IMPOSSIBLE), IMPOSSIBLE)
    body += [[impossible, tuple(between(links, ", ")), "", why, ""] for why, links in missing.items()]
    head = ("answer", "tip", "what to write", "gain", "price")
    return [Heading(ANSWERED, anchor="answers"), Paragraph((tried,)), table("answers", head, body)]


def _answer(given: Advice) -> Cell:
    return Cell((Strong(given.answer),), ANSWERS.index(given.kind), given.kind)


def _link(given: Advice) -> Span:
    return Link(given.title, f"#{given.tip}") if anchor(given.tip) else given.title


def _counts(run: Run, found: Sequence[Row]) -> Paragraph:
    counted = counts(run)
    reached = f"{counted.measured} measured + {counted.skipped} skipped + {counted.failed} failed"
    missing = f" + {counted.not_reached} not reached" if counted.not_reached else ""
    verdicts = Counter(row.verdict for row in found)
    by_verdict = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    if counted.not_reached:
        names = list((Counter(run.planned) - Counter(record.name for record in run.records)).elements())
        missing += f" ({', '.join(names[:10]) + ', ...' * (len(names) > 10)})"
    pairs = f"{plural(counted.planned, 'pair')} planned = {reached}{missing}."
    if not found:
        return Paragraph((pairs,))
    return Paragraph((f"{pairs} {plural(len(found), 'comparison')} (a pair can have several variants): {by_verdict}.",))


def _overview(drawn: Mapping[str, str]) -> list[Block]:
    """The figures of the whole run; sweeps stand with their tips."""
    whole: list[Block] = [Figure(name, alt) for name, alt in drawn.items() if not name.startswith("sweep-")]
    return [Heading("At a glance", anchor="at-a-glance"), *whole] if whole else []


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
        cells = f"{row.info.scale}, {row.info.device}", verdict_cell(row), Cell((speedup(row),), row.judgement.speedup)
        body.append((name, *cells, step, launches, row.judgement.reason or "-"))
    about = "Both sides run identical code, so every departure from 1x is error of the measurement."
    head = ("pair", "scale", "verdict", "ratio", "step", "launches", "reason")
    return [heading, Paragraph((about,)), table("controls", head, body)]


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
    nodes = [f"{node.get('name')} by {node.get('interface')}" for node in listed]
    nodes = [
        f"{name} ({node['mbit']} Mbit/s)" if node.get("mbit") else name
        for name, node in zip(nodes, listed, strict=True)
    ]
    return f"{len(listed)} machines that share the ranks of a variant, node 0 first: {', '.join(nodes)}"


def _machine(run: Run) -> list[Block]:
    described = (
        (key, size(found) if isinstance(found, int) and _in_bytes(key) else value(found))
        for key, found in _flat(run.machine)
    )
    controls: Block = table("controls", ("variable", "value"), run.controls.items())
    if not run.controls:
        controls = Paragraph(("None: the run was made with ", Literal("--bare"), "."))
    return [
        Heading("The machine", anchor="the-machine"),
        table("machine", ("field", "value"), described),
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
