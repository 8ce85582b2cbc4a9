"""Where the code of a tip's pairs is to be read: files, lines, and the commit they are from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tipbench.suite.files import BENCHMARKS


@dataclass(frozen=True)
class Code:
    """Files with code of pairs.

    Attributes:
        lines: by file, the lines at which its pairs begin.
        commit: of the files, such as `commit 0123456789ab`; empty if it is not known, or none of them is the suite's.
    """

    lines: Mapping[str, tuple[int, ...]]
    commit: str


def code_of(commit: str, pairs: Iterable[tuple[str, int]]) -> Code:
    """commit: of the run, with -dirty for uncommitted changes. pairs: file and line of each, 0 for an unknown line."""
    lines: dict[str, dict[int, None]] = {}
    for file, line in pairs:
        lines.setdefault(_shown(file), {}).update({line: None} if line else {})
    match = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", commit)
    is_of_suite = match is not None and any(map(_is_of_suite, lines))
    words = f"commit {match[1][:12]}{', with changes' * bool(match[2])}" if match and is_of_suite else ""
    return Code({file: tuple(numbers) for file, numbers in lines.items()}, words)


def _shown(file: str) -> str:
    """The file as the reader's checkout has it; of one from elsewhere only the name, since paths are private."""
    path = PurePath(file)
    if "benchmarks" not in path.parts:
        return path.name
    return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index("benchmarks") :])


def _is_of_suite(file: str) -> bool:
    return bool(re.fullmatch(r"benchmarks/[\w/-]{1,100}\.py", file)) and (BENCHMARKS.parent / file).is_file()
