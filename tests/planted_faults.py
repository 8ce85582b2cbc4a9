"""Whether `tipbench advise` names the faults that are planted in tests/given_jobs/faults.py, and finds none where there
is none:

    python -m tests.planted_faults --repeat 10 --budget 3m
    python -m tests.planted_faults --repeat 2 --budget 75s --busy      # beside a busy program nothing may be advised

Each repetition is an advice of its own, with launches and seeds of its own, into the folder of --out. It takes the
budget for each job and some seconds more, so four hours and a half in all; what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

FILE = Path(__file__).parent / "given_jobs" / "faults.py"

MENDED_BY = {
    "slow_loading": ("async-loading",),
    "loop_optimizer": ("compiled-optimizer",),
    "attention_by_hand": ("compile-modes", "regional-compile"),
    "forgotten_no_grad": ("no-grad",),
    "anomaly_mode": ("no-debug-apis",),
    "one_thread": ("openmp-threads",),
    "two_that_interfere": ("async-loading", "openmp-threads"),
    "nothing_to_gain": (),
}
"""By job, the tips of which one must be the first advice, and no other be given beside it."""


def advice(fault: str, number: int, budget: str, out: Path) -> dict[str, Any]:
    """What one advice stored, measured unless it is in `out`. Raises CalledProcessError."""
    place = out / f"{fault}-{number}"
    if not list(place.glob("*/advice.json")):
        command = ["advise", f"{FILE}:{fault}", "--budget", budget, "--seed", str(1000 * number), "--out", str(place)]
        ended = subprocess.run([sys.executable, "-m", "tipbench", *command], check=False, stdout=subprocess.DEVNULL)
        if ended.returncode not in (0, 1):  # 1: no advice can be given on this machine
            ended.check_returncode()
    (file,) = place.glob("*/advice.json")
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def advised(stored: dict[str, Any]) -> list[str]:
    """The tips that an advice says to follow, the one that brings most first."""
    members = stored["together"]["members"] if stored["together"] else []
    members = sorted(members, key=lambda member: -(member["gain"] or member["alone"]))
    return [str(member["name"]).partition("/")[0] for member in members]


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep a core busy meanwhile, if that is wanted."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            yield
        finally:
            program.kill()


def is_right(fault: str, stored: dict[str, Any], is_busy: bool) -> bool:
    tips, mended_by = advised(stored), () if is_busy else MENDED_BY[fault]
    if not mended_by:
        return not tips
    return tips[:1] != [] and tips[0] in mended_by and sum(tip in mended_by for tip in tips) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--out", type=Path, default=Path("planted"))
    parser.add_argument("--busy", action="store_true", help="keep a core busy meanwhile")
    parser.add_argument("fault", nargs="*", default=list(MENDED_BY))
    options = parser.parse_args()
    advices: dict[str, list[dict[str, Any]]] = {}
    with busy(options.busy):
        for number, fault in product(range(1, options.repeat + 1), options.fault):
            stored = advice(fault, number, options.budget, options.out)
            advices.setdefault(fault, []).append(stored)
            print(f"{fault} {number}: {', '.join(advised(stored)) or 'nothing'}: {stored['conclusion']}", flush=True)
    print()
    for fault, listed in advices.items():
        right = [stored for stored in listed if is_right(fault, stored, options.busy)]
        print(f"{fault}: {len(right)} of {len(listed)} right; {held(right)}")


def held(listed: list[dict[str, Any]]) -> str:
    """How often an advice's interval holds the mean that the others with the same members found, weighted by their
    intervals: some are ten times as wide as others."""
    of_members: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for stored in listed:
        if stored["together"] and stored["together"]["low"]:
            members = tuple(member["name"] for member in stored["together"]["members"])
            of_members.setdefault(members, []).append(stored["together"])
    inside = total = 0
    for alike in of_members.values():
        for repetition in alike:
            others = [other for other in alike if other is not repetition]
            if others:
                weights = [math.log(other["high"] / other["low"]) ** -2 for other in others]
                mean = math.exp(fmean((math.log(other["gain"]) for other in others), weights))
                total += 1
                inside += repetition["low"] <= mean <= repetition["high"]
    return f"{inside} of {total} intervals hold the mean of the other repetitions"


if __name__ == "__main__":
    main()
