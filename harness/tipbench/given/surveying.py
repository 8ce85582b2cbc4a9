"""The survey of a person's job: whether it is a valid job, what it is, and which tips it can follow."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import IterableDataset

from tipbench.given.command import GivenCommand
from tipbench.given.draws import generators_used
from tipbench.given.forms import GivenStep, job_of
from tipbench.given.loop import GivenJob
from tipbench.given.many_steps import run_many_steps
from tipbench.given.pair import all_in_fp64
from tipbench.given.rates import card_busy, rates
from tipbench.given.survey import Device, JobForm, Survey, phases_s
from tipbench.given.target import BadJob, error_with_line, expect_no_clash, function
from tipbench.given.tried import add_ways
from tipbench.machine.activity import Usage
from tipbench.machine.controls import read_by_torch
from tipbench.machine.limits import memory_bytes
from tipbench.records.fields import LARGEST
from tipbench.records.record import LOADING
from tipbench.tip.counts import operations
from tipbench.tip.job import Job
from tipbench.tip.needs import available_cores
from tipbench.tip.pair import Step
from tipbench.tip.way import workers_started_anew
from tipbench.tip.wording import plural
from tipbench.worker.guard import seed_generators
from tipbench.worker.job_card import job_card
from tipbench.worker.outputs import Outputs, Unequal, error, kinds, snapshot
from tipbench.worker.switches import BINDING

_STEPS = 2
"""Steps of a job that are run to see what it does; the first may be unlike all later ones."""

IN_A_ROW_S = 10.0
"""Longest that many steps are run in a row (s)."""

UNLIKE, KEEPS, MOMENT_S = 1.5, 3.0, 1e-3
"""Ratios of two times, of runs of a command and of loading an item, and seconds between them, from which on they are of
unlike work."""

_ITEMS = 9
"""Of a data set, of which each is loaded several times."""

ENDLESS_S = 2.0
"""Seconds for which batches are taken from an iterator to see whether it ends, or items are loaded twice."""

MOST_BATCHES = 100_000
"""In an epoch, of which the last one is looked at."""

PIECE = 1 << 24
"""Numbers of a parameter that are changed at a time."""

NUDGE = 1e-5
"""Relative change of parameters that shows how a job amplifies rounding. Single precision rounds to 6e-8, but sums of
many numbers in another order, as of batch normalisation in channels_last, differed by NUDGE."""


def survey(target: str, needed_s: float = math.inf) -> Survey:
    """Run the job of `target`: twice as it is, once with changed parameters, and once in fp64. Raises BadJob.

    needed_s: seconds after which nothing is run that the job can be measured without.
    """
    until = perf_counter() + needed_s
    file = Path(target.rpartition(":")[0])
    name = f"{file.name}:{target.rpartition(':')[2]}"
    before_it = Usage.now()
    environment, cores_before, began = read_by_torch(), available_cores(), perf_counter()
    build = function(target)
    import_s = perf_counter() - began
    set_now = read_by_torch()
    too_late = [f"{name}={value}" for name, value in set_now.items() if environment.get(name) != value]

    def calling(what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BadJob as bad:
            raise BadJob(f"{name}: {bad}") from bad
        except BaseException as error:
            raise BadJob(f"{name}: {what} raised {error_with_line(error, file)}") from error

    def built() -> Job | GivenStep:
        seed_generators(0)
        return calling("building the job", lambda: job_of(build()))  # type: ignore[no-any-return]

    def built_again() -> Job | GivenStep:
        try:
            return built()
        except BadJob as bad:
            raise BadJob(
                f"{bad}, the second time: it is built several times in a process, so what can be done only once in one "
                "belongs at the top of the file, outside of the function"
            ) from bad

    before, began = _peak(), perf_counter()
    job = built()
    build_s = perf_counter() - began
    calling("the job", lambda: expect_no_clash(file))
    name = job.name if isinstance(job, GivenCommand) else name
    with _seeing_anomaly_mode(job):
        outputs, first_s, step_s = calling("its step", lambda: _run(job.step))
    if isinstance(job, Job):
        _expect_gradients(name, job)
    if outputs is None and isinstance(job, Job):
        raise BadJob(f"{name}: its step returned nothing that can be compared")
    compared, needed, memory = outputs is not None, _peak() - before, memory_bytes()
    if 2 * needed > memory:
        raise BadJob(
            f"{name} takes {needed / 2**30:.1f} GiB, and both sides of a comparison do not fit into the "
            f"{memory / 2**30:.1f} GiB of this machine: give it a smaller batch or a smaller model"
        )
    basis = Survey(name, _kind(job), _device(job), step_s, import_s, build_s, compared=compared, bytes=needed)
    variables = [f"{variable}={value}" for variable, value in environment.items()]
    # A library that binds its threads binds the one that asks as well.
    cores = cores_before if environment.keys() & BINDING else available_cores()
    basis = replace(basis, threads=torch.get_num_threads(), cores=cores, cores_before=cores_before)
    unlike = _unlike(first_s, step_s, UNLIKE) if isinstance(job, GivenCommand) else []
    basis = replace(basis, variables=variables, too_late=too_late, unlike=unlike)
    if isinstance(job, GivenStep) and not isinstance(job, GivenCommand):
        basis = replace(basis, **calling("one of many steps", lambda: _in_a_row(job, until)))
    if outputs is None:
        return add_ways(basis, job, until)

    def results_of(other: Job | GivenStep) -> Outputs | None:
        return calling("its step", lambda: _run(other.step))[0]  # type: ignore[no-any-return]

    other = built_again()
    if isinstance(job, Job) and isinstance(other, Job) and (same := _in_common(job, other)):
        raise BadJob(
            f"{name}: it returns the same {same} each time it is called, so that one side of a comparison would change "
            "the other: make all that it returns in the function, but for the data set"
        )
    again = results_of(other)
    noise = None if again is None else _apart(outputs, again)
    if isinstance(job, GivenStep):
        return add_ways(replace(basis, noise=noise), job, until)
    assert isinstance(other, Job)
    _expect_epochs(name, other, calling)
    data, first_s = other.data, _loading_s(other)
    other = job  # not more than two jobs are in memory
    third = _nudged(built())
    nudged = results_of(third)
    # By another data set, as the system keeps files too.
    fresh_s, again_s = _loading_s(third), _loading_s(third)
    cold_s = first_s if getattr(third, "data", None) is data else fresh_s
    basis = replace(basis, unlike=_unlike(cold_s, again_s, KEEPS) if cold_s > again_s else [])
    del third
    card = dict[str, float]()
    with suppress(Exception):  # hooks of the model, or counting, may not work with a person's code
        card = _profile(job) if perf_counter() < until else card
    others, faults = Usage.now().others(before_it), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    calling("its step", job.step)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    details: dict[str, Any] = {
        # The second step takes up to a third longer than later ones.
        "step_s": phases_s(card) or step_s,
        "noise": noise,
        "rounding": None if nudged is None else _apart(outputs, nudged),
        # In double precision the job needs twice the memory, in addition to the first job's.
        "exact": 3 * needed <= memory and perf_counter() < until and _runs_in_fp64(build),
        "workers": int(job.loading.get("num_workers") or 0),
        "epoch": 0 if workers_started_anew(job) else len(job.loader()),
        "draws": list(generators_used(job)),
        "parameters": sum(parameter.numel() for parameter in job.model.parameters()),
        "card": card,
        "others": max(0.0, others),
        "faults": faults,
        "not_run": getattr(job, "not_run", ""),
        "not_compared": sorted(getattr(job, "not_compared", ())),
        **calling("one of many steps", lambda: _in_a_row(job, until)),
    }
    return add_ways(replace(basis, **details), job, until, built)


@contextmanager
def _seeing_anomaly_mode(job: Job | GivenStep) -> Iterator[None]:
    """Note in the job whether its steps turn on anomaly mode themselves."""
    seen: list[bool] = []
    watching = register_module_forward_pre_hook(lambda *_: seen.append(torch.is_anomaly_enabled()))
    try:
        yield
    finally:
        watching.remove()
        if isinstance(job, GivenJob):
            job.anomaly_inside = any(seen) and not torch.is_anomaly_enabled()


def _in_common(job: Job, other: Job) -> str:
    """What two jobs made by one function share and must not; empty where they share nothing of the kind."""
    numbers = {parameter.data_ptr() for parameter in job.model.parameters()} - {0}
    if any(parameter.data_ptr() in numbers for parameter in other.model.parameters()):
        return "model, or parts of it,"
    if job.optimizer is not None and job.optimizer is other.optimizer:
        return "optimizer"
    batches = getattr(job, "batches", None)
    return "iterator of batches" if isinstance(batches, Iterator) and batches is getattr(other, "batches", None) else ""


def _expect_epochs(name: str, job: Job, calling: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Raise BadJob where the job would fail at the end of an epoch, long after the survey: its batches end for ever, or
    it cannot take the last one of an epoch, which is smaller."""
    if isinstance(job, GivenJob) and isinstance(job.batches, Iterator):
        end = perf_counter() + ENDLESS_S
        count = _STEPS
        for _ in job.batches:
            count += 1
            if perf_counter() > end:
                return
        raise BadJob(
            f"{name}: no batch is left after {count}: give a loader that a loop can start anew, or one without an end"
        )
    if job.data is None or isinstance(job.data, IterableDataset):
        return
    loader = job.loader()
    batches = loader.batch_sampler
    if batches is None or len(loader) > MOST_BATCHES:
        return
    *_, last = batches
    if len(last) == getattr(batches, "batch_size", None):
        return

    def step() -> None:
        inputs = loader.collate_fn([job.data[number] for number in last])
        job.run(*((inputs, None) if isinstance(job, GivenJob) else inputs))

    try:
        calling(f"a step on the last batch of an epoch, of {plural(len(last), 'item')},", step)
    except BadJob as bad:
        raise BadJob(f"{bad}: drop_last=True leaves that batch out") from bad


