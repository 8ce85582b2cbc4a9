"""What a reader may copy from a tip: with its condition, and said against what it was measured."""

from __future__ import annotations

import ast
import re

import pytest

from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.job import MacroPair, as_it_is
from tipbench.tip.pair import Pair, Tip, variants

MODULES = [load_module(file, BENCHMARKS) for file in pair_files(BENCHMARKS)]
TIPS: list[Tip] = [module.TIP for module in MODULES if module.TIP.id not in ("control", "together")]
SHARED = ("compiled model", "optimizer")
"""What several tips are about, of which a job can follow one."""

JOBS = [(module.TIP, pair) for module in MODULES for pair in pair_classes(module) if pair.scale == "macro"]


def is_one_process(pair: type[Pair]) -> bool:
    """Whether its baseline is one process, with nothing set."""
    settings = next(variants(pair)).settings
    return settings.ranks == 1 and not (settings.env or settings.preload or settings.prefix)


def is_the_job(pair: type[Pair]) -> bool:
    """Whether its baseline is a job to which nothing was done."""
    return not issubclass(pair, MacroPair) or pair.untuned is as_it_is


def is_plain(pair: type[Pair]) -> bool:
    """Whether a reader knows its baseline without being told: the job as it is, in one process."""
    overridden = not issubclass(pair, MacroPair) or pair.baseline is not MacroPair.baseline
    return is_one_process(pair) and is_the_job(pair) and not overridden


@pytest.mark.parametrize(("tip", "pair"), JOBS, ids=[f"{tip.id}.{pair.__name__}" for tip, pair in JOBS])
def test_a_baseline_that_is_not_the_plain_job_is_named(tip: Tip, pair: type[Pair]) -> None:
    assert is_plain(pair) or pair.against or tip.against


@pytest.mark.parametrize("tip", TIPS, ids=[tip.id for tip in TIPS])
def test_what_is_only_measured_from_another_baseline_has_a_condition(tip: Tip) -> None:
    jobs = [pair for of, pair in JOBS if of.id == tip.id]
    assert not jobs or any(map(is_one_process, jobs)) or tip.when
    assert not jobs or any(map(is_the_job, jobs)) or tip.when


@pytest.mark.parametrize("tip", TIPS, ids=[tip.id for tip in TIPS])
def test_a_tip_has_a_name_beside_its_other_ways_and_beside_tips_that_it_excludes(tip: Tip) -> None:
    jobs = [pair for of, pair in JOBS if of.id == tip.id]
    has_others = any(variant.builder not in ("baseline", "optimized") for pair in jobs for variant in variants(pair))
    assert tip.called or not (has_others or tip.one_of in SHARED)


def test_what_excludes_each_other_is_what_cannot_be_done_together() -> None:
    by_word: dict[str, set[str]] = {}
    for tip in TIPS:
        by_word.setdefault(tip.one_of, set()).add(tip.id)
    assert {word: by_word[word] for word in SHARED} == {
        "compiled model": {
            *("dynamic-int8", "static-int8"),
            *("compile-modes", "regional-compile", "cuda-graphs", "frozen-weights", "changing-shapes", "ahead-of-time"),
            "onednn-graph",
        },
        "optimizer": {"fused-optimizer", "compiled-optimizer"},
    }
    several = {module.TIP.id for module in MODULES if len(getattr(module, "ON_ANY_JOB", ())) > 1}
    assert several <= {tip.id for tip in TIPS if tip.one_of}, "of the ways of one tip a job follows one"


SHELL = re.compile(r"([A-Z_]+=\S+ |torchrun |numactl |python -m torch\.backends\.xeon\.run_cpu )+.*train\.py")


@pytest.mark.parametrize("tip", TIPS, ids=[tip.id for tip in TIPS])
def test_what_to_write_is_python_or_a_command_or_nothing(tip: Tip) -> None:
    for text in (tip.do, *tip.ways.values()):
        assert SHELL.match(text) or ast.parse(text).body or text == ""
