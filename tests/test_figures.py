"""Figures: what is drawn of made-up runs and of a real one, whoever's matplotlib settings, names and numbers."""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageColor

from tests.made_up import MACHINE, NO_GPU, both, info, launch, measured, realistic, run, tip
from tipbench.compare.comparison import Comparison
from tipbench.compare.page import across
from tipbench.compare.stored import Stored
from tipbench.records.record import Launch, Record, VariantRecord
from tipbench.records.store import read
from tipbench.report.effect import effects as found_in
from tipbench.report.figures import PALETTE, Effect, Format, alts, alts_across, draw, draw_across, sweep_name
from tipbench.report.rows import CONTROL, Row, rows
from tipbench.report.wording import plural
from tipbench.tip.pair import Claim

ROOT = Path(__file__).parent.parent
REAL = ROOT / "results" / "amd-epyc-zen4-2c-24g" / "2026-11-21-0e1f8a67.jsonl"
SVG = "{http://www.w3.org/2000/svg}"

EVIL = (
    '$x^2$ \\frac{1}{2} <script>alert(1)</script> & "q" \'x\' style="fill:#0072b2" ]]>&amp; \u202e\ufffe\x07 日本 😀'
    + 300 * "W"
)


SECONDS = {
    "images": {"loading": 1.0, "forward": 3.0, "backward": 4.0, "optimizer": 2.0},
    "language": {"forward": 0.33, "backward": 0.6, "optimizer": 0.07},
}


def with_cards() -> list[Record]:
    """A pair a job, whose first launch has the job's card."""
    found = []
    for job, card in SECONDS.items():
        made = measured(info(job, job=job, scale="macro"), {"optimized": 0.1})
        found.append(replace(made, launches=(replace(made.launches[0], card=card), *made.launches[1:])))
    return found


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
    shown = rows(realistic())
    assert list(draw(shown, "svg")) == list(alts(shown)) == ["jobs", "memory", "one-off", "operations"]
    with_time = of(*realistic().records, *with_cards())
    assert list(alts(with_time)) == ["jobs", "memory", "one-off", "job-time", "operations"]


def test_a_run_that_measured_nothing_has_no_figures_and_one_comparison_is_enough() -> None:
    skipped, one = Record(info(), "skipped", NO_GPU), measured(info(scale="macro"), {"optimized": 0.1})
    assert draw(of(skipped), "svg") == draw([], "png") == {}
    assert alts(of(skipped)) == {}
    assert list(draw(of(one), "svg")) == ["jobs"]


def test_controls_are_shown_but_not_counted() -> None:
    control = measured(info("Step", tip=tip(CONTROL), scale="macro"), {"optimized": 0.0}, memory=both(800, 500))
    found = draw(of(control), "svg")
    assert list(found) == ["operations"]
    assert "Step" in texts(found["operations"])
    assert "0 operations; 1 control " in alts(of(control))["operations"]


def test_what_has_no_estimate_has_no_line() -> None:
    def robbed(one: Launch) -> Launch:
        return replace(one, throttled_us=(1,) * len(one.throttled_us))

    fine, none = measured(info("Fine"), {"optimized": 0.2}), measured(info("Nothing"), {"optimized": 0.2})
    none = replace(none, launches=tuple(map(robbed, none.launches)))
    (svg,) = draw(of(fine, none), "svg").values()
    assert "Fine" in texts(svg)
    assert "Nothing" not in texts(svg)


# ---- whole jobs, and operations alone ----


def test_every_pair_of_the_real_run_has_one_line_with_its_number_and_launches(
    real: list[Row], drawn: dict[str, bytes]
) -> None:
    for name, whole in (("jobs", True), ("operations", False)):
        pairs = {
            (row.tip, row.info.pair)
            for row in real
            if row.judgement.speedup is not None and (row.info.scale == "macro" and row.tip != CONTROL) == whole
        }
        words = texts(drawn[name])
        assert len(pairs) > 30
        assert sum("launch" in word for word in words) == len(pairs)
        listed = [row for row in real if (row.tip, row.info.pair) in pairs and row.variant == "optimized"]
        for row in listed:
            assert f"{row.judgement.speedup:.2f}x" in words, row.info.pair


