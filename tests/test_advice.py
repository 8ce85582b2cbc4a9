"""From the rows of runs to answers: the rule as a table, and what stands beside an answer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.made_up import NO_GPU, both, count, info, measured, realistic, run, tip, trainings
from tipbench.records.record import PairInfo, Record
from tipbench.report import one_liners
from tipbench.report.answer import KINDS, Answer, answers, by_tip
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.pair import Claim
from tipbench.tip.reason import Reason

GAIN, LOSS, NOTHING = 0.3, -0.3, 0.0
OPEN = "open"
"""Launches that differ by so much that nothing can be said of a job."""


def whole(runs: Sequence[Sequence[Result]]) -> list[Answer]:
    """One answer a tip, with what its rows say of all jobs in one line."""
    tips = by_tip(answers(runs)).values()
    return [replace(rows[0], gain="; ".join(row.gain for row in rows)) for rows in tips]


def answer(*records: Record) -> Answer:
    (row,) = whole([results(run(records))])
    return row


def job(name: str, effect: float | str, **about: Any) -> Record:
    """A whole job with this effect."""
    fixed: dict[str, Any] = {"scale": "macro", **about}
    if isinstance(effect, str):
        return measured(info(name, **fixed), {"optimized": 0.0}, spread=0.2, launches=18)
    return measured(info(name, **fixed), {"optimized": effect})


def alone(effect: float) -> Record:
    return measured(info("Alone"), {"optimized": effect})


@pytest.mark.parametrize(
    ("jobs", "kind"),
    [
        ([GAIN], "use it"),
        ([GAIN, GAIN], "use it"),
        ([GAIN, NOTHING], "use it"),  # in half of the jobs it pays, and in the other it is at most 3 % either way
        ([GAIN, NOTHING, NOTHING], "depends"),
        ([GAIN, LOSS], "depends"),
        ([GAIN, OPEN], "depends"),
        ([NOTHING, LOSS], "don't"),
        ([LOSS, OPEN], "don't"),
        ([NOTHING], "at most"),
        ([NOTHING, NOTHING], "at most"),
        ([NOTHING, OPEN], "can't tell"),
        ([OPEN], "can't tell"),
    ],
)
def test_what_whole_jobs_come_to(jobs: list[float | str], kind: str) -> None:
    records = [job(f"Job{number}", effect) for number, effect in enumerate(jobs)]
    row = answer(*records)
    assert row.kind == kind
    assert all(f"Job{number}" in row.gain for number in range(len(jobs))), "each job is named"
    again = answer(*records[::-1], alone(LOSS), alone(GAIN))
    assert (again.kind, again.answer) == (row.kind, row.answer), "neither order nor operations alone count"


@pytest.mark.parametrize(("effect", "kind"), [(GAIN, "use it"), (LOSS, "don't"), (NOTHING, "at most")])
def test_operations_answer_only_where_there_is_no_whole_job(effect: float, kind: str) -> None:
    row = answer(alone(effect))
    assert row.kind == kind
    assert "no whole job measured" in row.gain


@pytest.mark.parametrize(
    ("about", "effect", "shown"),
    [
        ({"when": "memory is short"}, GAIN, "use it if memory is short"),
        ({"when": "memory is short"}, LOSS, "don't"),
        ({"when": "memory is short"}, NOTHING, "at most 2 %"),
        ({"status": "default now (since torch 2.0)"}, GAIN, "already the default"),
        ({"status": "default now (since torch 2.0)"}, LOSS, "already the default"),
        ({"status": "deprecated: use torch.compile"}, GAIN, "use it"),
    ],
)
def test_who_should_follow_a_tip(about: Mapping[str, Any], effect: float, shown: str) -> None:
    row = answer(job("Job", effect, tip=tip(**about)))
    assert row.answer == shown
    assert row.price == ("deprecated: use torch.compile" if "deprecated" in str(about) else "")


# ---- the tip as the guide words it ----


def sweep(worded: str, points: Mapping[str, float]) -> Record:
    return measured(info(variants=list(points), worded=worded, scale="macro"), points)


def test_a_tip_is_judged_by_the_way_that_the_guide_words() -> None:
    points = {"workers=1": 0.2, "workers=2": 0.5, "workers=4": -0.2}
    assert answer(sweep("workers=1", points)).gain.startswith("Pair (workers=1) 1.22")
    assert answer(sweep("workers=4", points)).kind == "don't"
    assert answer(sweep("", points)).gain.startswith("Pair (workers=2) 1.6"), "of which it names none: the best"
    effects = {"optimized": 0.0, "other": 0.5}
    row = answer(measured(info(variants=list(effects), scale="macro"), effects))
    assert row.kind == "at most"
    assert "instead: Pair (other) 1.6" in row.gain


def test_a_way_that_only_an_operation_gains_by_is_no_other_way() -> None:
    effects = {"optimized": 0.0, "other": 0.5}
    row = answer(job("Job", 0.0), measured(info("Alone", variants=list(effects)), effects))
    assert "instead" not in row.gain


# ---- what is claimed ----

STEPS = (600, 590, 610, 598, 600, 604)
"""Of the baseline's trainings to the target."""


