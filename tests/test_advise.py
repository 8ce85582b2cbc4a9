"""`tipbench advise`: the tips that a person's job can follow, each in a pair of its own, and what is said of them."""

import re
import sys
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tipbench.advise.job_words import slow
from tipbench.advise.page import VISIBLE
from tipbench.advise.pairs import sides_alone, write_alone
from tipbench.advise.surveyed import NoJob, absolute, job_environment, survey_job, write_command
from tipbench.engine.checks import check_pair
from tipbench.engine.launcher import PASSIVE, Launcher
from tipbench.given.survey import Survey
from tipbench.machine.activity import OCCUPIED
from tipbench.machine.controls import clean_environment, controls
from tipbench.records.record import Record
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.needs import bfloat16
from tipbench.tip.pair import NO_TIPS

JOBS = Path(__file__).parent / "given_jobs"
TOO_LITTLE = re.compile(r" takes \d\.\d % of a step, and no change of it alone can bring more$")


WAITS = """
import time
import torch
from torch.utils.data import DataLoader


class Storage(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.1)
        return torch.ones(4), torch.ones(1)


def job():
    model = torch.nn.Linear(4, 1)
    return model, DataLoader(Storage(), batch_size=2), torch.nn.MSELoss(), torch.optim.AdamW(model.parameters())
"""


@pytest.fixture(autouse=True)
def threads_that_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run two at a time, and OpenMP's threads that spin on a core that others need made a training step of 0.2 s
    one of 10 s. The command gives a survey none of the caller's settings, so the tests' own come in here."""
    monkeypatch.setattr("tipbench.advise.surveyed.callers", lambda: clean_environment() | PASSIVE)


@cache
def survey_of(job: str) -> Survey:
    """Of a job in `given_jobs`, in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tipbench.advise.surveyed.callers", lambda: clean_environment() | PASSIVE)
        return survey_job(f"{JOBS / job}")


@pytest.fixture
def without_faults() -> Survey:
    """What is known of a training that nothing is wrong with."""
    return survey_of("faults.py:no_fault")


def record_of(folder: Path, job: str, tip: str) -> Record:
    survey = survey_of(job)
    ways = [  # what a phase takes of a step is measured, and these tests are not about it
        replace(way, why_not="") if way.name == tip and TOO_LITTLE.search(way.why_not) else way for way in survey.ways
    ]
    write_alone(folder, f"{JOBS / job}", replace(survey, ways=ways))
    (info,) = (pair for pair in discover(folder, survey.device, of_data=True).pairs if pair.tip.id == tip)
    with closing(Launcher(folder, controls(1))) as launcher:
        return check_pair(info, launcher.start, 0)


@pytest.mark.parametrize(
    ("fault", "tip"),
    [
        ("slow_loading", "async-loading"),
        ("attention_by_hand", "compile-modes"),
        ("forgotten_no_grad", "no-grad"),
        ("anomaly_mode", "no-debug-apis"),
        ("one_thread", "openmp-threads"),
        ("no_fault", "fused-optimizer"),
        ("no_fault", "amp"),
        ("no_fault", "as-it-is"),
    ],
)
def test_a_tip_on_a_job_takes_effect_and_does_the_same_work(tmp_path: Path, fault: str, tip: str) -> None:
    if tip == "amp" and (missing := bfloat16().unmet("cpu")):  # then that must be what the advice says
        assert survey_of(f"faults.py:{fault}").by_name[tip].why_not == missing.text
        return
    record = record_of(tmp_path / "pairs", f"faults.py:{fault}", tip)
    assert record.outcome == "measured", record.reason
    assert {side.outcome for side in record.variants.values()} == {"measured"}
    assert record.variants["optimized"].mechanism["engaged"]


def test_a_tip_that_the_job_cannot_follow_has_a_reason(without_faults: Survey) -> None:
    why = {way.name: way.why_not for way in without_faults.ways}
    assert why["channels-last"] == "the model has no two-dimensional convolutions"
    assert why["no-debug-apis"] == "anomaly mode is off"
    assert why["no-grad"] == "the job trains, which needs gradients"
    for name in ("async-loading", "fused-optimizer"):
        assert not why[name] or TOO_LITTLE.search(why[name])


