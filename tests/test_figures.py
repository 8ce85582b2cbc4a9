"""Figures: what is drawn of made-up runs and of a real one, whoever's matplotlib settings, names and numbers."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageColor

from tests.made_up import NO_GPU, both, info, launch, measured, realistic, run, tip
from tipbench.records.record import Launch, Record
from tipbench.records.store import read
from tipbench.report.figures import PALETTE, Effect, Format, alts, alts_across, draw, draw_across, sweep_name
from tipbench.report.rows import CONTROL, Row, rows

ROOT = Path(__file__).parent.parent
REAL = ROOT / "results" / "amd-epyc-zen4-2c-24g" / "2026-11-21-0e1f8a67.jsonl"
SVG = "{http://www.w3.org/2000/svg}"

EVIL = (
    '$x^2$ \\frac{1}{2} <script>alert(1)</script> & "q" \'x\' style="fill:#0072b2" ]]>&amp; \u202e\ufffe\x07 日本 😀'
    + 300 * "W"
)


def of(*records: Record) -> list[Row]:
    return rows(run(records))


def texts(svg: bytes) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def dots(svg: bytes) -> int:
    """Points of the one path that is made of points only."""
    paths = [path.get("d", "") for path in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    return sum(len(re.findall(r"M[-\d. ]+h\.01", path)) for path in paths)


def styled(svg: bytes, tag: str) -> list[tuple[ElementTree.Element, str]]:
    """All elements of a tag, each with the declarations that hold for it, those of its groups too."""
    root = ElementTree.fromstring(svg)
    rules = dict(re.findall(r"\.(s\d+)\{(.*?)\}", root.findtext(f"{SVG}style") or ""))

    def walk(element: ElementTree.Element, held: str) -> list[tuple[ElementTree.Element, str]]:
        held += "".join(f"{rules[name]};" for name in element.get("class", "").split() if name in rules)
        found = [(element, held)] if element.tag == f"{SVG}{tag}" else []
        return found + [each for child in element for each in walk(child, held)]

    return walk(root, "")


def marks(svg: bytes, color: str) -> int:
    """Markers drawn in a colour of the palette, the legend's among them."""
    return sum(f"stroke:var(--{color}," in held for _, held in styled(svg, "use"))


@pytest.fixture(scope="module")
def real() -> list[Row]:
    return rows(read(REAL)[0])


@pytest.fixture(scope="module")
def drawn(real: list[Row]) -> dict[str, bytes]:
    return draw(real, "svg")


# ---- which figures there are ----


def test_a_made_up_run_has_its_figures_in_order() -> None:
    names = ["speedups", "memory-time", "sweep-async-loading-PhotoEpoch", "sweep-openmp-threads-SmallOperations"]
    shown = rows(realistic())
    assert list(draw(shown, "svg")) == list(alts(shown)) == names


def test_a_run_that_measured_nothing_has_no_figures_and_one_comparison_is_enough() -> None:
    skipped, one = Record(info(), "skipped", NO_GPU), measured(info(), {"optimized": 0.1}, memory=both(0, 0))
    assert draw(of(skipped), "svg") == draw([], "png") == {}
    assert alts(of(skipped)) == {}
    assert list(draw(of(one), "svg")) == ["speedups"], "memory of nothing has no place on a log axis"


def test_controls_are_shown_but_not_counted() -> None:
    control = measured(info("Pointwise", tip=tip(CONTROL)), {"optimized": 0.0}, memory=both(800, 1000))
    (svg,) = draw(of(control), "svg").values()
    assert {CONTROL, "Pointwise", "identical sides"} <= set(texts(svg))
    assert "0 comparisons; 1 control " in alts(of(control))["speedups"]


def test_a_launch_too_disturbed_to_count_has_no_dot_and_what_has_no_estimate_no_line() -> None:
    def robbed(one: Launch) -> Launch:
        return replace(one, throttled_us=(1,) * len(one.throttled_us))

    fine = measured(info("Fine"), {"optimized": 0.2}, launches=9, spread=0.04)
    lost = replace(fine, launches=tuple(robbed(one) if index == 1 else one for index, one in enumerate(fine.launches)))
    none = measured(info("Nothing"), {"optimized": 0.2})
    none = replace(none, launches=tuple(map(robbed, none.launches)))
    (svg,) = draw(of(lost, none), "svg").values()
    assert dots(svg) == of(lost)[0].judgement.launches == len(of(lost)[0].effects)
    assert "Fine" in texts(svg)
    assert "Nothing" not in texts(svg)


