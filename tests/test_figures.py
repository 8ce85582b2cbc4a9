"""Figures: what is drawn, whoever's matplotlib settings, names and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from tests.made_up import info, measured, run, tip
from tipbench.report.answer import answers
from tipbench.report.figures import sweeps, whole_jobs
from tipbench.report.figures.drawing import Drawing, save
from tipbench.report.figures.whole_jobs import Bar
from tipbench.report.palette import PALETTE
from tipbench.report.result import Result
from tipbench.report.results import results

SVG = "{http://www.w3.org/2000/svg}"

BARS = [Bar("allocator: ResNet", 0.7, 0.65, 0.75), Bar("fused: GPT", 1.01, 0.9, 1.1), Bar("amp: GPT", 1.5, 1.4, 1.6)]


def curve(pair: str = "Photos", counts: Sequence[int] = (8, 1, 4, 2)) -> list[Result]:
    effects = {f"workers={count}": math.log(1 + count / 10) for count in counts}
    return results(run([measured(info(pair, list(effects), tip=tip("loading")), effects)]))


def drawn(bars: list[Bar]) -> Drawing:
    (drawing,) = whole_jobs.drawing(bars)
    return drawing


def texts(svg: bytes) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def curves(rows: Sequence[Result]) -> list[Drawing]:
    return [drawing for drawings in sweeps.drawings(rows).values() for drawing in drawings]


def test_the_largest_gains_and_costs_are_drawn_each_in_one_job_and_sorted() -> None:
    def effect(number: int) -> float:
        return 0.1 * (number + 1) * (-1 if number % 4 == 0 else 1)

    records = [
        measured(
            info(job, tip=tip(f"tip-{number}"), scale="macro", task="training"), {"optimized": effect(number) / by}
        )
        for number in range(20)
        for job, by in (("ResNetTraining", 1), ("GPTTraining", 2))
    ]
    bars = whole_jobs.bars(answers(results(run(records))))
    numbers = sorted(range(5, 20), key=effect)
    assert [bar.name for bar in bars] == [f"tip-{number}: ResNet training" for number in numbers]
    shown = [text for text in texts(save(drawn(bars), "svg")) if text.startswith("tip-")]
    assert shown == [bar.name for bar in bars]


def test_the_text_alternative_names_the_ends() -> None:
    assert drawn(BARS).alt.endswith("time before over time after: allocator: ResNet 0.7x to amp: GPT 1.5x.")


def test_nothing_measured_nothing_drawn() -> None:
    assert whole_jobs.drawing([]) == []
    assert curves([]) == curves(curve(counts=(1, 2, 4))) == [], "three points are read faster in a table"


def test_a_sweep_is_a_curve_in_the_order_of_its_values() -> None:
    (drawing,) = curves([*curve(), replace(curve()[0], variant="optimized"), replace(curve()[0], tip="control")])
    assert drawing.alt == (
        "Speedup of loading Photos on cpu by workers: "
        "1.1x with 1 (faster), 1.2x with 2 (faster), 1.4x with 4 (faster), 1.8x with 8 (faster)."
    )
    assert [text for text in texts(save(drawing, "svg")) if text in "1248"] == ["1", "2", "4", "8"]


def test_sweeps_of_names_that_are_alike_in_a_folder_are_kept_apart() -> None:
    alike = [row for pair in ("a/b", "a b", "A B") for row in curve(pair)]
    names = [drawing.name.casefold() for drawing in curves(alike)]
    assert len(set(names)) == 3


def test_equal_results_give_equal_bytes_whatever_the_settings_of_the_process() -> None:
    before = [save(drawing, format) for drawing in (drawn(BARS), *curves(curve())) for format in ("svg", "png")]
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        after = [save(drawing, format) for drawing in (drawn(BARS), *curves(curve())) for format in ("svg", "png")]
    assert before == after


def test_figures_share_no_id_and_load_nothing() -> None:
    figures = [save(drawing, "svg").decode() for drawing in (drawn(BARS), *curves(curve()))]
    ids = [re.findall(r'\bid="([^"]+)"', figure) for figure in figures]
    assert all(ids)
    assert not set(ids[0]) & set(ids[1])
    for figure, names in zip(figures, ids, strict=True):
        pointed_at = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', figure)
        assert {name for pair in pointed_at for name in pair if name} <= set(names)
        assert not re.search(r'href="[^#]|<script|<image', figure)


def test_every_colour_is_one_that_a_page_replaces() -> None:
    colours = set(re.findall(r"#[0-9a-f]{6}\b", save(drawn(BARS), "svg").decode()))
    assert colours <= {light for light, _ in PALETTE.values()}


@pytest.mark.parametrize("ratio", [1e-9, 0.5, 1.0, 1.001, 3.0, 1e9])
def test_any_ratio_is_drawn_with_1x_on_its_axis(ratio: float) -> None:
    bars = [Bar("a: b", ratio, ratio / 100, ratio * 100)]
    assert "1x" in texts(save(drawn(bars), "svg"))
    (drawing,) = curves([replace(row, speedup=ratio, low=ratio / 100, high=ratio * 100) for row in curve()])
    assert "1x" in texts(save(drawing, "svg"))
