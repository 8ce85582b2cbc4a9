"""What discovery, runner, store and report exchange: frozen, plain data, no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tipbench.records.fields import Count, Number, Positive, Ratio, Seconds, Whole
from tipbench.tip.pair import TipText
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

Outcome = Literal["measured", "skipped", "failed"]

PHASES = LOADING, FORWARD, BACKWARD, OPTIMIZER = ("loading", "forward", "backward", "optimizer")
"""The phases of a job's step, in order."""


class _Explained:
    """What has a result, or a reason why there is none; kind, reason and remedy are empty where there is a result."""

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
    """A variant as discovery describes it.

    Attributes:
        name: "baseline", or of another side.
        settings: of its process.
        needs: what the machine must have for it.
        why: why it cannot run here; None where it can.
    """

    name: str
    settings: ProcessSettings
    needs: tuple[str, ...]
    why: Reason | None = None


@dataclass(frozen=True)
class PairInfo(_Explained):
    """A pair as discovery describes it on one device.

    Attributes:
        tip: the texts of its tip.
        file: relative to the folder that holds the folder of pairs (`benchmarks/general/no_grad.py`), so that no
            person's path is stored.
        device: "cpu" or "cuda".
        pair: name of its class; empty, as all that follows, for a file that could not be imported.
        scale: "micro" or "macro".
        line: of its class in the file.
        sizes: sizes of its inputs and model, by name.
        equal: how its outputs are compared, as in `tipbench.tip.pair.Equal`.
        variants: baseline first.
        needs: what the machine must have for it.
        why: why it cannot run here; None where it can.
        flush_l2: whether a GPU's L2 cache was emptied before every step.
        worded: headline variant, which the tip's answer is about; empty where that is the best of a sweep, or where
            all variants are timed from the start, as of tips followed together.
        task: what a whole job does: "training", "inference", or "processes" for several at once; empty for an
            operation alone.
        job: name that `tipbench.suite.describe.job_of` gives a whole job; pairs with equal job and sizes do the same
            work.
        truth: speedup by variant where it is known by design, as in `tipbench.tip.pair.Pair.truth`.
        source: digest of its code, from `tipbench.suite.source`; empty in runs until November 2026.
    """

    tip: TipText
    file: str
    device: str
    pair: str = ""
    scale: str = ""
    line: Whole = 0
    sizes: Mapping[str, Any] = field(default_factory=dict)
    equal: str = ""
    variants: tuple[VariantInfo, ...] = ()
    needs: tuple[str, ...] = ()
    why: Reason | None = None
    flush_l2: bool = False
    worded: str = ""
    task: str = ""
    job: str = ""
    truth: Mapping[str, Ratio] = field(default_factory=dict)
    source: str = ""

    @property
    def name(self) -> str:
        """`tip.Pair`; the tip alone for a file that could not be imported."""
        return f"{self.tip.id}.{self.pair}" if self.pair else self.tip.id


@dataclass(frozen=True)
class Launch:
    """The blocks of one launch in the order in which they ran, one column for each observed quantity.

    The three columns that say how the machine was disturbed hold -1 where the platform does not report them. A variant
    whose verdict is decided is left out of further launches, and one that its tip's answer is not about may come later.

    Attributes:
        seed: of the launch's inputs and of the order of its blocks.
        variant: name of each block's variant.
        seconds: duration of each block (s).
        steal_ticks: time stolen by the hypervisor during the block, all cores (clock ticks of 1/100 s).
        throttled_us: time for which the cgroup was throttled (µs).
        pressure_us: time for which some task waited for a core (µs).
        gpu: driver's readings at each block's end, by name: "sm_mhz", "memory_mhz", "celsius" and "milliwatts" of the
            first rank's card, and "clock_events", NVML's bits of what limited the clock of any rank's card; -1 where
            not reported.
        card: job profile (`tipbench.worker.job_card.job_card`); only in the first launch of a job in a run.
        stretches: durations of consecutive blocks of a variant alone in a fresh process (s), by variant; where sides
            with threads or child processes share a process, in the first launch and where steps seem slower alone.
            Runs until November 2026 have none.
        by_stretch: whether the effects are those of the stretches, which all variants have: of pairs that load data in
            worker processes.
        others: cores that other programs kept busy meanwhile, on average; -1 where unknown, as in older files.
        session: in which of the run's sessions it was made, from 0.
        rounds: number of rounds. Each is 2 x variants consecutive blocks, in a palindrome.
    """

    seed: Whole
    variant: tuple[str, ...]
    seconds: tuple[Seconds, ...]
    steal_ticks: tuple[Whole, ...]
    throttled_us: tuple[Whole, ...]
    pressure_us: tuple[Whole, ...]
    gpu: Mapping[str, tuple[Whole, ...]] = field(default_factory=dict)
    card: Mapping[str, Number] = field(default_factory=dict)
    stretches: Mapping[str, tuple[Seconds, ...]] = field(default_factory=dict)
    by_stretch: bool = False
    others: Number = -1.0
    session: Count = 0
    rounds: Positive = field(kw_only=True)

    @classmethod
    def of_blocks(cls, seed: int, rounds: int, blocks: Sequence[Mapping[str, Any]]) -> Launch:
        """The launch from the worker's readings of each block, in order."""
        columns: dict[str, Any] = {key: tuple(block[key] for block in blocks) for key in blocks[0]}
        readings = columns.pop("gpu", ({},))
        gpu = {name: tuple(reading[name] for reading in readings) for name in readings[0]}
        return cls(seed=seed, **columns, gpu=gpu, rounds=rounds)

    @property
    def is_whole(self) -> bool:
        """Whether it has the blocks that its rounds need, by which statistics divide: lines of runs until November 2026
        have no checksum."""
        sides = set(self.variant)
        columns = (
            self.variant,
            self.seconds,
            self.steal_ticks,
            self.throttled_us,
            self.pressure_us,
            *self.gpu.values(),
        )
        has_stretches = not self.by_stretch or sides <= self.stretches.keys()
        lengths = {len(column) for column in columns}
        return {"baseline"} < sides and lengths == {2 * self.rounds * len(sides)} and has_stretches

    def round_slices(self) -> Iterator[slice]:
        """The blocks of each round."""
        length = len(self.variant) // self.rounds
        return (slice(start, start + length) for start in range(0, len(self.variant), length))