def _peak() -> int:
    """Largest main memory of this process so far (bytes)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _kind(job: Job | GivenStep) -> JobForm:
    if isinstance(job, GivenCommand):
        return "command"
    if isinstance(job, GivenStep):
        return "step"
    return "inference" if job.optimizer is None else "training"


def _device(job: Job | GivenStep) -> Device:
    is_on_gpu = job.device.type == "cuda" if isinstance(job, Job) else torch.cuda.is_initialized()
    return "cuda" if is_on_gpu else "cpu"


def _run(step: Step) -> tuple[Outputs | None, float, float]:
    """(Outputs of the last of _STEPS steps, seconds of the first, of the last); the outputs are None where nothing in
    them can be compared."""
    times = [perf_counter()]
    for _ in range(_STEPS):
        result = step()
        times.append(perf_counter())
    first_s, took = times[1] - times[0], times[-1] - times[-2]
    try:
        return snapshot(result), first_s, took
    except Unequal as why:
        if why.why.code == "not-finite":
            raise BadJob(f"after {_STEPS} steps {why.why.detail} holds NaN or infinity") from None
        if why.why.code == "all-zeros":
            raise BadJob(f"after {_STEPS} steps every output is zero") from None
        return None, first_s, took


def _unlike(first_s: float, again_s: float, times: float) -> list[float]:
    """Both, if one is so many times the other, and not by a moment that the machine may have taken."""
    less, more = sorted((first_s, again_s))
    return [first_s, again_s] if more > times * less and more - less > MOMENT_S else []


def _loading_s(job: Any) -> float:
    """Median seconds of loading one of its last items; 0 where its items are not numbered from 0."""
    times = [perf_counter()]
    with suppress(Exception):  # of a person's data set
        length = len(job.data)
        for number in [0, *range(max(1, length - _ITEMS), length)]:  # what opens a file is item 0
            job.data[number]
            times.append(perf_counter())
            if times[-1] - times[0] > ENDLESS_S:
                break
    return median([end - began for began, end in pairwise(times[1:])] or [0.0])


def _expect_gradients(name: str, job: Job) -> None:
    if job.optimizer is None:
        return
    held = [parameter for group in job.optimizer.param_groups for parameter in group["params"]]
    if not any(parameter.grad is not None for parameter in held):
        raise BadJob(f"{name}: no parameter of its optimizer has a gradient after a step")


def _apart(first: Outputs, second: Outputs) -> float | None:
    """Relative difference between two runs with the same seed: the largest of those of returned tensors, of gradients
    and of parameters. None where they have other tensors or shapes."""
    try:
        apart = max(error(*({path: run[path] for path in paths} for run in (first, second))) for paths in kinds(first))
    except (Unequal, KeyError):
        return None
    return apart if apart < LARGEST else None


def _nudged(job: Job | GivenStep) -> Job | GivenStep:
    """The job with its parameters changed at random by NUDGE, without drawing from the global generators."""
    if isinstance(job, Job):
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for part in (part for parameter in job.model.parameters() for part in _parts(parameter)):
                change = 1 + NUDGE * torch.randn(part.shape, generator=generator)
                part.mul_(change.to(part.device, part.dtype))
    return job


def _parts(parameter: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A parameter in pieces: changing all of it at once would need further tensors of its size."""
    whole = torch.atleast_1d(parameter)
    rows = PIECE * len(whole) // max(1, whole.numel())
    return torch.split(whole, max(1, rows))


