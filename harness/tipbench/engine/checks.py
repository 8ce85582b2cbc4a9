"""What is found out about a pair before it is timed: whether both sides do the same work, whether the tip takes effect,
and, in a pass of its own, memory and one-off costs."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.engine.purpose import Purpose
from tipbench.engine.scratch import scratch_folder
from tipbench.records.fields import converted
from tipbench.records.record import PairInfo, Record, Trainings, VariantInfo, VariantRecord
from tipbench.tip.pair import BY_REFERENCE, Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

CHECK_SEEDS = 2
"""Fresh random inputs that both sides' outputs are compared on: enough to see that outputs follow their inputs."""


WARM = "warm-"
"""What the names of compile caches begin with that hold what has been compiled before; others are empty at first."""


class Start(Protocol):
    """Starts a worker for a pair in given process settings, with the compile cache of the given name.

    launch: the number of a launch whose workers may be forked from one process, as those of all checks may; None: a
    fresh process, as for memory.
    """

    def __call__(
        self, info: PairInfo, settings: ProcessSettings, cache: str, purpose: Purpose, launch: int | None = None
    ) -> WorkerHandle: ...


def measurable(record: Record) -> list[VariantInfo]:
    """The variants that can still be measured, the baseline first."""
    return [
        variant
        for variant in record.info.variants
        if variant.name not in record.variants or record.variants[variant.name].outcome == "measured"
    ]


def failed(record: Record, failure: WorkerFailed) -> Record:
    """The record without the variant that failed, or of a pair that cannot be measured further: what was timed of it is
    not used."""
    if failure.variant not in ("", "baseline"):
        without = VariantRecord("failed", _why(record.info, failure))
        return with_variants(record, {**record.variants, failure.variant: without})
    return replace(record, outcome="failed", why=_why(record.info, failure), steps=0, launches=())


def checked(info: PairInfo, start: Start, seed: int) -> Record:
    """The record without launches: skipped, failed, or what the checks have found."""
    if info.why:
        return Record(info, "skipped", info.why)
    skipped = {variant.name: VariantRecord("skipped", variant.why) for variant in info.variants if variant.why}
    if "baseline" in skipped or len(skipped) == len(info.variants) - 1:
        return Record(info, "skipped", next(variant.why for variant in info.variants if variant.why), variants=skipped)
    record = Record(info, "measured", variants=skipped)
    try:
        return with_variants(record, skipped | check(info, measurable(record), start, seed))
    except WorkerFailed as failure:
        return failed(record, failure)


def with_variants(record: Record, variants: Mapping[str, VariantRecord]) -> Record:
    """The record with these findings; failed where the baseline alone is left."""
    record = replace(record, variants=variants)
    if len(measurable(record)) > 1:
        return record
    why = next(found.why for found in variants.values() if found.outcome == "failed")
    return replace(record, outcome="failed", why=why, steps=0, launches=())


