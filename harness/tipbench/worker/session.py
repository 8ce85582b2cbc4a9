"""The requests that a worker answers: it builds a pair's variants, and times, checks and measures.

Everything that times or judges is imported here, before the pair's file.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from tipbench.tip.job import Job, MacroPair
from tipbench.tip.pair import Step
from tipbench.worker import checks
from tipbench.worker.checks import Results
from tipbench.worker.clock import Card, all_cards, emptying_l2, time_block, warm_up
from tipbench.worker.guard import Guard, seed_generators
from tipbench.worker.job_card import job_card, phases_of
from tipbench.worker.memory import held_on_card, least_tensor_peaks, process_peaks
from tipbench.worker.ranks import Ranks

LAUNCH_WARM_S = 0.3
"""Seconds of warming up after the first step, before a launch; short, as nothing can be measured meanwhile. If a
variant needs longer, its first rounds are slower, and are trimmed."""

WHOLE_WARM_S = 20.0
"""Seconds of warming up after the first step where the cost of warming up is measured."""


FEWEST_BLOCKS = 4
"""Blocks that a stretch has at least: the second half counts, so a first step that is unlike all others does not."""

READINGS_OF_RANKS = 3
"""Readings of live tensors where there are ranks, of which the least counts (harness/decisions.md, "Tensor peaks of
ranks")."""


class Session:
    """The variants of one pair in this process, and one method for each request. All methods raise Failed.

    Attributes:
        device: where the variants run.
        guard: runs the pair's code.
        card: reads the GPU; None on a CPU.
        ranks: the processes in lockstep with this one.
        steps: built steps, by variant.
        results_of: results to be compared, by variant.
    """

    def __init__(self, task: dict[str, Any], ranks: Ranks) -> None:
        for package in task.get("imports", ()):
            with suppress(Exception):  # the pair's own import gets the same error, and reports it
                importlib.import_module(package)
        card = os.environ.get("LOCAL_RANK", "0")  # of the ranks on this node
        self.device = torch.device(f"cuda:{card}" if task["device"] == "cuda" else task["device"])
        if self.device.type == "cuda":
            # Events, streams and allocations without a device use the current one, by default the first: rank 1 would
            # record its events on card 0, and make a context there.
            torch.cuda.set_device(self.device)
        self.guard = Guard(Path(task["file"]), Path(task["folder"]), task["pair"], self.device, task["size"])
        self.card = Card(self.device) if self.device.type == "cuda" else None
        self.ranks = ranks
        self.steps: dict[str, Step] = {}
        self.results_of: dict[str, Results] = {}

    def build(self, variant: str, seed: int, first: bool = False) -> dict[str, float]:
        """Build a variant's step; answers {"seconds"}. first: also run it once, untimed, which may compile it."""
        start = perf_counter()
        self.steps[variant] = self.guard.build(variant, seed)
        seconds = perf_counter() - start
        self.guard.expect_restored(variant)
        if first:
            with self.guard.scope(variant):
                self.guard.step(variant, self.guard.from_the_start(self.steps[variant]), 1)
        return {"seconds": seconds}

    def warm(self, variant: str, limit: float = LAUNCH_WARM_S) -> dict[str, Any]:
        """Step a built variant until its timings stop falling; answers `clock.warm_up`, `_helpers` and "card_bytes"."""
        with self.guard.scope(variant):
            step, before = self._numbered(variant), self.guard.before_step
            warm = self.guard.step(variant, lambda: warm_up(step, self.device, before, limit, self._slowest))
        return warm | _helpers() | {"card_bytes": held_on_card(self.device)}

    def block(self, variant: str, steps: int, again: bool = False) -> dict[str, Any]:
        """Time one block of a warm variant; answers `clock.time_block`, with the slowest rank's seconds."""
        with self.guard.scope(variant):
            timed = self._timed(variant, steps, again, self.card)
        by_rank = self.ranks.gather(timed)
        gpu = {"gpu": all_cards([rank["gpu"] for rank in by_rank])} if self.card else {}
        return {**timed, "seconds": max(rank["seconds"] for rank in by_rank), **gpu}

    def stretch(self, variant: str, steps: int, seconds: float) -> list[float]:
        """Time FEWEST_BLOCKS or more consecutive blocks of a warm variant, until they have lasted `seconds`; answers
        the slowest rank's seconds of each."""
        blocks: list[float] = []
        with self.guard.scope(variant):
            while len(blocks) < FEWEST_BLOCKS or sum(blocks) < seconds:
                timed = self._timed(variant, steps, again=bool(blocks))
                blocks.append(self._slowest(timed["seconds"]))
        return blocks

    def _slowest(self, seconds: float) -> float:
        """Those of the slowest rank, on every rank."""
        return float(max(self.ranks.gather(seconds)))

    def _timed(self, variant: str, steps: int, again: bool, card: Card | None = None) -> dict[str, Any]:
        """What `clock.time_block` answers on this rank."""
        step, meet, before = self.steps[variant], self.ranks.meet, self._before_timed_step
        return self.guard.step(variant, lambda: time_block(step, steps, self.device, meet, before, card, again))

    def observe(self, variant: str, seed: int) -> Any:
        """Count the variant's mechanism on a fresh step; answers `checks.count`. Of the baseline on a GPU it is also
        seen how much of a step loading takes."""
        pair_class = self.guard.pair_class
        if variant == "baseline" and self.device.type == "cuda" and issubclass(pair_class, MacroPair):
            checks.expect_little_loading(pair_class, self._of_the_job(seed, phases_of))
        return checks.mechanism_count(self.guard, variant, seed)

    def job_card(self, seed: int) -> dict[str, float]:
        """The profile of the pair's job without the tip, after all sides were timed; answers `job_card.job_card`."""
        self.steps.clear()
        return self._of_the_job(seed, job_card)

    def _of_the_job(self, seed: int, what: Callable[[Job, Step], dict[str, float]]) -> dict[str, float]:
        """`what` of the pair's job without the tip, and of its step."""
        pair = self.guard.pair()
        assert isinstance(pair, MacroPair)
        seed_generators(seed)
        job = self.guard.call("build-raised", "the job", pair.job)
        step = self.guard.call("build-raised", "the job", lambda: pair.step_of(job))
        return self.guard.call("step-raised", "the job", lambda: what(job, step))

    def engaged(self, baseline: Any, optimized: Any) -> dict[str, Any]:
        """Whether two counts show that the tip takes effect; answers `checks.check_engagement`."""
        return checks.check_engagement(self.guard, baseline, optimized)

    def results(self, variant: str, seeds: list[int], file: str = "") -> None:
        """Compute and keep the variant's results from fresh inputs; the reference's only once. file: where rank 0 also
        saves the results of all ranks."""
        if variant == "reference" and variant in self.results_of:
            return
        results = self.results_of[variant] = checks.step_results(self.guard, variant, seeds)
        if file:
            by_rank = self.ranks.gather(vars(results))
            if self.ranks.rank == 0:
                torch.save(by_rank, file)

    def compare(self, variant: str, baseline_file: str = "") -> dict[str, Any]:
        """Compare a variant's results with the baseline's; answers `VariantRecord.equal`."""
        if baseline_file and "baseline" not in self.results_of:
            # Each rank compares with the baseline's results of the same rank, or of the first where the baseline had
            # fewer ranks. Only rank 0 reads the file, which is on its node.
            by_rank = self.ranks.share(torch.load(baseline_file) if self.ranks.rank == 0 else None)
            fields = by_rank[self.ranks.rank if self.ranks.rank < len(by_rank) else 0]
            self.results_of["baseline"] = Results(**fields)
        baseline, reference = self.results_of["baseline"], self.results_of.get("reference", Results())
        # This variant's results are not needed again, and those of all variants may not fit into memory.
        return checks.equality(self.guard, variant, baseline, self.results_of.pop(variant), reference)

    def live_tensors(self, variant: str, seed: int) -> dict[str, int]:
        """Peaks of live tensors on the CPU, of all ranks together; answers `least_tensor_peaks`."""
        times = READINGS_OF_RANKS if self.ranks.count > 1 else 1
        build = functools.partial(self.guard.build, variant, seed)
        with self.guard.scope(variant):
            peaks = self.guard.step(variant, lambda: least_tensor_peaks(build, times))
        return _added(self.ranks.gather(peaks))

    def measure_memory(self, variant: str, seed: int) -> dict[str, Any]:
        """Cold build, warm-up and memory of one variant; answers {"one_off", "memory"}."""
        one_off = {"build": self.build(variant, seed)["seconds"]}
        one_off["warm_up"] = self.warm(variant, WHOLE_WARM_S)["excess_s"]
        with self.guard.scope(variant):
            before = self.guard.before_step or (lambda: None)
            memory = self.guard.step(variant, lambda: process_peaks(self.steps[variant], self.device, before))
        del self.steps[variant]
        return {"one_off": one_off, "memory": _added(self.ranks.gather(memory))}

    @functools.cached_property
    def _before_timed_step(self) -> Callable[[], None] | None:
        """What runs before each timed step. Made on first use, so that the memory pass does not count its buffer."""
        if self.device.type != "cuda" or not self.guard.pair_class.flush_l2:
            return self.guard.before_step
        return self.guard.from_the_start(emptying_l2(self.device))

    def _numbered(self, variant: str) -> Callable[[], Any]:
        """The step, wrapped so that a failure names the number of the call."""
        step, count = self.steps[variant], 0

        def numbered() -> Any:
            nonlocal count
            count += 1
            return self.guard.step(variant, step, count)

        return numbered


def _added(by_rank: Sequence[dict[str, int]]) -> dict[str, int]:
    return {key: sum(rank[key] for rank in by_rank) for key in by_rank[0]}


def _helpers() -> dict[str, bool]:
    """Whether this process has what can work while no step runs: further Python threads ("threads"), but for that of
    tqdm, which torch.compile starts and which sleeps; and children of `multiprocessing`, such as those that load data
    ("children")."""
    working = [thread for thread in threading.enumerate() if thread.name != "tqdm_monitor"]
    return {"threads": len(working) > 1, "children": bool(multiprocessing.active_children())}
