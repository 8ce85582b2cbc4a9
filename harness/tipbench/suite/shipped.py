"""Whole trainings that the suite ships, so that a run spends its minutes on time: how many steps a training takes
hardly depends on the machine. They are those of the code as it was: of changed code none are known.

`python -m tests.count_trainings` counts them anew.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tipbench.records.fields import converted
from tipbench.records.record import PairInfo, Trainings
from tipbench.suite.files import BENCHMARKS, text

FILE = BENCHMARKS / "trainings.json"
"""{"pairs": {name: {"code": digest, "counted_with": of torch and processor, "variants": {name: Trainings}}}}."""


def shipped(info: PairInfo) -> Mapping[str, Trainings]:
    """The trainings of a pair's variants, by name; {} if none are known of its code as it is, or not of all variants.

    Raises MalformedRecord.
    """
    entry = _pairs().get(info.name, {})
    if not info.training_code or entry.get("code") != info.training_code:
        return {}
    variants = {
        name: converted(fields, Trainings, f"{FILE.name}: {info.name}[{name}]")
        for name, fields in entry["variants"].items()
    }
    return variants if variants.keys() >= {variant.name for variant in info.variants if not variant.why} else {}


@cache
def _pairs() -> Mapping[str, Any]:
    pairs: Mapping[str, Any] = json.loads(FILE.read_text())["pairs"] if FILE.exists() else {}
    return pairs


def training_code(file: Path, pair: str) -> str:
    """Digest of the code that a pair's class uses: what it names in its file, and in the suite's that this imports, and
    what that names. Comments and docstrings do not count, nor does what torch and tipbench do."""
    used = {(file, pair): ""}
    todo = [(file, pair)]
    for path, name in todo:
        definitions, imports = _names(path)
        if name not in definitions:
            continue
        used[path, name] = "\n".join(ast.unparse(_without_docstrings(node)) for node in definitions[name])
        named = {part.id for node in definitions[name] for part in ast.walk(node) if isinstance(part, ast.Name)}
        for other in sorted(named):
            place = imports.get(other, (path, other))
            if place not in used:
                used[place] = ""
                todo.append(place)
    return hashlib.sha256("\n".join(used.values()).encode()).hexdigest()[:16]


@cache
def _names(file: Path) -> tuple[Mapping[str, Sequence[ast.stmt]], Mapping[str, tuple[Path, str]]]:
    """(the statements that define each name of a file, file and name of each one that it imports from the suite)."""
    definitions: dict[str, list[ast.stmt]] = {}
    imports: dict[str, tuple[Path, str]] = {}
    for node in ast.parse(text(file)).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{BENCHMARKS.name}."):
            place = BENCHMARKS.parent.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            imports |= {name.asname or name.name: (place, name.name) for name in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    definitions.setdefault(part.id, []).append(node)
    return definitions, imports


def _without_docstrings(node: ast.stmt) -> ast.stmt:
    for part in ast.walk(node):
        if isinstance(part, ast.ClassDef | ast.FunctionDef):
            texts = [line for line in part.body if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)]
            part.body = [line for line in part.body if line not in texts] or [ast.Pass()]
    return node
