"""What torch has on this machine, for a run that has to choose a device."""

from __future__ import annotations

from dataclasses import dataclass


class NoDevice(Exception):
    """The device asked for is missing; the message says so, and what to do."""


@dataclass(frozen=True)
class Torch:
    """torch on this machine.

    Attributes:
        torch: its version.
        threads: its default number of threads.
        device: the device of the run, "cpu" or "cuda".
    """

    torch: str
    threads: int
    device: str


def torch_here(device: str) -> Torch:
    """device: "cpu", "cuda" or "auto", which takes a GPU if there is one. Raises NoDevice."""
    import torch

    has_gpu = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    if device == "cuda" and not has_gpu:
        raise NoDevice("--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`")
    return Torch(torch.__version__, torch.get_num_threads(), device)
