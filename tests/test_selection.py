"""Which pairs a person means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.made_up import NO_GPU, info, tip
from tipbench.records.record import PairInfo
from tipbench.suite.selection import NothingSelected, first_of_tasks, of_a_short_run, select, with_controls
from tipbench.tip.reason import Reason

CONTROLS = [info(name, tip=tip("control")) for name in ("Pointwise", "Convolution")]
PAIRS = [
    info("Gelu", tip=tip("fuse-pointwise", title="Fuse pointwise operations.")),
    info("MLPTraining", tip=tip("fuse-pointwise", title="Fuse pointwise operations."), scale="macro"),
    info("ResNetTraining", tip=tip("channels-last"), scale="macro", file="benchmarks/general/channels_last.py"),
]


GELU, MLP, RESNET = ALL = [info.name for info in PAIRS]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], ALL),
        (["fuse-pointwise"], [GELU, MLP]),
        ([GELU], [GELU]),
        (["channels-last", "fuse-pointwise", GELU], ALL),  # in the files' order, and nothing twice
        (["*Training"], [MLP, RESNET]),
        (["fuse*"], [GELU, MLP]),
        (["*.Gel?", "channels-last"], [GELU, RESNET]),
    ],
)
def test_names_and_patterns_of_names_select(names: list[str], chosen: list[str]) -> None:
    assert [info.name for info in select(PAIRS, names)] == chosen


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["fuse-pointwize"], r"'fuse-pointwize'; did you mean fuse-pointwise\?"),
        (["fuse-pointwise.gelu"], r"'fuse-pointwise.gelu'; did you mean fuse-pointwise.Gelu\?"),
        (["channels_last"], r"'channels_last'; did you mean channels-last\?"),
        (["xyz"], "'xyz'; `tipbench list` shows all"),
        (["xyz*"], r"'xyz\*'; `tipbench list` shows all"),
        (["fuse-pointwise", "chanels"], "'chanels'"),
    ],
)
def test_an_unknown_name_gets_the_nearest_or_the_list(names: list[str], why: str) -> None:
    with pytest.raises(NothingSelected, match=f"no tip or pair is named {why}"):
        select(PAIRS, names)


def test_no_pairs_at_all_is_an_error() -> None:
    with pytest.raises(NothingSelected, match="no pairs"):
        select([], [])


def test_a_whole_run_carries_all_controls_first_and_any_other_one() -> None:
    assert with_controls([*CONTROLS, *PAIRS], CONTROLS, whole=True) == [*CONTROLS, *PAIRS]
    assert with_controls(PAIRS[:1], CONTROLS, whole=False) == [CONTROLS[0], PAIRS[0]]
    assert with_controls([CONTROLS[1], PAIRS[0]], CONTROLS, whole=False) == [CONTROLS[1], PAIRS[0]], "one was chosen"


# ---- a short run ----


def job(name: str, task: str, first: bool = True, why: Reason | None = None, lacking: str = "") -> PairInfo:
    about = info(name, ["optimized", "other"], scale="macro", task=task, first_of_task=first, worded="optimized")
    sides = (replace(side, why=NO_GPU) if side.name == lacking else side for side in about.variants)
    return replace(about, why=why, variants=tuple(sides))


OPERATIONS = [info("Operation"), info("Ranks", task="processes", first_of_task=True), info("Nowhere", why=NO_GPU)]


def test_a_short_run_has_all_operations_alone_and_the_first_whole_job_of_each_task() -> None:
    training, inference = job("Train", "training"), job("Infer", "inference")
    others = [job("Later", "training"), job("Unnamed", "processes", first=False)]
    pairs = [OPERATIONS[0], job("Any", "training", first=False), training, *others, *OPERATIONS[1:], inference]
    assert first_of_tasks(pairs) == [training, inference]
    assert of_a_short_run(pairs) == [OPERATIONS[0], training, *OPERATIONS[1:], inference]


@pytest.mark.parametrize("cannot", [{"why": NO_GPU}, {"lacking": "baseline"}, {"lacking": "optimized"}])
def test_the_next_whole_job_of_a_task_is_taken_where_one_cannot_run(cannot: dict[str, Any]) -> None:
    nowhere, here = job("Nowhere", "training", **cannot), job("Here", "training", lacking="other")
    assert first_of_tasks([nowhere, here]) == [here]
    assert of_a_short_run([*OPERATIONS, nowhere]) == OPERATIONS, "operations alone where there is none"
