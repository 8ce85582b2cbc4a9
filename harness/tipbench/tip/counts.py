"""What a step does, counted without a clock: operations, graph nodes, bytes, calls, workers, pages.

Each count is exact for one version of torch unless its docstring says otherwise, so tests assert
numbers. No count changes what the step computes.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import re
import resource
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from tipbench.tip.pair import Step
from tipbench.tip.reason import BLIND

STDOUT = 1

VIEWS = (
    *("alias", "as_strided", "chunk", "contiguous", "detach", "expand", "flatten", "narrow", "permute", "reshape"),
    *("select", "slice", "split", "squeeze", "t", "to", "transpose", "unbind", "unflatten", "unsafe_split"),
    *("unsqueeze", "view", "view_as", "_unsafe_view"),
)
ALLOCATIONS = ("empty", "empty_like", "empty_strided", "resize_", "set_")
NO_WORK = frozenset(f"aten::{name}" for name in VIEWS + ALLOCATIONS)
"""Operations that compute nothing by themselves. `contiguous`, `flatten`, `reshape` and `to` may copy: then the copy
inside them counts."""

TENSOR_CORES = re.compile(r"[hs](884|1688|16816)|hmma|gmma|tensorop|tf32|bf16gemm|nvjet|xmma_\w*?_b?f16")
"""In the names of kernels of cuBLAS, cuDNN and CUTLASS, whose others say "sgemm", "simt" or "xmma_gemm_f32f32_f32f32";
cuBLAS for Hopper says "nvjet". After the list of NVIDIA's plugin for TensorBoard, and names in public traces."""


INTEGERS = re.compile(rb"src[_:][us]8")
"""In lines of oneDNN's log: inputs of 8 bits. Before oneDNN 3.11 there was a colon."""


class Unseen(Exception):
    """A mechanism cannot be counted on this machine, which says nothing about the tip."""


COMPILED_GRAPH = "## Call CompiledFxGraph"
"""How the profiler names the running of a graph that torch.compile made."""


def _events(step: Step) -> list[Any]:
    """Every operation of one step, in order. Warm the step before: compiling is no part of it."""
    # Without Kineto: no GPU tracing is needed here, and Kineto writes to stderr at each start.
    with torch.autograd.profiler.profile(use_kineto=False) as watched:
        step()
    return list(watched.function_events)


def _ancestors(event: Any) -> Iterator[Any]:
    while (event := event.cpu_parent) is not None:
        yield event


def operations(step: Step) -> int:
    """Operations that one warm step dispatches, forward and backward: the outermost of nested ones.

    `x * 0.5` is one operation, though it converts 0.5 to a tensor inside. Views and allocations do not
    count. A compiled graph counts as one, whatever it calls.
    """

    def computes(event: Any) -> bool:
        name = event.name
        return name.startswith(COMPILED_GRAPH) or (name.startswith("aten::") and name not in NO_WORK)

    step()
    return sum(computes(event) and not any(map(computes, _ancestors(event))) for event in _events(step))


def calls(step: Step, *operations: str) -> int:
    """Calls of some operations in one warm step, by the profiler's names, such as "aten::copy_" or "mkldnn::*"."""
    step()
    return sum(any(fnmatchcase(event.name, name) for name in operations) for event in _events(step))


def flops(step: Step) -> int:
    """Floating-point operations of one step's matrix products, convolutions and attention, as torch counts them.

    Operations whose results selective checkpointing stored are not counted again.
    """
    with FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def all_reduces(step: Step) -> int:
    """Collective all-reduces this process takes part in during one warm step."""
    return calls(step, "c10d::allreduce_")


class GpuWork(NamedTuple):
    """What the profiler recorded of one step: names of calls on the host; of kernels and copies on the GPU."""

    calls: tuple[str, ...]
    done: tuple[str, ...]


def _gpu_work(step: Step) -> GpuWork:
    """What one step does on the GPU. Raises Unseen where the profiler cannot see any of it."""
    if not _gpu_is_visible():
        raise Unseen(BLIND)
    return _profiled(step)


@functools.cache
def _gpu_is_visible() -> bool:
    """Whether the profiler sees a kernel that is certainly there: a step may launch none."""
    return bool(_profiled(lambda: torch.ones(1, device="cuda")).done)


