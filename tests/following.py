"""How the text of each tip is followed in the job of a pair, for `test_do.py`.

Most texts are about a job, and every job of the tip can follow them. The others belong into the code of a model or of a
dataset, or into a loop that is no `Job`: each of these has a function here, which builds the pair's step with the text.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Mapping
from functools import partial
from queue import Queue, SimpleQueue
from textwrap import indent
from typing import Any

import torch
from PIL import Image
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import TensorDataset

from benchmarks.general.no_bias_before_bn import biased_before_bn
from benchmarks.gpu.amp import amp
from benchmarks.jobs.language_model import TrainGPT, gpt_blocks, language_model
from benchmarks.jobs.lessons import NEXT_BYTE, STEPS, Lesson
from benchmarks.modern.no_padding import Packed, no_padding
from benchmarks.training import one_cycle
from benchmarks.training.batch_size import RATES, SMALL
from tests.written import executed, follow, names_of, value_of
from tipbench.tip.job import Job, as_it_is
from tipbench.tip.pair import Pair, Step, Variant

Following = Callable[[Any, Variant, str], Step]
"""Builds the step of a pair with the text in place of what the variant does."""


def in_a_job(pair: Any, variant: Variant, text: str) -> Step:
    """The job as it is, with the text followed."""

    def change(job: Job) -> None:
        BEFORE.get(name_of(pair), as_it_is)(job)
        follow(text, job)

    step: Step = pair.applied(change)
    return step


def name_of(pair: Pair) -> str:
    return f"{tip_of(pair)}.{type(pair).__name__}"


def tip_of(pair: Pair) -> str:
    return type(pair).__module__.rpartition(".")[2].replace("_", "-")


def left_on(job: Job) -> None:
    torch.autograd.set_detect_anomaly(True)


BEFORE: Mapping[str, Callable[[Job], None]] = {
    "channels-last.ResNetTrainingInBfloat16": amp,
    "no-debug-apis.ResNetTraining": left_on,
}
"""What is done to a job before, where both sides of the pair have it or the text undoes it."""


# ---- within the code of a model or a dataset -------------------------------------------------------


class Calling(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def as_the_activation(pair: Any, variant: Variant, text: str) -> Step:
    def activation() -> nn.Module:
        module: nn.Module = Calling(names["gelu"]) if "gelu" in names else value_of(text)
        return module

    names = names_of_code()
    if variant.name == "optimized":  # a function; the other text is a module
        executed(ast.parse(text).body, names)
    return language_model(pair.device, activation=activation, **pair.size).step


def names_of_code(**names: Any) -> dict[str, Any]:
    """What code of a model or a dataset has: what is imported, and its own names."""
    return {"torch": torch, "nn": nn, **names}


def in_place_of_convolutions(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    for sequence in [module for module in job.model.modules() if isinstance(module, nn.Sequential)]:
        biased = biased_before_bn(sequence)
        for number, layer in enumerate(sequence):
            if layer in biased:
                written = value_of(text, channels=layer.in_channels, filters=layer.out_channels)
                written[0].load_state_dict({"weight": layer.weight})
                written[1].load_state_dict(sequence[number + 1].state_dict())
                sequence[number], sequence[number + 1] = written
    job.optimizer = SGD(job.model.parameters(), **settings_of(job.optimizer))
    step: Step = pair.step_of(job)
    return step


def settings_of(optimizer: Any) -> dict[str, Any]:
    return {name: optimizer.defaults[name] for name in ("lr", "momentum")}


def as_attention(pair: Any, variant: Variant, text: str) -> Step:
    """The last line in each call, those before it once."""
    lines, names = ast.parse(text).body, names_of_code(F=nn.functional)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        names.update(query=query, key=key, value=value)
        executed(lines[-1:] if "mixed" in names else lines, names)
        return names["mixed"]

    job = pair.job()
    for block in gpt_blocks(job):
        block.attend = attend  # type: ignore[assignment]
    step: Step = pair.step_of(job)
    return step


def as_last_layer(pair: Any, variant: Variant, text: str) -> Step:
    """In a model that hands on what its last layer takes."""

    def change(job: Job) -> None:
        model, lines, within = job.model, ast.parse(text).body, [False]
        head = model.get_submodule("head")
        scores = head.forward
        head.forward = lambda states: states if within[0] else scores(states)
        model.register_forward_pre_hook(lambda *_: within.__setitem__(0, True))
        model.register_forward_hook(lambda *_: within.__setitem__(0, False))

        def loss(states: torch.Tensor, targets: torch.Tensor) -> Any:
            names = names_of_code(F=nn.functional, self=model, hidden=states.mT, targets=targets)
            executed(lines, names)
            return names["loss"]

        job.loss = loss

    step: Step = pair.applied(change)
    return step


def in_packed_batches(pair: Any, variant: Variant, text: str) -> Step:
    """The first two lines in the `collate_fn`, the others in each attention."""
    lines = ast.parse(text).body

    def packed(sequences: list[torch.Tensor]) -> Packed:
        names = names_of_code(sequences=sequences)
        executed(lines[:2], names)
        return Packed(names["row"], names["places"], names["lengths"])

    def within(lengths: list[int], device: torch.device) -> Callable[..., Any]:
        def attend(*tensors: torch.Tensor) -> Any:
            named = dict(zip(("query", "key", "value"), tensors, strict=True))
            names = names_of_code(F=nn.functional, lengths=lengths, **named)
            executed(lines[2:], names)
            return names["mixed"]

        return attend

    step: Step = pair.applied(partial(no_padding, within=within, packed=packed))
    return step


def in_a_generation(pair: Any, variant: Variant, text: str) -> Step:
    """The lines down to `mixed` in each attention, the others in place of what generates."""
    job = pair.job()
    gpt, (within, text) = job.model.gpt, re.split(r"(?<=\n)(?=prompt, one_token|# model\()", text, maxsplit=1)
    behind = ast.parse(text).body
    names = names_of_code(F=nn.functional, device=pair.device, length=gpt.positions.num_embeddings)
    attention = f"def attention(self, places, query, key, value):\n{indent(within, '    ')}\n    return mixed"
    executed(ast.parse(attention).body, names)

    def model(tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        for block in gpt.blocks:
            block.attend = partial(names["attention"], block, places)
        scores: torch.Tensor = gpt(tokens, places).mT
        return scores

    def generate(prompts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        names.update(prompts=prompts)
        executed(behind[-1:], names)
        return names["text"][:, prompts.shape[1] :], names["scores"][:, -1]

    names.update(model=Calling(model))
    executed(behind[:-1], names)
    job.model.forward = generate
    step: Step = pair.step_of(job)
    return step


def in_the_dataset(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    job.data.to_tensor = lambda array: value_of(text, array=array)
    step: Step = pair.step_of(job)
    return step


def in_an_image_folder(pair: Any, variant: Variant, text: str) -> Step:
    """The data set with what torchvision's ImageFolder calls its files and what opens one."""
    job = pair.job()
    data = job.data
    data.samples, data.loader = [(file, 0) for file in data.files], lambda file: Image.open(file).convert("RGB")
    follow(text, job)
    data.photo = lambda index: data.loader(data.files[index])
    step: Step = pair.step_of(job)
    return step


