"""The digest of a pair's code: what changes it, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.made_up import files
from tipbench.suite.discover import Discovery
from tipbench.suite.files import BENCHMARKS
from tipbench.suite.source import source_digest

PAIRS = '''
"""A tip."""
import shared
from benchmarks.jobs import images

TIP = Tip(id="own", title="Do so.")

class Adding(Pair):
    sizes = Sizes(dict(batch=2))
    """Of its inputs."""

    def baseline(self):  # slow
        return lambda: shared.add(1)
'''
SHARED = "from jobs.deeper import one\ndef add(n): return n + one\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return files(tmp_path, {"pairs.py": PAIRS, "shared.py": SHARED, "jobs/deeper.py": "one = 1\n", "other.py": "n = 1"})


@pytest.mark.parametrize(
    ("file", "before", "after", "is_other"),
    [
        ("pairs.py", "A tip.", "The tip.", False),
        ("pairs.py", "Do so.", "Do so at once.", False),
        ("pairs.py", "Of its inputs.", "Of inputs.", False),
        ("pairs.py", "# slow", "# quick", False),
        ("other.py", "1", "2", False),
        ("pairs.py", "batch=2", "batch=3", True),
        ("pairs.py", "add(1)", "add(2)", True),
        ("shared.py", "n + one", "n - one", True),
        ("jobs/deeper.py", "1", "2", True),
        ("jobs/deeper.py", "1", "(", True),
    ],
)
def test_code_of_the_file_and_of_what_it_imports_counts(
    folder: Path, file: str, before: str, after: str, is_other: bool
) -> None:
    digest = source_digest(folder / "pairs.py", folder)
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(before, after))
    assert (source_digest(folder / "pairs.py", folder) != digest) is is_other


@pytest.mark.parametrize("text", ["", "class Alone(:", "\0", "(" * 100_000, "x = " + "-" * 200_000 + "1"])
def test_any_file_has_a_digest(tmp_path: Path, text: str) -> None:
    (tmp_path / "any.py").write_text(text)
    assert len(source_digest(tmp_path / "any.py", tmp_path)) == 16
    assert source_digest(tmp_path / "none.py", tmp_path) == source_digest(tmp_path / "none.py", BENCHMARKS)


def test_every_pair_of_the_suite_is_stored_with_its_own(suite: Discovery) -> None:
    digests = {info.file: info.source for info in suite.pairs}
    assert len(set(digests.values())) == len(digests)
    for info in suite.pairs:
        assert info.source == source_digest(BENCHMARKS.parent / info.file, BENCHMARKS)
