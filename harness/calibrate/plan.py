"""Which cases a calibration measures, in which order, and about how long that takes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tipbench.records.record import PairInfo
from tipbench.suite.selection import NothingSelected
from tipbench.tip.process import ProcessSettings

ENGINE = {"quick": "quick", "long": "full"}
"""The profile of `tipbench run` that each profile of the calibration measures with, and so calibrates."""

REPEAT = {"quick": 1, "long": 10}
"""Repetitions of the whole plan, where no number is given."""

QUICK = (
    *("aa", "planted/idle/none", "planted/idle/optimized+1", "planted/idle/baseline+2", "planted/idle/optimized+3"),
    *("planted/idle/baseline+5", "planted/idle/optimized+5", "planted/idle/baseline+10", "planted/idle/optimized+10"),
    *("planted/loaded", "random", "memory", "timer/Pointwise", "timer/SmallOperations"),
)
"""What fits into five minutes on 2 cores; `long` has all."""

SECONDS = {
    "quick": {"aa": 5.0, "own": 20.0, "planted": 5.0, "random": 6.0, "memory": 8.0, "timer": 35.0},
    "full": {"aa": 12.0, "own": 60.0, "planted": 15.0, "random": 40.0, "memory": 8.0, "timer": 40.0},
}
"""About how long one comparison takes on 2 cores, for the plan that is printed first; decides nothing."""

PARTS = {
    "aa": "identical sides",
    "planted": "a planted difference in time",
    "random": "a difference that comes and goes",
    "memory": "planted memory",
    "timer": "the same step by another timer",
}


@dataclass(frozen=True)
class Case:
    """One thing to measure. truth: ln of the planted speedup; None where time is not compared."""

    name: str
    part: str
    pair: PairInfo
    truth: float | None = None
    loaded: bool = False

    def seconds(self, engine: str) -> float:
        """About how long it takes."""
        apart = self.part == "aa" and any(variant.settings != ProcessSettings() for variant in self.pair.variants)
        return SECONDS[engine]["own" if apart else self.part]


def cases(profile: str, controls: Sequence[PairInfo], planted: Iterable[PairInfo]) -> list[Case]:
    """The cases of one repetition. planted: the pairs of `tipbench.calibrate.planted`, memory ones included."""
    known = {info.pair: info for info in planted}
    listed = [
        Case(f"aa/{_state(loaded)}/{info.pair}", "aa", info, 0.0, loaded)
        for loaded in (False, True)
        for info in controls
    ]
    for loaded in (False, True):
        for info in known.values():
            if "in_baseline" not in info.sizes or info.pair == "AtRandom":
                continue
            case = _planted(info, loaded)
            if not loaded or case.name.endswith("+5"):
                listed.append(case)
    listed.append(Case("random", "random", known["AtRandom"], 0.0))
    listed += [Case(f"memory/{name.lower()}", "memory", known[name]) for name in ("Held", "Transient", "Leak")]
    listed += [Case(f"timer/{info.pair}", "timer", info) for info in controls if info.pair != "OwnSurroundings"]
    return [case for case in listed if profile == "long" or _named(case, QUICK)]


def _planted(info: PairInfo, loaded: bool) -> Case:
    sines, in_baseline, in_optimized = (info.sizes[name] for name in ("sines", "in_baseline", "in_optimized"))
    side = "baseline" if in_baseline else "optimized"
    amount = f"{side}+{100 * (in_baseline + in_optimized) / sines:g}" if in_baseline + in_optimized else "none"
    truth = math.log((sines + in_baseline) / (sines + in_optimized))
    return Case(f"planted/{_state(loaded)}/{amount}", "planted", info, truth, loaded)


def _state(loaded: bool) -> str:
    return "loaded" if loaded else "idle"


def _named(case: Case, names: Iterable[str]) -> bool:
    return any(case.name == name or case.name.startswith(f"{name}/") for name in names)


def select(listed: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """The cases named, a name standing for all that begin with it and a slash; all without names.

    Raises NothingSelected for a name that is none.
    """
    for name in names:
        if not any(_named(case, [name]) for case in listed):
            near = difflib.get_close_matches(name, [case.name for case in listed], n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            raise NothingSelected(
                f"no case of this profile is named {name!r}; {hint}They are: {', '.join(case.name for case in listed)}"
            )
    return [case for case in listed if not names or _named(case, names)]


def announcement(left: Sequence[Case], engine: str) -> str:
    """The plan as it is printed first: what is left to do, and about how long it takes."""
    lines = []
    for part, words in PARTS.items():
        mine = [case for case in left if case.part == part]
        if mine:
            loaded = sum(case.loaded for case in mine)
            seconds = sum(case.seconds(engine) for case in mine)
            lines.append(f"  {part:<8} {len(mine):>4} comparisons ({loaded} loaded), {_minutes(seconds)}: {words}")
    total = sum(case.seconds(engine) for case in left)
    return "\n".join([f"{len(left)} comparisons, {_minutes(total)} on 2 cores:", *lines])


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.1f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"
