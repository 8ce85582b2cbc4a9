"""The course of an advice, from the tips alone to its page, where what each tip brings is known and measuring is made
up: only the time that it would take passes, on a clock of the test's own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import info, measured, run, stored, tip
from tests.test_advise_page import C_CHANGES_RESULTS, SURVEY
from tipbench.advise import command, curves, parts
from tipbench.engine import run as run_file
from tipbench.engine.lock import Busy, only_run
from tipbench.given.curve import JobCurve
from tipbench.given.survey import Survey

Gain = Callable[[frozenset[str]], float]
"""ln of what tips that are followed together bring over the job as it is."""


class Machine:
    """Takes the place of `engine.run`, and of the clock.

    gain: what tips bring here. parts: the parts of advices that were begun, and those that were gone on with. short: of
    these parts nothing but a first launch is made, which takes launch_s for each pair. late: these reach no pair before
    they are gone on with. interrupted: the part in which somebody types Ctrl-C.
    """

    Options, interrupted = run_file.Options, ""

    def __init__(self, gain: Gain, short: Iterable[str] = (), launch_s: float = 5.0, late: Iterable[str] = ()) -> None:
        self.gain = gain
        self.launch_s = launch_s
        self.short = set(short)
        self.late = set(late)
        self.parts: list[str] = []
        self.further: list[str] = []
        self.now = 0.0
        self._begun: dict[str, run_file.Options] = {}

    def monotonic(self) -> float:
        return self.now

    def measure_machine(self, options: run_file.Options) -> tuple[int, Path]:
        self.now += options.budget_s
        part = options.results.name
        if not (files := [*options.results.rglob("*.jsonl")]):
            self.parts.append(part)
            self._begun[part] = options
            return 130 if part == self.interrupted else 0, self._launched(options)
        self.further.append(part)
        if part in self._begun:
            files[0].unlink()
            self._launched(self._begun[part])
        return 0, files[0]

    def _launched(self, options: run_file.Options) -> Path:
        launches = 1 if options.results.name in self.short else 6
        records = []
        reached = options.results.name not in self.late or options.results.name in self.further
        for file in sorted(options.pairs.glob("*.pair.json")) if reached else []:
            pair = json.loads(file.read_text())
            baseline = self._gain(pair["sides"].pop("baseline"))
            effects = {side: self._gain(ways) - baseline for side, ways in pair["sides"].items()}
            about = info(pair["name"], list(effects), tip=tip(file.name.removesuffix(".pair.json")), scale="macro")
            wall_s = launches * self.launch_s
            records.append(replace(measured(about, effects, launches=launches), wall_s=wall_s))
        header = {"folder": options.folder, "given": options.given}
        return stored(options.results, run(records, options=header))

    def _gain(self, ways: Iterable[str]) -> float:
        return self.gain(frozenset(ways))


def summed(**brings: float) -> Gain:
    return lambda ways: sum(brings.get(name, 0.0) for name in ways)


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[..., dict[str, Any]]]:
    """For a machine: what makes an advice there, and returns what `advice.json` says."""
    (tmp_path / "train.py").touch()
    folders = tmp_path / "advice"

    def machine(made: Machine, survey: Survey = SURVEY) -> Callable[..., dict[str, Any]]:
        monkeypatch.setattr(parts, "run", made)
        monkeypatch.setattr(parts, "time", made)
        monkeypatch.setattr(command, "survey_job", lambda *_: survey)
        monkeypatch.setattr(command, "time", made)
        monkeypatch.setattr(command, "describe_load", lambda: "")
        monkeypatch.setattr(curves, "sweep_job", lambda target, what, within_s: JobCurve(what))

        def advise(budget_s: float = 1200.0, **options: Any) -> dict[str, Any]:
            typed = command.AdviseOptions([f"{tmp_path / 'train.py'}:job"], folders, budget_s, **options)
            assert command.begin(typed) == (130 if made.interrupted else 0)
            (file,) = folders.glob("*/advice.json")
            return json.loads(file.read_text())  # type: ignore[no-any-return]

        return advise

    return machine


def members(advice: Mapping[str, Any]) -> list[str]:
    return [member["name"] for member in advice["together"]["members"]] if advice["together"] else []


def test_the_tips_that_pay_are_measured_together(on: Callable[..., Any]) -> None:
    machine = Machine(summed(a=0.3, b=0.2))
    advice = on(machine)()
    assert machine.parts == ["alone", "together-1"]
    assert members(advice) == ["a", "b"]
    assert advice["together"]["gain"] == pytest.approx(math.exp(0.5), rel=1e-3)
    assert advice["together"]["low"] < advice["together"]["gain"] < advice["together"]["high"]
    gains = [member["gain"] for member in advice["together"]["members"]]
    assert gains == pytest.approx([math.exp(0.3), math.exp(0.2)], rel=1e-3)
    assert [(tip["name"], tip["word"]) for tip in advice["tips"][:2]] == [("a", "faster"), ("b", "faster")]


def test_ways_that_act_on_what_limits_a_step_come_first_where_they_apply(on: Callable[..., Any]) -> None:
    first: dict[str, dict[str, Any]] = {"b": {"first": 1}, "c": {"first": 2, "why_not": "it is fused already"}}
    machine = Machine(summed(a=0.3))
    on(machine, replace(SURVEY, ways=[replace(way, **first.get(way.name, {})) for way in SURVEY.ways]))()
    assert machine._begun["alone"].first == ("b.Alone",)


def test_one_lock_is_held_from_survey_to_last_part(on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        with pytest.raises(Busy), only_run():
            raise AssertionError("another run could begin")

    machine = Machine(summed(a=0.3, b=0.2))
    advise = on(machine)
    measured = machine.measure_machine

    def surveyed(target: str, until: float) -> Survey:
        refused()
        return SURVEY

    def beside(options: run_file.Options) -> Any:
        refused()
        assert options.given
        return measured(options)

    monkeypatch.setattr(command, "survey_job", surveyed)
    monkeypatch.setattr(machine, "measure_machine", beside)
    assert members(advise()) == ["a", "b"]
    with only_run():
        pass


def test_of_two_that_lose_together_what_each_gains_one_is_left(on: Callable[..., Any]) -> None:
    brings = {frozenset("a"): 0.4, frozenset("b"): 0.3, frozenset("ab"): 0.1}
    advice = on(Machine(lambda ways: brings.get(ways, 0.0)))()
    assert members(advice) == ["a"]
    assert advice["together"]["gain"] == pytest.approx(math.exp(0.4), rel=1e-3)


def test_who_brings_what_another_brings_already_is_left_out_and_named(
    on: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    advice = on(Machine(lambda ways: max([{"a": 0.4, "b": 0.3}.get(name, 0.0) for name in ways] or [0.0])))()
    assert members(advice) == ["a"]
    assert "Left out: do b, 1.00" in capsys.readouterr().out


def test_where_nothing_pays_all_the_time_is_for_the_tips_alone(on: Callable[..., Any]) -> None:
    machine = Machine(summed(a=-0.2))
    advice = on(machine)(budget_s=600.0)
    assert (machine.parts, machine.further) == (["alone"], ["alone", "alone"])
    assert 600.0 - parts.LEAST_S <= machine.now <= 600.0
    assert advice["together"] is None
    assert advice["conclusion"].startswith(
        "Nothing worth changing: no tip that leaves the results as they are brings more"
    )


@pytest.mark.parametrize("survey_s", [10.0, 50.0, 74.9])
def test_an_advice_ends_within_its_budget_however_long_the_survey_took(
    on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, survey_s: float
) -> None:
    machine = Machine(summed(a=0.3), short=["alone"])
    advise = on(machine)

    def surveyed(target: str, until: float) -> Survey:
        assert until == 75.0
        machine.now += survey_s
        return SURVEY

    monkeypatch.setattr(command, "survey_job", surveyed)
    advice = advise(budget_s=75.0)
    assert machine.now <= 75.01
    assert members(advice) == (["a"] if survey_s == 10.0 else [])


def test_where_too_few_launches_say_what_pays_that_is_said(on: Callable[..., Any]) -> None:
    advice = on(Machine(summed(a=0.04), short=["alone"]))()
    assert advice["conclusion"] == "Nothing worth changing was found yet: 1 of 3 tips needs more launches"


def test_a_short_time_leaves_out_no_member(on: Callable[..., Any]) -> None:
    machine = Machine(summed(a=0.3, b=0.06), short=["alone"])
    assert members(on(machine)(budget_s=60.0)) == ["a"]
    assert machine.parts == ["alone", "together"]


def test_an_advice_that_is_interrupted_says_what_it_knows(on: Callable[..., Any]) -> None:
    machine = Machine(summed(a=0.3))
    machine.interrupted = "alone"
    advice = on(machine)()
    assert [(tip["name"], tip["word"]) for tip in advice["tips"][:1]] == [("a", "faster")]
    assert members(advice) == []


@pytest.mark.parametrize(("launch_s", "part"), [(3.0, "together-1"), (10.0, "together")])
def test_members_are_left_out_in_turn_only_where_launches_enough_for_a_verdict_are_expected_to_fit(
    on: Callable[..., Any], launch_s: float, part: str
) -> None:
    machine = Machine(summed(a=0.3, b=0.2), short=["alone"], launch_s=launch_s)
    assert members(on(machine)(budget_s=240.0)) == ["a", "b"]
    assert machine.parts == ["alone", part]


def test_nobody_leaves_whom_no_launch_was_made_of(on: Callable[..., Any]) -> None:
    """A check that took a part's whole share looked like members that fail together."""
    machine = Machine(summed(a=0.3, b=0.2), late=["together-1"])
    assert members(on(machine)()) == ["a", "b"]
    assert (machine.parts, machine.further) == (["alone", "together-1"], ["together-1"])


def test_what_changes_results_stands_by_itself(on: Callable[..., Any], tmp_path: Path) -> None:
    advice = on(Machine(summed(a=0.3, c=0.5)), C_CHANGES_RESULTS)()
    assert members(advice) == ["a"]
    assert [line.partition(":")[0] for line in advice["lossy"]] == ["do c"]
    (program,) = tmp_path.rglob("tuned.py")
    assert "LOSSY = ('c',)" in program.read_text()
