"""What a person's file sets in the environment before it imports torch, which reads it then.

`tipbench.advise` starts it before anything else of a job, and reads the file that it writes. Every other process has
imported torch when it imports the person's file, so what that sets would come too late.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from tipbench.given.target import function
from tipbench.machine.controls import read_by_torch


class Reached(BaseException):
    """The file imports torch."""


class UntilTorch(MetaPathFinder):
    """Ends the import of a file where it imports torch."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name == "torch":
            raise Reached


def main(target: str, answer: str) -> None:
    """Write to the file `answer`, as JSON, the variables that were set or changed."""
    before = read_by_torch()
    sys.meta_path.insert(0, UntilTorch())
    with suppress(BaseException):  # what is wrong with a file is said when its job is run
        function(target)
    after = read_by_torch()
    Path(answer).write_text(json.dumps({name: value for name, value in after.items() if before.get(name) != value}))


if __name__ == "__main__":
    main(*sys.argv[1:])
