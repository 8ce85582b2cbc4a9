"""What changes take once, such as to compile, and how many steps pay for it."""

from __future__ import annotations

import math

from tipbench.report.price import SOON
from tipbench.report.result import Result, steps_to_pay
from tipbench.tip.wording import seconds


def once(without: Result) -> tuple[float, int] | None:
    """One-off cost of the combination over this side (seconds), and the steps needed to recoup it, 0 if the cost is
    within noise. None if it was not measured, or the combination saves nothing."""
    mean = without.log_speedup_so_far
    if without.one_off_sides is None or without.step_s is None or mean is None or mean >= 0:
        return None
    whole_s, without_s = without.one_off_sides
    extra_s = whole_s - without_s
    return extra_s, steps_to_pay(extra_s, without_s, without.step_s * math.expm1(-mean))


def price_once(without: Result) -> str:
    """`56.8 s once, paid back after about 1,400 steps`; empty where every training has as many."""
    cost = once(without)
    if cost is None or cost[1] <= SOON:
        return ""
    extra_s, steps = cost
    return f"{seconds(extra_s)} once, paid back after about {float(f'{steps:.2g}'):,.0f} steps"