def test_jobs_are_sorted_by_gain_and_the_undecided_are_paler() -> None:
    gains = {"Slow": -0.2, "Best": 0.5, "Even": 0.0, "Fine": 0.1}
    records = [measured(info(name, scale="macro"), {"optimized": gain}) for name, gain in gains.items()]
    records.append(measured(info("Open", scale="macro"), {"optimized": 0.05}, spread=0.2, launches=18))
    svg = draw(of(*records), "svg")["jobs"]
    assert [word for word in texts(svg) if word in {*gains, "Open"}] == ["Best", "Fine", "Open", "Even", "Slow"]
    numbers = {
        element.text: held for element, held in styled(svg, "text") if re.fullmatch(r"\d\.\d\dx", element.text or "")
    }
    assert "fill:var(--faster," in numbers["1.65x"]
    assert "fill:var(--slower," in numbers["0.82x"]
    assert "fill:var(--muted," in numbers["1.05x"]


def test_a_page_holds_what_is_decided_first_and_fits_on_a4(drawn: dict[str, bytes]) -> None:
    decided = [measured(info(f"Job{n}", scale="macro"), {"optimized": 0.1}) for n in range(38)]
    unsure = [measured(info(f"Open{n}", scale="macro"), {"optimized": 0.0}, spread=0.2) for n in range(5)]
    found = draw(of(*unsure, *decided), "svg")
    assert list(found) == ["jobs", "jobs-2"]
    assert [sum(name.startswith("Job") for name in texts(svg)) for svg in found.values()] == [38, 0]
    assert sum("Open" in name for svg in found.values() for name in texts(svg)) == 5
    for name, svg in (drawn | found).items():
        width, height = map(float, (ElementTree.fromstring(svg).get("viewBox") or "").split()[2:])
        assert width <= 190 / 25.4 * 72, name
        assert height <= 277 / 25.4 * 72, name


def test_a_pair_speaks_through_the_way_that_the_guide_words() -> None:
    ways = {"optimized": 0.1, "n=2": 0.2, "n=4": 0.3}
    named = measured(info("Named", list(ways), scale="macro", worded="n=2"), ways)
    usual = measured(info("Usual", list(ways), scale="macro"), ways)
    swept = measured(info("Swept", ["n=2", "n=4"], scale="macro"), {"n=2": 0.2, "n=4": 0.3})
    words = texts(draw(of(named, usual, swept), "svg")["jobs"])
    assert [word for word in words if re.match("Named|Usual|Swept", word)] == ["Swept, n=4", "Named, n=2", "Usual"]


def test_a_job_whose_tip_promises_something_else_says_so() -> None:
    lean = measured(info("Lean", tip=tip(claim=Claim.LEANER), scale="macro"), {"optimized": -0.1})
    fast = measured(info("Fast", scale="macro"), {"optimized": 0.1})
    assert texts(draw(of(lean, fast), "svg")["jobs"]).count("promises less memory") == 1


def test_the_device_is_named_where_there_are_two() -> None:
    here, there = measured(info(), {"optimized": 0.1}), measured(info(device="cuda"), {"optimized": 0.2})
    assert "Pair" in texts(draw(of(here), "svg")["operations"])
    assert {"Pair on cpu", "Pair on cuda"} <= set(texts(draw(of(here, there), "svg")["operations"]))


# ---- sweeps ----


def swept(*values: float, pair: str = "Pair", setting: str = "n") -> Record:
    effects = {f"{setting}={value:g}": 0.1 for value in values}
    return measured(info(pair, list(effects)), effects, launches=4)


