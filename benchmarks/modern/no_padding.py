"""Pack sequences of different lengths into one row instead of padding them.

A batch is a rectangle, so sequences are filled up to the longest of them. Embeddings, linear layers and norms compute
on padding as on everything else, but need no rectangle, since they treat every token by itself. Only attention has to
know where a sequence ends. So all sequences of a batch can lie one behind the other in one row if attention looks at
each by itself: in a loop over the sequences, or, on a GPU, over the row as a nested tensor, in one call.

Why people write the baseline: `pad_sequence` in `collate_fn` is all it needs, and every model takes such batches.

What to expect: as much time saved as padding is saved, in training too. A batch has the same sequences as before, so a
training takes the same steps. The tip `length-bucketing` leaves some padding and makes other batches, but changes no
line of the model, whose code must be yours here. Attention in a loop costs little on a CPU; on a GPU its many short
kernels can take longer than padding did. Pack once, before the first layer, and not around attention alone: it is
linear layers that gain most.

What else torch has, as tried on 2.15 on a CPU: attention of nested tensors falls back to a formula slower than the
loop, without `is_causal`; FlexAttention with a mask of the sequences runs forward only, and took longer than the loop;
`varlen_attn` is for GPUs alone, in half precision.

`nn.TransformerEncoder` packs by itself in eval mode, without gradients, given a `src_key_padding_mask` with padding at
the end and no `mask`, if its layers have `batch_first=True`, biases, ReLU or GELU, an even number of heads, and not
`norm_first`; not under autocast, nor compiled with `mask_check` on.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.jobs.language_model import GPT, TrainGPT
from benchmarks.jobs.sequences import RunReader, TransformerReader, line_bytes
from tipbench.tip.words import *


def rows(module: nn.Module, inputs: Any, output: Any) -> int:
    """That a linear layer computes: a token each."""
    return output.numel() // module.out_features if isinstance(module, nn.Linear) else 0


PACK = (
    "# in collate_fn: all tokens in one row, each one's place in its sequence, and how long the sequences are\n"
    "lengths = [len(sequence) for sequence in sequences]\n"
    "row, places = torch.cat(sequences)[None], torch.cat([torch.arange(length) for length in lengths])\n"
    "# positions are those of `places`; in each attention, on (1, heads, tokens, width), with your dropout_p and\n"
    "# scale, in an encoder without is_causal; shift targets, pool, and take last tokens within each of `lengths`:\n"
)

TIP = Tip(
    id="no-padding",
    title="Pack sequences instead of padding them",
    do=(
        f"{PACK}split = zip(*(x.split(lengths, dim=2) for x in (query, key, value)))\n"
        "mixed = torch.cat([F.scaled_dot_product_attention(q, k, v, is_causal=True) for q, k, v in split], dim=2)"
    ),
    ways={
        "nested_tensor": (
            f"{PACK}ends = torch.tensor([0, *lengths], device=query.device).cumsum(0)\n"
            "limits = {'min_seqlen': min(lengths), 'max_seqlen': max(lengths)}\n"
            "rows = [x[0].transpose(0, 1).contiguous() for x in (query, key, value)]\n"
            "nested = [torch.nested.nested_tensor_from_jagged(x, ends, **limits).transpose(1, 2) for x in rows]\n"
            "mixed = F.scaled_dot_product_attention(*nested, is_causal=True)\n"
            "mixed = mixed.transpose(1, 2).values().transpose(0, 1)[None]"
        ),
    },
    when="sequences differ in length, and only attention mixes tokens: it must stay within each sequence",
    against="batches padded to their longest sequence",
    guide=("M18",),
    claim=Claim.FASTER,
    called="attention in a loop",
    mechanism=falls("rows that linear layers compute", lambda step: over_modules(step, rows)),
    why_not="Where the sequences of a batch are of about the same length, there is little padding to save.",
)


class Packed(NamedTuple):
    """All tokens of a batch (1, tokens), each one's place in its sequence, and the lengths, which stay on the host."""

    row: torch.Tensor
    places: torch.Tensor
    lengths: list[int]

    def to(self, device: torch.device, non_blocking: bool) -> "Packed":
        row, places = (each.to(device, non_blocking=non_blocking) for each in (self.row, self.places))
        return Packed(row, places, self.lengths)


def pack(sequences: Sequence[torch.Tensor]) -> Packed:
    lengths = [len(sequence) for sequence in sequences]
    return Packed(torch.cat(list(sequences))[None], torch.cat([torch.arange(length) for length in lengths]), lengths)


def in_a_loop(lengths: list[int], device: torch.device) -> Callable[..., torch.Tensor]:
    """Causal attention within each sequence."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        split = zip(*(x.split(lengths, dim=2) for x in (query, key, value)), strict=True)
        return torch.cat([scaled_dot_product_attention(q, k, v, is_causal=True) for q, k, v in split], dim=2)

    return attend


def of_nested_tensors(lengths: list[int], device: torch.device) -> Callable[..., torch.Tensor]:
    """The same in one call, for which only GPUs have a kernel."""
    ends = torch.tensor([0, *lengths], device=device).cumsum(0)
    least, most = min(lengths), max(lengths)  # else each call waits for the GPU to know them

    def nested(x: torch.Tensor) -> torch.Tensor:
        rows = x[0].transpose(0, 1).contiguous()
        return torch.nested.nested_tensor_from_jagged(rows, ends, min_seqlen=least, max_seqlen=most).transpose(1, 2)

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        mixed = scaled_dot_product_attention(nested(query), nested(key), nested(value), is_causal=True)
        return mixed.transpose(1, 2).values().transpose(0, 1)[None]

    return attend


def no_padding(job: Job, within: Callable[..., Any] = in_a_loop, packed: Callable[..., Packed] = pack) -> None:
    """The tip, on a job with a Transformer over source lines. within: makes the attention, of lengths and device."""
    model = job.model
    assert isinstance(model, TransformerReader | GPT)

    def collate(batch: list[tuple[torch.Tensor, Any]]) -> tuple[Packed, torch.Tensor]:
        return packed([line for line, _ in batch]), torch.hstack([torch.as_tensor(target) for _, target in batch])

    def forward(batch: Packed) -> Any:
        attend = within(batch.lengths, batch.row.device)
        x = model.bytes(batch.row) + model.positions(batch.places)
        for block in model.blocks:
            block.attend = attend
            x = block(x)
        states = model.norm(x)[0]
        return model.head(states) if isinstance(model, GPT) else states[[end - 1 for end in accumulate(batch.lengths)]]

    job.loading["collate_fn"] = collate
    model.forward = forward  # type: ignore[method-assign, assignment]


class _Lines(
    MacroPair, apply=no_padding, nested_tensor=requires(gpu(1))(partial(no_padding, within=of_nested_tensors))
):
    """An epoch, since its batches differ in length."""

    sizes = RunReader.sizes.but(dict(lines=48, batch=12), L=dict(lines=512))


class TransformerEpoch(_Lines, RunReader):
    """Turning lines of source text into vectors with a small causal Transformer."""


class GPTTraining(_Lines):
    """Training a small GPT on lines of source text."""

    task = "training"
    tolerance = TrainGPT.tolerance

    def job(self) -> Job:
        return line_bytes(self.device, **self.size)

    def step_of(self, job: Job) -> Step:
        return job.epoch
