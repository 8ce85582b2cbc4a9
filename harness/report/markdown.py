"""The report as Markdown for a stranger: limits first, then answers, then the evidence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from harness.pair import Claim
from harness.record import Run
from harness.report.advice import ANSWERS, MEMORY_KINDS, advise, judged_memory, promise_kept
from harness.report.rows import CONTROL, JOULES, Row, counts, rows
from harness.report.wording import change, equal_work, plain, plural, ratio, seconds, size, value
from harness.store import Notice

GPU_WORDS = {
    "sm_mhz": ("SM clock", 1, "MHz"),
    "memory_mhz": ("memory clock", 1, "MHz"),
    "celsius": ("temperature", 1, "C"),
    "milliwatts": ("power", 1000, "W"),
    JOULES: ("energy a step", 1, "J"),
}
"""By key of `Row.gpu_sides`: name, how many of it make one unit, unit."""

VERDICTS = ("faster", "slower", "no difference", "inconclusive", "skipped", "failed")

HOW_TO_READ = f"""\
## How to read a verdict

A speedup is the baseline's time over the variant's: 2x means half the time. The brackets hold its 95 % interval,
taken over launches: fresh processes in which both sides run in turns.

- **faster**, **slower**: the whole interval lies beyond 1 %, and the finding stands when all comparisons of the run
  are judged together (false discoveries held to 5 %).
- **no difference**: the whole interval lies within 1 % of equal.
- **inconclusive**: the interval is too wide or too unsure to say; the reason tells what could have been seen.
- **skipped**, **failed**: not measured; the reason and the remedy are given.

Guide items: A is the official guide's summary, B the ten-tricks article, G the official Performance Tuning Guide,
M modern practice beyond them.

The answers: **{ANSWERS[0]}** (it pays, on the whole job where one was measured), **{ANSWERS[1]}** (no difference),
**{ANSWERS[2]}** (it costs), **{ANSWERS[3]}** (inconclusive or failed), **{ANSWERS[4]}** (something is missing). A tip
that promises less memory is judged by its peak, from 5 % on, and its price in time is told. A step's time is the
median of the baseline's; memory is the peak of one fresh process; one-off is what the variant needs once beyond the
baseline (build, compile, warm-up), and *pays after* is how many steps earn that back."""


def render(run: Run, notices: Sequence[Notice]) -> str:
    found = rows(run)
    tips: dict[str, list[Row]] = {}
    for row in found:
        tips.setdefault(row.tip, []).append(row)
    controls = tips.pop(CONTROL, [])
    parts = [
        f"# PyTorch tuning tips, measured on {text(_machine_words(run.machine))}, {text(run.started[:10])}",
        _limits(run, controls),
        *_notices(notices),
        _answers(found),
        _counts(run, found),
        *(_tip(run, tip, listed) for tip, listed in tips.items()),
        _controls(controls),
        HOW_TO_READ,
        _machine(run),
    ]
    return "\n\n".join(parts) + "\n"


def text(foreign: object) -> str:
    """Foreign text as one line that Markdown and HTML show as it is, in a table's cell too."""
    shown = plain(str(foreign))
    shown = shown.replace("&", "&amp;").replace("<", "&lt;")
    # single brackets stay readable: only `](` makes a link, and `[[` one in a wiki
    shown = re.sub(r"[\\`*|~$]|\[(?=\[)|\](?=\()", r"\\\g<0>", shown)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", shown)  # inside words it is only a character


def code(foreign: str) -> str:
    """Foreign text as code, outside tables: within it nothing is markup but the backtick."""
    return f"`{plain(foreign).replace('`', chr(39))}`"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Cells must be escaped already."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _limits(run: Run, controls: Sequence[Row]) -> str:
    versions = ", ".join(f"{name} {text(run.machine[name])}" for name in ("torch", "python") if run.machine.get(name))
    lines = [
        f"**Limits.** {_machines(run.machine)}, the sizes named below{f', {versions}' if versions else ''}: "
        "elsewhere a verdict can turn round.",
        _noise(controls),
        f"Profile {text(run.options.get('profile', 'full'))}; run {text(run.id)}, begun {text(run.started)}, "
        f"suite {text(run.suite)}, commit {text(run.commit[:12] or 'unknown')}.",
    ]
    if run.options.get("bare"):
        lines.insert(2, "Measured with `--bare`: the surroundings were not controlled.")
    missing = counts(run).not_reached
    if missing:
        lines.insert(0, f"**This run was interrupted: {plural(missing, 'pair')} not reached.**")
    return "\n".join(f"> {line}<br>" for line in lines).removesuffix("<br>")


