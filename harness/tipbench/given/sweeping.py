"""A person's job at several numbers of workers, sizes of its batch, or numbers of threads.

All values are timed one after the other and then in the opposite order, so that a machine that gets slower meanwhile
favours none. What is measured is information: no results are compared.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import psutil
import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.data import BatchSampler, IterableDataset

from tipbench.given.curve import BATCH, THREADS, WORKERS, JobCurve, Point
from tipbench.given.forms import GivenStep, job_of
from tipbench.given.loop import GivenJob
from tipbench.given.target import BadJob, function
from tipbench.tip.job import Job
from tipbench.tip.needs import available_cores
from tipbench.tip.way import loading_with_a_loader
from tipbench.tip.wording import size
from tipbench.worker.guard import seed_generators
from tipbench.worker.memory import process_peaks

_MOST_WORKERS, _TIMES = 16, (1, 2, 4)
"""Worker processes, as far as these are at most four a core; and multiples of the batch."""

_LATE = 3
"""Times as long as was allowed, to build slow jobs, until what was not timed yet is left out."""

_FREE = 2 / 3
"""Share of the free memory that a larger batch may be expected to need."""


class _Timed:
    """How long the steps of a job take.

    Attributes:
        steps, seconds, samples: of all timed steps.
        batch: samples of the largest batch.
        rates: samples a second, of each pass.
        memory: of the job (bytes), once `hold` has read it.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.steps, self.seconds, self.samples, self.memory = job, 0, 0.0, 0, 0
        self.rates: list[float] = []
        self.batch = self._loaded = 0
        name = "next_batch" if isinstance(job, GivenJob) else "run"
        setattr(job, name, self._counting(getattr(job, name), takes_batch=name == "run"))

    def _counting(self, call: Callable[..., Any], takes_batch: bool) -> Callable[..., Any]:
        def counted(*batch: Any) -> Any:
            result = call(*batch)
            count = _samples(batch if takes_batch else result)
            self.batch, self._loaded = max(self.batch, count), self._loaded + count
            return result

        return counted

    def time(self, seconds: float) -> None:
        """Add steps of so many seconds, at least one, after those whose batches were loaded ahead."""
        ahead = int(self.job.loading.get("num_workers") or 0) * int(self.job.loading.get("prefetch_factor") or 2)
        end = perf_counter() + seconds
        for _ in range(1 + ahead):
            self.job.step()
            if perf_counter() > end:
                break
        before, steps, began = self._loaded, self.steps, perf_counter()
        while self.steps == steps or perf_counter() < began + seconds:
            self.job.step()
            self.steps += 1
        if self.job.device.type == "cuda":
            torch.cuda.synchronize(self.job.device)
        taken_s, samples = perf_counter() - began, self._loaded - before
        self.seconds, self.samples = self.seconds + taken_s, self.samples + samples
        self.rates.append(samples / taken_s)

    def hold(self, kinds: Sequence[str]) -> None:
        """Read the memory by the first of the kinds of `process_peaks` that is known."""
        peaks = process_peaks(self.job.step, self.job.device)
        self.memory = next((peaks[kind] for kind in kinds if kind in peaks), 0)


def sweep_of_job(target: str, what: str, within_s: float) -> JobCurve:
    """Raises BadJob where the job fails."""
    build = function(target)

    def built() -> Job:
        seed_generators(0)
        job = job_of(build())
        if isinstance(job, GivenStep):
            raise BadJob("of a step, or of a command, neither loader nor batch is known")
        return job

    return {WORKERS: _workers, BATCH: _batch, THREADS: _threads}[what](built, within_s)


def _workers(built: Callable[[], Job], within_s: float) -> JobCurve:
    job = built()
    if missing := loading_with_a_loader(job):
        return JobCurve(WORKERS, ended=missing)
    if isinstance(job.data, IterableDataset) and not job.loading.get("num_workers"):
        return JobCurve(WORKERS, ended="the data set is iterable, so that each worker may give all of it")
    most = min(_MOST_WORKERS, 4 * available_cores())
    values = [0, *(1 << number for number in range(most.bit_length()) if 1 << number <= most)]
    kept: dict[int, list[_Timed]] = {value: [] for value in values}
    share_s, end = within_s / (4 * len(values)), perf_counter() + within_s
    for value in [*values, *reversed(values)]:
        if perf_counter() > end + (0.0 if kept[value] else _LATE * within_s):
            break
        job = built()
        job.loading |= {"num_workers": value, "persistent_workers": value > 0}
        job.loading |= {} if value else {"prefetch_factor": None, "timeout": 0, "multiprocessing_context": None}
        timed = _Timed(job)
        timed.time(share_s)
        if not kept[value]:
            timed.hold(("tree",))
        kept[value].append(timed)
        timed.job = job = None  # type: ignore[assignment]  # ends its workers
        gc.collect()
    left = [str(value) for value in values if not kept[value]]
    return _curve(WORKERS, kept, f"no time was left for {' and '.join(left)}" if left else "")


