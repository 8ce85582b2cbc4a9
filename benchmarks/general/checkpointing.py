"""Checkpoint activations: compute them again in the backward pass instead of keeping them.

Training keeps the intermediate results of the forward pass until the backward pass has used them; in
deep models they fill most of the memory. `torch.utils.checkpoint.checkpoint(block, x)` keeps only the
block's input, and runs the block's forward pass once more when its gradients are wanted.

Why people write the baseline: it is simply the model, and it is right as long as the memory lasts.

What to expect: a lower peak of memory, and *more* time a step, for one forward pass more: counted in matrix products,
23 % more work in the GPT here. The verdict to look at is the memory; the time is its price. Of parameters and gradients
nothing is saved, and one block's results are needed at a time: so more is saved with many blocks than with few
(`ManyBlocks`, `FewBlocks`), and with a large batch than with a small one (`ManyBlocksOneWindow`). What is bought with
the memory is a larger batch or a larger model.

The variant `memory_budget` leaves the choice to torch.compile: of what a compiled block would keep it keeps the share
BUDGET, and computes again what costs the fewest operations. Compiling fuses operations too, so the variant's time is
not the price of computing again alone. A lower budget need not lower the peak
(https://github.com/pytorch/pytorch/issues/197838): try several.

The variant `on_the_host`, for GPUs, checkpoints and stores the blocks' inputs in pinned memory of the host: they are
copied there and back, and the host can use that memory for nothing else.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import nn
from torch._functorch import config
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from benchmarks.jobs.language_model import MANY_TOKENS, Block, TrainGPT, heads_for
from tipbench.tip.words import *

CHECKPOINT = (
    "from functools import partial\n"
    "# model.blocks: what your model repeats; of transformers first model.config.use_cache = False\n"
    "# To compile as well: model.compile(), as block.compile() does nothing on these blocks\n"
    "for block in model.blocks: block.forward = partial(torch.utils.checkpoint.checkpoint, block.forward, "
    "use_reentrant=False)"
)

TIP = Tip(
    id="checkpointing",
    title="Checkpoint activations to save memory",
    do=CHECKPOINT,
    ways={
        "memory_budget": (
            "from torch._functorch import config as functorch\n"
            "# not with dropout: silently wrong gradients (pytorch#190758). This finds no F.dropout, dropout_p, "
            "LSTM, GRU, RNN, MultiheadAttention or DropPath:\n"
            'assert not any("Dropout" in type(module).__name__ and module.p for module in model.modules())\n'
            "functorch.activation_memory_budget = 0.5  # of all that is compiled from now on\n"
            "for block in model.blocks: block.compile()  # what your model repeats; it takes seconds once"
        ),
        "on_the_host": (
            f"{CHECKPOINT}\nwith torch.autograd.graph.save_on_cpu(pin_memory=True): outputs = model(batch)"
        ),
    },
    when="memory is short, and blocks keep no state (batch or spectral norm, counters) and draw from torch alone",
    guide=("A1.7", "M17"),
    claim=Claim.LEANER,
    called="checkpointing",
    mechanism=falls("bytes saved for the backward pass", saved_bytes),
    note="slower per step by design: it trades time for memory; batch norm would count twice (pytorch#96136)",
)

BUDGET = 0.5
"""Of what a compiled block would keep for its backward pass: 1 keeps it all, 0 its input alone."""


def checkpointing(blocks: Iterable[nn.Module]) -> None:
    """The tip, on the blocks that a model runs one after the other."""
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def checkpoint_blocks(job: Job) -> None:
    checkpointing(repeated_blocks(job.model))


@requires(compiler())
@within(partial(config.patch, activation_memory_budget=BUDGET))
def compile_blocks(job: Job) -> None:
    """The second way. What is kept is up to the setting in force when they are compiled."""
    compiled = torch.compile(run)
    for block in repeated_blocks(job.model):
        block.forward = partial(compiled, block)


@requires(gpu(1))
def checkpoint_to_host(job: Job) -> None:
    """The third way: what the checkpoints keep, the host stores."""
    checkpoint_blocks(job)
    on_the_card: Callable[..., torch.Tensor] = job.model.forward

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        with save_on_cpu(pin_memory=True):
            return on_the_card(tokens)

    job.model.forward = forward


def run(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """What `block(x)` does, as a function that is compiled once for all blocks."""
    y: torch.Tensor = type(block).forward(block, x)
    return y


def cheap_layers(x: torch.Tensor) -> torch.Tensor:
    x = torch.tanh(torch.sigmoid(torch.relu(x)))
    larger = nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    return nn.functional.avg_pool2d(larger, kernel_size=2)


class CheapLayers(Pair):
    """Blocks of what the guide names: ReLU, sigmoid, tanh, up- and downsampling. Large results, little to compute."""

    sizes = Sizes(
        dict(blocks=4, batch=4, channels=16, pixels=56),
        M=dict(batch=32),
        L=dict(channels=64),
        test=dict(batch=1, channels=1, pixels=10),
    )

    def training(self, block: Callable[[torch.Tensor], torch.Tensor]) -> Step:
        shape = self.size["batch"], self.size["channels"], self.size["pixels"], self.size["pixels"]
        x = torch.randn(shape, device=self.device, requires_grad=True)

        def step() -> tuple[torch.Tensor, torch.Tensor]:
            y = x
            for _ in range(self.size["blocks"]):
                y = block(y)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            return y.detach(), gradient

        return step

    def baseline(self) -> Step:
        return self.training(cheap_layers)

    def optimized(self) -> Step:
        return self.training(partial(checkpoint, cheap_layers, use_reentrant=False))


class FewBlocks(Pair):
    """Two blocks of a GPT, eight windows at once, forward and backward."""

    sizes = Sizes(dict(blocks=2, batch=8, tokens=64, width=128), L=dict(width=512), test=dict(tokens=4, width=16))
    tolerance = 1e-3

    def training(self, change: Callable[[Iterable[nn.Module]], None]) -> Step:
        width = self.size["width"]
        blocks = nn.ModuleList(Block(width, heads_for(width), nn.GELU) for _ in range(self.size["blocks"]))
        blocks.to(self.device)
        change(blocks)
        x = torch.randn(self.size["batch"], self.size["tokens"], width, device=self.device)

        def step() -> tuple[torch.Tensor, nn.Module]:
            blocks.zero_grad()
            y = x
            for block in blocks:
                y = block(y)
            loss = y.square().mean()
            loss.backward()
            return loss.detach(), blocks

        return step

    def baseline(self) -> Step:
        return self.training(lambda blocks: None)

    def optimized(self) -> Step:
        return self.training(checkpointing)


class ManyBlocks(FewBlocks):
    """Sixteen blocks of a GPT, eight windows at once, forward and backward."""

    sizes = FewBlocks.sizes.but(dict(blocks=16))


class ManyBlocksOneWindow(FewBlocks):
    """Sixteen blocks of a GPT, one window at a time, forward and backward."""

    sizes = ManyBlocks.sizes.but(dict(batch=1))


class GPTTraining(TrainGPT, apply=checkpoint_blocks, memory_budget=compile_blocks, on_the_host=checkpoint_to_host):
    """Training a GPT on so many tokens at once that activations outweigh parameters and optimizer state."""

    sizes = MANY_TOKENS.but(test=dict(layers=3))
