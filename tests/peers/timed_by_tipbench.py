"""tipbench: the case as a pair, through its engine, full profile.

`tipbench run --from tests/peers/pairs.py` does the same, but would measure a control beside each
comparison. Started as `python -m tests.peers.timed_by_tipbench FILE`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from harness import machine
from harness.controls import controls
from harness.discover import discover
from harness.profiles import PROFILES
from harness.runner import measure
from harness.verdict import Judgement, judge
from harness.workplace import Workplace
from tests.peers.cases import CASE, SEED

PAIRS = Path(__file__).with_name("pairs.py")


def judged(case: str, seed: int) -> Judgement:
    """Measure one pair of `pairs.py` and judge it alone. Leaves with a message where it cannot be measured."""
    found = discover(PAIRS, "cpu")
    (info,) = (info for info in found.pairs if info.pair == case)
    profile, cores = PROFILES["full"], machine.describe()["cores"]
    workplace = Workplace(PAIRS, controls(found.threads))
    try:
        record = measure(info, workplace.start, profile, seed, cores, lambda _: None)
    finally:
        workplace.close()
    (judgement,) = judge(record, profile.looks, cores)
    if judgement.speedup is None:
        sys.exit(f"{judgement.verdict}: {judgement.reason}")
    return judgement


if __name__ == "__main__":
    told = judged(os.environ[CASE], int(os.environ[SEED]))
    fields = ("verdict", "speedup", "low", "high", "launches", "quarantined")
    Path(sys.argv[1]).write_text(json.dumps({name: getattr(told, name) for name in fields}))
