"""The pages of a run: what a stranger reads, as Markdown and as HTML."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests import browser as chromium
from tests.browser import Window
from tests.made_up import HOSTILE, both, count, hostile, info, measured, on_a_gpu, realistic, run, tip
from tests.test_html import check_by_axe
from tipbench.machine.controls import HEAP, HEAP_BEFORE
from tipbench.records.record import Record, Run
from tipbench.records.store import Notice, read
from tipbench.report import render, write
from tipbench.report.results import results
from tipbench.tip import wording as words
from tipbench.tip.pair import Claim

browser, window = chromium.browser, chromium.window

HOME = Path(__file__).parent.parent
RESULTS, REPORTS = HOME / "results/reference", HOME / "reports"
MACRO: dict[str, Any] = {"scale": "macro"}
UNSEEN = {"unseen": "no CUPTI"}


@pytest.fixture(scope="module")
def made() -> Run:
    return realistic()


@pytest.fixture(scope="module")
def newest() -> tuple[Run, list[Notice]]:
    """The last complete run that is committed, with rows in its first table."""
    return read(max(RESULTS.glob("amd-*/[0-9]*.jsonl"), key=lambda file: file.name))


def markdown(shown: Run, *notices: Notice) -> str:
    """All pages in one text, as they are printed."""
    return render(shown, notices, "md").decode()


# ---- the first page ----


def row_of(*records: Record) -> list[str]:
    """The cells of the one row of the table."""
    (row,) = re.findall(r"^\| \*\*(?:sure|likely|depends|costs)\*\* \|.*", markdown(run(records)), re.MULTILINE)
    return [cell.strip() for cell in row.strip("|").split(" |")]


def training(pair: str, effect: float, **more: Any) -> Record:
    about = info(pair, scale="macro", task="training", tip=more.pop("of", tip()))
    return measured(about, {"optimized": effect}, **more)


def test_a_row_has_what_a_change_brings_in_each_kind_of_work_and_in_memory() -> None:
    inference = measured(info("Three", scale="macro", task="inference"), {"optimized": 0.1})
    jobs = [training("One", 0.3, memory=both(720, 1000)), training("Two", 0.7), inference]
    assert row_of(*jobs) == ["**sure**", "Do so.", "**1.3x to 2.0x**", "**1.11x** (1.08-1.13)", "-10.0 %", ""]
    assert row_of(training("One", -0.3))[1:3] == ["not: Do so.", "costs: 0.74x"]
    assert row_of(training("One", 0.3), training("Two", -0.3))[0] == "**depends**"
    lean = tip(claim=Claim.LEANER, when="memory is short, and nothing else")
    saved = row_of(training("One", -0.3, of=lean, memory=both(500, 1000)))
    assert saved[1:] == ["Do so.", "takes 1.3x as long", "**-38 %**", "memory is short, and nothing else"]


def test_how_to_make_a_change_has_its_code_its_condition_and_its_price() -> None:
    about = tip(do="model.compile()", when="it runs for hours: long enough", against="eager mode")
    page = markdown(run([training("GPTTraining", 0.3, of=about, memory=both(880, 1000))]))
    how = page.partition("## How\n")[2].partition("\n## ")[0]
    for part in (
        "### Do so.\n",
        "\n+model.compile()\n",
        "- Only if it runs for hours: long enough.",
        "- GPT training 1.35x [",
        "- Against: eager mode; price: +10 % memory.",
    ):
        assert part in how


def test_questions_are_answered_with_their_number_or_the_command_that_would_tell() -> None:
    page = markdown(run([training("GPTTraining", 0.3, of=tip("compile-modes"))]))
    assert re.search(r"- Is compiling worth it\? 1\.35x \[[^]]*\] in GPT training\n", page)
    assert "- `tipbench run async-loading batch-size request-batches amp half-precision " in page
    assert re.search(r" would tell:\n  - How many workers\?.*\n  - Which batch size\?\n  - bfloat16\? \(float16", page)
    altered = "a: 2.0 % in GPT training; others, recipes aside: less in these jobs"
    for of_baseline, answer in ((0.001, [altered]), (0.019, [])):
        equal = {"optimized": {"method": "lossy", "error": 0.02, "baseline_error": of_baseline}}
        page = markdown(run([training("GPTTraining", 0.3, of=tip("a"), equal=equal)]))
        assert (
            re.findall(r"Which changes alter outputs by more than 0\.1 % of the largest output\? (.*)", page) == answer
        )


def test_values_of_one_setting_are_one_line_and_one_block_of_code() -> None:
    about = tip("async-loading", do="loader = DataLoader(data, num_workers={n})")
    values = {"n=1": 0.1, "n=2": 0.3, "n=8": 0.33}
    job = info("FromFiles", [*values], scale="macro", worded="n=2", task="training", tip=about)
    page = markdown(run([measured(job, values)]))
    assert re.search(
        r"if they decode\)\n  - n=2: 1\.35x \[[^]]*\] in From files \(1: 1\.11x; more with 8: 1\.39x\)\n", page
    )
    assert "- From files with other values: 1: 1.11x; more with 8: 1.39x.\n" in page
    assert page.count("num_workers=") == 2  # on the first page, and on the tip's own


def test_a_page_has_no_markup_of_html_and_no_long_number(made: Run) -> None:
    assert not re.search(r"<[a-z/]", markdown(made))
    assert set(re.findall(r"\d+\.\d{4,}", markdown(made))) == {"0.0001"}, "a tolerance; no float has many digits"


def test_controls_that_call_identical_code_different_warn() -> None:
    wrong = measured(info("Pointwise", tip=tip("control")), {"optimized": 0.3})
    shown = markdown(run([wrong, measured(info(tip=tip("control")), {"optimized": 0.0})]))
    assert re.search(r"\*\*Distrust small effects: .* called different\*\*, Pointwise faster, 1\.3\d+x ", shown)
    assert "the noise floor of this run is unknown" in markdown(run())


def test_identical_code_that_was_timed_too_seldom_vouches_for_nothing() -> None:
    few = [measured(info(pair, tip=tip("control")), {"optimized": 0.0}, launches=1) for pair in ("One", "Two")]
    shown = markdown(run([*few, measured(info("Three", tip=tip("control")), {"optimized": 0.0})]))
    assert "in 3 controls, was never called faster or slower: 1 found equal within 3 %, 2 undecided." in shown


def test_the_noise_floor_is_how_far_from_equal_the_intervals_of_identical_code_reach() -> None:
    spreads = (("Narrow", 0.001), ("Middle", 0.004), ("Wide", 0.03))
    controls = [measured(info(pair, tip=tip("control")), {"optimized": 0.0}, spread) for pair, spread in spreads]
    shown = run(controls)
    reach = {row.pair: max(row.high or 0, 1 / (row.low or 1)) - 1 for row in results(shown)}
    middle = words.percent(reach["Middle"])
    assert f"typically detects effects of {middle} or more in operations alone." in markdown(shown)


def test_whole_jobs_have_a_noise_floor_of_their_own_and_what_was_planted_is_no_error() -> None:
    job: dict[str, Any] = {"tip": tip("control"), "scale": "macro"}
    same = measured(info("Job", **job, truth={"optimized": 1.0}), {"optimized": 0.0}, 0.01)
    more = measured(info("More", **job, truth={"optimized": 1.03}), {"optimized": math.log(1.03)})
    shown = run([same, more])
    reach = next(max(row.high or 0, 1 / (row.low or 1)) - 1 for row in results(shown) if row.pair == "Job")
    first = markdown(shown)
    assert "timed against itself in 1 control, was never called faster or slower" in first
    assert f"This run typically detects effects of {words.percent(reach)} or more in whole jobs, less in" in first
    assert "Of a whole job that was made 3.0 % faster on purpose it says: faster, 1.030x [" in first


def test_the_limits_name_what_every_row_was_measured_with(made: Run) -> None:
    for heap in (HEAP, HEAP_BEFORE):
        shown = markdown(replace(made, controls=heap, machine={**made.machine, "libc": "glibc 2.36"}))
        assert f"both sides: `{' '.join(f'{name}={setting}' for name, setting in heap.items())}`" in shown
        assert "In most rows glibc kept what was freed, on both sides" in shown
    refused = replace(made, controls=HEAP_BEFORE, machine={**made.machine, "libc": "glibc 2.34"})
    assert "did not keep the memory of large temporaries" in markdown(refused)


def test_bare_runs_say_so_and_repeat_so() -> None:
    options = {"bare": True}
    shown = markdown(run([measured(info(), {"optimized": 0.3})], options=options, controls={}))
    assert "Measured with `--bare`" in shown
    assert "the run was made with `--bare`" in shown, "in place of the table of controls"
    assert "thresholds" not in shown
    assert "`tipbench run made-up.Pair --bare`" in shown


def test_notices_are_shown_by_file_and_line(made: Run) -> None:
    shown = markdown(made, Notice(Path("/home/someone/2026.jsonl"), 12, "truncated: | <b>lost</b>"))
    assert "- Could not be used: 2026.jsonl, line 12: truncated: \\| &lt;b>lost&lt;/b>" in shown
    assert "/home/someone" not in shown


# ---- the evidence of a tip ----


@pytest.mark.parametrize(
    ("claim", "variants", "more", "message"),
    [
        (Claim.FASTER, (0.0, -0.5), {}, r"promises: Pair\. Why, we think: It is cold\."),
        (Claim.FASTER, (-0.5, 0.5), {}, ""),  # one way keeps the promise
        (Claim.FASTER, (-0.5,), {"launches": 1}, ""),  # which says nothing yet
        (Claim.LEANER, (0.5,), {"memory": both(800, 500)}, r"promises: Pair\."),
        (Claim.LEANER, (-0.5,), {"memory": both(500, 500)}, ""),
        (Claim.SOONER, (-0.5,), {}, ""),  # what no step can show is not held against a step
        (Claim.STEADIER, (-0.5,), {}, ""),
        (Claim.FEWER_STEPS, (-0.5,), {}, ""),
        (Claim.SOONER_AT_TARGET, (-0.5,), {}, ""),
    ],
)
def test_a_promise_that_is_not_kept_is_reported_once_with_the_reason(
    claim: Claim, variants: tuple[float, ...], more: Any, message: str
) -> None:
    effects = dict(zip(("optimized", "other"), variants, strict=False))
    about = info(variants=list(effects), tip=tip(claim=claim, why_not="It is cold."))
    shown = markdown(run([measured(about, effects, **more)]))
    assert ("Not as the guide promises: " in shown) == bool(message)
    assert re.search(message, shown)


@pytest.mark.parametrize(("whole_job", "is_explained"), [(0.5, False), (0.0, True), (-0.5, True)])
def test_no_gain_is_explained_only_where_the_answer_advises_nothing(whole_job: float, is_explained: bool) -> None:
    about = tip(why_not="It is cold.")
    alone, whole = info("Alone", tip=about), info("Whole", tip=about, scale="macro")
    shown = markdown(run([measured(alone, {"optimized": -0.5}), measured(whole, {"optimized": whole_job})]))
    assert "Not as the guide promises: Alone" in shown
    assert ("It is cold." in shown) == is_explained


def test_every_fact_of_a_tip_is_on_its_page(made: Run) -> None:
    section = markdown(made).split("\n# Use the channels_last")[1].split("\n# ")[0]
    assert "| Convolution | micro, cpu | optimized | **faster** | 1.52x [" in section
    assert "| 2.00 ms -> 1.31 ms | +110 ms, pays after 161 steps | 6 |" in section
    assert "| Convolution | optimized | live tensors, build included | 800 MiB | 800 MiB | same |" in section
    assert "| Convolution | optimized | resident | 1,000 MiB | 1,004 MiB |" in section
    for fact in ("26-76 % on Xeon 8380", "pytorch#82699", "2.38e-07", "62 -> 0", "run channels-last.Convolution`"):
        assert fact in section
    for fact in ("Status: default now", "512 MiB -> 64.0 MiB", "run \\`make native\\`", "no answer within 300 s"):
        assert fact in markdown(made)


def test_all_results_are_in_one_table(made: Run) -> None:
    table = markdown(made).split("## All results\n\n")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) == sum(row.tip != "control" for row in results(made))
    assert "| channels-last | Convolution | micro, cpu | optimized | **faster** | 1.52x [" in table[0]
    assert table[0].endswith("| same | +110 ms, pays after 161 steps |")


ORDINARY = measured(info(), {"optimized": 0.3})


def disturbed() -> Record:
    first = replace(ORDINARY.launches[0], throttled_us=(9,) + (0,) * 15)
    return replace(ORDINARY, launches=(first, *ORDINARY.launches[1:]))


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        ([measured(info(truth={"optimized": 1.03}), {"optimized": 0.03})], ["| truth |", "| **faster** | 1.03x | 1.0"]),
        ([disturbed()], ["| 6 (1 disturbed round left out) |"]),
        (
            [measured(info(), {"optimized": 0.3}, mechanism=count("kernels", UNSEEN, optimized=UNSEEN))],
            ["kernels: not seen, as no CUPTI"],
        ),
        (
            [on_a_gpu()],
            [
                *("- GPU", "1980 -> 1755 MHz", "40 -> 40 C", "memory clock unavailable"),
                "power unavailable",
            ],
        ),
    ],
)
def test_what_only_some_pairs_have_is_on_their_pages(records: list[Record], shown: list[str]) -> None:
    without = markdown(run([ORDINARY]))
    for text in shown:
        assert text in markdown(run(records))
        assert text not in without


def test_code_is_named_by_its_file_and_paths_of_the_measuring_machine_stay_there() -> None:
    text = markdown(run([measured(info(file="/home/someone/secret/mine.py"), {"optimized": 0.3})]))
    assert "Code: `mine.py`." in text
    assert "/home" not in text


# ---- hostile text ----


def test_hostile_text_stays_text_in_markdown_and_html() -> None:
    shown = markdown(hostile(), Notice(Path("a"), 1, HOSTILE))
    assert "alert(1)" in shown
    outside_code = re.sub(r"`[^`\n]*`", "", shown.replace("\\`", ""))
    assert "<script" not in outside_code
    assert "](http" not in outside_code.replace("\\](", "")
    assert "**b**" not in outside_code
    assert not re.search(r"^# head", shown, re.MULTILINE)
    assert not re.search("[\x1b\r\u202e]", shown)
    for table in re.findall(r"(?:^\|.*\|\n)+", shown, re.MULTILINE):
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    html = render(hostile(), [Notice(Path("a"), 1, HOSTILE)], "html").decode()
    assert html.count("<script") == 1
    assert not re.search(r'<img|href="http://evil', html)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", html)


def test_every_tip_has_a_page_of_its_own_whatever_it_is_called(tmp_path: Path) -> None:
    tips = ("x/../y", "tip-1", "the-evidence", "the-run", "content", "", "Ä")
    shown = run([measured(info(tip=tip(id)), {"optimized": 0.3}) for id in tips])
    path = write(shown, [], "md", tmp_path)
    assert path is not None
    pages = [page for page in path.with_suffix("").iterdir() if page.suffix == ".md"]
    assert len(pages) == len(tips) + 1
    assert {page.name for page in pages} >= {"tip-1.md", "the-run.md"}
    assert {file.parent for file in tmp_path.rglob("*.*")} == {path.parent, path.with_suffix("")}
    ids = re.findall(r'\sid="([^"]+)"', render(shown, [], "html").decode())
    assert len(ids) == len(set(ids))


def test_a_command_to_repeat_runs_nothing_but_tipbench() -> None:
    name = "made-up.x; touch ran"
    page = markdown(run([measured(info("x; touch ran"), {"optimized": 0.3})]))
    (command,) = re.findall(r"Repeat: `([^`]+)`", page)
    assert shlex.split(command) == ["tipbench", "run", name]


# ---- files ----


def test_markdown_in_files_is_a_short_page_and_all_evidence_one_link_away(made: Run, tmp_path: Path) -> None:
    path = write(made, [], "md", tmp_path)
    assert path is not None
    below = sorted((path.parent / path.stem).glob("*.md"))
    assert {page.stem for page in below} == {row.tip for row in results(made)} - {"control"} | {"the-run"}
    linked: set[Path] = set()
    for page in (path, *below):
        targets = re.findall(r"(?<!!)\[[^]]*\]\(([^)#]+)\)", page.read_text())
        assert all((page.parent / target).is_file() for target in targets), page
        linked |= {(page.parent / target).resolve() for target in targets if page == path}
        assert page == path or f"../{path.name}" in targets
    assert linked == {page.resolve() for page in below}
    figures = [
        (page.parent / file).resolve()
        for page in (path, *below)
        for file in re.findall(r"^!\[.+\]\((.+)\)$", page.read_text(), re.MULTILINE)
    ]
    written = sorted(file.resolve() for file in path.parent.rglob("*.svg"))
    assert sorted(figures) == written
    assert f"({path.stem}/jobs.svg)" in path.read_text()
    assert sorted(path.parent.rglob("*.png")) == [file.with_suffix(".png") for file in written]


@pytest.mark.parametrize("page", sorted(REPORTS.glob("*/2*.md")), ids=lambda page: page.stem)
def test_a_committed_page_is_short_and_so_are_its_lines(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert len(lines) <= 250
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    code = {number for begin, end in zip(fences[::2], fences[1::2], strict=True) for number in range(begin, end)}
    prose = [re.sub(r"\]\([^)]*\)", "]", line) for number, line in enumerate(lines) if number not in code]
    assert [line for line in prose if len(line) > 160] == []


@pytest.mark.slow
def test_a_whole_run_in_a_browser(newest: tuple[Run, list[Notice]], window: Window, tmp_path: Path) -> None:
    path = write(*newest, "html", tmp_path)
    assert path is not None
    opened = window(color_scheme="dark", permissions=["clipboard-read", "clipboard-write"]).new_page()
    opened.goto(path.as_uri())
    link = opened.locator("main table a").first
    target = opened.locator(f'[id="{(link.get_attribute("href") or "")[1:]}"]')
    expect(target).to_be_hidden()
    link.click()
    expect(target).to_be_in_viewport()
    check_by_axe(opened)
    code = opened.locator("main > pre").first
    code.locator("xpath=preceding-sibling::button[1]").click()
    after = [line[1:] for line in code.inner_text().splitlines() if not line.startswith("-")]
    assert opened.evaluate("navigator.clipboard.readText()").splitlines() == after, "of a diff, what it leads to"
    phone = window(viewport={"width": 375, "height": 740}, is_mobile=True, has_touch=True).new_page()
    phone.goto(path.as_uri())
    phone.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    assert phone.evaluate("document.documentElement.scrollWidth") == 375
    sheet = window(viewport={"width": 702, "height": 1000}).new_page()  # A4 between its margins
    sheet.goto(path.as_uri())
    sheet.emulate_media(media="print")
    is_cut = "all => all.filter(part => part.checkVisibility() && part.scrollWidth > part.clientWidth).length"
    assert sheet.locator(".table, .drawing").evaluate_all(is_cut) == 0