# ---- the forest ----


def test_every_comparison_of_the_real_run_has_a_line_an_interval_and_all_its_launches(
    real: list[Row], drawn: dict[str, bytes]
) -> None:
    pages = [svg for name, svg in drawn.items() if name.startswith("speedups")]
    estimated = [row for row in real if row.judgement.speedup is not None]
    assert len(estimated) > 100
    assert sum(map(dots, pages)) == sum(row.judgement.launches for row in estimated)
    words = [word for page in pages for word in texts(page)]
    assert len([word for word in words if re.fullmatch(r"[\d.]+x \[[\d.]+, [\d.]+\]", word)]) == len(estimated)
    tips = {row.tip for row in estimated}
    assert Counter(word for word in words if word in tips) == dict.fromkeys(tips, 1)  # none is on two pages
    for verdict, color in (("faster", "faster"), ("slower", "slower"), ("inconclusive", "unclear")):
        of_legends = len([page for page in pages if verdict in texts(page)])
        found = sum(marks(page, color) for page in pages if verdict in texts(page))
        assert found == len([row for row in estimated if row.verdict == verdict]) + of_legends


def test_a_page_of_the_forest_fits_on_a4(drawn: dict[str, bytes]) -> None:
    for name, svg in drawn.items():
        width, height = map(float, (ElementTree.fromstring(svg).get("viewBox") or "").split()[2:])
        assert width <= 190 / 25.4 * 72, name
        assert height <= 277 / 25.4 * 72, name


def test_a_tip_longer_than_a_page_goes_on_on_the_next() -> None:
    variants = [f"way{n}" for n in range(80)]
    record = measured(info(variants=variants), dict.fromkeys(variants, 0.1), launches=4)
    found = draw(of(record), "svg")
    assert list(found) == ["speedups", "speedups-2"]
    words = Counter(word for svg in found.values() for word in texts(svg))
    assert {words[name] for name in variants} == {1}
    assert words["made-up"] == 2


def test_the_device_is_named_where_there_are_two() -> None:
    here, there = measured(info(), {"optimized": 0.1}), measured(info(device="cuda"), {"optimized": 0.2})
    assert "Pair" in texts(draw(of(here), "svg")["speedups"])
    assert {"Pair on cpu", "Pair on cuda"} <= set(texts(draw(of(here, there), "svg")["speedups"]))


# ---- sweeps, and memory against time ----


def test_a_sweep_is_a_curve_over_its_values_with_a_dot_a_launch() -> None:
    values = {"n=16": 0.3, "n=2": 0.1, "n=4.5": -0.2, "optimized": 0.5, "n=x": 0.4}
    shown = of(measured(info(variants=list(values)), values, launches=4))
    svg = draw(shown, "svg")["sweep-made-up-Pair"]
    assert dots(svg) == 12
    assert [word for word in texts(svg) if word in ("2", "4.5", "16")] == ["2", "4.5", "16"]
    points = re.findall(r"(\S+)x with (\S+) \((\w+)\)", alts(shown)["sweep-made-up-Pair"])
    assert points == [("1.11", "2", "inconclusive"), ("0.819", "4.5", "slower"), ("1.35", "16", "faster")]


def test_one_value_is_no_sweep_and_two_sweeps_never_share_a_name() -> None:
    one = measured(info("One", ["n=1", "optimized"]), {"n=1": 0.1, "optimized": 0.1}, launches=4)
    assert not [name for name in alts(of(one)) if name.startswith("sweep")]
    effects = {"a=1": 0.1, "a=2": 0.2, "b=1": 0.1, "b=2": 0.2}
    many = [measured(info(pair, list(effects)), effects, launches=4) for pair in ("Pair", "PAIR", "Pa ir", "Pa/ir")]
    names = [name for name in alts(of(*many)) if name.startswith("sweep")]
    assert len({name.lower() for name in names}) == len(names) == 8
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)
    assert {sweep_name("made-up", pair) for pair in ("Pair", "Pa ir", "Pa/ir")} <= set(names)


