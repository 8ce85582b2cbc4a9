"""Use DistributedDataParallel, not DataParallel.

`DataParallel` is one process for all GPUs: in every step it copies the model from the first GPU to the others, hands
out the batch, and collects outputs and gradients on the first. `DistributedDataParallel` is a process a GPU: each
keeps its model, and they average gradients while the backward pass still runs.

Why people write the baseline: `nn.DataParallel(model)` is one word, and needs no launcher.

What to expect: a gain that grows with the number of GPUs and with the model's size; with two GPUs and no fast link
between them DDP can lose, as the published figures show. Both sides process the same batch.

Never run so far: it needs two GPUs. On a CPU DataParallel does nothing at all.
"""

from collections.abc import Callable
from functools import partial

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from benchmarks.jobs.language_model import SourceText, TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="ddp-not-dp",
    title="Use DistributedDataParallel, not DataParallel",
    do=(
        "# torchrun --nproc-per-node=gpu train.py\n"
        "torch.distributed.init_process_group()\n"
        "model = nn.parallel.DistributedDataParallel(model)  # on the GPU of this process, cuda:$LOCAL_RANK\n"
        "# save model.module.state_dict(); in each epoch: sampler.set_epoch(epoch)\n"
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        'sampler = torch.utils.data.DistributedSampler(data, shuffle=arguments.get("shuffle", False))\n'
        'share = arguments["batch_size"] // torch.distributed.get_world_size()\n'
        "loader = DataLoader(data, **arguments | dict(batch_size=share, shuffle=False, sampler=sampler))"
    ),
    when="a machine has several GPUs",
    against="DataParallel(model), in one process",
    guide=("A4.1", "B6"),
    claim=Claim.FASTER,
    mechanism=rises("all-reduces a step", all_reduces),
    published="GPT-2 on two TITAN RTX: DataParallel 110.6 s, DDP 101.9 s, DDP without NVLink 131.4 s (Hugging Face)",
)


def data_parallel(job: Job, gpus: int) -> None:
    job.model = nn.DataParallel(job.model, device_ids=list(range(gpus)))


def ddp_not_dp(job: Job) -> None:
    """The tip, on any training job without shuffling, in a process a GPU."""
    job.model = DistributedDataParallel(job.model)
    # Of every batch of the whole data the sampler gives each process its share.
    job.loading["sampler"] = DistributedSampler(job.data, shuffle=False)
    job.loading["batch_size"] //= dist.get_world_size()


class GPTTraining(TrainGPT):
    """Training a GPT on two GPUs."""

    devices = ("cuda",)
    gpus = 2
    needs = (gpu(2),)
    sizes = Sizes(
        dict(layers=6, width=768, context=256, batch=32),
        L=dict(layers=12, context=512, batch=16),
        test=dict(layers=1, width=16, context=8, batch=8),
    )

    def job(self) -> Job:
        job = super().job()
        job.data, job.loading["batch_size"] = SourceText(self.size["context"]), self.size["batch"]
        return job

    def training(self, parallel: Callable[[Job], None]) -> Step:
        """Steps that return the model itself, of which both sides have one."""
        job = self.job()
        model = job.model
        parallel(job)

        def step() -> nn.Module:
            job.step()
            return model

        return step

    def baseline(self) -> Step:
        return self.training(partial(data_parallel, gpus=self.gpus))

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return self.training(ddp_not_dp)


class OnFour(GPTTraining):
    """The same batch on four GPUs."""

    gpus = 4
    needs = (gpu(4),)

    @process_settings(ranks=4)
    def optimized(self) -> Step:
        return super().optimized()


class OnEight(GPTTraining):
    """The same batch on eight GPUs."""

    gpus = 8
    needs = (gpu(8),)

    @process_settings(ranks=8)
    def optimized(self) -> Step:
        return super().optimized()
