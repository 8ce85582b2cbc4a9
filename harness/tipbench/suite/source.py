"""The code of a pair's two sides, cut out of its file and stored with its record. Nothing is run."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tipbench.suite.files import BENCHMARKS, file_text

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign

SHARED = "shared"
"""The key of what all sides use."""


@dataclass(frozen=True)
class Code:
    """A function, a class, or the declaration of a way.

    Attributes:
        node: its definition.
        lines: those of the file that it is in.
    """

    node: Definition
    lines: tuple[str, ...]

    @property
    def marks(self) -> list[ast.expr]:
        return getattr(self.node, "decorator_list", [])

    @property
    def text(self) -> str:
        first = min([self.node.lineno, *(mark.lineno for mark in self.marks)])
        return textwrap.dedent("\n".join(self.lines[first - 1 : self.node.end_lineno]))


def suite_source(file: str) -> str:
    """The text of a file of this suite, such as "benchmarks/jobs/images.py", as installed; "" where it is missing."""
    return file_text(BENCHMARKS.parent / file)


def sides(text: str, pair: str) -> dict[str, str]:
    """The code of each side by the method that builds it ("baseline", "optimized", further variants), with what only
    that side uses of its file; by `SHARED` what all of them use.

    The sides of a MacroPair are its `job`, and the functions that its class names as `untuned`, `apply` and so on. Base
    classes count as far as they are in the same file, or in one of `benchmarks/jobs`. Those of a SettingsPair are what
    is built, and the ways. {} where the text is not Python or holds no such class.
    """
    if not text:
        return {}
    tree = _parsed(text)
    top = _definitions(tree, text)
    if pair not in top or not isinstance(top[pair].node, ast.ClassDef):
        return {}
    bases = _bases(tree) | top
    methods, applied = _members(pair, bases)
    ways = _ways(applied.pop("ways", None), tree, top[pair].lines)
    methods |= ways
    keywords = {"baseline": "untuned", "optimized": "apply"}
    further = [name for name, code in methods.items() if name in ways or "variant" in map(ast.unparse, code.marks)]
    further += [name for name in applied if name not in keywords.values()]
    keywords |= {name: name for name in further if name not in keywords}

    def roots(side: str) -> list[Code]:
        """The methods that make a side, and what the class names for it."""
        made = (side, *(["build"] if ways else []), "job", "step_of") if side == "baseline" else (side,)
        named = [top[name] for name in _names(applied.get(keywords[side])) if name in top]
        return [methods[name] for name in made if name in methods] + named

    used = {side: _used(roots(side), methods, top) for side in keywords}
    if not used["baseline"] or not used["optimized"]:
        return {}
    common = [code for code in used["baseline"] if all(code in codes for codes in used.values())]
    texts = {side: _joined(code for code in codes if code not in common) for side, codes in used.items()}
    for side, keyword in keywords.items():
        if keyword in applied:
            texts[side] = f"{keyword} = {ast.unparse(applied[keyword])}\n\n{texts[side]}".strip()
    return texts | ({SHARED: _joined(common)} if common else {})


@lru_cache(256)  # which holds all files of the suite
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last for very deep nesting
        return ast.Module([], [])


def _definitions(tree: ast.Module, text: str) -> dict[str, Code]:
    lines = tuple(text.splitlines())
    return {node.name: Code(node, lines) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _bases(tree: ast.Module) -> dict[str, Code]:
    """The classes that the file imports from `benchmarks/jobs`."""
    classes: dict[str, Code] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmarks.jobs."):
            text = suite_source(f"{(node.module or '').replace('.', '/')}.py")
            defined = _definitions(_parsed(text), text)
            classes |= {name.name: defined[name.name] for name in node.names if name.name in defined}
    return {name: code for name, code in classes.items() if isinstance(code.node, ast.ClassDef)}


def _members(name: str, classes: Mapping[str, Code]) -> tuple[dict[str, Code], dict[str, ast.expr]]:
    """The methods of a class and of its bases, and the keywords of its definition, the class's own first."""
    code = classes.get(name)
    if code is None or not isinstance(code.node, ast.ClassDef):
        return {}, {}
    methods = {
        member.name: Code(member, code.lines) for member in code.node.body if isinstance(member, ast.FunctionDef)
    }
    keywords = {word.arg: word.value for word in code.node.keywords if word.arg}
    others = {key: classes[key] for key in classes if key != name}
    for base in code.node.bases:
        if isinstance(base, ast.Name):
            inherited, base_keywords = _members(base.id, others)
            methods, keywords = {**inherited, **methods}, {**base_keywords, **keywords}
    return methods, keywords


def _ways(expression: ast.expr | None, tree: ast.Module, lines: tuple[str, ...]) -> dict[str, Code]:
    """What a file's top level declares for each way that is named in an expression, by variant."""
    declared = {ast.unparse(node.targets[0]): node for node in tree.body if isinstance(node, ast.Assign)}
    ways, names = {}, _names(expression)
    for node in (declared[name] for name in names if name in declared):
        if isinstance(node.value, ast.Call):
            name = "".join(ast.unparse(word.value) for word in node.value.keywords if word.arg == "name")
            ways[name.strip("'") or "optimized"] = Code(node, lines)
        else:
            names += _names(node.value)
    return ways


def _used(roots: Sequence[Code], methods: Mapping[str, Code], top: Mapping[str, Code]) -> list[Code]:
    """The roots, then all that they reach of their class and its file, in the file's order."""
    reached = list(roots)
    for code in reached:
        reached += [used for used in dict.fromkeys(_named(code.node, methods, top)) if used not in reached]
    return [*roots, *sorted(reached[len(roots) :], key=lambda code: code.node.lineno)]


def _named(node: Definition, methods: Mapping[str, Code], top: Mapping[str, Code]) -> Iterator[Code]:
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            if part.attr in methods:
                yield methods[part.attr]
        elif isinstance(part, ast.Name) and part.id in top:
            yield top[part.id]


def _names(expression: ast.expr | None) -> list[str]:
    """The names in an expression such as `partial(async_loading, num_workers=4)`."""
    return [part.id for part in ast.walk(expression or ast.Constant(None)) if isinstance(part, ast.Name)]


def _joined(codes: Iterable[Code]) -> str:
    return "\n\n".join(code.text for code in codes)
