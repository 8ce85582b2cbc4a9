"""What torch has on this machine, for a run that has to choose a device."""

from __future__ import annotations

from dataclasses import dataclass


class NoDevice(Exception):
    """The wanted device is not there; the message says so, and what to do."""


@dataclass(frozen=True)
class Torch:
    """torch as it is here. threads: its default number of them. device: "cpu" or "cuda"."""

    torch: str
    threads: int
    device: str


def torch_here(device: str) -> Torch:
    """device: "cpu", "cuda" or "auto", a GPU where there is one. Raises NoDevice where there is no such device."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    if device == "cuda" and not has_gpu:
        raise NoDevice("--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`")
    return Torch(torch.__version__, torch.get_num_threads(), device)
