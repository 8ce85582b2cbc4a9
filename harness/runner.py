"""Measures pairs: which passes, in what order, when to stop. Yields records and prints nothing."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from harness.launch import Surroundings
from harness.pair import Equal
from harness.profiles import Profile
from harness.record import Launch, PairInfo, Record, VariantInfo, VariantRecord
from harness.scratch import scratch_folder
from harness.verdict import undecided
from harness.worker import Asked, WorkerFailed

CHECK_SEEDS = 3
"""Fresh random inputs that both sides' outputs are compared on."""


class Start(Protocol):
    """Starts a worker for a pair in given surroundings, with the compile cache of the given name.

    launch: the launch it belongs to, whose workers may be forked from one process; None: a process
    that has never been another.
    """

    def __call__(self, info: PairInfo, surroundings: Surroundings, cache: str, launch: int | None = None) -> Asked: ...


Tell = Callable[[str], None]
"""Told what begins, only between blocks: whatever it draws costs no measured time."""


def run(
    pairs: Sequence[PairInfo],
    start: Start,
    profile: Profile,
    seed: int,
    cores: int,
    tell: Callable[[int, str], None],
    broken: Mapping[str, Record] | None = None,
) -> Iterator[Record]:
    """Measure the pairs in order, yielding each record as it stands. `tell` gets the pair's index.

    broken: by name, the records of files that could not be imported: they stand already.
    """
    for index, info in enumerate(pairs):
        standing = (broken or {}).get(info.name)
        yield standing or measure(info, start, profile, seed, cores, partial(tell, index))


def measure(info: PairInfo, start: Start, profile: Profile, seed: int, cores: int, tell: Tell) -> Record:
    """One pair from check to last launch. Never raises for what the pair does: that is its record."""
    began = time.monotonic()
    record = _measured(info, start, profile, seed, cores, tell)
    return replace(record, wall_s=round(time.monotonic() - began, 3))


def _measured(info: PairInfo, start: Start, profile: Profile, seed: int, cores: int, tell: Tell) -> Record:
    if info.reason:
        return Record(info, "skipped", reason=info.reason, remedy=info.remedy)
    variants = {
        variant.name: VariantRecord("skipped", reason=variant.reason, remedy=variant.remedy)
        for variant in info.variants
        if variant.reason
    }
    if "baseline" in variants or len(variants) == len(info.variants) - 1:
        lacking = next(variant for variant in info.variants if variant.reason)
        return Record(info, "skipped", reason=lacking.reason, remedy=lacking.remedy, variants=variants)
    try:
        tell("check")
        variants |= check(info, _able(info, variants), start, seed)
        if len(_able(info, variants)) > 1:
            tell("memory")
            variants |= weigh(info, _able(info, variants), start, seed, variants)
        able = _able(info, variants)
        if len(able) == 1:
            failed = next(found for found in variants.values() if found.outcome == "failed")
            return Record(info, "failed", failed.kind, failed.reason, failed.remedy, variants=variants)
        record = Record(info, "measured", variants=variants)
        while open_names := undecided(record, profile.looks, cores):
            tell(f"launch {len(record.launches) + 1}")
            going_on = [variant for variant in able if variant.name in ("baseline", *open_names)]
            steps, launch = launch_once(info, going_on, start, profile, seed + len(record.launches), record)
            record = replace(record, steps=steps, launches=(*record.launches, launch))
        return record
    except WorkerFailed as failure:
        return Record(info, "failed", failure.kind, failure.reason, _remedy(info), variants=variants)


def _able(info: PairInfo, variants: Mapping[str, VariantRecord]) -> list[VariantInfo]:
    """The variants that can still be measured, the baseline first."""
    return [
        variant
        for variant in info.variants
        if variant.name not in variants or variants[variant.name].outcome == "measured"
    ]


def _remedy(info: PairInfo) -> str:
    return f"mend {Path(info.file).name}, line {info.line}, then `tipbench run {info.name}`"


def _failed(info: PairInfo, failure: WorkerFailed) -> VariantRecord:
    return VariantRecord("failed", failure.kind, failure.reason, _remedy(info))


def check(info: PairInfo, able: Sequence[VariantInfo], start: Start, seed: int) -> dict[str, VariantRecord]:
    """Equal work and mechanism of every variant. Raises WorkerFailed only for the baseline.

    A variant that fails takes its worker with it, and the next gets a fresh one: what a failure
    leaves behind must not fail, or help, the others.
    """
    seeds = [seed + index for index in range(CHECK_SEEDS)]
    baseline, *others = able
    found = {}
    folder = scratch_folder()
    file = str(folder / "baseline.pt")

    workers: dict[Surroundings, Asked] = {}

    def worker_in(surroundings: Surroundings) -> Asked:
        if surroundings not in workers:
            workers[surroundings] = start(info, surroundings, f"warm-{info.name}", launch=0)
        return workers[surroundings]

    try:
        for variant in able:  # all import torch at once
            worker_in(variant.surroundings)
        worker = worker_in(baseline.surroundings)
        worker.ask("results", variant="baseline", seeds=seeds, file=file)
        count = worker.ask("observe", variant="baseline", seed=seed)
        found["baseline"] = VariantRecord("measured", work=worker.ask("work", seed=seed))
        for variant in others:
            worker = worker_in(variant.surroundings)
            try:
                found[variant.name] = _check_variant(info, worker, variant.name, seeds, file, count)
            except WorkerFailed as failure:
                found[variant.name] = _failed(info, failure)
                workers.pop(variant.surroundings).end()
    finally:
        for worker in workers.values():
            worker.end()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _check_variant(
    info: PairInfo, worker: Asked, variant: str, seeds: Sequence[int], file: str, baseline_count: object
) -> VariantRecord:
    if info.equal == Equal.LOSSY:
        worker.ask("results", variant="reference", seeds=seeds)
    worker.ask("results", variant=variant, seeds=seeds)
    equal = worker.ask("compare", variant=variant, baseline_file=file)
    count = worker.ask("observe", variant=variant, seed=seeds[0])
    engaged = worker.ask("engaged", baseline=baseline_count, optimized=count)
    mechanism = {"what": engaged["what"], "baseline": baseline_count, "optimized": count, "engaged": engaged["engaged"]}
    if not engaged["engaged"]:
        raise WorkerFailed("not engaged", f"{variant}: {engaged['what']}: {baseline_count} -> {count}")
    return VariantRecord("measured", equal=equal, mechanism=mechanism)


