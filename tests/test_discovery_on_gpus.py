"""Which pairs of benchmarks/ run where there are 0, 1, 2 or 8 GPUs, and what the others say: with made-up cards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tipbench.records.fields import convert
from tipbench.records.record import PairInfo
from tipbench.suite import describe as description
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.needs import Need
from tipbench.tip.pair import variants
from tipbench.tip.reason import Reason

GIB = 1 << 30

PAIRS = {
    f"{module.TIP.id}.{pair.__name__}": pair
    for module in (load_module(file, BENCHMARKS) for file in pair_files(BENCHMARKS))
    for pair in pair_classes(module)
}
FOR_CPUS = {name for name, pair in PAIRS.items() if pair.devices == ("cpu",)}
FOR_GPUS = {name for name, pair in PAIRS.items() if pair.devices == ("cuda",)}
RANKED = {
    name
    for name, pair in PAIRS.items()
    if "cuda" in pair.devices and any(variant.settings.ranks > 1 for variant in variants(pair))
}
"""Pairs whose ranks have a GPU each where they run on GPUs."""


def needing(*needs: str) -> set[str]:
    """The pairs that name one of these needs, and the variants that do."""
    by_name = {name: pair.needs for name, pair in PAIRS.items()}
    by_name |= {f"{name}[{each.name}]": each.needs for name, pair in PAIRS.items() for each in variants(pair)}
    return {name for name, named in by_name.items() if any(need.text in needs for need in named)}


OF_TWO, OF_FOUR, OF_EIGHT = (needing(f"{number} GPUs") for number in (2, 4, 8))
"""All of them in one process."""

ELSEWHERE = {"cpu": ("runs on cpu, not on cuda", "--device cpu"), "cuda": ("runs on cuda, not on cpu", "--device cuda")}
"""(reason, remedy) by the device that a pair or a variant runs on."""

VARIANTS_FOR_CPUS = dict.fromkeys(needing("CPU"), ELSEWHERE["cpu"])
VARIANTS_FOR_GPUS = {name for name in needing("1 GPU") if name.partition("[")[0] not in FOR_GPUS}

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
        capabilities: Sequence[tuple[int, int]] = ((8, 0),) * 8,
        bfloat16: bool = True,
    ) -> dict[str, PairInfo]:
        """memory: GiB of each card. capabilities: of the cards, in order. bfloat16: whether processors have it."""
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
        for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
            monkeypatch.setattr(torch.cpu, name, lambda: bfloat16)
        monkeypatch.setattr(description, "unmet", of_gpus)
        answered = tmp_path / "answers.jsonl"
        description.main(device, "", str(BENCHMARKS), str(answered), *map(str, pair_files(BENCHMARKS)))
        answers = [json.loads(line) for line in answered.read_text().splitlines()]
        assert not [answer["error"] for answer in answers if "error" in answer]
        pairs = [convert(pair, PairInfo) for answer in answers for pair in answer.get("pairs", ())]
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


MORE = {2: RANKED, 4: OF_FOUR, 8: OF_EIGHT}
"""Pairs that want several GPUs where they run on GPUs, by how many."""


def lacking(wanted: Mapping[int, set[str]], found: int) -> dict[str, tuple[str, str]]:
    """(reason, remedy) of the pairs that want more GPUs than so many."""
    return {name: wanting(cards, found) for cards, names in wanted.items() if cards > found for name in names}


@pytest.mark.parametrize(("device", "cards"), [("cuda", 1), ("auto", 1), ("cuda", 2), ("cuda", 8)])
def test_on_gpus_all_runs_but_what_wants_more_or_a_processor(described: Describe, device: str, cards: int) -> None:
    pairs = described(device, cards=cards)
    assert {info.device for info in pairs.values()} == {"cuda"}
    assert skipped(pairs) == lacking(MORE, cards) | dict.fromkeys(FOR_CPUS, ELSEWHERE["cpu"])
    assert variants_skipped(pairs) == VARIANTS_FOR_CPUS


def test_on_the_processor_of_a_machine_with_gpus_nothing_runs_on_these(described: Describe) -> None:
    """Those who say `--device cpu` mean it; the remedy brings each of them to run, as the tests above show."""
    pairs = described("cpu", cards=8)
    assert skipped(pairs) == dict.fromkeys(FOR_GPUS, ELSEWHERE["cuda"])
    assert variants_skipped(pairs) == dict.fromkeys(VARIANTS_FOR_GPUS, ELSEWHERE["cuda"])
    assert {info.device for info in pairs.values()} == {"cpu"}


def test_on_the_processor_beside_too_few_gpus_their_number_is_the_reason(described: Describe) -> None:
    reasons = skipped(described("cpu", cards=1))
    assert {reasons[name] for name in OF_TWO} == {wanting(2, found=1)}
    assert reasons["avoid-sync.Mask"] == ELSEWHERE["cuda"]


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_without_a_gpu_what_is_for_gpus_wants_one(described: Describe, device: str) -> None:
    pairs = described(device, cards=0)
    assert {info.device for info in pairs.values()} == {"cpu"}
    assert skipped(pairs) == lacking({1: FOR_GPUS, 2: OF_TWO, 4: OF_FOUR, 8: OF_EIGHT}, 0)
    assert variants_skipped(pairs) == dict.fromkeys(VARIANTS_FOR_GPUS, wanting(1, found=0))


def test_without_a_gpu_a_run_on_gpus_describes_nothing(described: Describe, tmp_path: Path) -> None:
    assert described("cuda", cards=0) == {}
    (answer,) = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert json.loads(answer) == {"unusable": "--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`"}


@pytest.mark.parametrize(
    ("capabilities", "lowest"), [(((8, 0), (9, 0)), 8.0), (((7, 5), (7, 5)), 7.5), (((8, 0), (6, 1)), 6.1)]
)
def test_what_older_gpus_cannot_do_is_left_out_and_no_more(
    described: Describe, capabilities: tuple[tuple[int, int], ...], lowest: float
) -> None:
    """float16 is what cards before compute capability 8.0 have tensor cores for: those variants stay."""
    pairs = described("cuda", cards=8, capabilities=capabilities * 4)
    lacking = needing("bfloat16 units", "TF32") if lowest < 8 else set()
    assert set(variants_skipped(pairs)) - set(VARIANTS_FOR_CPUS) == {name for name in lacking if "[" in name}
    assert set(skipped(pairs)) - FOR_CPUS == (lacking & PAIRS.keys()) - FOR_CPUS


def test_sizes_are_those_of_the_card(described: Describe) -> None:
    """The smallest card decides: 14.6 GiB are sold as 16; one of 8 has what a workstation has."""
    batches = {
        gib: described("cuda", cards=1, memory=gib)["channels-last.ResNetTraining"].sizes["batch"]
        for gib in (79, 14.6, 8)
    }
    assert batches == {79: 64, 14.6: 64, 8: 16}
    beside = [{name: info.sizes for name, info in described("cpu", 1, memory=gib).items()} for gib in (80, 8)]
    assert beside[0] == beside[1], "on the processor a card's memory is nothing to go by"
