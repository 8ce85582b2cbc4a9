"""Measures pairs: which passes, in what order, when to stop. Yields what has been learnt, and prints nothing."""

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

from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.engine.profiles import Profile
from tipbench.engine.scratch import scratch_folder
from tipbench.records.record import Launch, PairInfo, Record, VariantInfo, VariantRecord
from tipbench.tip.pair import Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.verdict.rules import RULES_2, Rules
from tipbench.verdict.verdict import undecided

CHECK_SEEDS = 3
"""Fresh random inputs that both sides' outputs are compared on."""


class Start(Protocol):
    """Starts a worker for a pair in given process settings, with the compile cache of the given name.

    launch: the launch it belongs to, whose workers may be forked from one process; None: a process
    that has never been another.
    """

    def __call__(
        self, info: PairInfo, settings: ProcessSettings, cache: str, launch: int | None = None
    ) -> WorkerHandle: ...


Show = Callable[[str], None]
"""Called with what begins, only between blocks: whatever it draws costs no measured time."""


def run(
    pairs: Sequence[PairInfo],
    start: Start,
    profile: Profile,
    seed: int,
    cores: int,
    show: Callable[[int, str], None],
    broken: Mapping[str, Record] | None = None,
    begun: Mapping[str, Record] | None = None,
    rules: Rules = RULES_2,
) -> Iterator[tuple[int, Record]]:
    """Measure the pairs in order. Yields a pair's index with its record as `learnt` does. `show` gets the index too.

    broken: by name, the records of files that could not be imported, complete already. begun: by name, the records of
    pairs that were interrupted. rules: by which a pair is decided.
    """
    for index, info in enumerate(pairs):
        if info.name in (broken or {}):
            yield index, (broken or {})[info.name]
            continue
        before = (begun or {}).get(info.name)
        for record in learnt(info, start, profile, seed, cores, partial(show, index), before, rules):
            yield index, record


def measure(
    info: PairInfo, start: Start, profile: Profile, seed: int, cores: int, show: Show, rules: Rules = RULES_2
) -> Record:
    """One pair from check to last launch. Never raises for what the pair does: that is its record."""
    *_, record = learnt(info, start, profile, seed, cores, show, rules=rules)
    return record


def learnt(
    info: PairInfo,
    start: Start,
    profile: Profile,
    seed: int,
    cores: int,
    show: Show,
    begun: Record | None = None,
    rules: Rules = RULES_2,
) -> Iterator[Record]:
    """A pair's record once its checks and its memory are known, and after each launch; the last is complete.

    begun: a record that was not completed, with what was learnt before. It is gone on with where the pair is still the
    same, its code included; else the pair is measured anew.
    """
    began = time.monotonic()
    before_s = 0.0
    if begun is not None and begun.launches and begun.info == info:
        record, before_s = begun, begun.wall_s
    else:
        record = _checked(info, start, seed, show)
        yield replace(record, wall_s=round(time.monotonic() - began, 3))
    try:
        while record.outcome == "measured" and (open_names := undecided(record, rules, cores)):
            show(f"launch {len(record.launches) + 1}")
            measurable = _measurable(info, record.variants)
            continuing = [variant for variant in measurable if variant.name in ("baseline", *open_names)]
            steps, launch = launch_once(info, continuing, start, profile, seed + len(record.launches), record)
            wall_s = round(before_s + time.monotonic() - began, 3)
            record = replace(record, steps=steps, launches=(*record.launches, launch), wall_s=wall_s)
            yield record
    except WorkerFailed as failure:
        wall_s = round(before_s + time.monotonic() - began, 3)
        yield Record(info, "failed", _why(info, failure), variants=record.variants, wall_s=wall_s)


def complete(record: Record, rules: Rules, cores: int) -> bool:
    """Whether nothing more is to be learnt of a pair."""
    return record.outcome != "measured" or not undecided(record, rules, cores)


def _checked(info: PairInfo, start: Start, seed: int, show: Show) -> Record:
    """The record without launches: skipped or failed, or what the checks and the memory pass have found."""
    if info.why:
        return Record(info, "skipped", info.why)
    variants = {variant.name: VariantRecord("skipped", variant.why) for variant in info.variants if variant.why}
    if "baseline" in variants or len(variants) == len(info.variants) - 1:
        return Record(info, "skipped", next(variant.why for variant in info.variants if variant.why), variants=variants)
    try:
        show("check")
        variants |= check(info, _measurable(info, variants), start, seed)
        if len(_measurable(info, variants)) > 1:
            show("memory")
            variants |= measure_memory(info, _measurable(info, variants), start, seed, variants)
        measurable = _measurable(info, variants)
        if len(measurable) == 1:
            failed = next(found for found in variants.values() if found.outcome == "failed")
            return Record(info, "failed", failed.why, variants=variants)
        return Record(info, "measured", variants=variants)
    except WorkerFailed as failure:
        return Record(info, "failed", _why(info, failure), variants=variants)


def _measurable(info: PairInfo, variants: Mapping[str, VariantRecord]) -> list[VariantInfo]:
    """The variants that can still be measured, the baseline first."""
    return [
        variant
        for variant in info.variants
        if variant.name not in variants or variants[variant.name].outcome == "measured"
    ]


def _why(info: PairInfo, failure: WorkerFailed) -> Reason:
    fix = f"fix {Path(info.file).name}, line {info.line}, then `tipbench run {info.name}`"
    return replace(failure.why, fix=fix)


def _failed(info: PairInfo, failure: WorkerFailed) -> VariantRecord:
    return VariantRecord("failed", _why(info, failure))


