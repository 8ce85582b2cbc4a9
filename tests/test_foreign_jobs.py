"""What the tips say to write, pasted into jobs that the suite does not have, harms none of them.

The losses, the parameters and the learning rates are those of the job without the text, also where a job is stopped and
goes on from what it saved. Where a text does not fit a job, the text or the tip's condition says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from tests.foreign_jobs import FOREIGN, HALF, ForeignJob, NoPlace, Ran, run
from tests.test_do import IN_PYTHON, IN_SEVERAL, OF_CODE, TIPS, no_code_is_generated, undone
from tests.written import IMPORTED, executed, read

__all__ = ["no_code_is_generated", "undone"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("undone", "group", "no_code_is_generated"),
    pytest.mark.filterwarnings("ignore"),  # such as of more workers than cores: a person sees them, and nothing breaks
]

NEAR, LOSSY, ANY = 2e-3, 0.1, float("inf")
"""Relative differences: of steps that round otherwise, at a lower precision, and of another training."""

OF_ADAM = 1e-2
"""The same of parameters: where a gradient is nearly zero, its rounding decides which way Adam steps."""

DIFFER = {
    "amp": LOSSY,
    "async-loading": ANY,  # an iterator with workers draws its seed before the samples
    "batch-size": ANY,
    "bfloat16-products": LOSSY,
    "decode-jpeg": LOSSY,
    "ddp-hook": LOSSY,
    "dynamic-int8": LOSSY,
    "grad-accumulation": LOSSY,  # dropout draws for each part
    "grad-clipping": ANY,
    "half-precision": LOSSY,
    "length-bucketing": ANY,
    "muon": ANY,
    "one-cycle": ANY,
    "static-int8": LOSSY,
    "transforms-v2": LOSSY,
}
"""Tips that change results, which their pages say."""

ONLY_ON_A_GPU = ("cuda-graphs[by_hand]",)

WITHIN_THE_MODEL = {"chunked-loss": {"self.": "model.", "hidden.": "model.states(batch)."}}
"""How names of a model's code are written in a loop."""
OWN_SIZES = {"transforms-v2": {"(224": "(24", " 224)": " 24)"}}
"""What a person puts in place of a text's example."""

TEXTS = {
    text: (name.partition(".")[0], variant.name)
    for name, variant, text in reversed(IN_PYTHON)
    if name.partition(".")[0] not in {*OF_CODE, *IN_SEVERAL} - WITHIN_THE_MODEL.keys()
    and not re.search(r"=\{\w+\}", text)
}
"""By text, its tip and its way. `test_do.py` has lines of a model's own code, torchrun starts those of IN_SEVERAL."""

TRAINING = [name for name, job in FOREIGN.items() if job.trains]
INFERENCE = [name for name, job in FOREIGN.items() if not job.trains]
COMPILES = ("compile", "jit.", "export")
COMPILED_IN = ("writing_squares", "looking")

PARALLEL = "model = nn.parallel.DistributedDataParallel(model)"
BEFORE = {"no-sync": (PARALLEL,)}
"""What the job has before it follows a tip."""
IN_PLACE_OF = {"ddp-buckets": (PARALLEL,), "ddp-hook": (PARALLEL,), "layer-order": (PARALLEL,)}
"""What the job has that the text replaces."""


@dataclass(frozen=True)
class Unfit:
    """Jobs that a text does not fit, and words of it, or of the tip's condition, that say so. always: on any CPU."""

    words: str
    jobs: Collection[str]
    always: bool = True


def all_but(*names: str) -> list[str]:
    return [name for name in FOREIGN if name not in names]


WRITERS = ("writing", "writing_squares", "pausing", "scaling")
PHOTOS = ("seeing", "resuming", "fine_tuning", "looking")
NORMS = ("seeing", "resuming")

