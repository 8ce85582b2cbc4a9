"""A way to follow a tip: what `tipbench advise` does to a person's own job, and what makes a side of a SettingsPair.

The file of a tip that any job can follow ends with `ON_ANY_JOB`, a tuple of one `Way` or several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import IterableDataset

from tipbench.tip.job import Job, as_it_is
from tipbench.tip.mechanism import Mechanism
from tipbench.tip.needs import Need, available_cores, library
from tipbench.tip.pair import Pair, Step
from tipbench.tip.process import ProcessSettings, mark_builder

SHORT_EPOCH = 64
"""Batches: starting workers took 0.1 to 0.5 s, which is felt in an epoch of a few steps alone."""


def any_job(job: Job | None) -> str:
    return ""


@dataclass(frozen=True)
class Way:
    """One way to follow a tip.

    Attributes:
        apply: changes the job.
        applies: why the job has no use for it, or ""; called with None for a step that is no Job, unless apply
            changes one.
        do: what to write, if not the tip's `do`.
        once, when: what following it takes once, and its condition, if not the tip's.
        name: of a further way, and of its variant, such as "tcmalloc"; the first has none.
        env, preload, prefix, own_process: of its process, as `ProcessSettings` has them.
        without: controls of the harness that neither side may run with, if the tip is about one of them.
        switch: a context entered around each block.
        needs: as of a pair, besides what it preloads.
        devices: as of a pair.
        changes_numbers: whether results differ by design, as with another precision.
        phase: "loading" or "optimizer", if the way can save time only in that phase of a step.
        mends: whether `applies` detects a fault, so that the way is tried before others.
        around: a context entered around a step that is no Job, in place of apply.
        mechanism: what shows it at work against a plain job, if the pairs' baseline is not one.
        loads_elsewhere: whether other processes load the data then, or load them further ahead of the steps, which may
            give other data: it is tried only where it was shown that they give the same.
    """

    apply: Callable[[Job], None] = as_it_is
    applies: Callable[[Any], str] = any_job
    do: str = ""
    once: str = ""
    when: str | None = None
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    own_process: str = ""
    without: tuple[str, ...] = ()
    switch: Callable[[], AbstractContextManager[Any]] = nullcontext
    needs: tuple[Need, ...] = ()
    devices: tuple[str, ...] = ("cpu", "cuda")
    changes_numbers: bool = False
    phase: str = ""
    mends: bool = False
    around: Callable[[], AbstractContextManager[Any]] | None = None
    mechanism: Mechanism | None = None
    loads_elsewhere: bool = False

    @property
    def all_needs(self) -> tuple[Need, ...]:
        return (*map(library, self.preload), *self.needs)


def settings_of_ways(ways: Sequence[Way], among: Sequence[Way]) -> ProcessSettings:
    """The settings of all ways together. If two set one variable, the later one wins. among: those of all sides."""
    env = {name: value for way in ways for name, value in way.env.items()}
    return ProcessSettings(
        env=tuple(sorted(env.items())),
        without=tuple(dict.fromkeys(name for way in among for name in way.without if name not in env)),
        preload=tuple(dict.fromkeys(name for way in ways for name in way.preload)),
        prefix=tuple(word for way in ways for word in way.prefix),
        own_process=next((way.own_process for way in ways if way.own_process), ""),
    )


class SettingsPair(Pair):
    """A pair whose sides differ by process settings alone: `build` makes the step of each.

        class Temporaries(SettingsPair, ways=(JEMALLOC, TCMALLOC)): ...

    The first way is the optimized side, each other one a further variant; one named "baseline" is the baseline's own.
    """

    devices = ("cpu",)

    def __init_subclass__(cls, ways: Sequence[Way] = (), **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        shared = {need.text for need in cls.needs}
        for name, way in ({"baseline": Way()} | {way.name or "optimized": way for way in ways} if ways else {}).items():
            needs = tuple(need for need in way.all_needs if need.text not in shared)
            settings = replace(settings_of_ways([way], ways), ranks=0)
            mark = mark_builder(further_variant=True, settings=settings, needs=needs)
            setattr(cls, name, mark(lambda pair: pair.build()))

    def build(self) -> Step:
        """Build the step; by default that of the whole job that is its other base."""
        return super().baseline()


def that_trains(job: Job) -> str:
    return "" if job.optimizer is not None else "the job has no optimizer: it runs its model forward only"


def needs_convolutions(job: Job | None) -> str:
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    convolves = job is None or any(isinstance(module, kinds) for module in job.model.modules())
    return "" if convolves else "the model has no two-dimensional convolutions"


def needs_repeated_blocks(job: Job) -> str:
    return "" if repeated_blocks(job.model) else "the model has no list of blocks of one class"


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The members of the longest `nn.ModuleList` or `nn.Sequential` whose members are all of one class and have modules
    of their own; empty if there is none."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList | nn.Sequential)]
    repeated = [
        blocks for blocks in lists if len(blocks) > 1 and len(set(map(type, blocks))) == 1 and any(blocks[0].children())
    ]
    return max(repeated, key=len, default=[])


def loading_with_a_loader(job: Job) -> str:
    return "" if job.data is not None else "the batches do not come from a DataLoader"


def loading_with_few_workers(job: Job) -> str:
    enough = job.loading.get("num_workers", 0) >= available_cores()
    return loading_with_a_loader(job) or ("the DataLoader has a worker for each core already" if enough else "")


def loading_with_other_workers(job: Job, number: int) -> str:
    has = job.loading.get("num_workers", 0) == number
    return loading_with_a_loader(job) or (f"the DataLoader has {number} workers already" if has else "")


def loading_in_workers(job: Job) -> str:
    return "" if job.loading.get("num_workers") else "the DataLoader has no workers"


def workers_started_anew(job: Job) -> str:
    """Why the workers of a job are not started anew for each of many short epochs; "" where they are."""
    if job.loading.get("persistent_workers"):
        return "the DataLoader keeps its workers already"
    if missing := loading_with_a_loader(job) or loading_in_workers(job):
        return missing
    if isinstance(job.data, IterableDataset):
        return "the data set is iterable, so how long an epoch is was not found out"
    batches = len(job.loader())
    long = f"an epoch has {batches} batches, beside which starting the workers once takes little"
    return "" if batches <= SHORT_EPOCH else long


def anomaly_mode_on(job: Job | None) -> str:
    return "" if torch.is_anomaly_enabled() or getattr(job, "anomaly_inside", False) else "anomaly mode is off"
