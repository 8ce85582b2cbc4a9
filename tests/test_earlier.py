"""All runs of a machine count together: which they are, and that every page of them gives the same answers."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import MACHINE, info, measured, run, stored, tip
from tests.published import of
from tipbench import compare
from tipbench.cli import main
from tipbench.publish.allowed import Allowed, allowed, with_earlier
from tipbench.records import store
from tipbench.records.record import Record, Run
from tipbench.report import earlier_runs, one_liners, render
from tipbench.report.answer import Answer, answers
from tipbench.report.answer_kinds import IMPOSSIBLE
from tipbench.report.earlier import MOST, earlier
from tipbench.report.results import results

RESULTS = Path(__file__).parent.parent / "results/reference"


def job(effect: float, **about: Any) -> Record:
    return measured(info("Job", scale="macro", **about), {"optimized": effect})


def on_day(day: int, *records: Record, **more: Any) -> Run:
    """A run of this machine on that day in March; its id begins with the day."""
    started = f"2026-03-{day:02}T09:30:00+00:00"
    about = {"id": f"{day:02}" * 16, "started": started, **more}
    return run(records or [job(0.06)], **about)


# ---- which they are ----


def test_runs_of_the_same_machine_that_began_before_are_found_oldest_first(tmp_path: Path) -> None:
    files = [stored(tmp_path, on_day(day)) for day in (3, 1, 2, 4)]
    first, second, third, last = sorted(files)
    assert earlier(last, on_day(4)) == [first, second, third]
    assert earlier(second, on_day(2)) == [first]
    assert earlier(first, on_day(1)) == []


@pytest.mark.parametrize(
    "other",
    [
        {"machine": {**MACHINE, "torch": "2.14.0"}},
        {"machine": {**MACHINE, "kernel": "6.18.45"}},
        {"machine": {**MACHINE, "cpu": "Another"}},
        {"machine": {**MACHINE, "cpu": "unavailable"}},
        {"suite": "0.2.0"},
        {"controls": {}},
        {"options": {"bare": True}},
    ],
)
def test_runs_of_another_machine_state_or_suite_do_not_count(tmp_path: Path, other: dict[str, Any]) -> None:
    stored(tmp_path, on_day(1, **other))
    assert earlier(stored(tmp_path, on_day(2)), on_day(2)) == []


def test_copies_count_once_and_files_that_cannot_be_read_not_at_all(tmp_path: Path) -> None:
    first, last = stored(tmp_path, on_day(1)), stored(tmp_path, on_day(2))
    for name in ("copy.jsonl", "another.jsonl"):
        shutil.copy(first, first.with_name(name))
    shutil.copy(last, last.with_name("same.jsonl"))
    first.with_name("damaged.jsonl").write_text("{}")
    first.with_name("folder.jsonl").mkdir()
    assert len(earlier(last, on_day(2))) == 1
    assert [run.id for run in earlier_runs(last, on_day(2))] == [on_day(1).id]


def test_of_many_runs_the_latest_count(tmp_path: Path) -> None:
    files = [stored(tmp_path, on_day(day)) for day in range(1, MOST + 4)]
    assert earlier(files[-1], on_day(MOST + 3)) == files[2:-1]


# ---- of which machine they are ----


def newcomer(results: Path, **more: Any) -> tuple[Path, Run]:
    """A fresh clone: reference runs of the machine's name, and the first run of whoever cloned it."""
    for day in (1, 2, 3):
        stored(results / "reference", on_day(day, job(0.06)))
    own = on_day(20, job(0.012), **more)
    return stored(results, own), own


def test_the_newest_run_is_the_newcomers_and_reference_runs_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, own = newcomer(tmp_path / "results")
    stored(tmp_path / "results/reference", on_day(30, job(0.06)))
    assert earlier(file, own) == []
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 0
    assert "1 run, of 2026-03-20" in capsys.readouterr().out


# ---- what becomes of them ----


def answers_of(file: Path, *options: str) -> list[dict[str, Any]]:
    """As `tipbench report` has them."""
    out = file.parent / "out"
    assert main(["report", str(file), "--format", "json", "--out", str(out), *options]) == 0
    (written,) = out.rglob("*.json")
    listed: list[dict[str, Any]] = json.loads(written.read_text())["answers"]
    shutil.rmtree(out)
    return listed


def test_earlier_runs_count_in_a_report_unless_it_is_of_the_run_alone(tmp_path: Path) -> None:
    for day in (1, 2):
        stored(tmp_path, on_day(day, job(0.06)))
    edge = on_day(3, job(0.012))
    file = stored(tmp_path, edge)
    (together,), (alone,) = answers_of(file), answers_of(file, "--alone")
    assert (together["kind"], together["runs"]) == ("use it", 3)
    assert (alone["kind"], alone["runs"]) == ("at most", 1)
    line, of_runs = one_liners(edge, earlier_runs(file, edge))
    assert line.startswith("use it")
    assert of_runs == "The answers are from 3 runs of this machine: 1 of 1 rest on more than this one."
    assert one_liners(edge)[0].startswith("at most")
    for format in ("md", "html"):
        assert "3 runs" in render(edge, [], format, earlier_runs(file, edge)).decode()


