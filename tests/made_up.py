"""Made-up records with known effects, and a small run of them such as a machine would store.

`python -m tests.made_up FILE` writes that run, as tests/golden/run.jsonl.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tipbench.machine.controls import HEAP
from tipbench.records.fields import convert
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.record import Launch, PairInfo, Record, Run, VariantInfo, VariantRecord
from tipbench.records.store import create
from tipbench.records.trainings import Trainings
from tipbench.report.result import Result
from tipbench.tip.pair import Claim, TipText
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import Judgement, judge

MIB = 1 << 20

EVEN = (4, 6, 9, 13, 18)
"""Counts of launches at which the mean of made-up effects is exact."""

MACHINE = {
    "name": "amd-epyc-zen4-2c-24g", "cpu": "AMD EPYC", "microarchitecture": "zen4", "family": 25, "model": 17,
    "stepping": 1, "cores": 2, "physical_cores": 2, "quota_cores": "none",
    "memory_bytes": 25276502016, "caches": {"L1d": 32768, "L2": 1048576}, "flags": ["avx2", "avx512f"],
    "gpus": "unavailable", "kernel": "6.18.44", "python": "3.11.7", "torch": "2.15.0",
}  # fmt: skip


def tip(id: str = "made-up", claim: str = Claim.FASTER, **more: Any) -> TipText:
    return TipText(**{"id": id, "claim": str(claim), "title": "Do so.", "guide": ("A1.1",), **more})


NO_GPU = Reason("needs.gpus", {"wanted": 1, "found": 0})


def info(pair: str = "Pair", variants: Sequence[str] = ("optimized",), **more: Any) -> PairInfo:
    listed = tuple(VariantInfo(name, ProcessSettings(), ()) for name in ("baseline", *variants))
    fixed: dict[str, Any] = {
        "tip": tip(),
        "scale": "micro",
        "file": "benchmarks/general/made_up.py",
        "line": 12,
        "device": "cpu",
        "sizes": {"batch": 32},
        "equal": "allclose",
    }
    return PairInfo(pair=pair, variants=listed, **{**fixed, **more})


def launch(effects: Mapping[str, float], seed: int, rounds: int = 4, baseline_s: float = 0.02) -> Launch:
    """effects: ln t_baseline - ln t_variant of each variant, exactly so in every round."""
    times = {"baseline": baseline_s, **{name: baseline_s * math.exp(-effect) for name, effect in effects.items()}}
    half = random.Random(seed).sample(sorted(times), len(times))
    order = (half + half[::-1]) * rounds
    nothing = (0,) * len(order)
    seconds = tuple(times[name] for name in order)
    return Launch(seed, tuple(order), seconds, nothing, nothing, nothing, rounds=rounds)


def measured(
    about: PairInfo, effects: Mapping[str, float], spread: float = 0.002, launches: int = 6, **more: Any
) -> Record:
    """Launches whose effects scatter evenly around the given ones: mean exact at EVEN, deviation near `spread`.

    more: `memory`, `one_off`, `mechanism`, `equal` by variant; `steps`, `baseline_s` of one block.
    """
    scatter: list[float] = []
    for upto in (*(count for count in EVEN if count < launches), launches):
        many = upto - len(scatter)
        group = [spread * math.sqrt(3) * (2 * (index + 0.5) / many - 1) for index in range(many)]
        scatter += random.Random(ascii(about.pair)).sample(group, many)
    baseline_s = more.get("baseline_s", 0.02)
    made = tuple(
        launch({name: effect + drawn for name, effect in effects.items()}, seed, baseline_s=baseline_s)
        for seed, drawn in enumerate(scatter)
    )
    fields = {key: more.get(key, {}) for key in ("memory", "one_off", "mechanism", "equal")}
    variants = {
        name: VariantRecord("measured", **{key: sides[name] for key, sides in fields.items() if name in sides})
        for name in ("baseline", *effects)
    }
    return Record(about, "measured", steps=more.get("steps", 10), variants=variants, launches=made, wall_s=21.5)


def recorded(effects: Sequence[float], pair: str = "Pair", **about: Any) -> Record:
    """A record with one launch an effect, in this order."""
    made = tuple(launch({"optimized": effect}, seed, rounds=5) for seed, effect in enumerate(effects))
    return replace(measured(info(pair, **about), {"optimized": 0.0}), launches=made)


def only(record: Record) -> Judgement:
    """What is found of its one variant, on two cores."""
    (judged,) = judge(record, RULES, cores=2)
    return judged


def restored(data: Mapping[str, Any]) -> Record:
    """The record that `asdict` gave, as a file's reader has it. Raises MalformedRecord."""
    return convert(data, Record)


