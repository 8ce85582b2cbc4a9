"""Settings of all tests."""

import os
import tempfile
from collections.abc import Iterator

import pytest

collect_ignore = ["pairs"]
"""Sample pairs for the tests of the engine: the harness's plugin would collect and measure them."""


@pytest.fixture(autouse=True, scope="session")
def own_lock() -> Iterator[None]:
    """A lock of the tests' own, which the commands they start inherit."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIPBENCH_LOCK", os.path.join(folder, "lock"))
        yield
