"""What the installed suite says, read from its files without importing them, so without torch.

A pair of one's own may be called anything. What the suite's files say is public with them, so text is published where
it is theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from signal import Signals

from tipbench.suite.files import BENCHMARKS

ROOMS = ("tip", "records", "worker", "machine", "engine", "verdict")
"""Of the harness, those whose words a results file holds: names of sizes, of libraries, of what is counted."""


def declares(file: str, pair: str) -> bool:
    """Whether a file of the suite, named as in `PairInfo.file`, holds the pair."""
    return re.search(rf"^class {re.escape(pair)}\(", _files().get(file, ""), re.M) is not None


@cache
def is_own(text: str) -> bool:
    """Whether a text is the suite's: a string or a name in its files, or made of these and of numbers."""
    if {text.strip(" ,:\n"), text.removeprefix("lib")} & _texts() or re.fullmatch(
        r"\d{1,7}(\.\d{1,3})?|nan|-?inf|L\d[di]?", text
    ):
        return True
    cuts = [*re.finditer(", |: |=| ", text[:100]), *[*re.finditer("\n", text)][:20]]
    return any(is_own(text[: cut.start()]) and is_own(text[cut.end() :]) for cut in cuts)


@cache
def _files() -> Mapping[str, str]:
    return {str(path.relative_to(BENCHMARKS.parent)): path.read_text() for path in BENCHMARKS.rglob("*.py")}


@cache
def _texts() -> frozenset[str]:
    """All strings and names in the files of the suite and of ROOMS, and the names of signals."""
    harness = Path(__file__).parent.parent
    ours = (path.read_text() for room in ROOMS for path in (harness / room).glob("*.py"))
    nodes = (node for text in (*_files().values(), *ours) for node in ast.walk(ast.parse(text)))
    texts = (getattr(node, field, None) for node in nodes for field in ("value", "name", "id", "arg", "attr"))
    return frozenset(
        text.strip(" ,:\n") for text in (*texts, *(each.name for each in Signals)) if isinstance(text, str)
    )
