"""The guides' items: every piece of advice that some tip must answer for.

A tip names the items it answers in `Tip.guide`; tests/test_guide.py fails where one is left over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SOURCES = {
    "A1": "PyTorch Performance Tuning Guide, general",
    "A2": "PyTorch Performance Tuning Guide, CPU",
    "A3": "PyTorch Performance Tuning Guide, GPU",
    "A4": "PyTorch Performance Tuning Guide, distributed",
    "B": "ten tricks for faster training, as blogs pass them on",
    "G": "PyTorch Performance Tuning Guide, where it says more",
    "M": "practice since the guides were written",
}


@dataclass(frozen=True)
class Item:
    """One item of a guide. id: the chapter, a key of SOURCES, and a number within it."""

    id: str
    title: str

    @property
    def source(self) -> str:
        chapter = self.id.split(".")[0]
        return SOURCES[chapter if chapter in SOURCES else chapter[0]]


ITEMS = (
    Item("A1.1", "Load and augment data in workers, from pinned memory"),
    Item("A1.2", "Disable gradient calculation for validation and inference"),
    Item("A1.3", "Disable the bias of convolutions right before a batch norm"),
    Item("A1.4", "Set gradients to None instead of zero"),
    Item("A1.5", "Fuse pointwise operations"),
    Item("A1.6", "Use the channels_last memory format for vision models"),
    Item("A1.7", "Checkpoint intermediate results"),
    Item("A1.8", "Disable debugging APIs"),
    Item("A2.1", "Bind to a NUMA node"),
    Item("A2.2", "Set OpenMP's threads and their affinity"),
    Item("A2.3", "Use Intel's OpenMP runtime"),
    Item("A2.4", "Use another memory allocator"),
    Item("A2.5", "Use oneDNN Graph for inference with TorchScript"),
    Item("A2.6", "Train on a CPU with DistributedDataParallel"),
    Item("A3.1", "Use Tensor Cores"),
    Item("A3.2", "Use CUDA Graphs"),
    Item("A3.3", "Enable cuDNN's auto-tuner"),
    Item("A3.4", "Avoid needless synchronisation of CPU and GPU"),
    Item("A3.5", "Create tensors on the device they are used on"),
    Item("A3.6", "Use automatic mixed precision"),
    Item("A3.7", "Preallocate memory where input lengths vary"),
    Item("A4.1", "Use DistributedDataParallel instead of DataParallel"),
    Item("A4.2", "Skip needless all-reduces while accumulating gradients"),
    Item("A4.3", "Construct layers in the order in which they run"),
    Item("B1", "Use a one-cycle learning rate"),
    Item("B2", "Use the largest batch that fits"),
    Item("B3", "Use several DataLoader workers and pinned memory"),
    Item("B4", "Use automatic mixed precision"),
    Item("B5", "Turn on cudnn.benchmark"),
    Item("B6", "Use DistributedDataParallel"),
    Item("B7", "Accumulate gradients"),
    Item("B8", "Clip gradients"),
    Item("B9", "Turn off the bias before a batch norm"),
    Item("B10", "Avoid copies and synchronisation in the training loop"),
    Item("G4.4", "Balance the load where input lengths vary"),
    Item("M1", "Use scaled_dot_product_attention"),
    Item("M2", "Choose a mode of torch.compile"),
    Item("M3", "Use a foreach or fused optimizer"),
    Item("M4", "Prefetch batches, and to the device"),
    Item("M5", "Use inference_mode"),
    Item("M6", "Transform images as tensors (transforms v2)"),
    Item("M7", "Compile repeated blocks once (regional compilation)"),
    Item("M8", "Checkpoint selectively"),
    Item("M9", "Let gradients be views of DDP's buckets"),
    Item("M10", "Use expandable segments of CUDA memory"),
    Item("M11", "Compile the optimizer"),
)


@dataclass(frozen=True)
class Answer:
    """What one tip has for an item. micro, macro: its pairs of that scale, or why there are none."""

    tip: str
    micro: str
    macro: str


def answers(tips: Iterable[tuple[Mapping[str, object], Iterable[tuple[str, str]]]]) -> dict[str, list[Answer]]:
    """By item id, the tips that answer it; an empty list where none does.

    tips: each tip's fields, and the (scale, name) of its pairs. Raises ValueError where a tip names an
    item that is in no guide.
    """
    found: dict[str, list[Answer]] = {item.id: [] for item in ITEMS}
    for tip, pairs in tips:
        by_scale: dict[str, list[str]] = {"micro": [], "macro": []}
        for scale, name in pairs:
            by_scale[scale].append(name)
        micro, macro = (", ".join(by_scale[scale]) for scale in ("micro", "macro"))
        reason = str(tip.get("no_micro") or "")
        for item in tip["guide"]:  # type: ignore[attr-defined]
            if item not in found:
                raise ValueError(f"the tip {tip['id']} names the guide item {item}, which is not in {__name__}")
            found[item].append(Answer(str(tip["id"]), micro or (f"none: {reason}" if reason else ""), macro))
    return found
