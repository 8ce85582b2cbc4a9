"""From the rows of runs to answers: the rule as a table, and what stands beside an answer."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.made_up import NO_GPU, both, count, info, measured, realistic, run, tip, trainings, with_table
from tipbench.records.record import Record
from tipbench.report import one_liners
from tipbench.report.answer import Answer, answers, side_by_side
from tipbench.report.answer_kinds import KINDS
from tipbench.report.measure import effects
from tipbench.report.price import NOT_MEASURED
from tipbench.report.results import results
from tipbench.tip.pair import PRECISION, SCALING, TOGETHER, Claim
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import Reason

GAIN, LOSS, NOTHING = 0.3, -0.3, 0.0
OPEN = "open"
"""Launches that differ by so much that nothing can be said of a job."""


def answer(*records: Record) -> Answer:
    (row,) = answers(results(run(records)))
    return row


def job(name: str, effect: float | str, **about: Any) -> Record:
    """A whole job with this effect."""
    fixed: dict[str, Any] = {"scale": "macro", **about}
    if isinstance(effect, str):
        return measured(info(name, **fixed), {"optimized": 0.0}, spread=0.4, launches=18)
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
    again = answer(*records[::-1], alone(GAIN))
    assert (again.kind, again.answer) == (row.kind, row.answer), "neither order nor a faster operation alone counts"


@pytest.mark.parametrize(("effect", "kind"), [(GAIN, "faster alone"), (LOSS, "can't tell"), (NOTHING, "at most")])
def test_operations_alone_never_say_use_it(effect: float, kind: str) -> None:
    row = answer(alone(effect))
    assert (row.kind, row.workload) == (kind, "Operations alone")
    assert "not tried in a job" in row.gain
    leaner = answer(measured(info("Alone", tip=tip(claim=Claim.LEANER)), {"optimized": effect}, memory=both(264, 500)))
    assert leaner.kind == "can't tell"


def test_an_operation_that_is_slower_forbids_a_bare_use_it() -> None:
    row = answer(job("Job", GAIN), alone(LOSS))
    assert row.answer == "use it if your job is like Job: alone, Alone is slower (0.74x)"
    further = measured(info("Alone", variants=("optimized", "other")), {"optimized": GAIN, "other": LOSS})
    assert answer(job("Job", GAIN), further).answer == "use it", "which the guide does not word so"
    assert answer(job("Job", GAIN, tip=tip(when="it rains")), alone(LOSS)).answer == "use it if it rains"


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
    assert row.price == ("deprecated: use torch.compile" if "deprecated" in str(about) else NOT_MEASURED)


# ---- the tip as the guide words it ----


def sweep(worded: str, points: Mapping[str, float]) -> Record:
    return measured(info(variants=list(points), worded=worded, scale="macro"), points)


@pytest.mark.parametrize(
    ("points", "shown"),
    [
        ({"workers=1": 0.2, "workers=2": 0.5, "workers=4": -0.2}, "use it: workers=2, not workers=4 (0.82x)"),
        ({"workers=1": 0.2, "workers=2": 0.2}, "use it"),  # neither is better for certain
        ({"workers=1": -0.2, "workers=2": 0.5}, "use it: workers=2, not workers=1 (0.82x)"),
        ({"workers=1": -0.2, "workers=2": 0.0}, "don't"),
        ({"workers=1": 0.0, "workers=2": -0.2}, "at most 2 %"),
    ],
)
def test_the_way_that_pays_leads_and_one_that_costs_is_named(points: Mapping[str, float], shown: str) -> None:
    assert answer(sweep("workers=1", points)).answer == shown


def test_a_sweep_without_a_worded_value_is_about_its_best() -> None:
    row = answer(sweep("", {"workers=1": 0.2, "workers=2": 0.5, "workers=4": -0.2}))
    assert row.answer == "use it: workers=2, not workers=4 (0.82x)"
    assert row.others == []


WAYS: dict[str, Any] = {"called": "jemalloc", "do": "preload jemalloc", "ways": {"other": "preload tcmalloc"}}


def two_ways(**effects: float) -> Record:
    return measured(info(variants=list(effects), scale="macro", tip=tip(**WAYS)), effects)


@pytest.mark.parametrize(
    ("optimized", "other", "shown", "do", "others"),
    [
        (LOSS, GAIN, "use it: other, not jemalloc (0.74x)", "preload tcmalloc", 0),
        (GAIN, LOSS, "use it: jemalloc, not other (0.74x)", "preload jemalloc", 0),
        (GAIN, GAIN, "use it", "preload jemalloc", 1),
        (GAIN, 2 * GAIN, "use it: other", "preload tcmalloc", 1),
        (LOSS, NOTHING, "don't", "", 0),
    ],
)
def test_an_answer_names_the_way_and_its_code(optimized: float, other: float, shown: str, do: str, others: int) -> None:
    row = answer(two_ways(optimized=optimized, other=other))
    assert (row.answer, row.do, len(row.others)) == (shown, do, others)
    assert ("or Pair" in row.gain) is bool(others)


def test_a_tip_is_not_advised_against_while_another_way_may_pay() -> None:
    about = info(variants=["optimized", "other"], scale="macro", tip=tip(**WAYS))
    record = measured(about, {"optimized": LOSS, "other": GAIN})
    row = answer(replace(record, launches=measured(about, {"optimized": LOSS}).launches))
    assert (row.answer, row.harmful[0].name) == ("can't tell", "jemalloc")
    assert "undecided: other" in row.gain


def test_what_is_not_to_be_followed_leads_nowhere() -> None:
    """A variant with an empty text is there for comparison."""
    about = tip(**{**WAYS, "ways": {"other": ""}})
    effects = {"optimized": NOTHING, "other": GAIN}
    row = answer(measured(info(variants=list(effects), scale="macro", tip=about), effects))
    assert (row.kind, row.others) == ("at most", [])


def test_the_value_of_a_sweep_stands_in_what_to_write() -> None:
    about = tip(do="DataLoader(data, num_workers={workers})")
    points = {"workers=1": 0.2, "workers=2": 0.5}
    row = answer(measured(info(variants=list(points), worded="workers=1", scale="macro", tip=about), points))
    assert row.do == "DataLoader(data, num_workers=2)"


def test_a_way_that_only_an_operation_gains_by_is_no_other_way() -> None:
    effects = {"optimized": 0.0, "other": 0.5}
    row = answer(job("Job", 0.0), measured(info("Alone", variants=list(effects)), effects))
    assert (row.kind, row.others) == ("at most", [])


def test_each_workload_has_an_answer_of_its_own() -> None:
    made = answers(results(run([job("A", GAIN, task="training"), job("B", LOSS, task="inference")])))
    assert [(row.workload, row.kind) for row in made] == [
        ("Training on a CPU", "use it"),
        ("Inference on a CPU", "don't"),
    ]
    there = {"cuda": "One GPU", "cpu": "Training on a CPU"}
    for device, workload in there.items():
        assert answer(job("A", GAIN, task="training", device=device)).workload == workload
        assert answer(job("A", GAIN, task="processes", device=device)).workload == "Several processes or GPUs"


def test_tips_that_exclude_each_other_stand_behind_the_one_that_is_followed() -> None:
    of = {
        name: job("Job", effect, tip=tip(name, title=name.title(), one_of="optimizer"))
        for name, effect in (("fused", 0.1), ("compiled", 0.5), ("foreach", LOSS))
    }
    between = job("Job", GAIN, tip=tip("between"))
    made = answers(results(run([*of.values(), between])))
    assert [(row.tip, row.rival) for row in made] == [
        ("compiled", ""), ("fused", "compiled"), ("foreach", "compiled"), ("between", ""),
    ]  # fmt: skip


# ---- what is claimed ----

STEPS = (600, 590, 610, 598, 600, 604)
"""Of the baseline's trainings to the target."""


