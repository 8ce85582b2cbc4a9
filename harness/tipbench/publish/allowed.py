"""What may leave the machine of a run: a run again, of numbers, of the suite's own texts, and of its machine.

A text leaves if it stands in a file of the suite as installed here (`tipbench.publish.suite.is_own`); others become
empty. Of a machine `tipbench.machine.fields` says what may leave; of a reason code and fields do, and nothing of what a
person's code said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tipbench.machine.describe import name as hardware_name
from tipbench.machine.fields import MACHINE_FIELDS, publishable
from tipbench.machine.forms import number, version
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.publish.index import LONGEST_NAME
from tipbench.publish.suite import SuiteTip, is_own, suite_tip
from tipbench.records.record import PairInfo, Record, Run
from tipbench.records.store import Notice
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import NEEDS, SENTENCES, WITHHELD, Reason, field_names

OPTIONS = ("size", "budget_s", "rules", "device", "seed", "bare", "nnodes")

CONTROLS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "OMP_NUM_THREADS", "PYTHONHASHSEED")
"""What `tipbench.machine.controls` sets, or once set: all of them numbers."""


@dataclass(frozen=True)
class Allowed:
    """A run as it may be published.

    Attributes:
        run: the run.
        notices: what was wrong with its file.
        withheld: names of the pairs that are left out because the suite as installed here does not have them.
        folder: of its file. It stays here, and says which runs of a comparison are of one machine.
        reference: whether it is a reference run.
    """

    run: Run
    notices: tuple[Notice, ...]
    withheld: tuple[str, ...]
    folder: Path = field(default=Path(), repr=False)
    reference: bool = False


def allowed(run: Run, notices: Sequence[Notice] = (), public_name: str = "") -> Allowed:
    """What may be published of a run. public_name: what its machine is called; else a name made of its hardware."""
    records = [(record.name, _record(record)) for record in run.records]
    withheld = [name for name, record in records if record is None]
    planned = [name for name in run.planned if _in_suite(name) and name not in withheld]
    withheld += [name for name in run.planned if not _in_suite(name)]
    return Allowed(
        Run(
            id=_id(run.id),
            started=_date(run.started),
            suite=version(run.suite) or UNAVAILABLE,
            commit=run.commit if re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", run.commit) else UNAVAILABLE,
            machine=_machine(run.machine, public_name),
            controls={name: value for name, value in run.controls.items() if name in CONTROLS and value.isdigit()},
            options=_public({name: item for name, item in run.options.items() if name in OPTIONS}),
            planned=tuple(planned),
            records=tuple(record for _, record in records if record is not None),
            later=tuple(map(_date, run.later)),
        ),
        tuple(Notice(Path("results"), notice.line, f"it could not be used; {WITHHELD}") for notice in notices),
        tuple(dict.fromkeys(withheld)),
    )


def _id(id: str) -> str:
    """The run's id; of one that is no `uuid4().hex`, a digest."""
    is_plain = re.fullmatch(r"[0-9a-f]{8,32}", id)
    return id if is_plain else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:32]


def _date(date: str) -> str:
    """A date of ISO 8601 in UTC, which tells no time zone; the epoch for what is none."""
    try:
        return datetime.fromisoformat(date).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return "1970-01-01T00:00:00+00:00"


def _machine(recorded: Mapping[str, Any], public_name: str) -> dict[str, Any]:
    machine = publishable(recorded, MACHINE_FIELDS)
    return {"name": public_name or _name(machine), **machine}


def _name(machine: Mapping[str, Any]) -> str:
    """As `machine.name` made it when the run began, of what is published anyway."""
    cards = [dict(card) for card in machine.get("gpus", ()) if isinstance(card, Mapping)]
    limits = [machine.get(key) for key in ("cores", "physical_cores", "quota_cores")]
    cores = [limit for limit in limits if isinstance(limit, int | float)]
    memory = machine.get("memory_bytes")
    return hardware_name(
        str(machine.get("cpu", UNAVAILABLE)) if machine.get("cpu") not in (UNAVAILABLE, DENIED) else "machine",
        str(machine.get("microarchitecture", UNAVAILABLE)),
        max(1, int(min(cores))) if cores else UNAVAILABLE,
        int(memory) if isinstance(memory, int | float) and memory > 0 else UNAVAILABLE,
        cards,
    )[:LONGEST_NAME].strip("-")


def _in_suite(name: str) -> bool:
    tip, _, pair = name.partition(".")
    return suite_tip(tip, pair) is not None


def _record(record: Record) -> Record | None:
    """The record of one of the suite's pairs; None of any other, and of one with variants that the suite lacks."""
    info = record.info
    tip = suite_tip(str(info.tip.get("id")), info.pair)
    names = {variant.name for variant in info.variants} | set(record.variants)
    if tip is None or not all(map(is_own, names)):
        return None
    public: Record = _public(record)
    about = replace(
        public.info,
        tip={**tip.fields, **_of_this_run(info, tip)},
        file=tip.file,
        job=info.job if is_own(info.job.removeprefix(f"{tip.fields['id']}.")) else "",
        needs=(),
        variants=tuple(replace(side, settings=_ranks(side.settings), needs=()) for side in public.info.variants),
        code=info.code if info.code == tip.code(info.pair) else {},
    )
    return replace(public, info=about)


def _of_this_run(info: PairInfo, tip: SuiteTip) -> dict[str, str]:
    """What the pair's own baseline is, where the suite's file says it of a pair and not of the tip; and no reason for
    a missing gain where the run holds none, as it is not true of every machine."""
    stored = info.tip.get("against")
    against = {"against": str(stored)} if stored and f'against = "{stored}"' in tip.text else {}
    return against | ({} if info.tip.get("why_not") else {"why_not": ""})


def _ranks(settings: ProcessSettings) -> ProcessSettings:
    return ProcessSettings(ranks=settings.ranks)


def _public(value: Any) -> Any:
    """The value with the suite's own texts and numbers alone."""
    if isinstance(value, str):
        return value if is_own(value) else ""
    if isinstance(value, Reason):
        return _reason(value)
    if isinstance(value, Mapping):
        return {name: _public(item) for name, item in value.items() if is_own(name)}
    if isinstance(value, list | tuple):
        return type(value)(map(_public, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _public(getattr(value, each.name)) for each in fields(value)})
    return value if isinstance(value, bool) else number(value)


def _reason(reason: Reason) -> Reason:
    """The code and the fields of a reason. Of a code that is not known, at most the kind of failure."""
    if reason.code not in SENTENCES:
        kind = reason.code.partition(".")[0]
        return Reason(f"{kind if any(code.partition('.')[0] == kind for code in SENTENCES) else NEEDS}.withheld")
    public = {name: _public(item) for name, item in reason.fields.items() if name in field_names(reason.code)}
    return Reason(reason.code, {name: item for name, item in public.items() if item not in (None, "")})
