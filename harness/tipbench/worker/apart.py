"""Runs a person's job in a process of its own: `python -m tipbench.worker.apart PARENT MODULE ANSWER TARGET WORDS...`.

MODULE is a module beside this one, whose `content` returns what is written to the file ANSWER, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from tipbench.machine.orphans import die_with_parent
from tipbench.worker.serve import bound_output

MODULES = ("survey", "scores")


def main(parent: str, module: str, answer: str, target: str, *words: str) -> None:
    """Write the content, or {"problem"}. parent: the id of the process that started this one, which ends with it."""
    die_with_parent(int(parent))
    bound_output()
    assert module in MODULES, module
    # Imported here, because it imports torch, for seconds: before that, this process must be bound to its parent.
    from tipbench.given.target import BadJob

    try:
        content = importlib.import_module(f"tipbench.worker.{module}").content(target, *words)
    except BadJob as bad:
        content = {"problem": str(bad)}
    Path(answer).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