def claimed(claim: Claim, effect: float, **more: Any) -> Record:
    """A whole job whose tip promises this, with this effect on its time."""
    return measured(info(tip=tip(claim=claim), scale="macro"), {"optimized": effect}, **more)


def with_trainings(claim: Claim, effect: float, steps: Sequence[int | None]) -> Answer:
    sides = trainings(baseline=STEPS, optimized=steps)
    (row,) = answers(with_table(results(run([claimed(claim, effect)])), sides))
    return row


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
    row = with_trainings(Claim.FEWER_STEPS, GAIN, steps)
    assert row.kind == kind
    if None in steps:
        assert f"6 of 6 -> {6 - steps.count(None)} of 6 trainings reach " in row.gain
    else:
        assert f"600 -> {round(statistics.fmean(cast('list[int]', steps)))} steps" in row.gain


@pytest.mark.parametrize(
    ("step", "steps", "kind"),
    [
        (0.7, STEPS, "use it"),
        (0.0, (300, 290, 310, 298, 300, 304), "use it"),
        (0.7, (1208, 1180, 1240, 1198, 1210, 1214), "at most"),  # twice as fast, and twice as many
        (0.7, (2000, 1990, 2010, 1998, 2000, 2004), "don't"),
    ],
)
def test_less_time_to_a_target_is_that_of_a_step_and_their_number(step: float, steps: Sequence[int], kind: str) -> None:
    row = with_trainings(Claim.SOONER_AT_TARGET, step, steps)
    assert row.kind == kind
    assert "to the target (600 -> " in row.gain
    unknown = answer(claimed(Claim.SOONER_AT_TARGET, step))
    assert unknown.kind == "can't tell", "without trainings a faster step answers nothing"


