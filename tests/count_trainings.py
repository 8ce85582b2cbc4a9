"""Count the whole trainings that the suite ships, in benchmarks/trainings.json:

    python -m tests.count_trainings                      # of each pair whose code has changed since
    python -m tests.count_trainings one-cycle.NextByte   # of this one

Each training runs on one thread, on the CPU; as many at a time as there are cores. It takes some ten minutes for each
pair with trainings of over a thousand steps.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import torch

from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.shipped import FILE
from tipbench.tip.needs import available_cores
from tipbench.worker import checks
from tipbench.worker.guard import Guard

SEED = 20261127
"""Draws the seeds of the trainings, alike for all sides and pairs."""

CPU = torch.device("cpu")


def counted(file: Path, pair: str, sizes: dict[str, int], variant: str) -> Any:
    return checks.trained(Guard(file, BENCHMARKS, pair, CPU, sizes), variant, SEED)


def counted_with() -> str:
    """What the trainings depend on beside their code."""
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"one thread, {date.today().isoformat()}"
    )


def main(names: Iterable[str]) -> None:
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"pairs": {}}
    infos = {info.name: info for info in discover(BENCHMARKS, "cpu", size="S").pairs if info.training_code}
    pairs = {name: entry for name, entry in stored["pairs"].items() if name in infos}
    wanted = names or [name for name, info in infos.items() if pairs.get(name, {}).get("code") != info.training_code]
    with ProcessPoolExecutor(available_cores()) as processes:
        for info in map(infos.__getitem__, wanted):
            file, sizes = BENCHMARKS.parent / info.file, dict(info.sizes)
            counting = {
                variant.name: processes.submit(counted, file, info.pair, sizes, variant.name)
                for variant in info.variants
                if not variant.why
            }
            variants = {name: counts.result() for name, counts in counting.items()}
            pairs[info.name] = {"code": info.training_code, "counted_with": counted_with(), "variants": variants}
            # After each pair: to go on where it was stopped.
            FILE.write_text(json.dumps({"pairs": pairs}, indent=1) + "\n")
            print(f"{info.name}: {len(variants)} sides", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", nargs="*")
    main(parser.parse_args().pair)