def _noise(controls: Sequence[Row]) -> str:
    measured = [row for row in controls if row.measured]
    if not measured:
        return "No A/A control (identical code on both sides) was measured, so the noise floor of this run is unknown."
    same = sum(row.verdict == "no difference" for row in measured)
    wrong = [row for row in measured if row.verdict in ("faster", "slower")]
    told = f"Noise floor: of {plural(len(measured), 'A/A control')} (identical code on both sides) "
    told += f'{"all" if same == len(measured) else same} said "no difference"'
    widest = max((row for row in measured if row.judgement.high is not None), key=_width, default=None)
    if widest is not None:
        told += f"; the widest interval was {_speedup(widest)} ({text(widest.info.pair)})"
    if wrong:
        named = ", ".join(f"{text(row.info.pair)} {row.verdict}" for row in wrong)
        told += f". **{named}: identical code was told apart, so distrust small effects in this run**"
    return f"{told}."


def _width(row: Row) -> float:
    return (row.judgement.high or 0.0) - (row.judgement.low or 0.0)


def _notices(notices: Sequence[Notice]) -> list[str]:
    if not notices:
        return []
    listed = "\n".join(f"- {text(n.file.name)}, line {n.line}: {text(n.text)}" for n in notices)
    return [f"**Not everything in the results file could be used:**\n\n{listed}"]


def _answers(found: Sequence[Row]) -> str:
    advice = advise(found)
    if not advice:
        return "## In one line each\n\nNo tip was reached."
    table = _table(
        ("answer", "tip", "what was found"),
        ((f"**{given.answer}**", _link(given.tip), text(given.why)) for given in advice),
    )
    return f"## In one line each\n\n{table}"


def _link(tip: str) -> str:
    return f"[{tip}](#{tip})" if re.fullmatch(r"[a-z0-9-]+", tip) else text(tip)


def _counts(run: Run, found: Sequence[Row]) -> str:
    counted = counts(run)
    reached = f"{counted.measured} measured + {counted.skipped} skipped + {counted.failed} failed"
    missing = f" + {counted.not_reached} not reached" if counted.not_reached else ""
    verdicts = Counter(row.verdict for row in found)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    if counted.not_reached:
        names = list((Counter(run.planned) - Counter(record.name for record in run.records)).elements())
        missing += f" ({text(', '.join(names[:10]) + ', ...' * (len(names) > 10))})"
    pairs = f"{plural(counted.planned, 'pair')} planned = {reached}{missing}."
    return f"{pairs} {plural(len(found), 'comparison')} (a pair can have several variants): {told}." if found else pairs


def _tip(run: Run, tip: str, found: Sequence[Row]) -> str:
    about = found[0].info.tip
    guide = ", ".join(map(str, about.get("guide") or ()))
    return "\n\n".join(
        [
            f"## {text(tip)}",
            f"**{text(about['title'])}**" + (f" (guide: {text(guide)})" if guide else ""),
            _evidence(found),
            "\n".join(f"- {line}" for line in _facts(run, about, found)),
        ]
    )


def _evidence(found: Sequence[Row]) -> str:
    head = ("pair", "scale", "variant", "verdict", "speedup", "step", "memory", "one-off", "pays after", "launches")
    return _table(head, map(_cells, found))


def _cells(row: Row) -> list[str]:
    judgement = row.judgement
    launches = str(judgement.launches) if judgement.launches else "-"
    if judgement.quarantined:
        launches += f" ({plural(judgement.quarantined, 'disturbed round')} left out)"
    return [
        text(row.info.pair) or "-",
        text(f"{row.info.scale}, {row.info.device}" if row.info.scale else row.info.device),
        text(row.variant),
        f"**{row.verdict}**",
        _speedup(row),
        "-" if row.step_s is None or row.variant_step_s is None else _arrow(row.step_s, row.variant_step_s),
        _memory(row),
        "-" if row.one_off_s is None else f"{'+' * (row.one_off_s >= 0)}{seconds(row.one_off_s)}",
        "-" if row.break_even_steps is None else _pays_after(row.break_even_steps),
        launches,
    ]


def _arrow(baseline_s: float, variant_s: float) -> str:
    return f"{seconds(baseline_s)} -> {seconds(variant_s)}"


def _pays_after(steps: int) -> str:
    return plural(steps, "step") if steps else "at once"


def _speedup(row: Row) -> str:
    judgement = row.judgement
    if judgement.speedup is None or judgement.low is None or judgement.high is None:
        return "-"
    return ratio(judgement.speedup, judgement.low, judgement.high)


def _memory(row: Row) -> str:
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
    return "<br>".join(told) or "-"


