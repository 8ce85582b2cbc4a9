"""pyperf as its documentation has it: one script, run once for each side, all defaults."""

from __future__ import annotations

# Bare, because mypy names one error where pyperf is installed and another where it is not.
import pyperf  # type: ignore

from tests.peers.steps import chosen

if __name__ == "__main__":
    pyperf.Runner(program_args=("-m", "tests.peers.timed_by_pyperf")).bench_func("step", chosen())
