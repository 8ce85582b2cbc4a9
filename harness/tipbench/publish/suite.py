"""What the installed suite says of its tips, read from its files without importing them, so without torch.

A results file is anyone's to edit, and a pair of one's own may be called anything. What the suite's files say is public
with them, so text is published where it is theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from signal import Signals
from typing import Any

from tipbench.suite.files import BENCHMARKS
from tipbench.suite.source import sides
from tipbench.tip.pair import Claim, Tip

ROOMS = ("tip", "records", "worker", "machine", "engine", "verdict")
"""Of the harness, those whose words a results file holds: names of sizes, of libraries, of what is counted."""

FIELDS: dict[str, Any] = {
    field.name: {} if field.name == "ways" else "" if field.default is MISSING else field.default
    for field in fields(Tip)
    if field.name not in ("mechanism", "why_not_holds")
}
"""What a results file holds of a tip, with what stands there where the suite's file does not say."""


@dataclass(frozen=True)
class SuiteTip:
    """One file of the suite.

    Attributes:
        file: as `PairInfo.file`.
        text: the file's content.
        fields: of its Tip, as plain JSON.
    """

    file: str
    text: str
    fields: Mapping[str, Any]

    def code(self, pair: str) -> Mapping[str, str]:
        """As `PairInfo.code`, of the file as it is installed."""
        return _sides(self.text, pair)


_sides = cache(sides)


def suite_tip(tip: str, pair: str) -> SuiteTip | None:
    """The file of the suite that holds the pair, the tip's first one for no pair; None where there is none."""
    files = tips().get(tip, ())
    declaration = re.compile(rf"^class {re.escape(pair)}\(", re.M)
    return next((file for file in files if not pair or declaration.search(file.text)), None)


@cache
def tips() -> Mapping[str, tuple[SuiteTip, ...]]:
    """All tips of the suite by id, each with its files: one imports its TIP from another where both are about it."""
    texts = {path: path.read_text() for path in sorted(BENCHMARKS.rglob("*.py"))}
    result: dict[str, tuple[SuiteTip, ...]] = {}
    for path, text in texts.items():
        if (tip := _fields(text)) is None:
            continue
        module = ".".join(path.relative_to(BENCHMARKS.parent).with_suffix("").parts)
        imports = re.compile(rf"^from {re.escape(module)} import .*\bTIP\b", re.M)
        files = [path, *(other for other, text in texts.items() if imports.search(text))]
        result[tip["id"]] = tuple(
            SuiteTip(str(file.relative_to(BENCHMARKS.parent)), texts[file], tip) for file in files
        )
    return result


@cache
def is_own(text: str) -> bool:
    """Whether a text is the suite's: a string or a name in its files, or made of these and of numbers."""
    if {text, text.removeprefix("lib")} & _texts() or re.fullmatch(r"\d{1,7}(\.\d{1,3})?|nan|-?inf", text):
        return True
    cuts = re.finditer(", |: |=| ", text[:100])
    return any(is_own(text[: cut.start()]) and is_own(text[cut.end() :]) for cut in cuts)


@cache
def _texts() -> frozenset[str]:
    """All strings and names in the files of the suite and of ROOMS, and the names of signals."""
    harness = Path(__file__).parent.parent
    paths = [*BENCHMARKS.rglob("*.py"), *(path for room in ROOMS for path in (harness / room).glob("*.py"))]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    texts = (getattr(node, field, None) for node in nodes for field in ("value", "name", "id", "arg", "attr"))
    return frozenset(text.strip(" ,:") for text in (*texts, *(each.name for each in Signals)) if isinstance(text, str))


def _fields(text: str) -> dict[str, Any] | None:
    """The fields of the file's TIP; None where it has none."""
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TIP")], value=ast.Call(keywords=keywords)):
                return {
                    **FIELDS,
                    **{word.arg: _value(word.value) for word in keywords if word.arg and word.arg in FIELDS},
                }
    return None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Claim":
        return str(Claim[node.attr])
    value = ast.literal_eval(node)
    return list(value) if isinstance(value, tuple) else value
