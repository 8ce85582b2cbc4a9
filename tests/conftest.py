"""Settings of all tests."""

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_environment() -> Iterator[None]:
    """A lock of the tests' own, and no word of pytest-xdist: what the commands they start inherit."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIPBENCH_LOCK", os.path.join(folder, "lock"))
        # By this one pytest-benchmark, in a pytest that a test starts, would know of other tests at the same time.
        patch.delenv("PYTEST_XDIST_WORKER", raising=False)
        # Ignored where pytest was started in the background, and so it would be by the commands under test.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
