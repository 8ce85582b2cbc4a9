"""What the suite itself says of its tips, read from its files and not imported: the words that may be published.

A results file is anyone's to edit, and a pair of one's own may be called anything. What the suite's own files say
is public with them, so text is published where it is theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from tipbench.suite.files import BENCHMARKS
from tipbench.suite.source import sides
from tipbench.tip.pair import Claim, Tip

SHARED_FILES = ("tip/pair.py", "tip/job.py", "tip/sizes.py", "tip/mechanism.py", "tip/counts.py", "machine/native.py")
"""Files of the harness whose words pairs use: names of sizes, of what is counted, of libraries."""

ABOUT = frozenset(field.name for field in fields(Tip)) - {"mechanism"}
"""What a results file holds of a tip."""

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


MECHANISMS = {"Mechanism", "falls", "rises", "appears", "changes", "stays"}


@dataclass(frozen=True)
class KnownTip:
    """One file of the suite. file: as `PairInfo.file`. about: the fields of its Tip, as plain JSON.

    functions, counts, words: of all files of the tip: names; what mechanisms count; all that occur in names and text.
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
        return _sides(self.text, pair)


_sides = cache(sides)


def known(tip: str, pair: str) -> KnownTip | None:
    """The tip's file that holds the pair, its first one for no pair; None where the suite has none."""
    return next((found for found in tips().get(tip, ()) if pair in found.pairs or not pair), None)


@cache
def tips() -> Mapping[str, tuple[KnownTip, ...]]:
    """All tips of the suite by id, each with its files: one imports its TIP from another where both are about it."""
    shared = frozenset[str]().union(*(_words(ast.parse(path.read_text())) for path in _shared()))
    trees = {path: ast.parse(path.read_text()) for path in sorted(BENCHMARKS.rglob("*.py"))}
    own = {path: about for path, tree in trees.items() if (about := _about(tree)) is not None}
    found: dict[str, tuple[KnownTip, ...]] = {}
    for path, about in own.items():
        files = [path, *(other for other, tree in trees.items() if _imports_tip(tree, path))]
        functions = [node for file in files for node in ast.walk(trees[file]) if isinstance(node, ast.FunctionDef)]
        found[about["id"]] = tuple(
            KnownTip(
                file=str(file.relative_to(BENCHMARKS.parent)),
                text=file.read_text(),
                about=about,
                pairs=frozenset(node.name for node in trees[file].body if isinstance(node, ast.ClassDef)),
                functions=frozenset(node.name for node in functions),
                counts=frozenset(count for file in files for count in _counts(trees[file])),
                words=shared.union(*(_words(trees[other]) for other in files)),
            )
            for file in files
        )
    return found


def _imports_tip(tree: ast.Module, path: Path) -> bool:
    """Whether a file takes its TIP from the one at `path`."""
    module = ".".join(path.relative_to(BENCHMARKS.parent).with_suffix("").parts)
    return any(
        isinstance(node, ast.ImportFrom) and node.module == module and any(name.name == "TIP" for name in node.names)
        for node in tree.body
    )


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
            written = {keyword.arg: _value(keyword.value) for keyword in node.value.keywords if keyword.arg in ABOUT}
            empty = dict.fromkeys(("published", "note", "why_not", "no_micro", "do", "when"), "")
            return {**empty, "status": "current", **written}
    return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Claim":
        return str(Claim[node.attr])
    found = ast.literal_eval(node)
    return list(found) if isinstance(found, tuple) else found


def _counts(tree: ast.Module) -> Iterator[str]:
    """What `falls`, `rises` and the other ways to declare a mechanism are given as the count's name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(what)), *_]) if name in MECHANISMS:
                yield what


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
