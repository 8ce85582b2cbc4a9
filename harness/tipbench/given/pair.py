"""The pairs that measure ways to follow tips on a person's job.

`tipbench.advise` writes each into a small file of its own, like the files in benchmarks/:

    from tipbench.given.pair import OnGivenJob, the_tip

    TIP = the_tip("channels-last")  # or of a tip with several ways the first that is tried: "allocator/tcmalloc"


    class Alone(OnGivenJob, target="train.py:job", optimized=("channels-last",)): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch

from tipbench.given.draws import draw_alike, shuffle_alike
from tipbench.given.forms import GivenStep, job_of
from tipbench.given.loop import GivenJob
from tipbench.given.target import function
from tipbench.suite.files import BENCHMARKS, load
from tipbench.tip.job import Job, MacroPair, in_fp64
from tipbench.tip.mechanism import Count, Mechanism, stays
from tipbench.tip.pair import Claim, Equal, Pair, Step, Tip, variant
from tipbench.tip.process import ProcessSettings
from tipbench.tip.way import Way

BETWEEN = "/"
"""Separates a tip's id from the name of a way to follow it, as in `allocator/tcmalloc`."""


SETTLED = 3
"""Steps before a mechanism is counted: the first creates the optimizer's state, after which compiled code is compiled
again."""


def the_tip(name: str, kind: str = "training") -> Tip:
    """The tip of the way of that name, which gets a step faster, with the way's own mechanism if it has one.

    kind: of the job, as in `tipbench.worker.survey`. It decides how the tip's mechanism is counted: in a "step", which
    may take long, at once; for a "command", whose process settings are the worker's, without running it; in any other
    job after SETTLED steps.
    """
    file = _file_of(name.partition(BETWEEN)[0])
    mechanism: Mechanism = the_way(name).mechanism or file.TIP.mechanism
    counts: dict[str, Count] = {"step": mechanism.count, "command": partial(_without_step, mechanism.count)}
    count = counts.get(kind, partial(_settled, mechanism.count))
    return replace(file.TIP, claim=Claim.FASTER, mechanism=replace(mechanism, count=count))  # type: ignore[no-any-return]


def _settled(count: Count, step: Step) -> Any:
    for _ in range(SETTLED):
        step()
    return count(step)


def _without_step(count: Count, step: Step) -> Any:
    return count(lambda: None)


def the_way(name: str) -> Way:
    """The way named as `channels-last` or `allocator/tcmalloc`."""
    tip, _, way = name.partition(BETWEEN)
    (result,) = (candidate for candidate in _file_of(tip).ON_ANY_JOB if candidate.name == way)
    return result  # type: ignore[no-any-return]


def _file_of(tip: str) -> Any:
    (file,) = BENCHMARKS.rglob(f"{tip.replace('-', '_')}.py")
    return load(file, BENCHMARKS)


AS_IT_IS = Tip(
    id="as-it-is",
    title="The job beside itself",
    guide=(),
    claim=Claim.FASTER,
    mechanism=stays("tips that it is about", lambda step: 0),
)
"""Tip of the control pair: the job unchanged on both sides, so the right verdict is no difference."""

TOGETHER = replace(AS_IT_IS, id="together", title="Tips followed together")


