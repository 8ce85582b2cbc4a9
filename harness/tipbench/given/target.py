"""From `train.py:job` to the function that builds a person's job, and what is wrong where it cannot."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

IN_DOUBT = "job_of_a_person"
"""What their file is imported as where another module has its name already, as with one called random.py."""

_modules: dict[Path, ModuleType] = {}


class BadJob(Exception):
    """What is given is no job that can be measured; the message is one sentence for the person who gave it."""


def function(target: str) -> Callable[[], Any]:
    """The function that `FILE:NAME` names. Raises BadJob."""
    place, _, name = target.rpartition(":")
    file = Path(place)
    if not file.is_file():
        raise BadJob(f"{place} is no file: name a Python file and a function in it, such as train.py:job")
    found = getattr(_imported(file), name, None)
    if found is None:
        raise BadJob(f"{file.name} has no {name}: it must be a function of the file itself, not of another one")
    if not callable(found):
        raise BadJob(f"{file.name}: {name} is a {type(found).__name__}; make it a function that builds the job")
    return found  # type: ignore[no-any-return]


def _imported(file: Path) -> ModuleType:
    """The module of their file, imported once. `if __name__ == "__main__"` does not hold, as in any import."""
    if file in _modules:
        return _modules[file]
    sys.dont_write_bytecode = True  # their folder is not written to
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))  # as Python does for a script
    # By its own name, so that workers of a DataLoader that are not forked find its classes.
    name = IN_DOUBT if file.stem in sys.modules else file.stem
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise BadJob(f"{file} is no Python file")
    module = _modules[file] = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException as error:  # SystemExit too: a script that ends itself
        del sys.modules[name], _modules[file]
        raise BadJob(f"importing {file.name} raised {said(error, file)}") from error
    return module


def said(error: BaseException, file: Path) -> str:
    """`Type: message (train.py, line 12)`, with the innermost line of a file in the folder of theirs."""
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
