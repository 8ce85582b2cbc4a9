"""The words a benchmark file is written in: Tip, Pair, MacroPair, variant, sweep.

One rule: the method builds, untimed; the callable it returns is the step, and is timed.
A step returns everything it produced (tensors, or modules whose parameters, gradients and
buffers count), because that is what the two sides are compared by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf, log2
from typing import TYPE_CHECKING, Any, ClassVar

from tipbench.tip.process import Builder, ProcessSettings

if TYPE_CHECKING:
    import torch

    from tipbench.tip.needs import Need

Step = Callable[[], Any]


class Claim(StrEnum):
    """What the guide promises."""

    FASTER = "less time"
    LEANER = "less memory"
    FEWER_STEPS = "fewer steps to target"
    AVOIDS = "avoids a cost"


class Equal(StrEnum):
    """How the outputs of both sides must agree."""

    BITWISE = "bitwise"
    CLOSE = "allclose"
    REFERENCE = "close to fp64"
    """Rounding decides on which side of zero a ReLU falls, and then whole gradients differ between two correct runs.
    So both sides are compared with `Pair.reference`, in fp64, by the error over all outputs together."""
    LOSSY = "lossy"
    """Precision differs on purpose: the same comparison, with the error at the precision that is timed."""
    TARGET = "target reached"
    """A step trains from scratch, and both sides must reach `Pair.target` for every seed. It returns a mapping
    with "score", a number, and something that differs from seed to seed where scores may not, such as the loss."""


@dataclass(frozen=True)
class Tip:
    """One piece of advice of a guide.

    guide: the guide's items, such as ("A1.5",). published: the guide's own figures, with their
    source. status: "current", or what became of the advice since ("default now", "deprecated: ...").
    note: what the guides get wrong, shown beside the verdict. why_not: why the gain may stay out, shown
    where it did. no_micro: why the operation alone makes no pair; empty where it does.
    """

    id: str
    title: str
    guide: tuple[str, ...]
    claim: Claim
    published: str = ""
    status: str = "current"
    note: str = ""
    why_not: str = ""
    no_micro: str = ""


@dataclass(frozen=True)
class Variant:
    """One side of a pair: the builder's name, and what it is built and launched with."""

    name: str
    builder: str
    arguments: Mapping[str, Any]
    settings: ProcessSettings
    switch: Callable[[], AbstractContextManager[Any]]
    needs: tuple[Need, ...]


def variant(builder: Builder) -> Builder:
    """Mark a method as a further variant, beside `optimized`: a second way to do it."""
    builder.further_variant = True  # type: ignore[attr-defined]
    return builder


def sweep(**points: Iterable[Any]) -> Callable[[Builder], Builder]:
    """Make one variant of each value: `@sweep(num_workers=(1, 2, 4))`, passed to the builder by name.

    Raises TypeError unless exactly one name is swept.
    """
    if len(points) != 1:
        raise TypeError("sweep takes exactly one name, such as num_workers=(1, 2, 4)")

    def mark(builder: Builder) -> Builder:
        ((name, values),) = points.items()
        builder.sweep = name, tuple(dict.fromkeys(values))  # type: ignore[attr-defined]
        return builder

    return mark


def requires(*needs: Need) -> Callable[[Builder], Builder]:
    """Skip this variant alone, with the reason, where a need is not met."""

    def mark(builder: Builder) -> Builder:
        builder.needs = needs  # type: ignore[attr-defined]
        return builder

    return mark


CARD_BYTES = 14 << 30
"""What the sizes on a GPU are for: a card sold with 16 GB, of which its driver leaves 14.6 GiB or more."""


def smallest_card() -> float:
    """Bytes of the smallest GPU that torch sees; infinite where it sees none."""
    import torch

    cards = range(torch.cuda.device_count())
    return min((torch.cuda.get_device_properties(card).total_memory for card in cards), default=inf)