def weigh(
    info: PairInfo, able: Sequence[VariantInfo], start: Start, seed: int, checked: Mapping[str, VariantRecord]
) -> dict[str, VariantRecord]:
    """Memory and one-off costs, one fresh process a variant, with empty compile caches."""
    found: dict[str, VariantRecord] = {}
    workers: dict[str, Asked] = {}

    def told(variant: VariantInfo, failure: WorkerFailed) -> None:
        if variant.name == "baseline":
            raise failure
        found[variant.name] = _failed(info, failure)

    try:
        # All import torch at once, each on a core of its own, before anything is timed.
        for variant in able:
            workers[variant.name] = start(info, variant.surroundings, f"cold-{info.name}-{variant.name}")
        for variant in able:
            try:
                workers[variant.name].ready()
            except WorkerFailed as failure:
                told(variant, failure)
        for variant in able:
            if variant.name in found:
                continue
            try:
                weighed = workers[variant.name].ask("weigh", variant=variant.name, seed=seed)
                found[variant.name] = replace(checked[variant.name], **weighed)
            except WorkerFailed as failure:
                told(variant, failure)
            workers[variant.name].end()
    finally:
        for worker in workers.values():
            worker.end()
    return found


def launch_once(
    info: PairInfo, able: Sequence[VariantInfo], start: Start, profile: Profile, seed: int, record: Record
) -> tuple[int, Launch]:
    """One launch: fresh processes, warm-up, then rounds. Returns (steps a block, the launch).

    The first launch settles the steps a block and the number of rounds for all.
    """
    names = [variant.name for variant in able]
    workers: dict[Surroundings, Asked] = {}
    # Where a tip changes the surroundings, no side is forked: the pages a forked worker shares with its
    # server would be a difference that is not the tip's.
    alike = len({variant.surroundings for variant in info.variants}) == 1
    try:
        for variant in able:
            if variant.surroundings not in workers:
                workers[variant.surroundings] = start(
                    info, variant.surroundings, f"warm-{info.name}", launch=len(record.launches) if alike else None
                )
        home = {variant.name: workers[variant.surroundings] for variant in able}
        # Nothing is timed yet: processes of their own build at once.
        for name in names:
            home[name].begin("build", variant=name, seed=seed)
        for name in names:
            home[name].finish()
        step_s = {name: home[name].ask("warm", variant=name)["step_s"] for name in names}
        fastest = min(names, key=step_s.__getitem__)
        steps = record.steps or steps_a_block(home[fastest], fastest, step_s[fastest], profile.block_s)
        rounds = (
            len(record.launches[0].variant) // (2 * len(set(record.launches[0].variant)))
            if record.launches
            else profile.rounds_for(info.scale, 2 * (steps + 1) * sum(step_s.values()))
        )
        timed = [
            {"variant": name, **_alone(home[name], workers.values(), name, steps)}
            for name in schedule(names, rounds, seed)
        ]
    finally:
        for worker in workers.values():
            worker.end()
    return steps, Launch.of_blocks(seed, timed)


def _alone(worker: Asked, all_workers: Collection[Asked], variant: str, steps: int) -> dict[str, Any]:
    """One block, while the launch's other processes stand still.

    OpenMP's threads spin for milliseconds after their last step (Intel's for 200), on the cores that
    the next process's block needs.
    """
    for other in all_workers:
        if other is not worker:
            other.pause()
    try:
        block: dict[str, Any] = worker.ask("block", variant=variant, steps=steps)
        return block
    finally:
        for other in all_workers:
            if other is not worker:
                other.go_on()


def steps_a_block(worker: Asked, variant: str, step_s: float, block_s: float) -> int:
    """How many steps make a block of `block_s` seconds, tried out.

    A warm-up in a disturbed moment makes steps look long, and too short blocks would stay for all
    launches: the fastest of three blocks must last long enough.
    """
    steps = max(1, math.ceil(block_s / step_s))
    for _ in range(5):
        fastest = min(worker.ask("block", variant=variant, steps=steps)["seconds"] for _ in range(3))
        if fastest >= block_s:
            break
        steps = max(steps + 1, math.ceil(steps * 1.1 * block_s / fastest))
    return steps


def schedule(names: Sequence[str], rounds: int, seed: int) -> list[str]:
    """Whose block comes when: each round a random order and then its mirror.

    With two variants that is ABBA or BAAB: a drift that is linear over a round cancels.
    """
    order = random.Random(seed)
    listed = []
    for _ in range(rounds):
        half = order.sample(names, len(names))
        listed += half + half[::-1]
    return listed