def test_a_claim_of_fewer_failures_is_judged_by_what_was_counted_and_its_time_is_the_price() -> None:
    row = answer(claimed(Claim.STEADIER, -0.1, mechanism=count("trainings that diverge", 8, optimized=0)))
    assert (row.kind, row.price) == ("use it", "1.11x the time")
    assert "8 -> 0 trainings that diverge" in row.gain


# ---- the price ----


@pytest.mark.parametrize(
    ("more", "price"),
    [
        ({"memory": both(1200, 1000)}, "+50 % memory"),
        ({"memory": both(830, 1000)}, "+3.8 % memory"),
        ({"memory": both(805, 1000)}, NOT_MEASURED),
        ({"memory": {"baseline": {"tree": 100}, "optimized": {"tree": 104}}}, "none measured above 5 %"),
        ({}, NOT_MEASURED),
        ({"memory": {"baseline": {"tree": 100}, "optimized": {"tree": 180}}}, "+80 % memory of all processes"),
        ({"one_off": {"baseline": {"build": 0.1}, "optimized": {"build": 8.0}}}, "compiling pays after 15,2"),
        (
            {"one_off": {"baseline": {"build": 0.1}, "optimized": {"build": 0.6}}, "steps": 1, "baseline_s": 0.1},
            NOT_MEASURED,
        ),
    ],
)
def test_what_a_gain_in_time_costs(more: Mapping[str, Any], price: str) -> None:
    row = answer(measured(info(scale="macro", tip=tip(once="compiling")), {"optimized": GAIN}, **more))
    assert row.kind == "use it"
    assert row.price.startswith(price)


def test_only_what_a_tip_takes_once_has_to_be_earned_back() -> None:
    """The first steps of other tips differ by noise."""
    one_off = {"baseline": {"build": 0.1}, "optimized": {"build": 8.0}}
    assert answer(measured(info(scale="macro"), {"optimized": GAIN}, one_off=one_off)).price == NOT_MEASURED


def test_time_that_may_be_worse_is_a_price_whatever_the_claim() -> None:
    once = {"baseline": {"build": 10.0}, "optimized": {"build": 2.0}}
    unsure = measured(
        info(tip=tip(claim=Claim.SOONER), scale="macro"), {"optimized": 0.0}, spread=0.2, launches=18, one_off=once
    )
    assert answer(unsure).price.startswith("time of a step undecided: 1.00x [0.")
    assert "time" not in answer(claimed(Claim.SOONER, 0.0, one_off=once)).price
    assert answer(claimed(Claim.SOONER, -0.2, one_off=once)).price == "1.22x the time"
    two = [
        measured(info(name, tip=tip(claim=Claim.SOONER), scale="macro"), {"optimized": effect}, one_off=once)
        for name, effect in (("A", -0.2), ("B", -0.3))
    ]
    assert answer(*two).price == "1.22x the time in A, 1.35x the time in B"
    three = [*two, replace(two[0], info=replace(two[0].info, pair="C"), launches=two[0].launches[:1])]
    assert answer(*three).price == "1.22x the time in A, 1.35x the time in B, undecided in C"


# ---- what was not measured ----


