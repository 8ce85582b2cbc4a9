"""What a tip says to write as a diff of one of the scripts in `benchmarks/loops/`, and where in a loop it stands.

Lines of a text stand right before the loop, up to the first that is about a batch: that uses `batch`, `targets`,
`outputs` or `loss`, or calls a method of the optimizer, and defines no function or class. What assigns a name anew by
the same call, such as `loader = DataLoader(...)`, takes that line's place. The lines about a batch take the place of
the lines that make the same calls, and stand at the end where no line does. A `for` over the `loader` takes the place
of the whole. Names besides those of the loops: `model.blocks`, the blocks that a model repeats; `model.head`, its last
layer. `torch`, `nn`, `F` and `DataLoader` are imported. Code of a model or a dataset has names of its own.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from textwrap import indent
from typing import Any

from tipbench.suite.files import BENCHMARKS, file_text

PLAIN_START = "python train.py"
"""How a job is started as it is."""

OF_A_BATCH = {"batch", "targets", "outputs", "loss"}
OF_A_JOB = {"model", "optimizer", "loader", "criterion", "data", "arguments", "device", "epochs"}
IMPORTED = {"torch", "nn", "F", "DataLoader"}


def loop_diff(text: str, name: str) -> str:
    """The text as a diff of the loop of that name, or of the line that starts a job; empty for what fits neither, such
    as code of a model."""
    try:
        if not _fits(text):
            return ""
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # the last two of what is nested too deeply
        return f"-{PLAIN_START}\n+{text}" if "train.py" in text and "\n" not in text else ""
    return combined_diff([text], name)


def combined_diff(texts: Sequence[str], name: str) -> str:
    """The texts, each a change of that loop, followed one after the other."""
    script = changed = file_text(BENCHMARKS / "loops" / f"{name}.py")
    for text in texts:
        changed = changed_script(changed, re.sub(r"# first: arguments.*\n", "", text))
    diff = list(unified_diff(script.splitlines(), changed.splitlines(), n=2, lineterm=""))[3:]
    return "\n".join(" # ..." if line.startswith("@@") else line for line in diff)


def _fits(text: str) -> bool:
    statements = ast.parse(text).body
    of_a_model = all(isinstance(line, ast.FunctionDef) or ast.unparse(line).startswith("nn.") for line in statements)
    return not of_a_model and not free_names(text) - OF_A_JOB - OF_A_BATCH


def changed_script(script: str, text: str) -> str:
    """A loop's script with the text followed."""
    statements = ast.parse(text).body
    before, own = split(statements)
    sources = _sources(text, statements)
    body = ast.parse(script).body
    loops = [statement for statement in body if isinstance(statement, ast.For)]  # one may be of an earlier change
    loop = next(statement for statement in loops if any(map(is_the_loop, [statement, *statement.body])))
    inner: Any = loop if is_the_loop(loop) else next(filter(is_the_loop, loop.body))
    lines = script.splitlines()  # changed from its end on, so that the numbers of earlier lines stay
    if own:
        start, end, depth = inner.lineno - 1, inner.end_lineno, inner.col_offset
        if not is_the_loop(own[0]):
            first, behind = place_of(own, inner.body)
            start = inner.body[first].lineno - 1 if first < behind else end
            end, depth = inner.body[behind - 1].end_lineno, depth + 4
        lines[start:end] = indent("\n".join(sources[len(before) :]), " " * depth).splitlines()
    lines[loop.lineno - 1 : loop.lineno - 1] = "\n".join(sources[: len(before)]).splitlines()
    for old in reversed(body[: body.index(loop)]):
        if _is_replaced(old, before):
            del lines[old.lineno - 1 : old.end_lineno]
    return "\n".join(lines) + "\n"


def _is_replaced(old: ast.stmt, before: Sequence[ast.stmt]) -> bool:
    """Whether a line of the text assigns its name by the same call, and none ahead of that uses it."""
    for line in before:
        if _assigned(line) and _assigned(line) == _assigned(old):
            return True
        if _assigned(old)[:1] and any(
            isinstance(node, ast.Name) and node.id == _assigned(old)[0] for node in ast.walk(line)
        ):
            return False
    return False


def _assigned(line: ast.stmt) -> tuple[str, ...]:
    """(Name, function) of a line that assigns what a call returns; empty for others."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)):
            return name, ast.unparse(function)
    return ()


def _sources(text: str, statements: Sequence[ast.stmt]) -> list[str]:
    """Each statement with the comments above it, the last also with those below; a block in one line is unfolded."""
    lines, sources, since = text.splitlines(), [], 0
    for line in statements:
        end = line.end_lineno or 0
        above, rest = lines[since : line.lineno - 1], lines[end - 1].encode()[line.end_col_offset :].decode().strip()
        is_folded = hasattr(line, "body") and line.lineno == end
        own = [*filter(None, [rest]), ast.unparse(line)] if is_folded else lines[line.lineno - 1 : end]
        sources.append("\n".join([*above, *own]))
        since = end
    sources[-1] = "\n".join([sources[-1], *lines[since:]])
    return sources


def split(statements: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """What stands before the loop, and what stands in it or is it."""
    first = next((number for number, line in enumerate(statements) if _is_about_a_batch(line)), len(statements))
    return statements[:first], statements[first:]


def place_of(lines: Sequence[ast.stmt], loop: Sequence[ast.stmt]) -> tuple[int, int]:
    """The lines of the loop that these replace: those that make the same calls, or none behind them all."""
    made = set().union(*map(calls_of_the_loop, lines))
    replaced = [number for number, line in enumerate(loop) if made.intersection(calls_of_the_loop(line))]
    return (replaced[0], replaced[-1] + 1) if replaced else (len(loop), len(loop))


def free_names(text: str) -> set[str]:
    """The names that a text takes from elsewhere."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound -= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} & OF_A_JOB
    bound |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
              for alias in node.names}  # fmt: skip
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names - bound - set(vars(builtins)) - IMPORTED


def calls_of_the_loop(statement: ast.stmt) -> Iterator[str]:
    """Which calls of the loop a statement makes."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Name(id="model" | "criterion" as name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="backward")):
                yield "backward"
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Name(id="device"), *_]):
                yield "to"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="optimizer"), attr=name)):
                yield name
            case ast.Call(func=ast.Attribute(attr="step"), args=[ast.Name(id="optimizer")]):  # of a GradScaler
                yield "step"


def is_the_loop(statement: ast.stmt) -> bool:
    """Whether it is a loop of its own over the loader."""
    return isinstance(statement, ast.For) and any(
        isinstance(node, ast.Name) and node.id == "loader" for node in ast.walk(statement.iter)
    )


def _is_about_a_batch(statement: ast.stmt) -> bool:
    """A definition is not: it is called later."""
    return not isinstance(statement, ast.FunctionDef | ast.ClassDef) and any(
        (isinstance(node, ast.Name) and node.id in OF_A_BATCH)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "optimizer"
        )
        for node in ast.walk(statement)
    )
