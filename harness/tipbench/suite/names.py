"""The guides' pairs by their names, read from the files' text: a misspelt name is known for one at once.

Describing the pairs imports their files, and with them torch, which takes seconds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tipbench.suite.files import BENCHMARKS, pair_files


@dataclass(frozen=True)
class WrittenPair:
    """A pair as its file's text shows it; the fields are those of PairInfo, the tip has "id" and "title"."""

    tip: Mapping[str, str]
    pair: str
    scale: str
    file: str

    @property
    def name(self) -> str:
        return f"{self.tip['id']}.{self.pair}"


def written_pairs() -> list[WrittenPair]:
    """The pairs of the guides' tips. [] where some file does not show any in plain text, as one with a syntax
    error: then only the described pairs say what there is."""
    found = []
    for path in pair_files(BENCHMARKS):
        file = path.relative_to(BENCHMARKS.parent)
        try:
            module = _read(".".join(file.with_suffix("").parts))
            tip = module.tip()
            scales = {name: module.scale(name) for name in module.classes if not name.startswith("_")}
        except (SyntaxError, ValueError, RecursionError, OSError):
            return []
        pairs = [WrittenPair(tip, name, scale, str(file)) for name, scale in scales.items() if scale]
        if not pairs:
            return []
        found += pairs
    return found


class _Module:
    """A parsed file of `benchmarks/`.

    classes: those at its top level. imported: by name, the module of `benchmarks` that it is taken from.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.imported = {
            each.name: node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("benchmarks.")
            for each in node.names
        }

    def tip(self) -> dict[str, str]:
        """The id and the title of its TIP, which may be another file's. Raises ValueError where they are no texts."""
        if "TIP" in self.imported:
            return _read(self.imported["TIP"]).tip()
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id="TIP")], value=ast.Call(keywords=keywords)):
                    named = {each.arg: ast.literal_eval(each.value) for each in keywords if each.arg in ("id", "title")}
                    if len(named) == 2:
                        return {name: str(value) for name, value in named.items()}
        raise ValueError("no TIP with an id and a title")

    def scale(self, name: str) -> str:
        """Of the pair that a class is: its own, else that of its bases. "" where it is none."""
        if name in self.imported:
            return _read(self.imported[name]).scale(name)
        if name not in self.classes:
            return {"Pair": "micro", "MacroPair": "macro"}.get(name, "")
        node = self.classes[name]
        inherited = {self.scale(base.id) for base in node.bases if isinstance(base, ast.Name)} - {""}
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="scale")]) if inherited:
                    return str(ast.literal_eval(statement.value))
        return "macro" if "macro" in inherited else "micro" if inherited else ""


@cache
def _read(module: str) -> _Module:
    return _Module(ast.parse(Path(BENCHMARKS.parent, *module.split(".")).with_suffix(".py").read_bytes()))
