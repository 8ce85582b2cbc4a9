"""Jobs after public reports, in `cases/`, and what a survey says of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tipbench.advise.job_words import lost_cores, slow
from tipbench.advise.surveyed import NoJob, absolute, job_environment, survey_job
from tipbench.given.surveying import survey
from tipbench.given.target import BadJob
from tipbench.tip.needs import available_cores

CASES = Path(__file__).parent / "cases"

pytestmark = pytest.mark.filterwarnings("ignore")  # other people's jobs may warn


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """What a library that a job imports sets in this process reaches no other test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_workers_are_not_tried_where_they_would_change_the_data() -> None:
    """What else keeps them from being tried is in `test_workers.py`."""
    way = survey(f"{CASES}/iterable_lines.py:job").by_name["async-loading"]
    assert way.why_not.startswith("the data set is iterable")
    assert not way.proof


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("closure", "LBFGS evaluates the loss itself, by a closure, for which a loop around"),
        ("two_optimizers", "is 2 optimizers: give a step, a callable without arguments"),
        ("three_in_a_batch", "a batch has 3 parts, and a loss takes (outputs, targets): let the loader's"),
        ("loss_in_parts", "the loss function returned a tuple: let it return the loss alone"),
        ("trainer_needed", "the Lightning module asks for its Trainer, which is not run here: give a step"),
        (
            "one_left_over",
            "a step on the last batch of an epoch, of 1 item, raised ValueError: Expected more than 1 value",
        ),
        ("batches_that_end", "no batch is left after 40: give a loader that a loop can start anew"),
        ("once_a_process", "the second time: it is built several times in a process, so what can be done only once"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_sentence_with_what_to_give(job: str, said: str) -> None:
    with pytest.raises(BadJob) as bad:
        survey(f"{CASES}/refused.py:{job}")
    assert said in str(bad.value)
    assert str(bad.value).startswith(f"refused.py:{job}")
    assert str(bad.value).count(f"refused.py:{job}") == 1


def test_a_module_of_a_name_of_the_standard_library_is_named() -> None:
    said = r"^serve\.py:job: it imports a module of yours named profile, as one of the standard library"
    with pytest.raises(NoJob, match=said):
        survey_job(absolute(f"{CASES}/shadowing/serve.py:job"))


@pytest.mark.parametrize("job", ["closure_in_a_step", "two_players", "sparse_gradients", "nested_targets"])
def test_forms_that_others_stumbled_over_are_surveyed(job: str) -> None:
    assert survey(f"{CASES}/unusual.py:{job}").is_compared


def test_what_cannot_be_compared_of_results_is_left_out_and_named_or_all_is() -> None:
    """A language model's cache, and results that vary in number."""
    assert not survey(f"{CASES}/points_vary.py:job").is_compared
    found = survey(f"{CASES}/cached_decoder.py:job")
    assert found.is_compared
    assert found.not_compared == ["output[past_key_values] (DynamicCache)"]
    assert found.by_name["no-grad"].first


def test_anomaly_mode_that_a_step_turns_on_is_seen() -> None:
    found = survey_job(absolute(f"{CASES}/anomaly_inside.py:job"))
    assert found.by_name["no-debug-apis"].why_not == ""
    assert found.by_name["no-debug-apis"].first
    assert "hooks" in found.not_run


def test_a_file_that_reads_the_command_line_is_imported_as_a_program_without_words() -> None:
    assert survey_job(absolute(f"{CASES}/parses_at_import.py:job")).parameters == 664_840


@pytest.mark.parametrize(
    ("above", "threads", "said"),
    [
        (
            "",
            1,
            "The job runs with OMP_NUM_THREADS=1, MKL_NUM_THREADS=1, from your shell or from set.py, on both sides; ",
        ),
        (
            "import torch\n",
            available_cores(),
            "set.py sets OMP_NUM_THREADS=1, MKL_NUM_THREADS=1 after it has imported torch, which read its settings",
        ),
    ],
)
def test_what_a_file_sets_is_in_force_before_it_imports_torch_and_too_late_after(
    tmp_path: Path, above: str, threads: int, said: str
) -> None:
    (tmp_path / "set.py").write_text(above + (CASES / "threads_from_environ.py").read_text())
    target = absolute(f"{tmp_path / 'set.py'}:job")
    with job_environment(target):
        found = survey_job(target)
    assert found.threads == threads
    assert slow(found)[0].startswith(said)
    assert above or found.by_name["openmp-threads"].first


def test_cores_that_a_file_takes_from_its_job_are_named_first(tmp_path: Path) -> None:
    if (before := available_cores()) == 1:
        pytest.skip("one core cannot be lost")
    text = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    (tmp_path / "bound.py").write_text(text + (CASES / "unusual.py").read_text())
    found = survey_job(absolute(f"{tmp_path / 'bound.py'}:nested_targets"))
    (sentence,) = lost_cores(found)
    assert sentence.startswith(f"bound.py leaves the job 1 of the {before} cores that it was started with: before all")
    assert "which all workers would share" in found.by_name["async-loading"].why_not


def test_workers_that_are_started_anew_for_each_short_epoch_are_seen() -> None:
    found = survey(f"{CASES}/workers_each_epoch.py:job")
    assert found.epoch == 6
    assert found.by_name["async-loading/kept"].first
    assert found.by_name["async-loading/kept"].proof.startswith("with workers the 10 batches of an epoch and")
    assert lost_cores(found) == []


def test_a_group_for_each_parameter_is_seen() -> None:
    ways = survey(f"{CASES}/groups_of_one.py:job").by_name
    assert not ways["fused-optimizer/few-groups"].why_not
    assert ways["compiled-optimizer"].why_not.startswith("its optimizer has 242 groups of parameters")
