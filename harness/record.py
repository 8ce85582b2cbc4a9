"""What travels between discovery, runner, store and report: frozen, plain data, no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, Literal

from harness.launch import Surroundings

Outcome = Literal["measured", "skipped", "failed"]


class MalformedRecord(ValueError):
    """A stored record lacks a field or holds one of the wrong type; the message names it."""


@dataclass(frozen=True)
class VariantInfo:
    """A variant as discovery found it. `reason` and `remedy` are empty where it can run here."""

    name: str
    surroundings: Surroundings
    needs: tuple[str, ...]
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class PairInfo:
    """A pair as discovery found it on one device. `reason` and `remedy` are empty where it can run.

    tip: the fields of `harness.pair.Tip`, as plain JSON. file: relative to the folder that holds the
    folder of pairs (`benchmarks/general/no_grad.py`), so that no path of a person is stored. cold: a GPU's
    L2 cache was emptied before every step. code: what `harness.source.sides` cut out of the file.
    """

    tip: Mapping[str, Any]
    pair: str
    scale: str
    file: str
    line: int
    device: str
    sizes: Mapping[str, int]
    equal: str
    deadline: float
    variants: tuple[VariantInfo, ...]
    needs: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""
    cold: bool = False
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`tip.Pair`; the tip alone for a file that could not be imported."""
        return f"{self.tip['id']}.{self.pair}" if self.pair else str(self.tip["id"])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "variants": [asdict(variant) for variant in self.variants]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PairInfo:
        listed = tuple(
            VariantInfo(
                **{
                    **variant,
                    "surroundings": Surroundings.from_json(variant["surroundings"]),
                    "needs": tuple(variant["needs"]),
                }
            )
            for variant in data["variants"]
        )
        return cls(**{**data, "variants": listed, "needs": tuple(data["needs"])})


@dataclass(frozen=True)
class Launch:
    """The blocks of one launch in the order they ran, one list an observed quantity.

    variant, seconds: whose block, and its duration in seconds.
    steal_ticks, throttled_us, pressure_us, switches: what disturbed the machine during it: clock
    ticks (1/100 s, all cores) stolen by the hypervisor, microseconds the cgroup was throttled,
    microseconds some task waited for a core, involuntary context switches of the worker.
    gpu: on a GPU, what its driver told at each block's end, of the first rank's card: "sm_mhz", "memory_mhz",
    "celsius", "milliwatts", and "clock_events", NVML's bits of what held the clock of any rank's card back.
    -1 where the platform does not tell. A round is 2 x variants consecutive blocks, a palindrome.
    A variant whose verdict stands is left out of further launches.
    """

    seed: int
    variant: tuple[str, ...]
    seconds: tuple[float, ...]
    steal_ticks: tuple[int, ...]
    throttled_us: tuple[int, ...]
    pressure_us: tuple[int, ...]
    switches: tuple[int, ...]
    gpu: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of_blocks(cls, seed: int, blocks: Sequence[Mapping[str, Any]]) -> Launch:
        """From what each block answered, in order."""
        columns = {key: tuple(block[key] for block in blocks) for key in blocks[0]}
        readings = columns.pop("gpu", ({},))
        return cls(seed=seed, **columns, gpu={name: tuple(one[name] for one in readings) for name in readings[0]})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Launch:
        listed = {key: tuple(data[key]) for key in data if key not in ("seed", "gpu")}
        gpu = {name: tuple(column) for name, column in data.get("gpu", {}).items()}
        return cls(seed=data["seed"], **listed, gpu=gpu)


