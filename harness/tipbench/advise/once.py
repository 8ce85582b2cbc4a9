"""What changes take once, such as to compile, and how many steps pay for it."""

from __future__ import annotations

import math

from tipbench.advise.together import mean_of
from tipbench.report.advice import SOON
from tipbench.report.effect import Effect
from tipbench.report.rows import steps_to_pay
from tipbench.report.wording import seconds


def once(beside: Effect) -> tuple[float, int] | None:
    """Seconds that the stack takes once beyond this side of its pair, and the steps that save as much; 0 steps where
    the seconds are within noise. None where they were not measured, or the stack saves nothing."""
    mean = mean_of(beside)
    if beside.one_off is None or beside.step_s is None or mean is None or mean >= 0:
        return None
    whole_s, without_s = beside.one_off
    extra_s = whole_s - without_s
    return extra_s, steps_to_pay(extra_s, without_s, beside.step_s * math.expm1(-mean))


def price_once(beside: Effect) -> str:
    """`56.8 s once, paid back after about 1,400 steps`; empty where every training has as many."""
    known = once(beside)
    if known is None or known[1] <= SOON:
        return ""
    extra_s, steps = known
    return f"{seconds(extra_s)} once, paid back after about {float(f'{steps:.2g}'):,.0f} steps"
