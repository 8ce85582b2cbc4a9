"""`tipbench advise BEFORE.json AFTER.json`: whether a job got slower, and in which part of its step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tipbench.advise.folder import read_json
from tipbench.advise.job_words import PHASE_NAMES
from tipbench.advise.surveyed import NoJob
from tipbench.given.diagnosis import NOT_DIAGNOSED, Diagnosis
from tipbench.records.fields import Number, Seconds
from tipbench.tip.wording import plural, ratio, seconds
from tipbench.verdict.rules import MARGIN
from tipbench.verdict.statistics import difference, student

_LEAST = 3
"""Launches of each: fewer show nothing of how far launches are apart."""


@dataclass(frozen=True)
class StoredAdvice:
    """What is read of an advice, as `page.AdvicePage` has it."""

    job: str
    machine: str
    launch_step_s: list[Seconds]
    phases: dict[str, Number] = field(default_factory=dict)
    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis(NOT_DIAGNOSED))


def compare_advices(before_file: Path, after_file: Path) -> list[str]:
    """Sentences for a person. Raises NoJob where the two cannot be compared."""
    before, after = (read_json(file, StoredAdvice) for file in (before_file, after_file))
    if before.machine != after.machine:
        raise NoJob(f"the two are of {before.machine} and of {after.machine}: a step takes another time on each")
    for file, advice in ((before_file, before), (after_file, after)):
        if len(advice.launch_step_s) < _LEAST:
            raise NoJob(
                f"{file} has {plural(len(advice.launch_step_s), 'launch')} of the job: give it a longer --budget"
            )
    times = [student(list(map(math.log, advice.launch_step_s))) for advice in (after, before)]
    effect = difference(*times)
    low, high = (math.exp(end) for end in effect.interval())
    word = "faster" if low > math.exp(MARGIN) else "slower" if high < math.exp(-MARGIN) else "no difference is certain"
    steps = [median(advice.launch_step_s) for advice in (before, after)]
    launches = " and ".join(str(len(advice.launch_step_s)) for advice in (before, after))
    lines = [
        f"{before.job}: a step took {seconds(steps[0])}, and takes {seconds(steps[1])}: {word}, "
        f"{ratio(math.exp(effect.mean), low, high)} over {launches} launches."
    ]
    lines += [f"  {line}" for line in _phases(before.phases, after.phases)]
    if str(before.diagnosis) != str(after.diagnosis):
        lines.append(f"Where the time goes: {before.diagnosis}; now {after.diagnosis}.")
    return lines


def _phases(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Of each phase that both know, the time before and after, those first that changed most."""
    both = sorted(before.keys() & after.keys(), key=lambda phase: -abs(after[phase] - before[phase]))
    return [f"{PHASE_NAMES.get(phase, phase)}: {seconds(before[phase])} -> {seconds(after[phase])}" for phase in both]
