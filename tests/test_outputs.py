"""Whether two sides did the same work: what counts as an output, and when two are the same."""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from tipbench.tip.pair import Equal
from tipbench.worker.outputs import Outputs, Unequal, compare, flatten, snapshot, worst_difference


def seeds(*outputs: torch.Tensor) -> list[Outputs]:
    """One output a seed."""
    return [{"output": tensor} for tensor in outputs]


def same(method: Equal, baseline: Sequence[Outputs], variant: Sequence[Outputs], **more: Any) -> dict[str, Any]:
    return compare(method, more.get("tolerance", 1e-4), baseline, variant, more.get("reference", []))


A, B = torch.tensor([1.0, -4.0]), torch.tensor([2.0, 3.0])


# ---- flatten ----


def test_containers_are_walked_with_a_readable_path() -> None:
    Point = namedtuple("Point", "x y")
    result = {"loss": torch.ones(1), "more": [torch.ones(2), (torch.ones(3), Point(1.5, 2))]}
    assert {path: tuple(tensor.shape) for path, tensor in flatten(result)} == {
        "output[loss]": (1,),
        "output[more][0]": (2,),
        "output[more][1][0]": (3,),
        "output[more][1][1][0]": (),
        "output[more][1][1][1]": (),
    }


def test_numbers_are_outputs() -> None:
    assert dict(flatten(3)) == {"output": torch.tensor(3.0, dtype=torch.float64)}
    assert dict(flatten(True)) == {"output": torch.tensor(1.0, dtype=torch.float64)}


def test_of_a_module_parameters_gradients_and_buffers_are_outputs() -> None:
    model = nn.Sequential(OrderedDict(linear=nn.Linear(2, 2), norm=nn.BatchNorm1d(2)))
    model(torch.randn(4, 2)).sum().backward()
    assert [path for path, _ in flatten(model)] == [
        "output.linear.weight",
        "output.linear.weight.grad",
        "output.linear.bias",
        "output.linear.bias.grad",
        "output.norm.weight",
        "output.norm.weight.grad",
        "output.norm.bias",
        "output.norm.bias.grad",
        "output.norm.running_mean",
        "output.norm.running_var",
        "output.norm.num_batches_tracked",
    ]


def test_a_gradient_on_one_side_only_is_a_difference() -> None:
    model = nn.Linear(2, 2)
    without = snapshot(model)
    model(torch.ones(2)).sum().backward()
    with pytest.raises(Unequal, match=r"only one side returned output\.bias\.grad, output\.weight\.grad"):
        worst_difference(without, snapshot(model))


@pytest.mark.parametrize(
    "empty",
    [None, [torch.ones(1), None], {"a": None}, "text", b"bytes", {1, 2}, object(), [], {}, torch.empty(0), nn.ReLU()],
)
def test_what_holds_no_numbers_is_no_output(empty: Any) -> None:
    with pytest.raises(Unequal) as caught:
        snapshot(empty)
    assert caught.value.why.kind == "no output"


# ---- snapshot ----


def test_a_snapshot_is_a_copy() -> None:
    tensor, model = torch.ones(3), nn.Linear(2, 2)
    kept = snapshot([tensor, model])
    before = kept["output[1].weight"].clone()
    tensor.fill_(7)
    with torch.no_grad():
        model.weight.add_(1)
    assert kept["output[0]"].tolist() == [1, 1, 1]
    assert torch.equal(kept["output[1].weight"], before)
    assert not kept["output[1].weight"].requires_grad


def test_inference_tensors_and_views_are_kept_as_plain_ones() -> None:
    with torch.inference_mode():
        inference = torch.randn(4, 4)
    kept = snapshot([inference, torch.randn(4, 4).t(), torch.ones(1).expand(3), torch.randn(4)[::2]])
    assert all(tensor.is_contiguous() and not tensor.is_inference() for tensor in kept.values())


def test_a_snapshot_may_be_a_sample_that_both_sides_take_alike() -> None:
    whole = [torch.arange(64.0).reshape(8, 8), torch.arange(100.0, 110.0)]
    strided = [whole[0].t().contiguous().t(), whole[1]]
    sample = snapshot(whole, most=20)
    assert sample["output[0]"].tolist() == [*range(0, 64, 3)]
    assert sample["output[1]"].tolist() == [100, 103, 106, 109]
    assert worst_difference(sample, snapshot(strided, most=20))[0] == 0.0
    assert snapshot(whole, most=74 + 1)["output[0]"].shape == (8, 8)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_a_number_that_is_not_finite_is_named_by_its_path(bad: float, dtype: torch.dtype) -> None:
    with pytest.raises(Unequal, match=r"output\[1\] holds NaN or infinity") as caught:
        snapshot([torch.ones(2), torch.tensor([1.0, bad]).to(dtype)])
    assert caught.value.why.kind == "not finite"


