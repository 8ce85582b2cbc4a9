"""How much faster a variant is, with an interval from its first launch on.

Launches of a pair differ by more than their rounds explain, and one launch cannot show by how much; the launches of all
stored runs can. So the variance between launches is estimated from both: scaled inverse chi-square around what stored
runs lead one to expect, as in limma's moderated t (Smyth 2004). `python -m tests.fit_prior` fits what is expected, and
"One estimate" in harness/decisions.md has what it was proved on.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import Launch, PairInfo
from tipbench.verdict.launches import LaunchEffect
from tipbench.verdict.statistics import Mean, squares

PRIORS = Path(__file__).with_name("prior.toml")
"""By kind of comparison what `Prior` has, with the date and the runs it is fitted on. Runs on GPUs are too few for a
prior of their own; their launches differ by less than those on a CPU do."""

EffectKind = Literal["job", "job apart", "operation", "operation apart"]
"""A whole job or an operation alone, with its sides in one process, or apart: in processes of their own, with ranks, or
timed one after the other, as where worker processes load data."""

LEAST_BLOCKS = 10
"""Of each side in a launch, for a single launch to decide."""

MODES = 0.2
"""By less than this where pages of memory lie slows one side, as long as its process lives; of Copy by up to 13 %."""

BESIDE = 6
"""Launches that decide where other programs kept cores busy: what stored runs say of the spread does not hold then."""


@dataclass(frozen=True)
class Prior:
    """What stored runs say of the variance of a launch's effect:
    rounds x (the squared error of its rounds) + (share x effect)^2 + floor^2.

    Attributes:
        rounds: factor of the squared error that a launch's own rounds show.
        share: of large effects, how far launches are off.
        floor: standard deviation of a launch with a small effect and without noise in its rounds (ln).
        freedom: degrees of freedom that this is worth.
    """

    rounds: float
    share: float
    floor: float
    freedom: float

    def variance(self, effect: float, errors: Sequence[float]) -> float:
        """Of a launch's effect (ln squared). effect: mean over launches (ln). errors: of each launch's rounds (ln)."""
        return self.rounds * median(errors) ** 2 + (self.share * effect) ** 2 + self.floor**2

    def mean(self, effects: Sequence[LaunchEffect]) -> Mean:
        """The effect by these launches, at least one."""
        values = [effect.value for effect in effects]
        count, mean = len(values), fmean(values)
        expected = self.variance(mean, [effect.error for effect in effects])
        freedom = self.freedom + count - 1
        return Mean(mean, math.sqrt((self.freedom * expected + squares(values)) / freedom / count), freedom)


@cache
def priors() -> Mapping[EffectKind, Prior]:
    table = tomllib.loads(PRIORS.read_text(encoding="utf-8"))
    return {kind: Prior(**numbers) for kind, numbers in table["kinds"].items()}


def kind_of(info: PairInfo, variant: str, by_stretch: bool) -> EffectKind:
    """by_stretch: as `Launch` has it."""
    settings = {side.name: side.settings for side in info.variants if side.name in ("baseline", variant)}
    apart = by_stretch or len(set(settings.values())) > 1 or any(side.ranks > 1 for side in settings.values())
    if info.scale == "macro":
        return "job apart" if apart else "job"
    return "operation apart" if apart else "operation"


def enough(kind: EffectKind, launches: Sequence[Launch], effect: float) -> bool:
    """Whether so many launches may decide: one of a whole job with LEAST_BLOCKS a side, three of operations with an
    effect (ln) below MODES, two of all others, and BESIDE where other programs ran beside most of them."""
    beside = [launch for launch in launches if launch.others > OCCUPIED]
    if 2 * len(beside) > len(launches):
        return len(launches) >= BESIDE
    alone = kind == "job" and bool(launches) and 2 * launches[0].rounds >= LEAST_BLOCKS
    return len(launches) >= (1 if alone else 3 if kind.startswith("operation") and abs(effect) < MODES else 2)
