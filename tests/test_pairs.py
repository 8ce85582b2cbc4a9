"""Every pair of benchmarks/, at test size on this machine: both sides work, agree, and the tip engages.

Variants with process settings of their own run in processes that have them; all pairs that share
process settings share one process. Nothing here reads a clock.
"""

import contextlib
import functools
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from benchmarks import control
from benchmarks.cpu import openmp_threads
from benchmarks.general import fuse_pointwise, no_grad
from benchmarks.modern.prefetch import copied_ahead
from tests.at_test_size import DEVICE, AtTestSize, device_of
from tipbench.machine.controls import controls, environment
from tipbench.machine.native import find_programs
from tipbench.records.record import PairInfo
from tipbench.suite import describe
from tipbench.suite.describe import info
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.needs import available_cores, compiler, gpu
from tipbench.tip.pair import BY_REFERENCE, NO_TIPS, Equal, Pair, Tip, Variant, variants
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason
from tipbench.tip.sizes import TIERS, Sizes, tier_here
from tipbench.worker import checks
from tipbench.worker.checks import Results
from tipbench.worker.ranks import as_unset

FILES = pair_files(BENCHMARKS)
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.exit("make test-gpu needs a CUDA GPU and a CUDA build of torch: no GPU found", returncode=2)

CORES = available_cores()

ALLOCATORS = [
    *(r"glibc: \d+", r"jemalloc as PyTorch's launcher sets it: \d+", r"jemalloc: \d+", r"jemalloc keeping: \d+"),
    *(r"tcmalloc: \d+", r"glibc keeping: \d+", r"glibc with huge pages: \d+"),
]

OPENMP = [
    *("libgomp", "libiomp5", "libiomp5, KMP_BLOCKTIME=0", "libiomp5, KMP_BLOCKTIME=1"),
    "libiomp5, KMP_AFFINITY=granularity=fine,compact,1,0",
]

LAUNCHED = [["glibc", "libgomp", CORES], ["tcmalloc", "libiomp5", 1], ["jemalloc", "libiomp5", 1]]

