"""Two correct runs differ by rounding on a GPU: what our code does so that this is not taken for different work.

`make test-gpu` tries all pairs with a card's own rounding. Nothing here needs one.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu import precision
from benchmarks.gpu.amp import amp
from benchmarks.jobs.images import JpegPhotos, UnevenPhotos, jpeg_files
from benchmarks.jobs.language_model import EPS, language_model
from tests.test_pairs import one_thread as one_thread  # fixture
from tipbench.engine.checks import CHECK_SEEDS
from tipbench.tip.job import Job
from tipbench.tip.pair import Equal
from tipbench.worker.outputs import Outputs, Unequal, compare, exact, snapshot

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
CUDNN: Any = torch.backends.cudnn  # its type does not say that it has the parts `conv` and `rnn`

SEEDS = range(1, CHECK_SEEDS + 1)
KERNELS = {
    *("mm", "addmm", "bmm", "baddbmm", "nll_loss_backward", "embedding_dense_backward", "native_layer_norm_backward"),
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
}
"""Of a language model, what two sides may compute with different kernels, which add up in different orders."""

pytestmark = pytest.mark.usefixtures("one_thread")


class Rounding(TorchDispatchMode):
    """Disturbs the results of KERNELS, forward and backward, by noise of 1e-7 of the largest number.

    The noise comes from a generator of its own, so the job draws the same random numbers as without.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in KERNELS:
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32 and tensor.numel():
                    noise = torch.randn(tensor.shape, generator=self.generator)
                    tensor.add_(noise, alpha=1e-7 * tensor.abs().max().item())
        return result


# ---- IEEE arithmetic in checks on a GPU --------------------------------------------------------------


def settings() -> tuple[Any, ...]:
    return CUDNN.conv.fp32_precision, CUDNN.rnn.fp32_precision, CUDNN.allow_tf32, CUDNN.deterministic, CUDNN.benchmark


@pytest.mark.parametrize("search", [False, True])
def test_a_check_on_a_gpu_computes_as_a_cpu_does(monkeypatch: pytest.MonkeyPatch, search: bool) -> None:
    monkeypatch.setattr(CUDNN, "benchmark", search)
    before = settings()
    for method in (Equal.BITWISE, Equal.CLOSE, Equal.REFERENCE, Equal.TARGET):
        with exact(method, CUDA):
            precision, of_rnns, allowed, deterministic, searching = settings()  # the old name must not raise
            assert "tf32" not in (precision, of_rnns)
            assert (allowed, deterministic, searching) == (False, True, search)
        assert settings() == before
    for method, device in ((Equal.LOSSY, CUDA), (Equal.CLOSE, CPU), (Equal.BITWISE, CPU)):
        with exact(method, device):
            assert settings() == before, "what is about precision, or runs on a CPU, is left alone"


# ---- random numbers ----------------------------------------------------------------------------------


def test_decoding_a_photo_leaves_the_gpus_generators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader without workers would seed them in the process that trains, one with workers would not."""
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("GPUs are seeded"))
    torch.default_generator.manual_seed(0)
    plain, uneven = JpegPhotos(jpeg_files()[:1], 16, augment=True), UnevenPhotos(jpeg_files()[:1], 16)
    state = torch.default_generator.get_state()
    for photos in (plain, uneven):
        (first, _), (again, _) = photos[0], photos[0]
        assert torch.equal(first, again)
    assert torch.equal(torch.default_generator.get_state(), state)


@pytest.mark.parametrize("eps", [EPS, 1e-8])
def test_the_language_model_tells_a_gradient_from_rounding(eps: float) -> None:
    """By torch's own 1e-8 the sign of what is next to zero decides on a whole step of AdamW."""

    def trained(seed: int, noise: int) -> Outputs:
        torch.manual_seed(seed)
        job = language_model(CPU, layers=2, width=128, context=64, batch=2, activation=torch.nn.GELU)
        assert job.optimizer is not None
        assert job.optimizer.defaults["eps"] == EPS
        job.optimizer.param_groups[0]["eps"] = eps
        with Rounding(noise):
            job.step()
            return snapshot(job.step())

    one, other = ([trained(seed, noise) for seed in SEEDS] for noise in (1, 2))
    refused = contextlib.nullcontext() if eps == EPS else pytest.raises(Unequal, match=r"weight differs by 0\.0")
    with refused:
        compare(Equal.CLOSE, 1e-3, one, other, [])


# ---- float8, whose products torch has on a CPU as well -----------------------------------------------


def test_a_training_in_float8_learns_what_one_in_bfloat16_does() -> None:
    def losses(change: Callable[[Job], None]) -> list[float]:
        torch.manual_seed(0)
        job = precision.GPTTraining(CPU, for_test=True).job()
        change(job)
        return [job.step()[0].item() for _ in range(20)]

    in_16_bits, in_8_bits = losses(amp), losses(precision.float8_layers)
    assert in_16_bits[-1] < 0.8 * in_16_bits[0]
    assert in_8_bits != in_16_bits
    assert in_8_bits[-1] == pytest.approx(in_16_bits[-1], rel=0.01)
