"""What earlier runs of a machine found of the same pairs, so that a run need not find it again.

Checks and memory are taken over from the newest run that found them itself, if it was of the same commit and all that
describes the pair is equal: its code, sizes and needs. Whole trainings that a run counted are never taken over, as each
run draws its own.
Of every AGAIN pairs one is checked all the same. If two runs ever disagree on a pair, nothing at all is taken over.

A variant that an earlier run decided gets one launch. It gets all others too where that launch is none that the earlier
ones lead one to expect: a verdict that chance brought is found out so.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scipy.special import stdtrit

from tipbench.records.record import PairInfo, Record, Run
from tipbench.verdict.launches import launch_effects
from tipbench.verdict.pooling import TIMES
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import judge

AGAIN = 10
"""Of so many pairs one is checked again."""

EXPECTED = 0.99
"""Share of launches that lie within the range that is expected of them."""

Effects = Mapping[str, Sequence[float]]
"""By variant, its effect (log ratio) in each launch that its verdict rests on."""


@dataclass(frozen=True)
class Known:
    """What a run need not find.

    Attributes:
        records: by the pair's name, its checks and memory, without launches.
        decided: by the pair's name, the effects of variants that an earlier run decided.
        doubted: names of pairs on which runs disagree; then `records` is empty.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    decided: Mapping[str, Effects] = field(default_factory=dict)
    doubted: Sequence[str] = ()


def known(run: Run, earlier: Sequence[Run], planned: Sequence[PairInfo]) -> Known:
    """What a run that begins need not find. earlier: runs of its machine in the same state, oldest first."""
    infos = {info.name: info for info in planned}
    checked: dict[str, list[tuple[Run, Record]]] = {}
    decided: dict[str, Effects] = {}
    for before in earlier:
        for record in before.records:
            info = infos.get(record.name)
            if info is None or record.outcome != "measured" or _work(info) != _work(record.info):
                continue
            decided[record.name] = _decided(record, before.cores, decided.get(record.name, {}))
            is_same = info == record.info and before.commit == run.commit and _is_commit(run.commit)
            if is_same and not record.known_from:
                checked.setdefault(record.name, []).append((before, record))
    decided = {name: effects for name, effects in decided.items() if effects}
    doubted = [name for name, found in checked.items() if len({_found(record) for _, record in found}) > 1]
    if doubted:
        return Known(decided=decided, doubted=doubted)
    records = {
        name: replace(record, launches=(), steps=0, wall_s=0.0, known_from=before.id)
        for name, ((*_, (before, record))) in checked.items()
        if all(variant.trainings is None or variant.trainings.shipped for variant in record.variants.values())
    }
    draw = random.Random(run.id)
    for name in draw.sample(sorted(records), math.ceil(len(records) / AGAIN)):
        del records[name]
    return Known(records, decided)


def settled(record: Record, effects: Effects, cores: int) -> list[str]:
    """The variants of a pair that need no further launch, as they have one that is like those that decided them.

    effects: of the pair, in `Known.decided`; empty where nothing was decided.
    """
    return [name for name in effects if _as_expected(record, name, effects[name], cores)]


def _as_expected(record: Record, variant: str, before: Sequence[float], cores: int) -> bool:
    launches = [launch for launch in record.launches if variant in launch.variant]
    now, _ = launch_effects(launches, variant, cores)
    if not now:
        return False
    mean, count = statistics.fmean(before), len(before)
    between = math.hypot(TIMES.small, TIMES.share * mean)
    deviation = math.hypot(statistics.stdev(before) * math.sqrt(1 + 1 / count), between)
    return abs(statistics.fmean(now) - mean) <= float(stdtrit(count - 1, (1 + EXPECTED) / 2)) * deviation


def _work(info: PairInfo) -> tuple[object, ...]:
    """What is timed: texts and lines may change without a change of it."""
    return info.code, info.sizes, info.device, info.flush_l2


def _decided(record: Record, cores: int, before: Effects) -> Effects:
    """Of the variants that are decided. before: the same by earlier runs, which holds for those that too few launches
    timed to decide them: what was decided once may be open again."""
    found = dict(before)
    for judged in judge(record, RULES, cores):
        if judged.p is not None and judged.verdict != "inconclusive":
            found[judged.variant] = judged.effects
        elif judged.p is not None:
            found.pop(judged.variant, None)
    return found


def _found(record: Record) -> tuple[object, ...]:
    """What checks of the same code find on a machine every time."""
    return tuple(
        (name, variant.outcome, variant.mechanism.get("engaged")) for name, variant in sorted(record.variants.items())
    )


def _is_commit(commit: str) -> bool:
    return bool(commit) and not commit.endswith("-dirty")
