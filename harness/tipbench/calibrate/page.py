"""The page of calibrations of one machine: limits first, then truth beside verdict, then what it comes to.

Everything is derived from the files, and the same files give the same page, in whatever order they are named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tipbench.calibrate.findings import TOLERATED, Finding, findings, share
from tipbench.engine.noise import LASTS_S, TOUCHED
from tipbench.records.record import Run
from tipbench.records.store import Notice
from tipbench.report.cells import table
from tipbench.report.document import Block, Bullets, Heading, Literal, Page, Paragraph, Quote, Strong
from tipbench.report.machine_words import machine_words
from tipbench.report.rows import rules
from tipbench.report.wording import plural, ratio, size

STATES = {False: "idle", True: "loaded"}

KINDS = {"tensor_peak": "live tensors, peak", "resident_peak": "resident memory, peak"}

LIMITS = (
    "Counts are small where few runs were made: read the brackets, which hold 95 %.",
    "Planted differences are extra sines, all alike; a tip changes more than an amount of work.",
    "Pairs of one run may fork their processes from the same one, so they are not wholly independent. Runs are.",
    "Each pair is judged alone. A run's report also holds false discoveries among its pairs to 5 %, so it claims less.",
    f"Loaded: beside a process that keeps one core busy in bursts of {1000 * LASTS_S[0]:.0f} to "
    f"{1000 * LASTS_S[1]:.0f} ms, with pauses as long, and rewrites {size(TOUCHED)} meanwhile. Real neighbours differ.",
)

ABOUT = (
    'Planted 1.050x means that the optimized side is 5 % faster. "no difference" means within ±1 %, so it is right up '
    'to 1 %, "at most 3 %" up to 3 %, and "faster" or "slower" from 1.5 % on; "inconclusive" claims nothing and is '
    "never wrong. Of a difference that comes and goes (5 % on either side or on none, drawn anew by each process) "
    'nothing can be said but that its mean is small, so anything but "inconclusive" and "at most 3 %" is wrong there; '
    'by chance the launches can draw alike. Memory is "found" where what is reported is within '
    f'{100 * TOLERATED:.0f} % of what was planted. Of several runs, "found" shows the one in the middle.'
)


def page(files: Mapping[Path, Run], notices: Sequence[Notice] = ()) -> Page:
    """The page of calibrations that were made alike. Raises MalformedRecord as `findings` does."""
    listed = sorted(files.items(), key=lambda item: (item[1].started, item[1].id))
    first = listed[0][1]
    found = [finding for _, run in listed for finding in findings(run)]
    lost = Counter((one.pair, one.why) for one in found if not one.done)
    blocks: list[Block] = [
        Paragraph(("What tipbench said of differences that are known: they were planted, or there is none.",)),
        _limits([run for _, run in listed]),
        *([Bullets(tuple((f"{n.file.name}, line {n.line}: {n.text}",) for n in notices))] if notices else []),
        Heading("What it comes to"),
        Bullets(tuple((line,) for line in summary(found))),
        Heading("Truth and verdict"),
        Paragraph((ABOUT,)),
        _verdicts(found),
    ]
    if lost:
        reasons = tuple((f"{pair}, {plural(count, 'time')}: {why}",) for (pair, why), count in lost.items())
        blocks += [Heading("Could not be measured"), Bullets(reasons)]
    blocks += [
        Heading("The runs"),
        Bullets(tuple((_made(file, run),) for file, run in listed)),
        Paragraph(
            (
                *(Literal(_command(first)), " makes such a run (", Literal("--loaded"), " a loaded one), and "),
                *(Literal("tipbench calibrate --page FILE..."), " writes this page anew."),
            )
        ),
    ]
    return Page(f"How far tipbench can be trusted on {first.machine.get('name')}, {first.started[:10]}", tuple(blocks))


def summary(found: Sequence[Finding]) -> list[str]:
    """What came out, one line of plain text each, idle and loaded apart."""
    done = [one for one in found if one.done]
    timed = [one for one in done if not one.memory and one.truth is not None]
    shares = {
        "wrong verdicts on time": [(one, one.wrong) for one in timed],
        "intervals that hold the truth (95 % are promised)": [
            (one, one.covered) for one in timed if one.covered is not None
        ],
        "identical sides resolved as no difference": [
            (one, one.said == "no difference") for one in timed if one.truth == 0.0
        ],
        "a difference that comes and goes, taken neither for one that stays nor for none": [
            (one, not one.wrong) for one in done if one.truth is None
        ],
        "planted memory found": [(one, not one.wrong) for one in done if one.memory],
    }
    lines = []
    for words, listed in shares.items():
        for loaded, state in STATES.items():
            counted = share([holds for one, holds in listed if one.loaded == loaded])
            if counted:
                percents = (
                    f"{100 * counted.count / counted.total:.0f} % [{100 * counted.low:.1f}, {100 * counted.high:.1f}]"
                )
                lines.append(f"{words}, {state}: {counted.count} of {counted.total} ({percents})")
    lost = len(found) - len(done)
    return [*lines, *([f"could not be measured: {lost}"] if lost else [])] or ["nothing has been measured yet"]


def _limits(runs: Sequence[Run]) -> Quote:
    run = runs[0]  # as all were made alike
    machine, looks = run.machine, rules(run)[0].looks
    missing = sum(len(one.planned) - _reached(one) for one in runs)
    short = ((Strong(f"Not complete: {plural(missing, 'planned pair')} not reached."),),) if missing else ()
    at, alphas = ", ".join(map(str, looks.launches)), ", ".join(f"{100 * alpha:g}" for alpha in looks.alphas)
    alone = (
        f" One machine ({machine_words(machine)}), torch {machine.get('torch')}, python {machine.get('python')}, "
        f"device {run.options.get('device')}: it says nothing about another."
    )
    profile = (
        f'Profile "{run.options.get("profile")}", which looks at the data after {at} launches and spends {alphas} % '
        f"of error there{'' if math.fsum(looks.alphas) < 0.051 else ', which come to 5 % as the looks share much'}."
    )
    return Quote((*short, (Strong("Limits."), alone), (profile,), *((line,) for line in LIMITS)))


def _verdicts(found: Sequence[Finding]) -> Block:
    grouped: dict[tuple[str, bool, str, float | None], list[Finding]] = {}
    for one in found:
        grouped.setdefault((one.pair, one.loaded, one.memory, one.truth), []).append(one)
    rows = []
    for group in grouped.values():
        words = Counter(one.said for one in group)
        said = ", ".join(f"{count} {word}" for word, count in words.items()) if len(group) > 1 else group[0].said
        wrong, done = sum(one.wrong for one in group), sum(one.done for one in group)
        held = [one.covered for one in group if one.covered is not None]
        rows.append(
            (
                group[0].pair,
                STATES[group[0].loaded],
                _planted(group[0]),
                said,
                _middle(group),
                (Strong(f"{wrong} of {done}"),) if wrong else f"{wrong} of {done}",
                f"{sum(held)} of {len(held)}" if held else "-",
            )
        )
    head = ("pair", "machine", "planted", "said", "found", "wrong", "interval holds the truth")
    return table("verdicts", head, rows)


def _planted(one: Finding) -> str:
    if one.truth is None:
        return "comes and goes"
    if one.memory:
        return f"{size(one.truth)} more, {KINDS[one.memory]}"
    return f"{math.exp(one.truth):.3f}x" if one.truth else "identical sides"


def _middle(group: Sequence[Finding]) -> str:
    """What was measured, of the finding in the middle."""
    known = sorted((one for one in group if one.measured is not None), key=lambda one: one.measured or 0.0)
    if not known:
        return "-"
    middle = known[(len(known) - 1) // 2]
    measured = middle.measured or 0.0
    return size(measured) if middle.memory else ratio(measured, middle.low, middle.high)


def _command(run: Run) -> str:
    profile, device = (str(run.options.get(name)) for name in ("profile", "device"))
    return f"tipbench calibrate --profile {profile} --device {device} --seed N"


def _reached(run: Run) -> int:
    return len(set(run.planned) & {record.name for record in run.records})


def _made(file: Path, run: Run) -> str:
    return (
        f"{file.name}: begun {run.started}, {run.options.get('calibration')}, seed {run.options.get('seed')}, commit "
        f"{run.commit}, {_reached(run)} of {plural(len(run.planned), 'planned pair')} reached"
    )