def with_transforms(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    own = text.replace("own = plain", "own = augmented") if job.data.augment else text
    follow(re.sub(r"(?<!\.)224", str(pair.size["pixels"]), own), job)
    step: Step = pair.step_of(job)
    return step


def in_an_opened_file(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    job.data.before_decoding = lambda image: value_of(text, image=image, size=pair.size["pixels"])
    step: Step = pair.step_of(job)
    return step


def from_a_file(pair: Any, variant: Variant, text: str) -> Step:
    def load(file: str) -> nn.Module:
        names = names_of_code(Net=pair.network, device=pair.device)
        executed(ast.parse(text.replace("model.pt", file)).body, names)
        model: nn.Module = names["model"]
        return model

    step: Step = pair.first_answer(load)
    return step


# ---- loops of their own ----------------------------------------------------------------------------


def in_a_lesson(pair: Any, variant: Variant, text: str) -> Step:
    """Training as a job, which the pair has in a loop of its own."""
    schedule = one_cycle.one_cycle if variant.name == "optimized" else getattr(one_cycle, variant.name)
    rate, epochs, batch = pair.rates[schedule].chosen, 15, pair.size["batch"]
    constant = rate if variant.name == "cosine" else rate / 3
    job = job_of_a_lesson(pair.lesson, constant, STEPS // epochs * batch, batch_size=batch)
    follow(text, job, epochs=epochs)
    return job.step


def job_of_a_lesson(lesson: Lesson, rate: float, samples: int, **loading: Any) -> Job:
    model = lesson.network()
    job = Job(model, TensorDataset(*lesson.samples(samples)), optimizer=lesson.optimizer(model, rate), **loading)
    job.loss = lesson.loss
    return job


def in_a_training(pair: Any, variant: Variant, text: str) -> Step:
    """Training as a job, which the pairs of trainings have in a loop of their own."""
    if isinstance(pair, TrainGPT):
        return in_a_job(pair, variant, text)
    job = job_of_a_lesson(getattr(pair, "lesson", NEXT_BYTE), 1e-3, 40, batch_size=pair.size["batch"])
    follow(text, job)
    return job.step


def in_larger_batches(pair: Any, variant: Variant, text: str) -> Step:
    """Training as a job, which the pair has in a loop of its own."""
    batch = variant.arguments["batch"]
    rate = RATES[batch].chosen
    job = job_of_a_lesson(NEXT_BYTE, rate, 2 * batch, batch_size=SMALL, shuffle=True, drop_last=True)
    follow(text, job)

    def loss() -> torch.Tensor:
        returned = job.step()
        value: torch.Tensor = returned[0]
        return value

    def step() -> tuple[torch.Tensor, nn.Module]:
        return torch.stack([loss() for _ in range(pair.size["samples"] // batch)]).mean(), job.model

    return step


def from_a_queue(pair: Any, variant: Variant, text: str) -> Step:
    """What is written answers all requests, which wait in a queue."""
    job = pair.job()
    samples, names = next(iter(job.loader()))[0], names_of(job)
    executed(ast.parse(text).body, names)

    def step() -> torch.Tensor:
        waiting, answer = Queue[Any](), SimpleQueue[torch.Tensor]()
        for sample in samples:
            waiting.put((sample, answer))
        while not waiting.empty():
            names["answer_batch"](waiting)
        return torch.stack([answer.get() for _ in samples])

    return step


# ---- in a process group ----------------------------------------------------------------------------


def accumulating(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    job.model = DistributedDataParallel(job.model)
    names, batches = names_of(job), itertools.cycle(job.loader())

    def step() -> Any:
        names["loader"] = [next(batches) for _ in range(4)]
        executed(ast.parse(text).body, names)
        return {1: job.model}

    return step


def with_ddp(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    follow(text, job)
    step: Step = pair.step_of(job)
    return step


def in_a_process_of_its_own(pair: Any, variant: Variant, text: str) -> Step:
    job = pair.job()
    model = job.model
    follow(text, job)

    def step() -> nn.Module:
        job.step()
        written: nn.Module = model
        return written

    return step


FOLLOWING: Mapping[str, Following] = {
    "fuse-pointwise": as_the_activation,
    "no-bias-before-bn": in_place_of_convolutions,
    "chunked-loss": as_last_layer,
    "flex-attention": as_attention,
    "sdpa": as_attention,
    "no-padding": in_packed_batches,
    "key-value-cache": in_a_generation,
    "no-copies": in_the_dataset,
    "decode-jpeg": in_an_image_folder,
    "decoded-in-memory": in_an_image_folder,
    "mapped-weights": from_a_file,
    "transforms-v2": with_transforms,
    "reduced-decoding": in_an_opened_file,
    "request-batches": from_a_queue,
    "one-cycle": in_a_lesson,
    "batch-size": in_larger_batches,
    "grad-clipping": in_a_training,
    "muon": in_a_training,
    "no-sync": accumulating,
    "ddp-buckets": with_ddp,
    "ddp-hook": with_ddp,
    "ddp-not-dp": in_a_process_of_its_own,
}


def followed(pair: Any, variant: Variant, text: str) -> Step:
    """A step of the pair, with the text followed in place of what the variant does."""
    return FOLLOWING.get(tip_of(pair), in_a_job)(pair, variant, text)