def curves(svg: bytes) -> list[int]:
    """Points of each line that joins estimates."""
    lines = [
        path.get("d", "")
        for path, held in styled(svg, "path")
        if "stroke-width:0.8" in held and "clip-path" in path.attrib
    ]
    return [len(re.findall("[ML]", line)) for line in lines]


def test_a_sweep_is_a_curve_over_its_values_with_a_dot_a_launch() -> None:
    values = {"n=16": 0.3, "n=2": 0.1, "n=4.5": -0.2, "n=8": 0.0, "optimized": 0.5, "n=x": 0.4}
    shown = of(measured(info(variants=list(values)), values, launches=4))
    svg = draw(shown, "svg")["sweep-made-up-Pair"]
    assert dots(svg) == 16
    assert [word for word in texts(svg) if word in ("2", "4.5", "8", "16")] == ["2", "4.5", "8", "16"]
    points = re.findall(r"(\S+)x with (\S+) \((\w+)\)", alts(shown)["sweep-made-up-Pair"])
    assert points == [("1.11", "2", "inconclusive"), ("0.819", "4.5", "slower"), ("1", "8", "inconclusive"),
                      ("1.35", "16", "faster")]  # fmt: skip


def test_three_values_are_no_curve_and_two_sweeps_never_share_a_name() -> None:
    assert not [name for name in alts(of(swept(1, 2, 3))) if name.startswith("sweep")]
    both_settings = {f"{setting}={n}": 0.1 * n for setting in "ab" for n in range(1, 5)}
    many = [
        measured(info(pair, list(both_settings)), both_settings, launches=4)
        for pair in ("Pair", "PAIR", "Pa ir", "Pa/ir")
    ]
    names = [name for name in alts(of(*many)) if name.startswith("sweep")]
    assert len({name.lower() for name in names}) == len(names) == 8
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)
    assert {sweep_name("made-up", pair) for pair in ("Pair", "Pa ir", "Pa/ir")} <= set(names)


def test_no_line_leads_over_a_value_that_was_not_measured() -> None:
    whole = swept(1, 2, 3, 4, 5)
    lost = replace(whole, variants={**whole.variants, "n=3": VariantRecord("skipped", NO_GPU)})
    few = replace(lost, variants={**lost.variants, "n=5": VariantRecord("skipped", NO_GPU)})
    assert curves(draw(of(whole), "svg")["sweep-made-up-Pair"]) == [5]
    assert curves(draw(of(lost), "svg")["sweep-made-up-Pair"]) == [2, 2]
    assert "sweep-made-up-Pair" not in draw(of(few), "svg"), "three were measured"


# ---- memory, and what is paid once ----


def test_memory_shows_what_promises_less_or_changes_the_leanest_first() -> None:
    leaner = tip("lean", Claim.LEANER)
    records = [
        measured(info("Same", scale="macro"), {"optimized": 0.2}, memory=both(790, 1000)),
        measured(info("Fat", scale="macro"), {"optimized": 0.2}, memory=both(2000, 1600)),
        measured(info("Promised", scale="macro", tip=leaner), {"optimized": 0.2}, memory=both(780, 1000)),
        measured(info("Lean", scale="macro"), {"optimized": 0.2}, memory=both(200, 1000)),
        measured(info("Alone"), {"optimized": 0.2}, memory=both(100, 1000)),
    ]
    words = texts(draw(of(*records), "svg")["memory"])
    shown = [word for word in words if word in ("Same", "Fat", "Promised", "Lean", "Alone")]
    assert shown == ["Lean", "Promised", "Fat"]
    assert {"800 MiB → 200 MiB", "-75 %", "800 MiB → 780 MiB", "-2.5 %", "+150 %"} <= set(words)
    assert alts(of(*records))["memory"] == (
        "Peak memory of 3 whole jobs before and after: 1 less, 1 more, 1 about the same; the leanest is made-up Lean "
        "with 800 MiB -> 200 MiB (-75 %); the least lean is made-up Fat with 800 MiB -> 1.95 GiB (+150 %)."
    )


