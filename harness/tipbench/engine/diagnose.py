"""Why a worker did not answer, from how its process ended and from the files that it left."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tipbench.engine.process import Process
from tipbench.machine.temporary import full
from tipbench.tip.reason import Reason
from tipbench.worker.protocol import CONNECTION_LOST, EXIT_CODES_FILE, OUTPUT_LIMIT, STACK_SIGNAL

TORCHRUN_ENDS = 15.0
"""Seconds in which torchrun notices that a rank has ended, ends the others, and exits."""

STACK_S = 1.0
"""Seconds in which a process prints its stack. A process that has not yet registered the signal is ended by it."""

CLOSED = "its connection was closed"


class Evidence:
    """A worker's process, and the files in its scratch folder."""

    def __init__(self, process: Process, scratch: Path, file: str) -> None:
        """file: name of the pair's file."""
        self._output = scratch / "output"
        self._process = process
        self._scratch = scratch
        self._file = file

    def silent(self, doing: str, deadline: float) -> Reason:
        """Why there was no answer within the deadline (s)."""
        if failure := self._full() or self._ended(doing, 0.0):
            return failure
        places = self._positions()
        where = f" when {', and '.join(places)}" if places else self._last_output()
        return Reason("hang", {"seconds": deadline, "doing": doing}, f"; ended{where}")

    def closed(self, doing: str) -> Reason:
        """Why the connection was closed, or the process has ended."""
        # A socket closes a moment before its process is gone; torchrun looks once a second.
        seconds = 1.0 if self._process.ranks == 1 else TORCHRUN_ENDS
        return self._full() or self._ended(doing, seconds) or unreadable(CLOSED, doing)

    def _full(self) -> Reason | None:
        why = full(self._scratch)
        return Reason("temporary-folder-full", detail=why) if why else None

    def _ended(self, doing: str, seconds: float) -> Reason | None:
        """How the process has ended; None if it has not ended within so many seconds."""
        code = self._process.exit_code(seconds)
        # A rank that died has left no report; only torchrun has its exit code.
        codes, reports = self._ended_ranks()
        # torchrun ends the others by SIGTERM, and may list one of these as well.
        silent = codes.keys() - {report["rank"] for report in reports}
        for rank in sorted(silent, key=lambda rank: (codes[rank] == -signal.SIGTERM, rank)):
            return self._of_exit_code(codes[rank], {"rank": rank}, doing)
        if reports:
            first = min(reports, key=lambda report: report["order"])
            return Reason(**first["failed"])
        return None if code is None else self._of_exit_code(code, {}, doing)

    def _ended_ranks(self) -> tuple[dict[int, int], list[dict[str, Any]]]:
        """What the ranks that have ended have left.

        ({rank: exit code from torchrun}, [{"rank", "failed", "order"} that a rank reported before it ended]).
        order: from `Ranks.order_of_failure`.
        """
        codes: dict[int, int] = {}
        reports: list[dict[str, Any]] = []
        with suppress(OSError, ValueError):
            left = json.loads((self._scratch / EXIT_CODES_FILE).read_text())
            codes = {int(rank): code for rank, code in left.items()}
        for file in self._scratch.glob("rank-*.json"):
            with suppress(OSError, ValueError):  # a rank may be killed while it writes
                reports.append(json.loads(file.read_text()))
        return codes, reports

    def _positions(self) -> list[str]:
        """Where in the pair's file its processes are, such as "rank 1 was in no_sync.py, line 60"."""
        positions = []
        for who, pid in self._process.pythons():
            before = self._output.stat().st_size
            with suppress(ProcessLookupError):
                os.kill(pid, STACK_SIGNAL)
            end = time.monotonic() + STACK_S
            while time.monotonic() < end:
                with self._output.open("rb") as output:
                    output.seek(before)
                    line = self._position(output.read())
                if line:
                    positions.append(f"{who} was in {self._file}, line {line}")
                    break
                time.sleep(0.05)
        return positions

    def _position(self, stacks: bytes) -> int:
        """The line of the pair's file in which the stacks of a process are; 0 where it is in none."""
        # After the name of each thread, its innermost call is printed first.
        found = re.search(rb'/%s", line (\d+) in ' % re.escape(self._file.encode()), stacks)
        return int(found[1]) if found else 0

    def _of_exit_code(self, code: int, rank: dict[str, int], doing: str) -> Reason:
        """The reason that an exit code gives; a negative code is a signal. rank: {"rank"}; {} without ranks."""
        if self._output.stat().st_size >= OUTPUT_LIMIT:
            return Reason("output-flood", {"mib": OUTPUT_LIMIT >> 20, "doing": doing, **rank})
        if code == CONNECTION_LOST:
            return unreadable(CLOSED, doing)
        if code == -signal.SIGKILL:
            return Reason("killed", {"doing": doing, **rank})
        if code < 0:
            name = signal.Signals(-code).name
            return Reason("crashed", {"signal": name, "doing": doing, **rank}, self._last_output())
        return Reason("exited", {"code": code, "doing": doing, **rank}, self._last_output())

    def _last_output(self) -> str:
        printed = self._output.read_text(errors="replace")[-4000:]
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        return f"; it last printed: {' / '.join(lines[-3:])[:400]}" if lines else ""


def unreadable(why: str, doing: str) -> Reason:
    """The reason for an answer that cannot be used. why: what is wrong with it."""
    return Reason("unreadable-answer", {"doing": doing}, f": {why}")