def _batch(built: Callable[[], Job], within_s: float) -> JobCurve:
    kept: dict[int, list[_Timed]] = {}
    ended, before, share_s = "", psutil.Process().memory_info().rss, within_s / (4 * len(_TIMES))
    for times in _TIMES:
        job = built()
        if ended := _enlarge(job, times):
            break
        if kept:
            largest = max(kept)
            needed = times / _TIMES[len(kept) - 1] * max(0, kept[largest][0].memory - before)
            free = torch.cuda.mem_get_info()[0] if job.device.type == "cuda" else psutil.virtual_memory().available
            if needed > _FREE * free:
                ended = f"{times} times the batch may need {size(int(needed))} of the {size(free)} that are free"
                break
        timed = _Timed(job)
        timed.time(share_s)
        timed.hold(("allocated_peak", "resident_peak"))
        kept[timed.batch] = [timed]
    for timed in [each for all_of in reversed(kept.values()) for each in all_of]:
        timed.time(share_s)
    return _curve(BATCH, kept, ended)


def _enlarge(job: Job, times: int) -> str:
    """Make the batches so many times as large; why that cannot be done, or empty."""
    if isinstance(job, GivenJob) and job.batches is not None:
        if not isinstance(job.batches, list):
            return "the batches do not come from a DataLoader"
        job.batches = [_repeated(batch, times) for batch in job.batches]
        return ""
    sampler: Any = job.loading.get("batch_sampler")
    is_plain = type(sampler) is BatchSampler
    count = sampler.batch_size if is_plain else job.loading.get("batch_size")
    if not count:
        return "a sampler of the job's own makes the batches"
    if not isinstance(job.data, IterableDataset) and len(job.data) < times * count:  # type: ignore[arg-type]
        return f"the data set has {len(job.data)} samples"  # type: ignore[arg-type]
    if is_plain:
        job.loading["batch_sampler"] = BatchSampler(sampler.sampler, times * count, sampler.drop_last)
    else:
        job.loading["batch_size"] = times * count
    return ""


def _repeated(batch: Any, times: int) -> Any:
    count = _samples(batch)

    def repeated(tensor: torch.Tensor) -> torch.Tensor:
        is_of_samples = tensor.dim() > 0 and len(tensor) == count
        return tensor.repeat(times, *[1] * (tensor.dim() - 1)) if is_of_samples else tensor

    return tree_map_only(torch.Tensor, repeated, batch)


def _threads(built: Callable[[], Job], within_s: float) -> JobCurve:
    cores = available_cores()
    values = sorted({*(1 << number for number in range(cores.bit_length())), cores})
    kept = {value: [_Timed(job)] for job in [built()] for value in values}
    share_s = within_s / (4 * len(values))
    for value in [*values, *reversed(values)]:
        torch.set_num_threads(value)
        kept[value][0].time(share_s)
    return _curve(THREADS, kept)


def _curve(what: str, kept: dict[int, list[_Timed]], ended: str = "") -> JobCurve:
    points = []
    for value, timed in kept.items():
        steps = sum(each.steps for each in timed)
        samples = sum(each.samples for each in timed) / max(1, steps)
        if steps and samples:
            step_s, rates = sum(each.seconds for each in timed) / steps, [rate for each in timed for rate in each.rates]
            points.append(Point(value, step_s, samples, timed[0].memory, rates[-1] / rates[0] - 1))
    return JobCurve(what, points, ended or ("" if points else "how many samples a batch has is not known"))


def _samples(batch: Any) -> int:
    """The length of the first tensor of a batch."""
    return next((len(leaf) for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim()), 0)
