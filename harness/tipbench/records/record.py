"""What goes between discovery, runner, store and report: frozen, plain data, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from tipbench.records.fields import (
    Count,
    Equality,
    MalformedRecord,
    Mechanism,
    Number,
    Positive,
    Ratio,
    Seconds,
    StoredTip,
    Whole,
    converted,
    strict,
)
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

Outcome = Literal["measured", "skipped", "failed"]

PHASES = LOADING, *_ = ("loading", "forward", "backward", "optimizer")
"""Of a step of a job, in the order in which they come."""


class _Explained:
    """What has a result, or says why not; the words for it are empty where it has one."""

    why: Reason | None

    @property
    def kind(self) -> str:
        return self.why.kind if self.why else ""

    @property
    def reason(self) -> str:
        return self.why.text if self.why else ""

    @property
    def remedy(self) -> str:
        return self.why.remedy if self.why else ""


@dataclass(frozen=True)
class VariantInfo(_Explained):
    """A variant as discovery found it. why: it cannot run here."""

    name: str
    settings: ProcessSettings
    needs: tuple[str, ...]
    why: Reason | None = None


@dataclass(frozen=True)
class PairInfo(_Explained):
    """A pair as discovery found it on one device. why: it cannot run on it.

    tip: the fields of `tipbench.tip.pair.Tip`, as plain JSON. file: relative to the folder that holds the
    folder of pairs (`benchmarks/general/no_grad.py`), so that no path of a person is stored. flush_l2: a GPU's
    L2 cache was emptied before every step. worded: the variant that the tip's answer is about; empty where that is the
    best of a sweep, or not recorded. job: what `tipbench.suite.describe.job_of` calls a whole job; pairs with the
    same job and sizes do the same work. truth: `tipbench.tip.pair.Pair.truth`.
    code: what `tipbench.suite.source.sides` cut out of the file.
    """

    tip: Mapping[str, Any]
    pair: str
    scale: str
    file: str
    line: Whole
    device: str
    sizes: Mapping[str, Any]
    equal: str
    deadline: Number
    variants: tuple[VariantInfo, ...]
    needs: tuple[str, ...] = ()
    why: Reason | None = None
    flush_l2: bool = False
    worded: str = ""
    job: str = ""
    truth: Mapping[str, Ratio] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`tip.Pair`; the tip alone for a file that could not be imported."""
        return f"{self.tip['id']}.{self.pair}" if self.pair else str(self.tip["id"])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PairInfo:
        """Raises MalformedRecord."""
        return converted(data, cls)


@dataclass(frozen=True)
class Launch:
    """The blocks of one launch in the order they ran, one list an observed quantity.

    variant, seconds: whose block, and its duration in seconds.
    steal_ticks, throttled_us, pressure_us, switches: what disturbed the machine during it: clock
    ticks (1/100 s, all cores) stolen by the hypervisor, microseconds the cgroup was throttled,
    microseconds some task waited for a core, involuntary context switches of the worker.
    gpu: on a GPU, what its driver reported at each block's end, of the first rank's card: "sm_mhz", "memory_mhz",
    "celsius", "milliwatts", and "clock_events", NVML's bits of what held the clock of any rank's card back.
    -1 where the platform does not report it.
    card: of the first launch of a job in a run, what `tipbench.worker.job_card.job_card` answers of it.
    rounds: how many follow each other. Each is 2 x variants consecutive blocks, a palindrome.
    A variant whose verdict is decided is left out of further launches.
    """

    seed: Whole
    variant: tuple[str, ...]
    seconds: tuple[Seconds, ...]
    steal_ticks: tuple[Whole, ...]
    throttled_us: tuple[Whole, ...]
    pressure_us: tuple[Whole, ...]
    switches: tuple[Whole, ...]
    gpu: Mapping[str, tuple[Whole, ...]] = field(default_factory=dict)
    card: Mapping[str, Number] = field(default_factory=dict)
    rounds: Positive = field(kw_only=True)

    @classmethod
    def of_blocks(cls, seed: int, rounds: int, blocks: Sequence[Mapping[str, Any]]) -> Launch:
        """From what each block answered, in order."""
        columns: dict[str, Any] = {key: tuple(block[key] for block in blocks) for key in blocks[0]}
        readings = columns.pop("gpu", ({},))
        gpu = {name: tuple(one[name] for one in readings) for name in readings[0]}
        return cls(seed=seed, **columns, gpu=gpu, rounds=rounds)

    def round_slices(self) -> Iterator[slice]:
        """Which blocks each round holds."""
        length = len(self.variant) // self.rounds
        return (slice(start, start + length) for start in range(0, len(self.variant), length))


