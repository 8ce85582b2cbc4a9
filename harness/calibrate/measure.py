"""From a case to its comparison: what the engine says, beside what is true.

Only launches are made for what is compared in time: the checks of equal work and the memory pass come
before them in a run and change nothing in them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tipbench.calibrate.noise import noise
from tipbench.calibrate.plan import Case
from tipbench.calibrate.stored import Comparison
from tipbench.calibrate.timer import Task, other, seconds_a_step
from tipbench.engine.handle import WorkerFailed
from tipbench.engine.launcher import Launcher
from tipbench.engine.profiles import Profile
from tipbench.engine.runner import Start, launch_once, measure_memory
from tipbench.machine.controls import environment
from tipbench.records.record import Launch, PairInfo, Record, VariantRecord
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.process import ProcessSettings
from tipbench.verdict.verdict import judge, launch_effect, undecided

PROCESSES = 6
"""Processes that each timer gets, so that the spread between processes is known."""


def measured(
    case: Case, repetition: int, launcher: Launcher, profile: Profile, seed: int, cores: int, commit: str
) -> Comparison:
    """Measure one case. Never raises for what happens to it: that is then the comparison's `failed`."""
    began = time.monotonic()
    found: dict[str, Any]
    try:
        with noise(seed) if case.loaded else nullcontext():
            if case.part == "memory":
                found = _memory(case, launcher, seed)
            elif case.part == "timer":
                found = _timed(case, launcher, profile, seed)
            else:
                found = _compared(case, launcher.start, profile, seed, cores)
    except WorkerFailed as failure:
        found = {"failed": str(failure)}
    return Comparison(
        case=case.name,
        part=case.part,
        pair=case.pair.name,
        repetition=repetition,
        loaded=case.loaded,
        seed=seed,
        commit=commit,
        wall_s=round(time.monotonic() - began, 3),
        truth=case.truth,
        **found,
    )


def _compared(case: Case, start: Start, profile: Profile, seed: int, cores: int) -> dict[str, Any]:
    record = launches(case.pair, start, profile, seed, cores)
    (judged,) = judge(record, profile.looks, cores)
    return {
        "steps": record.steps,
        "effects": tuple(launch_effect(launch, judged.variant, cores)[0] for launch in record.launches),
        "quarantined": judged.quarantined,
        "verdict": judged.verdict,
        "speedup": judged.speedup,
        "low": judged.low,
        "high": judged.high,
    }


def launches(info: PairInfo, start: Start, profile: Profile, seed: int, cores: int) -> Record:
    """Launch a pair until it is decided, as a run does. Raises WorkerFailed."""
    record = Record(info, "measured")
    while undecided(record, profile.looks, cores):
        record = _with_one_more(record, start, profile, seed)
    return record


def _with_one_more(record: Record, start: Start, profile: Profile, seed: int) -> Record:
    number = len(record.launches)
    steps, launch = launch_once(record.info, record.info.variants, start, profile, seed + number, record)
    return replace(record, steps=steps, launches=(*record.launches, launch))


def _memory(case: Case, launcher: Launcher, seed: int) -> dict[str, Any]:
    able = case.pair.variants
    checked = {variant.name: VariantRecord("measured") for variant in able}
    found = measure_memory(case.pair, able, launcher.start, seed, checked)
    for memory in found.values():
        if memory.why:
            raise WorkerFailed(memory.why)
    return {
        "planted_bytes": case.pair.sizes["mib"] << 20,
        "memory": {name: memory.memory for name, memory in found.items()},
    }


def _timed(case: Case, launcher: Launcher, profile: Profile, seed: int) -> dict[str, Any]:
    """One launch and one process of the other timer in turns, so that a drift of the machine hits both alike."""

    def fresh(info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None) -> Any:
        # The other timer's processes are not forked, so the harness's are not either.
        return launcher.start(info, settings, cache)

    info, record = case.pair, Record(case.pair, "measured")
    env = environment(launcher.controls, ProcessSettings())
    timer, theirs = other(info), []
    for number in range(PROCESSES):
        record = _with_one_more(record, fresh, profile, seed)
        task = Task(
            file=str(BENCHMARKS.parent / info.file),
            folder=str(BENCHMARKS),
            pair=info.pair,
            device=info.device,
            variant="baseline",
            seed=seed + number,
            timer=timer,
        )
        theirs.append(seconds_a_step(task, env, launcher.scratch, info.deadline))
    ours = [_seconds_a_step(launch, record.steps) for launch in record.launches]
    return {"steps": record.steps, "seconds": {"harness": tuple(ours), timer: tuple(theirs)}}


def _seconds_a_step(launch: Launch, steps: int) -> float:
    """The median of the baseline's blocks, as a report gives a step's time."""
    blocks: Sequence[float] = [
        seconds for name, seconds in zip(launch.variant, launch.seconds, strict=True) if name == "baseline"
    ]
    return statistics.median(blocks) / steps
