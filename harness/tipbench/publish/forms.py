"""Forms in which a run's stored values may be published; a value of another form is withheld.

Those of its machine are in `tipbench.machine.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tipbench.machine.controls import SIXTEEN_GIB
from tipbench.machine.forms import Rule, flag, number, one_of
from tipbench.records.record import PHASES
from tipbench.tip.pair import Equal
from tipbench.tip.sizes import TIERS


def measured(value: Any) -> int | float | str | None:
    """A number, or one of the words that stand for those that JSON has none for."""
    return value if value in ("nan", "inf", "-inf") else number(value)


CONTROLS: Mapping[str, Rule] = {
    "MALLOC_TRIM_THRESHOLD_": one_of(SIXTEEN_GIB),
    "MALLOC_MMAP_THRESHOLD_": one_of(SIXTEEN_GIB),
    "MALLOC_MMAP_MAX_": one_of("0"),
    "OMP_NUM_THREADS": lambda value: value if isinstance(value, str) and re.fullmatch(r"\d{1,4}", value) else None,
    "PYTHONHASHSEED": one_of("0"),
}
"""What `tipbench.machine.controls` itself sets or once set, and nothing that was ever taken from a person's shell."""

OPTIONS: Mapping[str, Rule] = {
    "profile": one_of("quick", "full"),
    "size": one_of(*TIERS),
    "budget_s": number,
    "rules": number,
    "device": one_of("auto", "cpu", "cuda"),
    "seed": number,
    "bare": flag,
    "nnodes": number,
}

EQUAL: Mapping[str, Rule] = {
    "method": one_of(*map(str, Equal)),
    **dict.fromkeys(("worst", "tolerance", "seeds", "error", "baseline_error", "target", "lowest"), measured),
}

MEMORY = "tensor_peak|steady_peak|resident_peak|tree|allocated_peak|reserved_peak|device_used"

JOB_CARD = "|".join(("parameters", "flops", "bytes", *PHASES))


def fields(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    """What may be published of the values: of each that has a rule what that lets through."""
    let_through = {name: rule(values[name]) for name, rule in rules.items() if name in values}
    return {name: value for name, value in let_through.items() if value is not None}
