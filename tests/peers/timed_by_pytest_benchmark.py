"""pytest-benchmark as its documentation has it: one test a side, all defaults.

Not named `test_...`: `pytest tests` must not time anything.
"""

from __future__ import annotations

from typing import Any

from tests.peers.steps import chosen


def test_baseline(benchmark: Any) -> None:
    benchmark(chosen("baseline"))


def test_optimized(benchmark: Any) -> None:
    benchmark(chosen("optimized"))