def claimed(claim: Claim, effect: float, **more: Any) -> Record:
    """A whole job whose tip promises this, with this effect on its time."""
    return measured(info(tip=tip(claim=claim), scale="macro"), {"optimized": effect}, **more)


def with_trainings(claim: Claim, effect: float, steps: Sequence[int | None]) -> Record:
    return claimed(claim, effect, trainings=trainings(baseline=STEPS, optimized=steps))


@pytest.mark.parametrize(
    ("peak", "kind"), [(264, "use it"), (700, "use it"), (760, "at most"), (800, "at most"), (900, "don't")]
)
def test_a_claim_of_less_memory_is_judged_by_the_peak_and_its_time_is_the_price(peak: int, kind: str) -> None:
    row = answer(claimed(Claim.LEANER, -0.27, memory=both(peak, 500)))
    assert row.kind == kind
    assert f"(800 MiB -> {peak} MiB)" in row.gain
    assert row.price == "1.31x the time"
    assert answer(claimed(Claim.LEANER, GAIN)).kind == "can't tell", "without any reading"


def test_memory_falls_back_on_the_resident_peak_and_prefers_the_gpus() -> None:
    resident = {"baseline": {"resident_peak": 1000}, "optimized": {"resident_peak": 500}}
    assert "1,000 B -> 500 B" in answer(claimed(Claim.LEANER, 0.0, memory=resident)).gain
    card = {side: {**peaks, "allocated_peak": 4 << 30} for side, peaks in both(10, 10).items()}
    assert answer(claimed(Claim.LEANER, 0.0, memory=card)).kind == "at most"


@pytest.mark.parametrize(("variant_s", "kind"), [(2.6, "use it"), (10.0, "at most"), (30.0, "don't")])
def test_a_claim_of_less_time_once_is_judged_by_one_off_costs(variant_s: float, kind: str) -> None:
    once = {"baseline": {"build": 0.2, "warm_up": 9.8}, "optimized": {"build": variant_s}}
    row = answer(claimed(Claim.SOONER, 0.0, one_off=once))
    assert row.kind == kind
    assert row.gain.startswith("Pair once 10.0 s -> ")


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ((300, 310, 290, 305, 295, 300), "use it"),
        ((600, 610, 590, 605, 595, 602), "at most"),
        ((900, 910, 890, 905, 895, 900), "don't"),
        ((300, 310, 290, None, None, 300), "can't tell"),
        ((None,) * 6, "don't"),
    ],
)
def test_a_claim_of_fewer_steps_is_judged_by_whole_trainings(steps: Sequence[int | None], kind: str) -> None:
    row = answer(with_trainings(Claim.FEWER_STEPS, GAIN, steps))
    assert row.kind == kind
    if None in steps:
        assert f"6 of 6 -> {6 - steps.count(None)} of 6 trainings reach the target" in row.gain
    else:
        assert f"600 -> {round(statistics.fmean(cast('list[int]', steps)))} steps" in row.gain


def test_the_ratio_of_steps_that_is_shown_is_of_all_runs_that_answer() -> None:
    clear, unsure = (
        results(run([with_trainings(Claim.FEWER_STEPS, GAIN, steps)]))
        for steps in ((1200, 1190, 1210, 1195, 1205, 1200), (1200, 300, 2400, 600, 700, 1300))
    )
    (alone,), (together,) = whole([unsure]), whole([clear, unsure])
    assert (alone.kind, together.kind) == ("can't tell", "don't")
    assert "0.500x [" in together.gain
    assert together.gain != alone.gain


@pytest.mark.parametrize(
    ("step", "steps", "kind"),
    [
        (0.7, STEPS, "use it"),
        (0.0, (300, 290, 310, 298, 300, 304), "use it"),
        (0.7, (1208, 1180, 1240, 1198, 1210, 1214), "at most"),  # twice as fast, and twice as many
        (0.7, (2000, 1990, 2010, 1998, 2000, 2004), "don't"),
    ],
)
def test_less_time_to_a_target_is_the_time_of_a_step_and_their_number(
    step: float, steps: Sequence[int], kind: str
) -> None:
    row = answer(with_trainings(Claim.SOONER_AT_TARGET, step, steps))
    assert row.kind == kind
    assert "to the target (600 -> " in row.gain
    unknown = answer(claimed(Claim.SOONER_AT_TARGET, step))
    assert unknown.kind == "can't tell", "without trainings a faster step answers nothing"


def test_a_claim_of_fewer_failures_is_judged_by_what_was_counted_and_its_time_is_the_price() -> None:
    row = answer(claimed(Claim.STEADIER, -0.1, mechanism=count("trainings that diverge", 8, optimized=0)))
    assert (row.kind, row.price) == ("use it", "1.11x the time")
    assert "8 -> 0 trainings that diverge" in row.gain


def test_a_claim_of_an_older_version_is_judged_by_time() -> None:
    assert answer(job("Job", GAIN, tip={**tip(), "claim": "avoids a cost"})).kind == "use it"


# ---- the price ----