class Pair:
    """A tip twice: `baseline` is what people write without it, `optimized` what they write with it.

    A subclass defines both methods, `mechanism`, and `sizes`. Each method builds everything from
    scratch on `self.device` and returns the step. Before a builder is called the harness seeds
    Python, NumPy and torch, so both sides draw the same weights and inputs.
    """

    scale: ClassVar[str] = "micro"
    needs: ClassVar[tuple[Need, ...]] = ()
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    equal: ClassVar[Equal] = Equal.CLOSE
    tolerance: ClassVar[float] = 1e-4
    """Largest difference allowed by Equal.CLOSE, relative to the tensor's largest value; by REFERENCE and LOSSY,
    largest error of all outputs together, relative to the reference."""
    target: ClassVar[float] = inf
    """What the score of every step must reach, where `equal` is Equal.TARGET; infinity is never reached."""
    seeded: ClassVar[bool] = True
    """Whether results depend on the seed, as they do where inputs or weights are drawn from the generators of random,
    numpy.random or torch. False: there is nothing to draw, and results that are alike for every seed are right."""
    sizes: ClassVar[Mapping[str, int]] = {}
    """Named sizes of the work, recorded; `test_sizes` overrides them in the exact tests, never in a run."""
    on_gpu: ClassVar[Mapping[str, int]] = {}
    """What of `sizes` is another on a GPU of CARD_BYTES or more."""
    halved: ClassVar[tuple[str, ...]] = ("batch",)
    """Which of the sizes are halved on a GPU of half of that, and so on."""
    test_sizes: ClassVar[Mapping[str, int]] = {}
    flush_l2: ClassVar[bool] = False
    """On a GPU: empty its L2 cache before every step, and time each step by itself. For steps bound by memory: one
    of many short kernels would have them launched while the cache is being emptied, and look cheaper than it is."""
    deadline: ClassVar[float] = 300.0
    """Seconds the worker may take to answer one request before it is ended."""

    def __init__(self, device: torch.device, for_test: bool = False) -> None:
        self.device = device
        self.size = {**self.sizes_on(device.type), **(self.test_sizes if for_test else {})}

    @classmethod
    def sizes_on(cls, device_type: str) -> dict[str, int]:
        """The sizes of a run on "cpu" or "cuda", there on the smallest card of this machine."""
        if device_type != "cuda":
            return dict(cls.sizes)
        sizes = {**cls.sizes, **cls.on_gpu}
        halvings = ceil(log2(max(1.0, CARD_BYTES / smallest_card())))
        return sizes | {name: max(1, sizes[name] >> halvings) for name in cls.halved if name in sizes}

    def __init_subclass__(cls) -> None:
        """Raises TypeError where a method takes the name of a setting: the setting would be lost unseen."""
        super().__init_subclass__()
        judged = "scale", "needs", "devices", "equal", "tolerance", "target", "seeded"
        for name in (*judged, "sizes", "on_gpu", "halved", "test_sizes", "flush_l2", "deadline"):
            if callable(vars(cls).get(name)):
                raise TypeError(f"{cls.__name__}.{name} is a method, but {name} is a setting of Pair: rename it")

    def baseline(self) -> Step:
        """Build the untuned side."""
        raise NotImplementedError

    def optimized(self) -> Step:
        """Build the tuned side."""
        raise NotImplementedError

    def before_step(self) -> None:
        """What every step starts from, restored outside the clock, such as an allocator that keeps no memory.

        Where a pair defines it, its steps are timed one by one.
        """

    def mechanism(self, step: Step) -> Any:
        """Count, without a clock, what the tip changes. The docstring's first line names the count."""
        raise NotImplementedError

    def work(self) -> Mapping[str, int]:
        """What a step must do at least, where that is known: "flops", its floating-point operations, or "bytes", what
        it reads and writes. Alike on both sides. The report sets it against what `benchmarks/limit.py` reaches."""
        return {}

    def engaged(self, baseline: Any, optimized: Any) -> bool:
        """Whether the two counts show the tip at work. Default: it made them fewer."""
        return bool(optimized < baseline)

    def reference(self) -> Step:
        """Build the same work in fp64; needed where `equal` is Equal.REFERENCE or LOSSY."""
        raise NotImplementedError


def variants(pair: type[Pair]) -> Iterator[Variant]:
    """All variants of a pair: baseline, optimized (or its sweep), then the variants in the file's order."""
    members = [(name, member) for cls in reversed(pair.__mro__) for name, member in vars(cls).items()]
    further = [name for name, member in members if hasattr(member, "further_variant")]
    for name in dict.fromkeys(["baseline", "optimized", *further]):
        builder = getattr(pair, name)
        swept, values = getattr(builder, "sweep", (None, (None,)))
        for value in values:
            arguments = {} if swept is None else {swept: value}
            yield Variant(
                name=name if swept is None else f"{swept}={value}",
                builder=name,
                arguments=arguments,
                settings=getattr(builder, "settings", ProcessSettings()).filled(arguments),
                switch=getattr(builder, "switch", nullcontext),
                needs=getattr(builder, "needs", ()),
            )
