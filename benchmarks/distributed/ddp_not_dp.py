"""Use DistributedDataParallel, not DataParallel.

`DataParallel` is one process for all GPUs: in every step it copies the model from the first GPU to the others, hands
out the batch, and collects outputs and gradients on the first. `DistributedDataParallel` is a process a GPU: each
keeps its model, and they average gradients while the backward pass still runs.

Why people write the baseline: `nn.DataParallel(model)` is one word, and needs no launcher.

What to expect: a gain that grows with the number of GPUs and with the model's size; with two GPUs and no fast link
between them DDP can lose, as the published figures show. Both sides process the same batch.

Never run so far: it needs two GPUs. On a CPU DataParallel does nothing at all.
"""

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from benchmarks.jobs.language_model import language_model
from tipbench.tip.counts import all_reduces
from tipbench.tip.job import Job
from tipbench.tip.needs import gpu
from tipbench.tip.pair import Claim, Pair, Step, Tip
from tipbench.tip.process import process_settings

TIP = Tip(
    id="ddp-not-dp",
    title="Use DistributedDataParallel, not DataParallel",
    guide=("A4.1", "B6"),
    claim=Claim.FASTER,
    published="GPT-2 on two TITAN RTX: DataParallel 110.6 s, DDP 101.9 s, DDP without NVLink 131.4 s (Hugging Face)",
    no_micro="both are ways to train a whole model on several GPUs: no single operation does it",
)


GPUS = 2


def data_parallel(job: Job) -> None:
    job.model = nn.DataParallel(job.model, device_ids=list(range(GPUS)))


def ddp_not_dp(job: Job) -> None:
    """The tip, on any training job without shuffling, in a process a GPU."""
    job.model = DistributedDataParallel(job.model)
    # Of every batch of the whole data the sampler gives each process its share.
    job.loading["sampler"] = DistributedSampler(job.data, shuffle=False)
    job.loading["batch_size"] //= dist.get_world_size()


class GPTTraining(Pair):
    """Training a GPT on two GPUs."""

    scale = "macro"
    devices = ("cuda",)
    needs = (gpu(GPUS),)
    # AdamW divides a gradient by its own size, so the rounding of small gradients shows in full.
    tolerance = 1e-3
    sizes = {"layers": 6, "width": 768, "context": 256, "batch": 32}
    test_sizes = {"layers": 1, "width": 16, "context": 8, "batch": 2}

    def job(self) -> Job:
        return language_model(self.device, activation=nn.GELU, **self.size)

    def training(self, job: Job, model: nn.Module) -> Step:
        """Steps that return the model itself, of which both sides have one."""

        def step() -> nn.Module:
            job.step()
            return model

        return step

    def baseline(self) -> Step:
        job = self.job()
        model = job.model
        data_parallel(job)
        return self.training(job, model)

    @process_settings(ranks=GPUS)
    def optimized(self) -> Step:
        job = self.job()
        model = job.model
        ddp_not_dp(job)
        return self.training(job, model)

    def mechanism(self, step: Step) -> int:
        """all-reduces a step"""
        return all_reduces(step)

    def engaged(self, baseline: int, optimized: int) -> bool:
        return optimized > baseline