def _facts(run: Run, about: Mapping[str, Any], found: Sequence[Row]) -> list[str]:
    published = f"; its figure: {text(about['published'])}" if about.get("published") else "; it gives no figure"
    lines = [f"The guide's claim: {text(about['claim'])}{published}."] if about["claim"] else []
    if about.get("status", "current") not in ("", "current"):
        lines.append(f"Status: {text(about['status'])}.")
    if about.get("note"):
        lines.append(f"Note: {text(about['note'])}")
    lines += _unkept(about, found)
    lines += _each(found, "Equal work", lambda row: text(equal_work(row.judgement.found.equal)))
    lines += _each(found, "Mechanism", lambda row: text(_mechanism(row.judgement.found.mechanism)))
    lines += _each(found, "GPU", _gpu)
    lines += _each(found, "Reason", _why)
    pairs = {row.info.name: row for row in found}
    sizes = [f"{text(row.info.pair)}: {text(value(row.info.sizes))}" for row in pairs.values() if row.info.sizes]
    lines += [f"Sizes: {'; '.join(sizes)}."] if sizes else []
    lines.append(f"Code: {', '.join(dict.fromkeys(code(_place(row.info.file)) for row in found))}.")
    lines.append(f"Repeat: {', '.join(code(_command(run, name)) for name in pairs)}.")
    return lines


def _unkept(about: Mapping[str, Any], found: Sequence[Row]) -> list[str]:
    """Where the guide's promise was not found, by how much, and why we think so."""
    kept = {row.info.pair for row in found if promise_kept(row)}
    unkept = [row for row in found if promise_kept(row) is False and row.info.pair not in kept]
    if not unkept:
        return []
    told = "; ".join(
        f"{text(row.info.pair)}{'' if row.variant == 'optimized' else f' ({text(row.variant)})'} {_found_instead(row)}"
        for row in unkept
    )
    why = f" Why, we think: {text(about['why_not'])}" if about.get("why_not") else ""
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
        parts = [f"{text(', '.join(names))}: {what}" if several else what for what, names in said.items()]
        where = f"{label}, {text(pair)}" if pair else label
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
    for reading, sides in row.gpu_sides.items():
        name, scale, unit = GPU_WORDS[reading]
        told.append(f"{name} {_sides(sides, scale)} {unit}" if sides else f"{name} unavailable")
    told.append(f"its L2 cache {'emptied before every step' if row.info.cold else 'as the step before had left it'}")
    return ", ".join(told)


def _sides(sides: tuple[float, float], scale: float) -> str:
    before, after = (f"{side / scale:.4g}" for side in sides)
    return f"{before} -> {after}"


def _why(row: Row) -> str:
    reason, remedy = row.judgement.reason, row.judgement.remedy
    if not reason:
        return ""
    return f"{row.verdict}: {text(reason)}" + (f" (remedy: {text(remedy)})" if remedy else "")


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


def _controls(controls: Sequence[Row]) -> str:
    """Identical sides: what is shown here is the error of the other tables."""
    if not controls:
        return "## A/A controls\n\nNone in this run."
    head = ("pair", "scale", "verdict", "ratio", "step", "launches", "reason")
    body = []
    for row in controls:
        name = row.info.pair if row.variant == "optimized" else f"{row.info.pair} ({row.variant})"
        step = "-" if row.step_s is None else seconds(row.step_s)
        scale = text(f"{row.info.scale}, {row.info.device}")
        launches = str(row.judgement.launches) if row.judgement.launches else "-"
        reason = text(row.judgement.reason) or "-"
        body.append((text(name), scale, f"**{row.verdict}**", _speedup(row), step, launches, reason))
    about = "Both sides run identical code, so every departure from 1x is error of the measurement."
    return f"## A/A controls\n\n{about}\n\n{_table(head, body)}"


def _machine_words(machine: Mapping[str, Any]) -> str:
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
    return f"{len(listed)} machines that share the ranks of a variant, node 0 first: {text(', '.join(told))}"


def _machine(run: Run) -> str:
    described = [
        (text(key), size(found) if isinstance(found, int) and _in_bytes(key) else text(value(found)))
        for key, found in _flat(run.machine)
    ]
    controlled = [(text(key), text(found)) for key, found in run.controls.items()]
    controls = _table(("variable", "value"), controlled) if controlled else "None: the run was made with `--bare`."
    return (
        f"## The machine\n\n{_table(('field', 'value'), described)}\n\n"
        f"Set for every worker, the same on both sides:\n\n{controls}"
    )


def _in_bytes(key: str) -> bool:
    return key.endswith("_bytes") or key.startswith("caches.")


def _flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in found.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item