def test_a_bare_step_can_follow_what_is_set_for_the_process(tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text("import torch\n\n\ndef job():\n    x = torch.randn(100)\n    return lambda: print(x.sum())\n")
    survey = survey_job(f"{file}:job")
    assert (survey.kind, survey.compared) == ("step", False)
    assert {"allocator", "openmp-threads"} <= sides_alone(survey).keys()
    assert ("amp" in sides_alone(survey)) is (bfloat16().unmet("cpu") is None)
    assert not {"channels-last", "fused-optimizer", "async-loading", "compile-modes"} & sides_alone(survey).keys()
    why = {way.name: way.why_not for way in survey.ways}
    assert why["no-debug-apis"] == "anomaly mode is off"


@pytest.mark.parametrize(("fault", "tip"), [("anomaly_mode", "no-debug-apis"), ("one_thread", "openmp-threads")])
def test_what_mends_a_fault_comes_first(fault: str, tip: str) -> None:
    ways = survey_of(f"faults.py:{fault}").ways
    assert next(way.first for way in ways if way.name == tip) == 2
    assert not any(way.first == 2 for way in ways if way.tip in ("allocator", "amp"))


def test_what_a_tip_is_about_must_take_some_of_the_time_and_what_takes_much_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "waits.py"
    file.write_text(WAITS)
    survey = survey_job(f"{file}:job")
    assert {way.tip for way in survey.ways if way.first and not way.why_not} == {"async-loading"}
    why = {way.name: way.why_not for way in survey.ways}
    assert survey.share("optimizer") < 0.03
    # Other tests run beside this one, and beside others nothing is left out for its share.
    is_quiet = survey.others <= OCCUPIED
    assert bool(TOO_LITTLE.search(why["fused-optimizer"])) is is_quiet
    assert why["fused-optimizer"].startswith("the optimizer takes 0." if is_quiet else "")
    assert why["async-loading"] == ""


def test_what_makes_every_measurement_long_is_reported(without_faults: Survey) -> None:
    without_faults = replace(without_faults, variables=[])  # of these tests
    assert slow(without_faults) == []
    imported, built = slow(replace(without_faults, import_s=41.0, build_s=62.0))
    assert imported.startswith("Importing faults.py takes 41")
    assert 'belongs below `if __name__ == "__main__":`' in imported
    assert built.startswith("Building the job takes 62")


def test_every_tip_is_tried_or_named_with_what_to_write(without_faults: Survey) -> None:
    modules = [load_module(file, BENCHMARKS) for file in pair_files(BENCHMARKS)]
    tips = {module.TIP.id for module in modules} - {"control", *NO_TIPS}
    for_gpus = {module.TIP.id for module in modules if {pair.devices for pair in pair_classes(module)} == {("cuda",)}}
    by_hand = {tip for tip, _, _ in without_faults.by_hand}
    assert not by_hand & for_gpus
    assert ({way.tip for way in without_faults.ways} | by_hand | for_gpus) - {*NO_TIPS} == tips
    assert all(do for _, _, do in without_faults.by_hand)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("train.py", "'train.py' names no function: write a Python file and a function in it, such as train.py:job"),
        ("nowhere.py:job", "nowhere.py is no file"),
    ],
)
def test_a_target_that_is_none_is_refused_at_once(target: str, message: str) -> None:
    with pytest.raises(NoJob, match=message):
        absolute(target)


@pytest.mark.parametrize(
    ("file", "parameters", "tip"),
    [("segmentation.py", 3_200_000, "channels-last"), ("encoder.py", 2_600_000, "async-loading")],
)
def test_jobs_as_people_write_them_are_measured(tmp_path: Path, file: str, parameters: int, tip: str) -> None:
    survey = survey_of(f"{file}:job")
    assert survey.kind == "training"
    assert survey.parameters == pytest.approx(parameters, rel=0.1)
    record = record_of(tmp_path / "pairs", f"{file}:job", tip)
    assert record.outcome == "measured", record.reason


def test_a_job_whose_process_ends_or_hangs_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoJob, match=r"bad.py:leaves: its process left with exit code 3"):
        survey_job(f"{JOBS / 'bad.py'}:leaves")
    monkeypatch.setattr("tipbench.advise.surveyed.DEADLINE_S", 5.0)
    with pytest.raises(NoJob, match=r"bad.py:hangs: building the job and running its steps took over 5 s"):
        survey_job(f"{JOBS / 'bad.py'}:hangs")


def test_a_job_that_draws_anew_each_time_is_known_by_its_noise() -> None:
    assert (survey_of("bad.py:drawn_anew").noise or 0.0) > 0.01


def test_what_a_job_makes_of_rounding_is_known(without_faults: Survey) -> None:
    """A network with batch normalisation over four pictures magnifies it, a perceptron does not."""
    magnifies = survey_of("segmentation.py:job").rounding
    assert magnifies is not None
    assert without_faults.rounding is not None
    assert magnifies > VISIBLE > without_faults.rounding


@pytest.mark.parametrize("name", ["drawn_anew", "other_shapes", "own_seed", "own_thread", "own_workers"])
def test_what_people_do_in_a_job_does_not_keep_it_from_being_measured(tmp_path: Path, name: str) -> None:
    record = record_of(tmp_path / "pairs", f"bad.py:{name}", "as-it-is")
    assert record.outcome == "measured", record.reason


def test_a_command_can_follow_what_is_set_in_its_environment(tmp_path: Path) -> None:
    with job_environment("", [sys.executable, "-c", "pass"]):
        survey = survey_job(f"{write_command(tmp_path)}:job")
    assert survey.name == Path(sys.executable).name
    assert survey.kind == "command"
    tried = {way.name for way in survey.ways if not way.why_not}
    assert "allocator/glibc-keeping" in tried
    assert {name.partition("/")[0] for name in tried} <= {"allocator", "libiomp"}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([sys.executable, "-c", "raise SystemExit('no data')"], "left with exit code 1: no data"),
        (["no-such-program", "x"], "no-such-program cannot be run: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_refused_in_one_sentence(tmp_path: Path, command: list[str], message: str) -> None:
    with pytest.raises(NoJob, match=message), job_environment("", command):
        survey_job(f"{write_command(tmp_path)}:job")
