"""Train on CPUs with several processes instead of one with all threads.

One process divides each operation among all cores, and they meet at the end of every operation. With
DistributedDataParallel each process has a share of the cores and of the batch, goes through its own
operations alone, and meets the others once a step, to average the gradients. The guide had Intel's
torch-ccl do the averaging; it has stopped, and gloo, which comes with PyTorch, replaces it.

Why people write the baseline: a program is one process, and it uses all cores by itself.

What to expect: on few cores of one processor mostly a loss: the averaging and the second optimizer are
new work, and two threads meet quickly. A gain where operations are too small for all threads, or where
the machine has several processors and each process is bound to one (see the tip numa).

Both sides process the same global batch: of two processes each takes half. Each of them knows the loss
of its own half only, so parameters and gradients are what is compared.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from benchmarks.jobs.language_model import language_model
from tipbench.tip.counts import all_reduces
from tipbench.tip.job import Job
from tipbench.tip.needs import cores
from tipbench.tip.pair import Claim, Pair, Step, Tip
from tipbench.tip.process import process_settings

TIP = Tip(
    id="cpu-ddp",
    title="Train on CPUs with several processes",
    guide=("A2.6",),
    claim=Claim.FASTER,
    status="torch-ccl stopped at 2.8: gloo replaces it",
    why_not=(
        "One process already keeps all cores busy with the threads of its operations. Two share the same cores "
        "and memory, and have gradients to exchange besides: DDP on CPUs is for several sockets or machines."
    ),
)


def cpu_ddp(job: Job) -> None:
    """The tip, on any training job without shuffling: averaged gradients, and a share of each batch."""
    job.model = DistributedDataParallel(job.model)
    # Of every batch of the whole data the sampler gives each process its share: every second item, of two.
    job.loading["sampler"] = DistributedSampler(job.data, shuffle=False)
    job.loading["batch_size"] //= dist.get_world_size()


class _Processes(Pair):
    """The same work, in one process or in two that share the cores."""

    devices = ("cpu",)
    needs = (cores(2),)

    def mechanism(self, step: Step) -> int:
        """all-reduces a step"""
        return all_reduces(step)

    def engaged(self, baseline: int, optimized: int) -> bool:
        return baseline == 0 and optimized > 0


class LargeLinear(_Processes):
    """A linear layer whose gradient is large and cheap to compute: little but the averaging is measured."""

    sizes = {"width": 1024, "batch": 8}
    test_sizes = {"width": 16}

    def layer(self) -> nn.Linear:
        return nn.Linear(self.size["width"], self.size["width"])

    def inputs(self) -> torch.Tensor:
        return torch.randn(self.size["batch"], self.size["width"])

    def baseline(self) -> Step:
        layer, inputs = self.layer(), self.inputs()

        def step() -> nn.Module:
            layer.zero_grad()
            layer(inputs).square().mean().backward()
            return layer

        return step

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        layer, inputs = self.layer(), self.inputs()
        model = DistributedDataParallel(layer)
        share = inputs.chunk(dist.get_world_size())[dist.get_rank()]

        def step() -> nn.Module:
            model.zero_grad()
            model(share).square().mean().backward()
            return layer

        return step


class GPTTraining(_Processes):
    """Training a small GPT, embeddings included."""

    scale = "macro"
    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 2, "width": 128, "context": 64, "batch": 8}
    test_sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def baseline(self) -> Step:
        job = self.job()
        model = job.model

        def step() -> nn.Module:
            job.step()
            return model

        return step

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        job = self.job()
        model = job.model
        cpu_ddp(job)

        def step() -> nn.Module:
            job.step()
            return model

        return step
