"""Which pairs of benchmarks/ run where there are 0, 1 or 2 GPUs, and what the others say: with made-up cards."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tipbench.records.record import PairInfo
from tipbench.suite import describe as description
from tipbench.suite.files import BENCHMARKS, pair_files
from tipbench.suite.selection import select
from tipbench.tip.needs import Need
from tipbench.tip.reason import Reason

GIB = 1 << 30

RANKED = {
    *("layer-order.DeepMLP", "layer-order.GPTTraining", "no-sync.LargeLinear", "no-sync.GPTTraining"),
    *("ddp-buckets.LargeLinear", "ddp-buckets.GPTTraining", "ddp-not-dp.GPTTraining"),
}
"""Pairs whose ranks have a GPU each where they run on GPUs."""

FOR_CPUS = {
    *("allocator.Temporaries", "allocator.ResNet50Inference", "allocator.TransformerEpoch"),
    *("cpu-ddp.LargeLinear", "cpu-ddp.GPTTraining"),
    *("libiomp.SmallOperations", "libiomp.ResNetInference", "libiomp.EncoderInference"),
    *("numa.MemorySweep", "numa.ResNetInference", "numa.EncoderInference"),
    *("onednn-graph.ConvolutionBlock", "onednn-graph.ResNetInference", "onednn-graph.ResNet50Inference"),
    "onednn-graph.ResNet50InBfloat16",
    *("openmp-threads.MatrixProduct", "openmp-threads.SmallOperations", "openmp-threads.BoundThreads"),
    *("openmp-threads.TwoInstances", "openmp-threads.TwoEncoders"),
    *("no-copies.LargeArray", "transforms-v2.CropAndResize"),
}

FOR_GPUS = {
    *("avoid-sync.RunningSum", "avoid-sync.Mask", "avoid-sync.RoundTrip"),
    *("avoid-sync.GPTTraining", "avoid-sync.ResNetTraining"),
    *("create-on-device.Constants", "create-on-device.GPTTraining"),
    *("cuda-graphs.TinyKernels", "cuda-graphs.SmallBatchTraining", "cuda-graphs.SmallBatchInference"),
    *("cudnn-benchmark.SameShape", "cudnn-benchmark.ChangingShapes", "cudnn-benchmark.ResNetTraining"),
    *("pin-memory.Copies", "pin-memory.TrainingFromFiles", "preallocate.GrowingTensors", "preallocate.LSTMEpoch"),
    *("tensor-cores.MatrixProduct", "tensor-cores.Convolution", "tensor-cores.GPTTraining"),
    *("pad-sizes.Product", "pad-sizes.GPTTraining"),
    *("ddp-not-dp.GPTTraining", "prefetch.CopyingAhead"),
}

VARIANTS_FOR_GPUS = {
    *("amp.ResNetTraining[float16]", "amp.GPTTraining[float16]", "amp.LargerBatch[float16]"),
    *("compile-modes.ConvolutionBlock[max_autotune]", "compile-modes.ConvolutionBlock[reduce_overhead]"),
    *("compile-modes.ResNetInference[max_autotune]", "compile-modes.ResNetInference[reduce_overhead]"),
}

VARIANTS_FOR_CPUS = dict.fromkeys(
    ("fused-optimizer.ManyParameters[foreach]", "fused-optimizer.GPTTraining[foreach]"),
    ("runs on cpu, not on cuda", "--device cpu"),
)

Describe = Callable[..., dict[str, PairInfo]]


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Describe:
    """All pairs of benchmarks/, by name, as a run on a device describes them beside the given cards.

    Needs of other things than GPUs count as met, whatever this machine has.
    """
    unmet = description.unmet

    def of_gpus(needs: Sequence[Need], device: str) -> Reason | None:
        return unmet(
            [need for need in needs if "GPU" in need.text or need.text in ("bfloat16 units", "TF32", "CPU")], device
        )

    def describe(
        device: str,
        cards: int,
        memory: float = 80,
        capabilities: Sequence[tuple[int, int]] = ((8, 0), (8, 0)),
        nodes: int = 1,
    ) -> dict[str, PairInfo]:
        """memory: GiB of each card. capabilities: of the cards, in their order."""
        properties = SimpleNamespace(total_memory=int(memory * GIB))
        for name, answer in (
            ("device_count", lambda: cards),
            ("is_available", lambda: cards > 0),
            ("get_device_properties", lambda card=0: properties),
            ("get_device_capability", lambda card=0: capabilities[card]),
        ):
            monkeypatch.setattr(torch.cuda, name, answer)
        monkeypatch.setattr(torch.version, "cuda", "13.2")
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: cards > 0)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
        monkeypatch.setattr(description, "unmet", of_gpus)
        answered = tmp_path / "answers.jsonl"
        description.main(device, str(nodes), "", str(BENCHMARKS), str(answered), *map(str, pair_files(BENCHMARKS)))
        answers = [json.loads(line) for line in answered.read_text().splitlines()]
        assert not [answer["error"] for answer in answers if "error" in answer]
        pairs = [PairInfo.from_json(pair) for answer in answers for pair in answer.get("pairs", ())]
        return {info.name: info for info in pairs}

    return describe


def skipped(pairs: dict[str, PairInfo]) -> dict[str, tuple[str, str]]:
    """(reason, remedy) of the pairs that do not run."""
    return {name: (info.reason, info.remedy) for name, info in pairs.items() if info.reason}


def variants_skipped(pairs: dict[str, PairInfo]) -> dict[str, tuple[str, str]]:
    """(reason, remedy) of the variants that do not run, of pairs that do."""
    return {
        f"{name}[{variant.name}]": (variant.reason, variant.remedy)
        for name, info in pairs.items()
        for variant in info.variants
        if variant.reason and not info.reason
    }


def wanting(cards: int, found: int) -> tuple[str, str]:
    s = "s" * (cards > 1)
    return (
        f"needs {cards} CUDA GPU{s}: {found} found",
        f"run on a machine with {cards} GPU{s} and a CUDA build of torch",
    )


@pytest.mark.parametrize("device", ["cuda", "auto"])
def test_on_one_gpu_all_runs_but_ranks_and_what_is_for_processors(described: Describe, device: str) -> None:
    pairs = described(device, cards=1)
    assert {info.device for info in pairs.values()} == {"cuda"}
    assert skipped(pairs) == {
        **dict.fromkeys(RANKED, wanting(2, found=1)),
        **dict.fromkeys(FOR_CPUS, ("runs on cpu, not on cuda", "--device cpu")),
    }
    assert variants_skipped(pairs) == VARIANTS_FOR_CPUS


def test_on_two_gpus_nothing_wants_another(described: Describe) -> None:
    pairs = described("cuda", cards=2)
    assert skipped(pairs) == dict.fromkeys(FOR_CPUS, ("runs on cpu, not on cuda", "--device cpu"))
    assert variants_skipped(pairs) == VARIANTS_FOR_CPUS


def test_on_two_nodes_one_gpu_each_is_enough_for_the_ranks(described: Describe) -> None:
    reasons = skipped(described("cuda", cards=1, nodes=2))
    assert reasons["ddp-not-dp.GPTTraining"] == wanting(2, found=1), "its baseline has both in one process"
    assert not (RANKED - {"ddp-not-dp.GPTTraining"}) & set(reasons)


def test_on_the_processor_of_a_machine_with_gpus_nothing_runs_on_these(described: Describe) -> None:
    """Those who say `--device cpu` mean it; the remedy brings each of them to run, as the tests above show."""
    pairs = described("cpu", cards=2)
    elsewhere = ("runs on cuda, not on cpu", "--device cuda")
    assert skipped(pairs) == dict.fromkeys(FOR_GPUS, elsewhere)
    assert variants_skipped(pairs) == dict.fromkeys(VARIANTS_FOR_GPUS, elsewhere)
    assert {info.device for info in pairs.values()} == {"cpu"}


def test_on_the_processor_beside_too_few_gpus_their_number_is_the_reason(described: Describe) -> None:
    reasons = skipped(described("cpu", cards=1))
    assert reasons["ddp-not-dp.GPTTraining"] == wanting(2, found=1)
    assert reasons["avoid-sync.Mask"] == ("runs on cuda, not on cpu", "--device cuda")


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_without_a_gpu_what_is_for_gpus_wants_one(described: Describe, device: str) -> None:
    pairs = described(device, cards=0)
    assert {info.device for info in pairs.values()} == {"cpu"}
    assert skipped(pairs) == dict.fromkeys(FOR_GPUS, wanting(1, found=0)) | {
        "ddp-not-dp.GPTTraining": wanting(2, found=0)
    }
    assert variants_skipped(pairs) == dict.fromkeys(VARIANTS_FOR_GPUS, wanting(1, found=0))


def test_without_a_gpu_a_run_on_gpus_describes_nothing(described: Describe, tmp_path: Path) -> None:
    assert described("cuda", cards=0) == {}
    (answer,) = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert json.loads(answer) == {"unusable": "--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`"}


@pytest.mark.parametrize(
    ("capabilities", "lowest"), [(((8, 0), (9, 0)), 8.0), (((7, 5), (7, 5)), 7.5), (((8, 0), (6, 1)), 6.1)]
)
def test_what_older_gpus_cannot_do_is_left_out_and_no_more(
    described: Describe, capabilities: Sequence[tuple[int, int]], lowest: float
) -> None:
    """float16 is what cards before compute capability 8.0 have tensor cores for: those variants stay."""
    pairs = described("cuda", cards=2, capabilities=capabilities)
    lacking = {
        *("amp.Linear[optimized]", "amp.ResNetTraining[optimized]", "amp.GPTTraining[optimized]"),
        *("amp.LargerBatch[optimized]", "amp.DigitsAccuracy[optimized]"),
        *("tensor-cores.MatrixProduct[optimized]", "tensor-cores.MatrixProduct[bfloat16]"),
        "tensor-cores.Convolution[optimized]",
    }
    assert set(variants_skipped(pairs)) - set(VARIANTS_FOR_CPUS) == (set() if lowest >= 8 else lacking)
    whole = {name for name in skipped(pairs) if name not in FOR_CPUS}
    in_low_precision = {
        *("tensor-cores.GPTTraining", "pad-sizes.GPTTraining", "channels-last.ResNetTrainingInBfloat16"),
    }
    assert whole == (set() if lowest >= 8 else in_low_precision)


def test_sizes_are_those_of_the_card(described: Describe) -> None:
    """The smallest card decides: 79 GiB are sold as 80, 14.6 as 16; one of 8 has what a workstation has."""
    batches = {
        gib: described("cuda", cards=1, memory=gib)["channels-last.ResNetTraining"].sizes["batch"]
        for gib in (79, 14.6, 8)
    }
    assert batches == {79: 256, 14.6: 64, 8: 16}
    beside = [{name: info.sizes for name, info in described("cpu", 1, memory=gib).items()} for gib in (80, 8)]
    assert beside[0] == beside[1], "on the processor a card's memory is nothing to go by"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_expression_means_the_same_pairs_with_gpus_and_without(described: Describe, device: str) -> None:
    """What cannot run here is chosen all the same, and then recorded as skipped with its reason."""
    pairs = list(described(device, cards=1).values())

    def chosen(expression: str) -> set[str]:
        return {info.name for info in select(pairs, [], expression)}

    of_gpus = {info.name for info in pairs if info.file.startswith("benchmarks/gpu/")}
    micro = {info.name for info in pairs if info.scale == "micro"}
    assert FOR_GPUS - of_gpus == {"ddp-not-dp.GPTTraining", "prefetch.CopyingAhead"}
    assert chosen("gpu") == of_gpus
    assert chosen("micro and not gpu") == micro - of_gpus
    assert chosen("gpu and macro") == of_gpus - micro
    assert chosen("distributed or ddp_buckets") == RANKED