@pytest.mark.parametrize(
    ("more", "price"),
    [
        ({"memory": both(1200, 1000)}, "+50 % memory"),
        ({"memory": both(830, 1000)}, ""),
        ({"memory": {"baseline": {"tree": 100}, "optimized": {"tree": 180}}}, "+80 % memory of all processes"),
        ({"one_off": {"baseline": {"build": 0.1}, "optimized": {"build": 8.0}}}, "pays after 15,240 steps"),
        ({"one_off": {"baseline": {"build": 0.1}, "optimized": {"build": 0.6}}, "steps": 1, "baseline_s": 0.1}, ""),
    ],
)
def test_what_a_gain_in_time_costs(more: Mapping[str, Any], price: str) -> None:
    row = answer(measured(info(scale="macro"), {"optimized": GAIN}, **more))
    assert row.kind == "use it"
    assert row.price.split(" steps")[0][:10] == price.split(" steps")[0][:10]


# ---- what was not measured ----


@pytest.mark.parametrize(
    ("scores", "price"),
    [
        ((0.98, 0.97, 0.99, 0.98), "score after training unchanged within 0.013"),
        ((0.90, 0.89, 0.90, 0.90), "mean score after training 0.98 -> 0.8975, a change between -0.09 and -0.07"),
        ((0.98, None, 0.98, 0.98), "mean score after training 0.98 -> 0.98"),
    ],
)
def test_what_a_gain_in_time_costs_in_whole_trainings(scores: tuple[float | None, ...], price: str) -> None:
    """The operation's pair has them; the whole job answers."""
    counted = trainings(baseline=(90,) * 4, optimized=(90,) * 4)
    counted["optimized"] = replace(counted["optimized"], scores=scores)
    row = answer(job("Training", GAIN), measured(info("Accuracy"), {"optimized": LOSS}, trainings=counted))
    assert (row.kind, row.short, row.price) == ("use it", "+35 %", price)


def test_failures_beside_measurements_are_named() -> None:
    broken = Record(info("Broken", scale="macro"), "failed", Reason("crash", {}, "SIGSEGV"))
    missing = Record(info("Missing", scale="macro"), "skipped", NO_GPU)
    row = answer(job("Job", GAIN), broken, missing)
    assert row.kind == "use it"
    assert row.gain.endswith("Broken failed")


def test_a_tip_that_cannot_be_tried_says_what_is_missing() -> None:
    row = answer(Record(info(), "skipped", NO_GPU))
    assert row.kind == "not possible here"
    assert "needs 1 CUDA GPU" in row.gain
    assert "remedy" in row.gain


def test_a_file_that_could_not_be_imported_is_reported_by_its_name() -> None:
    about = PairInfo.from_json(
        {**info(pair="", scale="", tip={**tip("my-tip", status=""), "claim": ""}).to_json(), "variants": ()}
    )
    (line,) = one_liners(run([Record(about, "failed", Reason("import-error", {}, "SyntaxError (my_tip.py, line 3)"))]))
    assert line.startswith("can't tell  my-tip  ")
    assert line.endswith("SyntaxError (my_tip.py, line 3)")


# ---- several runs ----


def test_earlier_runs_of_the_same_code_and_sizes_count_too() -> None:
    edge, clear = [results(run([job("Job", effect)])) for effect in (0.012, 0.06)]
    (row,) = whole([edge])
    assert row.kind == "at most"
    (row,) = whole([clear, clear, edge])
    assert row.kind == "use it"
    other = results(run([job("Job", 0.06, sizes={"batch": 1})]))
    (row,) = whole([other, other, edge])
    assert row.kind == "at most", "other sizes are another job"


def test_earlier_runs_that_read_or_counted_something_else_do_not_count() -> None:
    card = {side: {"allocated_peak": 4 << 30} for side in ("baseline", "optimized")}
    of_memory = [claimed(Claim.LEANER, 0.0, memory=memory) for memory in (card, both(300, 500))]
    mechanisms = (count("losses that are nan", 8, optimized=8), count("trainings that diverge", 8, optimized=0))
    of_failures = [claimed(Claim.STEADIER, 0.0, mechanism=mechanism) for mechanism in mechanisms]
    for first, last in (of_memory, of_failures):
        (row,) = whole([results(run([first])), results(run([last]))])
        assert (row.kind, row.runs) == ("use it", 1)


def test_only_tips_of_the_last_run_are_answered() -> None:
    first = results(run([job("Job", GAIN, tip=tip("old"))]))
    last = results(run([job("Job", GAIN, tip=tip("new"))]))
    assert [row.tip for row in whole([first, last])] == ["new"]
    assert whole([]) == []


# ---- lines ----


def test_one_liners_have_one_line_a_tip_in_the_order_of_the_answers_and_leave_controls_out() -> None:
    made = realistic()
    lines = one_liners(made)
    assert len(lines) == len({record.info.tip["id"] for record in made.records}) - 1
    assert not any("control" in line or "\n" in line for line in lines)
    order = [next(kind for kind in sorted(KINDS, key=len, reverse=True) if line.startswith(kind)) for line in lines]
    assert order == sorted(order, key=KINDS.index)
    assert one_liners(run()) == []
