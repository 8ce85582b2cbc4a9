"""What `tipbench list` shows: every tip, its pairs, and whether they can run here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from tipbench.records.record import PairInfo
from tipbench.suite.discover import Discovery
from tipbench.tip.pair import TipText
from tipbench.tip.wording import plain


def _obstacle(info: PairInfo) -> tuple[str, str]:
    """(reason, remedy) where the pair, its baseline, or every other variant cannot run."""
    if info.reason:
        return info.reason, info.remedy
    lacking = [variant for variant in info.variants if variant.reason]
    if any(variant.name == "baseline" for variant in lacking) or len(lacking) == len(info.variants) - 1 > 0:
        return lacking[0].reason, lacking[0].remedy
    return "", ""


def as_text(discovery: Discovery) -> str:
    """For people, and safe in a terminal whatever files say: a block a tip, a line a pair."""
    lines = []
    for tip, pairs in _tips(discovery):
        guide = f"  [{plain(', '.join(tip.guide))}]" if tip.guide else ""
        status = "" if tip.status == "current" else f"  ({plain(tip.status)})"
        lines += ["", plain(f"{tip.id}: {tip.title}") + guide + status]
        width = max(len(info.pair) for info in pairs)
        for info in pairs:
            reason, remedy = _obstacle(info)
            variants = plain(", ".join(variant.name for variant in info.variants))
            lines.append(f"  {info.pair:<{width}}  {info.scale}  {'skipped' if reason else 'runs':<7}  {variants}")
            if reason:
                lines.append(f"  {'':<{width}}  {plain(f'why: {reason}; remedy: {remedy}')}")
            for variant in info.variants if not reason else ():
                if variant.reason:
                    without = f"without {variant.name}: {variant.reason}; remedy: {variant.remedy}"
                    lines.append(f"  {'':<{width}}  {plain(without)}")
    lines += [f"\n{plain(f'broken: {record.reason}')}" for record in discovery.broken]
    runnable = sum(not _obstacle(info)[0] for info in discovery.pairs)
    counted = f"{len(discovery.pairs)} pair{'s' * (len(discovery.pairs) != 1)}"
    lines += ["", f"{counted}, {runnable} run here (torch {discovery.torch}, {discovery.device})"]
    return "\n".join(lines).lstrip("\n")


def _tips(discovery: Discovery) -> Iterator[tuple[TipText, list[PairInfo]]]:
    for _, group in groupby(discovery.pairs, key=lambda info: info.file):
        pairs = list(group)
        yield pairs[0].tip, pairs