def test_zeros_alone_are_no_result_but_beside_others_they_may_be() -> None:
    with pytest.raises(Unequal) as caught:
        snapshot([torch.zeros(3), 0])
    assert caught.value.why.kind == "all zeros"
    assert len(snapshot([torch.zeros(3), torch.ones(1)])) == 2


# ---- compare ----


@pytest.mark.parametrize("method", [Equal.BITWISE, Equal.CLOSE])
def test_equal_outputs_have_no_worst_difference(method: Equal) -> None:
    """Shapes may depend on the seed, and one seed alone is never stale."""
    for outputs in ([A, B], [A], [torch.ones(2), torch.ones(3), torch.ones(3)]):
        baseline: list[Outputs] = [{"output": one, "none": torch.empty(0)} for one in outputs]
        variant: list[Outputs] = [{"output": one.clone(), "none": torch.empty(0)} for one in outputs]
        found = same(method, baseline, variant)
        assert found == {"method": str(method), "tolerance": 1e-4, "seeds": len(outputs), "worst": 0.0}


def test_close_is_relative_to_the_tensors_largest_value() -> None:
    near = A + torch.tensor([3e-4, 0])
    found = same(Equal.CLOSE, seeds(A, B), seeds(near, B))
    assert found["worst"] == pytest.approx(0.75e-4, rel=1e-3)
    with pytest.raises(Unequal, match=r"output differs by 7\.5e-05 of its largest value; 5e-05 allowed") as caught:
        same(Equal.CLOSE, seeds(A, B), seeds(near, B), tolerance=5e-5)
    assert caught.value.why.kind == "different results"


def test_tiny_values_are_measured_against_the_floor() -> None:
    noise, other = torch.tensor([1e-12]), torch.tensor([-1e-12])
    baseline: list[Outputs] = [{"a": A, "noise": noise}, {"a": B, "noise": noise}]
    variant: list[Outputs] = [{"a": A, "noise": other}, {"a": B, "noise": other}]
    assert same(Equal.CLOSE, baseline, variant)["worst"] == pytest.approx(2e-6, rel=1e-3)


def test_integer_and_bool_outputs_are_compared() -> None:
    one, two = torch.tensor([1, 0]), torch.tensor([1, 1])
    for dtype in (torch.int64, torch.uint8, torch.bool):
        assert same(Equal.CLOSE, seeds(one.to(dtype), two.to(dtype)), seeds(one.to(dtype), two.to(dtype)))["worst"] == 0
        with pytest.raises(Unequal, match="differs by 1 of its largest value"):
            same(Equal.CLOSE, seeds(one.to(dtype), two.to(dtype)), seeds(two.to(dtype), one.to(dtype)))


LARGE = torch.tensor([2**60])
ONE_IN_FP64 = [{"output": LARGE}, {"output": LARGE + 2}], [{"output": LARGE + 1}, {"output": LARGE + 2}]


@pytest.mark.parametrize(
    ("method", "baseline", "variant", "said"),
    [
        (
            Equal.BITWISE,
            seeds(A, B),
            seeds(torch.nextafter(A, 2 * A.abs()), B),
            "bitwise equality of values and dtypes",
        ),
        (Equal.BITWISE, *ONE_IN_FP64, "bitwise equality"),
        (Equal.BITWISE, seeds(A, B), seeds(A.double(), B.double()), "bitwise equality of values and dtypes"),
        (
            Equal.CLOSE,
            [{"a": A, "b": A}, {"a": B, "b": B}],
            [{"a": A, "b": A * 1.001}, {"a": B, "b": B * 1.01}],
            "b diff",
        ),
        (Equal.CLOSE, seeds(A, B), seeds(A[None], B[None]), r"output has shapes \(2,\) and \(1, 2\)"),
    ],
    ids=["last bit", "integers that are one in fp64", "dtype", "worst of all seeds and tensors", "shapes"],
)
def test_what_differs_is_named(method: Equal, baseline: list[Outputs], variant: list[Outputs], said: str) -> None:
    with pytest.raises(Unequal, match=said) as caught:
        same(method, baseline, variant)
    assert caught.value.why.kind == "different results"


