"""What may leave the machine of a run: a run again, of numbers and of the suite's own texts.

A text leaves if it stands in a file of the suite as installed here (`tipbench.publish.suite.is_own`); others become
empty. Of a machine the fields of `tipbench.machine.fields` leave, with names of hardware and versions; of a reason code
and fields do, and nothing of what a person's code said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tipbench.machine.describe import name as name_of
from tipbench.machine.fields import CARD_FIELDS, MACHINE_FIELDS
from tipbench.machine.proc import UNAVAILABLE
from tipbench.publish.forms import compiler_form, hardware_name, version_form
from tipbench.publish.suite import declares, is_own
from tipbench.records.fields import LARGEST
from tipbench.records.record import Record, Run
from tipbench.records.store import Notice
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import SENTENCES, WITHHELD, Reason, field_names

OPTIONS = ("size", "budget_s", "device", "seed", "bare")

LONGEST_NAME = 60
"""Of a machine, as a part of a page's name."""

_CONTROL = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "OMP_NUM_THREADS", "PYTHONHASHSEED")
"""What `tipbench.machine.controls` sets, or once set: all of them numbers."""


@dataclass(frozen=True)
class Publication:
    """A run as it may be published.

    Attributes:
        run: the run.
        notices: what was wrong with its file.
        withheld: names of the pairs that are left out because the suite as installed here does not have them.
    """

    run: Run
    notices: tuple[Notice, ...]
    withheld: tuple[str, ...]


def redact(run: Run, notices: Sequence[Notice] = ()) -> Publication:
    """What may be published of a run."""
    records = [(record.name, _record(record)) for record in run.records]
    withheld = [name for name, record in records if record is None]
    withheld += [name for name in run.planned if not all(map(is_own, name.split(".")))]
    return Publication(
        Run(
            id=_id(run.id),
            started=_date(run.started),
            suite=version_form(run.suite) or UNAVAILABLE,
            commit=run.commit if re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", run.commit) else UNAVAILABLE,
            machine=_machine(run.machine),
            controls={name: value for name, value in run.controls.items() if name in _CONTROL and value.isdigit()},
            options=_public({name: item for name, item in run.options.items() if name in OPTIONS}),
            planned=tuple(name for name in run.planned if name not in withheld),
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


def _machine(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Its name is made anew, of what is published anyway."""
    machine = _listed(recorded, ("gpus", *sum(MACHINE_FIELDS.values(), ())))
    if isinstance(cards := recorded.get("gpus"), list):
        machine["gpus"] = [
            {"name": UNAVAILABLE, **_listed(card, sum(CARD_FIELDS.values(), ()))}
            for card in cards
            if isinstance(card, Mapping)
        ]
    return {**machine, "name": name_of(machine)[:LONGEST_NAME].strip("-")}


def _listed(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    public = {name: _public(values[name], _of_hardware) for name in names if name in values}
    return {name: item for name, item in public.items() if item not in (None, "")}


def _record(record: Record) -> Record | None:
    """The record of one of the suite's pairs; None of any other, of one with variants that the suite lacks, and of one
    whose tip it words otherwise: without its condition an answer would mislead."""
    info = record.info
    names = {variant.name for variant in info.variants} | set(record.variants)
    if not declares(info.file, info.pair) or not all(map(is_own, names)) or _public(info.tip) != info.tip:
        return None
    public: Record = _public(record)
    about = replace(
        public.info,
        file=info.file,
        job=info.job if is_own(info.job.removeprefix(f"{info.tip.id}.")) else "",
        needs=(),
        variants=tuple(
            replace(side, settings=ProcessSettings(ranks=side.settings.ranks), needs=())
            for side in public.info.variants
        ),
        source=info.source if re.fullmatch("[0-9a-f]{16}", info.source) else "",
    )
    return replace(public, info=about)


def _own(text: str) -> str:
    return text if is_own(text) else ""


def _of_hardware(text: str) -> str:
    """A text of the suite's own, a version, a processor's or a card's name, or a compiler's; of others nothing."""
    return _own(text) or version_form(text) or hardware_name(text) or compiler_form(text)


def _public(value: Any, form: Callable[[str], str] = _own) -> Any:
    """The value with numbers, and of texts what `form` lets through; names of fields are the suite's own."""
    if isinstance(value, str):
        return form(value)
    if isinstance(value, Reason):
        return _reason(value)
    if isinstance(value, Mapping):
        return {name: _public(item, form) for name, item in value.items() if is_own(name)}
    if isinstance(value, list | tuple):
        return type(value)(_public(item, form) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _public(getattr(value, each.name), form) for each in fields(value)})
    return value if isinstance(value, int | float) and abs(value) < LARGEST else None


def _reason(reason: Reason) -> Reason:
    """The code and the fields of a reason; of a code that is not known nothing."""
    if reason.code not in SENTENCES:
        return Reason("needs.withheld")
    public = {name: _public(item) for name, item in reason.fields.items() if name in field_names(reason.code)}
    return Reason(reason.code, {name: item for name, item in public.items() if item not in (None, "")})