@pytest.mark.parametrize(
    ("scores", "price"),
    [
        ((0.98, 0.97, 0.99, 0.98), "score after training unchanged within 0.013 in Accuracy"),
        (
            (0.90, 0.89, 0.90, 0.90),
            "mean score after training worse: 0.98 -> 0.8975 (higher is better), a change between -0.09 and -0.075"
            " in Accuracy",
        ),
        ((0.98, None, 0.98, 0.98), "mean score after training 0.98 -> 0.98 (higher is better) in Accuracy"),
    ],
)
def test_what_a_gain_in_time_costs_in_whole_trainings(scores: tuple[float | None, ...], price: str) -> None:
    """The operation's pair has them; the whole job answers."""
    counted = trainings(baseline=(90,) * 4, optimized=(90,) * 4)
    counted["optimized"] = replace(counted["optimized"], scores=scores)
    training, accuracy = results(run([job("Training", GAIN), measured(info("Accuracy"), {"optimized": LOSS})]))
    (row,) = answers([training, *with_table([accuracy], counted)])
    assert (row.kind, row.price) == ("use it", price)


def test_failures_beside_measurements_are_named() -> None:
    broken = Record(info("Broken", scale="macro"), "failed", Reason("crash", {}, "SIGSEGV"))
    missing = Record(info("Missing", scale="macro"), "skipped", NO_GPU)
    row = answer(job("Job", GAIN), broken, missing)
    assert row.kind == "use it"
    assert row.gain.endswith("Broken failed")


def test_a_tip_that_cannot_be_tried_says_what_is_missing() -> None:
    row = answer(skipped := Record(info(), "skipped", NO_GPU))
    assert row.kind == "not possible here"
    assert all(words in row.gain for words in ("needs 1 CUDA GPU", "remedy"))
    assert results(run([skipped], planned=(skipped.name, f"{skipped.info.tip.id}.Later"))) == []


def test_a_file_that_could_not_be_imported_is_reported_by_its_name() -> None:
    about = replace(info(pair="", scale="", tip=tip("my-tip", "", status="")), variants=())
    (line,) = one_liners(run([Record(about, "failed", Reason("import-error", {}, "SyntaxError (my_tip.py, line 3)"))]))
    assert line.startswith("can't tell: ")
    assert line.endswith("SyntaxError (my_tip.py, line 3)")


# ---- toys ----


@pytest.mark.parametrize("claim", [Claim.FEWER_STEPS, Claim.SOONER_AT_TARGET])
def test_short_trainings_are_called_toys_until_there_are_two_long_ones(claim: Claim) -> None:
    def of(**factors: int) -> str:
        made = [measured(info(name, tip=tip(claim=claim), scale="macro"), {"optimized": 0.0}) for name in factors]
        rows = []
        for row, factor in zip(results(run(made)), factors.values(), strict=True):
            counted = trainings(baseline=[factor * count for count in STEPS], optimized=[200, 201, 199, 200, 202, 200])
            rows += with_table([row], counted)
        (said,) = answers(rows)
        return said.answer

    assert of(Short=1, Long=3) == "use it (on this toy)"
    assert of(Long=3, Longer=4) == "use it"
    assert answer(job("Job", GAIN)).answer == "use it", "which is not about trainings"


# ---- several sessions ----


def in_sessions(*effects: float) -> Record:
    """A whole job that each session measured with one of the effects."""
    of_each = [job("Job", effect) for effect in effects]
    launches = [replace(launch, session=number) for number, each in enumerate(of_each) for launch in each.launches]
    return replace(of_each[0], launches=tuple(launches))


def test_an_answer_counts_all_sessions_and_each_as_one_reading_of_its_day() -> None:
    (once,) = answers(results(run([in_sessions(0.012)])))
    assert (once.kind, once.sessions) == ("at most", 1)
    (made,) = answers(results(run([in_sessions(0.06, 0.06, 0.012)])))
    assert (made.kind, made.sessions) == ("use it", 3)
    (row,) = results(run([in_sessions(0.0, 0.1)]))
    assert [round(mean.mean, 3) for mean in row.sessions] == [0.0, 0.1]
    (apart,), (alike,) = (effects(results(run([in_sessions(*of)]))).values() for of in ((0.0, 0.1), (0.05, 0.05)))
    assert apart.mean
    assert alike.mean
    assert apart.mean.error > alike.mean.error, "sessions that differ leave more open than sessions that agree"


