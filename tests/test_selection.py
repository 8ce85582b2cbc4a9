"""Which pairs a person means."""

from __future__ import annotations

import pytest

from tests.made_up import info, tip
from tipbench.records.record import PairInfo
from tipbench.suite.selection import NothingSelected, select, with_controls

CONTROLS = [info(name, tip=tip("control")) for name in ("Pointwise", "Convolution")]
PAIRS = [
    info("Gelu", tip=tip("fuse-pointwise", title="Fuse pointwise operations.")),
    info("MLPTraining", tip=tip("fuse-pointwise", title="Fuse pointwise operations."), scale="macro"),
    info("ResNetTraining", tip=tip("channels-last"), scale="macro", file="benchmarks/general/channels_last.py"),
]


def names(chosen: list[PairInfo]) -> list[str]:
    return [info.name for info in chosen]


def test_without_names_all_are_meant() -> None:
    assert select(PAIRS, []) == PAIRS


def test_a_tip_means_all_its_pairs() -> None:
    assert names(select(PAIRS, ["fuse-pointwise"])) == ["fuse-pointwise.Gelu", "fuse-pointwise.MLPTraining"]


def test_a_pair_means_itself() -> None:
    assert names(select(PAIRS, ["fuse-pointwise.Gelu"])) == ["fuse-pointwise.Gelu"]


def test_the_order_is_that_of_the_files_and_nothing_comes_twice() -> None:
    wanted = ["channels-last", "fuse-pointwise", "fuse-pointwise.Gelu"]
    assert select(PAIRS, wanted) == PAIRS


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("fuse-pointwize", "fuse-pointwise"),
        ("chanels-last", "channels-last"),
        ("fuse-pointwise.gelu", "fuse-pointwise.Gelu"),
        ("channels_last", "channels-last"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(NothingSelected, match=f"no tip or pair is named '{name}'; did you mean {near}\\?"):
        select(PAIRS, [name])


def test_a_name_near_nothing_gets_the_list() -> None:
    with pytest.raises(NothingSelected, match="'xyz'; `tipbench list` shows all"):
        select(PAIRS, ["xyz"])


def test_one_unknown_name_among_known_ones_is_told() -> None:
    with pytest.raises(NothingSelected, match="'chanels'"):
        select(PAIRS, ["fuse-pointwise", "chanels"])


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("gelu", ["fuse-pointwise.Gelu"]),
        ("MICRO", ["fuse-pointwise.Gelu"]),
        ("macro and not fuse", ["channels-last.ResNetTraining"]),
        ("general/channels or Gelu", ["fuse-pointwise.Gelu", "channels-last.ResNetTraining"]),
        ("operations", ["fuse-pointwise.Gelu", "fuse-pointwise.MLPTraining"]),
    ],
)
def test_an_expression_matches_name_scale_file_and_title(expression: str, chosen: list[str]) -> None:
    assert names(select(PAIRS, [], expression)) == chosen


def test_names_and_an_expression_both_hold() -> None:
    assert names(select(PAIRS, ["fuse-pointwise"], "macro")) == ["fuse-pointwise.MLPTraining"]


@pytest.mark.parametrize(
    "expression",
    ["gelu and", "(gelu", "a b", "gelu &", "gelu (micro)", "()", "not", "a, b", "a == b", "'gelu'", "~gelu"],
)
def test_a_broken_expression_is_told(expression: str) -> None:
    with pytest.raises(NothingSelected, match="is no expression of words with and, or, not"):
        select(PAIRS, [], expression)


def test_an_expression_that_selects_nothing_is_told() -> None:
    with pytest.raises(NothingSelected, match="-k 'gpu' selects none"):
        select(PAIRS, [], "gpu")


def test_no_pairs_at_all_is_told() -> None:
    with pytest.raises(NothingSelected, match="no pairs"):
        select([], [])


# ---- controls ----


def test_a_whole_run_carries_all_controls_first() -> None:
    assert with_controls([*CONTROLS, *PAIRS], CONTROLS, whole=True) == [*CONTROLS, *PAIRS]


def test_any_other_run_carries_the_first_control() -> None:
    assert with_controls(PAIRS[:1], CONTROLS, whole=False) == [CONTROLS[0], PAIRS[0]]


def test_who_chooses_a_control_gets_that_one_only() -> None:
    assert with_controls([CONTROLS[1], PAIRS[0]], CONTROLS, whole=False) == [CONTROLS[1], PAIRS[0]]
