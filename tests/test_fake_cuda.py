"""Every pair for GPUs is built and stepped at test size on a card that is made up, for where there is none.

Tensors on "cuda" are torch's fake ones, which have shape, dtype and device but no numbers; those on the host are real.
So an operation on tensors of two devices raises, and so does one on shapes that do not fit, and one that needs a real
card. `stand_ins` lists what is replaced. `make test-gpu` shows the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.graph import get_gradient_edge
from torch.utils import _foreach_utils
from torch.utils.data import DataLoader

from tests.test_pairs import OTHERS, PAIRS
from tipbench.tip.pair import variants

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="`make test-gpu` tries the pairs on a real card"),
    pytest.mark.skipif(torch.version.cuda is None, reason="needs a CUDA build of torch: no other can fake its tensors"),
]

NO_FAKE = (
    *("cuda-graphs.SmallBatchTraining[by_hand]", "flex-attention.GPTInference[optimized]"),  # not without a card
    "decode-jpeg.DecodingForACard[on_the_card]",  # torchvision takes a stream of the card
    *("sdpa.Kernels[efficient]", "sdpa.Kernels[cudnn]"),  # which ask for the card
    "fused-optimizer.ResNetTraining[optimized]",  # of SGD's fused kernel, as there is of AdamW's
    *(f"together.ResNetTraining[{side}]" for side in ("optimized", "without_channels_last", "without_amp")),
    *(f"no-padding.{pair}[nested_tensor]" for pair in ("TransformerEpoch", "GPTTraining")),
)
"""Sides that torch cannot fake."""


class Card(FakeTensorMode):
    """Operations that involve "cuda" are faked, all others are run."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.prim.device.default:
            return args[0].device
        kwargs, aten = kwargs or {}, torch.ops.aten
        if FakeTensor not in types and torch.device(kwargs.get("device") or "cpu").type != "cuda":
            return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:  # `item()` and `bool()`
            return args[0].dtype is torch.bool or torch.zeros((), dtype=args[0].dtype).item()
        if func is aten.nonzero.default:  # as if no number were 0
            return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.int64)
        return super().__torch_dispatch__(func, types, args, kwargs)


def run_backward(outputs: Any, gradients: Any, retain: bool, create: bool, inputs: Any, *_: bool, **__: bool) -> Any:
    """Gradients of the right shapes, as torch's engine looks for the streams of a real card."""
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


class Nothing:
    """Does nothing, whatever is called."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def stand_ins(patch: pytest.MonkeyPatch, card: Card) -> None:
    """Replace what needs a real card: compilers, streams, the engine of backward passes, workers."""
    patch.setattr(torch.autograd, "_engine_run_backward", run_backward)
    patch.setattr(torch, "compile", lambda model, **_: model)
    patch.setattr(nn.Module, "compile", lambda model, **_: None)
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    patch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    patch.setattr(torch.cuda, "Stream", Nothing)
    patch.setattr(torch.cuda, "current_stream", Nothing)
    patch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    patch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    make = DataLoader.__init__
    here = {"num_workers": 0, "persistent_workers": False, "prefetch_factor": None, "pin_memory": False}
    patch.setattr(DataLoader, "__init__", lambda loader, data, **loading: make(loader, data, **{**loading, **here}))
    # On a card optimizers and clipping handle all tensors at once, but only those of types that they know.
    for module in (importlib.import_module("torch.optim.optimizer"), _foreach_utils):
        patch.setattr(module, "_foreach_supported_types", [torch.Tensor, nn.Parameter, FakeTensor])
    # A parameter that gets another layout must have no weak references, such as that of torch's table of fakes.
    swap = torch.utils.swap_tensors

    def forget_and_swap(one: torch.Tensor, other: torch.Tensor) -> None:
        card.fake_tensor_converter.meta_converter.tensor_memo.clear()
        swap(one, other)

    patch.setattr(torch.utils, "swap_tensors", forget_and_swap)


def error_of(number: int) -> str:
    """What building and stepping one of SIDES on a made-up card raises; empty for nothing."""
    name, side = SIDES[number]
    torch.manual_seed(0)
    card = Card(allow_non_fake_inputs=True)
    with contextlib.ExitStack() as stack:
        stand_ins(stack.enter_context(pytest.MonkeyPatch.context()), card)
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # torch reads what the card can do otherwise
        stack.enter_context(warnings.catch_warnings(action="error"))
        warnings.filterwarnings("ignore", "The image decoding and encoding capabilities", DeprecationWarning)
        try:
            with card:
                pair = PAIRS[name](torch.device("cuda"), for_test=True)
                step = getattr(pair, side.builder)(**side.arguments)
                with side.switch():
                    pair.before_step()
                    step()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


SIDES = [
    (name, side)
    for name, pair in PAIRS.items()
    if "cuda" in pair.devices and not name.startswith("control.")
    for side in variants(pair)
    if side.settings.ranks == 1 and (side.name == "baseline" or (name, side) in OTHERS)
]
"""Without ranks, whose own machinery wants a real card."""
CASES = [f"{name}[{side.name}]" for name, side in SIDES]


@pytest.fixture(scope="module")
def process() -> Iterator[ProcessPoolExecutor]:
    """What fakes leave behind in torch ends with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("number", range(len(SIDES)), ids=CASES)
def test_a_side_runs_on_the_card(process: ProcessPoolExecutor, number: int) -> None:
    error = process.submit(error_of, number).result()
    assert bool(error) == (CASES[number] in NO_FAKE), error
