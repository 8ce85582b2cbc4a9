"""The code of a pair's two sides, cut out of its file: what a report shows beside the figures. Nothing is run."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef

SHARED = "shared"
"""The key of what all sides use."""


def sides(text: str, pair: str) -> dict[str, str]:
    """By builder ("baseline", "optimized", the names of variants) the source of it and of what it alone uses of its
    file, and by `SHARED` what all of them use. A MacroPair's sides are its `job` and its `apply`.

    Base classes count as far as they are in the same file. {} where the text is no Python or holds no such class.
    """
    if not text:
        return {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lines = text.splitlines()
    top = {node.name: node for node in tree.body if isinstance(node, Definition)}
    if not isinstance(top.get(pair), ast.ClassDef):
        return {}
    methods = _methods(top, pair)
    builders = {
        "baseline": methods.get("baseline") or methods.get("job"),
        "optimized": methods.get("optimized") or methods.get("apply"),
        **{name: node for name, node in methods.items() if _is_further_variant(node)},
    }
    used = {name: _used(node, methods, top) for name, node in builders.items() if node is not None}
    if not {"baseline", "optimized"} <= set(used):
        return {}
    common = [node for node in used["baseline"] if all(node in found for found in used.values())]
    found = {name: _cut(lines, [node for node in nodes if node not in common]) for name, nodes in used.items()}
    return found | ({SHARED: _cut(lines, common)} if common else {})


@cache
def at_commit(commit: str, file: str) -> str:
    """The text of a file of this suite at a commit, "" where this is no checkout that has it: runs of before
    `PairInfo.code` was stored say only where their code is."""
    if not re.fullmatch("[0-9a-f]{7,40}", commit) or not file.startswith("benchmarks/"):
        return ""
    command = ["git", "-C", str(Path(__file__).parent), "show", f"{commit}:{file}"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return shown.stdout if shown.returncode == 0 else ""


def _methods(top: Mapping[str, Definition], name: str) -> dict[str, ast.FunctionDef]:
    """The methods of a class and of its bases in the file, the class's own first."""
    node = top.get(name)
    if not isinstance(node, ast.ClassDef):
        return {}
    own = {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id != name:
            own = {**_methods({key: top[key] for key in top if key != name}, base.id), **own}
    return own


def _is_further_variant(node: ast.FunctionDef) -> bool:
    """Marked with `@variant`, which was `@arm` before November 2026: code of older commits is read too."""
    return any(isinstance(mark, ast.Name) and mark.id in ("variant", "arm") for mark in node.decorator_list)


def _used(
    builder: ast.FunctionDef, methods: Mapping[str, ast.FunctionDef], top: Mapping[str, Definition]
) -> list[Definition]:
    """The builder, then all that it reaches of its class and its file, in the file's order."""
    reached: list[Definition] = [builder]
    for node in reached:
        reached += [found for found in _named(node, methods, top) if found not in reached]
    return [builder, *sorted(reached[1:], key=lambda node: node.lineno)]


def _named(
    node: Definition, methods: Mapping[str, ast.FunctionDef], top: Mapping[str, Definition]
) -> Iterator[Definition]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            if part.attr in methods:
                yield methods[part.attr]
        elif isinstance(part, ast.Name) and part.id in top:
            yield top[part.id]


def _cut(lines: list[str], nodes: list[Definition]) -> str:
    pieces = []
    for node in nodes:
        first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
        pieces.append(textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno])))
    return "\n\n".join(pieces)