def test_memory_against_time_counts_its_corners() -> None:
    corners = {"Lean": (0.3, 400), "Trade": (-0.3, 200), "Fat": (0.4, 1600), "Same": (0.2, 790)}
    shown = of(
        *(measured(info(pair), {"optimized": effect}, memory=both(to, 1000)) for pair, (effect, to) in corners.items())
    )
    said = alts(shown)["memory-time"]
    assert re.findall(r"\b\d\b(?! comparisons|[.x])", said) == ["1", "1", "1", "0"]
    assert re.findall(r"made-up (\w+) with (\S+)x", said) == [("Trade", "0.25"), ("Fat", "2")]
    assert {"made-up Lean", "made-up Trade", "made-up Fat"} <= set(texts(draw(shown, "svg")["memory-time"]))


def test_no_two_labels_of_memory_against_time_lie_over_each_other(drawn: dict[str, bytes], real: list[Row]) -> None:
    tips = {row.tip for row in real}
    boxes = []
    for element, held in styled(drawn["memory-time"], "text"):
        word = element.text or ""
        if word.split(" ")[0] in tips:
            width, x = 0.5 * 6.5 * len(word), float(element.get("x", ""))
            boxes.append((x - width if "text-anchor:end" in held else x, float(element.get("y", "")), width))
    assert len(boxes) >= 10
    for index, (x, y, width) in enumerate(boxes):
        for other_x, other_y, other_width in boxes[:index]:
            apart = abs(y - other_y) >= 6.5 or x + width <= other_x or other_x + other_width <= x
            assert apart


# ---- machines ----


def effects(machines: int, comparisons: int) -> list[tuple[str, list[Effect]]]:
    """The n-th comparison differs the more, the larger n is."""
    return [
        (f"tip-{n} Pair", [(f"machine-{m}", ratio, ratio * 0.98, ratio * 1.02, "faster" if ratio > 1 else "slower")
         for m in range(machines) for ratio in [1.5 ** ((m % 3 - 1) * (n + 1) / comparisons)]])
        for n in range(comparisons)
    ]  # fmt: skip


def test_across_machines_the_twelve_that_differ_most_are_drawn() -> None:
    made = effects(20, 15)
    found = draw_across(made, "svg")
    words = [word for svg in found.values() for word in texts(svg)]
    assert list(found) == list(alts_across(made)) == ["across", "across-2"]
    assert [word for word in words if word.startswith("tip-")] == [f"tip-{n} Pair" for n in range(14, 2, -1)]
    assert {f"machine-{m}" for m in range(20)} <= set(words)
    assert "tip-14 Pair differs most" in alts_across(made)["across"]


def test_machines_keep_the_order_given_and_overlap_may_be_partial() -> None:
    made = [
        ("a", [("b", 1.2, 1.1, 1.3, "faster"), ("c", 0.8, 0.7, 0.9, "slower")]),
        ("d", [("e", 1.0, 0.99, 1.01, "no difference"), ("b", 1.0, 0.9, 1.1, "inconclusive")]),
        ("f", [("x", 1.0, 0.9, 1.1, "inconclusive")]),
    ]
    words = texts(draw_across(made, "svg", ["e", "b", "x"])["across"])
    assert [word for word in words if word in "ebxcf"] == ["e", "b", "c"]
    assert draw_across(made[2:], "svg") == draw_across([], "png") == {}


# ---- as bytes ----


def digests() -> dict[str, str]:
    found: dict[str, bytes] = {}
    formats: tuple[Format, ...] = ("svg", "png")
    for format in formats:
        drawn = draw(rows(realistic()), format) | draw_across(effects(3, 2), format)
        found |= {f"{name}.{format}": content for name, content in drawn.items()}
    return {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}


