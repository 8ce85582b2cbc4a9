"""What a person takes away: the settings to export, and a program that runs their job with the tips that pay."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tipbench.advise.surveyed import environment_of
from tipbench.given.survey import WITH_MODEL, Survey, WayHere
from tipbench.machine.controls import HEAP, read_by_torch
from tipbench.report.output import write_file
from tipbench.suite.loops import PLAIN_START, combined_diff, loop_diff
from tipbench.tip.wording import plain

ENV, PROGRAM, DIFF = "tuned.env", "tuned.py", "changes.diff"

PROGRAM_TEXT = '''"""{name} with what pays: {gain}.

From this folder, in a shell:

    (. ./tuned.env; python tuned.py)

The brackets keep its settings from all that runs in that shell later.
"""

import os
import sys

from tipbench.given.pair import follow_ways

LOSSY = {lossy!r}
"""What alters results and pays alone: `python tuned.py --lossy` follows it too."""


def main() -> None:
    os.chdir({here!r})  # the job's relative paths begin there
    job = follow_ways({target!r}, {combination!r} + (LOSSY if "--lossy" in sys.argv else ()))
    for _ in range(100):
        job.step()


if __name__ == "__main__":  # not in worker processes, which import this file
    main()
'''


GROWS = "# As it was measured. Leave the lines with MALLOC_ out if the memory of the process does not stay level."
"""A loop that kept a small tensor at each of 400 steps with temporaries of 8 MiB grew to 2.7 GB, in place of 0.6."""


def docstring_line(text: str) -> str:
    """Foreign text as one line that ends no docstring and escapes nothing in it."""
    return plain(text).replace('"', "'").replace("\\", "/")


def write(
    folder: Path,
    target: str,
    survey: Survey,
    combination: Sequence[WayHere],
    gain: str,
    controls: Mapping[str, str],
    lossy: Sequence[str] = (),
) -> None:
    """The files, of a command the settings alone. controls: of both sides. lossy: names of further ways, which set
    no variables. Raises ReportError."""
    # As it was measured: of an inference without gradients, 1.14x faster so, three of six processes were slower by a
    # quarter with glibc's own thresholds. And with what the job's file sets before it imports torch, as tuned.py
    # imports torch before that file.
    heap = {name: controls[name] for name in HEAP if name in controls}
    env = environment_of(combination, heap | read_by_torch())
    own = {"LD_PRELOAD": "${LD_PRELOAD:+:$LD_PRELOAD}"}  # of the shell that reads it
    settings = "".join(f"export {name}={shlex.quote(value)}{own.get(name, '')}\n" for name, value in env.items())
    if heap:
        settings = f"{GROWS}\n{settings}"
    write_file(folder / ENV, settings.encode())
    names = tuple(way.name for way in combination)
    if survey.kind != "command":
        text = PROGRAM_TEXT.format(
            name=docstring_line(survey.name),
            gain=docstring_line(gain),
            here=str(Path.cwd()),
            target=target,
            combination=names,
            lossy=tuple(lossy),
        )
        write_file(folder / PROGRAM, text.encode())
    if diff := diff_of(combination, survey.kind):
        write_file(folder / DIFF, f"{diff}\n".encode())


def diff_of(ways: Sequence[WayHere], kind: str) -> str:
    """What to write for all of these, as a diff of a plain loop; empty if none of them is about the loop."""
    if kind not in WITH_MODEL:
        return ""
    of_the_loop = [way.do for way in ways if PLAIN_START not in way.do and loop_diff(way.do, kind)]
    return combined_diff(of_the_loop, kind) if of_the_loop else ""