UNFIT: dict[str, Sequence[Unfit]] = {
    "ahead-of-time": [Unfit("to infer alone", TRAINING)],
    "amp": [
        Unfit("LSTM", ["reading", "judging"], always=False),
        Unfit("a regression", ["tabulating"]),
        Unfit("a regression", ["streaming"], always=False),
    ],
    "amp[float16]": [Unfit("unscale_", ["scaling"]), Unfit("scaler", INFERENCE)],
    "batches-as-ready": [Unfit("any order", ["seeing"], always=False)],  # with one worker, in order
    "batched-items": [Unfit("TensorDataset", [*PHOTOS, "reading", "judging", "streaming"])],
    "changing-shapes": [Unfit("differ in size", ["tabulating", "streaming"])],
    "channels-last": [Unfit("convolutions", all_but(*PHOTOS)), Unfit("fused", ["resuming"])],
    "checkpointing": [Unfit("batch norm", NORMS)],
    "chunked-loss": [Unfit("self.head", all_but(*WRITERS))],
    "decode-jpeg[on_the_card]": [Unfit("ImageFolder", all_but(*PHOTOS)), Unfit("targets.to", ["looking"])],
    "decoded-in-memory": [Unfit("ImageFolder", all_but(*PHOTOS))],
    "dynamic-int8": [Unfit("to infer alone", TRAINING)],
    "frozen-weights": [Unfit("to infer alone", TRAINING)],
    "grad-accumulation": [Unfit("zero_grad", INFERENCE), Unfit("batch norm", NORMS), Unfit("GradScaler", ["scaling"])],
    "grad-clipping": [Unfit("loss", INFERENCE), Unfit("unscale_", ["scaling"])],
    "muon[optimized]": [Unfit("linear layers", [*PHOTOS, "reading", "judging"])],
    "half-precision": [Unfit("only infers", TRAINING, always=False)],
    "half-precision[autocast]": [Unfit("LSTM", ["judging"], always=False)],
    "preallocate": [Unfit("differ in length", [*PHOTOS, "tabulating", "streaming"])],
    "no-grad": [Unfit("inference", TRAINING)],
    "no-sync": [Unfit("accumulate", all_but("accumulating"))],
    "length-bucketing": [Unfit("differ in length", ["streaming"])],
    "onednn-graph[optimized]": [Unfit("to infer alone", TRAINING)],
    "one-cycle": [Unfit("len(loader)", ["streaming"])],
    "optimizer-in-backward": [Unfit("GradScaler", ["scaling"])],
    "prefetch": [Unfit("workers", all_but("seeing"))],
    "selective-checkpointing": [Unfit("batch norm", NORMS)],
    "static-int8": [Unfit("to infer alone", TRAINING)],
}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of this process alone."""
    store = tmp_path_factory.mktemp("group") / "store"
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        yield tmp_path_factory.mktemp("files")


def in_a_loop(text: str) -> str:
    for name, written in (WITHIN_THE_MODEL | OWN_SIZES).get(TEXTS[text][0], {}).items():
        text = text.replace(name, written)
    return text


def unfit(text: str, name: str) -> list[Unfit]:
    tip, way = TEXTS[text]
    return [each for key in (tip, f"{tip}[{way}]") for each in UNFIT.get(key, ()) if name in each.jobs]


@cache
def as_it_is(name: str, folder: Path, *texts: str) -> Ran:
    return run(FOREIGN[name], folder, *texts)


def harm(job: ForeignJob, folder: Path, plain: Ran, tolerance: float, *texts: str, is_resumed: bool = True) -> str:
    """What following the texts does to a job that it must not do; empty if nothing."""
    torch.compiler.reset()
    try:
        ran = run(job, folder, *texts)
        losses = ran.losses[HALF:]
        resumed = run(job, folder, *texts, saved=ran.saved).losses if is_resumed and ran.saved else losses
    except NoPlace:
        raise
    except Exception as raised:
        return f"raises {type(raised).__name__}: {str(raised)[:200]}"
    if (apart := difference(plain.losses, ran.losses)) > tolerance:
        return f"its losses differ by {apart:.2g}"
    if (apart := difference(losses, resumed)) > NEAR:
        return f"resumed, its losses differ by {apart:.2g}"
    if not all(loss.isfinite().all() for loss in ran.losses):
        return "its loss is not finite"
    if tolerance == ANY or not job.trains:
        return ""
    if plain.state.keys() != ran.state.keys():
        return f"its checkpoint has other names: {sorted(plain.state.keys() ^ ran.state.keys())[:2]}"
    if plain.rates != pytest.approx(ran.rates):
        return "its schedule is ignored"
    apart = difference([together(plain.state)], [together(ran.state)])
    return f"its parameters differ by {apart:.2g}" if apart > max(tolerance, OF_ADAM) else ""


def together(state: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.flatten().float() for value in state.values()])


def difference(expected: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> float:
    if [value.shape for value in expected] != [value.shape for value in results]:
        return ANY
    pairs = zip(expected, results, strict=True)
    return max((float((a - b).abs().max() / (a.abs().max() + 1e-3)) for a, b in pairs if a.numel()), default=0.0)


def case(text: str) -> Any:
    return pytest.param(text, id="[{}]".format("][".join(TEXTS[text])))


@pytest.mark.parametrize("text", [case(text) for text in TEXTS])
def test_a_text_harms_no_job_that_its_condition_fits(text: str, folder: Path) -> None:
    tip, way = TEXTS[text]
    if f"{tip}[{way}]" in ONLY_ON_A_GPU:
        pytest.skip("captures a CUDA graph")
    harmed, unharmed = {}, []
    for name, job in FOREIGN.items():
        if any(word in text for word in COMPILES) and name not in COMPILED_IN:
            continue
        if name == "resuming" and "optimizer" in text:
            continue  # what is about the optimizer stands before the checkpoint is loaded
        before = BEFORE.get(tip, ())
        plain = as_it_is(name, folder, *before, *IN_PLACE_OF.get(tip, ()))
        expected = unfit(text, name)
        try:
            found = harm(job, folder, plain, DIFFER.get(tip, NEAR), *before, in_a_loop(text))
        except NoPlace:
            continue
        if found and not expected:
            harmed[name] = found
        if not found and any(each.always for each in expected):
            unharmed.append(name)
        for each in expected:
            assert each.words in text + TIPS[tip].when
    assert not harmed
    assert not unharmed, "UNFIT names jobs that the text does not harm"


NOT_PAIRED = (
    *("async-loading", "batch-size", "batched-items", "batches-as-ready", "length-bucketing", "pin-memory", "prefetch"),
    *("ddp-buckets", "decode-jpeg", "decoded-in-memory", "layer-order", "no-sync", "preallocate", "transforms-v2"),
    *("ahead-of-time", "ddp-hook", "dynamic-int8", "muon", "onednn-graph", "static-int8"),
)
"""Tips that draw samples in another order or change the data, wrap the model or run it once before, round to 16 bits,
or replace the model by an exported one, which raises where another text takes it for a module."""
HEADLINES = [
    *{
        name.partition(".")[0]: text
        for name, _, text in reversed(IN_PYTHON)
        if text in TEXTS and name.partition(".")[0] not in NOT_PAIRED
    }.values()
]
"""The first text of each other tip."""
PAIRED_IN = ("writing_squares", "looking")
WITH_COMPILED = ("amp", "channels-last", "checkpointing", "fused-optimizer", "no-grad")
"""What compiled models are paired with."""


@pytest.mark.parametrize("first", [case(text) for text in HEADLINES])
def test_two_texts_of_a_page_can_be_followed_together(first: str, folder: Path) -> None:
    """In the first job that both fit."""
    one, harmed = TEXTS[first][0], {}
    for second in HEADLINES[HEADLINES.index(first) + 1 :]:
        other = TEXTS[second][0]
        fitting = [name for name in PAIRED_IN if not unfit(first, name) and not unfit(second, name)]
        if not fitting or (TIPS[one].one_of and TIPS[one].one_of == TIPS[other].one_of):
            continue
        name, job = fitting[0], FOREIGN[fitting[0]]
        compiled = [tip for tip, text in ((one, first), (other, second)) if any(word in text for word in COMPILES)]
        if compiled and not {one, other} - {*compiled} <= {*WITH_COMPILED}:
            continue
        # Beside a text that changes the training, the other one must change nothing more.
        changing = [text for text, tip in ((first, one), (second, other)) if DIFFER.get(tip) == ANY]
        plain = as_it_is(name, folder, *map(in_a_loop, changing))
        tolerance = (
            ANY if len(changing) == 2 else max(DIFFER.get(tip, NEAR) for tip in (one, other) if DIFFER.get(tip) != ANY)
        )
        if found := harm(job, folder, plain, tolerance, in_a_loop(first), in_a_loop(second), is_resumed=False):
            harmed[other] = found
    assert not harmed


def test_a_schedule_of_one_cycle_ends_with_the_training_where_no_sync_accumulates(folder: Path) -> None:
    """Its step() stands where the comment about a scheduler does."""
    ways = {way: text for text, way in TEXTS.items()}
    names = {**IMPORTED, **FOREIGN["accumulating"].build(folder), "device": torch.device("cpu"), "epochs": 2}
    executed(ast.parse(PARALLEL).body, names)
    executed(read(ways["one-cycle", "optimized"]).before, names)
    loop = ast.parse(re.sub("# .*scheduler.*", "scheduler.step()", ways["no-sync", "optimized"])).body
    for _ in range(2):
        executed(loop, names)
    assert names["scheduler"].last_epoch == names["scheduler"].total_steps


@pytest.mark.parametrize("way", ["optimized", "fixed_momentum"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adagrad])
def test_a_schedule_of_one_cycle_gives_no_momentum_to_an_optimizer_without(kind: Any, way: str, folder: Path) -> None:
    names = {**IMPORTED, **FOREIGN["tabulating"].build(folder), "epochs": 2}
    names["optimizer"] = kind(names["model"].parameters(), lr=0.1)
    executed(read({way: text for text, way in TEXTS.items()}["one-cycle", way]).before, names)
    assert not any(group.get("momentum") for group in names["optimizer"].param_groups)
