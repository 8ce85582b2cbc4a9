"""The words a benchmark file is written in: Tip, Pair, MacroPair, variant, sweep.

One rule: the method builds, untimed; the callable it returns is the step, and is timed.
A step returns everything it produced (tensors, or modules whose parameters, gradients and
buffers count), because that is what the two sides are compared by.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tipbench.tip.mechanism import Mechanism
from tipbench.tip.process import Builder, ProcessSettings, mark_builder
from tipbench.tip.sizes import S, Sizes

if TYPE_CHECKING:
    import torch

    from tipbench.tip.needs import Need

Step = Callable[[], Any]


class Claim(StrEnum):
    """What the guide promises."""

    FASTER = "less time"
    LEANER = "less memory"
    FEWER_STEPS = "fewer steps to target"
    """Judged by the steps that whole trainings take, those that fail included; see `Tip.evidence`."""
    SOONER_AT_TARGET = "less time to target"
    """Judged by these steps times the seconds that one takes."""
    BETTER = "a better score"
    """Judged by the scores that whole trainings end with, after as many steps or samples."""
    SOONER = "less time once"
    """Before the first step, such as to compile: judged by one-off costs."""
    STEADIER = "fewer failures"
    """Such as trainings that diverge: judged by what the mechanism counts."""


class Equal(StrEnum):
    """How the outputs of both sides must agree."""

    BITWISE = "bitwise"
    CLOSE = "allclose"
    REFERENCE = "close to fp64"
    """Rounding decides on which side of zero a ReLU falls, and then whole gradients differ between two correct runs.
    So both sides are compared with `Pair.reference`, in fp64, by the error over all outputs together."""
    AS_CLOSE = "as close to fp64 as the baseline"
    """For code that nobody knows the rounding of: the optimized side's error against `Pair.reference` may be three
    times the baseline's, and `Pair.tolerance` more; as `torch._dynamo.utils.same` judges compiled models."""
    LOSSY = "lossy"
    """Precision differs on purpose: the same comparison, with the error at the precision that is timed."""
    TARGET = "same target"
    """Both sides train to the same target in steps that differ on purpose, as with another batch size: what a step
    returns must have the same names and shapes on both sides. Whole trainings are in the table of `Tip.evidence`."""
    NOTHING = "nothing to compare"
    """A person's own step that returns nothing, or a command: whether it raises is all that is seen."""


BY_REFERENCE = (Equal.REFERENCE, Equal.AS_CLOSE, Equal.LOSSY)
"""Ways to compare both sides with `Pair.reference`."""


@dataclass(frozen=True, kw_only=True)
class TipText:
    """The texts of a tip, which are all that a results file holds of it.

    Attributes:
        id: its name in commands and files, such as "no-grad".
        title: the advice in one sentence.
        guide: the guide's items that it answers, such as ("A1.5",).
        claim: what the guide promises.
        published: the guide's own figures, with their source.
        status: "current", or what became of the advice since ("default now", "deprecated: ...").
        note: what the guides get wrong, shown next to the verdict.
        why_not: why there may be no gain, shown if there was none; it names the machines that it is true of.
        do: what to write, and what `optimized` does: Python, or a line of the shell that starts `train.py`; empty if
            nothing can be shown. `{num_workers}` stands for the value of a sweep. `tipbench.suite.loops` says which
            names Python is about, and where its lines stand. Python for several processes begins with the line that
            starts them, as a comment.
        called: what the headline variant is called beside other ways, such as "jemalloc"; empty if it has no name.
        ways: by name of a further variant, what to write for it in place of `do`; empty for one that is not to be
            followed, such as one that is there for comparison.
        once: what following the tip takes once, such as "compiling": whether it pays depends on the number of steps.
        one_of: what only one of several ways, of this tip or others, may do for a job, such as "optimizer".
        when: the condition under which the gain is a reader's own, such as "memory is short": the answer is "use it
            if <when>". Required if no baseline is the plain job, or none runs in one process.
        against: what the baselines of its whole jobs are, such as "model.compile()"; empty for the job as it is.
        evidence: name of the table beside its file that holds whole trainings of its pairs, whose builders return a
            `Training`; empty if it is not about training to a target, or about what a tip costs in scores.
    """

    id: str
    title: str
    guide: tuple[str, ...]
    claim: str
    published: str = ""
    status: str = "current"
    note: str = ""
    why_not: str = ""
    do: str = ""
    called: str = ""
    ways: Mapping[str, str] = field(default_factory=dict)
    once: str = ""
    one_of: str = ""
    when: str = ""
    against: str = ""
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class Tip(TipText):
    """One piece of advice of a guide.

    Attributes:
        mechanism: evidence that the tip is at work, for all pairs of the file that have none of their own.
    """

    claim: Claim
    mechanism: Mechanism | None = None

    @property
    def texts(self) -> TipText:
        return TipText(**{each.name: getattr(self, each.name) for each in fields(TipText)})


