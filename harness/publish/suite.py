"""What the suite itself says of its tips, read from its files and not imported: the words that may be published.

A results file is anyone's to edit, and a pair of one's own may be called anything. What the suite's own files say
is public with them, so text is published where it is theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.discover import BENCHMARKS
from harness.pair import Claim
from harness.source import sides

SHARED_FILES = ("pair.py", "job.py", "mechanism.py", "native.py")
"""Files of the harness whose words pairs use: names of sizes, of what is counted, of libraries."""

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class KnownTip:
    """One file of the suite. file: as `PairInfo.file`. about: the fields of its Tip, as plain JSON.

    counts: first lines of the docstrings of its mechanisms, which name what they count. words: all that occur in
    its names and its text.
    """

    file: str
    text: str
    about: Mapping[str, Any]
    pairs: frozenset[str]
    functions: frozenset[str]
    counts: frozenset[str]
    words: frozenset[str]

    def variant(self, name: str) -> bool:
        """Whether a variant of this tip can be called so: by its builder, or by a sweep's `name=value`."""
        swept, is_sweep, value = name.partition("=")
        if not is_sweep:
            return name in self.functions or name in ("baseline", "optimized")
        return swept in self.words and (re.fullmatch(r"\d{1,6}", value) is not None or value in self.words)

    def code(self, pair: str) -> Mapping[str, str]:
        """As `PairInfo.code`, of the file as it is installed."""
        return sides(self.text, pair)


@cache
def tips() -> Mapping[str, KnownTip]:
    """All tips of the suite by id."""
    shared = frozenset[str]().union(*(_words(ast.parse(path.read_text())) for path in _shared()))
    found = {}
    for path in sorted(BENCHMARKS.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        if (about := _about(tree)) is None:
            continue
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        found[about["id"]] = KnownTip(
            file=str(path.relative_to(BENCHMARKS.parent)),
            text=text,
            about=about,
            pairs=frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
            functions=frozenset(node.name for node in functions),
            counts=frozenset(
                (ast.get_docstring(node) or "").split("\n")[0].rstrip(".")
                for node in functions
                if node.name == "mechanism"
            ),
            words=_words(tree) | shared,
        )
    return found


def _shared() -> Iterator[Path]:
    yield from sorted((BENCHMARKS / "jobs").glob("*.py"))
    yield from (Path(__file__).parent.parent / name for name in SHARED_FILES)


def _about(tree: ast.Module) -> dict[str, Any] | None:
    """The fields of the file's TIP; None where it has none."""
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and [target.id for target in node.targets if isinstance(target, ast.Name)] == ["TIP"]
            and isinstance(node.value, ast.Call)
        ):
            written = {keyword.arg: _value(keyword.value) for keyword in node.value.keywords if keyword.arg}
            empty = {"published": "", "status": "current", "note": "", "why_not": "", "no_micro": ""}
            return empty | written
    return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Claim":
        return str(Claim[node.attr])
    found = ast.literal_eval(node)
    return list(found) if isinstance(found, tuple) else found


def _words(tree: ast.Module) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(WORD.findall(node.value))
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return frozenset(found)
