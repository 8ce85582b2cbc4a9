"""The results of a run: one `Result` a pair, variant and device, from its records."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.records.record import PairInfo, Record, Run, VariantRecord
from tipbench.records.trainings import Trainings, read_trainings
from tipbench.report.result import READINGS, Result
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.source import source_digest
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
    """All rows of a run as planned, without skipped operations of tips whose jobs are to come: they may need no GPU."""
    place = {name: index for index, name in reversed(list(enumerate(run.planned)))}
    tried = {of.name.partition(".")[0] for of in run.records if of.outcome != "skipped" or of.info.scale == "macro"}
    later = {name.partition(".")[0] for name in place.keys() - {record.name for record in run.records}} - tried
    kept = (record for record in run.records if record.name.partition(".")[0] not in later)
    records = sorted(kept, key=lambda record: place.get(record.name, len(place)))
    return [
        _result(judgement, run, sessions)
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


def _result(judgement: Judgement, run: Run, sessions: Mapping[str, tuple[Mean, ...]]) -> Result:
    record, variant = judgement.record, judgement.variant_record
    info, baseline = record.info, record.variants.get("baseline", VariantRecord(record.outcome))
    work = json.dumps([info.source or run.commit, info.sizes, info.flush_l2], sort_keys=True)
    is_measured = judgement.verdict not in ("skipped", "failed")
    readings = READINGS if info.device == "cuda" and is_measured else ()
    one_off = math.fsum(baseline.one_off.values()), math.fsum(variant.one_off.values())
    return Result(
        tip=info.tip.id,
        about=info.tip,
        pair=info.pair,
        scale=info.scale,
        variant=judgement.variant,
        device=info.device,
        is_headline=judgement.variant == (info.worded or "optimized"),
        task=info.task,
        job=info.job,
        sizes=json.dumps(info.sizes, sort_keys=True),
        ranks=next((each.settings.ranks for each in info.variants if each.name == judgement.variant), 1),
        file=info.file,
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
        step_s=_step_s(record) if is_measured else None,
        baseline_memory=baseline.memory,
        variant_memory=variant.memory,
        one_off_sides=one_off if baseline.one_off and variant.one_off else None,
        mechanism=variant.mechanism,
        equal=variant.equal,
        sessions=sessions.get(judgement.variant, ()),
        trainings=_trainings(info, judgement.variant, run.folder) if variant.outcome == "measured" else None,
        gpu={name: gpu_medians(record, judgement.variant, name) for name in readings},
        job_profile=record.launches[0].card if record.launches else {},
        reasons=judgement.reasons,
        reason=reasons_text(judgement.reasons),
        remedy=remedies(judgement.reasons),
    )


def _trainings(info: PairInfo, variant: str, folder: str) -> tuple[Trainings, Trainings] | None:
    """Of both sides, from the table that the pair's tip names; runs until November 2026 name none. None where there is
    none, as of pairs that lie elsewhere now, and where the pair had other code: its steps are other ones. Runs until
    28 November 2026 do not say which. folder: of the run's pairs; empty for the guides' own."""
    root = Path(folder) if folder else BENCHMARKS
    file = root.parent / info.file
    try:
        counted = read_trainings(file.with_name(info.tip.evidence or f"{file.stem}.toml")).get(info.pair, {})
    except (OSError, ValueError):
        return None
    is_of_other_code = info.source and info.source != source_digest(file, root)
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
