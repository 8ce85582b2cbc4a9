"""Fuse operations for inference with oneDNN Graph, by way of TorchScript.

oneDNN computes convolutions and matrix products for PyTorch on CPUs, one at a time. Shown a whole graph
it also takes in what comes before and after them: a batch normalisation becomes part of the weights,
and a ReLU or an addition is done while the result is still in the cache, in the layout that oneDNN likes
best. To get at the graph the model is traced and frozen as TorchScript.

Why people write the baseline: it is the model under `no_grad`, as written.

What to expect: a gain in convolutional networks. Building takes a while, and so do the first two calls:
one writes down the shapes, one fuses. Inputs of other shapes gain little or nothing.

TorchScript is deprecated. Its successor is `torch.compile`, which does the same with the setting `freezing`: that is
the tip `frozen-weights`. Freezing alone makes batch normalisation part of the weights: `FrozenResNet50` has that on
both sides.

The guide shows bfloat16 too. There both sides are in bfloat16, so that fusing alone is measured: what bfloat16
brings by itself is the tip amp.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.fx.experimental import optimization

from benchmarks.gpu.amp import amp
from benchmarks.jobs.image_classification import RunResNet, image_inference
from tipbench.tip.words import *


def partitions(step: Step) -> int:
    """Parts of the graph, `prim::oneDNNFusionGroup` nodes, that one warm step runs fused: the last optimized graph that
    torch can show may be another variant's."""
    return calls(step, "LlgaPartition_*", f"{COMPILED_GRAPH}*")


TIP = Tip(
    id="onednn-graph",
    title="Fuse an inference with oneDNN Graph",
    do=(
        "# F.max_pool2d and F.avg_pool2d: give a stride, or it raises. A TracerWarning: other batches may go wrong\n"
        "torch.jit.enable_onednn_fusion(True)\n"
        "example, _ = next(iter(loader))\n"
        "with torch.no_grad(): model = torch.jit.freeze(torch.jit.trace(model.eval(), example))  # to infer alone\n"
        "with torch.no_grad(): model(example), model(example)  # the first two calls fuse"
    ),
    ways={
        "dtype=bfloat16": (
            "from torch.fx.experimental import optimization  # if you infer in bfloat16 already, as its baseline does\n"
            "torch.jit.enable_onednn_fusion(True)\n"
            "torch._C._jit_set_autocast_mode(False)  # or it would be fused anew\n"
            "model, (example, _) = optimization.fuse(model.eval()), next(iter(loader))  # to infer alone\n"
            'with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, cache_enabled=False): '
            "model = torch.jit.freeze(torch.jit.trace(model, example))\n"
            "with torch.no_grad(): model(example), model(example)  # the first two calls fuse"
        ),
    },
    when="you stay with TorchScript, tracing warns of nothing, and batches have one shape (the last may be smaller)",
    against="eager mode in float32",
    guide=("A2.5",),
    claim=Claim.FASTER,
    called="oneDNN Graph",
    once="tracing and fusing",
    one_of="compiled model",
    mechanism=appears("parts of the graph that run fused", partitions),
    status="deprecated: TorchScript; use torch.compile",
    why_not=(
        "The convolutions take nearly all of the time, and these are oneDNN's on both sides; fusion saves one "
        "pass over each output."
    ),
)


def onednn_graph_fuser() -> Need:
    """TorchScript's fusing with oneDNN Graph, which will go with TorchScript."""

    def unmet(device: str) -> Reason | None:
        if not hasattr(torch.jit, "enable_onednn_fusion"):
            return Reason("needs.onednn-fusion")
        if not torch.backends.mkldnn.is_available():
            return Reason("needs.onednn-graph")
        return None

    return Need("oneDNN Graph in TorchScript", unmet)


def traced(model: nn.Module, example: torch.Tensor, tracing: AbstractContextManager[Any] | None = None) -> nn.Module:
    """The model, traced within `tracing` and frozen: batch normalisation becomes part of the weights."""
    with torch.no_grad(), warnings.catch_warnings():
        # Trace and freeze both warn that they are deprecated; TIP.status says it once.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is ")
        with tracing or nullcontext():
            frozen: nn.Module = torch.jit.freeze(torch.jit.trace(model.eval(), example))
        for _ in range(2):
            frozen(example)
    return frozen


def fused(model: nn.Module, example: torch.Tensor, tracing: AbstractContextManager[Any] | None = None) -> nn.Module:
    """The same, and fused for inputs of the example's shape."""
    # The switch holds for the whole process, and is read only while a graph is fused.
    before = torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(True)
    try:
        return traced(model, example, tracing)
    finally:
        torch.jit.enable_onednn_fusion(before)


def onednn_graph(job: Job, make: Callable[[nn.Module, torch.Tensor], nn.Module] = fused) -> None:
    """The tip, on any inference job whose batches all have the same shape."""
    inputs, _ = next(iter(job.loader()))
    job.model = make(job.model, inputs.to(job.device))


def fused_in_bfloat16(job: Job) -> None:
    """The same in bfloat16, as the guide writes it. Casts are traced: run under autocast, it would be fused anew."""
    # Under autocast `freeze` leaves batch normalisation beside its convolution.
    job.model = optimization.fuse(job.model)
    before = torch._C._jit_set_autocast_mode(False)
    try:
        onednn_graph(job, partial(fused, tracing=torch.autocast("cpu", torch.bfloat16, cache_enabled=False)))
    finally:
        torch._C._jit_set_autocast_mode(before)


class ResNet50Inference(RunResNet, apply=onednn_graph):
    """ResNet-50, the guide's own example, run over JPEG files, two at once, loading included."""

    devices = ("cpu",)
    needs = (onednn_graph_fuser(), *RunResNet.needs)
    sizes = Sizes(dict(batch=2, pixels=224), M=dict(batch=16), test=dict(batch=1, pixels=32))

    def job(self) -> Job:
        return image_inference(self.device, model="resnet50", **self.size)


class FrozenResNet50(ResNet50Inference, untuned=partial(onednn_graph, make=traced), apply=onednn_graph):
    """The same, traced and frozen on both sides: what is left is what fusing brings."""

    against = "the model traced and frozen, with nothing fused"


class ResNet50InBfloat16(ResNet50Inference, untuned=amp, apply=fused_in_bfloat16):
    """The same in bfloat16 on both sides."""

    against = "eager mode in bfloat16"
    needs = (*ResNet50Inference.needs, bfloat16())
    equal = Equal.LOSSY
    tolerance = 1e-1

    @sweep(dtype=("bfloat16",))
    def optimized(self, dtype: str) -> Step:  # type: ignore[override]
        """A way of its own: gain and price are not those of the text in float32."""
        return super().optimized()
