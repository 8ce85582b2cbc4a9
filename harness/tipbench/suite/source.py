"""A digest of the code of a pair, stored with its record: one of other code is another pair. Nothing is run."""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from tipbench.suite.files import BENCHMARKS, file_text


def source_digest(file: Path, folder: Path) -> str:
    """16 hexadecimal digits; "" for a file that is no Python.

    Of the code in the file and in all that it imports of `folder` and of the guides' pairs. Comments, docstrings and
    the TIP do not count; its texts are stored beside.
    """
    if file.suffix != ".py":
        return ""
    roots = folder, BENCHMARKS.parent
    files, digest = [file], hashlib.sha256()
    for each in files:
        code, imported = _code(file_text(each))
        digest.update(code.encode("utf-8", "replace"))
        names = [f"{name.replace('.', '/')}{end}" for name in imported for end in (".py", "/__init__.py")]
        places = [root / name for name in names for root in roots]
        files += [place for place in dict.fromkeys(places) if place not in files and place.is_file()]
    return digest.hexdigest()[:16]


@lru_cache(256)  # which holds all files of the suite
def _code(text: str) -> tuple[str, tuple[str, ...]]:
    """(What counts of a file's text, names that modules which it imports may have)."""
    try:
        tree = _WithoutText().visit(ast.parse(text))
        code = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two for very deep nesting
        return text, ()
    named: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            named += [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Import):
            named += [name.name for name in node.names]
    return code, tuple(named)


class _WithoutText(ast.NodeTransformer):
    """Takes out docstrings, those of attributes too, and the TIP."""

    def visit_Expr(self, node: ast.Expr) -> Any:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return None if "TIP" in map(ast.unparse, node.targets) else node
