"""Choose a mode of torch.compile.

`torch.compile(model)` fuses what lies between matrix products and convolutions, and leaves these to the libraries.
`mode="max-autotune-no-cudagraphs"` tries several kernels for each matrix product and keeps the fastest.
`mode="reduce-overhead"` launches a GPU's kernels as one CUDA graph: that is the tip `cuda-graphs`. For inference on a
CPU there is freezing, which is a setting of inductor and no mode: that is the tip `frozen-weights`.

Why people write the baseline: it is the model as written; compiling it takes seconds, and a C++ compiler.

What to expect: a gain where the operations around convolutions and matrix products take much of the time. On a CPU
the two modes change nothing here: compiled in either, the pairs below called the same operations as without (tried on
torch 2.15). So `max_autotune` is a variant for GPUs.
"""

from benchmarks.jobs.image_classification import RunResNet, image_classification
from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="compile-modes",
    title="Compile the model, and choose the mode",
    do=(
        "model.compile()  # model(...) alone, and none of its other methods; takes seconds at each new kind of shape\n"
        "# before torch 2.14 a model of torch.nn's own, such as nn.Sequential, stays uncompiled"
    ),
    ways={"max_autotune": 'model.compile(mode="max-autotune-no-cudagraphs")'},
    when="it runs for minutes, in batches of few shapes",
    guide=("M2",),
    claim=Claim.FASTER,
    called="whole-model compilation",
    once="compiling",
    one_of="compiled model",
    mechanism=falls("operations dispatched", operations),
    note='the official guide\'s torch.compile(m, "reduce-overhead") is a TypeError: mode must be given by name',
    why_not="On a CPU nearly all of the time is that of convolutions and products, the libraries' compiled or not.",
)


def compile_model(job: Job) -> None:
    """The tip, on any job whose batches all have the same shape."""
    job.model.compile()


@requires(gpu(1))
def max_autotune(job: Job) -> None:
    job.model.compile(mode="max-autotune-no-cudagraphs")


class ResNetInference(RunResNet, apply=compile_model, max_autotune=max_autotune):
    """ResNet-18 run over JPEG files, on a CPU loading included."""

    needs = (compiler(), torchvision())

    def job(self) -> Job:
        return image_classification(self.device, model="resnet18", train=False, **self.size)


class GPTTraining(TrainGPT, apply=compile_model):
    """Training a small GPT: between its matrix products lies more that can be fused."""

    needs = (compiler(),)


ON_ANY_JOB = (
    Way(compile_model, needs=(compiler(),)),
    Way(max_autotune, name="max-autotune", do=TIP.ways["max_autotune"], needs=(compiler(),), devices=("cuda",)),
)