def check(info: PairInfo, variants: Sequence[VariantInfo], start: Start, seed: int) -> dict[str, VariantRecord]:
    """Equal work, mechanism and trainings of every variant. Raises WorkerFailed only for the baseline.

    A variant that fails takes its worker with it, and the next gets a fresh one: what a failure
    leaves behind must not fail, or help, the others.
    """
    seeds = [seed + index for index in range(CHECK_SEEDS)]
    baseline, *others = variants
    found = {}
    folder = scratch_folder()
    file = str(folder / "baseline.pt")
    workers: dict[ProcessSettings, WorkerHandle] = {}

    def worker_in(settings: ProcessSettings) -> WorkerHandle:
        if settings not in workers:
            workers[settings] = start(info, settings, f"{WARM}{info.name}", Purpose.CHECK)
        return workers[settings]

    try:
        for variant in variants:  # all import torch at once
            worker_in(variant.settings)
        worker = worker_in(baseline.settings)
        if info.equal != Equal.NOTHING:
            worker.ask("results", variant="baseline", seeds=seeds, file=file)
        count = worker.ask("observe", variant="baseline", seed=seed)
        # Trainings of another run are others, whatever its seed: runs of one machine are counted together.
        drawn = secrets.randbelow(2**31)
        trained = _trained(worker, "baseline", drawn)
        found["baseline"] = VariantRecord("measured", work=worker.ask("work", seed=seed), trainings=trained)
        for variant in others:
            worker = worker_in(variant.settings)
            try:
                checked = _check_variant(info, worker, variant.name, seeds, file, count)
                found[variant.name] = replace(checked, trainings=_trained(worker, variant.name, drawn))
            except WorkerFailed as failure:
                found[variant.name] = VariantRecord("failed", _why(info, failure))
                workers.pop(variant.settings).end()
    finally:
        for worker in workers.values():
            worker.end()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _check_variant(
    info: PairInfo, worker: WorkerHandle, variant: str, seeds: Sequence[int], file: str, baseline_count: object
) -> VariantRecord:
    if info.equal in BY_REFERENCE:
        worker.ask("results", variant="reference", seeds=seeds)
    equal = {}
    if info.equal != Equal.NOTHING:
        worker.ask("results", variant=variant, seeds=seeds)
        equal = worker.ask("compare", variant=variant, baseline_file=file)
    count = worker.ask("observe", variant=variant, seed=seeds[0])
    engaged = worker.ask("engaged", baseline=baseline_count, optimized=count)
    mechanism = {"what": engaged["what"], "baseline": baseline_count, "optimized": count, "engaged": engaged["engaged"]}
    if engaged["engaged"] is False:
        raise WorkerFailed(Reason("not-engaged", {"where": variant}, f"{engaged['what']}: {baseline_count} -> {count}"))
    return VariantRecord("measured", equal=equal, mechanism=mechanism)


def _trained(worker: WorkerHandle, variant: str, seed: int) -> Trainings | None:
    answer = worker.ask("trained", variant=variant, seed=seed)
    return None if answer is None else converted(answer, Trainings)


class MemoryPass:
    """Memory and one-off costs of a pair, one fresh process a variant, with empty compile caches.

    Its processes import torch beside others; what a build and a warm-up cost is then timed alone.
    """

    def __init__(self, record: Record, start: Start, seed: int) -> None:
        self.name = record.name
        self.prepared_s = 0.0
        self._record = record
        self._start = start
        self._seed = seed
        self._workers: dict[str, WorkerHandle] = {}
        self._found: dict[str, VariantRecord] = {}

    def prepare(self) -> None:
        """Start the processes, and stop them. Raises WorkerFailed only for the baseline."""
        began = time.monotonic()
        variants = measurable(self._record)
        for variant in variants:
            cache = f"cold-{self.name}-{variant.name}"
            self._workers[variant.name] = self._start(self._record.info, variant.settings, cache, Purpose.MEMORY)
        for variant in variants:
            try:
                self._workers[variant.name].ready()
                self._workers[variant.name].pause()
            except WorkerFailed as failure:
                self._report(variant.name, failure)
        self.prepared_s = time.monotonic() - began

    def measure(self) -> Record:
        """The record with what was found. Raises WorkerFailed only for the baseline."""
        before = self._record.variants
        for name, worker in self._workers.items():
            if name in self._found:
                continue
            worker.resume()
            try:
                memory = worker.ask("measure_memory", variant=name, seed=self._seed)
                self._found[name] = replace(before[name], **memory)
            except WorkerFailed as failure:
                self._report(name, failure)
            worker.end()
        return with_variants(self._record, {**before, **self._found})

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def _report(self, name: str, failure: WorkerFailed) -> None:
        if name == "baseline":
            raise failure
        self._found[name] = VariantRecord("failed", _why(self._record.info, failure))


def _why(info: PairInfo, failure: WorkerFailed) -> Reason:
    fix = f"fix {Path(info.file).name}, line {info.line}, then `tipbench run {info.name}`"
    return replace(failure.why, fix=fix)
