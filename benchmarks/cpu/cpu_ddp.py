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
of its own share only, so parameters and gradients are what is compared.
"""

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from benchmarks.jobs.language_model import TrainGPT
from tipbench.tip.words import *

TIP = Tip(
    id="cpu-ddp",
    title="Train on CPUs with several processes",
    do=(
        "# torchrun --nproc-per-node=2 train.py\n"
        "# first: arguments = dict(batch_size=32, shuffle=True), or what else your DataLoader is made with\n"
        'torch.distributed.init_process_group("gloo")\n'
        "model = nn.parallel.DistributedDataParallel(model)  # save model.module.state_dict(), in one process\n"
        "# in each epoch: sampler.set_epoch(epoch)\n"
        'sampler = torch.utils.data.DistributedSampler(data, shuffle=arguments.get("shuffle", False))\n'
        'share = dict(batch_size=arguments["batch_size"] // 2, shuffle=False, sampler=sampler)\n'
        "loader = DataLoader(data, **arguments | share)"
    ),
    ways={"four_processes": ""},
    when="the machine has several CPU sockets",
    against="one process with a thread for every core",
    guide=("A2.6",),
    claim=Claim.FASTER,
    called="two processes",
    mechanism=appears("all-reduces a step", all_reduces),
    status="torch-ccl stopped at 2.8: gloo replaces it",
    why_not=(
        "On one socket, one process already keeps all cores busy with the threads of its operations. Two share the "
        "same cores and memory, and have gradients to exchange besides: DDP on CPUs is for several sockets or machines."
    ),
)


def cpu_ddp(job: Job) -> None:
    """The tip, on any training job without shuffling: averaged gradients, and a share of each batch."""
    job.model = DistributedDataParallel(job.model)
    # Of every batch of the whole data the sampler gives each process its share: every second item, of two processes.
    job.loading["sampler"] = DistributedSampler(job.data, shuffle=False)
    job.loading["batch_size"] //= dist.get_world_size()


class GPTTraining(TrainGPT, apply=cpu_ddp):
    """Training a small GPT, embeddings included, on batches that four processes can share."""

    devices = ("cpu",)
    needs = (cores(2),)
    sizes = Sizes(
        dict(layers=6, width=256, context=128, batch=4),
        M=dict(layers=8, width=512, context=256, batch=8),
        test=dict(layers=1, width=16, context=16),
    )

    def step_of(self, job: Job) -> Step:
        """One batch, of which the model alone is returned, without DDP: each process knows another loss."""

        def step() -> nn.Module:
            job.step()
            return job.model.module if isinstance(job.model, DistributedDataParallel) else job.model

        return step

    @process_settings(ranks=2)
    def optimized(self) -> Step:
        return super().optimized()

    @variant
    @requires(cores(4))
    @process_settings(ranks=4)
    def four_processes(self) -> Step:
        return super().optimized()
