"""The pairs that measure ways to follow tips on a person's job, made of data: nobody's words become code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import torch

from tipbench.given.draws import GENERATORS, draw_alike, seed_draws, shuffle_alike
from tipbench.given.forms import GivenStep, job_of
from tipbench.given.loop import GivenJob
from tipbench.given.survey import AS_IT_IS, WITH_MODEL, GivenPair
from tipbench.given.target import function
from tipbench.records.fields import convert
from tipbench.suite.files import BENCHMARKS, load_module, set_guides_aside
from tipbench.tip.job import Job, MacroPair, convert_to_fp64
from tipbench.tip.mechanism import Counting, Mechanism, stays
from tipbench.tip.pair import TOGETHER, Claim, Equal, Pair, Step, Tip
from tipbench.tip.process import mark_builder
from tipbench.tip.way import Way, settings_of_ways

WAY_SEPARATOR = "/"
"""Separates a tip's id from the name of a way to follow it, as in `allocator/tcmalloc`."""


SETTLED = 3
"""Steps before a mechanism is counted: the first creates the optimizer's state, after which compiled code is compiled
again."""


def the_tip(name: str, kind: str = "training") -> Tip:
    """The tip of the way of that name, which gets a step faster, with the way's own mechanism if it has one.

    kind: of the job. It decides how the tip's mechanism is counted: in a "step", which may take long, at once; for a
    "command", whose process settings are the worker's, without running it; in any other job after SETTLED steps.
    """
    file, way = _file_of(name.partition(WAY_SEPARATOR)[0]), the_way(name)
    mechanism: Mechanism = way.mechanism or file.TIP.mechanism
    counts: dict[str, Counting] = {"step": mechanism.count, "command": partial(_without_step, mechanism.count)}
    count = counts.get(kind, partial(_settled, mechanism.count))
    mechanism = replace(mechanism, count=count)
    tip: Tip = replace(file.TIP, claim=Claim.FASTER, mechanism=mechanism, evidence="")
    return tip if way.when is None else replace(tip, when=way.when)


def _settled(count: Counting, step: Step) -> Any:
    for _ in range(SETTLED):
        step()
    return count(step)


def _without_step(count: Counting, step: Step) -> Any:
    return count(lambda: None)


def the_way(name: str) -> Way:
    """The way named as `channels-last` or `allocator/tcmalloc`."""
    tip, _, way = name.partition(WAY_SEPARATOR)
    (result,) = (each for each in _file_of(tip).ON_ANY_JOB if each.name.replace("_", "-") == way)
    return result  # type: ignore[no-any-return]


def _file_of(tip: str) -> Any:
    (file,) = BENCHMARKS.rglob(f"{tip.replace('-', '_')}.py")
    return load_module(file, BENCHMARKS)


ITSELF = Tip(
    id=AS_IT_IS,
    title="The job beside itself",
    guide=(),
    claim=Claim.FASTER,
    mechanism=stays("tips that it is about", lambda step: 0),
)
"""Tip of the control pair: the job unchanged on both sides, so the right verdict is no difference."""

OWN_TIPS = {AS_IT_IS: ITSELF, TOGETHER: replace(ITSELF, id=TOGETHER, title="Tips followed together")}


def module_of(file: Path) -> ModuleType:
    """What a file of pairs would be if it were one in Python: a TIP, and the pair. Raises MalformedRecord."""
    spec = convert(json.loads(file.read_text()), GivenPair)
    module = ModuleType(file.stem)
    tip = OWN_TIPS.get(spec.tip) or the_tip(spec.tip, spec.kind)
    about = {"__module__": module.__name__, "__doc__": spec.title, "mechanism": tip.mechanism}
    base = OnGivenJob if spec.kind in WITH_MODEL else OnGivenStep
    vars(module).update({"TIP": tip, spec.name: type(spec.name, (base,), {**about, **_members(spec)})})
    return module


