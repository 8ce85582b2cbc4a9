"""What a person's function may return, and what is said where it returns something else."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from tipbench.given import surveying as survey_file
from tipbench.given.draws import draw_alike, generators_used, shuffle_alike
from tipbench.given.forms import GivenStep, job_of
from tipbench.given.survey import Survey
from tipbench.given.surveying import survey
from tipbench.given.target import BadJob, function
from tipbench.given.tried import ceiling
from tipbench.tip.counts import autograd_nodes
from tipbench.tip.job import Job

JOBS = Path(__file__).parent / "given_jobs"
BAD = JOBS / "bad.py"


def pairs_of_numbers() -> TensorDataset:
    return TensorDataset(torch.randn(8, 4), torch.randn(8, 1))


def test_a_job_is_taken_as_it_is_and_runs_where_its_model_is() -> None:
    job = Job(nn.Linear(4, 1), pairs_of_numbers(), batch_size=4)
    assert job_of(job) is job
    assert job.device == torch.device("cpu")


def test_a_training_is_the_loop_that_people_write() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(4, 1), pairs_of_numbers()
    expected = nn.Linear(4, 1)
    expected.load_state_dict(model.state_dict())
    job = job_of((model, DataLoader(data, batch_size=4), nn.MSELoss(), torch.optim.SGD(model.parameters(), 0.1)))
    assert isinstance(job, Job)
    optimizer = torch.optim.SGD(expected.parameters(), 0.1)
    for inputs, targets in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        nn.functional.mse_loss(expected(inputs), targets).backward()
        optimizer.step()
        job.step()
    assert torch.equal(model.weight, expected.weight)


def test_a_batch_by_name_goes_to_a_model_that_returns_its_loss() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
            return {"loss": nn.functional.mse_loss(super().forward(x), y)}

    model = Model(4, 1)
    batches = [{"x": torch.randn(2, 4), "y": torch.randn(2, 1)}]
    job = job_of((model, batches, None, torch.optim.SGD(model.parameters(), 0.1)))
    assert isinstance(job, Job)
    loss, returned = job.step()
    assert returned is model
    assert loss > 0
    assert model.weight.grad is not None


def test_losses_by_name_are_added_up_as_detection_models_return_them() -> None:
    class Detector(nn.Linear):
        def forward(self, images: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
            return {"boxes": super().forward(images).square().mean(), "classes": targets.mean()}

    model = Detector(4, 1)
    images, targets = torch.randn(2, 4), torch.ones(2)
    job = job_of((model, [(images, targets)], None, torch.optim.SGD(model.parameters(), 0.0)))
    assert isinstance(job, Job)
    loss, _ = job.step()
    assert loss == pytest.approx((model(images, targets)["boxes"] + 1).item())


@pytest.mark.parametrize("batch", [torch.ones(2, 4), (torch.ones(2, 4),), {"input": torch.ones(2, 4)}])
def test_an_inference_runs_its_model_on_the_batch(batch: Any) -> None:
    model = nn.Linear(4, 1)
    job = job_of((model, batch))
    assert isinstance(job, Job)
    assert torch.equal(job.step(), model(torch.ones(2, 4)))


def test_a_model_that_takes_a_batch_as_one_gets_it_so() -> None:
    """A recurrent network takes (numbers, lengths) as one argument: its parts were passed as two."""

    class Summed(nn.Linear):
        def forward(self, batch: Any) -> torch.Tensor:
            parts = batch.values() if isinstance(batch, dict) else batch
            return super().forward(sum(parts, torch.zeros(())))

    model = Summed(4, 1)
    for batch in ((torch.ones(2, 4), torch.ones(2, 4)), {"x": torch.ones(2, 4), "y": torch.ones(2, 4)}):
        job = job_of((nn.DataParallel(model), batch))
        assert isinstance(job, Job)
        assert torch.equal(job.step(), model([torch.ones(2, 4), torch.ones(2, 4)]))


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ((torch.ones(2, 4),) * 2, "with a batch of 2 parts (too many positional arguments)"),
        ({"input": torch.ones(2, 4), "name": ["a", "b"]}, "named 'input', 'name' (got an unexpected keyword argument"),
    ],
)
def test_a_batch_that_no_model_takes_is_said_with_what_it_takes(batch: Any, said: str) -> None:
    class Plain(nn.Module):
        def forward(self, *, input: torch.Tensor) -> torch.Tensor:
            return input

    job = job_of((Plain(), batch))
    assert isinstance(job, Job)
    with pytest.raises(BadJob, match=re.escape(said)):
        job.step()


def test_a_loader_can_be_made_anew_with_other_workers() -> None:
    loader = DataLoader(pairs_of_numbers(), batch_size=3, shuffle=True, drop_last=True)
    job = job_of((nn.Linear(4, 1), loader, nn.MSELoss(), torch.optim.SGD([torch.zeros(1, requires_grad=True)])))
    assert isinstance(job, Job)
    job.loading.update(num_workers=1, persistent_workers=True)
    torch.manual_seed(1)
    anew = [inputs for inputs, _ in job.loader()]
    torch.manual_seed(1)
    assert [list(map(torch.equal, anew, [inputs for inputs, _ in loader]))] == [[True, True]]


class Augmented(TensorDataset):
    """Draws for each item from all generators that people use."""

    def __getitem__(self, number: int) -> Any:
        inputs, targets = super().__getitem__(number)
        return inputs + torch.rand(()) + random.random() + numpy.random.rand(), targets.float()


def masked(items: list[Any]) -> Any:
    inputs, targets = torch.utils.data.default_collate(items)
    return inputs * (torch.rand(inputs.shape) > 0.2), targets


def plain(workers: int) -> Job:
    model = nn.Linear(4, 1)
    data = Augmented(*pairs_of_numbers().tensors)
    return Job(model, data, loss=nn.MSELoss(), batch_size=3, shuffle=True, num_workers=workers)


def loader(workers: int) -> Job:
    """With a generator, which the sampler shares."""
    loader = DataLoader(
        Augmented(*pairs_of_numbers().tensors),
        batch_size=3,
        shuffle=True,
        collate_fn=masked,
        generator=torch.Generator().manual_seed(3),
        num_workers=workers,
    )
    return job_of((nn.Linear(4, 1), loader))  # type: ignore[return-value]


@pytest.mark.parametrize("build", [plain, loader])
def test_workers_draw_what_a_loader_without_them_draws(build: Callable[[int], Job]) -> None:
    """In the second epoch too, whose order depends on how often was drawn before. What the job draws itself afterwards
    is the same too."""
    taken = []
    for workers in (0, 2):
        torch.manual_seed(1)
        random.seed(1)
        numpy.random.seed(1)
        job = build(workers)
        shuffle_alike(job)
        draw_alike(job, generators_used(build(0)))
        if workers:
            job.loading["persistent_workers"] = True
        batches = [inputs for _ in range(3) for inputs, _ in job.loader()]
        of_the_job = torch.tensor([random.random(), numpy.random.rand(), torch.rand(())])
        taken.append([*batches, of_the_job])
    assert len(taken[0]) == 10
    assert all(map(torch.equal, *taken))


def test_nothing_is_put_around_data_that_draw_nothing() -> None:
    data = pairs_of_numbers()
    job = Job(nn.Linear(4, 1), data, batch_size=4)
    draw_alike(job, generators_used(job))
    assert job.data is data
    assert "collate_fn" not in job.loading


def test_a_callable_is_a_step() -> None:
    assert isinstance(job_of(lambda: 1), GivenStep)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "building the job raised ValueError: no such checkpoint (bad.py, line 13)"),
        ("nothing", "it returned nothing: return a Job, "),
        ("a_number", "it returned a int: return a Job, "),
        ("of_three", "it returned a tuple of 3 (Linear, int, int): return a Job, "),
        ("no_optimizer_fourth", "the fourth of (model, loader, loss, optimizer) is a str, no Optimizer"),
        ("no_gradient", "its step raised RuntimeError: element 0 of tensors does not require grad"),
        ("other_parameters", "no parameter of its optimizer has a gradient after a step"),
        ("nan", "after 2 steps output[0] holds NaN or infinity"),
        ("wrong_shape", "its step raised RuntimeError: "),
        ("the_same_model", "it returns the same model, or parts of it, each time it is called, so that one side"),
        ("the_same_iterator", "it returns the same iterator of batches each time it is called"),
        ("missing", "bad.py has no missing"),
        ("a_word", "a_word is a str; make it a function"),
    ],
)
def test_what_is_no_job_is_said_in_one_sentence(name: str, said: str) -> None:
    with pytest.raises(BadJob) as bad:
        survey(f"{BAD}:{name}")
    assert said in str(bad.value)
    assert "\n" not in str(bad.value)


def test_a_job_that_does_not_fit_twice_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey_file, "memory_bytes", lambda: 3 << 29)
    monkeypatch.setattr(survey_file, "_peak", iter([0, 1 << 30]).__next__)  # that of this process may be another test's
    with pytest.raises(BadJob, match=r"bad.py:large takes .* GiB, and both .* do not fit into the 1\.5 GiB"):
        survey(f"{BAD}:large")


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text("def job(): return lambda: 1\n")
    function(f"{file}:job")
    assert list(tmp_path.iterdir()) == [file]


def test_a_sampler_that_makes_batches_is_kept() -> None:
    """It was rebuilt without, into single rows in order: another job was measured."""
    data = TensorDataset(torch.arange(64.0)[:, None])
    chosen = BatchSampler(RandomSampler(data), batch_size=16, drop_last=True)
    job = job_of((nn.Linear(1, 1), DataLoader(data, sampler=chosen, batch_size=None)))
    assert isinstance(job, Job)
    shuffle_alike(job)
    (first,), *others = job.loader()
    assert (first.shape, len(others)) == ((16, 1), 3)
    assert first[:, 0].tolist() != sorted(first[:, 0].tolist())
    again = job_of((nn.Linear(1, 1), DataLoader(data, sampler=chosen, batch_size=None)))
    assert isinstance(again, Job)
    torch.manual_seed(1)
    shuffle_alike(again)
    one = [batch.tolist() for (batch,) in again.loader()]
    torch.manual_seed(1)
    shuffle_alike(again)
    assert one == [batch.tolist() for (batch,) in again.loader()], "the sampler within is seeded"


def test_nodes_of_gradients_are_counted_behind_results_of_any_form() -> None:
    """Of a mapping its names were looked at, and "step raised" was said of the person's job."""
    parameter = torch.ones(2, requires_grad=True)
    assert autograd_nodes({"energy": 2 * parameter, "names": ["a"], "more": (parameter.detach(), None)}) == 2


@pytest.mark.parametrize(("others", "is_left_out"), [(0.0, True), (0.25, True), (1.0, False)])
def test_beside_other_programs_no_tip_is_left_out_for_the_share_of_its_phase(others: float, is_left_out: bool) -> None:
    """Threads that waited for one another made an optimizer of half a step 0.4 % of it."""
    card = {"loading": 0.0001, "forward": 0.1, "backward": 0.1, "optimizer": 0.0008}
    survey = Survey("train.py:job", "training", "cpu", step_s=0.2, card=card, others=others)
    said = "the optimizer takes 0.4 % of a step, and no change of it alone can bring more"
    assert ceiling("optimizer", survey) == (said if is_left_out else "")
