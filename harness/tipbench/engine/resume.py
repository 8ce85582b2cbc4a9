"""Goes on with a run whose file is there: what of the file may count, and what comes from this machine alone."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

from tipbench import __version__
from tipbench.engine import run
from tipbench.engine.lock import only_run
from tipbench.engine.run import CannotRun
from tipbench.machine import describe
from tipbench.machine.fingerprint import fingerprint
from tipbench.records import store
from tipbench.records.fields import MalformedRecord, RunOptions, converted
from tipbench.records.json_line import written
from tipbench.records.listing import is_reference
from tipbench.records.record import PairInfo, Run
from tipbench.suite.commit import suite_commit
from tipbench.tip.wording import plain, plural

ALWAYS_STORED = ("profile", "device", "seed", "bare", "folder")
"""Options that the header of every run has; the others came later."""


def resume(
    path: Path,
    folder: str = "",
    more_s: float | None = None,
    shared: Path | None = None,
    side_bytes: int = 0,
    of_the_shell: Mapping[str, str] = MappingProxyType({}),
    locked: bool = False,
) -> int:
    """Go on with a run that was interrupted, or whose time was up, without repeating what its file holds.

    The file may be somebody else's, so it decides nothing that is executed: the pairs come from the folder that is
    named here, their process settings from these pairs, and the environment from this machine. Where the file holds
    another one, the run is refused.

    folder: of the pairs; empty for the guides' own.
    more_s: seconds to go on for, 0 until all is decided; None: what was left of its budget. shared, side_bytes,
    of_the_shell, locked: as `Options` has them. Raises UserError.
    """
    began = time.monotonic()
    if is_reference(path):
        raise CannotRun(f"{path} is a reference run, which is of another machine: begin a run of your own")
    with only_run(locked):
        stored, writer = store.resume(path)
        with writer:
            for notice in writer.notices:
                print(f"tipbench: {notice}", file=sys.stderr)
            begun = _stored_options(path, stored)
            left = set(stored.planned) - ({record.name for record in stored.records} - run.to_continue(stored).keys())
            if not left:
                print(f"{path} is complete: of its {plural(len(stored.planned), 'pair')} none is left to measure")
                return run.conclude(stored, path)
            budget_s = _budget_left(stored, begun.budget_s) if more_s is None else more_s or math.inf
            if budget_s <= 0:
                print(f"{path}: its time was up")
                return run.conclude(stored, path)
            _require_same_folder(path, begun.folder, folder)
            if stored.options.get("nnodes", 1) != 1:
                raise CannotRun(f"{path} was begun on several machines at once, which is no more: begin a new run")
            options = run.Options(
                **asdict(begun),
                shared=shared,
                side_bytes=side_bytes,
                of_the_shell=of_the_shell,
            )
            here = describe.describe()
            for field in ("name", "torch", "python"):
                if here[field] != stored.machine.get(field):
                    raise CannotRun(
                        f"{path} was begun with {field} {stored.machine.get(field)}; here it is {here[field]}. "
                        "One run is of one machine and one installation: begin a new one"
                    )
            if stored.fingerprint not in ("", fingerprint()):
                raise CannotRun(
                    f"{path} was begun on another machine, or its fingerprint cannot be made here as it was there; "
                    "begin a new run"
                )
            discovery, pairs = run.discovered(options)
            _require_same_environment(path, stored.controls, options.controlled(discovery))
            planned = _same_pairs(path, stored, [*pairs, *(record.info for record in discovery.broken)])
            if (other := f"{stored.suite} at {stored.commit}") != (this := f"{__version__} at {suite_commit()}"):
                print(
                    f"tipbench: {path} was begun with tipbench {plain(other)}; {this} goes on with it", file=sys.stderr
                )
            budget_s = run.left_of(budget_s, began, options.given)
            return run.carry_on(stored, planned, discovery, options, writer, budget_s)


def _stored_options(path: Path, stored: Run) -> RunOptions:
    """The options that the run was begun with. Raises CannotRun."""
    try:
        if missing := [name for name in ALWAYS_STORED if name not in stored.options]:
            raise MalformedRecord(f"the field {missing[0]!r} is missing")
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


def _require_same_environment(path: Path, begun: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise CannotRun unless workers had the variables that they would have here."""
    for name in sorted(begun.keys() | here.keys()):
        if begun.get(name) != here.get(name):
            raise CannotRun(
                f"{path} was begun with {name} {begun.get(name, 'not set')}; here it is {here.get(name, 'not set')}. "
                "One run is of one environment: begin a new one"
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