def run(records: Sequence[Record] = (), **more: Any) -> Run:
    fixed: dict[str, Any] = {
        "id": "3f9a1c07",
        "started": "2026-03-01T09:30:00+00:00",
        "suite": "0.1.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "machine": MACHINE,
        "controls": {**HEAP, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"},
        "options": {"device": "auto", "seed": 0, "bare": False},
        "planned": tuple(record.name for record in records),
    }
    return Run(records=tuple(records), **{**fixed, **more})


def both(tensor: float, resident: float, **others: tuple[float, float]) -> dict[str, dict[str, int]]:
    """Memory in MiB: the baseline's 800 live and 1000 resident, beside the variant's."""
    sides = {"baseline": (800.0, 1000.0), "optimized": (tensor, resident), **others}
    return {
        name: {"tensor_peak": int(live * MIB), "resident_peak": int(held * MIB)} for name, (live, held) in sides.items()
    }


def count(what: str, before: Any, **after: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {"what": what, "baseline": before, "optimized": counted, "engaged": True}
        for name, counted in after.items()
    }


def trainings(**steps: Sequence[int | None]) -> dict[str, Trainings]:
    """By variant, steps to the target by seed; None for a training that was given up after 1,000."""
    return {
        name: Trainings(
            target=0.97,
            batch=32,
            steps_timed=2,
            seeds=tuple(range(len(counts))),
            steps=tuple(1000 if count is None else count for count in counts),
            reached=tuple(count is not None for count in counts),
            scores=tuple(0.5 if count is None else 0.98 for count in counts),
            lower_is_better=False,
            counted="2026-11-27",
            table="made_up.toml",
        )
        for name, counts in steps.items()
    }


def with_table(rows: Iterable[Result], sides: Mapping[str, Trainings]) -> list[Result]:
    """The rows of a run if the table of their tip holds these trainings."""
    return [replace(row, trainings=(sides["baseline"], sides[row.variant])) for row in rows]


CLOSE = {"method": "allclose", "tolerance": 1e-4, "seeds": 3, "worst": 2.384185791015625e-07}
BITWISE = {"method": "bitwise", "tolerance": 1e-4, "seeds": 3, "worst": 0.0}


def realistic() -> Run:
    """Every outcome, verdict and answer once, in the order and size of a real run on two cores."""
    channels = tip(
        "channels-last", title="Use the channels_last memory format for vision models.", guide=("A1.6",),
        published="26-76 % on Xeon 8380 (PyTorch memory-format tutorial)",
        note="It can also be slower: pytorch#50036, pytorch#82699.",
    )  # fmt: skip
    fuse = tip("fuse-pointwise", title="Fuse pointwise operations.", guide=("A1.5",))
    loading = tip(
        "async-loading", title="Load data in worker processes.", guide=("A1.1", "B3"), published="",
        note="DataLoader workers are processes, so the GIL is not the reason.",
    )  # fmt: skip
    checkpoint = tip("checkpointing", Claim.LEANER, title="Checkpoint activations.", guide=("A1.7",))
    debug = tip("no-debug-apis", "avoids a cost", title="Disable debugging APIs.", guide=("A1.8",))
    graphs = tip("cuda-graphs", title="Use CUDA graphs.", guide=("A3.2",), published="1.2-3x (PyTorch blog)")
    sync = tip("no-sync", title="Skip all-reduce while accumulating gradients.", guide=("A4.2",))
    threads = tip("openmp-threads", title="Choose the number of OpenMP threads.", guide=("A2.2",))
    grads = tip(
        "grad-none", title="Set gradients to None.", guide=("A1.4",), status="default now",
        note="The default since torch 2.0: the pair measures the old way against the new.",
    )  # fmt: skip
    allocator = tip("allocator", title="Use jemalloc.", guide=("A2.4",), published="304 -> 262 ms (ResNet-50)")
    control = tip("control", title="Identical code on both sides.", guide=())
    compile_s = {"baseline": {"build": 0.02, "warm_up": 0.1}, "optimized": {"build": 1.4, "warm_up": 7.1}}
    numbers = {f"num_workers={n}": n for n in (1, 2, 4)}
    sweep = list(numbers)
    started = {name: {"build": 0.4 * n, "warm_up": 0.1} for name, n in numbers.items()}
    loops = {"baseline": {"build": 0.01, "warm_up": 0.05}, **started}
    trees = {"baseline": {"tree": 900 * MIB}, **{name: {"tree": (900 + 210 * n) * MIB} for name, n in numbers.items()}}
    same_bits = dict.fromkeys(sweep, BITWISE)
    workers = count("processes that decode", 1, **numbers)
    training: dict[str, Any] = {"scale": "macro", "task": "training"}
    libjemalloc = VariantRecord("skipped", Reason("needs.native", {"library": "libjemalloc"}))
    ways = {"optimized": 0.1, "thresholds": 0.02}
    temporaries = measured(info("Temporaries", list(ways), tip=allocator), ways, spread=0.03, launches=18)
    temporaries = replace(temporaries, variants={**temporaries.variants, "optimized": libjemalloc})
    hang = Reason("hang", {"seconds": 300, "doing": "block optimized"}, "; ended", "fix no_sync.py, line 40")
    records = [
        measured(info("Pointwise", tip=control), {"optimized": 0.0004}),
        measured(info("Convolution", tip=control), {"optimized": -0.0011}, spread=0.003),
        measured(info("TrainingStep", tip=control, **training), {"optimized": 0.0007}, spread=0.003),
        measured(
            info("Convolution", tip=channels), {"optimized": 0.42}, memory=both(800, 1004), equal={"optimized": CLOSE},
            mechanism=count("modules whose output is in another layout", 1, optimized=0),
            one_off={"baseline": {"build": 0.01, "warm_up": 0.2}, "optimized": {"build": 0.02, "warm_up": 0.3}},
        ),
        measured(
            info("ResNetTraining", tip=channels, **training), {"optimized": 0.30}, spread=0.012, launches=9, steps=1,
            memory=both(790, 1010), equal={"optimized": CLOSE}, baseline_s=0.8434,
            mechanism=count("modules whose output is in another layout", 62, optimized=0),
            one_off={"baseline": {"build": 0.21, "warm_up": 1.1}, "optimized": {"build": 0.24, "warm_up": 2.3}},
        ),
        measured(
            info("Gelu", ["optimized", "functional"], tip=fuse), {"optimized": 1.13, "functional": 1.2},
            memory=both(200, 400, functional=(200, 400)), equal={"optimized": CLOSE, "functional": CLOSE},
            mechanism=count("operations dispatched", 5, optimized=1, functional=1), one_off=compile_s,
        ),
        measured(
            info("MLPTraining", tip=fuse, **training), {"optimized": 0.002}, equal={"optimized": CLOSE},
            one_off=compile_s, memory=both(700, 960), mechanism=count("operations dispatched", 80, optimized=3),
        ),
        measured(
            info("PhotoEpoch", sweep, tip=loading, **training), dict(zip(sweep, (0.01, 0.58, 0.41), strict=True)),
            spread=0.02, launches=18, steps=1, baseline_s=3.2,
            memory=trees, one_off=loops, equal=same_bits, mechanism=workers,
        ),
        measured(
            info("GPTTraining", tip=checkpoint, **training), {"optimized": -0.27}, memory=both(264, 610),
            equal={"optimized": BITWISE}, mechanism=count("bytes saved for backward", 512 * MIB, optimized=64 * MIB),
        ),
        measured(info("ResNetTraining", tip=debug, **training), {"optimized": 1.25}, baseline_s=1.1, steps=1),
        measured(
            info("SmallOperations", ["threads=1", "threads=4"], tip=threads), {"threads=1": -0.1, "threads=4": -0.9},
        ),
        measured(info("ManyParameters", tip=grads), {"optimized": 0.0}, spread=0.001),
        temporaries,
        Record(info("Accumulation", tip=sync), "failed", hang, wall_s=301.2),
        Record(info("TinyKernels", tip=graphs, device="cuda"), "skipped", NO_GPU),
    ]  # fmt: skip
    planned = (*(record.name for record in records), "no-grad.Chain", "no-grad.ResNetInference")
    return run(records, planned=planned)


def on_a_gpu() -> Record:
    """A pair on a card whose driver reports clocks and temperature, and refuses its power."""
    record = measured(info(device="cuda"), {"optimized": 0.3})
    mhz = {"baseline": 1980, "optimized": 1755}
    launches = tuple(
        replace(
            launch,
            gpu={
                "sm_mhz": tuple(mhz[name] for name in launch.variant),
                "celsius": (40,) * len(launch.variant),
                "milliwatts": (-1,) * len(launch.variant),
            },
        )
        for launch in record.launches
    )
    return replace(record, launches=launches)


HOSTILE = (
    "</td><script>alert(1)</script> | a | b\n# head\r\n[x](http://evil) ![i](j) [[w]] `c` **b** _i_ "
    "\x1b[31m \u202e =1+1"
)


def hostile() -> Run:
    """A run with HOSTILE in every field that holds text."""
    everywhere = dict.fromkeys(("id", "title", "claim", "published", "status", "note", "why_not"), HOSTILE)
    about = info(
        HOSTILE, [HOSTILE], tip=tip(**everywhere, guide=(HOSTILE,)), scale=HOSTILE, file=HOSTILE, device=HOSTILE,
        sizes={HOSTILE: 1},
    )  # fmt: skip
    counted = {"what": HOSTILE, "baseline": HOSTILE, "optimized": [HOSTILE], "engaged": True}
    good = measured(about, {HOSTILE: 0.3}, mechanism={HOSTILE: counted}, equal={HOSTILE: {"worst": HOSTILE}})
    bad = Record(replace(about, pair="Bad"), "failed", Reason(HOSTILE, {}, HOSTILE, HOSTILE))
    machine = {"name": HOSTILE, "torch": HOSTILE, HOSTILE: HOSTILE, "gpus": [{"name": HOSTILE}]}
    return run([good, bad], machine=machine, controls={HOSTILE: HOSTILE}, commit=HOSTILE, suite=HOSTILE)


def files(root: Path, texts: Mapping[str, str]) -> Path:
    """Files with these texts beneath `root`, by their paths."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def stored(folder: Path, of: Run) -> Path:
    """The results file of a run beneath `folder`."""
    with create(folder, of) as writer:
        for started in of.later:
            writer.begin_session(started, of.planned)
        for record in of.records:
            writer.append(record)
        return writer.path


def edited(file: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the lines of a results file, the header first, and give them the checksums that go with them."""
    lines = [parse_line(line) for line in file.read_bytes().splitlines()]
    change(lines)
    file.write_bytes(b"".join(map(dump_line, lines)))


def learnt(record: Record) -> Iterator[Record]:
    """A record as it grows: what its checks have found, two launches, its memory, and then the others."""
    nothing: dict[str, Any] = {"memory": {}, "one_off": {}}
    checked = {name: replace(side, **nothing) for name, side in record.variants.items()}
    parts = [
        replace(record, launches=record.launches[:count], steps=record.steps if count else 0)
        for count in range(len(record.launches) + 1)
    ]
    yield from (replace(part, variants=checked) for part in parts[:3])
    yield from parts[2 if checked != record.variants else 3 :]


def write_golden(path: Path) -> None:
    """The run as a machine writes it."""
    of = realistic()
    with tempfile.TemporaryDirectory() as folder, create(Path(folder), of) as writer:
        for record in of.records:
            for part in learnt(record):
                writer.append(part)
        path.write_bytes(writer.path.read_bytes())


if __name__ == "__main__":
    write_golden(Path(sys.argv[1]))
