"""The same step by another timer: `torch.utils.benchmark.Timer`, and on a GPU `triton.testing.do_bench`.

It runs in a fresh process such as a worker is: same file, same process settings, same threads, same seed,
same warm-up. Started as `python -m tipbench.calibrate.timer TASK ANSWER`, where ANSWER is the file to write.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tipbench.engine.handle import WorkerFailed
from tipbench.machine.orphans import die_with_parent
from tipbench.records.record import PairInfo
from tipbench.tip.reason import Reason


def other(info: PairInfo) -> str:
    """The timer that does as the harness: do_bench empties a GPU's L2 cache before each step, Timer does not.

    do_bench has been written down here, but not yet been run on a GPU.
    """
    return "do_bench" if info.flush_l2 else "Timer"


MIN_RUN_S = 0.5
"""Seconds that a timer measures."""


@dataclass(frozen=True)
class Task:
    """file, folder: where the pair is, as for a worker. timer: "Timer" or "do_bench"."""

    file: str
    folder: str
    pair: str
    device: str
    variant: str
    seed: int
    timer: str


def seconds_a_step(task: Task, env: Mapping[str, str], scratch: Path, deadline: float) -> float:
    """The median seconds of one step, by a process started with `env`. Raises WorkerFailed.

    scratch: an existing folder for what the process writes. deadline: seconds it may take.
    """
    answer, output = scratch / "timer-answer.json", scratch / "timer-output"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "tipbench.calibrate.timer", json.dumps(vars(task)), str(answer)]
    with output.open("wb") as out:
        try:
            code = subprocess.run(
                command,
                env={**env, "TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=deadline,
                start_new_session=True,
            ).returncode
        except subprocess.TimeoutExpired:
            raise WorkerFailed(Reason("hang", {"seconds": deadline, "doing": task.timer})) from None
    if code or not answer.exists():
        last = " / ".join(output.read_text(errors="replace").strip().splitlines()[-2:])
        raise WorkerFailed(Reason("exited", {"code": code, "doing": task.timer}, f"; it last printed: {last[:400]}"))
    return float(json.loads(answer.read_text()))


def _timer(step: Callable[[], Any]) -> float:
    import torch
    from torch.utils.benchmark import Timer

    timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=MIN_RUN_S).median)


def _do_bench(step: Callable[[], Any]) -> float:
    from triton.testing import do_bench  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return float(do_bench(step, rep=int(1000 * MIN_RUN_S), return_mode="median")) / 1000


def main(task: str, answer: str) -> None:
    from tipbench.worker.ranks import Ranks
    from tipbench.worker.session import Session

    die_with_parent()
    asked = Task(**json.loads(task))
    session = Session(vars(asked), Ranks(1, asked.device))
    session.build(asked.variant, asked.seed)
    session.warm(asked.variant)
    timed = {"Timer": _timer, "do_bench": _do_bench}[asked.timer](session.steps[asked.variant])
    Path(answer).write_text(json.dumps(timed))


if __name__ == "__main__":
    main(*sys.argv[1:])
