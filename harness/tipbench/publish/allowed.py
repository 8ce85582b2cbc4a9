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
from dataclasses import dataclass, replace
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
from tipbench.publish.suite import WORD, KnownTip, known
from tipbench.records.record import Launch, Outcome, PairInfo, Record, Run, VariantInfo, VariantRecord
from tipbench.records.store import Notice
from tipbench.report.effect import Effect, effects
from tipbench.tip.pair import Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import BLIND, NEEDS, SENTENCES, WITHHELD, Reason, field_names
from tipbench.worker.protocol import COMMANDS

PUBLIC_NAME = re.compile(r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*")
LONGEST_NAME = 60
RESERVED = ("comparison",)
"""Names of machines that would take the place of another page of the tree."""

FIELD_WORDS = frozenset({*COMMANDS, *(signal.name for signal in Signals), "starting", "step", "baseline", "variant"})
"""What fields of reasons are made of, beside the words of the tip."""


@dataclass(frozen=True)
class Allowed:
    """run: what may be published. notices: the same of what was wrong with its file. withheld: names of the pairs
    that are left out because the suite as installed here does not know them. earlier: what earlier runs of the machine
    found of the same, as `advise` takes it."""

    run: Run
    notices: tuple[Notice, ...]
    withheld: tuple[str, ...]
    earlier: tuple[Sequence[Effect], ...] = ()


def allowed(run: Run, notices: Sequence[Notice] = (), public_name: str = "") -> Allowed:
    """What may be published of a run. public_name: what its machine is called; else a name made of its hardware."""
    let_through = [_record(run, record) for record in run.records]
    kept = tuple(record for record in let_through if record is not None)
    withheld = [record.name for record, found in zip(run.records, let_through, strict=True) if found is None]
    planned = [name for name in run.planned if _is_known(name) and name not in withheld]
    withheld += [name for name in run.planned if not _is_known(name)]
    return Allowed(
        Run(
            id=_id(run.id),
            started=_date(run.started),
            suite=version(run.suite) or UNAVAILABLE,
            commit=run.commit if re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", run.commit) else UNAVAILABLE,
            machine=_machine(run.machine, public_name),
            controls={name: found for name, rule in CONTROLS.items() if (found := rule(run.controls.get(name)))},
            options=fields(run.options, OPTIONS),
            planned=tuple(planned),
            records=kept,
        ),
        tuple(Notice(Path("results"), found.line, f"it could not be used; {WITHHELD}") for found in notices),
        tuple(dict.fromkeys(withheld)),
    )


def with_earlier(run: Run, found: Allowed, before: Iterable[Run]) -> Allowed:
    """With what runs before it found, of which no more is let through than of the run itself.

    before: as stored, in the order they were made. Whether their work is the same is decided by all of its code and
    sizes, of which only a part may be published.
    """
    work = {effect.key: effect.text for effect in effects(run)}
    shown = {effect.key: effect.text for effect in effects(found.run)}
    earlier = []
    for other in before:
        alike = {effect.key for effect in effects(other) if work.get(effect.key) == effect.text}
        let_through = effects(allowed(other).run)
        earlier.append(
            [replace(one, text=shown[one.key]) for one in let_through if one.key in alike and one.key in shown]
        )
    return replace(found, earlier=tuple(earlier))


def check_public_name(name: str) -> str:
    """The name, which is then a page's. Raises ValueError, whose message says what one may look like."""
    taken = name.lower() in RESERVED or re.search(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}$", name)
    if not PUBLIC_NAME.fullmatch(name) or len(name) > LONGEST_NAME or taken:
        raise ValueError(
            f"a machine's public name is made of letters, digits and single dashes, dots or underscores between them, "
            f"at most {LONGEST_NAME} of them, is not {' or '.join(RESERVED)}, and does not end as a run's name does"
        )
    return name


def _id(found: str) -> str:
    """The run's id, or where somebody gave it another than `uuid4().hex`, one made of it."""
    return (
        found
        if re.fullmatch(r"[0-9a-f]{8,32}", found)
        else hashlib.sha256(found.encode("utf-8", "replace")).hexdigest()[:32]
    )


def _date(found: str) -> str:
    """A date of ISO 8601 in UTC, which tells no time zone; the epoch for what is none."""
    try:
        return datetime.fromisoformat(found).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return "1970-01-01T00:00:00+00:00"


def _machine(found: Mapping[str, Any], public_name: str) -> dict[str, Any]:
    kept = publishable(found, MACHINE_FIELDS)
    return {"name": public_name or _name(kept), **kept}


def _name(kept: Mapping[str, Any]) -> str:
    """As `machine.name` made it when the run began, of what is published anyway."""
    cards = [dict(card) for card in kept.get("gpus", ()) if isinstance(card, Mapping)]
    limits = [kept.get(key) for key in ("cores", "physical_cores", "quota_cores")]
    cores = [limit for limit in limits if isinstance(limit, int | float)]
    memory = kept.get("memory_bytes")
    return hardware_name(
        str(kept.get("cpu", UNAVAILABLE)) if kept.get("cpu") not in (UNAVAILABLE, DENIED) else "machine",
        str(kept.get("microarchitecture", UNAVAILABLE)),
        max(1, int(min(cores))) if cores else UNAVAILABLE,
        int(memory) if isinstance(memory, int | float) and memory > 0 else UNAVAILABLE,
        cards,
    )[:LONGEST_NAME].strip("-")


def _tip(info: PairInfo) -> KnownTip | None:
    return known(str(info.tip.get("id")), info.pair)


def _is_known(name: str) -> bool:
    tip, _, pair = name.partition(".")
    return known(tip, pair) is not None


def _record(run: Run, record: Record) -> Record | None:
    """The record of one of the suite's pairs; None of any other, and of one with variants the suite does not know."""
    tip = _tip(record.info)
    if tip is None:
        return None
    names = {variant.name for variant in record.info.variants} | set(record.variants)
    names |= {name for launch in record.launches for name in launch.variant}
    if not all(map(tip.variant, names)):
        return None
    return Record(
        info=_info(record.info, tip),
        outcome=_outcome(record.outcome),
        why=_why(record.why, tip),
        steps=record.steps,
        variants={name: _variant(found, tip) for name, found in record.variants.items()},
        launches=tuple(map(_launch, record.launches)),
        wall_s=number(record.wall_s) or 0.0,
    )


def _outcome(found: str) -> Outcome:
    """What `store.read` lets through, which is one of these."""
    return "measured" if found == "measured" else "skipped" if found == "skipped" else "failed"


def _info(info: PairInfo, tip: KnownTip) -> PairInfo:
    return PairInfo(
        tip=tip.about,
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
        worded=info.worded if tip.variant(info.worded) else "",
        job=info.job if info.job.removeprefix(f"{tip.about['id']}.") in tip.words else "",
        code=_code(info, tip),
    )


def _code(info: PairInfo, tip: KnownTip) -> Mapping[str, str]:
    """The code that was measured where the suite's file says the same; else none."""
    return info.code if info.code == tip.code(info.pair) else {}


def _variant(found: VariantRecord, tip: KnownTip) -> VariantRecord:
    return VariantRecord(
        _outcome(found.outcome),
        _why(found.why, tip),
        equal=fields(found.equal, EQUAL),
        mechanism=_mechanism(found.mechanism, tip),
        memory=numbers(MEMORY)(found.memory),
        one_off=numbers("build|warm_up")(found.one_off),
        energy=numbers("joules_a_step")(found.energy),
        work=numbers("flops|bytes")(found.work),
        trainings=found.trainings,  # numbers alone
    )


def _why(found: Reason | None, tip: KnownTip) -> Reason | None:
    """The code and the fields of a reason. Of a code that is not known, at most the kind of failure."""
    if found is None:
        return None
    if found.code not in SENTENCES:
        kind = found.code.partition(".")[0]
        return Reason(f"{kind if any(code.partition('.')[0] == kind for code in SENTENCES) else NEEDS}.withheld")
    words = tip.words | FIELD_WORDS
    kept = {
        name: item
        for name, item in found.fields.items()
        if name in field_names(found.code) and (measured(item) is not None or _of_words(str(item), words))
    }
    return Reason(found.code, kept)


def _mechanism(found: Mapping[str, Any], tip: KnownTip) -> dict[str, Any]:
    if not found:
        return {}
    what = found.get("what")
    sides = {side: _counted(found.get(side), tip) for side in ("baseline", "optimized")}
    return {"what": what if what in tip.counts else "count", **sides, "engaged": flag(found.get("engaged"))}


def _counted(found: Any, tip: KnownTip, depth: int = 0) -> Any:
    """What a mechanism counted: numbers, and text of the words of the tip's own file."""
    if isinstance(found, bool) or measured(found) is not None:
        return found
    if isinstance(found, str):
        return found if _of_words(found, tip.words) else "not published"
    if isinstance(found, Mapping) and found.keys() == {"unseen"}:
        return {"unseen": BLIND if found["unseen"] == BLIND else WITHHELD}
    if isinstance(found, Mapping) and depth < 3:
        return {key: _counted(item, tip, depth + 1) for key, item in found.items() if _of_words(str(key), tip.words)}
    if isinstance(found, list | tuple) and depth < 3:
        return [_counted(item, tip, depth + 1) for item in found[:100]]
    return None


def _of_words(text: str, words: Iterable[str]) -> bool:
    """Whether text is made of these words and of small numbers, and is no path and no address."""
    if len(text) > 100 or re.search(r"[^\w ,:;=+\[\]().%-]|\d\.\d+\.|\d{9}", text, re.ASCII):
        return False
    return set(WORD.findall(text)) <= set(words)


def _launch(launch: Launch) -> Launch:
    kept = {name: column for name, column in launch.gpu.items() if name in GPU_READINGS}
    return replace(launch, gpu=kept, card=numbers(JOB_CARD)(launch.card))
