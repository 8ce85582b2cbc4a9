"""Make the sizes of matrices multiples of 8.

Tensor cores multiply small tiles. Rows of 16-bit numbers whose length is no multiple of 8 (16 bytes) cannot be read
in whole vectors, and take slower kernels. The guide names the vocabulary of a language model as the usual case.
GPT-2's has 50257 tokens; padded to 50304 it is a multiple of 64, with 47 rows that no token uses.

Why people write the baseline: such sizes come from data: a vocabulary, a number of classes.

What to expect: a gain in the layers that have the size, though padding adds work (0.1 % for the vocabulary, 0.07 %
for 4095). Newer cuBLAS and newer cards need it less. The scores of the tokens that are none are cut off before the
loss, so that both sides learn the same.
"""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.amp import amp
from benchmarks.jobs.language_model import EPS, GPT, TrainGPT, language_model
from tipbench.tip.words import *


def multiplied_sizes(step: Step) -> list[int]:
    """The sizes of what is multiplied."""
    sizes: list[int] = []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.ops.aten.mm.default:
                sizes.extend(size for matrix in args for size in matrix.shape)
            return func(*args, **(kwargs or {}))

    with Products():
        step()
    return sizes


def padded_to_multiples_of_8(baseline: list[int], optimized: list[int]) -> bool:
    return any(size % 8 for size in baseline) and not any(size % 8 for size in optimized)


TIP = Tip(
    id="pad-sizes",
    title="Make sizes multiples of 8",
    do=(
        "rows = vocabulary + -vocabulary % 64  # 50304 for 50257 tokens\n"
        "embedding, head = nn.Embedding(rows, width), nn.Linear(width, rows, bias=False)  # bias=True if "
        "yours has one\n"
        "scores = head(states)[..., :vocabulary]"
    ),
    against="nn.Embedding(50257, width), in bfloat16",
    guide=("A3.1",),
    when="the vocabulary is no multiple of 64, and no checkpoint must fit",
    claim=Claim.FASTER,
    mechanism=Mechanism("rows and columns that are multiplied", multiplied_sizes, padded_to_multiples_of_8),
    why_not="cuBLAS pads by itself where that pays, and one layer of many has the size.",
)


def padded_size(size: int) -> int:
    """The next multiple of 64: whole tiles of tensor cores, for which multiples of 8 are the least."""
    return size + -size % 64


class Product(Pair):
    """The product of two float16 matrices, of a size that is no multiple of 8, and padded to one."""

    devices = ("cuda",)
    needs = (gpu(1),)
    equal = Equal.LOSSY
    tolerance = 1e-2
    sizes = Sizes(dict(width=4095), test=dict(width=255))

    def matrices(self) -> list[torch.Tensor]:
        width = self.size["width"]
        return [torch.randn(width, width, device=self.device).half() for _ in range(2)]

    def baseline(self) -> Step:
        a, b = self.matrices()
        return lambda: a @ b

    def optimized(self) -> Step:
        width = self.size["width"]
        missing = padded_size(width) - width
        # As a layer's weights would be, once and for all.
        a, b = (nn.functional.pad(matrix, (0, missing, 0, missing)) for matrix in self.matrices())
        return lambda: (a @ b)[:width, :width]

    def reference(self) -> Step:
        a, b = (matrix.double() for matrix in self.matrices())
        return lambda: a @ b


class GPTTraining(TrainGPT):
    """Training a GPT in mixed precision, with as many tokens as GPT-2 has."""

    devices = ("cuda",)
    needs = (gpu(1), bfloat16())
    equal = Equal.LOSSY
    # bfloat16 rounds to 8 bits, in every layer forward and back, and AdamW divides a gradient by its own size.
    tolerance = 1e-1
    sizes = Sizes(
        dict(layers=6, width=512, context=256, batch=8, vocabulary=50257),
        L=dict(layers=12, width=768, context=512),
        test=dict(layers=1, width=64, context=16, batch=2, vocabulary=257),
    )

    def job(self) -> Job:
        size = {name: value for name, value in self.size.items() if name != "vocabulary"}
        return language_model(self.device, activation=nn.GELU, **size)

    def training(self, rows: int) -> Job:
        """The job with `rows` rows in the first and the last layer, of which `vocabulary` are tokens."""
        job, tokens = self.job(), self.size["vocabulary"]
        model = job.model
        assert isinstance(model, GPT)
        # Drawn for the tokens alone, so that they have the same weights on both sides.
        drawn = 0.02 * torch.randn(2, tokens, self.size["width"], device=self.device)
        first, last = nn.functional.pad(drawn, (0, 0, 0, rows - tokens))
        model.bytes = nn.Embedding.from_pretrained(first.clone(), freeze=False)
        model.head.weight = nn.Parameter(last.clone())
        job.loss = lambda scores, targets: nn.functional.cross_entropy(scores[:, :tokens], targets)
        job.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=EPS)
        return job

    def step_of(self, job: Job) -> Step:
        """Without the layers that differ in size."""

        def step() -> tuple[torch.Tensor, nn.Module]:
            loss, model = job.step()
            return loss, model.blocks

        return step

    def baseline(self) -> Step:
        job = self.training(rows=self.size["vocabulary"])
        amp(job)
        return self.step_of(job)

    def optimized(self) -> Step:
        job = self.training(rows=padded_size(self.size["vocabulary"]))
        amp(job)
        return self.step_of(job)

    def reference(self) -> Step:
        job = self.training(rows=self.size["vocabulary"])
        convert_to_fp64(job)
        return self.step_of(job)
