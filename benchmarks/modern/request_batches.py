"""Answer requests in batches: take all that wait from a queue, and run the model once.

Every call of a model has a price of its own: Python, the launch of each kernel, and the weights, which are read from
memory anew. A batch pays it once for all of its requests.

Why people write the baseline: a web server calls a handler for each request, and the handler runs the model.

What to expect: more requests a second, most where the price of a call is high, as on a card, or where small requests
meet large weights; less where a request is large by itself. A request waits until its batch is ready, which takes as
long as one call: a step, which answers `requests` requests, divided by requests / batch. What is to be written takes
what waits already, and never waits for more: a request that comes alone is answered at once.

Requests of unlike length must be padded, which costs, and the model must ignore padding. A larger product rounds
otherwise, so the last digits of an answer depend on what else is in its batch.
"""

import torch
from torch import nn

from benchmarks.jobs.image_classification import RunResNet, image_inference
from benchmarks.jobs.language_model import RunEncoder, text_encoder
from tipbench.tip.words import *


def runs(step: Step) -> int:
    return calls(step, "aten::embedding", "aten::max_pool2d")  # each model here has one of them, once


TIP = Tip(
    id="request-batches",
    title="Answer requests in batches",
    do=(
        "# call model.eval() first; `waiting` is a queue.Queue, and one thread calls answer_batch(waiting) for ever\n"
        "# a handler: answer = queue.SimpleQueue(); waiting.put((tensor, answer)); answer.get() is the output, or an\n"
        "# Exception to raise; in async code: await asyncio.to_thread(answer.get)\n"
        "def answer_batch(waiting):\n"
        "    taken = [waiting.get()]\n"
        "    while len(taken) < {batch} and not waiting.empty():\n"
        "        taken.append(waiting.get())\n"
        "    try:\n"
        "        with torch.no_grad(): outputs = model(torch.stack([tensor for tensor, _ in taken]).to(device)).cpu()\n"
        "    except Exception as error:  # such as of tensors that differ in shape\n"
        "        outputs = [error] * len(taken)\n"
        "    for (_, answer), output in zip(taken, outputs):\n"
        "        answer.put(output)"
    ),
    when="requests of one shape wait together, and one may take longer: 2x is requests a second",
    against="one request at a time",
    guide=("M31",),
    claim=Claim.FASTER,
    mechanism=falls("runs of the model", runs),
    note="an answer takes as long as its batch: in batches of 16 a quarter of the step below, alone a 64th",
    why_not=(
        "On a CPU, one request keeps all cores busy already, and a batch computes as much as its requests one by one."
    ),
)

BATCHES = (4, 16, 64)


def answers(model: nn.Module, requests: torch.Tensor, batch: int) -> Step:
    """The outputs for all requests, `batch` at a time."""
    return torch.no_grad()(lambda: torch.cat([model(some) for some in requests.split(batch)]))


class _Requests(MacroPair):
    """A step answers `requests` requests, whose tensors are in memory."""

    def step_of(self, job: Job, batch: int = 1) -> Step:
        requests, _ = next(iter(job.loader()))
        return answers(job.model, requests.to(job.device), batch)

    def baseline(self) -> Step:
        return self.step_of(self.job())

    @sweep(batch=BATCHES)
    def optimized(self, batch: int = 16) -> Step:
        return self.step_of(self.job(), batch)


class EncoderInference(_Requests, RunEncoder):
    """PyTorch's TransformerEncoder run over short texts."""

    sizes = Sizes(
        dict(requests=64, layers=6, width=256, context=32),
        M=dict(layers=8, width=512),
        L=dict(layers=12, width=768, context=128),
        test=dict(layers=1, width=16, context=16),
    )

    def job(self) -> Job:
        sizes = dict(self.size)
        return text_encoder(self.device, batch=sizes.pop("requests"), **sizes)


class ResNetInference(_Requests, RunResNet):
    """ResNet-18 run over photos that are decoded already."""

    sizes = Sizes(dict(requests=64, pixels=112), M=dict(pixels=224), test=dict(pixels=32))

    def job(self) -> Job:
        return image_inference(self.device, "resnet18", self.size["requests"], self.size["pixels"])