class _Given(Pair):
    """A job whose variants each follow some ways.

    Attributes:
        target: FILE:NAME of the function that builds the job.
        batches: consecutive batches that one step takes, if worker processes load them; 0: a step takes one batch.
        draws: random number generators that its data draw from, by `draws.generators_used`.
        compared: whether a step returns results that can be compared.
    """

    scale = "macro"
    # A job may set its seeds itself.
    seeded = False
    sets_switches = True
    target: ClassVar[str]
    batches: ClassVar[int]
    draws: ClassVar[Sequence[str]]
    compared: ClassVar[bool]

    def __init_subclass__(
        cls,
        target: str = "",
        baseline: Sequence[str] = (),
        optimized: Sequence[str] = (),
        others: Mapping[str, Sequence[str]] | None = None,
        batches: int = 0,
        draws: Sequence[str] = (),
        tolerance: float | None = None,
        exact: bool = True,
        compared: bool = True,
    ) -> None:
        """baseline, optimized, others: names of the ways that each variant follows. exact: whether it runs in fp64."""
        super().__init_subclass__()
        if not target:
            return
        cls.target, cls.batches, cls.draws, cls.compared = target, batches, draws, compared
        if not exact:
            cls.equal = Equal.CLOSE
        if not compared:
            cls.equal = Equal.NOTHING
        if tolerance is not None:
            cls.tolerance = tolerance if exact else 10 * tolerance
        sides = {"baseline": baseline, "optimized": optimized, **(others or {})}
        ways = {side: [the_way(name) for name in names] for side, names in sides.items()}
        without = tuple(dict.fromkeys(name for side in ways.values() for way in side for name in way.without))
        if compared and any(way.changes_numbers for side in ways.values() for way in side):
            cls.equal, cls.tolerance = Equal.LOSSY, 1e-1
        for side, ways_of_side in ways.items():
            builder = _builder(side, ways_of_side, without, has_job=issubclass(cls, MacroPair))
            setattr(cls, side, builder if side in ("baseline", "optimized") else variant(builder))

    def following(self, ways: Sequence[Way]) -> Step:
        """A step of a fresh job that follows the ways, in that order."""
        raise NotImplementedError


class OnGivenJob(_Given, MacroPair):
    """The pair of a job whose model, data and optimizer are known."""

    equal = Equal.AS_CLOSE
    tolerance = 1e-4

    def job(self) -> Job:
        job = job_of(function(self.target)())
        assert isinstance(job, Job)
        shuffle_alike(job)
        if self.batches:
            draw_alike(job, self.draws)
        return job

    def step_of(self, job: Job) -> Step:
        if not self.batches:
            return job.step
        loading = load(BENCHMARKS / "jobs" / "loading.py", BENCHMARKS)
        return loading.Stretch(job.step, self.batches)  # type: ignore[no-any-return]

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
        job = job_of(function(self.target)())
        assert isinstance(job, GivenStep)
        return job.step if self.compared else partial(_constant_result, job.step)


def _constant_result(step: Step) -> torch.Tensor:
    """Run the step and return a constant: a step must return something. The page says that nothing was compared."""
    step()
    return torch.ones(1)


def followed(target: str, names: Sequence[str]) -> Job | GivenStep:
    """The job of FILE:NAME following the named ways, for a program that runs it further: their switches stay on.

    Process settings are not applied; they must be in place before the process starts.
    """
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
    in_fp64(job)
    if isinstance(job, GivenJob):
        job.convert_targets = job.convert


def _builder(name: str, ways: Sequence[Way], without: tuple[str, ...], has_job: bool) -> Callable[[_Given], Step]:
    def build(pair: _Given) -> Step:
        return pair.following(ways)

    build.__name__ = name
    build.settings = settings_of(ways, without)  # type: ignore[attr-defined]
    around = [way.around for way in ways if way.around and not has_job]
    build.switch = partial(_all_switches, [*(way.switch for way in ways), *around])  # type: ignore[attr-defined]
    build.needs = tuple(need for way in ways for need in way.needs)  # type: ignore[attr-defined]
    return build


def settings_of(ways: Sequence[Way], without: tuple[str, ...] = ()) -> ProcessSettings:
    """The settings of all ways together. If two ways set one variable, the later one wins."""
    env: dict[str, str] = {}
    preload: list[str] = []
    own = ""
    for way in ways:
        env |= dict(way.settings.env)
        preload += way.settings.preload
        own = own or way.settings.own_process
    settings = ProcessSettings(tuple(sorted(env.items())), without, tuple(dict.fromkeys(preload)))
    return replace(settings, own_process=own)


@contextmanager
def _all_switches(switches: Sequence[Callable[[], AbstractContextManager[Any]]]) -> Iterator[None]:
    with ExitStack() as entered:
        for switch in switches:
            entered.enter_context(switch())
        yield