def _profiled(step: Step) -> GpuWork:
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        step()
        torch.cuda.synchronize()
    events = watched.events() or ()
    return GpuWork(
        tuple(event.name for event in events if event.device_type.name == "CPU"),
        # What the host has named, such as a compiled graph, is shown on the GPU as well, around its kernels.
        tuple(event.name for event in events if event.device_type.name == "CUDA" and not event.is_user_annotation),
    )


def _warm_gpu_work(step: Step) -> GpuWork:
    for _ in range(3):  # reduce-overhead runs a graph uncaptured, captures it, and replays it from then on
        step()
    return _gpu_work(step)


def launches(step: Step) -> dict[str, int]:
    """Launches of one warm step: "launches" of GPU work, single kernels and whole CUDA graphs, one each, and
    "compiled" graphs of torch.compile, which may hold many."""
    work = _warm_gpu_work(step)
    return {
        # cudaLaunchKernel, cudaLaunchKernelExC, cuLaunchKernel, cuLaunchKernelEx, cudaGraphLaunch, and hip's
        "launches": sum("LaunchKernel" in name or "GraphLaunch" in name for name in work.calls),
        "compiled": sum(name.startswith(COMPILED_GRAPH) for name in work.calls),
    }


def tensor_core_kernels(step: Step) -> int:
    """Kernels of one warm step that run on NVIDIA's tensor cores, by their names."""
    return sum(bool(TENSOR_CORES.search(name)) for name in _warm_gpu_work(step).done)


def first_kernels(step: Step) -> int:
    """Kernels that a step runs as the first of its thread, for which cuDNN has chosen nothing yet.

    cuDNN stores its plans per thread. If it may try several plans to choose one, it runs that many kernels more.
    """
    with ThreadPoolExecutor(1) as thread:
        done = _gpu_work(lambda: thread.submit(step).result()).done
    return sum(not name.startswith(("Memcpy", "Memset")) for name in done)


def copies_to_device(step: Step) -> dict[str, int]:
    """Copies from the host to the GPU in one warm step, from "pageable" and from "pinned" memory."""
    copies = [name for name in _warm_gpu_work(step).done if name.startswith("Memcpy HtoD")]
    return {kind.lower(): sum(f"{kind} ->" in name for name in copies) for kind in ("Pageable", "Pinned")}


def synchronisations(step: Step) -> int:
    """How often one warm step makes the processor wait for the GPU, by torch's own count.

    That count leaves out `torch.cuda.synchronize`, which says by its name that it waits.
    """
    step()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            # It warns that it is a prototype: if warnings are errors, only after the mode was set.
            torch.cuda.set_sync_debug_mode("warn")
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing CUDA operation" in str(warning.message) for warning in warned)


def graph_nodes(output: Any) -> Iterator[Any]:
    """The nodes of the autograd graph behind a tensor, or behind each tensor in a list, a mapping or the like."""
    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    visited = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        following = {parent for parent, _ in node.next_functions if parent is not None} - visited
        visited |= following
        waiting += following


def autograd_nodes(output: Any) -> int:
    """Nodes of the autograd graph behind a step's output."""
    return sum(1 for _ in graph_nodes(output))