def cores_of_others(records: Iterable[Record]) -> list[float]:
    """`Launch.others` of each launch for which it is known."""
    return [launch.others for record in records for launch in record.launches if launch.others >= 0]


@dataclass(frozen=True)
class VariantRecord(_Explained):
    """Results of one variant's checks and memory pass.

    Attributes:
        outcome: "measured", "skipped" or "failed".
        why: why it was skipped or failed; None otherwise.
        equal: {"method", "worst", "tolerance", "seeds"}. "worst" is the largest difference from the baseline relative
            to the tensor's largest value. Equal.REFERENCE and LOSSY have instead "error", the variant's distance from
            the fp64 reference, and "baseline_error". Equal.TARGET has {"method", "seeds"}.
        mechanism: {"what", "baseline", "optimized", "engaged"}: the count's name, both counts, and whether the tip
            takes effect. A count that this machine cannot make is {"unseen": why}; "engaged" is null then.
        memory: bytes, without the keys that the platform does not report: "tensor_peak" (live tensors, from the build
            on), "steady_peak" (in the last step), "resident_peak" (process), "tree" (proportional set size with child
            processes); on GPUs "allocated_peak" and "reserved_peak" of torch's allocator, and "device_used" (in use on
            the card by all processes, after the steps).
        one_off: seconds, with cold caches: "build", and "warm_up" beyond what as many steady steps take.
    """

    outcome: Outcome
    why: Reason | None = None
    equal: Mapping[str, Any] = field(default_factory=dict)
    mechanism: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Count] = field(default_factory=dict)
    one_off: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Record(_Explained):
    """Everything stored of one pair in one run.

    Attributes:
        info: the pair.
        outcome: "measured", "skipped" or "failed"; variants of a measured pair can be skipped or failed too.
        why: why it was skipped or failed; None otherwise.
        steps: consecutive steps in each block; 0 without launches.
        variants: results of each variant, by name.
        launches: in order.
        wall_s: seconds spent on the pair.
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


@dataclass(frozen=True)
class Run:
    """All records of one machine's results file, with its options and controls. Each invocation that measured into the
    file is a session; those after the first have the same options, controls, torch and hardware.

    Attributes:
        id: random, in hexadecimal.
        started: when its first session began, date and time, ISO 8601.
        suite: version of tipbench.
        commit: of the repository that holds the suite.
        machine: from `tipbench.machine.describe.describe`.
        controls: environment variables set for every worker; {} with --bare.
        options: as in `tipbench.records.fields.RunOptions`.
        planned: names of the pairs to be measured, in order.
        records: one for each pair on each device.
        later: when each further session began.
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
    later: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Of the pairs; empty for the guides' own."""
        return str(self.options.get("folder", ""))

    @property
    def cores(self) -> int:
        """Of the machine, by which rounds are left out as disturbed; 1 if it does not tell."""
        cores = self.machine.get("cores")
        return cores if isinstance(cores, int) else 1