def test_same_rows_same_bytes_whatever_the_settings_of_another_process(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 30\nsvg.fonttype: path\nfigure.dpi: 40\naxes.labelsize: 30\n")
    settings = {"MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "MPLBACKEND": "svg"}
    program = """if True:
        import sys
        from tests.test_figures import digests
        assert not {"matplotlib", "torch"} & set(sys.modules), "imported before anything is drawn"
        print(digests())
        import matplotlib
        assert matplotlib.rcParams["font.size"] == 30, "a person's setting stays as it was"
    """
    command = [sys.executable, "-W", "error", "-c", program]
    there = subprocess.run(
        command, env={**os.environ, **settings}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert there.stdout == f"{digests()}\n"


def test_pictures_are_small(drawn: dict[str, bytes], real: list[Row]) -> None:
    assert sum(map(len, drawn.values())) < 220_000
    for name, content in draw(real, "png").items():
        picture = Image.open(io.BytesIO(content))
        assert content.startswith(b"\x89PNG"), name
        assert len(content) < 300_000, name
        assert picture.size[0] >= 900, name
        shades = {color for _, color in picture.convert("RGB").getcolors(1 << 20) or []}
        assert {ImageColor.getrgb(PALETTE[color][0]) for color in ("paper", "ink", "muted")} <= shades, name


def test_rare_colours_are_kept_in_png() -> None:
    many = measured(info("Many", [f"n={n}" for n in range(40)]), {f"n={n}": 0.3 for n in range(40)}, launches=4)
    one = measured(info("One"), {"optimized": -0.3}, launches=4)
    picture = Image.open(io.BytesIO(draw(of(many, one), "png")["speedups"])).convert("RGB")
    shades = {color for _, color in picture.getcolors(1 << 20) or []}
    assert {ImageColor.getrgb(PALETTE[color][0]) for color in ("faster", "slower", "grid", "band")} <= shades


def test_every_colour_is_a_property_that_a_page_may_set(drawn: dict[str, bytes]) -> None:
    """A colour comes alone only right before its property, for renderers that know none."""
    light = {light: name for name, (light, _) in PALETTE.items()}
    for name, svg in drawn.items():
        root = ElementTree.fromstring(svg)
        style = root.findtext(f"{SVG}style") or ""
        rules = style[style.index(f".figure-{name}") :]
        for body in re.findall(r"\{(.*?)\}", rules):
            colors = re.findall(r"#\w+", body)
            if colors:
                (color,) = set(colors)
                key = body.split(":")[0]
                assert body == f"{key}:{color};{key}:var(--{light[color]},{color})"
        for element in root.iter():
            assert "style" not in element.attrib
            for key, value in element.attrib.items():
                assert key == "href" or not re.search(r"#(?!sweep|speedups|memory)\w", value), (key, value)


def test_figures_do_not_meet_on_one_page(drawn: dict[str, bytes]) -> None:
    """Ids and rules are a figure's own, and every reference finds its element in the same figure."""
    seen: set[str] = set()
    for name, svg in drawn.items():
        root = ElementTree.fromstring(svg)
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        seen |= set(ids)
        assert set(re.findall(r"(?:url\(|href=\")#([\w-]+)", svg.decode())) == set(ids)
        style = root.findtext(f"{SVG}style") or ""
        selectors = re.findall(r"([^{}]+)\{", style)
        assert all(selector.startswith((f".figure-{name}", "svg:root", "@media screen")) for selector in selectors), (
            selectors
        )
        used = {each for element in root.iter() for each in element.get("class", "").split()}
        assert used - {f"figure-{name}"} <= set(re.findall(r"\.(s\d+)\{", style))


def test_a_figure_loads_nothing_and_runs_nothing(drawn: dict[str, bytes]) -> None:
    for svg in drawn.values():
        bare = svg.decode().replace('xmlns="http://www.w3.org/2000/svg"', "", 1)
        assert not re.search(r"https?:|//|@import|<script|<image|<foreignObject|\son\w+=", bare)
        assert svg.startswith(b"<svg ")


def test_a_figure_says_what_it_shows_to_who_cannot_see_it(real: list[Row], drawn: dict[str, bytes]) -> None:
    said = alts(real)
    for name, svg in drawn.items():
        root = ElementTree.fromstring(svg)
        assert (root.get("role"), root.get("aria-label")) == ("img", said[name])
        assert said[name]


# ---- foreign text and odd numbers ----


def test_hostile_names_are_shown_as_text_and_cut() -> None:
    swept = [f"{EVIL}={n}" for n in (1, 2)]
    records = (
        measured(
            info(EVIL, ["optimized", EVIL], tip=tip(EVIL)), {"optimized": 0.1, EVIL: 0.2},
            memory=both(400, 500, **{EVIL: (200, 300)}),
        ),
        measured(info(f"Sweep {EVIL}", swept, device=EVIL), dict.fromkeys(swept, 0.1)),
    )  # fmt: skip
    for svg in draw(of(*records), "svg").values():
        root = ElementTree.fromstring(svg)
        assert {element.tag for element in root.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "style", "g", "path", "use", "defs", "clipPath", "rect", "text")
        }
        foreign = [text for text in texts(svg) if "$x^2$" in text]
        assert foreign
        assert all(len(text) <= 90 for text in foreign)
        assert any("<script>" in text or "\\frac" in text for text in foreign)
    assert all(content.startswith(b"\x89PNG") for content in draw(of(*records), "png").values())
    assert draw_across([(EVIL, [(EVIL, 1.0, 0.9, 1.1, "inconclusive"), ("b", 1.5, 1.4, 1.6, "faster")])], "svg")


@pytest.mark.parametrize("effect", [math.log(1000), -math.log(1000), 50.0, 0.0, 1e-9])
def test_a_speedup_of_any_size_is_drawn_within_its_axis(effect: float) -> None:
    exact = measured(info(), {"optimized": effect}, spread=0.0, memory=both(400, 500))
    small = measured(info("Other"), {"optimized": 0.05})
    found = draw(of(exact, small), "svg")
    root = ElementTree.fromstring(found["speedups"])
    (frame,) = list(root.iter(f"{SVG}rect"))
    left, width = float(frame.get("x", "")), float(frame.get("width", ""))
    points = re.findall(r"M([-\d.]+) [-\d.]+h\.01", found["speedups"].decode())
    assert len(points) == sum(row.judgement.launches for row in of(exact, small))
    assert all(left <= float(point) <= left + width for point in points)
    ticks = [word for word in texts(found["speedups"]) if re.fullmatch(r"[\d.,e+-]+x", word)]
    assert 2 <= len(set(ticks)) <= 13
    ends = sorted(float(word.get("x", "")) for word, _ in styled(found["speedups"], "text") if word.text in ticks)
    assert all(after == before or after - before > 15 for before, after in pairwise(ends))


def test_launches_that_lie_far_apart_do_not_widen_the_axis_beyond_use() -> None:
    """The interval of four wild launches reaches further than anyone needs to see."""
    wild = [launch({"optimized": effect}, seed) for seed, effect in enumerate((3.0, -3.0, 2.0, -2.5))]
    record = replace(measured(info(), {"optimized": 0.0}), launches=tuple(wild))
    (row,) = of(record)
    assert row.judgement.high is not None
    assert row.judgement.high > 1e4
    words = texts(draw([row], "svg")["speedups"])
    assert not {"10,000x", "1,000x"} & set(words)
    assert "10x" in words


# ---- colours ----


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """Of two sRGB colours, as WCAG 2 defines it: 1 to 21."""

    def luminance(color: Sequence[int]) -> float:
        shares = [part / 255 for part in color]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1])
def test_colours_are_seen_on_paper_and_band(mode: int) -> None:
    shown = {name: ImageColor.getrgb(colors[mode]) for name, colors in PALETTE.items()}
    for name in shown.keys() - {"paper", "grid", "band"}:
        assert contrast(shown[name], shown["paper"]) >= 4.5, name
        assert contrast(shown[name], shown["band"]) >= 3, name


def test_verdicts_differ_in_shape_or_filling_not_in_colour_alone() -> None:
    from tipbench.report.figures.style import MARKS

    assert set(MARKS) == {"faster", "slower", "no difference", "at most 3 %", "inconclusive"}
    assert len({(mark.shape, mark.filled) for mark in MARKS.values()}) == len(MARKS)
    alike = [name for name, mark in MARKS.items() if mark.color == MARKS["no difference"].color]
    assert alike == ["no difference", "at most 3 %"], "both say that a tip brings next to nothing"
    assert len({mark.color for mark in MARKS.values()}) == len(MARKS) - 1
    assert len({light for light, _ in PALETTE.values()}) == len(PALETTE)
