"""Imports the function that builds a person's job, named as `train.py:job`, and explains errors in it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FALLBACK_MODULE_NAME = "job_of_a_person"
"""Module name of a person's file if its own name is taken, as that of a file called random.py."""

RELATIVE_IMPORT = re.compile(r"^\s*from\s+(\.+)", re.MULTILINE)

_modules: dict[Path, ModuleType] = {}


class BadJob(Exception):
    """The job cannot be measured; the message is one sentence for the person whose job it is."""


def function(target: str) -> Callable[[], Any]:
    """The function that `FILE:NAME` names. Raises BadJob."""
    place, _, name = target.rpartition(":")
    file = Path(place)
    if not file.is_file():
        raise BadJob(f"{place} is no file: name a Python file and a function in it, such as train.py:job")
    value = getattr(_imported(file), name, None)
    if value is None:
        raise BadJob(f"{file.name} has no {name}: it must be a function of the file itself, not of another one")
    if not callable(value):
        raise BadJob(f"{file.name}: {name} is a {type(value).__name__}; make it a function that builds the job")
    return value  # type: ignore[no-any-return]


def _imported(file: Path) -> ModuleType:
    """The module of a person's file, imported once. `if __name__ == "__main__"` is false, as in any import."""
    if file in _modules:
        return _modules[file]
    sys.dont_write_bytecode = True  # nothing is written to their folder, nor by what it starts
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.argv = [str(file)]  # a script may read its command line, which is not ours
    root, name = _as_imported(file)
    for folder in (root, file.parent):  # the second as Python does for a script
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    # Under its own name, so that DataLoader workers that are spawned, not forked, find its classes.
    name = FALLBACK_MODULE_NAME if name in sys.modules else name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadJob(f"{file} is no Python file")
    module = _modules[file] = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        if package := name.rpartition(".")[0]:
            importlib.import_module(package)
        spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit too: a script that ends itself
        del sys.modules[name], _modules[file]
        raise BadJob(f"importing {file.name} raised {error_with_line(error, file)}") from error
    return module


def _as_imported(file: Path) -> tuple[Path, str]:
    """(The folder in which its import begins, its module name): of a file with relative imports that of its package, as
    `python -m` has it; of any other file as of a script."""
    dots = [len(match[1]) for match in RELATIVE_IMPORT.finditer(file.read_text(errors="replace"))]
    root, name, left = file.parent, file.stem, max(dots, default=0)
    while dots and root != root.parent and (left > 0 or (root / "__init__.py").is_file()):
        root, name, left = root.parent, f"{root.name}.{name}", left - 1
    return root, name


def expect_no_clash(file: Path) -> None:
    """Raise BadJob where a module of the person's, beside the imported file of a job, has the name of one that each
    process which measures needs: there is room for one of the two."""
    theirs = {place.stem for place in file.parent.iterdir()} & sys.stdlib_module_names & sys.modules.keys()
    text = file.read_text(errors="replace")
    for name in theirs:
        is_theirs = Path(getattr(sys.modules[name], "__file__", "") or "").is_relative_to(file.parent)
        is_meant = re.search(rf"^\s*(import|from)\s+{name}\b", text, re.MULTILINE)
        if not _compiles() if is_theirs else is_meant:
            raise BadJob(
                f"it imports a module of yours named {name}, as one of the standard library that torch or tipbench "
                f"imports: rename yours, or measure the whole program, tipbench advise -- python {file.name}"
            )


def _compiles() -> bool:
    """Whether what torch.compile needs can be imported."""
    try:
        importlib.import_module("torch._dynamo")
    except Exception:  # of a person's module that was taken for another
        return False
    return True


def error_with_line(error: BaseException, file: Path) -> str:
    """`Type: message (train.py, line 12)`, with the innermost line that is in the folder of `file`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    folder = file.parent.resolve()
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if folder in Path(frame.filename).resolve().parents and "site-packages" not in frame.filename
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else f" ({file.name})"
    message = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"
