"""Map a checkpoint's weights instead of reading and copying them.

A model that is made the usual way first draws random weights. `torch.load` then reads the file into memory, and
`load_state_dict` copies each tensor over the random ones: for a moment all weights are there twice. On the "meta"
device a model has shapes but no weights. With `mmap=True` the file is mapped: its pages are read when a layer first
uses them. With `assign=True` the mapped tensors become the parameters, and nothing is copied.

Why people write the baseline: it is what PyTorch's tutorial on saving and loading shows.

What to expect: a shorter start, and a lower peak of memory. Mapped pages belong to the system's cache of files, so that
processes that load the same file share them. The file here is in that cache already, on both sides. From a slow disk or
over a network the first pass waits for many small reads, and may take longer than reading the whole file.

Drawing has to be left out on "meta", too: the first `normal_` there imports torch's compiler, some 900 modules, which
takes a process longer than loading a small model. `nn.Embedding` calls it, and so do torchvision's ResNets.

What differs afterwards: parameters are new objects, so an optimizer made before updates weights that the model no
longer has, and weights that were tied are two parameters. A buffer that the file lacks (`persistent=False`) stays on
"meta", and raises an error when it is used. Weights have the file's dtype; without `assign` they are converted.
Training changes a process's own copies of pages, never the file. But overwriting the file, as `torch.save` to the same
path does, changes the weights or ends the process (SIGBUS).
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from benchmarks.jobs.language_model import GPT, SourceText, heads_for
from tipbench.tip.words import *

TIP = Tip(
    id="mapped-weights",
    title="Map a checkpoint's weights instead of reading and copying them",
    do=(
        "from torch.overrides import TorchFunctionMode\n"
        'class Undrawn(TorchFunctionMode):  # to draw random weights on "meta" imports torch\'s compiler\n'
        "    def __torch_function__(self, function, types, args=(), kwargs=None):\n"
        '        if function.__name__.endswith(("normal_", "uniform_")): return args[0] if args else kwargs["tensor"]\n'
        "        return function(*args, **(kwargs or {}))\n"
        "# In place of model = Net().to(device) and load_state_dict(), and before optimizer, compile() and DDP.\n"
        "# After it tie weights again that were tied, and make buffers again that the file lacks.\n"
        "# Weights have the file's dtype. Never overwrite that file: save under another name, and rename.\n"
        'with torch.device("meta"), Undrawn(): model = Net()\n'
        'model.load_state_dict(torch.load("model.pt", mmap=True, map_location=device), assign=True)'
    ),
    when="a process answers soon, from a cached file of the model's dtype, never overwritten; tie shared weights again",
    against="load_state_dict() into a model with random weights",
    guide=("M30",),
    claim=Claim.FASTER,
    mechanism=appears("parameters that are mapped from the file", lambda step: mapped_parameters(step)),
)


def mapped_parameters(step: Step) -> int:
    def within(module: nn.Module, inputs: Any, output: Any) -> int:
        lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("/model.pt")]
        bounds = [[int(bound, 16) for bound in line.partition(" ")[0].split("-")] for line in lines]
        places = [parameter.data_ptr() for parameter in module.parameters(recurse=False)]
        return sum(first <= place < last for place in places for first, last in bounds)

    return over_modules(step, within)


class Undrawn(TorchFunctionMode):
    """Random weights are not drawn."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.__name__.endswith(("normal_", "uniform_")):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


class GPTStart(Pair):
    """A GPT loaded from a file, and run on a few bytes of text."""

    scale = "macro"
    task = "inference"
    devices = ("cpu",)
    equal = Equal.BITWISE
    sizes = Sizes(dict(layers=6, width=768, context=32), M=dict(layers=12), test=dict(layers=1, width=16))

    def network(self) -> nn.Module:
        return GPT(**self.size, heads=heads_for(self.size["width"]), activation=nn.GELU)

    def first_answer(self, load: Callable[[str], nn.Module]) -> Step:
        folder, text = tempfile.mkdtemp(), SourceText(self.size["context"])[0][0][None]
        torch.save(self.network().state_dict(), f"{folder}/model.pt")
        step: Step = torch.no_grad()(lambda: load(f"{folder}/model.pt").eval()(text))
        weakref.finalize(step, shutil.rmtree, folder)
        return step

    def baseline(self) -> Step:
        def load(file: str) -> nn.Module:
            model = self.network().to(self.device)
            model.load_state_dict(torch.load(file, map_location=self.device))
            return model

        return self.first_answer(load)

    def optimized(self) -> Step:
        def load(file: str) -> nn.Module:
            with torch.device("meta"), Undrawn():
                model = self.network()
            model.load_state_dict(torch.load(file, mmap=True, map_location=self.device), assign=True)
            return model

        return self.first_answer(load)