def test_bars_of_memory_are_as_long_as_their_shares() -> None:
    halved, most = (
        measured(info(pair, scale="macro"), {"optimized": 0.2}, memory=both(to, 1000))
        for pair, to in (("Halved", 400), ("Most", 80_000))
    )
    svg = draw(of(halved, most), "svg")["memory"]

    def lengths(color: str) -> list[float]:
        bars = [
            path.get("d", "")
            for path, held in styled(svg, "path")
            if f"fill:var(--{color}," in held and "clip-path" in path.attrib
        ]
        xs = [[float(x) for x in re.findall(r"[ML]([-\d.]+) ", bar)] for bar in bars]
        return [max(each) - min(each) for each in xs]

    before = lengths("band")
    assert before == [before[0]] * 2
    assert lengths("faster") == pytest.approx([before[0] / 2], abs=0.2)
    assert lengths("slower") == pytest.approx([before[0] * 2], abs=0.2), "cut where the axis ends"


def test_what_is_paid_once_says_when_it_is_earned_back() -> None:
    def one(pair: str, effect: float, once: float, **more: Any) -> Record:
        sides = {"baseline": {"build": 0.1}, "optimized": {"build": 0.1 + once}}
        return measured(info(pair, scale="macro", **more), {"optimized": effect}, one_off=sides, steps=1)

    records = [
        one("Loses", -0.2, 5.0), one("Pays", math.log(2), 5.0), one("Free", 0.3, 0.2), one("Quick", math.log(2), 2.0),
    ]  # fmt: skip
    words = texts(draw(of(*records), "svg")["one-off"])
    assert [word for word in words if word in ("Loses", "Pays", "Free", "Quick")] == ["Quick", "Pays", "Loses"]
    # A step of 20 ms becomes one of 10 ms.
    assert {"200 steps or 2.00 s", "500 steps or 5.00 s", "not earned back: slower", "+5.00 s"} <= set(words)
    assert "made-up Pays 5.00 s, earned back after 500 steps" in alts(of(*records))["one-off"]
    assert "one-off" not in draw(of(*records[2:3]), "svg")


def test_what_takes_ages_to_earn_back_has_an_axis_that_can_be_read() -> None:
    sides = {"baseline": {"build": 0.1}, "optimized": {"build": 1e9}}
    slow = measured(info(scale="macro"), {"optimized": 0.1}, one_off=sides, baseline_s=1e-6)
    words = texts(draw(of(slow), "svg")["one-off"])
    assert {"1", "1e18"} <= set(words)
    assert sum(bool(re.fullmatch(r"1[\d,]*|1e\d+", word)) for word in words) < 20


def test_a_tenth_more_than_the_baseline_itself_needs_once_is_no_cost() -> None:
    sides = {"baseline": {"build": 40.0}, "optimized": {"build": 43.0}}
    near = measured(info(scale="macro"), {"optimized": 0.3}, one_off=sides)
    assert list(draw(of(near), "svg")) == ["jobs"]


def test_a_jobs_time_is_a_bar_of_its_parts() -> None:
    shown = of(*with_cards())
    svg = draw(shown, "svg")["job-time"]
    assert {"10 / 30 / 40 / 20", "0 / 33 / 60 / 7"} <= set(texts(svg))
    assert alts(shown)["job-time"] == (
        "Where the time of a step goes. images: loading 10 %, forward 30 %, backward 40 %, optimizer 20 %; "
        "language: loading 0 %, forward 33 %, backward 60 %, optimizer 7 %."
    )


# ---- machines ----


def effects(machines: int, comparisons: int) -> list[tuple[str, list[Effect]]]:
    """The n-th comparison differs the more, the larger n is."""
    return [
        (f"tip-{n} Pair", [(f"machine-{m}", ratio, ratio * 0.98, ratio * 1.02, "faster" if ratio > 1 else "slower")
         for m in range(machines) for ratio in [1.5 ** ((m % 3 - 1) * (n + 1) / comparisons)]])
        for n in range(comparisons)
    ]  # fmt: skip


