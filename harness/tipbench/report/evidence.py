"""The facts of one tip in words: what its pairs' records say beside their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tipbench.report.wording import equal_work, percent, seconds, size, value

Row = Mapping[str, Any]
"""A row of the results table, by column."""

GPU_READINGS = {
    "sm_mhz": ("SM clock", 1, "MHz"),
    "memory_mhz": ("memory clock", 1, "MHz"),
    "celsius": ("temperature", 1, "C"),
    "milliwatts": ("power", 1000, "W"),
    "joules_a_step": ("energy a step", 1, "J"),
}
"""By reading of the results table: name, how many of it make one unit, unit."""

LIMITS = {
    "flops": "rate of a float32 matrix product ({:,.0f} GFLOP/s)",
    "bytes": "rate of copying ({:,.1f} GB/s, read and written)",
}
"""By kind of work: what it is a share of; the figure is the machine's rate."""


def facts(rows: Sequence[Row]) -> list[str]:
    """rows: all of one tip, in the order of the results table."""
    tip = rows[0]
    return [
        *_promise(tip),
        *_broken_promise(rows),
        *_each(rows, "Equal work", lambda row: {"": equal_work(row["equal"] or {})}),
        *_each(rows, "Mechanism", _mechanism),
        *_each(rows, "Trainings", lambda row: {"": row["trainings_in_words"]}),
        *_each(rows, "Share of this machine's limit", _limit_shares),
        *_each(rows, "GPU", lambda row: {"": _gpu(row)}),
        *_each(rows, "Reason", lambda row: {row["verdict"]: reason(row)}),
        *_sizes(rows),
    ]


def reason(row: Row) -> str:
    return f"{row['reason']} (remedy: {row['remedy']})" if row["reason"] and row["remedy"] else row["reason"]


def _promise(tip: Row) -> Iterator[str]:
    guide = f" ({', '.join(tip['guide'])})" if tip["guide"] else ""
    if tip["claim"]:
        published = f"its figure: {tip['published']}" if tip["published"] else "it gives no figure"
        yield f"The guide's claim{guide}: {tip['claim']}; {published}."
    if tip["status"] not in ("", "current"):
        yield f"Status: {tip['status']}."
    if tip["note"]:
        yield f"Note: {tip['note']}"


def _broken_promise(rows: Sequence[Row]) -> list[str]:
    """The pairs in which no variant brings what the guide promises, and why we think so."""
    broken: dict[str, bool] = {}
    for row in rows:
        outcome = row["promise_kept"]
        if outcome is not None:
            broken[row["pair"]] = broken.get(row["pair"], True) and not outcome
    pairs = [pair for pair, is_broken in broken.items() if is_broken]
    why = f" Why, we think: {rows[0]['why_not']}" if rows[0]["why_not"] else ""
    return [f"Not as the guide promises: {', '.join(pairs)}.{why}"] if pairs else []


def _each(rows: Sequence[Row], label: str, tell: Callable[[Row], Mapping[str, str]]) -> list[str]:
    """`label, pair: subject: words`. What all variants of a pair share is said once, and pairs with equal words share a
    line. tell: by subject, the words of a row, or nothing."""
    told: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        for subject, words in tell(row).items():
            if words:
                told.setdefault((row["pair"], subject), {}).setdefault(words, []).append(row["variant"])
    lines: dict[str, list[str]] = {}
    for (pair, subject), by_words in told.items():
        variants = sum(row["pair"] == pair for row in rows)
        is_shared = any(len(names) == variants for names in by_words.values())
        parts = [words if is_shared else f"{words} ({', '.join(names)})" for words, names in by_words.items()]
        lines.setdefault(f"{f'{subject}: ' if subject else ''}{'; '.join(parts)}.", []).append(pair)
    return [f"{', '.join(filter(None, (label, *pairs)))}: {words}" for words, pairs in lines.items()]


def _mechanism(row: Row) -> dict[str, str]:
    what, sides = row["mechanism"], (row["mechanism_baseline"], row["mechanism_variant"])
    if not what:
        return {}
    for side in sides:
        if isinstance(side, Mapping) and "unseen" in side:
            return {what: f"not seen, as {side['unseen']}"}
    is_size = what.lower().startswith("bytes")
    return {what: " -> ".join(size(side) if is_size and isinstance(side, int) else value(side) for side in sides)}


def _limit_shares(row: Row) -> dict[str, str]:
    return {
        LIMITS[kind].format(share["rate"] / 1e9): f"{percent(share['baseline'])} -> {percent(share['variant'])}"
        for kind, share in (row["limit"] or {}).items()
    }


def _gpu(row: Row) -> str:
    """What the card's driver reported: clocks, temperature and power at the blocks' ends, energy over many steps."""
    if not row["gpu"]:
        return ""
    readings = []
    for reading, (name, scale, unit) in GPU_READINGS.items():
        sides = row["gpu"].get(reading)
        shown = " -> ".join(f"{side / scale:.4g}" for side in sides.values()) if sides else ""
        readings.append(f"{name} {shown} {unit}" if shown else f"{name} unavailable")
    cache = "emptied before every step" if row["flush_l2"] else "as the step before had left it"
    return ", ".join([*readings, f"its L2 cache {cache}"])


def _sizes(rows: Sequence[Row]) -> list[str]:
    sizes = {row["pair"]: f"{row['pair']}: {value(row['sizes'])}" for row in rows if row["sizes"]}
    return [f"Sizes: {'; '.join(sizes.values())}."] if sizes else []


def step(row: Row) -> str:
    """`2.00 ms -> 1.31 ms`."""
    sides = row["baseline_step_s"], row["variant_step_s"]
    return " -> ".join(map(seconds, sides)) if None not in sides else "-"
