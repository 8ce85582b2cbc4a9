"""Which results file a run goes on with, and what of it may count: that of this machine with equal options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tipbench.records import store
from tipbench.records.fields import MalformedRecord, RunOptions, convert
from tipbench.records.json_line import dump_line
from tipbench.records.listing import newest_first
from tipbench.records.record import PairInfo, Run
from tipbench.tip.wording import plain


def file_to_continue(results: Path, begun: Run) -> Path | None:
    """The newest file of this machine whose options are those of the run that is to begin, its budget left out; None,
    with the reason on stderr, where that is of other hardware, versions or controls."""
    for path in newest_first(results / store.folder_name(begun.machine)):
        try:
            stored = store.header(path)
            is_alike = _options(stored) == _options(begun)
        except (store.StoreError, MalformedRecord) as error:
            print(f"tipbench: {path} is not continued: {error}", file=sys.stderr)
            continue
        if not is_alike:
            continue
        then, now = _facts(stored), _facts(begun)
        field = next((name for name in {**then, **now} if then.get(name) != now.get(name)), "")
        if not field:
            return path
        why = f"{path} was begun with {field} {then.get(field, 'not set')}; here it is {now.get(field, 'not set')}"
        print(f"tipbench: {plain(why)}, so another file begins", file=sys.stderr)
        return None
    return None


def same_pairs(stored: Run, here: Sequence[PairInfo]) -> tuple[Run, list[PairInfo]]:
    """(The stored run without the records of pairs that are other ones now, the pairs to measure as the records have
    them)."""
    records = {record.name: record for record in stored.records}
    pairs, changed = [], set()
    for info in here:
        record = records.get(info.name)
        # Where its class stands in the file may change without a change of the pair.
        if record and dump_line(asdict(replace(info, line=record.info.line))) == dump_line(asdict(record.info)):
            pairs.append(record.info)
            continue
        changed |= {info.name} if record else set()
        pairs.append(info)
    if changed:
        print(f"tipbench: measured anew, as their code or needs changed: {', '.join(sorted(changed))}", file=sys.stderr)
    kept = tuple(record for record in stored.records if record.name not in changed)
    return replace(stored, records=kept), pairs


def _options(run: Run) -> dict[str, Any]:
    """Raises MalformedRecord."""
    try:
        options = convert(run.options, RunOptions)
    except MalformedRecord as error:
        raise MalformedRecord(f"line 1: the options are damaged ({error})") from None
    return asdict(replace(options, budget_s=0.0))


def _facts(run: Run) -> dict[str, Any]:
    kernel = str(run.machine.get("kernel", "")).partition(".")[0]
    fields = {name: run.machine.get(name) for name in ("name", "torch", "python")}
    return {**fields, "Linux": kernel, "tipbench": run.suite, **run.controls}
