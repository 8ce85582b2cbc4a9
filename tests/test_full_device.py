"""Standard output that takes no more, or is closed: one sentence and exit code 2, never a verdict's exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_up import edited

GOLDEN = Path(__file__).parent / "golden"
FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.is_char_device(), reason="needs /dev/full, which only Linux has")


def tipbench(arguments: list[str], closed: bool = False) -> tuple[int, str]:
    """(exit code, what was said on standard error)."""
    command = [sys.executable, "-P", "-m", "tipbench", *arguments]
    if closed:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    with FULL.open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    return ended.returncode, ended.stderr


def two_runs(folder: Path) -> list[str]:
    golden = (GOLDEN / "run.jsonl").read_text()
    files = [folder / "old.jsonl", folder / "new.jsonl"]
    files[0].write_text(golden)
    files[1].write_text(golden)
    edited(files[1], lambda lines: [line.update({"id" if "id" in line else "run": "4f9a1c07"}) for line in lines])
    return list(map(str, files))


@pytest.mark.parametrize(
    "words", ["report --format md", "report --format html", "compare --format html", "compare --fail-if slower"]
)
def test_a_page_to_a_full_device_is_one_sentence_and_no_verdict(tmp_path: Path, words: str) -> None:
    files = two_runs(tmp_path)
    code, said = tipbench([*words.split(), *(files if words.startswith("compare") else files[:1])])
    assert code == 2
    assert said.endswith(": no space left on device\n")
    assert "Traceback" not in said


def test_little_output_to_a_full_device_is_not_lost_and_another_error_stays_the_only_one(tmp_path: Path) -> None:
    """Python itself would notice only at its end, after the exit code was chosen."""
    for words in (["--format", "json", "--out", str(tmp_path), str(GOLDEN / "run.jsonl")], [str(tmp_path / "none")]):
        code, said = tipbench(["report", *words])
        assert (code, said.count("\n")) == (2, 1)


def test_a_report_where_stdout_is_closed() -> None:
    code, said = tipbench(["report", str(GOLDEN / "run.jsonl")], closed=True)
    assert code == 2
    assert "standard output is closed" in said
    assert said.count("\n") == 1