@dataclass(frozen=True)
class Trainings:
    """Whole trainings of one variant, counted and not timed, one list an observed quantity, by seed.

    target: what scores must reach, from either side. batch: samples of an optimizer step. steps_timed: optimizer steps
    within a step that is timed. seeds: alike for all variants of a pair. steps: optimizer steps until the target was
    reached, or until the training was given up. scores: what each came to in the end; None where that is not finite.
    """

    target: Number
    batch: Positive
    steps_timed: Positive
    seeds: tuple[Whole, ...]
    steps: tuple[Positive, ...]
    reached: tuple[bool, ...]
    scores: tuple[Number | None, ...]


@dataclass(frozen=True)
class VariantRecord(_Explained):
    """What was found out about one variant.

    equal: {"method", "worst", "tolerance", "seeds"}: worst is the largest difference from the
    baseline relative to the tensor's largest value; Equal.REFERENCE and LOSSY have "error" in its place, the
    variant's distance from the fp64 reference, and "baseline_error". Of Equal.TARGET {"method", "seeds"}, and before
    November 2026 "target" and "lowest", the lowest score of both sides.
    mechanism: {"what", "baseline", "optimized", "engaged"}: the count's name, the two counts. A count that nothing
    on this machine can count is {"unseen": why}; engaged is null then.
    memory: bytes: "tensor_peak" (live tensors, from the build on), "steady_peak" (in the last step alone),
    "resident_peak" (process), "tree" (proportional set size with child processes), on GPUs "allocated_peak" and
    "reserved_peak" of torch's allocator and "device_used" (all that is in use on the card, by whomever, after the
    steps); a missing key means the platform does not report it.
    energy: of a GPU, "joules_a_step"; empty where the platform does not report it.
    work: of the baseline, `Pair.work` of all ranks together; the other sides do the same.
    trainings: None where the pair has none.
    one_off: seconds: "build", "warm_up" (beyond what the same number of steady steps takes), cold.
    """

    outcome: Outcome
    why: Reason | None = None
    equal: Mapping[str, Any] = field(default_factory=dict)
    mechanism: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Count] = field(default_factory=dict)
    one_off: Mapping[str, Number] = field(default_factory=dict)
    energy: Mapping[str, Number] = field(default_factory=dict)
    work: Mapping[str, Count] = field(default_factory=dict)
    trainings: Trainings | None = None


