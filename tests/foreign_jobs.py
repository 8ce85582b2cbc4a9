"""Jobs that the suite does not have, as people write them, to run in them what the tips say to write.

The suite's own jobs are all alike: one parameter group, no scheduler, no bias in the last layer. Texts that were tried
in these alone trained other people's models on a wrong loss, dropped gradients, or ignored a schedule.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from tests.written import IMPORTED, Written, executed, read
from tipbench.suite.loops import calls_of_the_loop

STEPS, HALF = 4, 2

Names = dict[str, Any]

TRAINING = """
optimizer.zero_grad()
batch, targets = batch.to(device), targets.to(device)
outputs = model(batch)
loss = criterion(outputs, targets)
loss.backward()
optimizer.step()
"""
CLIPPED = TRAINING.replace("optimizer.step()", "nn.utils.clip_grad_norm_(model.parameters(), 0.5)\noptimizer.step()")


@dataclass(frozen=True)
class ForeignJob:
    """A loop that somebody else wrote.

    Attributes:
        build: makes what stands before the loop, by name. Takes a folder for files.
        loop: the lines for one batch.
        behind: the lines behind an epoch.
        saved: names whose `state_dict` the job saves, and loads when it is resumed.
    """

    build: Callable[[Path], Names]
    loop: str = TRAINING
    behind: str = ""
    saved: Sequence[str] = ("model", "optimizer")

    @property
    def trains(self) -> bool:
        return "optimizer" in self.saved


class NoPlace(Exception):
    """A text is about lines that the job does not have."""


@dataclass
class Ran:
    """What a job did.

    Attributes:
        losses: of each step, or the outputs of an inference.
        rates: the learning rate of each step.
        state: the parameters and buffers in the end, by name.
        saved: what a checkpoint after half of the steps holds, by name.
    """

    losses: list[torch.Tensor] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)


def run(job: ForeignJob, folder: Path, *texts: str, saved: Mapping[str, Any] | None = None) -> Ran:
    """All steps of a job with what the texts say to write.

    saved: what the same job saved after half of them, with which a new process goes on.
    """
    _seed(0)
    torch.set_grad_enabled(True)  # as in a new process
    built = job.build(folder)
    if saved:
        for parameter in built["model"].parameters():
            parameter.data.zero_()  # what is not loaded shows
    names, loop = _followed(built, job, texts)
    ran = Ran()
    if isinstance(loop[0], ast.For):
        names["keep"] = lambda loss: ran.losses.append(loss.detach().clone())
        loop[0].body += ast.parse("keep(loss)").body
        for _ in range(2):
            executed(loop, names)
        return _ended(ran, names)
    for step, (batch, targets) in enumerate(islice(_batches(names, job), STEPS)):
        if saved and step < HALF:
            continue
        if step == HALF and job.trains:
            for name in saved or ():
                names[name].load_state_dict(copy.deepcopy(saved[name]))
            also = {"scheduler"} & names.keys() - set(job.saved)
            ran.saved = {name: copy.deepcopy(names[name].state_dict()) for name in (*job.saved, *also)}
        names.update(batch=batch, targets=targets)
        _seed(step)  # dropout is the same, whatever else draws
        if job.trains:
            ran.rates.append(float(names["optimizer"].param_groups[0]["lr"]))
        executed(loop, names)
        ran.losses.append(names["loss" if job.trains else "outputs"].detach().clone().float())
    return _ended(ran, names)


def _seed(number: int) -> None:
    """Of the CPU alone: torch.manual_seed formats a stack for each kind of device, which took longer than a step."""
    torch.default_generator.manual_seed(number)


def _ended(ran: Ran, names: Names) -> Ran:
    state = getattr(names["model"], "state_dict", dict)()  # a compiled package has none
    ran.state = {name: value.detach().clone() for name, value in state.items() if torch.is_tensor(value)}
    return ran


def _followed(built: Names, job: ForeignJob, texts: Sequence[str]) -> tuple[Names, list[ast.stmt]]:
    names = {**IMPORTED, "device": torch.device("cpu"), "epochs": STEPS, **built}
    loop: list[ast.stmt] = ast.parse(job.loop).body
    for text in texts:
        written = read(text)
        executed(written.before, names)
        loop = _with_lines(loop, written)
    return names, loop


def _batches(names: Names, job: ForeignJob) -> Iterator[tuple[Any, Any]]:
    for epoch in range(STEPS):
        _seed(100 + epoch)
        yield from names["loader"]
        executed(ast.parse(job.behind).body, names)


def _with_lines(loop: list[ast.stmt], written: Written) -> list[ast.stmt]:
    """The loop, with a text's lines where a person puts them: each in place of the first line that makes the same
    calls, behind those of the text that make none. What else is in the loop, such as clipping or a scheduler's step,
    stays where it is. Raises NoPlace where the loop is about several batches, and the text is about one."""
    if written.is_the_loop or isinstance(loop[0], ast.For):
        if written.lines and not written.is_the_loop:
            raise NoPlace
        return list(written.lines or loop)
    lines, place, ahead = list(loop), len(loop), []
    for line in written.lines:
        same = [number for number, each in enumerate(lines) if _does(line) & _does(each)]
        if not same:
            ahead.append(line)
            continue
        if isinstance(line, ast.With) and all(map(_is_plain, line.body)):
            inside: list[ast.stmt] = lines[same[0] : same[-1] + 1]
            new: ast.stmt = ast.With(line.items, inside, lineno=1, col_offset=0)
            lines[same[0] : same[-1] + 1] = [*ahead, new]
        else:
            new = _renamed(line, lines[same[0]])
            lines = [each for number, each in enumerate(lines) if number not in same[1:]]
            lines[same[0] : same[0] + 1] = [*ahead, new]
        place, ahead = same[0] + len(ahead) + 1, []
    lines[place:place] = ahead
    return [ast.fix_missing_locations(line) for line in lines]


def _does(line: ast.stmt) -> set[str]:
    """The calls of the loop that a line makes; what sets the loss does what the criterion does."""
    sets_loss = isinstance(line, ast.Assign) and ast.unparse(line).startswith(("loss = F.", "loss = sum("))
    return {*calls_of_the_loop(line)} | ({"criterion"} if sets_loss else set())


def _is_plain(line: ast.stmt) -> bool:
    plain = ("outputs = model(batch)", "loss = criterion(model(batch), targets)", "loss = criterion(outputs, targets)")
    return ast.unparse(line) in plain


def _renamed(line: ast.stmt, before: ast.stmt) -> ast.stmt:
    """`outputs = model(batch.to(...))` with what the job itself hands to the model, and does with the outputs."""
    match line:
        case ast.Assign(targets=[ast.Name(id="outputs")], value=ast.Call(func=ast.Name(id="model"), args=[argument])):
            handed = next(
                node.args[0]
                for node in ast.walk(before)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "model"
            )
            new = _Replaced("batch", handed).visit(copy.deepcopy(argument))
            written: ast.stmt = _Argument(new).visit(copy.deepcopy(before))
            return written
    return line


@dataclass
class _Replaced(ast.NodeTransformer):
    name: str
    by: ast.expr

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by if node.id == self.name else node


@dataclass
class _Argument(ast.NodeTransformer):
    """Hands something else to the model."""

    by: ast.expr

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "model":
            node.args[0] = self.by
        return node


def loading(data: Dataset[Any], **arguments: Any) -> Names:
    """A DataLoader of data and arguments, with what a text may be about."""
    batch_size = arguments["batch_size"]
    return {"data": data, "loader": DataLoader(data, **arguments), "arguments": arguments, "batch_size": batch_size}


# ---- a language model: scores are (batch, tokens, words), the head has a bias, some targets are ignored ------------

WORDS = 48


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout), nn.Linear(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(self.norm(x)).chunk(3, dim=-1)
        return self.feed(x + F.scaled_dot_product_attention(query, key, value, is_causal=True))


class Writer(nn.Module):
    def __init__(self, width: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(2))
        self.head = nn.Linear(width, WORDS, bias=bias)

    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.states(tokens))


def of_words(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, -2), words.flatten(), ignore_index=-100)


def writing(folder: Path, width: int = 24, dropout: float = 0.1, tied: bool = False) -> Names:
    tokens = torch.randint(WORDS, (24, 16))
    targets = torch.where(torch.rand(24, 16) < 0.3, -100, tokens.roll(-1, 1))
    model = Writer(width, dropout, bias=not tied)
    if tied:
        model.head.weight = model.embedding.weight
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=others, weight_decay=0.0, lr=2e-3)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    return loading(TensorDataset(tokens, targets), batch_size=8, shuffle=True) | {
        "model": model,
        "criterion": of_words,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5)),
    }


def pausing(folder: Path) -> Names:
    """With a generator of its own for shuffling, batches of unlike size, and an average of the weights beside."""
    names = writing(folder, dropout=0.0)
    names["average"] = AveragedModel(names["model"], multi_avg_fn=get_ema_multi_avg_fn(0.9))
    mixed = torch.Generator().manual_seed(3)
    return names | loading(names["data"], batch_size=7, shuffle=True, generator=mixed)


# ---- photos in folders, by torchvision's own data set and worker processes -----------------------------------------


def photos(folder: Path) -> Path:
    if not folder.exists():
        for number in range(16):
            file = folder / "ab"[number % 2] / f"{number}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.effect_noise((40 + number, 48), 80).convert("RGB").save(file)
    return folder


class Viewer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(inputs, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
                for inputs in (3, 8)
            )
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))

    def forward(self, photos: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(photos))


def seeing(folder: Path) -> Names:
    floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    seen = v2.Compose([v2.Resize((24, 24)), v2.PILToTensor(), *floats])
    data = ImageFolder(photos(folder / "photos"), transform=seen)
    model = Viewer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    return loading(data, batch_size=5, shuffle=True, num_workers=1, drop_last=True) | {
        "model": model,
        "criterion": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
    }


# ---- rows of a table, in two dimensions, drawn by a sampler ---------------------------------------------------------


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 32), nn.ReLU()), nn.Sequential(nn.Linear(32, 1))])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            rows = block(rows)
        return rows


def tabulating(folder: Path) -> Names:
    """A regression whose targets are near 1000, and so is what the model begins with."""
    data = TensorDataset(torch.randn(40, 6), 1000 + torch.randn(40, 1))
    model = Ranker()
    nn.init.constant_(model.blocks[1].get_parameter("0.bias"), 1000.0)
    drawn = WeightedRandomSampler(torch.rand(40).tolist(), 40, generator=torch.Generator().manual_seed(5))
    return loading(data, batch_size=8, sampler=drawn) | {
        "model": model,
        "criterion": F.huber_loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05),
    }


# ---- sequences of unlike length, padded by a function of the job's own --------------------------------------------


class Lines(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self) -> None:
        self.lines = [torch.randint(1, WORDS, (length,)) for length in torch.randint(3, 20, (40,)).tolist()]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return self.lines[number], len(self.lines[number]) % 3


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(WORDS, 8, padding_idx=0), nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 3)
        self.blocks = nn.ModuleList()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        return self.head((states * (tokens != 0)[..., None]).sum(1))


def padded(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    lines = [line for line, _ in samples]
    return pad_sequence(lines, batch_first=True), torch.tensor([kind for _, kind in samples])


def reading(folder: Path) -> Names:
    model = Reader()
    return loading(Lines(), batch_size=8, shuffle=True, collate_fn=padded, drop_last=True) | {
        "model": model,
        "criterion": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


def judging(folder: Path) -> Names:
    """An evaluation: no optimizer, samples in order."""
    names = reading(folder)
    names["model"].eval()
    return names | loading(names["data"], batch_size=8, collate_fn=padded)


def looking(folder: Path) -> Names:
    """The inference of a convolutional network."""
    names = seeing(folder)
    names["model"].eval()
    return names | loading(names["data"], batch_size=4)


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        drawn = torch.Generator().manual_seed(11)
        for _ in range(80):
            row = torch.randn(6, generator=drawn)
            yield row, 1000 + row.sum()[None]


def streaming(folder: Path) -> Names:
    """Samples that come one after the other, with no length."""
    return tabulating(folder) | loading(Stream(), batch_size=8)


def fine_tuning(folder: Path) -> Names:
    """Only the head is trained, though the optimizer has all parameters, and the statistics of the norms stay."""
    names = seeing(folder)
    model = names["model"]
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    model.blocks.eval()
    names |= loading(names["data"], batch_size=5, shuffle=True)
    return names | {"optimizer": torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)}


def resuming(folder: Path) -> Names:
    """A fused optimizer with the moments of a checkpoint from before a text was followed."""
    names = seeing(folder)
    parameters = list(names["model"].parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, fused=True)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return names | loading(names["data"], batch_size=5, shuffle=True) | {"optimizer": optimizer}


ACCUMULATED = """
for number, (batch, targets) in enumerate(loader):
    loss = criterion(model(batch.to(device)), targets.to(device))
    (loss / 4).backward()
    if (number + 1) % 4 == 0 or number + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
