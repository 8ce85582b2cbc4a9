"""Goes on with a run whose file is there: what of the file may count, and what comes from this machine alone."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tipbench import __version__
from tipbench.engine import run as running
from tipbench.engine.lock import only_run
from tipbench.engine.run import CannotRun, OpenRun, Options
from tipbench.machine import describe
from tipbench.records import store
from tipbench.records.fields import MalformedRecord, RunOptions, converted
from tipbench.records.json_line import written
from tipbench.records.listing import is_reference
from tipbench.records.record import PairInfo, Run
from tipbench.suite.commit import suite_commit
from tipbench.tip.wording import plain, plural

SAME = ("name", "torch", "python")
"""Fields of a machine that stay the same over a run."""


def resume(path: Path, options: Options | None = None, more_s: float | None = None) -> int:
    """Go on with a run that was interrupted, or whose time was up, without repeating what its file holds.

    options: of these `folder`, which must be the one that the run was begun with, and what no header stores. more_s:
    seconds to go on for, 0 until all is decided; None: what was left of its budget. Raises UserError.
    """
    began, typed = time.monotonic(), options or Options()
    if is_reference(path):
        raise CannotRun(f"{path} is a reference run, which is of another machine: begin a run of your own")
    with only_run(typed.locked):
        stored, writer = store.resume(path)
        with writer:
            for notice in writer.notices:
                print(f"tipbench: {notice}", file=sys.stderr)
            options = replace(typed, **asdict(_stored_options(path, stored)))
            run = OpenRun(stored, writer, options, began)
            if not run.left:
                print(f"{path} is complete: of its {plural(len(stored.planned), 'pair')} none is left to measure")
                return run.conclude()
            budget_s = _budget_left(stored, options.budget_s) if more_s is None else more_s or math.inf
            if budget_s <= 0:
                print(f"{path}: its time was up")
                return run.conclude()
            _require_same_folder(path, options.folder, typed.folder)
            discovery, pairs = running.discovered(options)
            _require_same_machine(path, stored, options.controlled(discovery))
            planned = _same_pairs(path, stored, [*pairs, *(record.info for record in discovery.broken)])
            if (other := f"{stored.suite} at {stored.commit}") != (this := f"{__version__} at {suite_commit()}"):
                print(
                    f"tipbench: {path} was begun with tipbench {plain(other)}; {this} goes on with it", file=sys.stderr
                )
            return run.measure(planned, discovery, budget_s)


def _stored_options(path: Path, stored: Run) -> RunOptions:
    """The options that the run was begun with. Raises CannotRun."""
    try:
        return converted(stored.options, RunOptions)
    except MalformedRecord as error:
        raise CannotRun(f"{path}, line 1: the options are damaged ({error}); begin a new run") from None


def _require_same_folder(path: Path, begun: str, named: str) -> None:
    """Raise CannotRun unless the folder of pairs that the run was begun with is the one that is named now."""
    if begun == named:
        return
    if not named:
        raise CannotRun(
            f"{path} was begun with the pairs of {begun}: if you trust them, add --from {shlex.quote(begun)}"
        )
    raise CannotRun(
        f"{path} was begun with {f'the pairs of {begun}' if begun else 'the own pairs of tipbench'}, not of {named}"
    )


def _require_same_machine(path: Path, stored: Run, controls: Mapping[str, str]) -> None:
    """Raise CannotRun unless this is the machine, with the torch and the variables of workers, that the run was begun
    with."""
    machine = describe.describe()
    begun = {**{field: stored.machine.get(field) for field in SAME}, **stored.controls}
    here = {**{field: machine[field] for field in SAME}, **controls}
    for field in sorted(begun.keys() | here.keys(), key=lambda field: (field not in SAME, field)):
        then, now = begun.get(field, "not set"), here.get(field, "not set")
        if then != now:
            raise CannotRun(
                f"{path} was begun with {field} {then}; here it is {now}. "
                "One run is of one machine, one installation and one environment: begin a new one"
            )


def _same_pairs(path: Path, stored: Run, here: Sequence[PairInfo]) -> list[PairInfo]:
    """The planned pairs as they are here. Raises CannotRun where one is gone, or is another than what was measured."""
    by_name = {info.name: info for info in here}
    if missing := [name for name in stored.planned if name not in by_name]:
        raise CannotRun(f"{path} planned {missing[0]}, which is no longer among the pairs; begin a new run")
    for record in stored.records:
        # Where its class stands in the file may change without a change of the pair.
        info = replace(by_name[record.name], line=record.info.line) if record.name in by_name else None
        if info is None or written(info.to_json()) != written(record.info.to_json()):
            raise CannotRun(f"{path}: {record.name} is another pair now than it was then; begin a new run")
    return [by_name[name] for name in stored.planned]


def _budget_left(stored: Run, budget_s: float) -> float:
    """Seconds of a run's budget that its pairs have not taken yet."""
    return budget_s - sum(record.wall_s for record in stored.records) if budget_s else math.inf