def check(info: PairInfo, measurable: Sequence[VariantInfo], start: Start, seed: int) -> dict[str, VariantRecord]:
    """Equal work and mechanism of every variant. Raises WorkerFailed only for the baseline.

    A variant that fails takes its worker with it, and the next gets a fresh one: what a failure
    leaves behind must not fail, or help, the others.
    """
    seeds = [seed + index for index in range(CHECK_SEEDS)]
    baseline, *others = measurable
    found = {}
    folder = scratch_folder()
    file = str(folder / "baseline.pt")

    workers: dict[ProcessSettings, WorkerHandle] = {}

    def worker_in(settings: ProcessSettings) -> WorkerHandle:
        if settings not in workers:
            workers[settings] = start(info, settings, f"warm-{info.name}", launch=0)
        return workers[settings]

    try:
        for variant in measurable:  # all import torch at once
            worker_in(variant.settings)
        worker = worker_in(baseline.settings)
        worker.ask("results", variant="baseline", seeds=seeds, file=file)
        count = worker.ask("observe", variant="baseline", seed=seed)
        found["baseline"] = VariantRecord("measured", work=worker.ask("work", seed=seed))
        for variant in others:
            worker = worker_in(variant.settings)
            try:
                found[variant.name] = _check_variant(info, worker, variant.name, seeds, file, count)
            except WorkerFailed as failure:
                found[variant.name] = _failed(info, failure)
                workers.pop(variant.settings).end()
    finally:
        for worker in workers.values():
            worker.end()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _check_variant(
    info: PairInfo, worker: WorkerHandle, variant: str, seeds: Sequence[int], file: str, baseline_count: object
) -> VariantRecord:
    if info.equal in (Equal.REFERENCE, Equal.LOSSY):
        worker.ask("results", variant="reference", seeds=seeds)
    worker.ask("results", variant=variant, seeds=seeds)
    equal = worker.ask("compare", variant=variant, baseline_file=file)
    count = worker.ask("observe", variant=variant, seed=seeds[0])
    engaged = worker.ask("engaged", baseline=baseline_count, optimized=count)
    mechanism = {"what": engaged["what"], "baseline": baseline_count, "optimized": count, "engaged": engaged["engaged"]}
    if engaged["engaged"] is False:
        raise WorkerFailed(Reason("not-engaged", {"where": variant}, f"{engaged['what']}: {baseline_count} -> {count}"))
    return VariantRecord("measured", equal=equal, mechanism=mechanism)


def measure_memory(
    info: PairInfo, measurable: Sequence[VariantInfo], start: Start, seed: int, checked: Mapping[str, VariantRecord]
) -> dict[str, VariantRecord]:
    """Memory and one-off costs, one fresh process a variant, with empty compile caches."""
    found: dict[str, VariantRecord] = {}
    workers: dict[str, WorkerHandle] = {}

    def report(variant: VariantInfo, failure: WorkerFailed) -> None:
        if variant.name == "baseline":
            raise failure
        found[variant.name] = _failed(info, failure)

    try:
        # All import torch at once, each on a core of its own, before anything is timed.
        for variant in measurable:
            workers[variant.name] = start(info, variant.settings, f"cold-{info.name}-{variant.name}")
        for variant in measurable:
            try:
                workers[variant.name].ready()
            except WorkerFailed as failure:
                report(variant, failure)
        for variant in measurable:
            if variant.name in found:
                continue
            try:
                memory = workers[variant.name].ask("measure_memory", variant=variant.name, seed=seed)
                found[variant.name] = replace(checked[variant.name], **memory)
            except WorkerFailed as failure:
                report(variant, failure)
            workers[variant.name].end()
    finally:
        for worker in workers.values():
            worker.end()
    return found


def launch_once(
    info: PairInfo, measurable: Sequence[VariantInfo], start: Start, profile: Profile, seed: int, record: Record
) -> tuple[int, Launch]:
    """One launch: fresh processes, warm-up, then rounds. Returns (steps a block, the launch).

    The first launch settles the steps a block and the number of rounds for all.
    """
    names = [variant.name for variant in measurable]
    workers: dict[ProcessSettings, WorkerHandle] = {}
    # Where a tip changes the process settings, no side is forked: the pages a forked worker shares with its
    # server would be a difference that is not the tip's.
    alike = len({variant.settings for variant in info.variants}) == 1
    try:
        for variant in measurable:
            if variant.settings not in workers:
                workers[variant.settings] = start(
                    info, variant.settings, f"warm-{info.name}", launch=len(record.launches) if alike else None
                )
        home = {variant.name: workers[variant.settings] for variant in measurable}
        # Nothing is timed yet: processes of their own build at once.
        for name in names:
            home[name].begin("build", variant=name, seed=seed)
        for name in names:
            home[name].finish()
        step_s = {name: home[name].ask("warm", variant=name)["step_s"] for name in names}
        fastest = min(names, key=step_s.__getitem__)
        steps = record.steps or steps_a_block(home[fastest], fastest, step_s[fastest], profile.block_s)
        rounds = (
            record.launches[0].rounds
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
    return steps, Launch.of_blocks(seed, rounds, timed)


def _alone(worker: WorkerHandle, all_workers: Collection[WorkerHandle], variant: str, steps: int) -> dict[str, Any]:
    """One block, while the launch's other processes are paused.

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
                other.resume()


def steps_a_block(worker: WorkerHandle, variant: str, step_s: float, block_s: float) -> int:
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
