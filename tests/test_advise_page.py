"""What is said of tips that are followed together, from made-up effects."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import info, measured, run, tip
from tests.test_combination import with_speedup
from tipbench.advise import tuned
from tipbench.advise.combination import SIDE_WITHOUT
from tipbench.advise.outcome import JobOutcome
from tipbench.advise.page import TriedWay, advice_page, markdown
from tipbench.advise.page import lines as page_lines
from tipbench.given.survey import Survey, WayHere
from tipbench.machine.controls import HEAP
from tipbench.records.record import Record, VariantRecord
from tipbench.report.result import Result
from tipbench.tip.reason import Reason


def way(name: str, **more: Any) -> WayHere:
    return WayHere(tip=name, name=name, title=name, do=f"do {name}", **more)


SURVEY = Survey("train.py:job", "training", "cpu", step_s=0.05, parameters=1000, ways=[way(name) for name in "abc"])
COMPILED = replace(SURVEY, ways=[way(name, takes_once=True) for name in "abc"])
C_CHANGES_RESULTS = replace(SURVEY, ways=[way("a"), way("b"), way("c", changes_numbers=True)])


def speedup(factor: float, once: tuple[float, float] | None = (3.0, 3.0)) -> Result:
    """Of the job with all members over the job without something. once: seconds that these two take once."""
    verdict = "slower" if factor > 1.02 else "inconclusive"
    return with_speedup(-math.log(factor), verdict=verdict, error=0.01, step_s=0.1, one_off_sides=once)


def together(whole: float, *, left_out: dict[str, Result] | None = None, **on_top: float) -> JobOutcome:
    alone = run([measured(info("Alone", tip=tip(name), scale="macro"), {"optimized": 0.1}) for name in "abc"])
    each = {f"{SIDE_WITHOUT}{name}": speedup(factor) for name, factor in on_top.items()}
    return JobOutcome(SURVEY, alone, tuple(on_top), {"optimized": speedup(whole), **each}, left_out or {})


def lines(outcome: JobOutcome) -> list[str]:
    return page_lines(advice_page(outcome))


def test_members_and_what_was_left_out_are_named_with_what_they_bring() -> None:
    outcome = together(1.5, a=1.3, b=1.01, left_out={"c": speedup(1.0)})
    assert lines(outcome)[2:6] == [
        "1.50x [1.47, 1.53] with 2 changes",
        "  do a: 1.30x [1.27, 1.33] on top of the others",
        "  do b: 1.01x [0.99, 1.03] on top of the others, where it may bring nothing",
        "  Left out: do c, 1.00x [0.98, 1.02] on top of these",
    ]


def test_what_changes_results_stands_by_itself_with_how_far_results_are_off() -> None:
    outcome = replace(together(1.5, a=1.5), survey=C_CHANGES_RESULTS)
    line = "do c: 1.105x [1.097, 1.114] alone; results were not compared"
    assert lines(outcome)[3:-6] == ["  do a", f"  Alters results, so it stands by itself: {line}"]
    page = markdown(advice_page(outcome))
    assert f"## What alters results\n\n- {line}\n\n`python tuned.py --lossy` follows" in page
    error = {"method": "lossy", "tolerance": 0.1, "seeds": 2, "error": 0.004, "baseline_error": 1e-7}
    error["returned_error"] = 0.0012
    about = measured(info("Alone", tip=tip("c"), scale="macro"), {"optimized": 0.1}, equal={"optimized": error})
    alone = replace(outcome.alone, records=(*outcome.alone.records[:2], about))
    page = markdown(advice_page(replace(outcome, alone=alone)))
    assert "the loss over the compared steps is 0.12 % off; compared in fp64" in page
    assert "error against fp64 0.004" in page


@pytest.mark.parametrize(("off", "is_advice"), [(0.02, True), (-0.02, True), (0.06, False), (-0.06, False)])
def test_a_job_that_is_off_from_itself_gets_no_advice(off: float, is_advice: bool) -> None:
    itself = measured(info("Job", tip=tip("as-it-is"), scale="macro"), {"optimized": off})
    outcome = together(1.5, a=1.5)
    outcome = replace(outcome, alone=replace(outcome.alone, records=(itself, *outcome.alone.records)))
    assert outcome.pays is is_advice
    assert outcome.is_unreliable is not is_advice
    said = "No number here can be trusted, so there is no advice: the job beside itself came out"
    assert (said in "\n".join(lines(outcome))) is not is_advice


def test_a_busy_survey_without_a_launch_gives_no_advice() -> None:
    nothing = JobOutcome(replace(SURVEY, others=1.0), run([]), (), {})
    assert nothing.is_unreliable
    assert "other programs kept 1.0 cores busy while the job was surveyed" in "\n".join(lines(nothing))
    assert not replace(nothing, survey=SURVEY).is_unreliable
    assert not replace(nothing, others=[0.0, 0.1]).is_unreliable, "launches say it better"


ALONE = "1.105x [1.097, 1.114]"  # what each brings by itself


def tried(outcome: JobOutcome) -> dict[str, TriedWay]:
    return {tip.name: tip for tip in advice_page(outcome).tips}


def test_a_row_says_what_a_way_brings_alone_and_what_launches_that_chose_nothing_say_of_it() -> None:
    rows = tried(together(1.5, a=1.3, b=1.01))
    assert {(row.word, row.alone) for row in rows.values()} == {("faster", ALONE)}
    assert rows["a"].together == "1.30x [1.27, 1.33] on top of the others"
    assert rows["b"].together == "1.01x [0.99, 1.03] on top of the others, where it may bring nothing"
    assert (rows["c"].together, rows["c"].do) == ("", "do c")
    single = tried(together(1.5, a=1.3))["a"]
    assert (single.together, single.do) == ("1.50x [1.47, 1.53] measured anew", "do a")
    seemed = tried(together(1.0, a=1.0))["a"]
    assert (seemed.together, seemed.do) == ("1.00x [0.98, 1.02] measured anew", ""), "it is no advice"


def test_a_tip_that_pays_alone_and_not_beside_the_changes_is_not_to_be_used() -> None:
    outcome = together(1.5, a=1.3, b=1.2, left_out={"c": speedup(1.0)})
    left = tried(outcome)["c"]
    assert (left.together, left.do) == ("left out, 1.00x [0.98, 1.02] on top of the others", "")
    survey = replace(SURVEY, ways=[way(name, one_of="optimizer") for name in "abc"])
    excluded = tried(replace(together(1.5, a=1.3), survey=survey))["c"]
    assert (excluded.together, excluded.do) == ("not with a", "")


def test_each_way_has_a_row_those_first_that_bring_most() -> None:
    ways = [way("a"), replace(way("b"), name="b/most", do="do most"), replace(way("b"), name="b/least", do="do least")]
    of_b = measured(info("Alone", ["optimized", "least"], tip=tip("b")), {"optimized": 0.2, "least": 0.1})
    alone = run([measured(info("Alone", tip=tip("a")), {"optimized": -0.1}), of_b])
    outcome = replace(together(1.5), survey=replace(SURVEY, ways=ways), alone=alone)
    rows = advice_page(outcome).tips
    assert [(row.name, row.word) for row in rows] == [("b/most", "faster"), ("b/least", "faster"), ("a", "slower")]
    assert lines(outcome)[-3] == f"faster  b (do most): {rows[0].alone}"
    page = markdown(advice_page(outcome))
    assert f"| **faster**: {rows[0].alone} | b | `do most` | memory of all processes not measured |" in page
    assert "### b (b/most)" in page
    assert "with the changes" not in page
    assert "| tip | what to write | with the changes | price |" in markdown(advice_page(together(1.5, a=1.3)))


def test_a_tip_that_could_not_be_measured_says_why_without_naming_a_side() -> None:
    about = info("Alone", tip=tip("a"))
    for why, shown in (
        (Reason("not-engaged", {"where": "optimized"}, "operations: 5 -> 5"), ("no effect here", "operations: 5 -> 5")),
        (
            Reason("different-results.error", {"where": "optimized", "error": 0.1, "allowed": 0.01}),
            ("other results", "error 0.1 against fp64; 0.01 allowed"),
        ),
        (
            Reason("hang", {"seconds": 60, "doing": "optimized, step 1"}),
            ("fails here", "no answer within 60 s while doing: optimized, step 1"),
        ),
    ):
        failed = Record(about, "failed", why, variants={"optimized": VariantRecord("failed", why)})
        row = tried(replace(together(1.5), alone=run([failed])))["a"]
        assert (row.word, row.alone, row.price, row.do) == (*shown, "", "")


def test_members_that_were_not_left_out_in_turn_have_what_all_bring() -> None:
    outcome = replace(together(1.5, a=1.3, b=1.2), sides={"optimized": speedup(1.5)})
    assert tried(outcome)["a"].together == "1.50x [1.47, 1.53] with all changes"
    assert outcome.remarks[0].startswith("There was no time to leave each out")


CACHES = "Compile caches were empty: a later run finds there what is compiled, and starts sooner."


def test_what_changes_cost_once_and_in_memory_is_said_with_the_steps_that_pay_for_it() -> None:
    """Compiling for 57 s was advised for 4 % of a step of 0.1 s, and nothing was said of the 57 s."""
    whole = replace(
        speedup(1.5, once=(60.0, 3.0)),
        baseline_memory={"tree": 130, "steady_peak": 95},
        variant_memory={"tree": 100, "steady_peak": 100},
    )
    each = {f"{SIDE_WITHOUT}a": speedup(1.3, once=(60.0, 59.0)), f"{SIDE_WITHOUT}b": speedup(1.15, once=(60.0, 2.0))}
    outcome = replace(together(1.5, a=1.3, b=1.15), survey=COMPILED, sides={"optimized": whole, **each})
    assert lines(outcome)[3:6] == [
        "  do a: 1.30x [1.27, 1.33] on top of the others",
        "  do b: 1.15x [1.13, 1.17] on top of the others; costs 58.0 s once, paid back after about 3,900 steps",
        "  Together the changes cost 57.0 s once, paid back after about 1,100 steps, "
        f"and +30 % memory of all processes. {CACHES}",
    ]
    on_top = "1.15x [1.13, 1.17] on top of the others; costs 58.0 s once, paid back after about 3,900 steps"
    assert tried(outcome)["b"].together == on_top


KEPT = (
    "  Set MALLOC_TRIM_THRESHOLD_=17179869184 and MALLOC_MMAP_MAX_=0 too: both sides had them, and "
    "tuned.env has. Without, a process may map its large temporaries anew at each step, and the changes bring less, or "
    "cost. With them it gives no memory back, and can grow at each step that keeps a small tensor, such as a loss: "
    "leave them out if its memory does not stay level."
)


def test_the_heap_that_both_sides_had_is_named_unless_the_changes_set_one_of_their_own() -> None:
    """Without it three of six processes that followed an advice were slower by a quarter than those that did not."""
    outcome = together(1.5, a=1.5)
    assert lines(outcome)[4] == KEPT
    own = replace(SURVEY, ways=[way("a", preload=["/lib/libjemalloc.so.2"]), *SURVEY.ways[1:]])
    bare = replace(outcome, alone=replace(outcome.alone, controls={}))
    for other in (
        bare,
        replace(outcome, survey=own),
        replace(outcome, survey=replace(SURVEY, device="cuda")),
        together(1.0),
    ):
        assert KEPT not in lines(other)


@pytest.mark.parametrize("shell", ["sh -u", "bash -eu"])
@pytest.mark.parametrize("own", [{}, {"LD_PRELOAD": "libm.so.6 libdl.so.2"}])
def test_what_is_taken_away_adds_to_what_a_shell_preloads(shell: str, own: dict[str, str], tmp_path: Path) -> None:
    ways = [way("a", preload=["libutil.so.1", "libpthread.so.0"])]
    tuned.write(tmp_path, "", replace(SURVEY, kind="command"), ways, "", HEAP)
    program = "import os; print(os.environ['LD_PRELOAD'], 'libutil' in open('/proc/self/maps').read())"
    line = f'(. ./tuned.env; {sys.executable} -c "{program}"); echo "${{LD_PRELOAD-}}"'
    done = subprocess.run([*shell.split(), "-c", line], env=own, cwd=tmp_path, capture_output=True, text=True)
    joined = ":".join(["libutil.so.1", "libpthread.so.0", *own.values()])
    assert (done.stderr, done.stdout.splitlines()) == ("", [f"{joined} True", own.get("LD_PRELOAD", "")])


def test_what_a_single_change_costs_once_is_said_or_that_it_is_not_known() -> None:
    def after_the_change(once: tuple[float, float] | None) -> str:
        return lines(replace(together(1.5, a=1.5), survey=COMPILED, sides={"optimized": speedup(1.5, once)}))[4]

    assert (
        after_the_change((60.0, 3.0)) == f"  This change costs 57.0 s once, paid back after about 1,100 steps. {CACHES}"
    )
    assert after_the_change(None).startswith("  What the changes take once, such as to compile, was not measured")
    assert after_the_change((3.05, 3.0)) == KEPT


def test_what_to_write_in_several_lines_is_shown_in_one_line() -> None:
    code = "# of equal settings in one group\nfor group in groups: group.update(fused=True)\noptimizer.step()  # once"
    survey = replace(SURVEY, ways=[replace(way("a"), do=code), *SURVEY.ways[1:]])
    shown = "for group in groups: group.update(fused=True) then optimizer.step()"
    assert lines(replace(together(1.5, a=1.5), survey=survey))[3] == f"  {shown}"


def test_of_changes_that_take_nothing_once_no_first_steps_are_compared() -> None:
    """The first steps of two processes differed by 0.2 s, which was said to be the price of a number of threads."""
    outcome = replace(together(1.5, a=1.5), sides={"optimized": speedup(1.5, once=(9.0, 2.0))})
    assert lines(outcome)[4] == KEPT
    assert lines(replace(outcome, survey=COMPILED))[4].startswith("  This change costs 7.00 s once")


def test_changes_that_may_bring_less_than_counts_are_no_advice() -> None:
    """A setting of the allocator was advised for 1.01x [1.00, 1.03]."""
    little = replace(speedup(1.014), verdict="at most 3 %", low=math.exp(-0.028), high=math.exp(-0.001))
    outcome = replace(together(1.5, a=1.3), sides={"optimized": little})
    assert advice_page(outcome).together is None
    anew = "do a seemed to pay, but not more than 1 % for certain when measured anew: 1.01x [1.00, 1.03]"
    assert lines(outcome)[2:4] == [f"Nothing worth changing: {anew}", ""]


def test_few_launches_are_likely_an_advice_where_their_interval_lies_beyond_5_percent_and_else_none() -> None:
    few = replace(speedup(13.2), verdict="inconclusive", effects=(1.0,))
    outcome = replace(together(1.5, a=1.3, b=1.2), sides={"optimized": few})
    assert outcome.pays
    assert outcome.is_open
    assert lines(outcome)[2] == "13.2x [12.9, 13.5] with 2 changes, likely, from 1 launch"
    close = replace(outcome, sides={"optimized": replace(speedup(1.06), verdict="inconclusive")})
    assert advice_page(close).together is None
    assert lines(close)[2:4] == ["Not known yet: 1.06x [1.04, 1.08] with do a and do b", ""]
    assert not together(1.5, a=1.3).is_open, "what is decided needs no more"


BUSY = (0.1, 1.0, 1.2)
"""Cores that others kept busy in three launches."""


def test_a_busy_machine_is_no_ground_for_advice() -> None:
    beside = "other programs kept 1.1 cores busy in 2 of 3 launches"
    outcome = replace(together(1.5, a=1.5), others=BUSY)
    assert not outcome.pays
    assert lines(outcome)[2] == f"This machine was busy, so there is no advice: {beside}"
    assert lines(outcome)[3] == "", "not what was tried either"
    row = tried(outcome)["a"]
    assert (row.alone, row.together, row.do) == (ALONE, "", ""), "what was measured of each is still shown"
    wanted = replace(outcome, on_busy=True)
    assert wanted.pays
    assert lines(wanted)[2] == f"1.50x [1.47, 1.53] with 1 change, measured while {beside}"
    assert lines(replace(outcome, others=BUSY[:2])) == lines(together(1.5, a=1.5)), "one of two is no majority"
