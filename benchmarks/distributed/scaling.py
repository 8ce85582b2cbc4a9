"""One job on several devices: how much of the ideal they bring, which is as much as there are devices.

Both sides process the same batch, the one on a single core or GPU. `cpu-ddp`, `ddp-not-dp` and `no-sync` are the
tips. No guide gives this as a tip, and no count of answers holds it. On GPUs it was never run: it needs two.
"""

from benchmarks.cpu import cpu_ddp
from benchmarks.distributed import ddp_not_dp
from tipbench.tip.words import *

TIP = Tip(
    id="scaling",
    title="Train on several devices",
    guide=(),
    claim=Claim.FASTER,
    called="DDP",
    ways={"four_processes": ""},
    against="one of them",
    mechanism=appears("all-reduces a step", all_reduces),
)

ONE_CORE = {"OMP_NUM_THREADS": "1"}


class GPTOnTwoCores(cpu_ddp.GPTTraining):
    """Training a small GPT in two processes of one thread, against one such process."""

    @process_settings(env=ONE_CORE)
    def baseline(self) -> Step:
        return super().baseline()

    @process_settings(env=ONE_CORE, ranks=2)
    def optimized(self) -> Step:
        return super().optimized()

    @variant
    @requires(cores(4))
    @process_settings(env=ONE_CORE, ranks=4)
    def four_processes(self) -> Step:
        return super().optimized()


def on_one_gpu(pair: ddp_not_dp.GPTTraining) -> Step:
    return pair.training(as_it_is)


class GPTOnTwoGPUs(ddp_not_dp.GPTTraining):
    """Training a GPT on two GPUs, against one."""

    baseline = on_one_gpu


class GPTOnFourGPUs(ddp_not_dp.OnFour):
    """The same batch on four GPUs."""

    baseline = on_one_gpu


class GPTOnEightGPUs(ddp_not_dp.OnEight):
    """The same batch on eight GPUs."""

    baseline = on_one_gpu
