"""Counts whole trainings to a target: `python -m benchmarks.training.one_cycle` writes the table beside that file.

How many steps a training takes hardly depends on the machine, so no run counts them: a tip names its table as
`evidence`, and reports take the steps from there. Trainings run on one thread of the CPU, one side of a pair on each
core. Count anew whenever you change what is trained, or how.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import torch

from tipbench.tip.needs import available_cores
from tipbench.tip.pair import Pair, Variant, variants
from tipbench.tip.training import SET_ASIDE, Training

SEED = 20261127
"""Draws the seeds of the trainings, alike for all sides and pairs."""

CPU = torch.device("cpu")


def count(*pairs: type[Pair], tune: Callable[[], None] | None = None) -> None:
    """What `python -m` does with a file of these pairs. tune: prints how their settings were chosen."""
    file = Path(inspect.getfile(pairs[0]))
    parser = argparse.ArgumentParser(description=f"count whole trainings of {file.name}, into the table beside it")
    parser.add_argument("--seeds", type=int, default=12, metavar="N", help="trainings of each side, 2 or more")
    parser.add_argument("--output", type=Path, default=file.with_suffix(".toml"), metavar="FILE", help="another table")
    if tune:
        parser.add_argument("--tune", action="store_true", help="try the settings, and count nothing")
    options = parser.parse_args()
    if tune and options.tune:
        return tune()
    if options.seeds < 2:
        parser.error("--seeds takes 2 or more: an interval needs two trainings")
    drawn = torch.Generator().manual_seed(SEED)
    seeds = torch.randint(SET_ASIDE.stop, 2**31, (options.seeds,), generator=drawn).tolist()
    sides = [(pair, side.name) for pair in pairs for side in variants(pair) if _expect_needs(pair, side)]
    capability = torch.backends.cpu.get_cpu_capability()
    versions = f"torch {torch.__version__}, Python {platform.python_version()}, {capability}, one thread"
    text = f"# Whole trainings that {file.name} counted. Lists have an item a seed.\ncounted = {date.today()}\n"
    text += toml_lines({"versions": versions, "seeds": seeds})
    # On several threads sums round in another order.
    with ProcessPoolExecutor(available_cores(), initializer=torch.set_num_threads, initargs=(1,)) as processes:
        counting = [processes.submit(count_side, *side, seeds) for side in sides]
        for (pair, name), done in zip(sides, counting, strict=True):
            text += f"\n[{pair.__name__}.{_toml(name)}]\n{toml_lines(done.result())}"
            reached = sum(done.result()["reached"])
            print(f"{pair.__name__}, {name}: {reached} of {len(seeds)} reach the target", flush=True)
    options.output.write_text(text)


def count_side(pair: type[Pair], name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """What the table holds of one side, which trains with these seeds."""
    training = build_side(pair, name)
    trained = [training.train(seed) for seed in seeds]
    return {
        **settings_of(training),
        "steps": [each.steps for each in trained],
        "reached": [each.reached for each in trained],
        "scores": [each.score for each in trained],
    }


def build_side(pair: type[Pair], name: str) -> Training:
    torch.manual_seed(SEED)  # a side may draw what it is calibrated with
    side = next(side for side in variants(pair) if side.name == name)
    training: Training = getattr(pair(CPU), side.builder)(**side.arguments)
    return training


def settings_of(training: Training) -> dict[str, Any]:
    """What its numbers depend on."""
    fields = "settings", "target", "lower_is_better", "batch"
    return {name: getattr(training, name) for name in fields} | {"steps_timed": training.steps}


def toml_lines(fields: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_toml(value)}\n" for name, value in fields.items())


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value) if isinstance(value, float) else json.dumps(value)  # TOML writes nan and inf as Python does


def _expect_needs(pair: type[Pair], side: Variant) -> bool:
    for need in (*pair.needs, *side.needs):
        if why := need.unmet(CPU.type):
            sys.exit(f"{pair.__name__}, {side.name}, cannot be counted here: {why.text} (remedy: {why.remedy})")
    return True
