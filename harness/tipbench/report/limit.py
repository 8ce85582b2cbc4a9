"""How near a step comes to what the machine reaches: its known work in its time, against the run's own controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tipbench.report.rows import CONTROL, Row

MEASURED_BY = {"flops": "MatrixProduct", "bytes": "Copy"}
"""By kind of work, the control of `benchmarks/limit.py` that shows the rate."""

Rates = Mapping[tuple[str, str], float]
"""By kind of work and device, how much of it a second brings at most."""


@dataclass(frozen=True)
class Share:
    """Shares of the machine's rate that both sides of a row reach, 1 for all of it. What is faster than a plain
    product of 32-bit floats, such as one of 16 bits, can reach more. rate: work a second."""

    kind: str
    baseline: float
    variant: float
    rate: float


def rates(found: Sequence[Row]) -> Rates:
    """Of the controls that were measured in this run; the rate of a control that was not is unknown."""
    reached = {}
    for row in found:
        for kind, pair in MEASURED_BY.items():
            work = _work(row).get(kind)
            if row.tip == CONTROL and row.info.pair == pair and work and row.step_s:
                reached[kind, row.info.device] = work / row.step_s
    return reached


def shares(row: Row, reached: Rates) -> list[Share]:
    """What is known of a row; several ranks on one machine share its rate."""
    before, after = row.step_s, row.variant_step_s
    return [
        Share(kind, work / before / rate, work / after / rate, rate)
        for kind in MEASURED_BY
        if (rate := reached.get((kind, row.info.device))) and (work := _work(row).get(kind)) and before and after
    ]


def _work(row: Row) -> Mapping[str, int]:
    baseline = row.judgement.record.variants.get("baseline")
    return baseline.work if baseline else {}
