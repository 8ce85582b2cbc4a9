"""A person's job and the pairs on it as data: what `tipbench.given.surveying` answers about the job, and which ways to
follow tips the sides of a pair follow. Reading it needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tipbench.records.fields import Count, Number, Seconds
from tipbench.records.record import PHASES

COMMAND_TYPED = "TIPBENCH_COMMAND"
"""Variable that holds a command for the processes that run it, as JSON: its folder, then its words."""

JobForm = Literal["training", "inference", "step", "command"]
WITH_MODEL: tuple[JobForm, ...] = ("training", "inference")
"""Kinds of jobs whose model and data are known, and not a step alone."""

Device = Literal["cpu", "cuda"]

SLOPE_PARTS = 8
"""Of many steps in a row. Where steps get slower, each part is slower than the one before: in four parts of half a
second a moment of the machine's own looked so."""


def program_of(command: Sequence[str]) -> str:
    """The name of a command's program: its first Python file, or else its first word."""
    return Path(next((word for word in command if word.endswith(".py")), command[0])).name


def phases_s(card: Mapping[str, float]) -> float:
    """Seconds of a step by its job profile; 0 where they are unknown."""
    return sum(card.get(phase, 0.0) for phase in PHASES)


@dataclass(frozen=True)
class WayHere:
    """A way to follow a tip, and whether it is tried on this job.

    Attributes:
        tip: id of the tip.
        name: `tip` or `tip/way`.
        title: of the tip.
        do: what to write.
        why_not: why it is not tried on this job; empty where it is.
        changes_numbers: whether the job's results may differ with it.
        one_of: of the tip: what only one of several ways may do, such as "optimizer"; empty for none.
        env: environment variables of its process settings.
        preload: paths of the libraries of its process settings.
        first: 2 if it corrects a fault or concerns a large share of a step's time: it is tried before all others; 1 if
            it can act on what limits a step: it comes next.
        proof: how far it was shown that the job's data stay the same with it; empty where it does not concern them.
        takes_once: whether following the tip takes something once, such as to compile.
    """

    tip: str
    name: str
    title: str
    do: str
    why_not: str = ""
    changes_numbers: bool = False
    one_of: str = ""
    env: dict[str, str] = field(default_factory=dict)
    preload: list[str] = field(default_factory=list)
    first: Count = 0
    proof: str = ""
    takes_once: bool = False

    @property
    def in_a_line(self) -> str:
        """What to write, without its comments, and with the way's name where its text begins with a comment."""
        lines = [line.partition("  #")[0] for line in self.do.rstrip(":").split("\n")]
        named = f" ({self.name.partition('/')[2]})" if "/" in self.name and lines[0].startswith("#") else ""
        return " then ".join(line for line in lines if not line.startswith("#")) + named


@dataclass(frozen=True)
class Survey:
    """The properties of a job, from running it.

    Attributes:
        name: such as "train.py:job", or the program of a command.
        kind: "training", "inference", "step" or "command".
        device: "cpu" or "cuda".
        step_s: duration of a step (s): the median, or of the second step where its phases are unknown.
        import_s: time to import the file (s).
        build_s: time to build the job (s).
        noise: relative difference between the results of two jobs with the same seed; None where they cannot be
            compared, as their shapes differ.
        rounding: relative difference to the results of a job whose parameters are changed by
            `tipbench.given.surveying.NUDGE`; None as of `noise`.
        exact: whether the job runs in fp64.
        compared: whether a step returns anything that can be compared.
        workers: worker processes of its DataLoader.
        epoch: batches of a short epoch with workers that are started anew for each; else 0.
        draws: random number generators that its data draw from, by `tipbench.given.draws.generators_used`.
        bytes: main memory that the job's first steps took (bytes).
        parameters: number of the model's parameters.
        faults: pages that the kernel maps in in one warm step.
        card: job profile from `job_card`; empty where it is unknown.
        others: cores that other programs kept busy meanwhile; 0 where that is unknown.
        threads: of torch, with which the job ran.
        cores, cores_before: that the process may use once the job has run, and when it was started.
        variables: those of the environment that torch reads, from the person's shell or set by the file before it
            imports torch; both sides of each comparison have them.
        too_late: those that the file sets after it has imported torch, which has read them by then.
        steps: how many were run in a row to see what follows; 0 where they were too few.
        slower: how many times as long the last of SLOPE_PARTS took as the first; 0 where they did not get slower.
        grows: bytes that memory grew with each of them; 0 where it stayed level.
        unlike: seconds of a command's first run and of its second, or of loading an item for the first time and again,
            where the two are far apart; else empty.
        not_run: as `tipbench.given.loop.GivenJob` has it.
        not_compared: what a step returned and nobody can look into.
        ways: all ways to follow tips.
        by_hand: (id, title, what to write) of each tip for this device that needs changes in a person's own code.
    """

    name: str
    kind: JobForm
    device: Device
    step_s: Seconds
    import_s: Number = 0.0
    build_s: Number = 0.0
    noise: Number | None = 0.0
    rounding: Number | None = 0.0
    exact: bool = False
    compared: bool = True
    workers: Count = 0
    epoch: Count = 0
    draws: list[str] = field(default_factory=list)
    bytes: Count = 0
    parameters: Count = 0
    faults: Count = 0
    card: dict[str, Number] = field(default_factory=dict)
    others: Number = 0.0
    threads: Count = 0
    cores: Count = 0
    cores_before: Count = 0
    variables: list[str] = field(default_factory=list)
    too_late: list[str] = field(default_factory=list)
    steps: Count = 0
    slower: Number = 0.0
    grows: Number = 0.0
    unlike: list[Number] = field(default_factory=list)
    not_run: str = ""
    not_compared: list[str] = field(default_factory=list)
    ways: list[WayHere] = field(default_factory=list)
    by_hand: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def is_compared(self) -> bool:
        """Whether results with a tip can be compared with those without it."""
        return self.compared and self.noise is not None and self.rounding is not None

    def share(self, phase: str) -> float:
        """Of a phase in a step's time; 0 where it is unknown."""
        whole_s = phases_s(self.card)
        return self.card.get(phase, 0.0) / whole_s if whole_s else 0.0

    @property
    def by_name(self) -> dict[str, WayHere]:
        """The ways by their names."""
        return {way.name: way for way in self.ways}


AS_IT_IS = "as-it-is"
"""The tip of the pair that has the job on both sides; that of a combination's is TOGETHER."""


@dataclass(frozen=True)
class GivenPair:
    """A pair on a person's job, as data: which ways to follow tips each of its sides follows. `tipbench.advise` writes
    each into a file of its own, and `tipbench.given.pair` makes a pair of it.

    Attributes:
        tip: AS_IT_IS, TOGETHER, or the name of the first way of a tip that is tried.
        name: of the pair.
        title: what it compares, for people.
        kind: of the job.
        target: absolute FILE:NAME of the function that builds the job.
        sides: by side the names of the ways that it follows; `baseline` and `optimized` are the first.
        batches: consecutive batches that one step takes, if worker processes load them; 0: a step takes one batch.
        draws: random number generators that its data draw from, by `tipbench.given.draws.generators_used`.
        compared: how results are compared: "fp64" where the job runs in double precision, "directly", or "not" at all.
        tolerance: how far results may be off.
    """

    tip: str
    name: str
    title: str
    kind: JobForm
    target: str
    sides: Mapping[str, Sequence[str]]
    batches: int
    draws: Sequence[str]
    compared: Literal["fp64", "directly", "not"]
    tolerance: float

    @property
    def file(self) -> Path:
        """The file of the job."""
        return Path(self.target.rpartition(":")[0])
