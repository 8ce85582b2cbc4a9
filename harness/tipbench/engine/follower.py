"""`tipbench run` on every node except node 0: start, pause and end its share of the ranks, as node 0 requests."""

from __future__ import annotations

import json
import select
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tipbench.engine.handle import Worker
from tipbench.engine.launcher import Launcher
from tipbench.engine.nodes import NodeLost, NodesError, Place, Rendezvous, joined
from tipbench.engine.purpose import Purpose
from tipbench.records.fields import converted
from tipbench.records.record import PairInfo
from tipbench.tip.process import ProcessSettings

REQUESTS = ("pause", "resume", "end", "positions")
"""What node 0 may request of a group of ranks, beside its start."""


def follow(place: Place, folder: Path, identity: Mapping[str, Any]) -> int:
    """Serve one run of node 0, and return the number of groups of ranks that were started. Raises NodesError and
    NodeLost.

    folder: this node's copy of the pairs. identity: the name of this node's machine, and `nodes.SAME`.
    """
    connection, controls = joined(place, identity)
    here = _Here(connection, Launcher(folder, controls))
    try:
        while not here.over:
            readable, _, _ = select.select([connection.fileno(), *here.deaths()], [], [])
            for death in set(readable) - {connection.fileno()}:
                here.report_ended(death)
            if connection.fileno() in readable:
                here.answer()
    except (EOFError, OSError):
        raise NodeLost(f"node 0 at {place.address} has gone; what it had measured is safe there") from None
    finally:
        here.close()
    return here.started


class _Here:
    """This node's groups of ranks.

    Attributes:
        over: whether the run has ended.
        started: number of groups started so far.
    """

    def __init__(self, connection: Connection, launcher: Launcher) -> None:
        self.over = False
        self.started = 0
        self._connection = connection
        self._launcher = launcher
        self._groups: dict[int, Worker] = {}

    def deaths(self) -> list[int]:
        """A descriptor of each group, readable once its torchrun has ended."""
        return [worker.process.pidfd for worker in self._groups.values() if worker.process.pidfd is not None]

    def answer(self) -> None:
        """Read the next request, do it and answer it."""
        request: dict[str, Any] = json.loads(self._connection.recv_bytes())
        if "over" in request:
            self.over = True
            return
        answer = None
        if "start" in request:
            self._start(request.pop("start"), **request)
        else:
            ((what, group),) = request.items()
            if what not in REQUESTS:
                raise NodesError(f"node 0 requests {what!a}, which this version of tipbench does not know")
            # A group that has ended by itself is not in _groups any more; node 0 may not have read the report yet.
            if group in self._groups:
                worker = self._groups[group]
                answer = worker.evidence.positions() if what == "positions" else getattr(worker, what)()
                if what == "end":
                    del self._groups[group]
        self._send(answer=answer)

    def _start(
        self,
        group: int,
        info: Mapping[str, Any],
        settings: Mapping[str, Any],
        cache: str,
        purpose: str,
        launch: int | None,
        rendezvous: Mapping[str, Any],
    ) -> None:
        self.started += 1
        self._groups[group] = self._launcher.start(
            PairInfo.from_json(info),
            converted(settings, ProcessSettings),
            cache,
            Purpose(purpose),
            launch,
            Rendezvous(**rendezvous),
        )

    def report_ended(self, death: int) -> None:
        """Report to node 0 the group whose torchrun has ended. death: its descriptor."""
        (group,) = (group for group, worker in self._groups.items() if worker.process.pidfd == death)
        worker = self._groups.pop(group)
        codes, reports = worker.evidence.ended_ranks()
        worker.end()
        self._send(ended=group, codes=codes, reports=reports)

    def _send(self, **message: Any) -> None:
        self._connection.send_bytes(json.dumps(message).encode())

    def close(self) -> None:
        for worker in self._groups.values():
            worker.end()
        self._launcher.close()
        self._connection.close()
