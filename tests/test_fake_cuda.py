"""Every pair for GPUs is built and stepped at its full size on a card that is made up, for where there is none.

Tensors on "cuda" are torch's fake ones, which have shape, dtype and device but no numbers; those on the host are real.
So an operation on tensors of two devices raises, and so does one on shapes that do not fit, and one that needs a real
card. `stand_ins` lists what is replaced: nothing is compiled, streams do nothing, DataParallel sees no card to
copy the model to, and a backward pass leaves gradients of the right shapes alone. A real card must show the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.graph import get_gradient_edge
from torch.utils import _foreach_utils
from torch.utils.data import DataLoader

from benchmarks.jobs.images import JpegPhotos
from benchmarks.modern.prefetch import UnevenPhotos
from tipbench.suite.files import BENCHMARKS, load, pair_classes, pair_files
from tipbench.tip.pair import Pair, Variant, variants
from tipbench.tip.process import ProcessSettings
from tipbench.tip.sizes import L_BYTES, L

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="`make test-gpu` tries the pairs on a real card"),
    pytest.mark.skipif(torch.version.cuda is None, reason="needs a CUDA build of torch: no other can fake its tensors"),
]

CANNOT = {
    "cuda-graphs.TinyKernels[by_hand]": "torch.cuda.graph captures what is launched on a real card",
    "cuda-graphs.SmallBatchTraining[by_hand]": "make_graphed_callables captures what is launched on a real card",
    **dict.fromkeys(
        (
            "fused-optimizer.ResNetTraining[optimized]",
            *(f"together.ResNetTraining[{side}]" for side in ("optimized", "without_channels_last", "without_amp")),
        ),
        "torch has no fake of SGD's fused kernel, as it has of AdamW's",
    ),
    "no-padding.Encoder[optimized]": "torch asks a real card's driver to make nested tensors of a mask",
    "no-padding.TransformerEpoch[nested_tensor]": "a fake nested tensor must know symbols of shapes, which a trace has",
    "no-padding.GPTTraining[nested_tensor]": "a fake nested tensor must know symbols of shapes, which a trace has",
}
"""Sides that cannot be tried here, and why."""

TINY = {
    "avoid-sync.GPTTraining": "16 small batches, which take seconds and 0.1 GiB of the card",
    "avoid-sync.ResNetTraining": "16 batches, which take seconds, of the model that channels-last.ResNetTraining has",
    "length-bucketing.TransformerEpoch": "32 batches of different lengths, which take seconds and 0.4 GiB of the card",
    "no-padding.TransformerEpoch": "half of the batches that length-bucketing.TransformerEpoch has",
    "no-padding.GPTTraining": "the same batches, in training: thousands of calls of attention, which take long",
}
"""Pairs that are tried at test size, though a card has sizes of its own."""


# ---- a made-up card ---------------------------------------------------------------------------------


class Card(FakeTensorMode):
    """Operations that involve "cuda" are faked, all others are run.

    alive: bytes of all tensors on the card that are alive. peak: the most there were.
    """

    DRAWN = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.alive = self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.prim.device.default:
            return args[0].device
        kwargs, aten = kwargs or {}, torch.ops.aten
        if FakeTensor not in types and torch.device(kwargs.get("device") or "cpu").type != "cuda":
            # Large tensors of the host are copied to the card, where they have no numbers: none need be drawn.
            if func in self.DRAWN and args[0].numel() > 10**6:
                return args[0]
            return torch.empty(args[0]) if func is aten.randn.default else func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:  # `item()` and `bool()`
            return args[0].dtype is torch.bool or torch.zeros((), dtype=args[0].dtype).item()
        if func is aten.nonzero.default:  # as if no number were 0
            return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.int64)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(tensor, FakeTensor) and tensor.device.type == "cuda":
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage not in self._known:
            self._known.add(storage)
            weakref.finalize(storage, self._free, storage.nbytes())
            self.alive += storage.nbytes()
            self.peak = max(self.peak, self.alive)

    def _free(self, nbytes: int) -> None:
        self.alive -= nbytes


def run_backward(
    outputs: Sequence[torch.Tensor],
    gradients: Any,
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[torch.Tensor],
    *_: bool,
    **__: bool,
) -> tuple[torch.Tensor, ...]:
    """Gradients of the right shapes, as torch's engine looks for the streams of a real card. What is saved for a
    backward pass stays until the outputs go, so the peak includes it, the gradients and the optimizer's state."""
    waiting = [get_gradient_edge(each).node for each in outputs]
    seen = set(waiting)
    while waiting and not inputs:
        node = waiting.pop()
        if (leaf := getattr(node, "variable", None)) is not None and leaf.grad is None:
            leaf.grad = torch.empty_like(leaf)
        following = {edge[0] for edge in node.next_functions if edge[0] is not None} - seen
        seen |= following
        waiting += following
    return tuple(map(torch.empty_like, inputs))


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> torch.Tensor:
    """By the kernel that torch takes for float32 on a card; without one it takes the formula."""
    if attn_mask is not None:
        bias = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
        attn_mask = bias.expand(*query.shape[:-1], key.shape[-2])
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    mixed: torch.Tensor = kernel(query, key, value, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal)[0]
    return mixed


