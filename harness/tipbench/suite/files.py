"""Files of pairs: where they are, how one is imported, and which pairs it holds."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tipbench.errors import UserError
from tipbench.tip.pair import Pair

PACKAGE = Path(__file__).parent.parent

BENCHMARKS = next(
    folder
    for folder in (PACKAGE / "guide_pairs" / "benchmarks", PACKAGE.parent.parent / "benchmarks")
    if folder.exists()
)
"""The guides' tips: inside an installed package, or beside `harness/` in a checkout."""


MADE_OF_DATA = ".pair.json"
"""End of the name of a file that holds the data of a pair, and no code."""

MAKER = "tipbench.given.pair"
"""The module whose `module_of` makes a module of such a file. Named, as this room is below it."""


class NoFolder(UserError):
    """The folder to take pairs from does not exist, or holds none."""


def pair_files(folder: Path) -> list[Path]:
    """Files that hold a tip, controls first, then in the guide's order of chapters.

    Raises NoFolder where the folder does not exist or holds no such file.
    """
    if not folder.exists():
        raise NoFolder(f"{folder} does not exist")
    if folder.is_file():
        return [folder]
    chapters = ["general", "cpu", "gpu", "distributed", "training", "modern"]
    files = [
        file
        for file in folder.rglob("*.py")
        if holds_a_tip(file_text(file)) and not _installed(file.relative_to(folder))
    ]

    def position(file: Path) -> tuple[int, str]:
        chapter = file.relative_to(folder).parts[0]
        return (chapters.index(chapter) if chapter in chapters else -1, str(file))

    if not files:
        raise NoFolder(f"no pairs in {folder}: a file of pairs has a TIP, and imports Pair from tipbench")
    return sorted(files, key=position)


def data_files(folder: Path) -> list[Path]:
    """Files of data in a folder that `tipbench advise` has written. Raises NoFolder where it holds none."""
    if files := sorted(folder.glob(f"*{MADE_OF_DATA}")):
        return files
    raise NoFolder(f"no pairs of a job in {folder}")


def holds_a_tip(text: str) -> bool:
    """Whether a file says of itself that it holds pairs: it has a TIP and imports from tipbench. No other is imported,
    because importing a file runs it."""
    imports = re.search(r"^\s*(from|import)\s+tipbench\b", text, re.MULTILINE)
    return bool(imports and re.search(r"^\s*TIP\b|\bimport\b.*\bTIP\b", text, re.MULTILINE))


def _installed(file: Path) -> bool:
    """Whether it belongs to an environment or a tool inside the folder, such as .venv, and not to the person."""
    return any(part.startswith(".") or part == "site-packages" for part in file.parts)


def file_text(file: Path) -> str:
    """What a file says; "" where it cannot be read, as a link to nowhere."""
    try:
        return file.read_text(errors="replace") if file.is_file() else ""
    except OSError:
        return ""


def load_module(file: Path, folder: Path) -> ModuleType:
    """Import a pair file. Files of `benchmarks/` by their package name, others by their path."""
    if file.name.endswith(MADE_OF_DATA):
        return importlib.import_module(MAKER).module_of(file)  # type: ignore[no-any-return]
    if file.is_relative_to(BENCHMARKS):
        name = ".".join(file.relative_to(BENCHMARKS.parent).with_suffix("").parts)
        if _aside is not None:
            with _not_aside(_aside):
                return _imported(name, file)
        if sys.path[0] != str(BENCHMARKS.parent):
            # First, whatever else is installed under that name. The folder holds nothing else that is imported.
            sys.path.insert(0, str(BENCHMARKS.parent))
        return _imported(name, file)
    root = folder if folder.is_dir() else folder.parent
    name = "_".join(["pairs", *file.relative_to(root).with_suffix("").parts])
    while name in sys.modules and sys.modules[name].__file__ != str(file.absolute()):
        name += "_"  # a/b_c.py and a_b/c.py
    # Last: a file of a person's own named random.py must not be taken for the standard library's.
    sys.path += [str(place) for place in (root, Path.cwd()) if str(place) not in sys.path]
    return _imported(name, file)


_aside: dict[str, ModuleType] | None = None
"""The modules of `benchmarks/` by their names, once they are set aside."""


def set_guides_aside() -> None:
    """Let `benchmarks` be what a person's own program finds under that name; `load` finds the guides' pairs all the
    same. For a process that runs a job of theirs."""
    global _aside
    if _aside is None:
        _aside = {}
        sys.path[:] = [place for place in sys.path if place != str(BENCHMARKS.parent)]
        _set_aside(_aside)


@contextmanager
def _not_aside(aside: dict[str, ModuleType]) -> Iterator[None]:
    theirs = _of_that_name()
    for name, module in aside.items():
        module.__name__, sys.modules[name] = name, module
    sys.path.insert(0, str(BENCHMARKS.parent))
    try:
        yield
    finally:
        sys.path.remove(str(BENCHMARKS.parent))
        _set_aside(aside)
        sys.modules.update(theirs)


def _set_aside(aside: dict[str, ModuleType]) -> None:
    for name, module in _of_that_name().items():
        # torch.compile imports the module of a function that it compiles by its name.
        aside[name], module.__name__ = module, f"{PACKAGE.name}_{name}"
        sys.modules[module.__name__] = module


def _of_that_name() -> dict[str, ModuleType]:
    """The modules named `benchmarks`, or inside it, which are no longer imported then."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == BENCHMARKS.name}


def _imported(name: str, file: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pair_classes(module: ModuleType) -> list[type[Pair]]:
    """The pairs a file defines itself, in its order. A name with a leading underscore is a shared base."""
    name = module.__spec__.name if module.__spec__ else module.__name__  # one that is set aside has another name
    return [
        member
        for place, member in vars(module).items()
        if inspect.isclass(member)
        and issubclass(member, Pair)
        and member.__module__ == name
        and not place.startswith("_")
    ]


def explain(error: BaseException, file: Path) -> str:
    """`Type: message (file, line N)` with the innermost line inside `file`."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{type(error).__name__}: {error.msg} ({file.name}, line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f" ({file.name}, line {lines[-1]})" if lines else f" ({file.name})"
    message = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"