@pytest.mark.parametrize(("machines", "shown"), [(2, 12), (3, 12), (5, 9), (20, 2), (80, 1)])
def test_across_machines_those_that_differ_most_are_drawn_as_many_as_a_page_holds(machines: int, shown: int) -> None:
    made = effects(machines, 15)
    (svg,) = draw_across(made, "svg").values()
    words = texts(svg)
    assert [word for word in words if word.startswith("tip-")] == [f"tip-{n} Pair" for n in range(14, 14 - shown, -1)]
    assert all(words.count(f"machine-{m}") == shown for m in range(machines))
    (said,) = alts_across(made).values()
    assert f"{plural(shown, 'comparison')} across {machines} machines" in said
    assert "tip-14 Pair differs most" in said


def test_machines_keep_the_order_given_and_overlap_may_be_partial() -> None:
    made = [
        ("a", [("b", 1.2, 1.1, 1.3, "faster"), ("c", 0.8, 0.7, 0.9, "slower")]),
        ("d", [("e", 1.0, 0.99, 1.01, "no difference"), ("b", 1.0, 0.9, 1.1, "inconclusive")]),
        ("f", [("x", 1.0, 0.9, 1.1, "inconclusive")]),
    ]
    words = texts(draw_across(made, "svg", ["e", "b", "x"])["across"])
    assert [word for word in words if word in "abcdefx"] == ["a", "b", "c", "d", "e", "b"]
    assert draw_across(made[2:], "svg") == draw_across([], "png") == {}


def test_a_comparison_draws_whole_jobs_where_two_machines_have_one() -> None:
    operation = measured(info("Operation"), {"optimized": 0.5})
    job, another = (measured(info(name, scale="macro"), {"optimized": 0.1}) for name in ("Job", "Another"))

    def drawn_of(*machines: Sequence[Record]) -> list[str]:
        runs = [run(found, id=f"{n:08}", machine={**MACHINE, "cpu": str(n)}) for n, found in enumerate(machines)]
        stored = (Stored(Path(one.id), one, len(one.records), tuple(found_in(one)), ()) for one in runs)
        return [label for label, found in across(Comparison(tuple(stored))) if len(found) > 1]

    assert drawn_of([operation, job], [operation, job, another]) == ["made-up Job"]
    assert drawn_of([operation, job], [operation, another]) == ["made-up Operation"]


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
    assert sum(map(len, drawn.values())) < 100_000
    for name, content in draw(real, "png").items():
        picture = Image.open(io.BytesIO(content))
        assert content.startswith(b"\x89PNG"), name
        assert len(content) < 300_000, name
        assert picture.size[0] >= 880, name
        shades = {color for _, color in picture.convert("RGB").getcolors(1 << 20) or []}
        assert {ImageColor.getrgb(PALETTE[color][0]) for color in ("paper", "ink", "muted")} <= shades, name


