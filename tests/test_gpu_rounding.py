"""Two correct runs differ by rounding on a GPU: no comparison of both sides may take that for different work.

Tried on the CPU, whose results are disturbed as a GPU's would be. Nothing here needs one.
"""

import contextlib
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.jobs.images import JpegPhotos, jpeg_files
from benchmarks.jobs.language_model import EPS, language_model
from benchmarks.modern.prefetch import UnevenPhotos
from tests import test_pairs
from tests.test_pairs import IN_TURNS, ON_A_GPU_ONLY, PAIRS, AtTestSize
from tests.test_pairs import alone as alone  # fixtures
from tests.test_pairs import in_turns as in_turns
from tests.test_pairs import one_thread as one_thread
from tests.test_pairs import unseen_gpus as unseen_gpus
from tipbench.engine.checks import CHECK_SEEDS
from tipbench.tip.pair import Equal
from tipbench.worker import checks
from tipbench.worker.checks import Results
from tipbench.worker.outputs import Outputs, Unequal, compare, exact, snapshot

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
CUDNN: Any = torch.backends.cudnn  # its type does not say that it has the parts `conv` and `rnn`

SEEDS = range(1, CHECK_SEEDS + 1)
UNORDERED = {
    *("convolution_backward", "max_pool2d_with_indices_backward", "_adaptive_avg_pool2d_backward"),
    *("index_put", "index_put_", "_index_put_impl_", "scatter_add", "scatter_add_", "nll_loss2d_forward"),
}
"""What a GPU adds up in another order each time it runs it."""

KERNELS = {
    *("mm", "addmm", "bmm", "baddbmm", "convolution", "mkldnn_rnn_layer", "_transformer_encoder_layer_fwd"),
    *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"),
    *("embedding_dense_backward", "nll_loss_backward", "nll_loss2d_backward", "scatter", "native_layer_norm_backward"),
}
"""What two sides may compute with different kernels, which add up in different orders; each of them repeats itself."""

ROUNDED = {"convolution": ("conv", 2), "convolution_backward": ("conv", 3), "mkldnn_rnn_layer": ("rnn", 3)}
"""cuDNN's settings for what it computes in TF32, and how many of the arguments it rounds to that."""


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers of float32 rounded to 10 bits behind the point; others as they are."""
    if tensor.dtype is not torch.float32:
        return tensor
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


class Rounding(TorchDispatchMode):
    """Disturbs the results of some operations, forward and backward, by noise of `size` of the largest number.

    The noise comes from a generator of its own, so the pair draws the same random numbers as without. TF32 is
    used where the settings of cuDNN say so. changed: how often each operation was disturbed.
    """

    def __init__(self, operations: set[str], seed: int, size: float = 1e-7) -> None:
        super().__init__()
        self.operations, self.size = operations, size
        self.generator = torch.Generator().manual_seed(seed)
        self.changed: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        part, count = ROUNDED.get(name, ("conv", 0))
        if count and getattr(CUDNN, part).fp32_precision == "tf32":
            args = (*map(to_tf32, args[:count]), *args[count:])
        result = func(*args, **(kwargs or {}))
        if name in self.operations:
            self.changed[name] += 1
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32 and tensor.numel():
                    noise = torch.randn(tensor.shape, generator=self.generator)
                    tensor.add_(noise, alpha=self.size * tensor.abs().max().item())
        return result


def disturbed(name: str, variant: str, seed: int) -> tuple[Results, Counter[str]]:
    """The results of a check on a GPU, and what was disturbed there. Where both sides must agree bit by bit they are
    taken to run the same kernels."""
    equal = PAIRS[name].equal
    rounding = Rounding(UNORDERED if equal is Equal.BITWISE else UNORDERED | KERNELS, seed)
    with exact(equal, CUDA), rounding:
        return AtTestSize(name, CPU).results(variant), rounding.changed


pytestmark = [*test_pairs.pytestmark, pytest.mark.usefixtures("alone", "unseen_gpus", "in_turns")]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    check_steps = checks.check_steps
    monkeypatch.setattr(checks, "check_steps", lambda equal, device_type: check_steps(equal, "cuda"))
    monkeypatch.setattr(test_pairs, "SEEDS", SEEDS)


JOBS = {
    (pair.__name__, pair.equal): name
    for name, pair in reversed(PAIRS.items())
    if "cuda" in pair.devices and pair.scale == "macro" and not name.startswith(("control.", "together.", "ddp-"))
}
"""By job and by rule of comparison, the first pair that has them: what rounding does depends on nothing else."""


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning")
@pytest.mark.parametrize("name", JOBS.values())
def test_rounding_is_not_taken_for_different_work(name: str) -> None:
    """The first side of each whole job beside its baseline."""
    subject = AtTestSize(name, CPU)
    missing = ON_A_GPU_ONLY.get(name, set()) - IN_TURNS.get(name, set())
    first, second = [variant for variant in subject.variants if variant not in missing][:2]
    (baseline, changed), (found, _) = disturbed(name, first, seed=0), disturbed(name, second, seed=1)
    assert changed
    checks.compared(subject, second, baseline, found, subject.reference())


# ---- the disturbance itself --------------------------------------------------------------------------


def test_two_runs_of_one_training_differ_as_on_a_gpu() -> None:
    """Bitwise equality of a training with convolutions would fail there; here it did before it was disturbed."""
    name = "async-loading.TrainingFromFiles"
    once, again = (AtTestSize(name, CPU).results("baseline") for _ in range(2))
    compare(Equal.BITWISE, 0.0, once.seeds, again.seeds, [])
    (first, changed), (second, _) = (disturbed(name, "baseline", seed) for seed in (1, 2))
    assert changed["convolution_backward"]
    with pytest.raises(Unequal, match="bitwise"):
        compare(Equal.BITWISE, 0.0, first.seeds, second.seeds, [])


def test_tf32_keeps_ten_bits() -> None:
    numbers = torch.tensor([1 + 2**-10, 1 + 2**-11 + 2**-20, 1 + 2**-12])
    assert to_tf32(numbers).tolist() == [1 + 2**-10, 1 + 2**-10, 1.0]
    assert to_tf32(numbers.double()).tolist() == numbers.double().tolist()


def test_convolutions_are_rounded_only_where_cudnn_would() -> None:
    image, weight = torch.full((1, 1, 1, 1), 1 + 2**-12), torch.ones(1, 1, 1, 1)
    with Rounding(set(), seed=0):
        assert torch.conv2d(image, weight).item() == 1.0
        with exact(Equal.CLOSE, CUDA):
            assert torch.conv2d(image, weight).item() == 1 + 2**-12


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
        with Rounding(KERNELS, noise):
            job.step()
            return snapshot(job.step())

    one, other = ([trained(seed, noise) for seed in SEEDS] for noise in (1, 2))
    refused = contextlib.nullcontext() if eps == EPS else pytest.raises(Unequal, match=r"weight differs by 0\.0")
    with refused:
        compare(Equal.CLOSE, 1e-3, one, other, [])