def _runs_in_fp64(build: Callable[[], Any]) -> bool:
    seed_generators(0)
    try:
        job = job_of(build())
        assert isinstance(job, Job)
        all_in_fp64(job)
        return _run(job.step)[0] is not None
    except Exception:  # a person's code may fail in any way in another precision
        return False


def _profile(job: Job) -> dict[str, float]:
    """The job's profile, with what the machine reaches at most."""
    busy = {"busy": card_busy(job.step)} if job.device.type == "cuda" else {}
    more = {"operations": operations(job.step), **rates(job.model, job.device), **busy}
    return _with_starts(job, job_card(job, job.step)) | more


def _with_starts(job: Job, card: dict[str, float]) -> dict[str, float]:
    """The profile with what it takes to start workers anew for each of short epochs, as a part of loading."""
    batches, step_s = 0 if workers_started_anew(job) else len(job.loader()), phases_s(card)
    if not 0 < batches * step_s < IN_A_ROW_S:
        return card
    began = perf_counter()
    for _ in range(batches):  # the start of one epoch is among them, wherever they begin
        job.step()
    started_s = (perf_counter() - began) / batches - step_s
    return card | {LOADING: card.get(LOADING, 0.0) + max(0.0, started_s)}


def _in_a_row(job: Job | GivenStep, until: float) -> dict[str, Any]:
    return run_many_steps(job.step, min(until, perf_counter() + IN_A_ROW_S))