# Counts at test size, baseline first, then the variants in order, exact on torch 2.15.
# A string is a regular expression. Sizes that depend on the machine are computed from it.
COUNTS: dict[str, list[Any]] = {
    "control.Pointwise": [5, 5],
    "control.Convolution": [1, 1],
    "control.SmallOperations": [10, 10],
    "control.OwnSurroundings": [5, 5],
    "fuse-pointwise.Gelu": [5, 1, 1],
    "fuse-pointwise.TransformerTraining": [221, 208, 208],  # backward too: of one operation five would be left
    "channels-last.Convolution": [1, 0],
    "async-loading.Decoding": [0, *dict.fromkeys((1, CORES, 2 * CORES, 4 * CORES)), CORES],
    "async-loading.ShortEpochs": [CORES, 0],
    "async-loading.TrainingFromFiles": [0, *dict.fromkeys((1, CORES, 2 * CORES, 4 * CORES))],
    "async-loading.TrainingFromStorage": [0, *dict.fromkeys((1, CORES, 2 * CORES, 4 * CORES))],
    "async-loading.InferenceFromStorage": [8 * CORES, *[0] * len({1, CORES, 2 * CORES, 4 * CORES}), 0],
    "checkpointing.CheapLayers": [4 * 7 * 400, 4 * 400],  # 4 blocks of three tensors and a larger one, or their input
    "no-debug-apis.Profiler": [1, 0],
    "no-sync.GPTTraining": [4, 1],
    "openmp-threads.SmallOperations": [r"\d+, 0 bound", "1, 0 bound", r"\d+, [1-9]\d* bound", r"\d+, [1-9]\d* bound"],
    "openmp-threads.ResNetInference": [
        [openmp_threads.CORES, openmp_threads.DEFAULT],
        *[[openmp_threads.CORES // count] * 2 for count in openmp_threads.INSTANCES],
        [openmp_threads.CORES // openmp_threads.INSTANCES[0], openmp_threads.DEFAULT],
    ],
    "allocator.Temporaries": ALLOCATORS,
    "allocator.ResNet50Inference": ALLOCATORS,
    "allocator.TransformerEpoch": ALLOCATORS,
    "libiomp.SmallOperations": OPENMP,
    "libiomp.ResNetInference": OPENMP[:-1],
    "launcher.ResNetInference": LAUNCHED,
    "launcher.EncoderInference": LAUNCHED,
    "launcher.GPTTraining": LAUNCHED,
    "numa.MemorySweep": [r"default, nodes \[.*\]", r"bind:0, nodes \[0\]"],
    "numa.ResNetInference": [r"default, nodes \[.*\]", r"bind:0, nodes \[0\]"],
    "cpu-ddp.GPTTraining": [0, 1, 1],
    "layer-order.GPTTraining": [27, 11, 1],  # of 27 parameters
    "no-bias-before-bn.ConvolutionAndNorm": [1, 0],
    "no-bias-before-bn.WideConvolutionAndNorm": [1, 0],
    "no-bias-before-bn.VGGTraining": [8, 0],
    "grad-none.SmallParameters": [10, 0, 0],
    "grad-none.FewParameters": [5, 0, 0],
    "grad-none.ManyParameters": [20, 0, 0],
    "grad-accumulation.GPTTraining": [1, 4],
    "batch-size.NextByte": [16, 4, 1],
    "batch-size.EqualUpdates": [4, 1],
    "grad-clipping.GPTTraining": [0, 1],
    "muon.NextByte": [["AdamW"], ["AdamW", "Muon", "MuonAndAdamW"], ["Adafactor"]],
    "flex-attention.GPTInference": [1, 0],
    "ddp-hook.GPTTraining": [0, 1],
    "one-cycle.NextByte": [1, 20, 20, 20],
    "one-cycle.CleanPhotos": [1, 20, 20, 20],
    "compile-modes.ResNetInference": [83, 16, None],
    "frozen-weights.ResNetInference": [[83, 0], [16, 21], [16, 20]],
    "dynamic-int8.HeldOutLoss": [0, 9],
    "dynamic-int8.GPTInference": [0, 5],
    "static-int8.HeldOutError": [0, 5],
    "static-int8.ResNetInference": [0, 21],
    "changing-shapes.TransformerEpoch": [2, 1, 1],
    "compile-cache.GPTInference": [1, 0],
    "mapped-weights.GPTStart": [0, 15],  # positions are looked up without a module
    "ahead-of-time.Start": [1, 0],
    "ahead-of-time.ResNetInference": [83, 15],
    "ahead-of-time.GPTInference": [18, 4],
    "request-batches.EncoderInference": [64, 16, 4, 1],
    "request-batches.ResNetInference": [64, 16, 4, 1],
    "regional-compile.GPTTraining": [40, 17],
    "compiled-optimizer.GPTTraining": [208, 49],
    "chunked-loss.GPTTraining": [4 * 32 * 256, *[4 * 256 * 16] * 2],  # all scores, or the weight's gradient
    "key-value-cache.GPTGeneration": [634112, 256512, 252672, 256512],
    "prefetch.TrainingFromFiles": [4, 8, 16],
    "prefetch.CopyingAhead": [0, 3],
    "reduced-decoding.SmallNetworkInference": [2 * 1500 * 1125, 2 * 188 * 141],
    "reduced-decoding.ResNetInference": [1500 * 1125, 188 * 141],
    "decoded-in-memory.SmallNetworkTraining": [2 * 500 * 375, 0],
    "decode-jpeg.Decoding": [2 * 500 * 375, 0],
    "decode-jpeg.SmallNetworkTraining": [2 * 500 * 375, 0],
    "decode-jpeg.TrainingInWorkers": [None, 0],  # by the clock
    "batched-items.Reading": [4 * 4 * 2, 0, 0, 0],
    "batched-items.PerceptronTraining": [4 * 2, 0],
    "batches-as-ready.InferenceFromStorage": [None, 0],  # by the clock
    # Nothing but these is left where the tip is at work; how much there was depends on the model.
    "no-grad.ResNetInference": [None, 0, 0],
    "no-grad.TransformerEncoderInference": [None, 0, 0],
    "channels-last.ResNetTraining": [None, 0],
    "channels-last.ResNetTrainingInBfloat16": [None, 0],
    "channels-last.ResNetInference": [None, 0],
    "channels-last.MobileNetInference": [None, 0],
    "no-debug-apis.ResNetTraining": [None, 0],
}


def every_pair() -> Iterator[tuple[str, type[Pair]]]:
    for file in FILES:
        module = load_module(file, BENCHMARKS)
        for pair in pair_classes(module):
            yield f"{module.TIP.id}.{pair.__name__}", pair


PAIRS = dict(every_pair())
VARIANTS = [(name, variant) for name, pair in PAIRS.items() for variant in variants(pair)]
COMPILER = compiler().text


def tried() -> Iterator[tuple[str, Variant]]:
    """All variants but baselines. Of a whole job the further values of a sweep, further settings of its process, and
    what is timed by inductor are tried only where no earlier pair of the tip has been tried so: its code is the same.
    """
    before = set()
    for name, variant in VARIANTS:
        _, first, *_ = variants(PAIRS[name])
        key = name.partition(".")[0], variant.name
        settings = variant.settings
        alike = bool(variant.arguments) or replace(settings, env=(), preload=(), prefix=()) != settings
        alike |= variant.name == "max_autotune"
        repeated = PAIRS[name].scale == "macro" and variant.name != first.name and alike and key in before
        if variant.name != "baseline" and not repeated:
            yield name, variant
        before.add(key)


OTHERS = [*tried()]


def is_slow(name: str) -> bool:
    """Whether a pair is a whole job, compiles, or has processes of its own."""
    pair = PAIRS[name]
    apart = any(variant.settings != ProcessSettings() for variant in variants(pair))
    return pair.scale == "macro" or apart or COMPILER in {need.text for need in pair.needs}


def named(cases: list[tuple[str, Variant]]) -> pytest.MarkDecorator:
    """Each of these variants by its name."""
    marked = [
        pytest.param(name, variant, id=f"{name}[{variant.name}]", marks=[pytest.mark.slow] * is_slow(name))
        for name, variant in cases
    ]
    return pytest.mark.parametrize(("name", "variant"), marked)


def unmet(name: str, variant: Variant | None = None) -> Reason | None:
    """Why the pair, or one of its variants, cannot run here."""
    needs = PAIRS[name].needs + (variant.needs if variant else ())
    device = device_of(PAIRS[name]).type
    return describe.unmet(needs, device)


@functools.lru_cache(maxsize=3)  # a pair at a time: parameters and gradients of one variant may take a GiB
def results(name: str, builder: str) -> tuple[Results, Any]:
    """(what a variant's steps returned, the mechanism's count), from a process that fits it."""
    variant = next(variant for variant in variants(PAIRS[name]) if variant.name == builder)
    if variant.settings != ProcessSettings():
        outputs, count = _with_settings(variant.settings)[*place_of(name), builder]
        return Results(**outputs), count
    # A pair has a process of its own in a run. What torch.compile has learned from another pair, such as that
    # AdamW's eps changes, would become an operation more of this one.
    torch.compiler.reset()
    subject = AtTestSize(PAIRS[name])
    return subject.results(builder), checks.mechanism_count(subject, builder, seed=0)


@functools.lru_cache(maxsize=1)
def reference(name: str) -> Results:
    return AtTestSize(PAIRS[name]).reference()


def place_of(name: str) -> tuple[str, str]:
    """(file, class) of a pair."""
    return inspect.getfile(PAIRS[name]), PAIRS[name].__name__


@functools.cache
def _with_settings(settings: ProcessSettings) -> dict[tuple[str, str, str], Any]:
    """The results of all variants that share these process settings, from one process (or group) in them."""
    wanted = [
        (*place_of(name), variant.name)
        for name, variant in VARIANTS
        if variant.settings == settings and not unmet(name, variant)
        if variant.name == "baseline" or (name, variant) in OTHERS
    ]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.pt"
        ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(settings.ranks), "--no-python"]
        launcher = [sys.executable, *ranks, *as_unset(settings.without)] if settings.ranks > 1 else []
        env = environment(controls(torch.get_num_threads()), settings)
        env["PYTHONPATH"] = str(BENCHMARKS.parent)  # where this file is
        command = [*find_programs(settings.prefix), *launcher, sys.executable, "-P", "-m", "tests.at_test_size"]
        command += [str(answer), json.dumps(wanted)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr[-3000:]
        return torch.load(answer)  # type: ignore[no-any-return]


# ---- what a file says ------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_one_tip(file: Path) -> None:
    module = load_module(file, BENCHMARKS)
    assert isinstance(module.TIP, Tip)
    assert module.TIP.id == ("control" if file.stem == "control_jobs" else file.stem.replace("_", "-"))
    assert module.__doc__
    pairs = pair_classes(module)
    assert pairs
    if module.TIP is not control.TIP and module.TIP.id not in NO_TIPS:
        assert module.TIP.guide
        assert "Why people write the baseline" in module.__doc__
        assert "What to expect" in module.__doc__


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_says_what_it_counts_how_large_it_is_and_how_its_sides_agree(name: str) -> None:
    pair = PAIRS[name]
    assert pair(torch.device("cpu")).mechanism.what
    assert pair.sizes.on("S")
    assert pair.__doc__
    assert pair.tolerance <= (1e-1 if pair.equal is Equal.LOSSY else 1e-2)
    assert pair.equal not in BY_REFERENCE or pair.reference is not Pair.reference
    names = [variant.name for variant in variants(pair)]
    assert names[0] == "baseline"
    assert len(set(names)) == len(names) >= 2


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """AtTestSize sizes need no second thread, and on a busy machine threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ---- what a pair does ------------------------------------------------------------------------------

pytestmark = [
    # B3's two to four workers a core: see the test of it below.
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    # DataLoader forks its workers beside torch's threads; Python 3.12 and later warn of every such fork.
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    # torchvision 0.29 points to TorchCodec, which is no dependency.
    pytest.mark.filterwarnings("ignore:The image decoding and encoding capabilities:DeprecationWarning"),
    # torch.compile looks at .grad of what it is given, and hides this from all but "error" filters.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
    pytest.mark.usefixtures("one_thread"),
]


@named(OTHERS)
def test_both_sides_do_the_same_work_and_the_tip_engages(name: str, variant: Variant) -> None:
    if missing := unmet(name, variant):
        assert missing.text
        assert missing.remedy
        pytest.skip(missing.text)
    pair, names = PAIRS[name], [each.name for each in variants(PAIRS[name])]
    (baseline, before), (tuned, after) = results(name, "baseline"), results(name, variant.name)
    print(f"{name}[{variant.name}]: {before} -> {after}")
    print(checks.equality(AtTestSize(pair), variant.name, baseline, tuned, reference(name)))
    assert pair(device_of(pair)).mechanism.shows(before, after)
    assert json.loads(json.dumps([before, after])) == [before, after], "a count is stored as JSON"
    if DEVICE == "cpu" and name in COUNTS:
        expected = dict(zip(names, COUNTS[name], strict=True))
        assert is_count(before, expected["baseline"]), expected
        assert is_count(after, expected[variant.name]), expected


def is_count(count: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        return bool(re.fullmatch(expected, count))
    return bool(count > 0 if expected is None else count == expected)


def test_checkpoints_keep_each_block_s_input() -> None:
    """At most the blocks' inputs, and what lies outside of the blocks, are kept."""
    _, plain = results("checkpointing.GPTTraining", "baseline")
    _, checkpointed = results("checkpointing.GPTTraining", "optimized")
    assert checkpointed < plain / 2


def test_without_gradients_the_encoder_takes_its_fused_path() -> None:
    from tipbench.tip.counts import calls

    pair = no_grad.TransformerEncoderInference(torch.device("cpu"), for_test=True)
    fused = "aten::_transformer_encoder_layer_fwd"
    assert calls(pair.baseline(), fused) == 0
    assert calls(pair.optimized(), fused) == pair.size["layers"]


def test_the_formula_is_the_guide_s_gelu() -> None:
    x = torch.linspace(-4, 4, 100, dtype=torch.float64)
    assert torch.allclose(fuse_pointwise.gelu(x), torch.nn.functional.gelu(x), atol=1e-4)


# ---- what cannot run here says why -----------------------------------------------------------------


FOR_GPUS = [name for name, pair in PAIRS.items() if "cpu" not in pair.devices]


@pytest.mark.parametrize(
    ("cuda", "hip", "accelerator", "expected"),
    [
        (None, None, None, "this torch was built without CUDA"),
        (None, None, "mps", "this torch was built without CUDA, and no pair is written for mps"),
        ("13.0", None, None, "0 found"),
        (None, "7.0", None, "0 found"),  # ROCm answers as CUDA
    ],
)
def test_why_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, hip: str | None, accelerator: str | None, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerator is not None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: accelerator and torch.device(accelerator))
    missing = gpu(1).unmet("cuda")
    assert missing is not None
    assert missing.text == f"needs 1 CUDA GPU: {expected}"


def described(name: str, device: str, tier: str = "S") -> PairInfo:
    """A pair as a run on a device would have it, with such a GPU there or not."""
    file = Path(inspect.getfile(PAIRS[name]))
    return info(PAIRS[name], load_module(file, BENCHMARKS).TIP, file, BENCHMARKS.parent, device, tier)


def test_pairs_share_a_job_only_where_their_files_change_nothing_of_it() -> None:
    names = (
        *("channels-last.ResNetTraining", "amp.ResNetTraining", "async-loading.TrainingFromStorage"),
        *("no-grad.ResNetInference", "compile-modes.ResNetInference", "channels-last.Convolution"),
    )
    assert [described(name, "cpu").job for name in names] == [
        *("TrainResNet", "TrainResNet", "TrainFromStorage"),
        *("no-grad.ResNetInference", "compile-modes.ResNetInference", ""),
    ]


def test_the_sizes_of_a_tier_are_recorded() -> None:
    pair = PAIRS["channels-last.Convolution"]
    small = {"batch": 8, "channels": 64, "pixels": 56}
    large = {"batch": 64, "channels": 64, "pixels": 56}
    assert [described("channels-last.Convolution", "cpu", tier=tier).sizes for tier in TIERS] == [small, small, large]
    assert pair(torch.device("cpu")).size == small
    assert pair(torch.device("cpu"), large).size == large
    assert pair(torch.device("cpu"), large, for_test=True).size == {**large, **pair.sizes.test}


def test_other_sizes_differ_in_what_is_named() -> None:
    sizes = Sizes(dict(batch=1, width=2), M=dict(batch=3), L=dict(width=4), test=dict(batch=5))
    others = sizes.but(dict(batch=6), L=dict(batch=7), test=dict(width=8))
    on_tiers = [dict(batch=6, width=2), dict(batch=3, width=2), dict(batch=7, width=4)]
    assert [others.on(tier) for tier in TIERS] == on_tiers
    assert others.test == dict(batch=5, width=8)
    assert sizes.on("L") == dict(batch=3, width=4)
    with pytest.raises(TypeError, match="pixels"):
        sizes.but(M=dict(pixels=9))


@pytest.mark.parametrize(("gibibytes", "tier"), [((79,), "L"), ((14.6,), "L"), ((79, 11), "M"), ((7.5,), "M")])
def test_the_smallest_card_decides_on_the_tier(
    monkeypatch: pytest.MonkeyPatch, gibibytes: tuple[float, ...], tier: str
) -> None:
    cards = [SimpleNamespace(total_memory=int(gib * 2**30)) for gib in gibibytes]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda card: cards[card])
    assert tier_here("cuda", cores=2, memory_bytes=8 << 30) == tier


@pytest.mark.parametrize(
    ("cores", "gib", "tier"), [(2, 24, "S"), (16, 16, "S"), (7, 64, "S"), (8, 32, "M"), (64, 512, "M")]
)
def test_cores_and_memory_decide_on_the_tier_of_a_processor(cores: int, gib: int, tier: str) -> None:
    assert tier_here("cpu", cores, gib << 30) == tier


def test_the_cache_of_a_gpu_is_emptied_where_memory_is_what_a_step_waits_for() -> None:
    assert described("fuse-pointwise.Gelu", "cuda").flush_l2
    assert not described("fuse-pointwise.Gelu", "cpu").flush_l2
    assert not described("control.SmallOperations", "cuda").flush_l2


# Streams, graphs and pinned memory are a GPU's, and what is compiled for one a CPU would not run. Convolutions in
# float16 take a CPU most of a minute.
ON_A_GPU_ONLY = {
    "pin-memory.TrainingFromFiles": {"optimized", "waiting"},
    "cuda-graphs.TinyKernels": {"baseline", "optimized", "max_autotune"},
    "cuda-graphs.SmallBatchTraining": {"baseline", "optimized", "by_hand"},
    "cuda-graphs.SmallBatchInference": {"baseline", "optimized"},
    "prefetch.CopyingAhead": {"baseline", "optimized"},
    "no-padding.TransformerEpoch": {"nested_tensor"},
    "no-padding.GPTTraining": {"nested_tensor"},
    "precision.ResNetTraining": {"float16"},
}


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one, for what is written for several."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture
def unseen_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """For pairs given the CPU on a machine that has GPUs: DataParallel would look for the model on them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


ALSO_ON_A_CPU = {
    name: [
        side.name
        for side in variants(PAIRS[name])
        if side.name not in ON_A_GPU_ONLY.get(name, ()) and not side.name.startswith("without_")
    ]
    for name in FOR_GPUS
}
"""All sides but those that leave out one of several tips, each of which its own pairs try."""


@pytest.mark.slow
@pytest.mark.usefixtures("alone", "unseen_gpus")
@pytest.mark.parametrize("name", [name for name, sides in ALSO_ON_A_CPU.items() if len(sides) > 1])
def test_pairs_for_gpus_do_the_same_work_as_far_as_a_cpu_can_tell(name: str) -> None:
    """The same code at test size, given another device."""
    pair = AtTestSize(PAIRS[name], torch.device("cpu"))
    first, *others = ALSO_ON_A_CPU[name]
    baseline, reference = pair.results(first), pair.reference()
    for side in others:
        print(checks.equality(pair, side, baseline, pair.results(side), reference))


def test_pairs_given_the_cpu_leave_a_machine_s_gpus_alone(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """DataParallel asks torch for GPUs, not the model where it is."""
    pair = PAIRS["ddp-not-dp.GPTTraining"](torch.device("cpu"), for_test=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises((RuntimeError, AssertionError)):  # no card is there, or the model is on none
        pair.baseline()()
    request.getfixturevalue("unseen_gpus")
    pair.baseline()()


# ---- streams, on a stand-in that does everything at once -------------------------------------------

IN_TURNS = {
    name: sorted(here)
    for name, names in ON_A_GPU_ONLY.items()
    if (here := names - {"by_hand", "nested_tensor", "float16"})
}
"""All but graphs captured by hand, whose replay only a GPU knows, and what needs no stream."""


class Stream:
    """A stream of a made-up GPU: `done` is what it was told, in order."""

    done: ClassVar[list[str]] = []

    def __init__(self, device: torch.device | None = None, name: str = "copying") -> None:
        self.name = name

    def wait_stream(self, other: "Stream") -> None:
        self.done.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def in_turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told to a made-up GPU, whose work is all done on the CPU, uncompiled, when it is asked for."""

    def record_stream(tensor: torch.Tensor, stream: Stream) -> None:
        Stream.done.append(f"{stream.name} uses {int(tensor.flatten()[0])}")

    monkeypatch.setattr(Stream, "done", [])
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream(name="computing"))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", record_stream)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch, "compile", lambda model, **options: model)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda model, **options: None)
    return Stream.done


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning")
@pytest.mark.usefixtures("in_turns")
@pytest.mark.parametrize("name", IN_TURNS)
def test_pairs_with_streams_do_the_same_work_when_everything_is_done_in_turns(name: str) -> None:
    pair = AtTestSize(PAIRS[name], torch.device("cpu"))
    first = "eager" if "eager" in pair.variants else "baseline"
    baseline = pair.results(first)
    for side in IN_TURNS[name]:
        print(checks.equality(pair, side, baseline, pair.results(side), Results()))


def test_each_batch_copied_ahead_is_waited_for_before_the_next_is_copied_and_used(in_turns: list[str]) -> None:
    class Batch(torch.Tensor):
        def to(self, *_: Any, **options: Any) -> torch.Tensor:
            assert options == {"non_blocking": True}
            in_turns.append(f"copy {int(self[0])}")
            return self.as_subclass(torch.Tensor)

    batches = [torch.full((1,), float(number)).as_subclass(Batch) for number in range(3)]

    def compute(batch: torch.Tensor) -> None:
        in_turns.append(f"compute {int(batch[0])}")

    for batch in copied_ahead(batches, torch.device("cpu")):
        compute(batch)
    wait = "computing waits for copying"
    assert in_turns == [
        *("copy 0", wait, "copy 1", "computing uses 0", "compute 0"),
        *(wait, "copy 2", "computing uses 1", "compute 1"),
        *(wait, "computing uses 2", "compute 2"),
    ]