def test_rare_colours_are_kept_in_png() -> None:
    many = measured(info("Many", [f"n={n}" for n in range(40)]), {f"n={n}": 0.3 for n in range(40)}, launches=4)
    one = measured(info("One"), {"optimized": -0.3}, launches=4)
    found = draw(of(many, one), "png")
    for name, colors in {"operations": ("faster", "slower", "grid"), "sweep-made-up-Many": ("faster", "band")}.items():
        picture = Image.open(io.BytesIO(found[name])).convert("RGB")
        shades = {color for _, color in picture.getcolors(1 << 20) or []}
        assert {ImageColor.getrgb(PALETTE[color][0]) for color in colors} <= shades


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
                assert key == "href" or not re.search(r"#(?!sweep|jobs|operations|memory|one-off)\w", value), (
                    key,
                    value,
                )


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
    evil = tip(EVIL, title=EVIL)
    swept = [f"{EVIL}={n}" for n in (1, 2, 4, 8)]
    once = {"baseline": {"build": 0.1}, "optimized": {"build": 5.0}, EVIL: {"build": 9.0}}
    records = (
        measured(
            info(EVIL, ["optimized", EVIL], tip=evil, scale="macro"), {"optimized": 0.1, EVIL: 0.2},
            memory=both(400, 500, **{EVIL: (200, 300)}), one_off=once,
        ),
        measured(info(f"Sweep {EVIL}", swept, tip=evil, device=EVIL), dict.fromkeys(swept, 0.1)),
    )  # fmt: skip
    evil_job = replace(records[0].info, job=EVIL)
    with_card = replace(records[0].launches[0], card={"forward": 1.0})
    records = replace(records[0], info=evil_job, launches=(with_card, *records[0].launches[1:])), records[1]
    found = draw(of(*records), "svg")
    assert len(found) == 6
    for svg in found.values():
        root = ElementTree.fromstring(svg)
        assert {element.tag for element in root.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "style", "g", "path", "use", "defs", "clipPath", "rect", "text")
        }
        foreign = [text for text in texts(svg) if "$x^2$" in text]
        assert foreign
        assert all(len(text) <= 70 for text in foreign)
        assert any("<script>" in text or "\\frac" in text for text in foreign)
    assert all(content.startswith(b"\x89PNG") for content in draw(of(*records), "png").values())
    assert draw_across([(EVIL, [(EVIL, 1.0, 0.9, 1.1, "inconclusive"), ("b", 1.5, 1.4, 1.6, "faster")])], "svg")


@pytest.mark.parametrize(
    ("effect", "shown"),
    [(math.log(1000), "1,000x →"), (-math.log(1000), "← 0.001x"), (50.0, "5.18e+21x →"), (0.0, ""), (1e-9, "")],
)
def test_what_lies_beyond_the_axis_is_named_at_its_edge(effect: float, shown: str) -> None:
    far = measured(info(scale="macro"), {"optimized": effect}, spread=0.0)
    (words,) = map(texts, draw(of(far), "svg").values())
    assert [word for word in words if "→" in word or "←" in word] == [shown] * bool(shown)
    assert {"0.6x", "1x", "2x"} <= set(words)


@pytest.mark.parametrize("effect", [math.log(1000), -math.log(1000), 50.0, 0.0, 1e-9])
def test_a_sweep_of_any_size_is_drawn_within_its_axes(effect: float) -> None:
    effects = {"n=1": effect, "n=2": 0.05, "n=4": 0.05, "n=8": 0.05}
    shown = of(measured(info(variants=list(effects)), effects, spread=0.0))
    svg = draw(shown, "svg")["sweep-made-up-Pair"]
    (frame,) = list(ElementTree.fromstring(svg).iter(f"{SVG}rect"))
    top, height = float(frame.get("y", "")), float(frame.get("height", ""))
    points = re.findall(r"M[-\d.]+ ([-\d.]+)h\.01", svg.decode())
    assert len(points) == sum(row.judgement.launches for row in shown)
    assert all(top <= float(point) <= top + height for point in points)
    ticks = [word for word in texts(svg) if re.fullmatch(r"[\d.,e+-]+x", word)]
    assert 2 <= len(set(ticks)) <= 10
    ends = sorted(float(word.get("y", "")) for word, _ in styled(svg, "text") if word.text in ticks)
    assert all(after - before > 9 for before, after in pairwise(ends))


def test_launches_that_lie_far_apart_do_not_widen_the_axis_beyond_use() -> None:
    """The interval of four wild launches reaches further than anyone needs to see."""
    names = [f"n={n}" for n in range(1, 5)]
    wild = [launch(dict.fromkeys(names, effect), seed) for seed, effect in enumerate((3.0, -3.0, 2.0, -2.5))]
    shown = of(replace(measured(info(variants=names), dict.fromkeys(names, 0.0)), launches=tuple(wild)))
    assert all((row.judgement.high or 0.0) > 1e4 for row in shown)
    words = texts(draw(shown, "svg")["sweep-made-up-Pair"])
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