def test_what_is_read_once_counts_once_in_all_sessions() -> None:
    lean = in_sessions(0.0, 0.0)
    lean = replace(lean, **vars(claimed(Claim.LEANER, 0.0, memory=both(700, 900))) | {"launches": lean.launches})
    (made,) = answers(results(run([lean])))
    assert made.sessions == 1


# ---- lines ----


def test_one_liners_have_one_line_a_tip_in_the_order_of_the_answers_and_leave_controls_out() -> None:
    made = realistic()
    lines = one_liners(made)
    assert len(lines) == len({record.info.tip.id for record in made.records}) - 1
    assert not any("control" in line or "\n" in line for line in lines)
    order = [next(kind for kind in sorted(KINDS, key=len, reverse=True) if line.startswith(kind)) for line in lines]
    assert order == sorted(order, key=KINDS.index)
    assert one_liners(run()) == []


def test_what_jobs_are_measured_against_is_named_and_says_nothing_of_operations() -> None:
    about = tip(against="two processes")
    assert answer(job("Job", GAIN, tip=about)).against == "two processes"
    assert answer(measured(info("Alone", tip=about), {"optimized": GAIN})).against == ""
    row = answer(job("A", GAIN, tip=tip(against="float32")), job("B", GAIN, tip=tip()))
    assert row.against == "float32 (A); the job as it is (B)"


def test_what_tips_bring_together_is_no_answer_and_is_said_with_its_members() -> None:
    variants = ["optimized", "without_amp", "without_compile_modes"]
    brings = {"optimized": GAIN, "without_amp": 0.1, "without_compile_modes": 2 * GAIN}
    ways = dict.fromkeys(variants[1:], "")
    about = info("Training", variants, tip=tip(TOGETHER, ways=ways), scale="macro", task="training")
    of_run = results(run([measured(about, brings), job("A", GAIN, task="training")]))
    (made,) = answers(of_run)
    assert made.tip != TOGETHER
    ((_, workload, (words,)),) = side_by_side(of_run)
    assert workload == made.workload
    assert words.startswith("Training 1.35x [1.2")
    assert words.endswith(", 32 samples 2.00 ms -> + amp 1.10 ms -> + compile-modes 1.48 ms (all but amp 1.81 ms)")


def test_jobs_that_follow_other_tips_together_each_name_theirs_and_need_no_tip_beside() -> None:
    ways = dict.fromkeys(["without_amp", "without_channels_last"], "")
    first = info("Text", ["optimized", "without_amp"], tip=tip(TOGETHER, ways=ways), scale="macro", task="training")
    second = replace(first, pair="Photos", variants=info("Photos", ["optimized", *ways]).variants)
    brings = dict.fromkeys(("optimized", *ways), GAIN)
    of_run = results(run([measured(first, brings), measured(second, brings)]))
    ((_, _, (words, *_)),) = side_by_side(of_run)
    texts, photos = words.split("; ")[:2]
    assert texts.startswith("Text 1.35x [")
    assert photos.startswith("Photos 1.35x [")


def test_precisions_and_devices_are_set_side_by_side() -> None:
    ladder = info("GPTTraining", ["optimized", "tf32"], tip=tip(PRECISION, called="bfloat16"), scale="macro")
    cores = info("GPTOnTwoCores", tip=tip(SCALING), scale="macro", task="processes")
    cores = replace(cores, variants=(cores.variants[0], replace(cores.variants[1], settings=ProcessSettings(ranks=2))))
    mechanism = count("products", 1, optimized=2, tf32=3)
    made = [measured(ladder, {"optimized": 0.8, "tf32": 0.4}, mechanism=mechanism), measured(cores, {"optimized": 0.5})]
    of_run = results(run(made))
    assert not answers(of_run)
    (*_, (times, counted)), (*_, (scaled,)) = side_by_side(of_run)
    assert re.fullmatch(r"GPT training, 32 samples 2.00 ms: tf32 1.49x \[.*\], bfloat16 2.23x \[.*\]", times)
    assert counted == "products: tf32 3; bfloat16 2"
    assert re.fullmatch(r"GPT on two cores, 32 samples 2.00 ms: 1.65x \[.*\] of 2", scaled)
