"""The checks of a pair before it is timed: whether both sides do the same work, and whether the tip takes effect. And
the separate pass for memory and one-off costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.machine.scratch import Scratch
from tipbench.records.record import PairInfo, Record, VariantInfo, VariantRecord
from tipbench.tip.pair import BY_REFERENCE, Equal
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

CHECK_SEEDS = 2
"""Number of fresh random inputs for which both sides' outputs are compared: with two, it shows whether outputs depend
on inputs."""


WARM = "warm-"
"""Prefix of the names of compile caches that may hold code compiled before; caches with other names start empty."""

CHECKS: Final = "checks"

Served = int | Literal["checks"]
"""Whose workers may be forked from one process: those of the launch with this number, or those of all checks."""

Start = Callable[[PairInfo, ProcessSettings, str, Served | None], WorkerHandle]
"""Starts a worker for a pair, with these process settings and the compile cache of this name. None as the last argument
asks for a fresh process, as for memory."""


def measurable(record: Record) -> list[VariantInfo]:
    """The variants that can still be measured, the baseline first."""
    return [
        variant
        for variant in record.info.variants
        if variant.name not in record.variants or record.variants[variant.name].outcome == "measured"
    ]


def survivors(record: Record) -> list[VariantInfo]:
    """Of these, the ones that have passed their checks."""
    return [variant for variant in measurable(record) if variant.name in record.variants]


def failed_by_chance(record: Record) -> list[str]:
    """The names of all variants whose failure need not come again; of a file that cannot be imported, none is known."""
    if record.outcome == "failed" and record.why and record.why.is_chance:
        return [variant.name for variant in record.info.variants]
    return [name for name, variant in record.variants.items() if variant.why and variant.why.is_chance]


def mark_failed(record: Record, failure: WorkerFailed) -> Record:
    """The record after a failure: without the variant that failed, or else of a failed pair, whose launches are not
    used."""
    if failure.variant not in ("", "baseline"):
        without = VariantRecord("failed", _why(record.info, failure))
        return replace_variants(record, {**record.variants, failure.variant: without})
    return replace(record, outcome="failed", why=_why(record.info, failure), steps=0, launches=())


def check_pair(
    info: PairInfo, start: Start, seed: int, before: Record | None = None, names: Collection[str] = ()
) -> Record:
    """The record of a pair without launches: skipped, failed, or with the results of its checks. before: the record of
    a pair that was measured; it is returned with these variants checked, and again those that had failed by chance.
    names: of the variants to be checked; all without any."""
    if before:
        again = {*names, *failed_by_chance(before)}
        variants = [variant for variant in info.variants if variant.name in {"baseline", *again}]
        try:
            results = check(info, variants, start, seed)
        except WorkerFailed as failure:  # the baseline, which has been checked before
            results = {name: VariantRecord("failed", _why(info, failure)) for name in again - before.variants.keys()}
        return replace_variants(before, {**before.variants, **results, "baseline": before.variants["baseline"]})
    if info.why:
        return Record(info, "skipped", info.why)
    skipped = {variant.name: VariantRecord("skipped", variant.why) for variant in info.variants if variant.why}
    if "baseline" in skipped or len(skipped) == len(info.variants) - 1:
        return Record(info, "skipped", next(variant.why for variant in info.variants if variant.why), variants=skipped)
    record = Record(info, "measured", variants=skipped)
    now = [variant for variant in measurable(record) if not names or variant.name in {"baseline", *names}]
    try:
        return replace_variants(record, skipped | check(info, now if now[1:] else measurable(record), start, seed))
    except WorkerFailed as failure:
        return mark_failed(record, failure)


def replace_variants(record: Record, variants: Mapping[str, VariantRecord]) -> Record:
    """The record with these results; failed where only the baseline is left."""
    record = replace(record, variants=variants)
    if len(measurable(record)) > 1:
        return record
    why = next(variant.why for variant in variants.values() if variant.outcome == "failed")
    return replace(record, outcome="failed", why=why, steps=0, launches=())


def check(info: PairInfo, variants: Sequence[VariantInfo], start: Start, seed: int) -> dict[str, VariantRecord]:
    """Equal work and mechanism of every variant, by name. Raises WorkerFailed only for the baseline.

    After a variant fails, its worker is ended and the next variant gets a fresh one: what a failure leaves behind must
    neither fail nor help the other variants.
    """
    seeds = [seed + index for index in range(CHECK_SEEDS)]
    optimized = variants[1:]
    results = {}
    scratch = Scratch()
    file = str(scratch.path / "baseline.pt")
    workers: dict[ProcessSettings, WorkerHandle] = {}
    settings = {variant.name: variant.settings for variant in variants}

    def worker_of(variant: str) -> WorkerHandle:
        if settings[variant] not in workers:
            workers[settings[variant]] = start(info, settings[variant], f"{WARM}{info.name}", CHECKS)
        return workers[settings[variant]]

    try:
        for variant in variants:  # so that all import torch at the same time
            worker_of(variant.name)
        worker = worker_of("baseline")
        if info.equal != Equal.NOTHING:
            worker.ask("results", variant="baseline", seeds=seeds, file=file)
        count = worker.ask("observe", variant="baseline", seed=seed)
        results["baseline"] = VariantRecord("measured", memory=_live_tensors(info, worker, "baseline", seed))
        for variant in optimized:
            try:
                worker = worker_of(variant.name)
                results[variant.name] = _check_variant(info, worker, variant.name, seeds, file, count)
            except WorkerFailed as failure:
                results[variant.name] = VariantRecord("failed", _why(info, failure))
                workers.pop(settings[variant.name]).end()
    finally:
        for worker in workers.values():
            worker.end()
        scratch.remove()
    return results


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
    memory = _live_tensors(info, worker, variant, seeds[0])
    return VariantRecord("measured", equal=equal, mechanism=mechanism, memory=memory)


def _live_tensors(info: PairInfo, worker: WorkerHandle, variant: str, seed: int) -> dict[str, int]:
    """On a GPU, whose allocator counts for itself, nothing: `MemoryPass` reads that."""
    return worker.ask("live_tensors", variant=variant, seed=seed) if info.device == "cpu" else {}


class MemoryPass:
    """The process's memory and one-off costs of a pair, from a fresh process for each variant, with empty compile
    caches.

    Its processes may import torch at the same time as others. Then each is measured with nothing else running.

    Attributes:
        name: of the pair.
        prepared_s: duration of `prepare` (s).
    """

    def __init__(self, record: Record, start: Start, seed: int) -> None:
        self.name = record.name
        self.prepared_s = 0.0
        self._record = record
        self._start = start
        self._seed = seed
        self._workers: dict[str, WorkerHandle] = {}
        self._results: dict[str, VariantRecord] = {}

    def prepare(self) -> None:
        """Start the processes, and pause them. Raises WorkerFailed only for the baseline."""
        began = time.monotonic()
        variants = survivors(self._record)
        for variant in variants:
            cache = f"cold-{self.name}-{variant.name}"
            self._workers[variant.name] = self._start(self._record.info, variant.settings, cache, None)
        for variant in variants:
            try:
                self._workers[variant.name].ready()
                self._workers[variant.name].pause()
            except WorkerFailed as failure:
                self._report(variant.name, failure)
        self.prepared_s = time.monotonic() - began

    def measure(self) -> Record:
        """The record with memory and one-off costs. Raises WorkerFailed only for the baseline."""
        before = self._record.variants
        for name, worker in self._workers.items():
            if name in self._results:
                continue
            worker.resume()
            try:
                costs = worker.ask("measure_memory", variant=name, seed=self._seed)
                costs["memory"] = {**before[name].memory, **costs["memory"]}
                self._results[name] = replace(before[name], **costs)
            except WorkerFailed as failure:
                self._report(name, failure)
            worker.end()
        return replace_variants(self._record, {**before, **self._results})

    def end(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def _report(self, name: str, failure: WorkerFailed) -> None:
        if name == "baseline":
            raise failure
        self._results[name] = VariantRecord("failed", _why(self._record.info, failure))


def _why(info: PairInfo, failure: WorkerFailed) -> Reason:
    fix = f"fix {Path(info.file).name}, line {info.line}, then `tipbench run {info.name}`"
    return replace(failure.why, fix=fix)
