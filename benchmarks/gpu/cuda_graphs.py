"""Launch many small kernels at once with CUDA graphs.

The processor needs some microseconds to launch a kernel on the GPU. Where kernels are shorter than
that, the GPU waits for the processor. A CUDA graph records the launches once and replays them all with
a single one. `torch.compile(model, mode="reduce-overhead")` does it for you; `torch.cuda.graph` and
`torch.cuda.make_graphed_callables` do it by hand. `mode="max-autotune"`, which the guide names as well, uses graphs
too; before that it tries several kernels for each matrix product, which takes long.

Why people write the baseline: `torch.compile(model)` fuses what it can, and looks like all there is.

What to expect: less time where kernels are tiny, nothing where they are large. More memory, which the
graph keeps for itself. A graph replays on the same addresses: shapes must not change, inputs are copied
in, and outputs are overwritten by the next replay, so whoever keeps one clones it.
"""

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *


def fewer_launches_or_not_compiled(baseline: dict[str, int], optimized: dict[str, int]) -> bool:
    # The variant `eager` differs from the baseline in that nothing is compiled: it launches more, not fewer.
    return optimized["launches"] < baseline["launches"] or optimized["compiled"] == 0 < baseline["compiled"]


TIP = Tip(
    id="cuda-graphs",
    title="Launch many small kernels at once with CUDA graphs",
    do='model.compile(mode="reduce-overhead")  # an output that is kept beyond the next call: clone() it',
    ways={
        "eager": "",
        "max_autotune": 'model.compile(mode="max-autotune")  # an output that is kept beyond the next call: clone() it',
        "by_hand": (
            "example, _ = next(iter(loader))\n"
            "# each batch must have the example's shape: drop_last=True\n"
            "model = torch.cuda.make_graphed_callables(model, (example.to(device),))"
        ),
    },
    when="the model is compiled and its steps are short",
    against="torch.compile(model)",
    guide=("A3.2",),
    claim=Claim.FASTER,
    called="CUDA graphs",
    once="capturing the graphs",
    one_of="compiled model",
    mechanism=Mechanism(
        "launches of kernels and of CUDA graphs, and graphs of torch.compile", launches, fewer_launches_or_not_compiled
    ),
    published="1.2-3x; Mask R-CNN 1.7x, BERT 1.12x (PyTorch: Accelerating PyTorch with CUDA Graphs)",
    note='the guide\'s torch.compile(m, "reduce-overhead") is a TypeError: mode must be given by name',
)


def cuda_graphs(job: Job) -> None:
    """The tip, on any job whose batches all have the same shape."""
    job.model.compile(mode="reduce-overhead")


def cuda_graphs_by_hand(job: Job) -> None:
    """The tip without torch.compile: one graph for the forward pass, and one for the backward pass."""
    tokens, _ = next(iter(job.loader()))
    torch.cuda.make_graphed_callables(job.model, (tokens.to(job.device),))


class TinyKernels(Pair):
    """Two hundred kernels of a few microseconds: small linear layers, which cannot be fused into one."""

    devices = ("cuda",)
    needs = (gpu(1), compiler())
    sizes = Sizes(dict(layers=100, batch=8, width=64), test=dict(layers=10, batch=2, width=8))

    def model(self) -> nn.Module:
        width = self.size["width"]
        layers = [layer for _ in range(self.size["layers"]) for layer in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(*layers).to(self.device).requires_grad_(False)

    def inputs(self) -> torch.Tensor:
        return torch.randn(self.size["batch"], self.size["width"], device=self.device)

    def baseline(self) -> Step:
        x = self.inputs()
        model = torch.compile(self.model())
        return lambda: model(x)

    def optimized(self) -> Step:
        x = self.inputs()
        model = torch.compile(self.model(), mode="reduce-overhead")
        return lambda: model(x).clone()

    @variant
    def max_autotune(self) -> Step:
        x = self.inputs()
        model = torch.compile(self.model(), mode="max-autotune")
        return lambda: model(x).clone()

    @variant
    def eager(self) -> Step:
        x = self.inputs()
        model = self.model()
        return lambda: model(x)


class _SmallBatch(MacroPair, untuned=lambda job: job.model.compile(), apply=cuda_graphs, eager=as_it_is):
    devices = ("cuda",)
    needs = (gpu(1), compiler())


class SmallBatchTraining(_SmallBatch, TrainGPT, by_hand=cuda_graphs_by_hand):
    """Training a GPT on batches so small that the GPU waits for launches."""

    sizes = Sizes(
        dict(layers=6, width=256, context=64, batch=2),
        L=dict(layers=12, width=768),
        test=dict(layers=1, width=16, context=8),
    )


class SmallBatchInference(_SmallBatch, RunResNet):
    """ResNet-18 run over one photo at a time, as a server does."""

    sizes = Sizes(dict(batch=1, pixels=224), test=dict(pixels=32))

    def step_of(self, job: Job) -> Step:
        # The next replay overwrites the output, so whoever keeps it clones it.
        return lambda: job.step().clone()


ON_ANY_JOB = (Way(cuda_graphs, that_trains, needs=(compiler(),), devices=("cuda",)),)
