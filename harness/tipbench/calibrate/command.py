"""`tipbench calibrate`: ordinary runs of pairs whose truth is known, and the page that sets it beside the verdicts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tipbench.calibrate.findings import findings
from tipbench.calibrate.page import page, summary
from tipbench.engine import run
from tipbench.records.fields import MalformedRecord
from tipbench.records.record import Run
from tipbench.records.store import Notice, StoreError, file_name, folder_name, read
from tipbench.report import as_markdown
from tipbench.report.output import write_file
from tipbench.suite.files import KNOWN

APART = 1000
"""Between the seeds of two runs: more than the launches of any pair, each of which has a seed of its own."""


@dataclass(frozen=True)
class Options:
    """The options of the command. names: of tips or pairs, all without one. repeat: runs. loaded: beside the noise."""

    names: Sequence[str] = ()
    profile: str = "quick"
    repeat: int = 1
    loaded: bool = False
    results: Path = Path("results")
    reports: Path = Path("reports")
    device: str = "auto"
    seed: int = 0


def begin(options: Options) -> int:
    """Make the runs, each with processes of its own, and their page. Returns the exit code; raises UserError."""
    files: list[Path] = []
    for number in range(options.repeat):
        if options.repeat > 1:
            print(f"run {number + 1} of {options.repeat}", file=sys.stderr)
        code, file = run.measured(
            run.Options(
                names=options.names,
                folder=KNOWN,
                results=options.results,
                profile=options.profile,
                device=options.device,
                seed=(options.seed + number * APART) % 2**31,
                calibration="loaded" if options.loaded else "idle",
            )
        )
        files.append(file)
        if code == 130:
            if number:
                listed = shlex.join(map(str, files))
                print(f"and then, for one page of them all: tipbench calibrate --page {listed}", file=sys.stderr)
            return code
    return write_page(files, options.reports)


def resume(file: Path, reports: Path) -> int:
    """Go on with one run, and write its page. Returns the exit code; raises UserError."""
    code = run.resume(file, calibration=True)
    return code if code == 130 else write_page([file], reports)


def write_page(files: Sequence[Path], reports: Path) -> int:
    """Write the page of all these runs, named after the first that began, and say what came out.

    Returns the exit code: 1 where a verdict was wrong or a pair failed. Raises UserError.
    """
    runs: dict[Path, Run] = {}
    notices: list[Notice] = []
    for file in files:
        runs[file], wanting = read(file)
        notices += wanting
        if not runs[file].options.get("calibration"):
            raise StoreError(
                f"{file} is no calibration; its report is written by `tipbench report {shlex.quote(str(file))}`"
            )
    for notice in notices:
        print(f"tipbench: {notice}", file=sys.stderr)
    _check(runs)
    first = min(runs.values(), key=lambda one: (one.started, one.id))
    written = reports / folder_name(first.machine) / f"{file_name(first)}.md"
    try:
        found = [one for each in runs.values() for one in findings(each)]
        shown = as_markdown.render(page(runs, notices))
    except MalformedRecord as error:
        raise StoreError(f"{', '.join(map(str, files))}: no page can be made ({error})") from None
    write_file(written, shown.encode("utf-8", "replace"), "--reports")
    listed = [f"results: {file}" for file in runs]
    print("\n".join(["", *summary(found), "", *listed, f"page:    {written}"]))
    return int(any(one.wrong or one.said == "failed" for one in found))


def _check(runs: dict[Path, Run]) -> None:
    """Raises StoreError where runs were not made alike, or are the same one: to pool them would say nothing."""
    (first, alike), *others = ((file, _made(run)) for file, run in runs.items())
    for file, made in others:
        for name, value in made.items():
            if value != alike[name]:
                raise StoreError(
                    f"{first} was made with {name} {alike[name]} and {file} with {name} {value}: write a page of each"
                )
    if len({run.id for run in runs.values()}) < len(runs):
        raise StoreError("two of the files hold the same run: leave one out")


def _made(run: Run) -> dict[str, object]:
    machine = {name: run.machine.get(name) for name in ("name", "torch", "python")}
    options = {"rules": 1, **run.options}
    return {**machine, **{name: options.get(name) for name in ("profile", "device", "rules")}}