def test_an_earlier_run_that_is_damaged_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged, last = (stored(tmp_path, on_day(day)) for day in (1, 2))
    content = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*content[:2], b"lost\n", *content[3:]]))
    assert main(["report", "--format", "json", str(last)]) == 0
    out, err = capsys.readouterr()
    notices = json.loads(out)["run"]["notices"]
    assert [line.partition(": ")[0] for line in notices] == [f"{damaged.name}, line 3"]
    assert f"tipbench: {damaged}, line 3: not used: " in err


def test_a_run_of_other_code_is_none_of_those_that_count(tmp_path: Path) -> None:
    stored(tmp_path, on_day(1, job(0.06, code={"baseline": "one"})))
    (answer,) = answers_of(stored(tmp_path, on_day(2, job(0.012, code={"baseline": "another"}))))
    assert (answer["kind"], answer["runs"]) == ("at most", 1)


# ---- the same answers everywhere ----


@pytest.fixture(scope="module")
def everything() -> compare.Comparison:
    return compare.compared([str(RESULTS)])


def test_the_page_of_a_run_and_the_comparison_give_the_same_answer_for_every_tip(
    everything: compare.Comparison,
) -> None:
    compared = json.loads(compare.render(everything, "json"))["tips"]
    assert len(everything.machines) == 2
    several = 0
    for place, machine in enumerate(everything.machines):
        file = everything.runs[machine.speaks].file
        read, notices = store.read(file)
        report = json.loads(render(read, notices, "json", earlier_runs(file, read)))
        own = {(answer["tip"], answer["workload"]): answer for answer in report["answers"]}
        own = {where: answer for where, answer in own.items() if answer["kind"] != IMPOSSIBLE}
        of_machine = {(tip["tip"], tip["workload"]): tip["answers"][place] for tip in compared}
        there = {where: answer for where, answer in of_machine.items() if answer["kind"] not in (None, IMPOSSIBLE)}
        assert there.keys() == own.keys()
        for tip_and_workload, answer in there.items():
            shared = answer.keys() - {"machine", "alike"}
            assert {name: answer[name] for name in shared} == {name: own[tip_and_workload][name] for name in shared}
            several += answer["runs"] > 1
    assert several, "answers that rest on more than one run are among them"


# ---- what may be published of them ----


def let_through(last: Run, *before: Run) -> Allowed:
    return with_earlier(last, allowed(last), before)


def ours(effect: float, **about: Any) -> Record:
    """A pair of the suite itself."""
    return measured(of("channels-last", "Convolution", **about), {"optimized": effect})


def counted(publication: Allowed) -> list[Answer]:
    return answers([*map(results, publication.earlier), results(publication.run)])


def test_the_wiki_has_the_answers_of_the_report() -> None:
    runs = [on_day(1, ours(0.06)), on_day(2, ours(0.06)), on_day(3, ours(0.012))]
    publication = let_through(runs[-1], *runs[:-1])

    def kinds(found: list[Answer]) -> Counter[str]:
        return Counter(answer.kind for answer in found)

    assert kinds(counted(publication)) == kinds(answers(list(map(results, runs))))
    assert kinds(counted(publication)) != kinds(answers([results(runs[-1])])), "here the earlier runs change the answer"


SECRET = "internal_project_x"


@pytest.mark.parametrize(
    "other",
    [
        ours(0.06, sizes={"batch": 32, SECRET: 7}),
        ours(0.06, code={"baseline": SECRET, "optimized": SECRET}),
    ],
)
def test_work_that_only_looks_the_same_when_published_does_not_count(other: Record) -> None:
    last = on_day(2, ours(0.012))
    publication = let_through(last, on_day(1, other))
    assert SECRET not in repr(publication)
    assert {answer.runs for answer in counted(publication)} == {1}


def test_private_code_that_is_the_same_counts_and_is_not_published() -> None:
    records = [ours(effect, code={"baseline": SECRET, "optimized": SECRET}) for effect in (0.06, 0.012)]
    publication = let_through(on_day(2, records[1]), on_day(1, records[0]))
    assert SECRET not in repr(publication)
    assert {answer.runs for answer in counted(publication)} == {2}


def test_a_tip_that_the_suite_does_not_know_is_in_no_earlier_run_either() -> None:
    foreign = measured(info(SECRET, tip=tip(SECRET)), {"optimized": 0.3})
    publication = let_through(on_day(2, ours(0.1), foreign), on_day(1, ours(0.1), replace(foreign)))
    assert SECRET not in repr(publication.run) + repr(publication.earlier)
    assert [len(run.records) for run in publication.earlier] == [1]
