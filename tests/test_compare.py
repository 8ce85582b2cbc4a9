"""Comparisons of made-up runs with known effects: what pays on all, what reverses, what may be compared, the gate."""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from tests.made_up import MACHINE, NO_GPU, both, info, measured, realistic, run, stored, tip
from tipbench import compare
from tipbench.cli import main
from tipbench.compare.comparison import Comparison, row_name
from tipbench.compare.consistency import (
    COSTS_ON_ALL,
    EFFECTS,
    LITTLE_ON_ALL,
    NOTHING_TO_DO,
    ON_JOB,
    PAYS_ON_ALL,
    UNSURE,
    TipAcross,
    consistency_of,
    tips,
)
from tipbench.compare.gate import gate
from tipbench.compare.stored import StoredRun, read_run
from tipbench.engine.run import Options
from tipbench.machine.controls import HEAP_BEFORE
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.record import Record, Run
from tipbench.report.answer_kinds import IMPOSSIBLE, KINDS
from tipbench.report.grade import HARDWARE, NOT, SAME, STATE, Grade, facts, grade
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.pair import Claim, TipText
from tipbench.tip.reason import Reason
from tipbench.verdict.rules import decide
from tipbench.verdict.statistics import Mean, difference, student

GIB = 1 << 30


def compared(of: Run) -> StoredRun:
    return StoredRun(Path(f"{of.id}.jsonl"), replace(of, records=()), tuple(results(of)))


def against(*runs: Run) -> Comparison:
    return Comparison(tuple(map(compared, runs)))


def on(cpu: str, *records: Record, **more: Any) -> Run:
    """A run on a machine of this processor; the id is made of it."""
    about = {**MACHINE, "cpu": cpu, "name": f"{cpu.lower()}-2c-24g", **more.pop("machine", {})}
    return run(records, **{"id": f"{cpu.lower()}{len(records):08}", **more, "machine": about})


def a(effect: float, pair: str = "Pair", of: TipText | None = None, **more: Any) -> Record:
    """A pair whose `optimized` has this effect, in logarithms."""
    about = info(pair, tip=of or tip(), **more.pop("about", {}))
    return measured(about, {"optimized": effect}, **more)


# ---- numbers ----


def mean(values: Sequence[float]) -> Mean:
    return Mean(statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values) - 1)


def test_whether_two_means_differ_is_welchs_t_test() -> None:
    drawn = random.Random(1)
    first, second = [drawn.gauss(0.1, 0.01) for _ in range(6)], [drawn.gauss(0.13, 0.04) for _ in range(13)]
    expected = scipy.stats.ttest_ind(first, second, equal_var=False)
    assert difference(mean(first), mean(second)).p_beyond(0) == pytest.approx(float(expected.pvalue))


# ---- comparability ----


def graded(left: Mapping[str, Any], right: Mapping[str, Any]) -> Grade:
    """Of two runs alike but for these fields of `Run`; machine: what differs of it."""
    sides = (run(**{**side, "machine": {**COMPLETE, **side.get("machine", {})}}) for side in (left, right))
    return grade(*map(facts, sides))


CARD = {
    "name": "NVIDIA H100", "memory_bytes": 80 * GIB, "capability": "9.0", "max_sm_mhz": 1980, "max_memory_mhz": 2619,
    "power_limit_w": 700.0, "application_sm_mhz": 1980, "application_memory_mhz": 2619, "ecc": True, "mig": False,
    "compute_mode": "default", "driver": "580.1",
}  # fmt: skip
COMPLETE: dict[str, Any] = {
    **MACHINE, "logical_cores": 4, "numa_nodes": 1, "virtual": False, "architecture": "x86_64", "cpu_max_mhz": 3500.0,
    "smt": "on", "governor": "performance", "turbo": "on", "cpu_limit_mhz": 3500.0, "swap_bytes": 0,
    "transparent_huge_pages": "madvise", "address_randomisation": "2", "os": "Debian 12", "libc": "glibc 2.36",
    "torchvision": "0.29.2", "numpy": "2.4.6", "triton": "3.9.0", "compiler": "g++ 12", "gpus": [CARD],
}  # fmt: skip


