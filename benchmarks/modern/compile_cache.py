"""Keep what is compiled for the next process.

`torch.compile` stores what it has compiled in a folder, and a later process that compiles the same model takes it from
there: the model is traced again, but neither optimized nor compiled. By default that folder lies in `/tmp`. In a new
container, on another node of a cluster, and where `/tmp` is emptied, each process compiles everything.
`TORCHINDUCTOR_CACHE_DIR` names another folder: on a disk that stays, or in a container's image, filled by one run.

Why people write the baseline: nothing shows where compiled code lies. On one's own machine `/tmp` holds it, so that the
second start is quick by itself.

What to expect: a lower one-off cost, the more so the more is compiled. A step takes as long as before. Code is taken by
processes with the same torch, model, shapes and kind of processor or card; all others compile as before, and add to the
folder, which nothing ever empties. Several processes may use it at once. Graphs with `freezing` are not stored.

`torch.compiler.save_cache_artifacts()` packs the same into bytes, which `load_cache_artifacts` unpacks in another
process: for where a file can be handed over but no folder can. They hold the graphs, and for a GPU the kernels of
Triton. For a CPU they hold no compiled C++, so the compiler runs again: there the folder is the way. They are pickled:
load only what you trust.

On a CPU the folder alone is not enough: torch precompiles C++ headers into the temporary folder, at each start that
has none there, even if all else is in the cache. `cpp_cache_precompile_headers = False` does without them.

The folder here is in the user's cache folder, filled by the check of equal work. The gain is understated: a baseline in
a new container also precompiles these headers, and tries out the processor's vector instructions.
"""

import os
from pathlib import Path

import torch
from platformdirs import user_cache_path

from benchmarks.jobs.language_model import RunGPT
from tipbench.tip.words import *

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"

TIP = Tip(
    id="compile-cache",
    title="Keep what is compiled for the next process",
    do=(
        "import os\n"
        "# before the first call of a compiled model; on a mounted disk if ~/.cache ends with the container\n"
        'os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.expanduser("~/.cache/torchinductor")\n'
        "from torch._inductor import config as inductor\n"
        "inductor.cpp_cache_precompile_headers = False  # of C++, which each start compiles into an empty /tmp"
    ),
    when="compiled models start where /tmp is empty, as in a new container or on a node of the same kind",
    against="model.compile() with an empty cache",
    guide=("M29",),
    claim=Claim.SOONER,
    called="a cache folder that stays",
    mechanism=falls("graphs compiled by a second process", lambda step: graphs_compiled_again(step)),
    note="the cost avoided is that of compiling: see the one-off costs, not the speed of a step",
)


def folder_that_stays() -> Path:
    return user_cache_path("tipbench") / f"compiled-{torch.__version__}"


def compile_from_folder(job: Job) -> None:
    """The tip, on any job."""
    from torch._inductor import config as inductor

    os.environ[VARIABLE] = str(folder_that_stays())
    os.environ.pop("TRITON_CACHE_DIR", None)  # so that it lies within
    inductor.cpp_cache_precompile_headers = False
    job.model.compile()


def graphs_compiled_again(step: Step) -> int:
    """Graphs that a process compiles for a step, after another one has compiled it."""
    # Imported here: it takes a second, which listing the pairs should not pay.
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    def compiled() -> int:
        torch.compiler.reset()
        before = counters["inductor"]["fxgraph_cache_miss"]
        step()
        return counters["inductor"]["fxgraph_cache_miss"] - before

    if os.environ.get(VARIABLE) == str(folder_that_stays()):
        compiled()
        return compiled()
    with fresh_cache():  # the checks of a run share a folder, but what it stands for is lost
        return compiled()


class GPTInference(RunGPT, untuned=lambda job: job.model.compile(), apply=compile_from_folder):
    """A small GPT run over text."""

    needs = (compiler(),)

    @process_settings(own_process=True)  # the folder is of the whole process
    def optimized(self) -> Step:
        return super().optimized()
