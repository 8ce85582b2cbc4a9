"""The harness's seconds beside another timer's: `python -m tests.peers.timers [auto|cpu|cuda]` prints a table.

Run it from the root of the checkout. The other timer is `torch.utils.benchmark.Timer`; where the harness empties a
GPU's L2 cache before every step it is `triton.testing.do_bench`, which does so too, and has been written down here but
never been run on a GPU. Each of its processes is such as a worker is: same file, process settings, threads, seed and
warm-up; so unlike in `python -m tests.peers`, the timers alone differ. Nothing is stored or judged.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence

from scipy.stats import ttest_ind

from tipbench.engine.handle import WorkerFailed, WorkerHandle
from tipbench.engine.launch import NextLaunch
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import only_run
from tipbench.engine.profiles import PROFILES
from tipbench.engine.purpose import Purpose
from tipbench.errors import UserError
from tipbench.machine.controls import controls, environment
from tipbench.machine.orphans import die_with_parent
from tipbench.records.record import PairInfo, Record
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.tip.process import ProcessSettings
from tipbench.tip.wording import ratio, seconds

PROCESSES = 6
"""Processes that each timer gets, so that the spread between processes is known."""

MIN_RUN_S = 0.5
"""Seconds that the other timer measures."""

ABOUT = (
    f"Seconds a step of the baselines, by {PROCESSES} launches of the harness and {PROCESSES} processes of another "
    "timer, in turns. Each process gives one number, its median. The brackets are Welch's 95 % interval of the ratio "
    "of the geometric means. It should reach into 0.99 to 1.01; wider than ±5 %, it says nothing."
)


def compared(info: PairInfo, launcher: Launcher) -> tuple[str, list[float], list[float]]:
    """(the other timer's name, the harness's seconds a step, the other's), one number a process.

    They take turns, so that a drift of the machine hits both alike. Raises WorkerFailed and UserError.
    """

    def fresh(
        info: PairInfo, settings: ProcessSettings, cache: str, purpose: Purpose, launch: int | None = None
    ) -> WorkerHandle:
        # The other timer's processes are not forked, so the harness's are not either.
        return launcher.start(info, settings, cache, purpose)

    timer, record = "do_bench" if info.flush_l2 else "Timer", Record(info, "measured")
    ours, theirs = [], []
    for seed in range(PROCESSES):
        next_one = NextLaunch(record, info.variants, fresh, PROFILES["quick"], seed=0)
        try:
            next_one.prepare()
            record = next_one.measure()
        finally:
            next_one.end()
        launch = record.launches[-1]
        timed = zip(launch.variant, launch.seconds, strict=True)
        ours.append(statistics.median(block for name, block in timed if name == "baseline") / record.steps)
        theirs.append(seconds_a_step(info, timer, seed, launcher))
    return timer, ours, theirs


def seconds_a_step(info: PairInfo, timer: str, seed: int, launcher: Launcher) -> float:
    """The median seconds of one step of a baseline by "Timer" or "do_bench". Raises UserError."""
    root = BENCHMARKS.parent
    about = {"pair": info.pair, "device": info.device, "size": dict(info.sizes)}
    task = {"file": str(root / info.file), "folder": str(BENCHMARKS), **about}
    command = [sys.executable, "-m", "tests.peers.timers", json.dumps(task), timer, str(seed)]
    env = {**environment(launcher.controls, ProcessSettings()), "TMPDIR": str(launcher.scratch)}
    done = subprocess.run(command, env=env, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = " / ".join(done.stderr.splitlines()[-2:])
        raise UserError(f"{timer} of {info.name} left with exit code {done.returncode}: {said}", exit_code=1)
    return float(done.stdout.splitlines()[-1])


def time_step(task: str, timer: str, seed: str) -> float:
    """The same, in the other timer's process."""
    import torch
    from torch.utils.benchmark import Timer

    from tipbench.worker.ranks import Ranks
    from tipbench.worker.session import Session

    die_with_parent()
    about = json.loads(task)
    session = Session(about, Ranks(1, about["device"]))
    session.build("baseline", int(seed))
    session.warm("baseline")
    step = session.steps["baseline"]
    if timer == "do_bench":
        from triton.testing import do_bench  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return float(do_bench(step, rep=int(1000 * MIN_RUN_S), return_mode="median")) / 1000
    by_timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    return float(by_timer.blocked_autorange(min_run_time=MIN_RUN_S).median)


def welch(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """(ratio of the geometric means, low, high): Welch's 95 % interval of the difference of the mean logarithms."""
    logs = [[math.log(value) for value in listed] for listed in (ours, theirs)]
    between = ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    mean = statistics.fmean(logs[0]) - statistics.fmean(logs[1])
    return math.exp(mean), math.exp(float(between.low)), math.exp(float(between.high))


def main(device: str = "auto") -> None:
    """Print the table of all controls whose sides share a process. Raises UserError."""
    rows = []
    with only_run():
        discovery = discover(BENCHMARKS / "control.py", device)
        launcher = Launcher(BENCHMARKS, controls(discovery.threads))
        try:
            for info in discovery.pairs:
                if all(variant.settings == ProcessSettings() for variant in info.variants):
                    print(info.name, file=sys.stderr, flush=True)
                    timer, ours, theirs = compared(info, launcher)
                    means = (seconds(statistics.geometric_mean(listed)) for listed in (ours, theirs))
                    rows.append((info.pair, timer, *means, ratio(*welch(ours, theirs))))
        except WorkerFailed as failure:
            raise UserError(str(failure), exit_code=1) from None
        finally:
            launcher.close()
    head = ("pair", "other timer", "harness, a step", "other, a step", "harness / other")
    print(f"{ABOUT}\n")
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(time_step(*sys.argv[1:]))
    else:
        try:
            main(*sys.argv[1:])
        except UserError as error:
            sys.exit(str(error))