@pytest.mark.parametrize(
    ("differing", "field", "expected"),
    [
        ({"machine": {"governor": "powersave"}}, "governor", STATE),
        ({"machine": {"torch": "2.14.0"}}, "torch", STATE),
        ({"machine": {"gpus": [{**CARD, "power_limit_w": 350.0}]}}, "gpu power_limit_w", STATE),
        ({"controls": {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"}}, "control heap", STATE),
        # glibc 2.34 refused the threshold above 32 MiB with which runs until 2026-11-27 had it keep its heap.
        ({"machine": {"libc": "glibc 2.34"}, "controls": HEAP_BEFORE}, "control heap", STATE),
        ({"machine": {"cpu": "Another"}}, "cpu", HARDWARE),
        ({"machine": {"memory_bytes": 12 * GIB}}, "memory_bytes", HARDWARE),
        ({"machine": {"gpus": [{**CARD, "name": "NVIDIA H200"}]}}, "gpu name", HARDWARE),
        ({"machine": {"gpus": [CARD, CARD]}}, "gpus", HARDWARE),
        ({"commit": "fedcba"}, "commit", SAME),
        ({"options": {"size": "M"}}, "size", SAME),
        ({"suite": "0.2.0"}, "suite", NOT),
        ({"options": {"bare": True}}, "bare", NOT),
    ],
)  # fmt: skip
def test_what_differs_is_named_and_graded(differing: Mapping[str, Any], field: str, expected: str) -> None:
    result = graded({"options": {"size": "S"}}, differing)
    assert result.grade == expected
    assert field in [difference.field for difference in result.differing]


@pytest.mark.parametrize(
    "differing",
    [
        {},
        {"machine": {"memory_bytes": COMPLETE["memory_bytes"] - 50_000_000}},
        {"commit": "0123456789ab"},
        {"commit": "fedcba-dirty"},  # a change that nobody committed may be any
        {"controls": {**HEAP_BEFORE, "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"}},
        {"machine": {"governor": "unavailable", "numa_nodes": "denied"}},
        {"machine": {"gpus": [{**CARD, "index": 3, "readings": {"sm_mhz": 1980}}]}},  # of older runs
        {"started": "2026-05-05T00:00:00+00:00", "id": "other", "options": {"seed": 5}},
    ],
)
def test_what_is_no_difference(differing: Mapping[str, Any]) -> None:
    assert graded({}, differing) == Grade(SAME, ())


@pytest.mark.parametrize("field", ["cpu", "memory_bytes"])
@pytest.mark.parametrize("value", [None, "unavailable", "denied"])
def test_hardware_is_never_the_same_where_the_processor_or_the_memory_is_not_known(field: str, value: Any) -> None:
    """Even where neither run has it."""
    machine = {name: each for name, each in {**COMPLETE, field: value}.items() if each is not None}
    of = facts(run(machine=machine))
    for other in (of, facts(run(machine=COMPLETE))):
        result = grade(of, other)
        assert (result.grade, [difference.field for difference in result.differing]) == (HARDWARE, [field])


def test_a_field_that_one_run_lacks_is_not_compared() -> None:
    less = {key: value for key, value in COMPLETE.items() if key != "smt"}
    less["gpus"] = [{key: value for key, value in CARD.items() if key != "mig"}]
    for sides in ((less, COMPLETE), (COMPLETE, less)):
        assert grade(*(facts(run(machine=machine)) for machine in sides)) == Grade(SAME, ())


# ---- across machines ----


def alone(*runs: Run) -> TipAcross:
    """What the machines say of the one tip that these runs have."""
    (across,) = tips(against(*runs))
    return across


@pytest.mark.parametrize(
    ("effects", "word"),
    [
        ([PAYS_ON_ALL, COSTS_ON_ALL], "reverses"),
        ([COSTS_ON_ALL, LITTLE_ON_ALL, PAYS_ON_ALL, UNSURE], "reverses"),
        ([PAYS_ON_ALL, LITTLE_ON_ALL], "pays on some"),
        ([PAYS_ON_ALL, ON_JOB], "pays on some"),
        ([PAYS_ON_ALL, NOTHING_TO_DO], "pays on some"),
        ([COSTS_ON_ALL, LITTLE_ON_ALL], "costs on some"),
        ([LITTLE_ON_ALL, ON_JOB, COSTS_ON_ALL], "depends on the job"),
        ([ON_JOB, ON_JOB], "depends on the job"),
        ([PAYS_ON_ALL, PAYS_ON_ALL, UNSURE], "pays on all"),
        ([COSTS_ON_ALL, COSTS_ON_ALL], "costs on all"),
        ([LITTLE_ON_ALL, LITTLE_ON_ALL], "little on all"),
        ([LITTLE_ON_ALL, NOTHING_TO_DO], "little on all"),
        ([NOTHING_TO_DO, NOTHING_TO_DO], "already the default"),
        ([PAYS_ON_ALL, UNSURE], "can't tell"),
        ([UNSURE, UNSURE, UNSURE], "can't tell"),
        ([COSTS_ON_ALL], "only seen on one"),
        ([], "not measured"),
    ],
)
def test_what_machines_say_together(effects: list[str], word: str) -> None:
    assert consistency_of(effects) == consistency_of(effects[::-1]) == word


def test_every_answer_has_a_part_in_what_machines_say_together() -> None:
    assert set(KINDS) - {IMPOSSIBLE} == set(EFFECTS)


@pytest.mark.parametrize(
    ("effects_of", "kinds", "expected", "agreed"),
    [
        ((0.3, -0.2, 0.25), ["use it", "don't", "use it"], "reverses", False),
        ((0.3, 0.3, 0.3), ["use it"] * 3, "pays on all", True),
        ((0.3, 0.9), ["use it", "use it"], "pays on all", True),
        ((0.3, 0.0), ["use it", "at most"], "pays on some", False),
    ],
)
def test_what_is_said_of_a_tip_across_machines(
    effects_of: Sequence[float], kinds: list[str], expected: str, agreed: bool
) -> None:
    whole = {"scale": "macro"}
    runs = [on(cpu, a(effect, spread=0.001, about=whole)) for cpu, effect in zip("ABC", effects_of, strict=False)]
    tip = alone(*runs)
    assert [answer.kind for answer in tip.answers if answer.answer] == kinds
    assert (tip.word, tip.agreed) == (expected, agreed)


@pytest.mark.parametrize(
    ("cpus", "title"), [("AB", "on 2 machines"), ("AA", "in 2 runs"), ("AAB", "in 3 runs"), ("ABC", "on 3 machines")]
)
def test_the_title_counts_machines_where_the_names_of_their_hardware_differ(cpus: str, title: str) -> None:
    comparison = against(*(on(cpu, a(0.3), id=f"{place}{place}000000") for place, cpu in enumerate(cpus)))
    assert compare.markdown(comparison).startswith(f"# PyTorch tuning tips {title}\n")


def test_less_memory_pays_whatever_it_costs_in_time() -> None:
    leaner = tip("checkpointing", Claim.LEANER)
    whole = {"scale": "macro"}
    runs = [on(cpu, a(-0.27, of=leaner, about=whole, memory=both(264, 610))) for cpu in ("A", "B")]
    assert alone(*runs).word == "pays on all"
    more = on("C", a(0.3, of=leaner, about=whole, memory=both(1600, 610)))
    assert alone(*runs, more).word == "reverses"


def test_whole_jobs_speak_before_operations() -> None:
    runs = [
        on(cpu, a(0.5, "Operation"), a(effect, "Job", about={"scale": "macro"}))
        for cpu, effect in (("A", 0.3), ("B", -0.3))
    ]
    across = alone(*runs)
    assert across.word == "reverses"
    assert [each.answer.gain.split()[0] for each in across.answers if each.answer] == ["Job", "Job"]


def test_two_different_jobs_are_no_reversal() -> None:
    first, second = (a(effect, job, about={"scale": "macro"}) for job, effect in (("X", 0.3), ("Y", -0.3)))
    assert alone(on("A", first), on("B", second)).word == "pays on some"


@pytest.mark.parametrize(
    "other",
    [
        a(-0.3, about={"sizes": {"batch": 64}}),
        a(-0.3, about={"file": "benchmarks/general/other.py"}),
        a(-0.3, of=tip(claim=Claim.LEANER), memory=both(1600, 610)),
    ],
)
def test_another_question_contradicts_no_answer(other: Record) -> None:
    runs = on("B", a(0.3), started="2026-04-01T00:00:00+00:00"), on("C", a(0.3)), on("A", other)
    across = alone(*runs)
    assert [answer.is_alike for answer in across.answers] == [True, True, False]
    assert (across.word, across.agreed) == ("pays on all", True)
    assert "(different question)" in compare.markdown(against(*runs))


def simulated(
    drawn: random.Random, cpu: str, truths: Sequence[float], spread: float = 0.02, launches: int = 9
) -> StoredRun:
    """A run whose pairs have these true effects, measured over launches that scatter."""
    made = []
    for number, truth in enumerate(truths):
        measured_as = student([drawn.gauss(truth, spread) for _ in range(launches)])
        made.append(as_measured(number, measured_as, decide(measured_as)))
    return StoredRun(Path(f"{cpu}.jsonl"), on(cpu), tuple(made))


def exactly(cpu: str, *sides: tuple[float, float, str]) -> StoredRun:
    """A run whose pairs have these means, standard errors over nine launches, and verdicts."""
    made = [as_measured(number, Mean(mean, error, 8.0), verdict) for number, (mean, error, verdict) in enumerate(sides)]
    return StoredRun(Path(f"{cpu}.jsonl"), on(cpu), tuple(made))


def as_measured(number: int, of: Mean, verdict: str) -> Result:
    """The only result of the tip of this number."""
    return replace(
        BLANK, tip=f"tip-{number}", pair=f"Pair{number}", verdict=verdict, launches=9, speedup=math.exp(of.mean),
        low=math.exp(of.interval()[0]), high=math.exp(of.interval()[1]), error=of.error, freedom=of.freedom,
    )  # fmt: skip


(BLANK,) = results(run([a(0.0)]))


# ---- the first screen ----


def first_screen(comparison: Comparison) -> tuple[str, list[list[str]]]:
    """What is above the words, and the rows of its table, as Markdown."""
    text = compare.markdown(comparison).split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return text, rows


def several(cpu: str, **effects_of: float) -> Run:
    """A run whose tips of these names have these effects in a whole job."""
    jobs = [
        a(effect, of=tip(name, title=name), about={"scale": "macro", "task": "training"}, spread=0.001)
        for name, effect in effects_of.items()
    ]
    return on(cpu, *jobs)


def test_the_first_table_has_every_answer_and_its_gain_reversals_first() -> None:
    comparison = against(
        several("A", same=0.3, none=0.0, turns=-0.3, some=0.3), several("B", same=0.31, none=0.0, turns=0.2, some=0.0)
    )
    text, (head, _, *rows) = first_screen(comparison)
    assert head == ["tip", "together", "a-2c-24g", "b-2c-24g", "only if"]
    assert [[row[0].removesuffix(": Training on a CPU"), *row[1:4]] for row in rows] == [
        ["turns", "reverses", "**don't** 0.74x", "**use it** 1.22x (1.18-1.26)"],
        ["some", "pays on some", "**use it** 1.3x (1.3-1.4)", "**at most 2 %**"],
        ["same", "pays on all", "**use it** 1.3x (1.3-1.4)", "**use it** 1.4x (1.3-1.4)"],
        ["none", "little on all", "**at most 2 %**", "**at most 2 %**"],
    ]
    assert "agree on 2 of 4 tips.** 1 reverse" in text


def test_what_none_can_try_is_a_line_and_no_row() -> None:
    nowhere = Record(
        info(tip=tip("cards", title="Use cards")), "skipped", Reason("needs.gpus", {"wanted": 1, "found": 0})
    )
    text, rows = first_screen(against(on("A", a(0.3), nowhere), on("B", a(0.3), nowhere)))
    assert len(rows) == 3
    assert "**Not possible on any of them:** Use cards." in text
    _, rows = first_screen(against(on("A", a(0.3)), on("B", a(0.3), nowhere)))
    assert not [row for row in rows if row[0].startswith("Use cards")]
    text = compare.markdown(against(on("A", a(0.3), nowhere), on("B", a(0.3))))
    assert "Skipped in all runs: cards " in text


# ---- every comparison ----


def words(comparison: Comparison) -> dict[str, list[str]]:
    return {row_name(key): [cell.word for cell in cells] for key, cells in comparison.cells.items()}


def test_what_is_not_there_is_shown_as_what_it_is() -> None:
    sync = info("Accumulation", tip=tip("no-sync"))
    failed = Record(sync, "failed", Reason("deadline", {}, "no answer within 300 s"))
    skipped = Record(sync, "skipped", Reason("needs.own", {}, "needs 2 cores: 1 found"))
    ended = on("C", planned=("no-sync.Accumulation", "made-up.Pair"))
    other = on("F", a(0.3), suite="0.2.0")
    bigger = a(0.3, about={"sizes": {"batch": 64}})
    comparison = against(
        on("A", a(0.3), a(0.1, "Accumulation", of=tip("no-sync"))), on("B", a(0.3), failed), ended, on("D", skipped),
        on("E", bigger), other,
    )  # fmt: skip
    assert words(comparison) == {
        "made-up.Pair": ["faster", "faster", "missing", "missing", "not comparable", "not comparable"],
        "no-sync.Accumulation": ["faster", "failed", "missing", "skipped", "missing", "not comparable"],
    }
    text = compare.markdown(comparison)
    for why in ("no answer within 300 s", "needs 2 cores", "batch 64", "suite 0.1.0 / 0.2.0"):
        assert why in text
    assert alone(on("A", a(0.3)), other).word == "only seen on one"


def test_a_file_that_could_not_be_imported_fails_all_its_pairs() -> None:
    broken = Record(replace(info(""), variants=()), "failed", Reason("import-error", {}, "no module named x"))
    assert words(against(on("A", a(0.3)), on("B", broken)))["made-up.Pair"] == ["faster", "failed"]


def test_controls_come_last() -> None:
    comparison = against(on("A", a(0.0, of=tip("control")), a(0.3)), on("B", a(0.3, "Other", of=tip("later")), a(0.3)))
    assert list(words(comparison)) == ["made-up.Pair", "later.Other", "control.Pair"]


def test_the_sizes_of_the_first_run_that_timed_a_pair_are_those_compared() -> None:
    old, skipped = a(0.3, about={"sizes": {"batch": 8}}), Record(info(), "skipped", NO_GPU)
    assert words(against(on("A", skipped), on("B", old), on("C", a(0.3)), on("D", old)))["made-up.Pair"] == [
        "skipped", "faster", "not comparable", "faster",
    ]  # fmt: skip


def test_columns_are_named_by_machine_and_by_day_where_that_is_not_enough() -> None:
    first, second = "2026-03-01-12345678", "2026-04-01-feedbeef"
    runs = on("A", a(0.3), id="1234567890"), on("A", a(0.3), id="feedbeef1", started="2026-04-01T00:00:00+00:00")
    assert against(*runs).labels == (first, second)
    assert against(*runs, on("B", a(0.3))).labels == (f"a-2c-24g {first}", f"a-2c-24g {second}", "b-2c-24g")
    assert against(runs[0], runs[0]).labels == (f"{first} #1", f"{first} #2")


# ---- the gate ----


def worsened(old: Run, new: Run) -> list[str]:
    return [change.key[1] for change in gate(against(old, new)).changes if change.worsened]


@pytest.mark.parametrize(
    ("old", "new", "fires"),
    [
        (0.3, 0.0, True),
        (0.3, -0.2, True),
        (0.0, -0.2, True),
        (0.3, 0.15, False),  # still faster
        (0.0, 0.3, False),
        (-0.2, -0.4, False),  # was slower before
        (0.3, 0.3, False),
    ],
)
def test_the_gate_fires_when_a_verdict_falls(old: float, new: float, fires: bool) -> None:
    runs = (on("A", a(old, spread=0.001)), on("A", a(new, spread=0.001), id="new"))
    assert worsened(*runs) == ["Pair"] * fires


def test_a_verdict_that_falls_by_chance_does_not_fire_the_gate() -> None:
    old, new = on("A", a(0.05, spread=0.015, launches=18)), on("A", a(0.03, spread=0.05, launches=18), id="new")
    assert [effect.verdict for effect in (*results(old), *results(new))] == ["faster", "inconclusive"]
    assert worsened(old, new) == []


def test_less_gain_under_the_same_verdict_is_weaker_and_no_worse() -> None:
    (change,) = gate(against(on("A", a(0.6)), on("A", a(0.3), id="new"))).changes
    assert (change.is_weaker, change.worsened) == (True, False)


def test_the_same_truth_twice_hardly_ever_fires_the_gate() -> None:
    """A/A: a suite of thirty pairs, a hundred times. The rate that is promised is one suite in twenty."""
    drawn = random.Random(3)
    fired = 0
    for _ in range(100):
        truths = [drawn.choice([0.0, 0.01, 0.02, 0.05, 0.3, -0.02, -0.2]) for _ in range(30)]
        old, new = (simulated(drawn, "A", truths) for _ in range(2))
        fired += any(change.worsened for change in gate(Comparison((old, new))).changes)
    assert fired <= 5


def test_among_many_comparisons_each_needs_more() -> None:
    """A p-value of 0.02 is enough alone, and not among forty."""
    fell, same = ((0.061, 0.01, "faster"), (0.012, 0.01, "no difference")), ((0.0, 0.01, "no difference"),) * 2
    for others, enough in ((0, True), (39, False)):
        old, new = (exactly("A", fell[side], *[same[side]] * others) for side in (0, 1))
        (change, *_) = gate(Comparison((old, new))).changes
        assert 0.01 < change.ratio.p_beyond(math.log(1.01)) < 0.05
        assert (change.is_weaker, change.worsened) == (enough, enough)


def test_controls_are_not_gated_but_named_where_they_were_called_different(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = on("A", a(0.3), a(0.3, "Gelu", of=tip("control")), id="old00000")
    noisy = on("A", a(0.3), a(-0.2, "Gelu", of=tip("control")), id="new00000")
    result = gate(against(fine, noisy))
    assert ([change.key[1] for change in result.changes], result.failures, result.uncompared) == (["Pair"], (), ())
    assert gated(tmp_path, fine, noisy, "slower") == 0
    assert "Gelu slower in 2026-03-01-new00000" in capsys.readouterr().out
    assert "called different (Gelu " in compare.markdown(against(fine, noisy))


def gated(tmp_path: Path, old: Run, new: Run, *conditions: str, confirm: str = "") -> int:
    files = [str(stored(tmp_path, of)) for of in (old, new)]
    once_more = ["--confirm", confirm] if confirm else []
    return main(["compare", *(word for each in conditions for word in ("--fail-if", each)), *once_more, *files])


def test_a_verdict_that_fell_is_named_with_the_command_that_measures_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gated(tmp_path, on("A", a(0.3), id="good0000"), on("A", a(0.0), id="bad00000"), "slower") == 1
    shown = capsys.readouterr().out
    assert "worsened: made-up.Pair: faster 1.350x" in shown
    assert "to be sure: tipbench run made-up.Pair\n" in shown
    assert shown.endswith("\nfailed\n")


def test_what_alarmed_is_timed_once_more_before_the_gate_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, by_chance = a(0.3), a(0.0, launches=3)
    old, new = (on("A", pair, a(0.3, "Other"), id=id) for pair, id in ((good, "old00000"), (by_chance, "new00000")))
    asked: list[Options] = []

    def calmer(options: Options) -> None:
        asked.append(options)
        launches = (*by_chance.launches, *(replace(launch, session=1) for launch in good.launches))
        pair, later = replace(by_chance, launches=launches), ("2026-03-02T09:30:00+00:00",)
        next(options.results.rglob("*new00000.jsonl")).unlink()
        stored(options.results, replace(new, records=(pair, *new.records[1:]), later=later))

    monkeypatch.setattr("tipbench.engine.run.measure_machine", calmer)
    assert [gated(tmp_path / f"to{time}", old, new, "slower", confirm=time) for time in ("", "5m")] == [1, 0]
    assert [(each.names, each.results, each.budget_s) for each in asked] == [(["made-up.Pair"], tmp_path / "to5m", 300)]
    assert gated(tmp_path, old, new, confirm="5m") == 2


def test_a_damaged_run_is_named_and_never_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = on("A", a(0.3), a(0.3, "Other"), id="old00000"), on("A", a(0.3), a(0.3, "Other"), id="new00000")
    assert gated(tmp_path, old, new, "slower") == 0
    (damaged,) = tmp_path.rglob("*new00000.jsonl")
    damaged.write_bytes(damaged.read_bytes().replace(b'"version":1,"steps":10', b'"version":1,"steps":11', 1))
    files = [str(file) for file in sorted(tmp_path.rglob("*.jsonl"), reverse=True)]
    capsys.readouterr()
    assert main(["compare", "--fail-if", "slower", *files]) == 3
    assert f"tipbench: {damaged.name}, line 3: not used: changed after it was written" in capsys.readouterr().err


def test_a_pair_that_fails_now_is_named_and_gated_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Record(info(), "failed", Reason("different-results", {}, "2.0 instead of 1.0"))
    old, new = on("A", a(0.3), a(0.3, "Other"), id="old00000"), on("A", broken, a(0.3, "Other"), id="new00000")
    assert gated(tmp_path / "1", old, new, "slower") == 0
    assert "failed now: made-up.Pair: " in capsys.readouterr().out
    assert gated(tmp_path / "2", old, new, "slower", "failed") == 1


FEW = a(0.3, launches=3)
"""Too few launches for a verdict: measured, and not to be compared."""
BROKEN = Record(info(), "failed", Reason("different-results", {}, "2.0 instead of 1.0"))
SKIPPED = Record(info(), "skipped", Reason("needs.gpus", {"wanted": 1, "found": 0}))


@pytest.mark.parametrize(
    ("old", "new", "slower", "failed"),
    [
        (a(0.3), on("A", a(0.3), suite="0.2.0"), 3, 3),
        (a(0.3), on("A", a(0.3, "Other")), 3, 3),
        (a(0.3), on("A", a(0.3, about={"sizes": {"batch": 1}})), 3, 3),
        (a(0.3), on("A", a(0.3, of=tip("control"))), 3, 3),
        (a(0.3), on("A", SKIPPED), 3, 3),
        (a(0.3), on("A", a(0.3, "Other"), planned=("made-up.Pair", "made-up.Other")), 3, 3),
        (SKIPPED, on("A", a(0.3)), 3, 3),
        (BROKEN, on("A", a(0.3)), 3, 3),
        (BROKEN, on("A", BROKEN), 3, 3),
        (a(0.3), on("A", FEW), 0, 0),
        (FEW, on("A", FEW), 0, 0),
        (a(0.3), on("A", BROKEN), 3, 1),
        (FEW, on("A", BROKEN), 3, 1),
        (a(0.3), on("A", a(0.3)), 0, 0),
    ],
)
def test_a_gate_that_cannot_judge_says_so_and_ends_with_3(
    tmp_path: Path, old: Record, new: Run, slower: int, failed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = on("A", old, id="old00000"), replace(new, id="new00000")
    cases = {("slower",): slower, ("failed",): failed, ("slower", "failed"): 1 if 1 in (slower, failed) else slower}
    for number, (conditions, code) in enumerate(cases.items()):
        assert gated(tmp_path / str(number), *runs, *conditions) == code
        shown, errors = capsys.readouterr()
        assert shown.splitlines()[-1].startswith({0: "passed", 1: "failed", 3: "not judged: "}[code])
        assert (code == 3) == ("measure the same pairs" in shown)
        assert errors == ""


# ---- what is named on the command line ----


def refused(arguments: Sequence[object], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["compare", *map(str, arguments)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("tipbench: ")
    assert message.count("\n") == 1
    return message


def test_files_and_folders_name_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = stored(tmp_path, on("A", a(0.3), id="aaaa1111"))
    second = stored(tmp_path, on("B", a(0.3), id="bbbb2222"))
    shown = []
    for named in ([first, second], [tmp_path], [first.parent, second]):
        assert main(["compare", *map(str, named)]) == 0
        shown.append(capsys.readouterr())
    assert len(set(shown)) == 1
    assert "pays on all" in shown[0].out


@pytest.mark.parametrize(
    ("days", "scales", "counts"),
    [
        ((1, 2), ("macro", "macro"), 1),
        ((2, 1), ("macro", "macro"), 0),
        ((1, 2), ("macro", "micro"), 0),
        ((1, 2), ("micro", "micro"), 1),
    ],
)
def test_of_a_folder_the_newest_run_of_jobs_of_each_machine_counts(
    tmp_path: Path, days: Sequence[int], scales: Sequence[str], counts: int, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        on("A", a(0.3, about={"scale": scale}), id=f"aaaa{day:04}", started=f"2026-04-0{day}T00:00:00+00:00")
        for day, scale in zip(days, scales, strict=True)
    ]
    files = [stored(tmp_path, of) for of in (*runs, on("B", a(0.3)))]
    shipped = stored(tmp_path / "reference", on("A", a(0.3), id="aaaa9999"))
    comparison = compare.read_comparison([str(tmp_path)])
    assert [each.file for each in comparison.runs] == [files[counts], files[2], shipped]
    assert comparison.notes == (
        f"a-2c-24g: {files[counts].stem} counts; older, or without a whole job: {files[1 - counts].stem}",
    )
    named = compare.read_comparison(list(map(str, files)))
    assert ([each.file for each in named.runs], named.notes) == (files, ())
    assert main(["compare", str(tmp_path), "--out", str(tmp_path)]) == 0
    assert f"tipbench: a-2c-24g: {files[counts].stem} counts" in capsys.readouterr().err


def test_a_run_is_read_as_it_is_compared(tmp_path: Path) -> None:
    made = realistic()
    read = read_run(stored(tmp_path, made))
    assert read.run.records == ()
    assert (read.run.id, read.run.planned, read.run.machine) == (made.id, made.planned, made.machine)
    assert len(read.results) > 15
    assert read.results[0].verdict == "no difference"
    assert read.notices == ()


def test_sessions_of_a_day_are_set_beside_those_of_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = a(0.0), a(0.3)
    launches = (*before.launches, *(replace(launch, session=1) for launch in after.launches))
    both_days = on("A", replace(before, launches=launches), later=("2026-03-02T09:30:00+00:00",))
    file = stored(tmp_path, both_days)
    comparison = compare.read_comparison([f"{file}@2026-03-01", f"{file}@2026-03-02"])
    assert [round(stored.results[0].speedup or 0, 2) for stored in comparison.runs] == [1.0, 1.35]
    assert "has no session of 2026-03-03 that timed a pair" in refused([f"{file}@2026-03-03", file], capsys)


def test_what_cannot_be_compared_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = stored(tmp_path / "good", on("A", a(0.3), id="aaaa1111"))
    other = stored(tmp_path / "good", on("B", a(0.3), id="aaaa2222"))
    third = stored(tmp_path / "third", on("C", a(0.3), id="cccc1111"))
    empty = stored(tmp_path / "empty", on("A", id="eeee1111"))
    changed = stored(tmp_path / "changed", on("A", a(0.2), id="aaaa1111"))
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(dump_line({**parse_line(good.read_bytes().partition(b"\n")[0]), "schema": 99}))
    for words, why in (
        ([good], "1 run to compare"),
        ([good, good], f"{good.name} has the run id of {good.name})"),
        ([tmp_path / "none.jsonl", good], "none.jsonl cannot be read"),
        ([newer, good], "newer.jsonl, line 1: schema 99; this version of tipbench reads"),
        ([empty, good], "holds no finished pair"),
        ([changed, good], f"{good.name} has the run id of {good.name}, and other contents"),
        (["--fail-if", "slower", empty, good], "1 run to compare"),
        (["--out", good / "nowhere.md", good, other], "nowhere.md"),
        (["--fail-if", "slower", good, other, third], "--fail-if takes two runs"),
    ):
        assert why in refused(words, capsys)


def test_what_is_left_out_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = stored(tmp_path, on("A", a(0.3), a(0.2, "Other"), id="aaaa1111"))
    first.write_bytes(first.read_bytes()[:-50])
    second = stored(tmp_path, on("B", a(0.3), id="bbbb2222"))
    third = stored(tmp_path, on("C", id="cccc3333"))
    copy = tmp_path / "2026-03-02-copy.jsonl"
    copy.write_bytes(first.read_bytes())
    for named in ([tmp_path], [copy, first, second, third]):
        assert main(["compare", *map(str, named)]) == 0
        shown, errors = capsys.readouterr()
        for note in (
            "left out: 2026-03-01-cccc3333.jsonl holds no finished pair",
            "left out: 2026-03-01-aaaa1111.jsonl has the run id of 2026-03-02-copy.jsonl",
            "2026-03-02-copy.jsonl, line 15: truncated",
        ):
            assert f"- {note}" in shown
            assert f"tipbench: {note}" in errors
        assert str(tmp_path) not in shown, "a path is nobody else's"


# ---- what is rendered ----


def test_every_outcome_of_a_real_run_can_be_compared_in_every_format(tmp_path: Path) -> None:
    made = realistic()
    other = replace(made, id="other", machine={**made.machine, "cpu": "B", "name": "b"}, records=made.records[3:])
    for format, title in (("md", "# {}\n"), ("html", "<title>{}</title>")):
        (file,) = compare.show(against(made, other), format, tmp_path)
        assert "channels-last" in file.read_text()
        assert title.format("PyTorch tuning tips on 2 machines") in file.read_text()


def test_the_same_runs_give_the_same_bytes_and_printing_them_imports_little(tmp_path: Path) -> None:
    made = realistic()
    files = [str(stored(tmp_path, each)) for each in (made, on("B", *made.records, id="other"))]
    program = f"import sys; from tipbench.cli import main; main(['compare', *{files!r}]); "
    program += "sys.exit(bool({'torch', 'pandas', 'matplotlib', 'scipy.stats'} & set(sys.modules)))"
    first, second = (
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        for seed in "12"
    )
    assert first.stdout == second.stdout != b""
