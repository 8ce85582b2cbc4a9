"""What may leave the machine of a run: a run again, of which every field has been let through by name and by form.

Numbers pass where a number is expected. Text passes only where it is made of the suite's own words
(`tipbench.publish.suite`), or of a form that holds nothing but what it should (`tipbench.publish.forms`). Of a reason
its code and fields pass, and nothing of what a person's code said. What is in no list stays: a new field is withheld
until it is listed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Any

from tipbench.machine.describe import name as hardware_name
from tipbench.machine.fields import MACHINE_FIELDS, publishable
from tipbench.machine.forms import flag, number, numbers, one_of, version
from tipbench.machine.gpu import GPU_READINGS
from tipbench.machine.proc import DENIED, UNAVAILABLE
from tipbench.publish.forms import CONTROLS, EQUAL, JOB_CARD, MEMORY, OPTIONS, fields, measured
from tipbench.publish.index import LONGEST_NAME
from tipbench.publish.suite import WORD, SuiteTip, suite_tip
from tipbench.records.record import Launch, Outcome, PairInfo, Record, Run, VariantInfo, VariantRecord
from tipbench.records.store import Notice
from tipbench.tip.pair import Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import BLIND, NEEDS, SENTENCES, WITHHELD, Reason, field_names
from tipbench.worker.protocol import COMMANDS

FIELD_WORDS = frozenset({*COMMANDS, *(signal.name for signal in Signals), "starting", "step", "baseline", "variant"})
"""What fields of reasons are made of, beside the words of the tip."""


@dataclass(frozen=True)
class Allowed:
    """A run as it may be published.

    Attributes:
        run: the run.
        notices: what was wrong with its file.
        withheld: names of the pairs that are left out because the suite as installed here does not have them.
        earlier: earlier runs of the machine, as far as they did the same work, oldest first.
        fingerprint: of its machine. It stays here, and says which runs of a comparison are of one machine.
        reference: whether it is a reference run.
    """

    run: Run
    notices: tuple[Notice, ...]
    withheld: tuple[str, ...]
    earlier: tuple[Run, ...] = ()
    fingerprint: str = field(default="", repr=False)
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
            controls=fields(run.controls, CONTROLS),
            options=fields(run.options, OPTIONS),
            planned=tuple(planned),
            records=tuple(record for _, record in records if record is not None),
        ),
        tuple(Notice(Path("results"), notice.line, f"it could not be used; {WITHHELD}") for notice in notices),
        tuple(dict.fromkeys(withheld)),
    )


def with_earlier(run: Run, publication: Allowed, before: Iterable[Run]) -> Allowed:
    """With earlier runs, of which no more is let through than of the run itself.

    before: as stored, oldest first. Whether their work is the same is decided by all of its code and sizes, of which
    only a part may be published: so each record takes over the description of the newest one.
    """
    newest = {(record.name, record.info.device): record.info for record in run.records}
    published = {(record.name, record.info.device): record.info for record in publication.run.records}
    earlier = []
    for older in before:
        same_work = {
            (record.name, record.info.device)
            for record in older.records
            if (info := newest.get((record.name, record.info.device))) is not None and _work(info) == _work(record.info)
        }
        let_through = allowed(older).run
        records = [
            replace(record, info=_with_work_of(published[key], record.info))
            for record in let_through.records
            if (key := (record.name, record.info.device)) in same_work and key in published
        ]
        earlier.append(replace(let_through, records=tuple(records)))
    return replace(publication, earlier=tuple(earlier))


def _work(info: PairInfo) -> tuple[object, ...]:
    return info.code, info.sizes, info.flush_l2


def _with_work_of(info: PairInfo, older: PairInfo) -> PairInfo:
    return replace(older, code=info.code, sizes=info.sizes, flush_l2=info.flush_l2)


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
    tip = suite_tip(str(record.info.tip.get("id")), record.info.pair)
    if tip is None:
        return None
    names = {variant.name for variant in record.info.variants} | set(record.variants)
    names |= {name for launch in record.launches for name in (*launch.variant, *launch.stretches)}
    if not all(map(tip.has_variant, names)):
        return None
    return Record(
        info=_info(record.info, tip),
        outcome=_outcome(record.outcome),
        why=_why(record.why, tip),
        steps=record.steps,
        variants={name: _variant(variant, tip) for name, variant in record.variants.items()},
        launches=tuple(map(_launch, record.launches)),
        wall_s=number(record.wall_s) or 0.0,
        known_from=record.known_from if re.fullmatch("[0-9a-f]{32}", record.known_from) else "",
    )


def _outcome(outcome: str) -> Outcome:
    """What `store.read` lets through, which is one of these."""
    return "measured" if outcome == "measured" else "skipped" if outcome == "skipped" else "failed"


def _of_this_run(info: PairInfo, tip: SuiteTip) -> dict[str, str]:
    """What the pair's own baseline is, where the suite's file says it of a pair and not of the tip; and no reason for
    a missing gain where the run holds none, as it is not true of every machine."""
    stored = info.tip.get("against")
    against = {"against": str(stored)} if stored and f'against = "{stored}"' in tip.text else {}
    return against | ({} if info.tip.get("why_not") else {"why_not": ""})


def _info(info: PairInfo, tip: SuiteTip) -> PairInfo:
    return PairInfo(
        tip={**tip.fields, **_of_this_run(info, tip)},
        pair=info.pair,
        scale=one_of("micro", "macro")(info.scale) or "",
        file=tip.file,
        line=info.line,
        device=one_of("cpu", "cuda")(info.device) or "cpu",
        sizes={name: size for name, size in info.sizes.items() if name in tip.words and number(size) is not None},
        equal=one_of(*map(str, Equal))(info.equal) or "",
        deadline=info.deadline,
        variants=tuple(
            VariantInfo(
                variant.name,
                ProcessSettings(ranks=variant.settings.ranks if isinstance(variant.settings.ranks, int) else 1),
                (),
                _why(variant.why, tip),
            )
            for variant in info.variants
        ),
        why=_why(info.why, tip),
        flush_l2=info.flush_l2,
        worded=info.worded if tip.has_variant(info.worded) else "",
        task=one_of("training", "inference", "processes")(info.task) or "",
        job=info.job if info.job.removeprefix(f"{tip.fields['id']}.") in tip.words else "",
        truth={
            name: ratio for name, ratio in info.truth.items() if tip.has_variant(name) and number(ratio) is not None
        },
        code=_code(info, tip),
    )


def _code(info: PairInfo, tip: SuiteTip) -> Mapping[str, str]:
    """The code that was measured where the suite's file says the same; else none."""
    return info.code if info.code == tip.code(info.pair) else {}


