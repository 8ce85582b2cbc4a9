"""What earlier runs of a machine spare a run, and when they spare it nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import both, count, info, launch, measured, run, tip, trainings
from tipbench.engine.compiled import kept_for
from tipbench.engine.known import AGAIN, Known, known, settled
from tipbench.records.record import Record, Run
from tipbench.report.answer import answers
from tipbench.report.results import results
from tipbench.tip.pair import Claim

PAIRS = [info(f"Pair{number}") for number in range(2 * AGAIN)]
READ: dict[str, Any] = {
    "memory": both(400, 500),
    "one_off": {"baseline": {"build": 0.1}, "optimized": {"build": 0.2}},
    "mechanism": count("operations", 5, optimized=1),
}
NEW = run(id="c0ffee", started="2026-03-02T09:30:00+00:00")


def before(effect: float = 0.3, records: Mapping[int, Record] | None = None, **about: Any) -> Run:
    made = [measured(pair, {"optimized": effect}, **READ) for pair in PAIRS]
    return run([(records or {}).get(number, record) for number, record in enumerate(made)], **about)


def found(*earlier: Run, of: Run = NEW) -> Known:
    return known(of, earlier, PAIRS)


def test_checks_and_memory_of_the_same_code_are_taken_over_but_for_one_in_ten() -> None:
    taken = found(before()).records
    assert len(taken) == len(PAIRS) - len(PAIRS) // AGAIN
    record = next(iter(taken.values()))
    assert (record.launches, record.steps, record.known_from) == ((), 0, before().id)
    assert record.variants == before().records[0].variants
    others = found(before(), of=replace(NEW, id="facade")).records
    assert set(others) != set(taken), "each run checks others again"


@pytest.mark.parametrize(
    "other",
    [{"commit": "f" * 40}, {"commit": "0123456789abcdef0123456789abcdef01234567-dirty"}, {"commit": ""}],
)
def test_another_commit_and_none_spare_no_check(other: dict[str, Any]) -> None:
    assert not found(before(**other)).records
    assert not found(before(**other), of=replace(NEW, **other)).records or other["commit"] == "f" * 40


@pytest.mark.parametrize(
    "more", [{"sizes": {"batch": 64}}, {"code": {"optimized": "another"}}, {"needs": ("compiler",)}]
)
def test_a_pair_that_has_changed_is_checked(more: dict[str, Any]) -> None:
    changed = [replace(pair, **more) for pair in PAIRS]
    assert not known(NEW, [before()], changed).records


def test_whole_trainings_are_drawn_anew() -> None:
    trained = measured(PAIRS[0], {"optimized": 0.3}, trainings=trainings(baseline=(1, 2), optimized=(1, 2)), **READ)
    for number in range(AGAIN):
        assert trained.name not in found(before(records={0: trained}), of=replace(NEW, id=str(number))).records


def test_what_was_taken_over_is_not_taken_over_from_there() -> None:
    second = before(id="5ec0d", records={0: replace(before().records[0], known_from=before().id)})
    taken = [found(before(), second, of=replace(NEW, id=str(number))).records.get(PAIRS[0].name) for number in range(9)]
    assert {record.known_from for record in taken if record} == {before().id}


def test_runs_that_disagree_spare_no_check_at_all() -> None:
    idle = measured(PAIRS[3], {"optimized": 0.3}, **READ | {"mechanism": {}})
    doubted = found(before(), before(id="5ec0d", records={3: idle}))
    assert (doubted.records, doubted.doubted) == ({}, [PAIRS[3].name])
    assert len(doubted.decided) == len(PAIRS)


def test_a_variant_is_decided_by_itself() -> None:
    several = info("Several", ["a", "b"])

    def decided(**effects: float) -> dict[str, int]:
        made = measured(several, effects, spread=0.01)
        found = known(NEW, [run([made])], [several]).decided
        return {name: len(launches) for of_pair in found.values() for name, launches in of_pair.items()}

    assert decided(a=0.3, b=0.0) == {"a": 6, "b": 6}
    assert decided(a=0.3, b=0.02) == {"a": 6}
    assert decided(a=0.02, b=0.02) == {}


def test_a_pair_that_a_later_run_left_open_is_open() -> None:
    about = info()
    clear, unclear = (measured(about, {"optimized": 0.3}, spread=spread) for spread in (0.002, 0.5))
    once = replace(clear, launches=clear.launches[:1])
    assert known(NEW, [run([clear]), run([once])], [about]).decided
    assert not known(NEW, [run([clear]), run([unclear])], [about]).decided


def test_other_texts_and_another_line_leave_a_pair_decided_and_other_sizes_do_not() -> None:
    def decides(**more: Any) -> bool:
        return bool(known(NEW, [run([measured(PAIRS[0], {"optimized": 0.3})])], [replace(PAIRS[0], **more)]).decided)

    assert decides(line=99, tip=tip(title="Put otherwise"))
    assert not decides(sizes={"batch": 64})


@pytest.mark.parametrize(("effect", "is_settled"), [(0.30, True), (0.27, True), (0.20, False), (0.40, False)])
def test_one_launch_that_is_as_expected_is_enough(effect: float, is_settled: bool) -> None:
    effects = found(before(0.3)).decided[PAIRS[0].name]
    once = replace(before().records[0], launches=(launch({"optimized": effect}, seed=9),))
    assert bool(settled(once, effects, cores=2)) == is_settled
    assert not settled(replace(once, launches=()), effects, cores=2)
    assert not settled(once, {}, cores=2)


def test_memory_that_was_taken_over_counts_once() -> None:
    """Two runs that read it would be surer of it than one."""
    lean = measured(info(tip=tip(claim=Claim.LEANER), scale="macro"), {"optimized": 0.0}, memory=both(700, 900))
    over = replace(lean, launches=lean.launches[:1], known_from="3f9a1c07")
    (alone,), (twice,), (anew,) = (
        answers(runs)
        for runs in (
            [results(run([lean]))],
            [results(run([lean])), results(run([over], id="5ec0d"))],
            [results(run([lean])), results(run([lean], id="5ec0d"))],
        )
    )
    assert (alone.runs, twice.runs, anew.runs) == (1, 1, 2)
    assert twice.gain == alone.gain


def test_what_is_compiled_is_kept_for_the_same_code_until_it_is_not_used_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = kept_for(NEW)
    assert first is not None
    (first / "inductor").mkdir()
    assert kept_for(replace(NEW, id="5ec0d")) == first
    others = [{**NEW.machine, "stepping": 2}, {**NEW.machine, "torch": "2.16.0"}]
    assert len({first, *(kept_for(replace(NEW, machine=machine)) for machine in others), None}) == 4
    assert (first / "inductor").exists(), "another machine with the same home may be using it"
    monkeypatch.setattr("platform.node", lambda: "another")
    elsewhere = kept_for(NEW)
    assert elsewhere not in (None, first)
    os.utime(first, (0, 0))
    assert kept_for(NEW) == elsewhere
    assert not first.exists()


def test_nothing_is_kept_without_a_commit_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept_for(replace(NEW, commit="")) is None
    assert kept_for(replace(NEW, commit=f"{NEW.commit}-dirty")) is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_for(NEW) is None
