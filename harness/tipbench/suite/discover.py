"""Finds the pairs in a folder: no registry, no list to edit. A pair is a class in a file with a TIP.

The files are imported in a process of their own, because a file may do anything at import: what
breaks there becomes a failed record of that file, and the other files count.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tipbench.errors import UserError
from tipbench.machine.controls import HEAP, clean_environment
from tipbench.machine.orphans import OutputFlood, ending_words, run_module, spawn, wait_for
from tipbench.machine.scratch import Scratch
from tipbench.machine.temporary import TemporaryFolderFull, full, writing_to
from tipbench.records.fields import convert
from tipbench.records.record import PairInfo, Record
from tipbench.suite.files import data_files, pair_files
from tipbench.tip.pair import TipText
from tipbench.tip.reason import Reason
from tipbench.tip.wording import plain

IMPORT_DEADLINE = 120.0
"""Seconds that importing all files of a folder may take."""

_OUTPUT_LIMIT = 64 << 20
"""Bytes that they may print, all together."""


TAIL = 4096
"""Bytes of what they printed last that are looked at if torch cannot be imported."""


@dataclass(frozen=True)
class Discovery:
    """What a folder holds.

    Attributes:
        pairs: what files describe, in the guide's order.
        broken: a failed record of each file that cannot be imported.
        threads: torch's default number of threads on this machine.
        torch: its version.
        device: "cpu" or "cuda"; what "auto" came to.
        size: the tier of the pairs' sizes, one of `tipbench.tip.sizes.TIERS`.
        keeps_heap: whether `tipbench.machine.controls.HEAP` takes effect here.
    """

    pairs: tuple[PairInfo, ...]
    broken: tuple[Record, ...]
    threads: int
    torch: str
    device: str
    size: str
    keeps_heap: bool = True


class NoTorch(UserError):
    """torch cannot be imported, or the device is missing; the message says which."""


def discover(
    folder: Path,
    device: str = "auto",
    size: str = "",
    of_data: bool = False,
    of_the_shell: Mapping[str, str] = MappingProxyType({}),
) -> Discovery:
    """Import every file of `folder` in a process of its own and describe its pairs for `device`.

    size: a tier; by default the one for this machine. of_data: whether the folder holds pairs of a person's job, as
    `tipbench advise` writes them. of_the_shell: as `tipbench.engine.run.Options` has it.

    Raises NoFolder, NoTorch where nothing could run, and TemporaryFolderFull.
    """
    files = data_files(folder) if of_data else pair_files(folder)
    broken: list[Record] = []
    env = clean_environment() | HEAP | dict(of_the_shell)
    with Scratch() as scratch, writing_to(scratch):
        while True:
            answers, output, ending = _describe(folder, files, device, size, scratch, env)
            if answers and "unusable" in answers[0]:
                raise NoTorch(answers[0]["unusable"])
            if answers and "finished" in answers[-1]:
                break
            if len(answers) < 2:
                raise NoTorch(f"torch cannot be imported by {sys.executable} ({ending}): {plain(output)}")
            # The process died in this file; the others get another try without it.
            file = Path(next(answer["importing"] for answer in reversed(answers) if "importing" in answer))
            broken.append(_broken(file, device, f"{file.name}: the process {ending} while importing it"))
            files.remove(file)
    pairs = [convert(pair, PairInfo) for answer in answers for pair in answer.get("pairs", ())]
    broken += [_broken(Path(answer["file"]), device, answer["error"]) for answer in answers if "error" in answer]
    first = answers[0]
    facts = {name: first[name] for name in ("threads", "torch", "device", "size", "keeps_heap")}
    return Discovery(tuple(pairs), tuple(broken), **facts)


def _describe(
    folder: Path,
    files: Sequence[Path],
    device: str,
    size: str,
    scratch: Path,
    env: Mapping[str, str],
) -> tuple[list[dict[str, Any]], str, str]:
    """(answers, last lines of output, how the process ended). Raises TemporaryFolderFull."""
    answered, log = scratch / "answers.jsonl", scratch / "output"
    answered.write_text("")
    command = run_module("tipbench.suite.describe", device, size, *map(str, (folder, answered, *files)))
    process = spawn(command, env, log)
    try:
        ending = ending_words(wait_for(process, log, IMPORT_DEADLINE, _OUTPUT_LIMIT))
    except subprocess.TimeoutExpired:
        ending = f"came to no end in {IMPORT_DEADLINE:.0f} s"
    except OutputFlood:
        ending = f"printed over {_OUTPUT_LIMIT >> 20} MiB"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = answered.read_bytes().splitlines(keepends=True)
    if not lines or b'"finished"' not in lines[-1]:
        if why := full(scratch):
            raise TemporaryFolderFull(why)
        lines = [line for line in lines if line.endswith(b"\n")]  # it may have ended in the middle of one
    with log.open("rb") as output:
        output.seek(max(0, log.stat().st_size - TAIL))
        last = output.read(TAIL).decode(errors="replace")
    return [json.loads(line) for line in lines], " ".join(last.split("\n")[-3:]), ending


def _broken(file: Path, device: str, reason: str) -> Record:
    tip = TipText(id=file.stem.replace("_", "-"), title=file.name, guide=(), claim="", status="")
    info = PairInfo(tip, file.name, device)
    return Record(info, "failed", Reason("import-error", detail=reason, fix=f"fix {file.name}"))
