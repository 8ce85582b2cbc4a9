"""What a tip says to write is what ran: its text, executed in each whole job, does what the pair's side does.

Both compute the same numbers and count the same mechanism. Lines of the shell are in `test_do_in_shell.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from textwrap import indent
from types import CodeType, ModuleType
from typing import Any, cast
from unittest import mock

import pytest
import torch
from torch import _inductor, nn
from torch._dynamo.backends.debugging import aot_eager
from torch._functorch import config
from torch._inductor import compile_fx
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.gpu.cudnn_benchmark import searching
from benchmarks.gpu.tensor_cores import tf32_products
from tests.at_test_size import AtTestSize
from tests.following import followed
from tests.test_pairs import FOR_GPUS, PAIRS, alone, one_thread, pytestmark, unmet
from tests.test_tips import SHELL
from tests.written import IMPORTED, executed, text_of
from tipbench.suite.files import BENCHMARKS, load_module, pair_files
from tipbench.suite.loops import OF_A_BATCH, OF_A_JOB, free_names
from tipbench.tip.pair import Equal, Step, Tip, Variant, code_to_try, variants
from tipbench.worker import checks, switches
from tipbench.worker.guard import seed_generators
from tipbench.worker.outputs import Outputs, worst_difference

__all__ = ["alone", "one_thread", "pytestmark"]

MODULES = [load_module(file, BENCHMARKS) for file in pair_files(BENCHMARKS)]
TIPS: dict[str, Tip] = {module.TIP.id: module.TIP for module in MODULES}
TEXTS = [
    (name, variant, text)
    for name, pair in PAIRS.items()
    for variant in variants(pair)
    if (text := text_of(TIPS[name.partition(".")[0]], variant))
]
"""(pair, variant, what to write for it)"""
ALSO_BY_CPU = ("amp.GPTTraining[float16]", "checkpointing.GPTTraining[on_the_host]")
"""Variants for GPUs that a CPU can run too, in no time."""

IN_PYTHON = [
    *{
        (name.partition(".")[0], PAIRS[name].scale, re.sub(r"\d+", "", text)): (name, variant, text)
        for name, variant, text in (
            *reversed(TEXTS),
            *(each for each in TEXTS if f"{each[0]}[{each[1].name}]" in ALSO_BY_CPU),
        )
        if not SHELL.match(text)
    }.values()
][::-1]
"""Each text once, in the first job that it is for, and of a sweep the first value alone: only the number differs."""
IN_JOBS = [(name, variant, text) for name, variant, text in IN_PYTHON if PAIRS[name].scale == "macro"]

OF_CODE = {
    "avoid-sync": {"total"},
    "chunked-loss": {"self", "hidden"},
    "create-on-device": {"n"},
    "flex-attention": {"query", "key", "value"},
    "key-value-cache": {"self", "query", "key", "value", "places", "prompts", "length"},
    "layer-order": {"self", "layers"},
    "mapped-weights": {"Net"},
    "no-bias-before-bn": {"channels", "filters"},
    "no-copies": {"array"},
    "no-padding": {"sequences", "query", "key", "value"},
    "pad-sizes": {"vocabulary", "width", "states"},
    "reduced-decoding": {"image", "size"},
    "request-batches": {"error"},
    "sdpa": {"query", "key", "value"},
}
"""Names of texts that belong into the code of a model, a dataset or a sum."""

IN_SEVERAL = ("cpu-ddp", "ddp-not-dp")
"""Tips whose text itself starts with several processes: `test_do_in_shell.py` starts them."""

SWITCHES = {"cudnn-benchmark": searching, "tensor-cores": tf32_products}
"""Tips whose text sets what only a GPU heeds, and what the pair does instead."""

COMPILED_FOR_A_GPU = ("cuda-graphs.", "compile-modes.ResNetInference[max")
"""Variants that only a GPU can compile or capture."""

IN_A_MODEL = ("avoid-sync", "compile-cache", "create-on-device", "layer-order", "pad-sizes", "preallocate")
"""Tips whose text stands in the code of a model or around the loop: the names that it uses are checked alone."""

NEAR = 1e-6
"""Relative difference that both may have: they do the same operations."""


class AsWritten(AtTestSize):
    """A pair on the CPU that has one variant more, `written`: what its tip says to write for another."""

    def __init__(self, name: str, variant: Variant, text: str) -> None:
        super().__init__(PAIRS[name], torch.device("cpu"))
        self.of, self.text = variant, text

    def results(self, variant: str) -> checks.Results:
        return checks.step_results(self, variant, seeds=(1,))

    def build(self, variant: str, seed: int) -> Step:
        torch.compiler.reset()
        if variant != "written":
            return super().build(variant, seed)
        seed_generators(seed)
        return followed(self.pair(), self.of, self.text)


@pytest.fixture
def undone() -> Iterator[None]:
    """What a text sets for the whole process is set as before."""
    fusion, mkldnn = torch.jit.onednn_fusion_enabled(), cast(Any, torch.backends.mkldnn)
    parts = (mkldnn.matmul, mkldnn.conv)
    precisions = [part.fp32_precision for part in parts]
    with (
        config.patch(activation_memory_budget=config.activation_memory_budget),
        mock.patch.object(switches, "describe_changes", return_value=""),  # a program has no other side
    ):
        yield
    for part, precision in zip(parts, precisions, strict=True):
        part.fp32_precision = precision
    torch.jit.enable_onednn_fusion(fusion)
    torch.autograd.set_detect_anomaly(False)
    torch.set_grad_enabled(True)
    torch.compiler.reset()


@pytest.fixture
def no_code_is_generated() -> Iterator[list[Any]]:
    """What torch.compile traces and torch.export exports runs as it is: no compiler is waited for. With the options of
    each compilation, and the code of what is packaged."""
    generated = compile_fx.compile_fx
    requests: list[Any] = []
    packages: dict[str, Any] = {}

    def traced(model: Any, inputs: Any, **options: Any) -> Any:
        if "inner_compile" in options:
            return generated(model, inputs, **options)
        requests.append(options)
        return aot_eager(model, inputs)

    def packaged(program: Any, **options: Any) -> str:
        requests.append((program.graph_module.code, options))
        module = program.module()
        packages[path := f"{len(packages)}.pt2"] = lambda *inputs: module(*inputs)  # with no method of a module
        return path

    with (
        mock.patch.object(compile_fx, "compile_fx", traced),
        mock.patch.object(_inductor, "aoti_compile_and_package", packaged),
        mock.patch.object(_inductor, "aoti_load_package", packages.__getitem__),
    ):
        yield requests


def case(name: str, variant: Variant, text: str) -> Any:
    return pytest.param(name, variant, text, id=f"{name}[{variant.name}]")


def in_jobs(*tips: str, compiled: bool = False) -> list[Any]:
    """The cases of these tips, or of all that no other test is about."""
    return [
        case(name, variant, text)
        for name, variant, text in IN_JOBS
        if name.startswith(tuple(f"{tip}." for tip in tips) or "")
        and (bool(tips) or name.partition(".")[0] not in {*IN_SEVERAL, *SWITCHES, *IN_A_MODEL})
        and f"{name}[{variant.name}]".startswith(COMPILED_FOR_A_GPU) == compiled
    ]


@pytest.mark.parametrize("tip", TIPS.values(), ids=TIPS)
def test_a_text_uses_no_names_but_those_of_a_job_or_of_the_code_it_belongs_to(tip: Tip) -> None:
    known = OF_A_JOB | OF_A_BATCH | OF_CODE.get(tip.id, set())
    for text in {text for name, _, text in IN_JOBS if name.startswith(f"{tip.id}.")}:
        assert free_names(text) <= known


@pytest.mark.parametrize("module", MODULES, ids=[module.TIP.id for module in MODULES])
def test_what_a_person_writes_for_a_way_is_complete(module: ModuleType) -> None:
    for way in getattr(module, "ON_ANY_JOB", ()):
        text = way.do or module.TIP.do
        assert SHELL.match(text) or free_names(text) <= OF_A_JOB | OF_A_BATCH


def test_the_values_of_a_sweep_are_filled_in_or_left_open() -> None:
    pair = PAIRS["batch-size.NextByte"]
    _, first, *_ = variants(pair)
    assert "dict(batch_size=64)" in text_of(TIPS["batch-size"], first)
    assert "dict(batch_size=...)" in code_to_try(TIPS["batch-size"], [pair])


@pytest.mark.parametrize("tip", TIPS.values(), ids=TIPS)
def test_ways_are_variants(tip: Tip) -> None:
    pairs = [pair for name, pair in PAIRS.items() if name.startswith(f"{tip.id}.")]
    assert tip.ways.keys() <= {variant.name for pair in pairs for variant in variants(pair)} - {"baseline", "optimized"}


def numbers(results: checks.Results) -> list[Outputs]:
    return [*results.seeds, *results.further]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning")
@pytest.mark.usefixtures("undone", "alone")
@pytest.mark.parametrize(("name", "variant", "text"), in_jobs())
def test_what_is_written_computes_and_counts_what_ran(
    name: str, variant: Variant, text: str, no_code_is_generated: list[Any]
) -> None:
    tip, for_gpus = name.partition(".")[0], name in FOR_GPUS or f"{name}[{variant.name}]" in ALSO_BY_CPU
    if (missing := unmet(name, variant)) and not for_gpus:
        pytest.skip(missing.text)
    pair = AsWritten(name, variant, text)
    ran = numbers(pair.results(variant.name))
    requests = [no_code_is_generated.pop() for _ in [*no_code_is_generated]]
    written = numbers(pair.results("written"))
    assert no_code_is_generated[::-1] == requests
    for expected, outputs in zip(ran, written, strict=True):
        gone = expected.keys() - outputs.keys()
        # Lines that accumulate gradients name no loss; a loop that ends with zero_grad() leaves no gradients.
        assert not {path for path in gone if path != "output[0]" and not (tip == "no-sync" and path.endswith(".grad"))}
        difference, where = worst_difference({path: expected[path] for path in expected.keys() - gone}, outputs)
        # Pairs of trainings draw their batches themselves: names and shapes of what a step returns are compared.
        assert PAIRS[name].equal == Equal.TARGET or difference <= NEAR, where
    if not for_gpus:
        counts = checks.mechanism_count(pair, variant.name, seed=0), checks.mechanism_count(pair, "written", seed=0)
        assert counts[0] == counts[1]


@pytest.mark.parametrize("tip", SWITCHES)
def test_what_only_a_gpu_heeds_is_set_as_it_was(tip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for of, name in ((torch.backends.cudnn, "benchmark"), (torch.backends.cuda.matmul, "fp32_precision")):
        monkeypatch.setattr(of, name, getattr(of, name))  # set back in the end
    before = switches.read()
    with SWITCHES[tip]():
        ran = switches.describe_changes(before, switches.read())
    executed(ast.parse(TIPS[tip].do).body, dict(IMPORTED))
    assert switches.describe_changes(before, switches.read()) == ran != ""


@pytest.mark.parametrize(("name", "variant", "text"), in_jobs(compiled=True))
def test_what_only_a_gpu_compiles_is_requested_as_it_was(
    name: str, variant: Variant, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Any] = []

    def captured(model: nn.Module, examples: tuple[torch.Tensor]) -> nn.Module:
        requests.append([example.shape for example in examples])
        return model

    monkeypatch.setattr(nn.Module, "compile", lambda model, **options: requests.append((type(model), options)))
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", captured)
    pair = AsWritten(name, variant, text)
    for side in (variant.name, "written"):
        pair.build(side, seed=1)
    ran, written = requests
    assert ran == written


@pytest.mark.parametrize(("name", "variant", "text"), in_jobs("one-cycle"))
def test_the_written_schedule_has_the_rates_that_ran(name: str, variant: Variant, text: str) -> None:
    pair = AsWritten(name, variant, text)

    def rates(side: str) -> list[float]:
        step, seen = pair.build(side, seed=1), []
        handle = register_optimizer_step_post_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"]))
        while len(seen) < 150:  # warm-up is over by then
            step()
        handle.remove()
        return seen

    assert rates("written") == pytest.approx(rates(variant.name))


@pytest.mark.usefixtures("undone")
def test_a_memory_budget_is_refused_with_dropout_as_long_as_torch_has_its_gradients_wrong() -> None:
    """Where this fails, pytorch#190758 is fixed: take what the text says of dropout out."""

    def trained(dropout: float, budget: float) -> torch.Tensor:
        torch.compiler.reset()
        seed_generators(1)
        block = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 16), nn.Dropout(dropout))
        with config.patch(activation_memory_budget=budget):
            torch.compile(lambda x: x + block(x), backend="aot_eager")(torch.ones(8, 16)).square().mean().backward()
        return torch.cat([parameter.grad.flatten() for parameter in block.parameters() if parameter.grad is not None])

    def off(dropout: float) -> float:
        whole, part = (trained(dropout, budget) for budget in (1.0, 0.5))
        return float((part - whole).norm() / whole.norm())

    assert off(0.0) < NEAR
    assert off(0.3) > 0.1
    names = {**IMPORTED, "model": nn.Sequential(nn.Dropout(0.3))}
    with pytest.raises(AssertionError):
        executed(ast.parse(TIPS["checkpointing"].ways["memory_budget"]).body, names)


def test_no_text_takes_a_name_from_the_function_that_it_is_pasted_into() -> None:
    """`import torch.x` makes `torch` a local name, which the lines before it then lack; and scripts have a `config`."""
    for name, _, text in IN_PYTHON:
        module = compile(f"def pasted():\n{indent(text, '    ')}", name, "exec")
        (pasted,) = [each for each in module.co_consts if isinstance(each, CodeType)]
        assert not {*IMPORTED, "config"} & {*pasted.co_varnames, *pasted.co_cellvars}, name
