"""What cannot be true of an advice's measurements, and so makes a part of them unreliable."""

from __future__ import annotations

import math

from tipbench.given.sides import AS_IT_IS
from tipbench.given.survey import Survey, WayHere
from tipbench.machine.activity import OCCUPIED
from tipbench.records.record import LOADING, Run
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.wording import ratio

OFF = math.log(1.05)
"""How far the job may be off from itself."""

BEYOND = math.log(1.1)
"""By how much a gain may exceed what the share of its phase allows, which is that of a few steps in another process."""


def off_from_itself(alone: Run) -> str:
    """What the job beside itself came out as, if that is more than OFF; else empty."""
    own = next((result for result in results(alone) if result.tip == AS_IT_IS and result.is_timed), None)
    if own is None or own.speedup is None or own.log_speedup is None or abs(own.log_speedup) <= OFF:
        return ""
    return ratio(own.speedup, own.low, own.high)


def beyond_its_phase(survey: Survey, way: WayHere, result: Result) -> str:
    """Why what a way brought alone cannot be: more than its phase of a step takes. Empty where it can."""
    share = survey.share(way.phase) if survey.others <= OCCUPIED else 0.0
    if not share or result.speedup is None or result.log_low is None:
        return ""
    if result.log_low <= BEYOND - math.log1p(-min(share, 0.99)):
        return ""
    phase = "loading" if way.phase == LOADING else f"the {way.phase}"
    came_out = ratio(result.speedup, result.low, result.high)
    most = f"of which making it free would bring {1 / (1 - share):.2f}x at most"
    return f"came out {came_out}, but {phase} takes {100 * share:.0f} % of a step, {most}: one of the two is wrong"
