"""A calibration as Markdown for a stranger: limits first, then what came out, then a table a part.

Everything is derived from the file, and the same file gives the same bytes.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Iterable, Sequence

from tipbench.calibrate.findings import (
    TOLERATED,
    WIDEST,
    Share,
    agreements,
    bias,
    covered,
    error,
    judged_errors,
    memory_errors,
    share,
    spread,
    wrong,
)
from tipbench.calibrate.noise import LASTS_S, TOUCHED
from tipbench.calibrate.plan import REPEAT
from tipbench.calibrate.stored import Calibration, Comparison
from tipbench.records.store import Notice
from tipbench.report.as_markdown import text
from tipbench.report.wording import plural, ratio, seconds, size

TIMED = "aa", "planted", "random"
"""Parts in which the engine gives a verdict on time."""

LOAD = (
    f"a second process that keeps one core busy in bursts of {LASTS_S[0] * 1000:.0f} to {LASTS_S[1] * 1000:.0f} ms "
    f"with pauses as long, and rewrites {size(TOUCHED)} meanwhile"
)


def render(found: Calibration, notices: Sequence[Notice]) -> str:
    machine = found.machine
    where = f"{machine.get('cpu')}, {machine.get('cores')} cores, {size(machine.get('memory_bytes', 0))}"
    parts = [
        f"# How far tipbench can be trusted on {text(machine.get('name'))}, {text(found.started[:10])}",
        "tipbench measured itself: code whose true difference is known, because it was planted or because there is "
        "none. What the engine said beside the truth is its error here.",
        _limits(found, where),
        *([_notices(notices)] if notices else []),
        "\n".join(["## What came out", "", *(f"- {line}" for line in summary(found))]),
        *(part for part in (_aa(found), _planted(found), _random(found), _memory(found), _timer(found)) if part),
        *([_failures(found)] if any(comparison.failed for comparison in found.comparisons) else []),
        _again(found),
    ]
    return "\n\n".join(parts) + "\n"


def summary(found: Calibration) -> list[str]:
    """What came out, one line of plain text each."""
    judged = [comparison for comparison in _done(found) if comparison.part in ("aa", "planted")]
    lines = []
    if judged:
        lines.append(f"wrong verdicts on time: {_share(share([wrong(one) for one in judged]))}")
        held = [holds for one in judged if (holds := covered(one)) is not None]
        lines.append(f"intervals that hold the truth (95 % are promised): {_share(share(held))}")
    for loaded in (False, True):
        alike = [one for one in judged if one.part == "aa" and one.loaded == loaded]
        if alike:
            said = _share(share([one.verdict == "no difference" for one in alike]))
            lines.append(f"identical sides, {_load(loaded)}, resolved as `no difference`: {said}")
    drawn = _part(found, "random")
    if drawn:
        said = _share(share([one.verdict == "inconclusive" for one in drawn]))
        lines.append(f"a difference that comes and goes, read as `inconclusive`: {said}")
    off = [abs(one) for memory in _part(found, "memory") for one in judged_errors(memory).values()]
    if off:
        lines.append(f"planted memory: off by at most {100 * max(off):.2f} % ({100 * TOLERATED:.0f} % allowed)")
    timed = [agreement.word.startswith("agree") for one in _part(found, "timer") for agreement in agreements(one)]
    if timed:
        lines.append(f"seconds a step that agree with another timer: {_share(share(timed))}")
    walls = [one.wall_s for one in judged]
    if walls:
        lines.append(f"seconds for one verdict, median: {statistics.median(walls):.1f}")
    lost = sum(bool(comparison.failed) for comparison in found.comparisons)
    if lost:
        lines.append(f"could not be measured: {plural(lost, 'comparison')}")
    return lines or ["nothing has been measured yet"]


def _listed(numbers: Sequence[float]) -> str:
    *first, last = (f"{number:g}" for number in numbers)
    return f"{', '.join(first)} and {last}" if first else last


def _limits(found: Calibration, where: str) -> str:
    options = found.options
    commits = ", ".join(sorted({comparison.commit for comparison in found.comparisons})) or "none yet"
    looks, alphas = options["looks"]["launches"], options["looks"]["alphas"]
    lines = [
        "**Limits.**",
        f"One machine ({text(where)}), torch {text(found.machine.get('torch'))}, python "
        f"{text(found.machine.get('python'))}, device {text(options['device'])}, commit {text(commits)}: "
        "it says nothing about another.",
        f"It calibrates the `{text(options['engine'])}` profile of `tipbench run`, which looks at the data after "
        f"{_listed(looks)} launches and spends {_listed([100 * alpha for alpha in alphas])} % of error there, "
        f"{100 * sum(alphas):g} % in all.",
        "Counts are small where few repetitions were made: read the brackets, which hold 95 %.",
        "The checks of equal work and the memory pass are left out of all comparisons in time, to save time; a run "
        "makes them before its first launch. So a run takes longer a verdict than this page says.",
        "Planted differences are extra sines, all alike; a tip changes more than an amount of work.",
        "Comparisons of one repetition may fork their workers from the same processes, as those of one run do: "
        "they are not wholly independent. Repetitions are.",
        f"*Loaded* means: {LOAD}. Real neighbours differ.",
    ]
    if options["device"] == "cpu":
        lines.append("No GPU was involved: the comparison with `triton.testing.do_bench` is written, but did not run.")
    return "\n".join(f"> {line}<br>" for line in lines[:-1]) + f"\n> {lines[-1]}"


def _aa(found: Calibration) -> str:
    listed = _part(found, "aa")
    if not listed:
        return ""
    head = (
        *("pair", "sides in", "machine", "comparisons", "wrong", "no difference", "inconclusive"),
        *("holds the truth", "sd between launches", "seconds a verdict"),
    )
    body = []
    for case in _cases(listed):
        apart = "own processes" if case[0].pair.endswith("OwnSurroundings") else "one process"
        body.append((text(case[0].pair), apart, *_verdicts(case)))
    for loaded in (False, True):
        alike = [one for one in listed if one.loaded == loaded]
        if alike:
            body.append(("**all**", "both kinds", *_verdicts(alike)))
    about = (
        "Both sides run identical code, so `faster` and `slower` are wrong, and every departure from 1x is error. "
        "Sd, the standard deviation between launches, and seconds are medians over comparisons."
    )
    return f"## Identical sides\n\n{about}\n\n{_table(head, body)}"


def _verdicts(listed: Sequence[Comparison]) -> tuple[str, ...]:
    held = [holds for one in listed if (holds := covered(one)) is not None]
    return (
        _load(listed[0].loaded),
        str(len(listed)),
        str(sum(map(wrong, listed))),
        _share(share([one.verdict == "no difference" for one in listed])),
        _share(share([one.verdict == "inconclusive" for one in listed])),
        _share(share(held)),
        _percent(_median(spread, listed)),
        _number(_median(lambda one: one.wall_s, listed)),
    )


def _planted(found: Calibration) -> str:
    listed = _part(found, "planted")
    if not listed:
        return ""
    head = (
        *("planted", "machine", "comparisons", "found (`faster` or `slower`, rightly)", "no difference"),
        *("inconclusive", "wrong", "holds the truth", "bias", "sd between launches", "seconds a verdict"),
    )

    def line(words: str, group: Sequence[Comparison]) -> tuple[str, ...]:
        held = [holds for one in group if (holds := covered(one)) is not None]
        seen = [one.verdict in ("faster", "slower") and not wrong(one) for one in group]
        return (
            words,
            _load(group[0].loaded),
            str(len(group)),
            _share(share(seen)),
            str(sum(one.verdict == "no difference" for one in group)),
            str(sum(one.verdict == "inconclusive" for one in group)),
            str(sum(map(wrong, group))),
            _share(share(held)),
            _bias(group),
            _percent(_median(spread, group)),
            _number(_median(lambda one: one.wall_s, group)),
        )

    groups: dict[tuple[bool, float], list[Comparison]] = {}
    for one in listed:
        groups.setdefault((one.loaded, round(100 * math.expm1(abs(one.truth or 0.0)), 6)), []).append(one)
    body = [line(f"{amount:g} %", groups[loaded, amount]) for loaded, amount in sorted(groups)]
    idle = [one for one in listed if not one.loaded and one.truth]
    for words, side in (
        ("**all, in the baseline**", [one for one in idle if (one.truth or 0.0) > 0]),
        ("**all, in the optimized side**", [one for one in idle if (one.truth or 0.0) < 0]),
    ):
        if side:
            body.append(line(words, side))
    about = (
        "A step is 200 sines of 2000 numbers; one side computes exactly so many per cent more. `no difference` means "
        "within ±1 %, so it is right for 0, 0.5 and 1 %, and `faster` or `slower` from 1.5 % on. Bias is the mean of "
        "ln(speedup found) - ln(speedup planted), with Student's interval over comparisons."
    )
    return f"## Planted differences in time: the detection curve\n\n{about}\n\n{_table(head, body)}"


def _random(found: Calibration) -> str:
    listed = _part(found, "random")
    if not listed:
        return ""
    head = ("comparisons", "inconclusive", "wrong", "sd between launches", "seconds a verdict")
    body = [
        (
            str(len(listed)),
            _share(share([one.verdict == "inconclusive" for one in listed])),
            str(sum(map(wrong, listed))),
            _percent(_median(spread, listed)),
            _number(_median(lambda one: one.wall_s, listed)),
        )
    ]
    about = (
        "Each process draws anew, without a seed, whether 5 % more work falls on the baseline, on the optimized side "
        "or on neither. Nothing can be said of such a difference, so only `inconclusive` is right; by chance the first "
        "launches can draw alike, and up to 5 % of the verdicts may then be wrong."
    )
    return f"## A difference that comes and goes\n\n{about}\n\n{_table(head, body)}"


MEMORY = {
    "tensor_peak": "live tensors, peak",
    "resident_peak": "resident memory of the process, peak",
    "tree": "memory of all processes, at the end",
}

HELD = {
    "memory/held": "held all the while",
    "memory/transient": "held within each step and let go",
    "memory/leak": "kept by each step",
}


def _memory(found: Calibration) -> str:
    listed = _part(found, "memory")
    if not listed:
        return ""
    head = ("planted", "what was read", "baseline", "optimized", "difference", "off by")
    body = []
    for one in listed:
        planted = f"{size(one.planted_bytes)} {HELD.get(one.case, text(one.case))}"
        memory, errors, judged = one.memory or {}, memory_errors(one), judged_errors(one)
        for kind in (kind for kind in MEMORY if kind in errors):
            before, after = memory["baseline"][kind], memory["optimized"][kind]
            off = f"{100 * judged[kind]:+.2f} %" if kind in judged else "not judged"
            body.append((planted, MEMORY[kind], size(before), size(after), size(after - before), off))
    about = (
        "Read in a pass of its own, one fresh process a side, as a run does. Live tensors and resident memory must "
        f"show what is held within {100 * TOLERATED:.0f} %. What a step lets go must show in live tensors; how much of "
        "it stays resident is the allocator's affair, and can be a multiple: a block let go is not always taken again. "
        "The memory pass has no word for a leak: of a step that keeps what it allocates, live tensors show the few "
        "steps that are watched, resident memory also those of the warm-up, whose number varies. So a leak shows as "
        "more memory, and not as growth."
    )
    return f"## Planted memory\n\n{about}\n\n{_table(head, body)}"


def _timer(found: Calibration) -> str:
    listed = _part(found, "timer")
    if not listed:
        return ""
    head = ("pair", "other timer", "processes each", "harness, a step", "other, a step", "ratio", "they")
    body = [
        (
            text(one.pair),
            text(agreement.timer),
            str(len((one.seconds or {})[agreement.timer])),
            seconds(agreement.ours),
            seconds(agreement.theirs),
            ratio(agreement.ratio, agreement.low, agreement.high),
            agreement.word,
        )
        for one in listed
        for agreement in agreements(one)
    ]
    about = (
        "The same step, built alike, in fresh processes with the same settings and threads, timed in turns by the "
        "harness and by `torch.utils.benchmark.Timer` (`blocked_autorange`). Each process gives one number, its median "
        "seconds a step. Where the harness empties a GPU's L2 cache before every step, the other timer is `do_bench`, "
        "which does so too. The ratio's "
        "brackets combine both sides' spread between processes: Welch's 95 % interval of the difference of the mean "
        "logarithms. They *agree* where it holds 1, *agree within 1 %* where it does not "
        "but reaches into ±1 %, and *differ* where it lies wholly beyond; wider than "
        f"±{100 * math.expm1(WIDEST):.0f} % it says nothing, so they *cannot be distinguished*."
    )
    return f"## The same steps by another timer\n\n{about}\n\n{_table(head, body)}"


def agreements_told(comparison: Comparison) -> str:
    """All agreements of a comparison as a line."""
    return "; ".join(
        f"harness / {found.timer} {ratio(found.ratio, found.low, found.high)}, they {found.word}"
        for found in agreements(comparison)
    )


def _failures(found: Calibration) -> str:
    body = [(text(one.case), str(one.repetition), text(one.failed)) for one in found.comparisons if one.failed]
    return f"## Could not be measured\n\n{_table(('case', 'repetition', 'reason'), body)}"


def _again(found: Calibration) -> str:
    options = found.options
    command = ["tipbench", "calibrate", "--profile", options["profile"]]
    command += ["--repeat", str(options["repeat"])] * (options["repeat"] != REPEAT.get(options["profile"]))
    command += ["--device", options["device"], "--seed", str(options["seed"])]
    command += ["--only", *options["only"]] if options["only"] else []
    done = {comparison.key for comparison in found.comparisons}
    planned = {(name, number) for name in found.planned for number in range(options["repeat"])}
    left = len(planned - done)
    state = f"{plural(left, 'planned comparison')} not measured yet." if left else "All planned comparisons are there."
    return (
        f"## Do it again\n\n```\n{shlex.join(command)}\n```\n\n{plural(len(done), 'comparison')} in "
        f"{found.file_name}.jsonl. {state} `tipbench calibrate --resume FILE` goes on with a file, and writes this "
        "page anew from it."
    )


def _notices(notices: Sequence[Notice]) -> str:
    return "\n".join(f"- {text(f'{notice.file.name}, line {notice.line}: {notice.text}')}" for notice in notices)


def _done(found: Calibration) -> list[Comparison]:
    """Without the failed ones, in the order of the plan, then of the repetitions."""
    place = {name: index for index, name in enumerate(found.planned)}
    done = [comparison for comparison in found.comparisons if not comparison.failed]
    return sorted(done, key=lambda one: (place.get(one.case, len(place)), one.case, one.repetition))


def _part(found: Calibration, part: str) -> list[Comparison]:
    return [comparison for comparison in _done(found) if comparison.part == part]


def _cases(listed: Iterable[Comparison]) -> list[list[Comparison]]:
    grouped: dict[str, list[Comparison]] = {}
    for comparison in listed:
        grouped.setdefault(comparison.case, []).append(comparison)
    return list(grouped.values())


def _median(value: Callable[[Comparison], float | None], listed: Iterable[Comparison]) -> float | None:
    found = [known for one in listed if (known := value(one)) is not None]
    return statistics.median(found) if found else None


def _load(loaded: bool) -> str:
    return "loaded" if loaded else "idle"


def _share(found: Share | None) -> str:
    """`3 of 4 (75 % [19.4, 99.4])`."""
    if found is None:
        return "-"
    percents = f"{100 * found.count / found.total:.0f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{found.count} of {found.total} ({percents})"


def _bias(listed: Sequence[Comparison]) -> str:
    errors = [off for one in listed if (off := error(one)) is not None]
    found = bias(errors)
    if found is None:
        return "".join(f"{100 * one:+.2f} %" for one in errors) or "-"
    mean, low, high = (100 * value for value in found)
    return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Cells must be escaped already."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
