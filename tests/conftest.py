"""Settings of all tests."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest

from tipbench.suite.discover import Discovery, discover
from tipbench.suite.files import BENCHMARKS

SLOW = {
    "test_bad_luck": "runs in which everything goes wrong, and full disks",
    "test_cases": "a process for each job, after a public report each",
    "test_advise": "a process for each job",
    "test_discovery_on_gpus": "what is found on made-up cards, each in a process",
    "test_fake_cuda": "every pair for GPUs, on fake tensors",
    "test_compare_page": "a browser",
    "test_fork_server": "fresh processes that import torch",
    "test_fuzz_store": "results files that are damaged in many ways",
    "test_git_wiki": "a wiki",
    "test_hard_knocks": "runs that are killed again and again",
    "test_html": "a browser",
    "test_installation": "a wheel, built and installed",
    "test_job_of_a_person": "a process for each job",
    "test_liars": "pairs that leave work out or a switch changed, in processes of their own",
    "test_pytest_plugin": "pytest within pytest, each in a fresh process",
    "test_orphans": "processes that import torch, and are killed meanwhile",
    "test_scratch": "temporary folders that are full",
    "test_survey_process": "a process for each job",
    "test_wiki_contract": "four wikis",
    "test_wiki_pages": "a browser",
}
"""The files of tests that `make test` leaves to `make test-all`, beside what is marked so, and what takes them long."""


LONGEST = ("test_pairs", "test_advise")
"""Begun first, so that neither of two processes is left with one of them in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def suite() -> Discovery:
    """All pairs of benchmarks/ on the processor, described once: a process imports every file for it."""
    return discover(BENCHMARKS, "cpu")


@pytest.fixture(autouse=True, scope="session")
def own_environment() -> Iterator[None]:
    """A lock and a state folder of the tests' own, and no word of pytest-xdist: what commands they start inherit."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIPBENCH_LOCK", os.path.join(folder, "lock"))
        patch.setenv("XDG_STATE_HOME", os.path.join(folder, "state"))
        # By this one pytest-benchmark, in a pytest that a test starts, would know of other tests at the same time.
        patch.delenv("PYTEST_XDIST_WORKER", raising=False)
        # Ignored where pytest was started in the background, and so it would be by the commands under test.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