CONTROL = "control"
"""Id of the tip that is none: both sides are identical, or differ by what was planted."""

DEFAULT_NOW = "default now"
"""How the status of advice begins that torch follows by itself."""

TOGETHER, PRECISION, SCALING = NO_TIPS = "together", "precision", "scaling"
"""Ids of what are no tips either: several followed at once, a job in every precision, and on several devices. All their
variants are timed from the start, and pages set them side by side, a line a workload."""

WITHOUT, ONLY = "without_", "only_"
"""How further variants of TOGETHER begin that leave out one tip, or of three follow the first alone."""


@dataclass(frozen=True)
class Variant:
    """One side of a pair.

    Attributes:
        name: "baseline", "optimized", a further variant's name, or of a sweep "num_workers=4".
        builder: the name of the method that builds it.
        arguments: what a sweep passes to the builder, by name.
        settings: of its process.
        switch: a context entered before each of its blocks and left after it.
        needs: what this variant alone needs.
    """

    name: str
    builder: str
    arguments: Mapping[str, Any]
    settings: ProcessSettings
    switch: Callable[[], AbstractContextManager[Any]]
    needs: tuple[Need, ...]


def variant(builder: Builder) -> Builder:
    """Mark a method as a further variant: a second way to follow the tip."""
    return mark_builder(further_variant=True)(builder)


def sweep(**points: Iterable[Any]) -> Callable[[Builder], Builder]:
    """Make one variant of each value: `@sweep(num_workers=(1, 2, 4))`, passed to the builder by name.

    On `optimized` the builder's default is the value that the guide names, which makes the headline variant.

    Raises TypeError unless exactly one name is swept.
    """
    if len(points) != 1:
        raise TypeError("sweep takes exactly one name, such as num_workers=(1, 2, 4)")
    ((name, values),) = points.items()
    return mark_builder(sweep=(name, tuple(dict.fromkeys(values))))


def requires(*needs: Need) -> Callable[[Builder], Builder]:
    """Skip only this variant, with the reason, if a need is not met."""
    return mark_builder(needs=needs)


