"""What stored runs lead one to expect of the spread between launches: `python -m tests.fit_prior FILE...`.

Fits what `tipbench.verdict.estimate.Prior` has by kind of comparison and writes it to `verdict/prior.toml`. With
`--replay` nothing is written: each run is judged by a prior that is fitted on all others, after its first launches, and
the launches that follow show how often that was wrong.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median, stdev
from typing import get_args

import numpy as np
from scipy import optimize, stats

from tipbench import __version__
from tipbench.records.record import Launch, Run
from tipbench.records.store import read
from tipbench.verdict.estimate import PRIORS, EffectKind, Prior, enough, kind_of
from tipbench.verdict.launches import LaunchEffect, launch_effect
from tipbench.verdict.rules import MARGIN, decide

FLOOR = 0.003
"""Least standard deviation of a launch (ln): what identical sides showed on a calm machine."""

LEAST_LATER = 3
"""Fewest launches that follow those a replay judges by."""


@dataclass(frozen=True)
class Comparison:
    """A pair and variant of a stored run.

    Attributes:
        run: name of the file.
        kind: of comparison.
        launches: those that were not too disturbed, in order.
        effects: one a launch.
        is_identical: whether both sides run the same code.
    """

    run: str
    kind: EffectKind
    launches: Sequence[Launch]
    effects: Sequence[LaunchEffect]
    is_identical: bool

    @property
    def values(self) -> list[float]:
        return [effect.value for effect in self.effects]


def comparisons(name: str, run: Run) -> Iterator[Comparison]:
    """Of a run on a CPU, those with a launch at least."""
    for record in run.records:
        for variant in (side.name for side in record.info.variants if side.name != "baseline"):
            timed = [launch for launch in record.launches if variant in launch.variant]
            pairs = [(launch, launch_effect(launch, variant, run.cores)[0]) for launch in timed]
            launches, effects = [], []
            for launch, effect in pairs:
                if effect is not None:
                    launches.append(launch)
                    effects.append(effect)
            if effects and record.info.device == "cpu":
                kind = kind_of(record.info, variant, launches[0].by_stretch)
                identical = record.info.tip.id == "control" and record.info.truth.get(variant, 1.0) == 1.0
                yield Comparison(name, kind, launches, effects, identical)


def fitted(of_kind: Sequence[Comparison]) -> Prior:
    """By maximum likelihood: the variance of launches over what is expected of it has an F distribution."""
    several = [each for each in of_kind if len(each.effects) > 1]
    shown = np.array([max(stdev(each.values), 1e-4) ** 2 for each in several])
    freedom = np.array([len(each.effects) - 1 for each in several])
    errors = np.array([median(effect.error for effect in each.effects) for each in several])
    means = np.array([fmean(each.values) for each in several])

    def unlikely(logs: np.ndarray) -> float:
        rounds, share, floor, worth = np.exp(logs)
        expected = rounds * errors**2 + (share * means) ** 2 + floor**2
        return -float(np.sum(stats.f.logpdf(shown / expected, freedom, worth) - np.log(expected)))

    starts = np.log([[1, 0.05, 0.004, 4], [1, 0.02, 0.01, 3]])
    best = min((optimize.minimize(unlikely, start, method="Nelder-Mead") for start in starts), key=lambda fit: fit.fun)
    rounds, share, floor, worth = (float(number) for number in np.exp(best.x))
    return Prior(rounds, share, max(floor, FLOOR), worth)


def fitted_all(stored: Iterable[Comparison]) -> dict[EffectKind, Prior]:
    by_kind: dict[EffectKind, list[Comparison]] = defaultdict(list)
    for each in stored:
        by_kind[each.kind].append(each)
    return {kind: fitted(by_kind[kind]) for kind in get_args(EffectKind)}


def as_toml(priors: Mapping[EffectKind, Prior], runs: Sequence[str], count: int) -> str:
    lines = [
        "# Written by `python -m tests.fit_prior`.",
        f"date = {datetime.now(UTC).date()}",
        f'suite = "{__version__}"',
        f"comparisons = {count}",
        "runs = [",
        *(f'    "{run}",' for run in runs),
        "]",
    ]
    for kind, prior in priors.items():
        lines += ["", f'[kinds."{kind}"]', *(f"{name} = {value:.4g}" for name, value in vars(prior).items())]
    return "\n".join(lines) + "\n"


def replay(stored: Mapping[str, Sequence[Comparison]], counts: Sequence[int]) -> dict[int, Counter[str]]:
    """By number of first launches how many comparisons were "judged" and "decided", by how many of those the later
    launches say that it was "wrong" (their mean is not beyond the margin, by two standard errors), how many 95 %
    intervals "missed" the mean of the later launches, and of "identical" code how many were called "different"."""
    found: dict[int, Counter[str]] = {count: Counter() for count in counts}
    for name, of_run in stored.items():
        priors = fitted_all(each for other, rest in stored.items() if other != name for each in rest)
        for each in of_run:
            for count in counts:
                if len(each.effects) < count + LEAST_LATER:
                    continue
                mean = priors[each.kind].mean(each.effects[:count])
                later, error = (
                    fmean(each.values[count:]),
                    stdev(each.values[count:]) / math.sqrt(len(each.effects) - count),
                )
                decided = enough(each.kind, each.launches[:count], mean.mean) and decide(mean) in ("faster", "slower")
                low, high = type(mean)(mean.mean, math.hypot(mean.error, error), mean.freedom).interval()
                found[count] += Counter(
                    judged=1,
                    decided=decided,
                    wrong=decided and later * math.copysign(1, mean.mean) < MARGIN - 2 * error,
                    missed=not low <= later <= high,
                    identical=each.is_identical,
                    different=each.is_identical and decided,
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--replay", action="store_true")
    options = parser.parse_args()
    stored = {file.stem: list(comparisons(file.stem, read(file)[0])) for file in sorted(options.files)}
    if options.replay:
        for count, found in replay(stored, (1, 2, 3, 4, 6)).items():
            print(f"after {count}:", ", ".join(f"{number} {what}" for what, number in found.items()))
        return
    every = [each for of_run in stored.values() for each in of_run]
    several = sum(len(each.effects) > 1 for each in every)
    PRIORS.write_text(as_toml(fitted_all(every), [*stored], several), encoding="utf-8")
    print(PRIORS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
