"""What launches that stand prepared cost one that is measured: `python -m tests.peers.prepared` prints a table.

Run it from the root of the checkout. Launches of the controls are measured in turns, once as in a run, with all others
of a group prepared and stopped beside them, and once alone on the machine. The spread of their effects must be the
same: waiting threads that spin, or caches that are lost, would show in it.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence

from scipy.stats import f as f_distribution

from tipbench.engine.checks import Start
from tipbench.engine.launch import NextLaunch
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import only_run
from tipbench.engine.profiles import PROFILES
from tipbench.machine.controls import controls
from tipbench.records.record import PairInfo, Record
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.needs import available_cores
from tipbench.verdict.launches import launch_effects

LAUNCHES = 18
"""Of each pair in each of the two ways."""

BESIDE = "no-grad.ResNetInference"
"""Prepared beside the controls, so that they are eight; it is not measured."""


def measured(group: Sequence[Record], beside: Sequence[Record], start: Start) -> list[Record]:
    """The records with one launch more, each measured while all others of `group` and `beside` stand prepared."""
    prepared = [
        NextLaunch(record, record.info.variants, start, PROFILES["full"], seed=0) for record in (*group, *beside)
    ]
    try:
        for one in prepared:
            one.prepare()
        found = []
        for one in prepared[: len(group)]:
            found.append(one.measure())
            one.end()
        return found
    finally:
        for one in prepared:
            one.end()


def spreads(records: Sequence[Record]) -> list[float]:
    """The standard deviation of each pair's effect over its launches."""
    cores = available_cores()
    return [statistics.stdev(launch_effects(record.launches, "optimized", cores)[0]) for record in records]


def ratio(together: Sequence[float], alone: Sequence[float], freedom: int) -> tuple[float, float, float]:
    """(ratio of the deviations, low, high), pooled over pairs as the mean logarithm; each has `freedom` degrees."""
    logs = [math.log(both[0] / both[1]) for both in zip(together, alone, strict=True)]
    # Of one pair, ln of the ratio of two deviations varies by half the logarithm of an F.
    error = float(f_distribution.ppf(0.8413, freedom, freedom))
    half = 1.96 * math.log(error) / 2 / math.sqrt(len(logs))
    mean = statistics.fmean(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    with only_run():
        found = discover(BENCHMARKS, "cpu")
        alike: list[PairInfo] = [info for info in found.pairs if info.tip["id"] == "control" and not info.why]
        (beside,) = (info for info in found.pairs if info.name == BESIDE)
        launcher = Launcher(BENCHMARKS, controls(found.threads))
        together = [Record(info, "measured") for info in alike]
        alone = list(together)
        try:
            for number in range(LAUNCHES):
                print(f"launch {number + 1} of {LAUNCHES}", file=sys.stderr, flush=True)
                together = measured(together, [Record(beside, "measured")], launcher.start)
                alone = [one for record in alone for one in measured([record], [], launcher.start)]
        finally:
            launcher.close()
    beside_others, by_itself = spreads(together), spreads(alone)
    print("spread of a launch, in %\npair, with others prepared, alone")
    for record, *both in zip(together, beside_others, by_itself, strict=True):
        print(f"{record.name}, {100 * both[0]:.2f}, {100 * both[1]:.2f}")
    mean, low, high = ratio(beside_others, by_itself, LAUNCHES - 1)
    print(f"ratio: {mean:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
