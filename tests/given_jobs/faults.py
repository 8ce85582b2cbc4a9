"""Jobs as a person might have them, each with one fault that costs time, and one without any."""

import math
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tipbench.tip.words import Job


def perceptron(width=512, layers=4):
    hidden = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def classified(width=512, items=1024):
    return TensorDataset(torch.randn(items, width), torch.randint(10, (items,)))


def no_fault():
    model = perceptron()
    return (
        model,
        DataLoader(classified(), batch_size=256),
        nn.CrossEntropyLoss(),
        torch.optim.SGD(model.parameters(), 0.01),
    )


def nothing_to_gain():
    """An inference whose time is that of its matrix products."""
    return perceptron(1024, 6).eval().requires_grad_(False), torch.randn(16, 1024)


class Slow(torch.utils.data.Dataset):
    """Each item waits for its storage."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.0025)
        generator = torch.Generator().manual_seed(index)
        return torch.randn(512, generator=generator), index % 10


def slow_loading():
    model = perceptron()
    return Job(model, Slow(), optimizer=torch.optim.SGD(model.parameters(), 0.01), batch_size=8)


class LoopAdam(torch.optim.Optimizer):
    """Adam as one writes it by hand."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["mean"] = 0.9 * state["mean"] + 0.1 * parameter.grad
                state["square"] = 0.999 * state["square"] + 0.001 * parameter.grad**2
                parameter -= group["lr"] * state["mean"] / (state["square"].sqrt() + 1e-8)


def loop_optimizer():
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(16)])
    data = TensorDataset(torch.randn(256, 64), torch.randn(256, 64))
    return model, DataLoader(data, batch_size=8), nn.MSELoss(), LoopAdam(model.parameters(), 1e-3)


class Head(nn.Module):
    """Causal attention by the formula."""

    def __init__(self, width, size, tokens):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, size, bias=False) for _ in range(3))
        self.register_buffer("seen", torch.tril(torch.ones(tokens, tokens, dtype=torch.bool)))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        return scores.masked_fill(~self.seen, float("-inf")).softmax(-1) @ v


class Attention(nn.Module):
    """One head after the other."""

    def __init__(self, width=64, heads=8, tokens=32):
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // heads, tokens) for _ in range(heads))
        self.project = nn.Linear(width, width)

    def forward(self, x):
        return x + self.project(torch.cat([head(x) for head in self.heads], dim=-1))


def attention_by_hand():
    model = nn.Sequential(*[Attention() for _ in range(4)]).requires_grad_(False)
    return model, torch.randn(8, 32, 64)


def forgotten_no_grad():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, batch_first=True), 4).eval(), torch.randn(
        2, 32, 128
    )


def anomaly_mode():
    torch.autograd.set_detect_anomaly(True)
    return no_fault()


def one_thread():
    torch.set_num_threads(1)
    return no_fault()


class Decoded(torch.utils.data.Dataset):
    """Each item keeps a core busy, as decoding a picture does."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        pixels = numpy.random.default_rng(index).standard_normal(40_000)
        for _ in range(12):
            pixels = numpy.sort(numpy.abs(numpy.fft.rfft(pixels))[:20_000].repeat(2))
        return torch.from_numpy(pixels[:512]).float() % 1, index % 10


def two_that_interfere():
    """One thread, and loading that keeps a core busy: workers bring much, and so does a second thread, but not both."""
    torch.set_num_threads(1)
    model = perceptron(width=512, layers=6)
    return Job(model, Decoded(), optimizer=torch.optim.SGD(model.parameters(), 0.01), batch_size=8)
