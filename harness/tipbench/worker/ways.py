"""The process settings of all ways to follow tips, by which those that an advice has stored are checked.

`tipbench.advise` starts it, as only such a process imports torch, and reads the file that it writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tipbench.given.pair import BETWEEN
from tipbench.machine import native
from tipbench.suite.files import BENCHMARKS, load, pair_files
from tipbench.tip.way import Way


def name_of(tip: str, way: Way) -> str:
    """`tip`, or `tip/way`."""
    return f"{tip}{BETWEEN}{way.name}" if way.name else tip


def settings_of(way: Way) -> dict[str, Any]:
    """The variables and the paths of libraries that a process needs, as `tipbench.given.survey.WayHere` has them."""
    return {
        "env": dict(way.settings.env),
        "preload": [str(native.find(name) or name) for name in way.settings.preload],
    }


def main(_: str, answer: str) -> None:
    """Write to the file `answer`, as JSON: by name of a way, its tip and `settings_of`."""
    modules = [load(file, BENCHMARKS) for file in pair_files(BENCHMARKS)]
    content = {
        name_of(module.TIP.id, way): {"tip": module.TIP.id, **settings_of(way)}
        for module in modules
        for way in getattr(module, "ON_ANY_JOB", ())
    }
    Path(answer).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