@dataclass(frozen=True)
class VariantRecord:
    """What was found out about one variant.

    equal: {"method", "worst", "tolerance", "seeds"}: worst is the largest difference from the
    baseline relative to the tensor's largest value; Equal.LOSSY adds "error", the variant's
    distance from the fp64 reference, and "baseline_error". Of Equal.TARGET {"method", "target", "seeds",
    "lowest"}: lowest is the lowest score of both sides.
    mechanism: {"what", "baseline", "optimized", "engaged"}: the count's name, the two counts.
    memory: bytes: "tensor_peak" (live tensors), "resident_peak" (process), "tree" (proportional
    set size with child processes), on GPUs "allocated_peak" and "reserved_peak" of torch's allocator and
    "device_used" (all that is in use on the card, by whomever, after the steps); a missing key
    means the platform does not tell.
    energy: of a GPU, "joules_a_step"; empty where the platform does not tell.
    work: of the baseline, `Pair.work` of all ranks together; the other sides do the same.
    one_off: seconds: "build", "warm_up" (beyond what the same number of steady steps takes), cold.
    """

    outcome: Outcome
    kind: str = ""
    reason: str = ""
    remedy: str = ""
    equal: Mapping[str, Any] = field(default_factory=dict)
    mechanism: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    one_off: Mapping[str, float] = field(default_factory=dict)
    energy: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """Everything stored of one pair in one run.

    steps: consecutive steps in each block. A record with outcome "failed" or "skipped" says why in
    kind (failed only), reason and remedy; the variants of a measured one can be skipped or failed too.
    """

    info: PairInfo
    outcome: Outcome
    kind: str = ""
    reason: str = ""
    remedy: str = ""
    steps: int = 0
    variants: Mapping[str, VariantRecord] = field(default_factory=dict)
    launches: tuple[Launch, ...] = ()
    wall_s: float = 0.0

    @property
    def name(self) -> str:
        return self.info.name

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "info": self.info.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Raises MalformedRecord."""
        try:
            launches = tuple(map(Launch.from_json, data["launches"]))
            record = cls(
                **{
                    **data,
                    "info": PairInfo.from_json(data["info"]),
                    "variants": {name: VariantRecord(**found) for name, found in data["variants"].items()},
                    "launches": launches,
                }
            )
            record._check()
            return record
        except KeyError as error:
            raise MalformedRecord(f"the field {error} is missing") from None
        except (TypeError, AttributeError, ValueError) as error:
            raise MalformedRecord(str(error)) from None

    def _check(self) -> None:
        """What statistics and report rely on; a file edited by hand is caught here and not there."""
        if not all(isinstance(self.info.tip.get(name), str) for name in ("id", "title", "claim")):
            raise ValueError("the tip lacks its id, title or claim")
        if not all(isinstance(self.info.tip.get(name, ""), str) for name in ("published", "status", "note", "why_not")):
            raise ValueError("the tip's published, status, note or why_not is no text")
        if not isinstance(self.info.tip.get("guide", []), list | tuple):
            raise ValueError("the tip's guide is no list")
        _expect_numbers("wall_s", {"wall_s": self.wall_s})
        for outcome in (self.outcome, *(found.outcome for found in self.variants.values())):
            if outcome not in ("measured", "skipped", "failed"):
                raise ValueError(f"outcome is {outcome!r}; expected measured, skipped or failed")
        for name, found in self.variants.items():
            _expect_numbers(f"{name}: memory", found.memory)
            _expect_numbers(f"{name}: one_off", found.one_off)
            _expect_numbers(f"{name}: energy", found.energy)
            _expect_numbers(f"{name}: work", found.work)
        if self.outcome == "measured" and (not self.launches or not 1 <= self.steps < LARGEST):
            raise ValueError("outcome is measured, but no launch or no count of steps is stored")
        _expect_declared("", self)
        _expect_declared("info: ", self.info)
        for variant in self.info.variants:
            _expect_declared(f"info, {variant.name}: ", variant)
        for name, found in self.variants.items():
            _expect_declared(f"{name}: ", found)
        for number, launch in enumerate(self.launches, 1):
            _expect_declared(f"launch {number}: ", launch)
        named = {variant.name for variant in self.info.variants}
        measured = {name for name in named if name not in self.variants or self.variants[name].outcome == "measured"}
        if self.outcome == "measured" and not {"baseline"} < named:
            raise ValueError("outcome is measured, but no baseline or nothing beside it is listed")
        for number, launch in enumerate(self.launches, 1):
            self._check_launch(number, launch)
        present = [set(launch.variant) for launch in self.launches]
        if self.outcome == "measured" and not measured <= present[0]:
            raise ValueError(f"launch 1 lacks the blocks of {', '.join(sorted(measured - present[0]))}")
        for number, (before, now) in enumerate(pairwise(present), 2):
            # Variants leave when they are decided, and do not come back; the baseline stays.
            if not ("baseline" in now and len(now) > 1 and now <= before):
                raise ValueError(f"launch {number} holds the blocks of {', '.join(sorted(now)) or 'nobody'}")

    def _check_launch(self, number: int, launch: Launch) -> None:
        columns = [*(column for column in vars(launch).values() if isinstance(column, tuple)), *launch.gpu.values()]
        if len({len(column) for column in columns}) != 1:
            raise ValueError(f"launch {number} has columns of different lengths")
        for name, column in launch.gpu.items():
            if not all(_is_number(reading) and isinstance(reading, int) for reading in column):
                raise ValueError(f"launch {number}: gpu holds something other than whole numbers for {name}")
        for seconds in launch.seconds:
            # the bounds keep every ratio of two blocks, and its exponential, a finite number
            if not isinstance(seconds, int | float) or not 1e-12 < seconds < 1e12:
                raise ValueError(f"launch {number} holds {seconds!r} where positive seconds are expected")
        length = 2 * len(set(launch.variant))
        for start in range(0, len(launch.variant) - length + 1, length):
            blocks = launch.variant[start : start + length]
            if blocks != blocks[::-1] or len(set(blocks)) * 2 != length:
                raise ValueError(f"launch {number} holds a round that is no palindrome of all variants")


LARGEST = 2**63
"""No count of bytes, seconds or steps comes near it; below it arithmetic neither overflows nor turns infinite."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


HOLDS = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int) and _is_number(value),
    "bool": lambda value: isinstance(value, bool),
    "float": _is_number,
    "Mapping[str, Any]": lambda value: isinstance(value, Mapping),
    "Mapping[str, str]": lambda value: (
        isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    ),
    "Mapping[str, int]": lambda value: isinstance(value, Mapping),
    "Mapping[str, float]": lambda value: isinstance(value, Mapping),
    "Mapping[str, tuple[int, ...]]": lambda value: isinstance(value, Mapping),
    "tuple[str, ...]": lambda value: all(isinstance(item, str) for item in value),
    "tuple[int, ...]": lambda value: all(map(_is_number, value)),
}
"""What a field declared so must hold: JSON puts any type in any place, and statistics and report rely on these."""


def _expect_declared(what: str, found: object) -> None:
    for declared in fields(found):  # type: ignore[arg-type]
        fits = HOLDS.get(str(declared.type))
        if fits is not None and not fits(getattr(found, declared.name)):
            raise ValueError(f"{what}{declared.name} is not of the type {declared.type}")


def _expect_numbers(what: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not _is_number(value):
            raise ValueError(f"{what} holds {value!r} for {name} where a number is expected")


@dataclass(frozen=True)
class Run:
    """All records of one invocation on one machine, with what was in force.

    machine: `harness.machine.describe()`. controls: environment variables set for every worker
    ({} with --bare). planned: names of the pairs the run set out to measure, in order.
    options: what `--resume` needs to go on as the run began (profile, device, seed, bare, folder).
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