def over_modules(step: Step, count: Callable[[nn.Module, Any, Any], int]) -> int:
    """The sum of `count(module, inputs, output)` over all calls of modules in one step."""
    total = 0

    def look(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal total
        total += count(module, inputs, output)

    with register_module_forward_hook(look):
        step()
    return total


def stack_traces(step: Step) -> int:
    """Stack traces that anomaly mode stored in the autograd graphs of one step, over all modules called."""
    nodes: set[Any] = set()  # a graph holds those of the modules before

    def new_traces(module: nn.Module, inputs: Any, output: Any) -> int:
        new = set(graph_nodes(output)) - nodes if isinstance(output, torch.Tensor) else set()
        nodes.update(new)
        return sum("traceback_" in node.metadata for node in new)

    return over_modules(step, new_traces)


def saved_bytes(step: Step) -> int:
    """Bytes that the forward pass keeps for the backward pass, parameters apart; each tensor once."""
    storages: dict[int, torch.UntypedStorage] = {}  # holding them all keeps addresses from being used twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter) and not isinstance(tensor._base, nn.Parameter):
            storage = tensor.untyped_storage()
            storages[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    return sum(storage.nbytes() for storage in storages.values())


def not_channels_last(step: Step) -> int:
    """Calls of modules whose four-dimensional output is not in the channels_last layout."""

    def is_other(module: nn.Module, inputs: Any, output: Any) -> bool:
        image_like = isinstance(output, torch.Tensor) and output.dim() == 4
        return image_like and not output.is_contiguous(memory_format=torch.channels_last)

    return over_modules(step, is_other)


def low_precision_outputs(step: Step) -> int:
    """Calls of modules whose output is in bfloat16 or float16."""
    low = torch.bfloat16, torch.float16
    return over_modules(step, lambda module, inputs, output: getattr(output, "dtype", None) in low)


MULTIPLYING = {b"matmul", b"inner_product", b"convolution", b"deconvolution", b"rnn"}
"""What oneDNN's log calls the kernels that multiply."""


def bfloat16_kernels(step: Step) -> int:
    """Kernels of oneDNN that one warm step runs and that multiply in bfloat16, by oneDNN's own log, which it prints.

    A float32 GELU is called "jit:avx10_1_512_amx" on a Xeon with AMX, though it multiplies nothing.
    """
    run = [line.split(b",")[:8] for line in _onednn_log(step)]
    products = [fields for fields in run if not MULTIPLYING.isdisjoint(fields)]
    return sum(any(b"bf16" in each or b"amx" in each for each in fields) for fields in products)


def int8_kernels(step: Step) -> int:
    """Kernels of oneDNN that one warm step runs and that multiply integers of 8 bits, by the same log."""
    return sum(bool(INTEGERS.search(line)) and b",reorder," not in line for line in _onednn_log(step))


def _onednn_log(step: Step) -> list[bytes]:
    """A line for each kernel of oneDNN that one warm step runs."""
    step()
    output = os.dup(STDOUT)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), STDOUT)
        try:
            with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                step()
        finally:
            os.dup2(output, STDOUT)
            os.close(output)
        log.seek(0)
        return [line for line in log if b",exec,cpu," in line]


def forward_passes(step: Step) -> int:
    """How often one step runs a module: the most that any single one is called."""
    called: Counter[nn.Module] = Counter()

    def look(module: nn.Module, inputs: Any, output: Any) -> int:
        called[module] += 1
        return 1

    over_modules(step, look)
    return max(called.values(), default=0)


def working_children(step: Step, threshold: float = 0.0005) -> int:
    """Processes started by multiprocessing that used a core for at least `threshold` seconds in two warm steps.

    A DataLoader's worker that waits uses next to nothing; one that decodes a single photo uses more
    than twice the threshold. In one step a worker may have nothing to do: what it gives then may lie ready.
    """
    step()
    before = {child.pid: _cpu_seconds(child.pid) for child in multiprocessing.active_children()}
    for _ in range(2):
        step()
    return sum(_cpu_seconds(pid) - spent >= threshold for pid, spent in before.items())


def started_children(step: Step) -> int:
    """Processes of multiprocessing that are started in a warm step, as workers are for each epoch."""
    step()
    before = {child.pid for child in multiprocessing.active_children()}
    step()
    return len({child.pid for child in multiprocessing.active_children()} - before)


def _cpu_seconds(pid: int | None) -> float:
    # In nanoseconds; what psutil reads has steps of 10 ms.
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def mapped_library(names: Iterable[str]) -> str | None:
    """The first of `names` that a library loaded into this process carries in its file name, or None."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    files = {line.rpartition("/")[2] for line in maps if "/" in line}  # "libjemalloc.so.2 (deleted)" if it was replaced
    return next((name for name in names if any(name in file for file in files)), None)


def library_of(function: str) -> str:
    """The file of the library from which this process takes a C function, such as `malloc`; empty where none has it."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), function, 0), ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(bound, 16) for bound in line.partition(" ")[0].split("-"))
        if first <= address < last:
            return line.rpartition("/")[2]
    return ""


def page_faults(step: Step, steps: int = 5) -> float:
    """Pages that the kernel maps in per warm step. Nearly exact: the interpreter needs some too."""
    for _ in range(3):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps


def pages_by_node(maps: str) -> dict[int, int]:
    """Pages of a process's own memory on each NUMA node that holds any, from the text of /proc/self/numa_maps. Pages of
    files do not count: they lie on the node that read the file first."""
    pages: dict[int, int] = {}
    for line in maps.splitlines():
        words = line.split()
        if any(word.startswith("file=") for word in words):
            continue
        for word in words:
            node, _, count = word.partition("=")
            if node.startswith("N") and node[1:].isdigit():
                pages[int(node[1:])] = pages.get(int(node[1:]), 0) + int(count)
    return pages
