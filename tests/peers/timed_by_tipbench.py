"""tipbench: the case as a pair, through its engine, full profile.

`tipbench run --from tests/peers/pairs.py` does the same, but would measure a control beside each
comparison. Started as `python -m tests.peers.timed_by_tipbench FILE`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.peers.cases import CASE, SEED
from tipbench.engine.launcher import Launcher
from tipbench.engine.profiles import PROFILES
from tipbench.engine.runner import Plan, measure
from tipbench.machine import describe
from tipbench.machine.controls import controls
from tipbench.suite.discover import discover
from tipbench.tip.reason import in_words
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import Judgement, judge

PAIRS = Path(__file__).with_name("pairs.py")


def judged(case: str, seed: int) -> Judgement:
    """Measure one pair of `pairs.py` and judge it alone. Leaves with a message where it cannot be measured."""
    discovery = discover(PAIRS, "cpu")
    (info,) = (info for info in discovery.pairs if info.pair == case)
    plan = Plan(PROFILES["full"], RULES, seed, cores=describe.describe()["cores"])
    launcher = Launcher(PAIRS, controls(discovery.threads))
    try:
        record = measure(info, launcher.start, plan)
    finally:
        launcher.close()
    (judgement,) = judge(record, RULES, plan.cores)
    if judgement.speedup is None:
        sys.exit(f"{judgement.verdict}: {in_words(judgement.reasons)}")
    return judgement


if __name__ == "__main__":
    judgement = judged(os.environ[CASE], int(os.environ[SEED]))
    fields = ("verdict", "speedup", "low", "high", "launches", "quarantined")
    Path(sys.argv[1]).write_text(json.dumps({name: getattr(judgement, name) for name in fields}))