def test_close_values_may_have_another_dtype() -> None:
    assert same(Equal.CLOSE, seeds(A, B), seeds(A.double(), B.double()))["worst"] == 0.0


def test_outputs_that_ignore_the_seed_are_stale_on_either_side() -> None:
    for baseline, variant, side in ((seeds(A, A), seeds(A, B), "baseline"), (seeds(A, B), seeds(A, A), "variant")):
        with pytest.raises(Unequal, match=f"the {side}'s outputs are the same for every seed") as caught:
            same(Equal.CLOSE, baseline, variant)
        assert caught.value.why.kind == "stale results"


# ---- lossy ----


def test_lossy_states_both_sides_errors_against_fp64() -> None:
    reference = seeds(A.double(), B.double())
    found = same(Equal.LOSSY, seeds(A, B), seeds(A * 1.01, B * 1.02), reference=reference, tolerance=0.05)
    assert found.keys() == {"method", "tolerance", "seeds", "baseline_error", "error", "returned_error"}
    assert found["baseline_error"] == 0.0
    assert found["error"] == pytest.approx(0.02, rel=1e-4)
    turned = same(Equal.LOSSY, seeds(A * 1.2, B * 1.2), seeds(A, B), reference=reference)
    assert turned["baseline_error"] > turned["error"] == 0.0, "the tip may be the nearer one"


def test_lossy_has_a_bound() -> None:
    with pytest.raises(Unequal, match=r"error 0\.02 against fp64; 0\.01 allowed") as caught:
        same(Equal.LOSSY, seeds(A, B), seeds(A, B * 1.02), reference=seeds(A.double(), B.double()), tolerance=0.01)
    assert caught.value.why.kind == "different results"


def test_lossy_compares_complex_numbers_whole() -> None:
    reference = seeds(*(torch.complex(x, x).to(torch.complex128) for x in (A, B)))
    without = seeds(*(torch.complex(x, torch.zeros(2)) for x in (A, B)))
    with pytest.raises(Unequal, match=r"error 0\.71 against fp64"):
        same(Equal.LOSSY, reference, without, reference=reference, tolerance=0.01)


# ---- as close as the baseline ----


def test_what_is_as_close_to_fp64_as_the_baseline_passes_however_far_that_is() -> None:
    reference = seeds(A.double(), B.double())
    found = same(Equal.AS_CLOSE, seeds(A * 1.01, B * 1.01), seeds(A * 0.98, B * 0.98), reference=reference, tolerance=0)
    assert found["baseline_error"] == pytest.approx(0.01, rel=1e-4)
    assert found["error"] == pytest.approx(0.02, rel=1e-4)
    assert found["tolerance"] == pytest.approx(0.03, rel=1e-4)


def test_three_times_the_baselines_error_is_too_much() -> None:
    reference = seeds(A.double(), B.double())
    with pytest.raises(Unequal, match=r"error 0\.04 against fp64; 0\.03 allowed"):
        same(Equal.AS_CLOSE, seeds(A * 1.01, B * 1.01), seeds(A * 1.04, B * 1.04), reference=reference, tolerance=0)


def test_gradients_are_judged_apart_from_parameters_that_are_far_larger() -> None:
    def outputs(gradient: float) -> list[dict[str, torch.Tensor]]:
        return [{"output.weight": 1e6 * x, "output.weight.grad": gradient * x} for x in (A, B)]

    with pytest.raises(Unequal, match=r"error 0\.1 against fp64"):
        same(Equal.AS_CLOSE, outputs(1.0), outputs(1.1), reference=outputs(1.0), tolerance=1e-4)


# ---- the same target ----


def test_sides_that_differ_on_purpose_must_agree_in_names_and_shapes() -> None:
    assert same(Equal.TARGET, seeds(A, B), seeds(A * 2, B * 3)) == {"method": "same target", "seeds": 2}
    with pytest.raises(Unequal, match="has shapes"):
        same(Equal.TARGET, seeds(A, B), seeds(A[:1], B[:1]))
    with pytest.raises(Unequal, match="the same for every seed"):
        same(Equal.TARGET, seeds(A, B), seeds(A, A))
