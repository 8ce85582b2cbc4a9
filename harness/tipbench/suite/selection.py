"""Which pairs a person means by names and by `-k`."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Sequence

from tipbench.errors import UserError
from tipbench.records.record import PairInfo


class NothingSelected(UserError):
    """The words a person typed select no pair; the message says what is near."""


def select(
    pairs: Sequence[PairInfo], names: Sequence[str], expression: str = "", remedy: str = "`tipbench list` shows all"
) -> list[PairInfo]:
    """The pairs named `tip` or `tip.Pair` (all, without names) that `expression` keeps, in their order.

    remedy: what to say to a name that does not exist, after the nearest one that does.

    Raises NothingSelected for an unknown name, a broken expression, or an empty result.
    """
    existing = {info.name for info in pairs} | {str(info.tip["id"]) for info in pairs}
    for name in names:
        if name not in existing:
            near = difflib.get_close_matches(name, existing, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            raise NothingSelected(f"no tip or pair is named {name!r}; {hint}{remedy}")
    chosen = [info for info in pairs if not names or info.name in names or info.tip["id"] in names]
    if expression:
        keeps = _Expression(expression)
        chosen = [info for info in chosen if keeps.matches(info)]
    if not chosen:
        raise NothingSelected(
            f"-k {expression!r} selects none of the pairs" if expression else "there are no pairs here"
        )
    return chosen


class _Expression:
    """Words with and, or, not and parentheses, as after `pytest -k`: a word holds where it is part of a pair's
    name, scale, file or title, in whatever case."""

    def __init__(self, text: str) -> None:
        """Raises NothingSelected where the text is no such expression."""
        self._words: list[str] = []
        try:
            # The three operators have the precedence of Python's own, so Python parses them; words become names.
            self._tree = ast.parse(re.sub(r"[\w:+\-.\[\]/\\]+", self._name, text).strip(), mode="eval").body
            self._holds(self._tree, "")
        except (SyntaxError, RecursionError, MemoryError):
            raise NothingSelected(f"-k {text!r} is no expression of words with and, or, not") from None

    def _name(self, match: re.Match[str]) -> str:
        if match[0] in ("and", "or", "not"):
            return match[0]
        self._words.append(match[0].lower())
        return f"w{len(self._words) - 1}"

    def matches(self, info: PairInfo) -> bool:
        return self._holds(self._tree, f"{info.name} {info.scale} {info.file} {info.tip['title']}".lower())

    def _holds(self, node: ast.expr, text: str) -> bool:
        """Raises SyntaxError for what Python knows beyond the three operators, such as a call."""
        match node:
            case ast.BoolOp():
                parts = [self._holds(part, text) for part in node.values]
                return all(parts) if isinstance(node.op, ast.And) else any(parts)
            case ast.UnaryOp(op=ast.Not()):
                return not self._holds(node.operand, text)
            case ast.Name():
                return self._words[int(node.id.removeprefix("w"))] in text
        raise SyntaxError


def with_controls(chosen: Sequence[PairInfo], controls: Sequence[PairInfo], whole: bool) -> list[PairInfo]:
    """The chosen pairs after the A/A controls: all of them in a whole run, else the first alone.

    Every run carries a control, because the noise floor belongs to the run and not to the machine.
    """
    first = list(controls) if whole else list(controls[:1])
    if any(info in controls for info in chosen):
        first = []
    return first + [info for info in chosen if info not in first]