class Pair:
    """A tip twice: `baseline` is what people write without it, `optimized` what they write with it.

    A subclass defines both methods, and `sizes` if they have any. Each method builds everything from
    scratch on `self.device`, of the sizes in `self.size`, and returns the step. Before a builder is called
    the harness seeds Python, NumPy and torch, so both sides draw the same weights and inputs.
    """

    scale: ClassVar[str] = "micro"
    task: ClassVar[str] = ""
    """What its whole job does: "training", or "inference" if it runs a model forward only."""
    needs: ClassVar[tuple[Need, ...]] = ()
    """A class that names none has those of all its bases."""
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    equal: ClassVar[Equal] = Equal.CLOSE
    tolerance: ClassVar[float] = 1e-4
    """Largest difference allowed by Equal.CLOSE, relative to the tensor's largest value; by REFERENCE and LOSSY,
    largest error of all outputs together, relative to the reference; by AS_CLOSE what is added to the baseline's."""
    seeded: ClassVar[bool] = True
    """Whether results depend on the seed, because inputs or weights are drawn from the generators of random,
    numpy.random or torch. False: nothing is drawn, and equal results for every seed are right."""
    sizes: ClassVar[Sizes] = Sizes({})
    flush_l2: ClassVar[bool] = False
    """On a GPU: empty its L2 cache before every step, and time each step by itself. For steps bound by memory: one
    of many short kernels would have them launched while the cache is being emptied, and look cheaper than it is."""
    ranks: ClassVar[int] = 1
    """Processes of each side, unless `process_settings` gives it more."""
    against: ClassVar[str] = ""
    called: ClassVar[str] = ""
    """What its baseline is, and its headline variant, if they are other ones than `Tip` says."""
    truth: ClassVar[Mapping[str, float]] = {}
    """True speedup by variant (ratio, 1.0: no difference), where it is known because it was planted, such as
    {"optimized": 1.03}. It decides nothing: reports print it beside the verdict, and `tests/calibrate.py` counts."""
    job_file: ClassVar[Path | None] = None
    """The file of a person's own job that it runs, which may change switches of the process; None: it runs its own
    code."""

    def __init__(self, device: torch.device, size: Mapping[str, int] | None = None, for_test: bool = False) -> None:
        """size: by name; by default those of tier S. for_test: override them by `sizes.test`."""
        self.device = device
        self.size = {**(size or self.sizes.on(S)), **(self.sizes.test if for_test else {})}

    def __init_subclass__(cls) -> None:
        """Raises TypeError if a method hides a setting by having its name, or if `sizes` is not a Sizes."""
        super().__init_subclass__()
        if "needs" not in vars(cls):
            inherited = {need.text: need for base in cls.__bases__ for need in getattr(base, "needs", ())}
            cls.needs = tuple(inherited.values())
        for name in (*Pair.__annotations__, "mechanism"):
            if callable(vars(cls).get(name)):
                raise TypeError(f"{cls.__name__}.{name} is a method, but {name} is a setting of Pair: rename it")
        if not isinstance(cls.sizes, Sizes):
            raise TypeError(f"{cls.__name__}.sizes is a {type(cls.sizes).__name__}: write Sizes(dict(...))")

    def baseline(self) -> Step:
        """Build the untuned side."""
        raise NotImplementedError("define baseline(self), which returns the step of the untuned side, a callable")

    def optimized(self) -> Step:
        """Build the tuned side."""
        raise NotImplementedError("define optimized(self), which returns the step of the tuned side, a callable")

    @property
    def mechanism(self) -> Mechanism:
        """The evidence that the tip is at work: that of the file's TIP, unless the pair has one of its own."""
        of_tip: Mechanism | None = sys.modules[type(self).__module__].TIP.mechanism
        if of_tip is None:
            raise NotImplementedError(
                "give TIP a mechanism, which counts what it changes: mechanism=falls(WHAT, COUNT)"
            )
        return of_tip

    def before_step(self) -> None:
        """What every step starts from, restored outside the clock, such as an allocator that keeps no memory.

        If a pair defines it, its steps are timed one at a time.
        """

    def reference(self) -> Step:
        """Build the same work in fp64; needed where `equal` is one of `BY_REFERENCE`."""
        raise NotImplementedError("define reference(self), which returns the step of the same work in fp64, a callable")


def headline_variant(pair: type[Pair]) -> str:
    """The variant that the tip's answer is about: `optimized`, or the value of a sweep that is the builder's default;
    empty if it has no default."""
    swept, _ = getattr(pair.optimized, "sweep", (None, ()))
    if swept is None:
        return "optimized"
    value = inspect.signature(pair.optimized).parameters[swept].default
    return "" if value is inspect.Parameter.empty else f"{swept}={value}"


def code_to_write(do: str, ways: Mapping[str, str], variant: str, is_headline: bool) -> str:
    """What a reader writes to have a variant, the value of a sweep filled in; empty if nothing is shown for it.

    do, ways: of the tip. is_headline: whether the tip's answer is about the variant.
    """
    name, _, value = variant.partition("=")
    place = f"{{{name}}}"
    further = ways.get(variant) or ways.get(name) or (do if place in do else "")
    return (do if is_headline else further).replace(place, value)


def code_to_try(tip: Tip, pairs: Iterable[type[Pair]]) -> str:
    """What a reader writes who tries the tip himself: with `...` for the value of a sweep. pairs: of the tip."""
    text = tip.do
    for name in {name for pair in pairs for variant in variants(pair) for name in variant.arguments}:
        text = text.replace(f"{{{name}}}", "...")
    return text


def variants(pair: type[Pair]) -> Iterator[Variant]:
    """All variants of a pair: baseline, optimized (or its sweep), then the variants in the file's order."""
    members = [(name, member) for cls in reversed(pair.__mro__) for name, member in vars(cls).items()]
    further = [name for name, member in members if hasattr(member, "further_variant")]
    for name in dict.fromkeys(["baseline", "optimized", *further]):
        builder = getattr(pair, name)
        swept, values = getattr(builder, "sweep", (None, (None,)))
        for value in values:
            arguments = {} if swept is None else {swept: value}
            settings = getattr(builder, "settings", ProcessSettings(ranks=0)).filled(arguments)
            yield Variant(
                name=name if swept is None else f"{swept}={value}",
                builder=name,
                arguments=arguments,
                settings=replace(settings, ranks=settings.ranks or pair.ranks),
                switch=getattr(builder, "switch", nullcontext),
                needs=getattr(builder, "needs", ()),
            )
