"""The process that runs a person's job for some steps, with or without tips, and then scores it by their own function.

`tipbench.advise` starts it and reads the file that it writes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tipbench.given.pair import followed
from tipbench.given.target import BadJob, error_with_line, function
from tipbench.tip.job import Job
from tipbench.worker.guard import seed_generators
from tipbench.worker.serve import bound_output


def scores(target: str, check: str, steps: int, seeds: int, ways: list[str]) -> list[float]:
    """The score of the model after so many steps, by the function `check` of the same file, for each seed. Raises
    BadJob."""
    file = Path(target.rpartition(":")[0])
    score: Callable[..., Any] = function(f"{file}:{check}")
    values = []
    for seed in range(seeds):
        seed_generators(seed)
        job = followed(target, ways)
        assert isinstance(job, Job)
        for _ in range(steps):
            job.step()
        try:
            value = score(job.model)
        except BaseException as error:
            raise BadJob(f"{file.name}:{check} raised {error_with_line(error, file)}") from error
        values.append(_number(value, f"{file.name}:{check}, at step {steps},"))
    return values


def _number(value: Any, who: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor with several numbers
        raise BadJob(f"{who} returned a {type(value).__name__}: it must return one number, better if higher") from None
    if not math.isfinite(number):
        raise BadJob(f"{who} returned {number}: it must return a finite number")
    return number


def main(target: str, answer: str, check: str, steps: str, seeds: str, *ways: str) -> None:
    """Write {"problem"}, or {"scores"}, as JSON to the file `answer`."""
    bound_output()
    try:
        content: dict[str, object] = {"scores": scores(target, check, int(steps), int(seeds), list(ways))}
    except BadJob as bad:
        content = {"problem": str(bad)}
    Path(answer).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
