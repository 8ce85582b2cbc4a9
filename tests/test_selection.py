"""Which pairs a person means."""

from __future__ import annotations

import pytest

from tests.made_up import info, tip
from tipbench.suite.selection import NothingSelected, add_control, select

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
    assert add_control([*CONTROLS, *PAIRS], CONTROLS) == [*CONTROLS, *PAIRS]
    assert add_control(PAIRS[:1], CONTROLS) == [CONTROLS[0], PAIRS[0]]
    assert add_control([CONTROLS[1], PAIRS[0]], CONTROLS) == [CONTROLS[1], PAIRS[0]], "one was chosen"