"""


WITH_A_SCALER = """
optimizer.zero_grad()
batch, targets = batch.to(device), targets.to(device)
with torch.autocast(device.type, dtype=torch.bfloat16):
    outputs = model(batch)
    loss = criterion(outputs, targets)
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(model.parameters(), 0.5)
scaler.step(optimizer)
scaler.update()
scheduler.step()
"""


def scaling(folder: Path) -> Names:
    return writing(folder, dropout=0.0) | {"scaler": torch.amp.GradScaler("cpu")}


SCHEDULED = ("model", "optimizer", "scheduler")
BY_STEPS = CLIPPED + "scheduler.step()"
AT_THE_END = TRAINING.replace("optimizer.zero_grad()\n", "") + "optimizer.zero_grad()"
AVERAGED = AT_THE_END + "\naverage.update_parameters(model)"
FOREIGN: Mapping[str, ForeignJob] = {
    "writing": ForeignJob(writing, BY_STEPS, saved=SCHEDULED),
    "writing_squares": ForeignJob(partial(writing, width=16, dropout=0.0, tied=True), BY_STEPS, saved=SCHEDULED),
    "pausing": ForeignJob(pausing, AVERAGED, saved=("model", "optimizer", "average")),
    "seeing": ForeignJob(seeing, behind="scheduler.step()", saved=SCHEDULED),
    "fine_tuning": ForeignJob(fine_tuning),
    "resuming": ForeignJob(resuming),
    "tabulating": ForeignJob(tabulating),
    "reading": ForeignJob(reading),
    "streaming": ForeignJob(streaming),
    "scaling": ForeignJob(scaling, WITH_A_SCALER, saved=(*SCHEDULED, "scaler")),
    "accumulating": ForeignJob(partial(writing, dropout=0.0), ACCUMULATED),
    "judging": ForeignJob(judging, "outputs = model(batch)", saved=("model",)),
    "looking": ForeignJob(looking, "with torch.no_grad(): outputs = model(batch)", saved=("model",)),
}
"""By name. `writing_squares` has as many tokens as its states are wide, and its head is the embedding."""