@dataclass(frozen=True)
class Record(_Explained):
    """Everything stored of one pair in one run.

    steps: consecutive steps in each block. One whose outcome is "failed" or "skipped" says why; the variants of a
    measured one can be skipped or failed too.
    """

    info: PairInfo
    outcome: Outcome
    why: Reason | None = None
    steps: Count = 0
    variants: Mapping[str, VariantRecord] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    wall_s: Number = 0.0

    @property
    def name(self) -> str:
        return self.info.name

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Raises MalformedRecord."""
        try:
            record = strict(data, cls)
        except MalformedRecord:
            by_variant(data)
            raise
        record.check()
        return record

    def check(self) -> None:
        """What no field says by itself; statistics and report rely on it. Raises MalformedRecord."""
        converted(self.info.tip, StoredTip, "info.tip")
        for name, found in self.variants.items():
            converted(found.mechanism, Mechanism, f"variants.{name}.mechanism")
            converted(found.equal, Equality, f"variants.{name}.equal")
        _check_trainings(self.variants)
        names = [variant.name for variant in self.info.variants]
        if len(names) != len(set(names)):
            raise MalformedRecord(f"info.variants: two of {', '.join(names)} have the same name")
        for number, launch in enumerate(self.launches, 1):
            _check_launch(number, launch)
        present = [set(launch.variant) for launch in self.launches]
        if self.outcome == "measured":
            self._check_measured(names, present)
        for number, (before, now) in enumerate(pairwise(present), 2):
            # Variants leave when they are decided, and do not come back; the baseline stays.
            if not ("baseline" in now and len(now) > 1 and now <= before):
                raise MalformedRecord(f"launch {number} holds the blocks of {', '.join(sorted(now)) or 'nobody'}")

    def _check_measured(self, names: Sequence[str], present: Sequence[set[str]]) -> None:
        """names: of all variants. present: by launch those it holds."""
        if bool(present) != bool(self.steps):
            raise MalformedRecord("a count of steps goes with launches, and there is one of both only")
        if not {"baseline"} < set(names):
            raise MalformedRecord("outcome is measured, but no baseline or nothing beside it is listed")
        measured = {name for name in names if name not in self.variants or self.variants[name].outcome == "measured"}
        if present and (lacking := measured - present[0]):
            raise MalformedRecord(f"launch 1 lacks the blocks of {', '.join(sorted(lacking))}")


def by_variant(data: Any) -> None:
    """Raises MalformedRecord for a malformed variant in a record's JSON, by its name: msgspec names no key of a
    mapping."""
    variants = data.get("variants") if isinstance(data, dict) else None
    for name, variant in variants.items() if isinstance(variants, dict) else ():
        converted(variant, VariantRecord, f"variants.{name}")


def _check_trainings(variants: Mapping[str, VariantRecord]) -> None:
    """Sides are compared seed by seed."""
    seeds = None
    for name, found in variants.items():
        if found.trainings is None:
            continue
        columns = found.trainings.steps, found.trainings.reached, found.trainings.scores
        seeds = seeds or found.trainings.seeds
        if len(seeds) < 2 or found.trainings.seeds != seeds or any(len(column) != len(seeds) for column in columns):
            raise MalformedRecord(
                f"variants.{name}.trainings: one of each number is expected for each of the same seeds"
            )


def _check_launch(number: int, launch: Launch) -> None:
    columns = [column for column in vars(launch).values() if isinstance(column, tuple)]
    if len({len(column) for column in (*columns, *launch.gpu.values())}) != 1:
        raise MalformedRecord(f"launch {number} has columns of different lengths")
    sides = len(set(launch.variant))
    if len(launch.variant) != launch.rounds * 2 * sides:
        rounds = f"{launch.rounds} rounds of twice each of {sides} variants"
        raise MalformedRecord(f"launch {number} holds {len(launch.variant)} blocks, not {rounds}")
    for blocks in launch.round_slices():
        names = launch.variant[blocks]
        if names != names[::-1] or len(set(names)) != sides:
            raise MalformedRecord(f"launch {number} holds a round that is no palindrome of all variants")


@dataclass(frozen=True)
class Run:
    """All records of one invocation on one machine, with what was in force.

    machine: `tipbench.machine.describe.describe()`. controls: environment variables set for every worker
    ({} with --bare). planned: names of the pairs the run set out to measure, in order.
    options: what `--resume` needs to go on as the run began, as in `tipbench.records.fields.RunOptions`.
    """

    id: str
    started: str
    suite: str
    commit: str
    machine: Mapping[str, Any]
    controls: Mapping[str, str]
    options: Mapping[str, Any]
    planned: tuple[str, ...]
    records: tuple[Record, ...] = ()

    @property
    def cores(self) -> int:
        """Of the machine, by which rounds are left out as disturbed; 1 if it does not tell."""
        cores = self.machine.get("cores")
        return cores if isinstance(cores, int) else 1
