"""Compile a model that only infers ahead of time, on a CPU.

`torch.export` makes a program of the model that needs no Python, and AOTInductor compiles it into a package: code, and
weights as constants. A process that infers loads the package, and compiles nothing. `model.compile()` traces the model
in each process anew, though it may find the compiled code in its cache; frozen graphs are not even cached (the tip
`frozen-weights`). The package is called from C++: neither are guards checked, nor operations dispatched. It follows on
TorchScript, which is deprecated (the tip `onednn-graph`).

Why people write the baseline: it is the model as written, or `model.compile()`, which works with any model. Exporting
needs one without branches on values, and fails with an error otherwise.

What to expect: a start, from the package to the first answer, that is several times shorter than that of a compiled
model whose code is in the cache (the pair `Start`), let alone of one that starts with an empty cache, as in a new
container. A step gains what freezing and compiling bring, most where operations are small. Without `freezing` weights
are not laid out beforehand, and each operation is dispatched as before.

The price: the package is of one torch version, and of the vector instructions of the machine that made it; on a
processor without these the process crashes (https://github.com/pytorch/pytorch/issues/191713). Its inputs have the
shape of the example, unless `dynamic_shapes` says which sizes may differ. It holds the weights once more, and writes
them to the temporary folder when it is loaded. The first load on a machine with a C++ compiler takes seconds longer,
which torch needs for no more than a warning (https://github.com/pytorch/pytorch/issues/191715).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet
from benchmarks.jobs.language_model import Block, RunGPT, heads_for
from benchmarks.modern.changing_shapes import graphs_compiled
from tipbench.tip.words import *

TIP = Tip(
    id="ahead-of-time",
    title="Compile a model that only infers ahead of time",
    do=(
        "example, _ = next(iter(loader))\n"
        "from torch._inductor import aoti_compile_and_package, aoti_load_package\n"
        "with torch.no_grad():  # to infer alone; once, for all processes; package_path= says where\n"
        "    program = torch.export.export(model.eval(), (example.to(device),))\n"
        '    package = aoti_compile_and_package(program, inductor_configs={"freezing": True})\n'
        "model = aoti_load_package(package)  # in each process; a function, without eval(), to() or parameters()\n"
        "# batches of other shapes are not refused, but may go wrong"
    ),
    when="it runs for minutes, all batches have one shape, the last too: others may go wrong silently",
    against="eager mode",
    guide=("M23",),
    claim=Claim.FASTER,
    called="compiled ahead of time",
    once="compiling",
    one_of="compiled model",
    mechanism=falls("operations dispatched", operations),
    note="what it takes once is paid where the package is made; what a process pays to load it is the step of `Start`",
    why_not="Convolutions and matrix products take nearly all of the time, and on both sides they are the libraries'.",
)


def packaged(model: nn.Module, example: torch.Tensor) -> str:
    """The path of a package in inductor's cache folder, for inputs of the example's shape."""
    # Imported here: it takes a second, which listing the pairs should not pay.
    import torch._inductor

    with torch.no_grad():  # with gradients nothing is frozen
        program = torch.export.export(model.eval(), (example,))
        return torch._inductor.aoti_compile_and_package(program, inductor_configs={"freezing": True})


def loaded(package: str) -> Callable[[torch.Tensor], Any]:
    """What takes the inputs of the model, and returns its outputs."""
    return torch._inductor.aoti_load_package(package)


def compile_ahead(job: Job) -> None:
    """The tip, on any inference job whose batches all have the same shape."""
    inputs, _ = next(iter(job.loader()))
    job.model = loaded(packaged(job.model, inputs.to(job.device)))  # type: ignore[assignment]


class Start(Pair):
    """From the start of a process that has imported all it needs, to the first answer: of a block of a GPT, for a
    few tokens at once."""

    devices = ("cpu",)
    needs = (compiler(),)
    sizes = Sizes(dict(tokens=16, width=512), test=dict(tokens=4, width=16))
    against = "model.compile() with its code in the cache"
    mechanism = falls("graphs compiled, or taken from the cache", graphs_compiled)

    def inputs(self) -> tuple[nn.Module, torch.Tensor]:
        width = self.size["width"]
        return Block(width, heads_for(width), nn.GELU).eval(), torch.randn(1, self.size["tokens"], width)

    def baseline(self) -> Step:
        model, tokens = self.inputs()

        @torch.no_grad()
        def step() -> torch.Tensor:
            torch.compiler.reset()  # what a new process does not have: all but what is in the cache folder
            model.compile()
            answer: torch.Tensor = model(tokens)
            return answer

        return step

    def optimized(self) -> Step:
        model, tokens = self.inputs()
        package = packaged(model, tokens)
        return lambda: loaded(package)(tokens)


class ResNetInference(RunResNet, apply=compile_ahead):
    """ResNet-18 run over JPEG files, loading included."""

    devices = ("cpu",)
    needs = (compiler(), torchvision())


class GPTInference(RunGPT, apply=compile_ahead):
    """A small GPT run over text."""

    devices = ("cpu",)
    needs = (compiler(),)
