"""Reports of made-up runs: the public JSON exactly, and what a stranger reads."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import CLOSE, both, count, info, measured, realistic, run, tip
from tipbench.records.record import Launch, PairInfo, Record, Run, VariantRecord
from tipbench.records.store import Notice
from tipbench.report import FORMATS, ReportError, one_liners, one_run, render, rows, write
from tipbench.report import wording as words
from tipbench.report.code_link import code_places
from tipbench.report.document import Bullets, Link, Paragraph, Quote
from tipbench.report.rows import counts
from tipbench.tip.pair import Claim
from tipbench.tip.reason import Reason

GOLDEN = Path(__file__).parent / "golden" / "schema-1.jsonl"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OURS = "benchmarks/general/grad_none.py"
MACRO: dict[str, Any] = {"scale": "macro"}


@pytest.fixture(scope="module")
def made() -> Run:
    return realistic()


def markdown(shown: Run, *notices: Notice) -> str:
    return render(shown, notices, "md").decode()


def pairs(shown: Run) -> list[dict[str, Any]]:
    found = json.loads(render(shown, [], "json"))["pairs"]
    assert isinstance(found, list)
    return found


# ---- JSON, the public format ----


def test_json_has_exactly_the_documented_names(made: Run) -> None:
    document = json.loads(render(made, [Notice(Path("x.jsonl"), 7, "truncated")], "json"))
    assert list(document) == ["run", "machine", "controls", "pairs", "answers"]
    for answer in document["answers"]:
        assert list(answer) == ["tip", "title", "kind", "answer", "do", "gain", "price", "runs"]
    assert document["run"] == {
        "id": "3f9a1c07",
        "started": "2026-03-01T09:30:00+00:00",
        "suite": "0.1.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "profile": "full",
        "planned": 17,
        "measured": 13,
        "skipped": 1,
        "failed": 1,
        "not_reached": 2,
        "notices": ["line 7: truncated"],
    }
    assert document["machine"] == made.machine
    assert document["controls"] == made.controls
    for pair in document["pairs"]:
        assert list(pair) == [
            "tip", "pair", "scale", "variant", "device", "verdict", "speedup", "low", "high", "launches", "memory",
            "equal", "mechanism", "trainings", "one_off_s", "break_even_steps", "reason", "remedy", "gpu",
            "limit",
        ]  # fmt: skip


def test_json_of_a_measured_pair(made: Run) -> None:
    (found,) = [pair for pair in pairs(made) if (pair["tip"], pair["pair"]) == ("channels-last", "Convolution")]
    assert found["low"] < found["speedup"] < found["high"]
    del found["low"], found["high"]
    assert found == {
        "tip": "channels-last",
        "pair": "Convolution",
        "scale": "micro",
        "variant": "optimized",
        "device": "cpu",
        "verdict": "faster",
        "speedup": pytest.approx(math.exp(0.42)),
        "launches": 4,
        "memory": {
            "baseline": {"tensor_peak": 800 << 20, "resident_peak": 1000 << 20},
            "variant": {"tensor_peak": 800 << 20, "resident_peak": 1004 << 20},
        },
        "equal": CLOSE,
        "mechanism": count("modules whose output is in another layout", 1, optimized=0)["optimized"],
        "trainings": None,
        "one_off_s": pytest.approx(0.11),
        "break_even_steps": math.ceil(0.11 / (0.002 - 0.002 / math.exp(0.42))),
        "reason": "",
        "remedy": "",
        "gpu": None,
        "limit": {},
    }


def test_json_of_what_was_not_measured_has_nulls(made: Run) -> None:
    (found,) = [pair for pair in pairs(made) if pair["verdict"] == "failed"]
    nulls = ["speedup", "low", "high", "equal", "mechanism", "trainings", "one_off_s", "break_even_steps", "gpu"]
    assert [name for name, value in found.items() if value is None] == nulls
    assert (found["launches"], found["memory"], found["limit"]) == (0, {"baseline": {}, "variant": {}}, {})
    assert found["reason"].startswith("hang: ")
    assert found["remedy"] == "fix no_sync.py, line 40"


def test_json_holds_one_object_a_pair_and_variant_in_planned_order(made: Run) -> None:
    listed = pairs(made)
    found = [(pair["tip"], pair["pair"], pair["variant"]) for pair in listed]
    assert len(found) == len(set(found)) == 20
    sweep = [variant for _, pair, variant in found if pair == "PhotoEpoch"]
    assert sweep == ["num_workers=1", "num_workers=2", "num_workers=4"]
    assert pairs(replace(made, records=made.records[::-1])) == listed
    verdicts = {"faster", "slower", "no difference", "inconclusive", "skipped", "failed"}
    assert {pair["verdict"] for pair in listed} == verdicts


def test_json_is_strict_even_where_a_result_was_not_finite() -> None:
    broken = VariantRecord("failed", Reason("not-finite.x", {}, "output holds NaN"), equal={"worst": "nan"})
    record = Record(info(), "failed", broken.why, variants={"optimized": broken})
    assert pairs(run([record]))[0]["equal"] == {"worst": "nan"}


# ---- what is derived ----


@pytest.mark.parametrize(
    ("effect", "baseline_s", "variant_s", "steps"),
    [
        (0.3, 1.0, 3.0, math.ceil(2.0 / (0.002 * (1 - math.exp(-0.3))))),
        (0.3, 1.0, 1.0, 0),
        (0.3, 3.0, 1.0, 0),
        (0.3, 0.5, 0.59, 0),  # under 0.1 s more: noise of a single reading
        (0.3, 2.0, 2.19, 0),  # under a tenth more: likewise
        (0.3, 2.0, 2.21, math.ceil(0.21 / (0.002 * (1 - math.exp(-0.3))))),
        (0.0, 1.0, 3.0, None),
        (-0.3, 3.0, 1.0, None),
    ],
)
def test_break_even(effect: float, baseline_s: float, variant_s: float, steps: int | None) -> None:
    one_off = {"baseline": {"build": baseline_s}, "optimized": {"build": variant_s / 2, "warm_up": variant_s / 2}}
    (row,) = rows(run([measured(info(), {"optimized": effect}, one_off=one_off)]))
    assert row.one_off_s == pytest.approx(variant_s - baseline_s)
    assert row.break_even_steps == steps
    assert row.step_s == pytest.approx(0.002), "a block over its steps"
    del one_off["baseline"]
    (row,) = rows(run([measured(info(), {"optimized": effect}, one_off=one_off)]))
    assert (row.one_off_s, row.break_even_steps) == (None, None)


def test_the_profile_chooses_the_looks() -> None:
    record = measured(info(), {"optimized": 0.022}, spread=0.005)
    assert [row.verdict for row in rows(run([record]))] == ["inconclusive"]
    assert [row.verdict for row in rows(run([record], options={"profile": "quick"}))] == ["faster"]


def test_counts_add_up(made: Run) -> None:
    for shown in (made, run(), replace(made, planned=()), replace(made, records=made.records[:4])):
        found = counts(shown)
        assert found.planned == found.measured + found.skipped + found.failed + found.not_reached
    text = markdown(made)
    assert "17 pairs planned = 13 measured + 1 skipped + 1 failed + 2 not reached (no-grad.Chain, " in text
    comparisons = re.search(r"(\d+) comparisons [^:]*: (.*)\.", text)
    assert comparisons is not None
    assert int(comparisons[1]) == sum(int(part.split()[0]) for part in comparisons[2].split(", "))


# ---- Markdown ----


def test_markdown_puts_what_to_do_before_how_to_read_it_before_the_evidence(made: Run) -> None:
    parts = (
        *("# ", "tips tried: ", "1 more needs a GPU.", "against itself 3 times", "interrupted: 2 pairs", "Limits."),
        *("| answer | tip | what to write | gain | price |", "| **use it** | [", "| **not possible here** | ["),
        *("## The machine", "## How to read this", "## This run", "17 pairs planned", "## The evidence"),
        *("### channels-last", "### cuda-graphs", "### the-run", "(A/A controls)", "How to read a verdict"),
    )
    places = list(map(markdown(made).index, parts))
    assert places == sorted(places)


SPREADS = (("Narrow", 0.001), ("Middle", 0.004), ("Wide", 0.03))
TWO_WAYS = ("optimized", "other")


@pytest.mark.parametrize(
    ("claim", "variants", "more", "said"),
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
def test_where_the_promise_was_not_found_the_report_says_so_once_and_why(
    claim: Claim, variants: tuple[float, ...], more: Any, said: str
) -> None:
    effects = dict(zip(TWO_WAYS, variants, strict=False))
    about = info(variants=list(effects), tip=tip(claim=claim, why_not="It is cold."))
    shown = markdown(run([measured(about, effects, **more)]))
    assert ("Not as the guide promises: " in shown) == bool(said)
    assert re.search(said, shown)


def test_markdown_has_every_fact_of_a_tip(made: Run) -> None:
    section = markdown(made).split("### channels-last\n")[1].split("</details>")[0]
    assert "| Convolution | micro, cpu | optimized | **faster** | 1.52x [" in section
    memory = "live tensors, build included 800 MiB -> 800 MiB (same)<br>resident 1,000 MiB -> 1,004 MiB"
    assert f"| 2.00 ms -> 1.31 ms | {memory}" in section
    assert "| +110 ms | 161 steps | 4 |" in section
    for fact in ("26-76 % on Xeon 8380", "pytorch#82699", "2.38e-07", "62 -> 0", "run channels-last.Convolution`"):
        assert fact in section
    for fact in ("Status: default now", "512 MiB -> 64.0 MiB", "run \\`make native\\`", "no answer within 300 s"):
        assert fact in markdown(made)


def test_markdown_shows_no_float_with_many_digits(made: Run) -> None:
    assert re.findall(r"\d+\.\d{4,}", markdown(made)) == ["0.0001"] * markdown(made).count("0.0001 allowed")


def test_every_table_has_as_many_cells_in_each_line(made: Run) -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", markdown(made), re.MULTILINE)
    assert tables
    for table in tables:
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_controls_that_call_identical_code_different_warn() -> None:
    wrong = measured(info("Pointwise", tip=tip("control")), {"optimized": 0.3})
    shown = markdown(run([wrong, measured(info(tip=tip("control")), {"optimized": 0.0})]))
    assert re.search(r"\*\*Identical code was called different \(Pointwise faster, 1\.35x .*: distrust small", shown)
    assert "the noise floor of this run is unknown" in markdown(run())


def test_identical_code_that_was_timed_too_seldom_vouches_for_nothing() -> None:
    few = [measured(info(pair, tip=tip("control")), {"optimized": 0.0}, launches=2) for pair in ("One", "Two")]
    shown = markdown(run([*few, measured(info("Three", tip=tip("control")), {"optimized": 0.0})]))
    assert "against itself in 3 pairs. Of the 1 with launches enough for a verdict none was called different." in shown


def test_what_all_variants_have_in_common_is_said_once() -> None:
    names = ["n=1", "n=2"]
    counts_of = {name: {"what": "workers", "baseline": 0, "optimized": index} for index, name in enumerate(names, 1)}
    more: dict[str, Any] = {"equal": dict.fromkeys(names, CLOSE), "mechanism": counts_of}
    both_pairs = [measured(info(pair, names), {"n=1": 0.3, "n=2": 0.4}, **more) for pair in ("One", "Two")]
    shown = markdown(run(both_pairs))
    assert shown.count("results differ by at most") == 1
    assert "- Equal work, One, Two: results differ" in shown
    assert "- Mechanism, One, Two: workers: 0 -> 1 (n=1); 0 -> 2 (n=2)." in shown


def test_the_noise_floor_is_how_far_from_equal_the_intervals_of_identical_code_reach() -> None:
    controls = [measured(info(pair, tip=tip("control")), {"optimized": 0.0}, spread) for pair, spread in SPREADS]
    shown = run(controls)
    reach = {row.info.pair: max(row.judgement.high or 0, 1 / (row.judgement.low or 1)) - 1 for row in rows(shown)}
    said = f"under {words.percent(reach['Middle'])} can hardly be seen, in the noisiest (Wide) under "
    assert f"{said}{words.percent(reach['Wide'])}." in markdown(shown)
    assert "against itself 3 times, was never called different" in markdown(shown)


def test_bare_and_quick_runs_say_so_and_repeat_so() -> None:
    options = {"profile": "quick", "bare": True}
    shown = markdown(run([measured(info(), {"optimized": 0.3})], options=options, controls={}))
    assert "Measured with `--bare`" in shown
    assert "the run was made with `--bare`" in shown, "in place of the table of controls"
    assert "`tipbench run made-up.Pair --profile quick --bare`" in shown


def test_quarantined_rounds_are_counted() -> None:
    record = measured(info(), {"optimized": 0.3})
    first = replace(record.launches[0], throttled_us=(9,) + (0,) * 15)
    shown = markdown(run([replace(record, launches=(first, *record.launches[1:]))]))
    assert "| 4 (1 disturbed round left out) |" in shown


def test_a_mechanism_that_cannot_be_seen_says_so_instead_of_a_count() -> None:
    mechanism = {"what": "kernels", "baseline": {"unseen": "no CUPTI"}, "optimized": {"unseen": "no CUPTI"}}
    shown = run([measured(info(), {"optimized": 0.3}, mechanism={"optimized": mechanism})])
    assert "kernels: not seen, as no CUPTI" in markdown(shown)
    (row,) = pairs(shown)
    assert (row["verdict"], row["mechanism"]) == ("faster", mechanism)


def test_a_gpus_readings_are_shown_by_side_and_what_is_refused_is_called_unavailable() -> None:
    record = measured(info(device="cuda"), {"optimized": 0.3})
    sm, joules = {"baseline": 1980, "optimized": 1755}, {"baseline": 1.25, "optimized": 0.875}

    def readings(launch: Launch) -> dict[str, tuple[int, ...]]:
        blocks = len(launch.variant)
        return {
            "sm_mhz": tuple(sm[name] for name in launch.variant),
            "celsius": (40,) * blocks,
            "milliwatts": (-1,) * blocks,
        }

    launches = tuple(replace(launch, gpu=readings(launch)) for launch in record.launches)
    variants = {name: replace(found, energy={"joules_a_step": joules[name]}) for name, found in record.variants.items()}
    shown = run([replace(record, launches=launches, variants=variants)])
    (row,) = pairs(shown)
    assert row["gpu"] == {
        "sm_mhz": {"baseline": 1980, "variant": 1755},
        "memory_mhz": None,
        "celsius": {"baseline": 40, "variant": 40},
        "milliwatts": None,
        "joules_a_step": {"baseline": 1.25, "variant": 0.875},
        "l2_emptied": False,
    }
    (line,) = csv.DictReader(io.StringIO(render(shown, [], "csv").decode()))
    assert (line["baseline_sm_mhz"], line["variant_sm_mhz"]) == ("1980.0", "1755.0")
    assert (line["baseline_memory_mhz"], line["variant_joules_a_step"]) == ("", "0.875")
    text = markdown(shown)
    for said in ("1980 -> 1755 MHz", "memory clock unavailable", "40 -> 40 C", "power unavailable", "1.25 -> 0.875 J"):
        assert said in text
    assert "energy a step unavailable" in markdown(run([replace(record, launches=launches)]))
    flush_l2 = replace(record, info=replace(record.info, flush_l2=True))
    assert "its L2 cache emptied" in markdown(run([flush_l2]))
    assert "- GPU" not in markdown(run([measured(info(), {"optimized": 0.3})]))


def test_a_run_on_several_nodes_names_them_and_how_it_is_repeated(made: Run) -> None:
    first = {"name": "amd-2c", "interface": "eth0", "mbit": 10000}
    machine = {**made.machine, "nodes": [first, {**first, "interface": "eth1", "mbit": 0}]}
    shown = markdown(replace(made, machine=machine, options={**made.options, "nnodes": 2}))
    assert "amd-2c by eth0 (10000 Mbit/s), amd-2c by eth1" in shown
    assert "`tipbench run channels-last.Convolution --nnodes 2 --rdzv HOST:PORT`" in shown
    assert "--nnodes" not in markdown(made)


def test_notices_are_shown_by_file_and_line(made: Run) -> None:
    shown = markdown(made, Notice(Path("/home/someone/2026.jsonl"), 12, "truncated: | <b>lost</b>"))
    assert "- 2026.jsonl, line 12: truncated: \\| &lt;b>lost&lt;/b>" in shown
    assert "/home/someone" not in shown


def test_paths_of_the_measuring_machine_stay_there() -> None:
    def shown(file: str) -> str:
        return markdown(run([measured(info(file=file), {"optimized": 0.3})]))

    mine = shown("/home/someone/tipbench/benchmarks/general/grad_none.py")
    assert "Code: `benchmarks/general/grad_none.py`, line 12 (commit 0123456789ab)." in mine
    assert "Code: `mine.py`, line 12." in shown("/home/someone/secret/mine.py")


@pytest.mark.parametrize(
    ("repository", "commit", "file", "address"),
    [
        ("https://github.com/a/b", COMMIT, OURS, f"https://github.com/a/b/blob/{COMMIT}/{OURS}"),
        ("https://codeberg.org/a/b/", COMMIT, OURS, f"https://codeberg.org/a/b/src/commit/{COMMIT}/{OURS}"),
        ("https://github.com/a/b", f"{COMMIT}-dirty", OURS, ""),  # what was measured is on no server
        ("https://github.com/a/b", "unknown", OURS, ""),
        ("https://github.com/a/b", COMMIT, "benchmarks/general/of_somebody.py", ""),
        ("https://github.com/a/b", COMMIT, "/home/someone/mine.py", ""),
        ("", COMMIT, OURS, ""),
    ],
)
def test_code_is_linked_at_the_runs_commit_where_an_address_leads_to_it(
    repository: str, commit: str, file: str, address: str
) -> None:
    shown = code_places(commit, [info("One", file=file, line=12), info("Two", file=file, line=90)], repository)
    linked = [span.to for span in shown if isinstance(span, Link)]
    assert linked == ([address, f"{address}#L12", f"{address}#L90"] if address else [])
    assert not any("/home" in str(span) for span in shown)


def test_an_empty_run_is_a_report_too() -> None:
    for format in FORMATS:
        assert render(run(planned=("tip.Pair",)), [], format)
    assert "1 pair planned = 0 measured + 0 skipped + 0 failed + 1 not reached" in markdown(run(planned=("tip.Pair",)))


# ---- the machine's limit ----


def with_work(about: PairInfo, effect: float, work: Mapping[str, Any], baseline_s: float) -> Record:
    """One step a block, whose baseline takes `baseline_s`."""
    record = measured(about, {"optimized": effect}, baseline_s=baseline_s, steps=1)
    return replace(record, variants={**record.variants, "baseline": VariantRecord("measured", work=work)})


def test_shares_are_of_what_the_controls_of_the_same_run_reach() -> None:
    control = tip("control")
    product = with_work(info("MatrixProduct", tip=control), 0.0, {"flops": 2_000_000_000}, 0.02)
    copy = with_work(info("Copy", tip=control), 0.0, {"bytes": 128_000_000}, 0.01)
    both_known = with_work(info("Job", **MACRO), math.log(2), {"flops": 500_000_000, "bytes": 1_280_000}, 0.01)
    made = run([product, copy, both_known])
    (found,) = [pair for pair in pairs(made) if pair["pair"] == "Job"]
    assert found["limit"] == {
        "flops": {"baseline": pytest.approx(0.5), "variant": pytest.approx(1.0), "rate": pytest.approx(1e11)},
        "bytes": {"baseline": pytest.approx(0.01), "variant": pytest.approx(0.02), "rate": pytest.approx(12.8e9)},
    }
    assert re.search(r"limit, Job: .*\(100 GFLOP/s\): 50 % -> 100 %\.", markdown(made))
    assert re.search(r"limit, Job: .*\(12\.8 GB/s, read and written\): 1\.0 % -> 2\.0 %\.", markdown(made))


def test_without_a_control_of_the_same_device_the_share_is_unknown() -> None:
    job = with_work(info("Job", **MACRO), 0.5, {"flops": 500_000_000}, 0.01)
    product = with_work(info("MatrixProduct", tip=tip("control"), device="cuda"), 0.0, {"flops": 2_000_000_000}, 0.02)
    for made in (run([job]), run([product, job]), run([replace(product, outcome="failed"), job])):
        assert next(pair for pair in pairs(made) if pair["pair"] == "Job")["limit"] == {}
        assert "Share of this machine" not in markdown(made)


# ---- hostile text ----

HOSTILE = (
    "</td><script>alert(1)</script> | a | b\n# head\r\n[x](http://evil) ![i](j) [[w]] `c` **b** _i_ "
    "\x1b[31m \u202e \ud800 =1+1"
)


def hostile() -> Run:
    everywhere = dict.fromkeys(("id", "title", "claim", "published", "status", "note", "why_not"), HOSTILE)
    about = info(
        HOSTILE, [HOSTILE], tip={**everywhere, "guide": [HOSTILE]}, scale=HOSTILE, file=HOSTILE, device=HOSTILE,
        sizes={HOSTILE: 1},
    )  # fmt: skip
    seen = {"what": HOSTILE, "baseline": HOSTILE, "optimized": [HOSTILE], "engaged": True}
    good = measured(about, {HOSTILE: 0.3}, mechanism={HOSTILE: seen}, equal={HOSTILE: {"worst": HOSTILE}})
    bad = Record(replace(about, pair="Bad"), "failed", Reason(HOSTILE, {}, HOSTILE, HOSTILE))
    machine = {"name": HOSTILE, "torch": HOSTILE, HOSTILE: HOSTILE, "gpus": [{"name": HOSTILE}]}
    return run([good, bad], machine=machine, controls={HOSTILE: HOSTILE}, commit=HOSTILE, suite=HOSTILE)


def test_hostile_text_stays_text_in_markdown() -> None:
    shown = markdown(hostile(), Notice(Path("a"), 1, HOSTILE))
    assert "alert(1)" in shown
    outside_code = re.sub(r"`[^`\n]*`", "", shown.replace("\\`", ""))
    assert "<script" not in outside_code
    assert "</td" not in outside_code
    assert "](http" not in outside_code.replace("\\](", "")
    assert "[[w" not in outside_code.replace("\\[", "")
    assert "**b**" not in outside_code
    assert not re.search(r"^# head", shown, re.MULTILINE)
    assert not re.search("[\x1b\r\u202e\ud800]", shown)
    for table in re.findall(r"(?:^\|.*\|\n)+", shown, re.MULTILINE):
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_hostile_text_is_harmless_in_a_terminal_and_unchanged_in_json() -> None:
    for line in one_liners(hostile()):
        assert not re.search("[\x00-\x1f\x7f\x9b\u202e\ud800]", line)
    assert pairs(hostile())[0]["tip"] == HOSTILE.replace("\ud800", "?")  # half a character, which no file can hold


def test_hostile_text_is_no_formula_in_a_spreadsheet() -> None:
    about = info("=cmd|' /C calc'!A0", ["@sum(A1)"], tip=tip("+1"))
    shown = render(run([measured(about, {"@sum(A1)": 0.3})]), [], "csv").decode()
    (line,) = list(csv.DictReader(io.StringIO(shown)))
    assert (line["tip"], line["pair"], line["variant"]) == ("'+1", "'=cmd|' /C calc'!A0", "'@sum(A1)")


# ---- CSV ----


def test_csv_has_a_line_a_pair_and_variant(made: Run) -> None:
    lines = list(csv.DictReader(io.StringIO(render(made, [], "csv").decode())))
    assert len(lines) == 20
    for line, pair in zip(lines, pairs(made), strict=True):
        assert line["run"] == "3f9a1c07"
        for key in ("tip", "pair", "variant", "verdict"):
            assert line[key] == pair[key]
        assert line["speedup"] == ("" if pair["speedup"] is None else repr(pair["speedup"]))
        peak = pair["memory"]["variant"].get("tensor_peak", "")
        assert line["variant_tensor_peak_bytes"] == str(peak)


# ---- writing ----


def test_reports_neither_depend_on_the_hash_seed_nor_import_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from tipbench import report; from tipbench.records import store\n"
        f"run, notices = store.read(Path({str(GOLDEN)!r})); print(report.one_liners(run))\n"
        "for format in report.FORMATS: report.write(run, notices, format)\n"
        "heavy = {'torch', 'torchvision'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in "12"
    )
    assert first.stdout == second.stdout != b""


@pytest.mark.parametrize("format", FORMATS)
def test_reports_are_named_by_machine_and_run(tmp_path: Path, format: str) -> None:
    made = run([measured(info(), {"optimized": 0.1})])
    path = write(made, [], format, tmp_path)
    assert path == tmp_path / "amd-epyc-zen4-2c-24g" / f"2026-03-01-3f9a1c07.{format}"
    beside = [path.stem] if format == "md" else []
    assert sorted(file.name for file in path.parent.iterdir()) == [*beside, path.name]
    assert write(made, [], format, tmp_path) == path


def test_what_people_read_first_has_short_sentences(made: Run) -> None:
    front = one_run.parted(made, "home").front
    blocks = [block for block in front.blocks if isinstance(block, Paragraph | Bullets | Quote)]
    lines = [line for block in blocks for line in ([block.line] if isinstance(block, Paragraph) else block.lines)]
    texts = ["".join(span if isinstance(span, str) else getattr(span, "text", "") for span in line) for line in lines]
    long = [part for text in texts for part in re.split("(?<=[.:;]) ", text) if len(part.split()) > 20]
    assert len(lines) > 10
    assert long == []


def test_markdown_in_files_is_a_short_page_and_all_evidence_one_link_away(made: Run, tmp_path: Path) -> None:
    path = write(made, [], "md", tmp_path)
    assert path is not None
    below = sorted((path.parent / path.stem).glob("*.md"))
    assert {page.stem for page in below} == {row.tip for row in rows(made)} - {"control"} | {"the-run"}
    assert len(path.read_text().splitlines()) <= 150
    linked: set[Path] = set()
    for page in (path, *below):
        targets = re.findall(r"(?<!!)\[[^]]*\]\(([^)#]+)\)", page.read_text())
        assert all((page.parent / target).is_file() for target in targets), page
        linked |= {(page.parent / target).resolve() for target in targets if page == path}
        assert page == path or f"../{path.name}" in targets
    assert linked == {page.resolve() for page in below}
    figures = [
        (page.parent / shown).resolve()
        for page in (path, *below)
        for shown in re.findall(r"^!\[.+\]\((.+)\)$", page.read_text(), re.MULTILINE)
    ]
    written = sorted(file.resolve() for file in path.parent.rglob("*.svg"))
    assert sorted(figures) == written
    assert f"({path.stem}/jobs.svg)" in path.read_text()
    assert sorted(path.parent.rglob("*.png")) == [file.with_suffix(".png") for file in written]


def test_without_a_folder_the_report_is_printed(made: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert write(made, [], "md") is None
    assert capfd.readouterr().out == markdown(made)


def test_a_failed_write_is_named_and_leaves_the_old_report_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run([measured(info(), {"optimized": 0.1})])
    path = write(made, [], "csv", tmp_path)
    assert path is not None
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(ReportError, match="no space left on device"):
            write(run(), [], "csv", tmp_path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(ReportError, match="name another folder with --out"):
        write(made, [], "csv", path)


# ---- numbers as words ----


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        ((1.35, 1.33, 1.38), "1.35x [1.33, 1.38]"),
        ((1.0021, 0.9983, 1.0061), "1.002x [0.998, 1.006]"),
        ((12.41, 11.9, 12.9), "12.4x [11.9, 12.9]"),
        ((123.4, 100.0, 150.0), "123x [100, 150]"),
        ((0.02012, 0.0196, 0.0205), "0.0201x [0.0196, 0.0205]"),
        ((1.5, 1.5, 1.5), "1.500x [1.500, 1.500]"),
        ((1.0, 0.5, 2.0), "1.00x [0.50, 2.00]"),
    ],
)
def test_ratios_show_the_digits_their_interval_supports(ratio: tuple[float, float, float], shown: str) -> None:
    assert words.ratio(*ratio) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0123, "12.3 ms"), (1.0, "1.00 s"), (0.99999, "1.00 s"), (0.0009999, "1.00 ms"), (3.2e-6, "3.20 µs"),
        (5e-10, "0.500 ns"), (0, "0 s"), (-1.2, "-1.20 s"), (119.0, "119 s"), (270.0, "4.50 min"),
        (86400.0, "1,440 min"),
    ],
)  # fmt: skip
def test_seconds(seconds: float, shown: str) -> None:
    assert words.seconds(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"), (1, "1.00 B"), (1023, "1,023 B"), (1 << 10, "1.00 KiB"), (25276502016, "23.5 GiB"),
        (1 << 70, "1,048,576 PiB"),
    ],
)  # fmt: skip
def test_sizes(count: int, shown: str) -> None:
    assert words.size(count) == shown


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (100, 33, "-67 %"), (100, 100, "same"), (0, 0, "same"), (0, 5, "from nothing"), (1000, 1004, "+0.4 %"),
        (1, 5000, "+499,900 %"),
    ],
)  # fmt: skip
def test_changes(before: int, after: int, shown: str) -> None:
    assert words.change(before, after) == shown


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (True, "yes"), (None, "none"), (12345, "12,345"), (0.1 + 0.2, "0.3"), (4.0, "4"), (1e-7, "1e-07"), ([], "none"),
        ({"a": 1, "b": [2.5, "x"]}, "a 1, b 2.5, x"), (("libgomp", "libjemalloc"), "libgomp, libjemalloc"),
    ],
)  # fmt: skip
def test_values(found: object, shown: str) -> None:
    assert words.value(found) == shown


def test_equal_work_in_words() -> None:
    assert words.equal_work({}) == ""
    assert words.equal_work({"method": "bitwise", "worst": 0.0, "seeds": 3}) == "the same bits on 3 fresh inputs"
    lossy = {"method": "lossy", "error": 0.00312345, "baseline_error": 1.2e-7, "tolerance": 0.02, "seeds": 3}
    assert re.search(r" 0\.00312,.* 1\.2e-07 \(0\.02 allowed", words.equal_work(lossy))


def test_long_text_is_cut() -> None:
    assert words.plain("x" * 1000) == "x" * 597 + "..."
