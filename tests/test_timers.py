"""The scripts that time pairs with another tool: their arithmetic, and that they answer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.peers import timers
from tipbench.engine.launcher import Launcher
from tipbench.errors import UserError
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS


def test_the_ratio_of_two_timers_has_welchs_interval() -> None:
    same = 1.00, 1.02, 0.98, 1.01, 0.99
    ratio, _, high = timers.welch(same, same)
    assert ratio == 1.0
    # equal spreads s on both sides of n each: half width t(2n - 2) x s x sqrt(2 / n)
    logs = [math.log(seconds) for seconds in same]
    deviation = math.sqrt(sum((one - sum(logs) / 5) ** 2 for one in logs) / 4)
    assert math.log(high) == pytest.approx(2.306004 * deviation * math.sqrt(2 / 5), rel=1e-6)
    assert timers.welch(same, [1.05 * seconds for seconds in same])[0] == pytest.approx(1 / 1.05)


@pytest.mark.slow
def test_another_timer_answers_in_seconds_or_says_that_it_could_not() -> None:
    about = next(one for one in discover(BENCHMARKS / "control.py", "cpu").pairs if one.pair == "SmallOperations")
    launcher = Launcher(BENCHMARKS, {})
    try:
        assert timers.seconds_a_step(about, "Timer", 0, launcher) > 0.0
        with pytest.raises(UserError):
            timers.seconds_a_step(replace(about, pair="Gone"), "Timer", 0, launcher)
    finally:
        launcher.close()