def _variant(variant: VariantRecord, tip: SuiteTip) -> VariantRecord:
    return VariantRecord(
        _outcome(variant.outcome),
        _why(variant.why, tip),
        equal=fields(variant.equal, EQUAL),
        mechanism=_mechanism(variant.mechanism, tip),
        memory=numbers(MEMORY)(variant.memory),
        one_off=numbers("build|warm_up")(variant.one_off),
        energy=numbers("joules_a_step")(variant.energy),
        work=numbers("flops|bytes")(variant.work),
        trainings=variant.trainings,  # numbers alone
    )


def _why(reason: Reason | None, tip: SuiteTip) -> Reason | None:
    """The code and the fields of a reason. Of a code that is not known, at most the kind of failure."""
    if reason is None:
        return None
    if reason.code not in SENTENCES:
        kind = reason.code.partition(".")[0]
        return Reason(f"{kind if any(code.partition('.')[0] == kind for code in SENTENCES) else NEEDS}.withheld")
    words = tip.words | FIELD_WORDS
    fields_of_code = {
        name: item
        for name, item in reason.fields.items()
        if name in field_names(reason.code) and (measured(item) is not None or _of_words(str(item), words))
    }
    return Reason(reason.code, fields_of_code)


def _mechanism(mechanism: Mapping[str, Any], tip: SuiteTip) -> dict[str, Any]:
    if not mechanism:
        return {}
    what = mechanism.get("what")
    is_ours = isinstance(what, str) and _of_words(what, tip.words)
    sides = {side: _counted(mechanism.get(side), tip) for side in ("baseline", "optimized")}
    return {"what": what if is_ours else "count", **sides, "engaged": flag(mechanism.get("engaged"))}


def _counted(counted: Any, tip: SuiteTip, depth: int = 0) -> Any:
    """What a mechanism counted: numbers, and text of the words of the tip's own file."""
    if isinstance(counted, bool) or measured(counted) is not None:
        return counted
    if isinstance(counted, str):
        return counted if _of_words(counted, tip.words) else "not published"
    if isinstance(counted, Mapping) and counted.keys() == {"unseen"}:
        return {"unseen": BLIND if counted["unseen"] == BLIND else WITHHELD}
    if isinstance(counted, Mapping) and depth < 3:
        return {key: _counted(item, tip, depth + 1) for key, item in counted.items() if _of_words(str(key), tip.words)}
    if isinstance(counted, list | tuple) and depth < 3:
        return [_counted(item, tip, depth + 1) for item in counted[:100]]
    return None


def _of_words(text: str, words: Iterable[str]) -> bool:
    """Whether text is made of these words and of small numbers, and is no path and no address."""
    if len(text) > 100 or re.search(r"[^\w ,:;=+\[\]().%-]|\d\.\d+\.|\d{9}", text, re.ASCII):
        return False
    return set(WORD.findall(text)) <= set(words)


def _launch(launch: Launch) -> Launch:
    readings = {name: column for name, column in launch.gpu.items() if name in GPU_READINGS}
    return replace(launch, gpu=readings, card=numbers(JOB_CARD)(launch.card))
