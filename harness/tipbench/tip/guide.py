"""What the guides say (`guides.toml`): every piece of advice that some tip must answer for, and what tries it.

A tip names the items it answers in `Tip.guide`; tests/test_guide.py fails where one is left over.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tipbench.tip.pair import Claim

FOREMOST = {
    "channels-last": "ResNetInference", "amp": "", "half-precision": "", "sdpa": "GPTInference", "no-grad": "",
    "tensor-cores": "", "cuda-graphs": "", "fused-optimizer": "", "pin-memory": "", "openmp-threads": "",
    "compile-modes": "", "async-loading": "TrainingFromStorage", "allocator": "",
}  # fmt: skip
"""Tips that come first, in runs and on pages: those that guides name first, that few jobs have followed already, and
that brought 5 % and more in the stored runs, or cost as much; the soonest measured first. A short run reaches few
others. With each the whole job that decides it soonest, if that is not its file's first."""

FOREMOST_ON_A_CARD = (
    *("precision", "together", "amp", "compile-modes", "cuda-graphs", "channels-last", "fused-optimizer"),
    *("sdpa", "pin-memory", "async-loading", "cudnn-benchmark", "checkpointing"),
)
"""The same on a GPU: what its owners ask, in that order. What each decides soonest there is not measured yet."""


class GuideSentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a guide says.

    Attributes:
        says: what it says, in our words, with code between backticks.
        tried: names of pairs, variants and sweeps that try it.
        claim: what it promises, by which results are judged.
        untried: why nothing tries it, or what of it is not tried.
    """

    says: str
    tried: tuple[str, ...] = ()
    claim: Claim = Claim.FASTER
    untried: str = ""


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One item of a guide.

    Attributes:
        id: its chapter, a key of `SOURCES`, and a number within it.
        title: the advice in a few words.
        sentence: its sentences, in the guide's order; none of practice since the guides were written.
    """

    id: str
    title: str
    sentence: tuple[GuideSentence, ...] = ()

    @property
    def source(self) -> str:
        chapter = self.id.split(".")[0]
        return SOURCES[chapter if chapter in SOURCES else chapter[0]]


_GUIDES = tomllib.loads(Path(__file__).with_name("guides.toml").read_text())

SOURCES: Mapping[str, str] = _GUIDES["sources"]
"""What the chapters are called."""

ITEMS = msgspec.convert(_GUIDES["item"], tuple[Item, ...])