def _members(spec: GivenPair) -> dict[str, Any]:
    """The attributes and builders of a pair's class."""
    ways = {side: [the_way(name) for name in names] for side, names in spec.sides.items()}
    among = [way for side in ways.values() for way in side]
    builders = {side: _builder(followed, among, spec.kind in WITH_MODEL) for side, followed in ways.items()}
    equal = {"fp64": Equal.AS_CLOSE, "directly": Equal.CLOSE, "not": Equal.NOTHING}[spec.compared]
    tolerance = spec.tolerance if spec.compared == "fp64" else 10 * spec.tolerance
    if spec.compared != "not" and any(way.changes_numbers for way in among):
        equal, tolerance = Equal.LOSSY if spec.kind in WITH_MODEL else Equal.CLOSE, 1e-1  # of a step nobody makes fp64
    return {"spec": spec, "job_file": spec.file, "equal": equal, "tolerance": tolerance, **builders}


class _Given(Pair):
    """A job whose variants each follow some ways.

    Attributes:
        spec: what it was made of.
    """

    scale = "macro"
    # A job may set its seeds itself.
    seeded = False
    spec: ClassVar[GivenPair]

    def built(self) -> Job | GivenStep:
        """A fresh job. What its file draws while it is imported, once in a process, shifts no draw of any side."""
        with seed_draws(0, list(GENERATORS)):
            build = function(self.spec.target)
        return job_of(build())

    def following(self, ways: Sequence[Way]) -> Step:
        """A step of a fresh job that follows the ways, in that order."""
        raise NotImplementedError


class OnGivenJob(_Given, MacroPair):
    """The pair of a job whose model, data and optimizer are known."""

    def job(self) -> Job:
        job = self.built()
        assert isinstance(job, Job)
        shuffle_alike(job)
        if self.spec.batches:
            draw_alike(job, self.spec.draws)
        return job

    def step_of(self, job: Job) -> Step:
        if not self.spec.batches:
            return job.step
        loading = load_module(BENCHMARKS / "jobs" / "loading.py", BENCHMARKS)
        return loading.Stretch(job.step, self.spec.batches)  # type: ignore[no-any-return]

    def following(self, ways: Sequence[Way]) -> Step:
        job = self.job()
        for way in ways:
            way.apply(job)
        return self.step_of(job)

    def reference(self) -> Step:
        return self.applied(all_in_fp64)


class OnGivenStep(_Given):
    """The pair of a job that is a single callable."""

    def following(self, ways: Sequence[Way]) -> Step:
        job = self.built()
        assert isinstance(job, GivenStep)
        return job.step if self.spec.compared != "not" else partial(_constant_result, job.step)


def _constant_result(step: Step) -> torch.Tensor:
    """Run the step and return a constant: a step must return something. The page says that nothing was compared."""
    step()
    return torch.ones(1)


def follow_ways(target: str, names: Sequence[str]) -> Job | GivenStep:
    """The job of FILE:NAME following the named ways, for a program that runs it further: their switches stay on.

    Process settings are not applied; they must be in place before the process starts.
    """
    set_guides_aside()
    job = job_of(function(target)())
    for way in map(the_way, names):
        if isinstance(job, Job):
            way.apply(job)
        elif way.around:
            _lasting_switches.enter_context(way.around())
        _lasting_switches.enter_context(way.switch())
    return job


_lasting_switches = ExitStack()


def all_in_fp64(job: Job) -> None:
    convert_to_fp64(job)
    if isinstance(job, GivenJob):
        job.convert_targets = job.convert


def _builder(ways: Sequence[Way], among: Sequence[Way], has_job: bool) -> Callable[[_Given], Step]:
    around = [way.around for way in ways if way.around and not has_job]
    mark = mark_builder(
        further_variant=True,
        settings=settings_of_ways(ways, among),
        switch=partial(_all_switches, [*(way.switch for way in ways), *around]),
        needs=tuple(need for way in ways for need in way.all_needs),
    )
    return mark(lambda pair: pair.following(ways))


@contextmanager
def _all_switches(switches: Sequence[Callable[[], AbstractContextManager[Any]]]) -> Iterator[None]:
    with ExitStack() as entered:
        for switch in switches:
            entered.enter_context(switch())
        yield
