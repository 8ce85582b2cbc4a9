"""Whether an earlier result is handed out again: what is overwritten, and how that shows in the next one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tipbench.worker.reuse import handed_out_again, holds_nan, overwrite

# ---- overwrite ----


def test_overwrite_overwrites_every_tensor_returned_but_not_a_modules() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight.detach().clone()
    real, whole, flags = torch.ones(2), torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.bool)
    overwrite([real, {"whole": whole, "flags": (flags,)}, model, 3.0, None])
    assert real.isnan().all()
    assert (whole == torch.iinfo(torch.int32).max).all()
    assert flags.all(), "of a bool nothing would tell overwrite from a result"
    assert torch.equal(model.weight, weight)


def test_overwrite_reaches_through_views_and_into_inference_tensors() -> None:
    whole = torch.ones(4)
    with torch.inference_mode():
        inference = torch.ones(2)
    overwrite([whole[1:3], inference])
    assert whole.isnan().tolist() == [False, True, True, False]
    assert inference.isnan().all()


@pytest.mark.parametrize(
    "odd",
    [
        torch.ones(1).expand(3),
        torch.ones(2, 1).expand(2, 3),
        torch.tensor(1.0),
        torch.empty(0),
        torch.eye(2).to_sparse(),
        torch.ones(2, requires_grad=True) * 2,
        nn.Parameter(torch.ones(2)),
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2, dtype=torch.uint8),
        torch.ones(2, dtype=torch.float8_e4m3fn),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}-{tensor.layout}",
)
def test_overwrite_copes_with_any_tensor(odd: torch.Tensor) -> None:
    overwrite(odd)
    if odd.is_floating_point() and odd.layout is torch.strided:
        assert odd.isnan().all()


def test_gradients_still_flow_after_an_overwrite() -> None:
    parameter = nn.Parameter(torch.ones(2))
    overwrite(parameter * 2)
    (parameter * 2).sum().backward()
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [2, 2]


# ---- handed out again ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_tensor_handed_out_again_shows(dtype: torch.dtype) -> None:
    kept = torch.ones(2, dtype=dtype)
    overwrite([kept])
    assert handed_out_again([kept], [kept])
    assert handed_out_again(kept, {"loss": torch.ones(1), "view": kept.view(2, 1)})


def test_a_buffer_that_is_written_anew_and_nan_of_a_steps_own_are_new_results() -> None:
    buffer = torch.ones(2)
    overwrite(buffer)
    assert not handed_out_again(buffer, torch.full((2,), math.nan))
    buffer.fill_(3)
    assert not handed_out_again(buffer, buffer)


def test_nan_is_looked_for_in_what_a_step_returned_but_not_in_its_modules() -> None:
    broken = nn.Linear(2, 2)
    overwrite([broken.weight.detach()])
    assert not holds_nan([torch.ones(2), torch.ones(2, dtype=torch.int64), broken, None, 1.0])
    assert holds_nan({"loss": torch.tensor([1.0, math.nan])})