def lstm(inputs: Any, states: Any, weights: Any, biases: bool, layers: int, dropout: float, *flags: bool) -> Any:
    """By cuDNN, as torch does on a card; without one it takes a loop of some operations for each token."""
    train, bidirectional, batch_first = flags
    buffer, width = inputs.new_empty(0), states[1].shape[-1]
    batches: list[int] = []
    how = 2, width, 0, layers, batch_first, dropout, train, bidirectional, batches, None
    return torch.ops.aten._cudnn_rnn(inputs, weights, 4, buffer, *states, *how)[:3]


class Nothing:
    """Does nothing, whatever is called."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def first_only(decode: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """The first photo of a dataset in place of all, as decoding takes long."""

    def first(photos: Any, index: int) -> Any:
        if not hasattr(photos, "first"):
            photos.first = decode(photos, index)
        return photos.first

    return first


def stand_ins(patch: pytest.MonkeyPatch, card: Card) -> None:
    """Replace what needs a real card, or takes long."""
    patch.setattr(torch.autograd, "_engine_run_backward", run_backward)
    patch.setattr(nn.functional, "scaled_dot_product_attention", attention)
    patch.setattr("torch.nn.modules.rnn._VF.lstm", lstm)
    patch.setattr(torch, "compile", lambda model, **_: model)
    patch.setattr(nn.Module, "compile", lambda model, **_: None)
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    patch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    patch.setattr(torch.cuda, "Stream", Nothing)
    patch.setattr(torch.cuda, "current_stream", Nothing)
    patch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    patch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    # Photos are decoded in this process, where their stand-in is.
    make = DataLoader.__init__
    here = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "pin_memory": False}
    patch.setattr(DataLoader, "__init__", lambda loader, data, **loading: make(loader, data, **{**loading, **here}))
    for photos in (JpegPhotos, UnevenPhotos):
        patch.setattr(photos, "__getitem__", first_only(photos.__getitem__))
    # On a card optimizers and clipping handle all tensors at once, but only those of types that they know.
    for module in (importlib.import_module("torch.optim.optimizer"), _foreach_utils):
        patch.setattr(module, "_foreach_supported_types", [torch.Tensor, nn.Parameter, FakeTensor])
    # A parameter that gets another layout must have no weak references, such as that of torch's table of fakes.
    swap = torch.utils.swap_tensors

    def forget_and_swap(one: torch.Tensor, other: torch.Tensor) -> None:
        card.fake_tensor_converter.meta_converter.tensor_memo.clear()
        swap(one, other)

    patch.setattr(torch.utils, "swap_tensors", forget_and_swap)


# ---- each side of each pair, on such a card ---------------------------------------------------------


@dataclass
class Tried:
    """What a side came to. kept: bytes on the card between steps. peak: the most in one."""

    error: str = ""
    kept: int = 0
    peak: int = 0


Everything = dict[tuple[str, str], Tried]
"""By the names of pair and side."""

MODULES = [load(file, BENCHMARKS) for file in pair_files(BENCHMARKS)]
FOUND = {f"{module.TIP.id}.{pair.__name__}": pair for module in MODULES for pair in pair_classes(module)}
PAIRS = {
    name: pair
    for name, pair in FOUND.items()
    if "cuda" in pair.devices
    and not name.startswith("control.")
    and all(variant.settings.ranks == 1 for variant in variants(pair))
}
"""Without controls and ranks, whose jobs others have, and whose own machinery wants a real card."""


def full_size(name: str) -> bool:
    """Whether a pair is tried at the size that it has on a card. Where a CPU has the same, tiny ones do as well."""
    pair = PAIRS[name]
    return name not in TINY and (bool(pair.sizes.by_tier[L]) or "cpu" not in pair.devices)


def tried(names: Sequence[str]) -> Everything:
    """Build and step each side of some pairs on a made-up card, in a process that does nothing else."""
    torch.set_num_threads(1)
    return {(name, side.name): _tried(name, side) for name in names for side in variants(PAIRS[name])}


def _tried(name: str, side: Variant) -> Tried:
    torch.manual_seed(0)
    card = Card()
    with contextlib.ExitStack() as stack:
        stand_ins(stack.enter_context(pytest.MonkeyPatch.context()), card)
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # torch reads what the card can do otherwise
        stack.enter_context(warnings.catch_warnings(action="error"))
        try:
            with card:
                pair = PAIRS[name](torch.device("cuda"), PAIRS[name].sizes.on(L), for_test=not full_size(name))
                return _stepped(pair, side, card)
        except Exception as error:
            return Tried(f"{type(error).__name__}: {error}")


def _stepped(pair: Pair, side: Variant, card: Card) -> Tried:
    step = getattr(pair, side.builder)(**side.arguments)
    with side.switch():
        pair.before_step()
        result = step()
    peak = card.peak
    del result
    return Tried("", card.alive, peak)


@pytest.fixture(scope="module")
def everything() -> Everything:
    """What every side came to on a card of 16 GB."""
    # In processes of their own: what fakes leave behind in torch ends with them. Those with alike models in one
    # process: there torch remembers what an operation made of which shapes.
    halves = [[name for name in PAIRS if ("GPT" in name) == gpt] for gpt in (True, False)]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        return {case: result for half in processes.map(tried, halves) for case, result in half.items()}


def skip_without_torchvision(name: str) -> None:
    """The one thing of those that pairs need which has no stand-in here."""
    for need in PAIRS[name].needs:
        if need.text == "torchvision" and (missing := need.unmet("cuda")):
            pytest.skip(missing.text)


def bytes_on_card(everything: Everything, name: str) -> int:
    """All variants of a pair are built at the same time, and one of them steps."""
    processes: dict[ProcessSettings, list[Tried]] = defaultdict(list)
    for each in variants(PAIRS[name]):
        processes[each.settings].append(everything[name, each.name])
    # What one process has from the driver, no other can have.
    return sum(sum(e.kept for e in each) + max(e.peak - e.kept for e in each) for each in processes.values())


@pytest.mark.parametrize("name", PAIRS)
def test_every_side_of_a_pair_runs_on_the_card_and_all_fit(everything: Everything, name: str) -> None:
    skip_without_torchvision(name)
    errors = {f"{of}[{side}]": side_.error for (of, side), side_ in everything.items() if of == name and side_.error}
    assert errors.keys() == {case for case in CANNOT if case.partition("[")[0] == name}, errors
    assert not full_size(name) or bytes_on_card(everything, name) <= L_BYTES
