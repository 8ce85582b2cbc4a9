"""The results of a run: one `Result` a pair, variant and device, from its records.

`tipbench.report.table` makes a pandas table of any number of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.records.fields import LARGEST, StoredTip, convert
from tipbench.records.record import PairInfo, Record, Run, VariantRecord
from tipbench.records.store import folder_name
from tipbench.records.trainings import Trainings, read_trainings
from tipbench.report.result import JOULES, LIMIT_PAIRS, READINGS, Result, Share, Sides, steps_to_pay
from tipbench.suite.files import BENCHMARKS, file_text
from tipbench.suite.source import sides
from tipbench.tip.pair import CONTROL
from tipbench.tip.reason import reasons_text, remedies
from tipbench.verdict import rules
from tipbench.verdict.launches import gpu_medians
from tipbench.verdict.statistics import Mean
from tipbench.verdict.verdict import Judgement, judge


@dataclass(frozen=True)
class Counts:
    """How the planned pairs ended; planned is the sum of the four others."""

    planned: int
    measured: int
    skipped: int
    failed: int
    not_reached: int


def results(run: Run) -> list[Result]:
    """All rows of a run in the order in which its pairs were planned."""
    place = {name: index for index, name in reversed(list(enumerate(run.planned)))}
    records = sorted(run.records, key=lambda record: place.get(record.name, len(place)))
    rates = _rates(records)
    return [
        _result(judgement, run, sessions, rates)
        for record in records
        for sessions in [_sessions(record, run.cores)]
        for judgement in judge(record, rules.RULES, run.cores)
    ]


def counts(run: Run) -> Counts:
    """Records beyond the plan (a file edited by hand) count as planned, so that the sum holds."""
    outcomes = Counter(record.outcome for record in run.records)
    missing = Counter(run.planned) - Counter(record.name for record in run.records)
    reached, not_reached = len(run.records), missing.total()
    return Counts(reached + not_reached, outcomes["measured"], outcomes["skipped"], outcomes["failed"], not_reached)


def _sessions(record: Record, cores: int) -> dict[str, tuple[Mean, ...]]:
    """By variant, what each session says of its time, in order; {} where one session has all launches."""
    numbers = sorted({launch.session for launch in record.launches})
    means: dict[str, tuple[Mean, ...]] = {}
    for number in numbers if len(numbers) > 1 else ():
        launches = tuple(launch for launch in record.launches if launch.session == number)
        for judged in judge(replace(record, launches=launches), rules.RULES, cores):
            if judged.mean and not judged.is_of_clock:
                means[judged.variant] = (*means.get(judged.variant, ()), judged.mean)
    return means


def _result(
    judgement: Judgement,
    run: Run,
    sessions: Mapping[str, tuple[Mean, ...]],
    rates: Mapping[tuple[str, str], float],
) -> Result:
    record, variant = judgement.record, judgement.variant_record
    info, baseline = record.info, _baseline(record)
    work = json.dumps([info.code, info.sizes, info.flush_l2], sort_keys=True)
    is_measured = judgement.verdict not in ("skipped", "failed")
    step_s = _step_s(record) if is_measured else None
    one_off = [math.fsum(side.one_off.values()) if side.one_off else None for side in (baseline, variant)]
    return Result(
        run_id=run.id,
        started=run.started,
        suite=run.suite,
        commit=run.commit,
        machine=folder_name(run.machine),
        tip=info.tip["id"],
        about=convert(info.tip, StoredTip),
        pair=info.pair,
        scale=info.scale,
        variant=judgement.variant,
        device=info.device,
        is_headline=judgement.variant == (info.worded or "optimized"),
        task=info.task,
        job=info.job,
        sizes=json.dumps(info.sizes, sort_keys=True),
        file=info.file,
        line=info.line,
        code=info.code,
        cold=info.flush_l2,
        work=hashlib.sha256(work.encode()).hexdigest()[:16],
        verdict=judgement.verdict,
        speedup=judgement.speedup,
        low=judgement.low,
        high=judgement.high,
        launches=len(judgement.effects),
        effects=judgement.effects,
        error=judgement.mean.error if judgement.mean and not judgement.is_of_clock else None,
        freedom=judgement.mean.freedom if judgement.mean else None,
        quarantined=judgement.quarantined,
        truth=info.truth.get(judgement.variant),
        step_s=step_s,
        baseline_memory=baseline.memory,
        variant_memory=variant.memory,
        baseline_one_off_s=one_off[0],
        variant_one_off_s=one_off[1],
        break_even_steps=_break_even(judgement, step_s, *one_off) if is_measured else None,
        mechanism=variant.mechanism,
        equal=variant.equal,
        sessions=sessions.get(judgement.variant, ()),
        trainings=_trainings(info, judgement.variant, run.folder) if variant.outcome == "measured" else None,
        gpu=_gpu(judgement) if info.device == "cuda" and is_measured else {},
        limits=_limits(judgement, step_s, rates),
        job_profile=record.launches[0].card if record.launches else {},
        reasons=judgement.reasons,
        reason=reasons_text(judgement.reasons),
        remedy=remedies(judgement.reasons),
    )


def _baseline(record: Record) -> VariantRecord:
    return record.variants.get("baseline", VariantRecord(record.outcome))


def _trainings(info: PairInfo, variant: str, folder: str) -> tuple[Trainings, Trainings] | None:
    """Of both sides, from the table that the pair's tip names; runs until November 2026 name none. None where there is
    none, as of pairs that lie elsewhere now, and where the pair had other code: its steps are other ones. folder: of
    the run's pairs; empty for the guides' own."""
    root = Path(folder) if folder else BENCHMARKS
    file = root.parent / info.file
    try:
        counted = read_trainings(file.with_name(info.tip.get("evidence", f"{file.stem}.toml"))).get(info.pair, {})
    except (OSError, ValueError):
        return None
    is_of_other_code = info.code and info.code != sides(file_text(file), info.pair)
    if is_of_other_code or not {"baseline", variant} <= counted.keys():
        return None
    return counted["baseline"], counted[variant]


def _step_s(record: Record) -> float | None:
    blocks = [
        seconds
        for launch in record.launches
        for variant, seconds in zip(launch.variant, launch.seconds, strict=True)
        if variant == "baseline"
    ]
    return statistics.median(blocks) / record.steps if blocks else None


def _break_even(
    judgement: Judgement, step_s: float | None, before_s: float | None, after_s: float | None
) -> int | None:
    if judgement.verdict != "faster" or judgement.speedup is None:
        return None
    if step_s is None or before_s is None or after_s is None:
        return None
    steps = steps_to_pay(after_s - before_s, before_s, step_s - step_s / judgement.speedup)
    return steps if steps < LARGEST else None  # a file may say anything, and a column of the table holds no more


def _gpu(judgement: Judgement) -> dict[str, Sides | None]:
    """What a GPU's driver reported of both sides."""
    readings = {name: gpu_medians(judgement.record, judgement.variant, name) for name in READINGS}
    joules = [
        side.energy[JOULES] for side in (_baseline(judgement.record), judgement.variant_record) if JOULES in side.energy
    ]
    return {**readings, JOULES: (joules[0], joules[1]) if len(joules) == 2 else None}


def _rates(records: Sequence[Record]) -> dict[tuple[str, str], float]:
    """By kind of work and device, how much of it a second brings at most, by the controls that this run measured."""
    return {
        (kind, record.info.device): work / step_s
        for record in records
        for kind, pair in LIMIT_PAIRS.items()
        if record.name == f"{CONTROL}.{pair}" and record.outcome == "measured"
        if (step_s := _step_s(record)) and (work := _baseline(record).work.get(kind))
    }


def _limits(judgement: Judgement, step_s: float | None, rates: Mapping[tuple[str, str], float]) -> dict[str, Share]:
    if not step_s or not judgement.speedup:
        return {}
    after_s = step_s / judgement.speedup
    return {
        kind: Share(work / step_s / rate, work / after_s / rate, rate)
        for kind in LIMIT_PAIRS
        if (rate := rates.get((kind, judgement.record.info.device)))
        if (work := _baseline(judgement.record).work.get(kind))
    }
