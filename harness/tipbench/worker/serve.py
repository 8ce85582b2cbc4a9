"""Answers the requests that come over the socket, until it closes."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from tipbench.suite.files import explain
from tipbench.tip.reason import Reason
from tipbench.worker.failed import Failed
from tipbench.worker.protocol import ANSWER_LIMIT, CONNECTION_LOST, OUTPUT_LIMIT, STACK_SIGNAL, Channel, Unsendable
from tipbench.worker.ranks import Ranks, run_ranks


def serve(ranks: Ranks, path: str, task: dict[str, Any]) -> None:
    """Answer requests until the connection closes; only rank 0 has one."""
    channel = None
    if ranks.rank == 0:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(path)
        channel = Channel(connected)

    def receive() -> dict[str, Any] | None:
        try:
            return channel.receive() if channel else None
        except EOFError:
            return None
        except OSError:
            _lost()

    def reply(**answer: Any) -> None:
        if ranks.count > 1 and "failed" in answer:
            # The other ranks wait for this one in a collective: write a report and let torchrun end them.
            report = {**answer, "rank": ranks.rank, "order": ranks.order_of_failure()}
            (Path(task["reports"]) / f"rank-{ranks.rank}.json").write_text(json.dumps(report))
            os._exit(1)
        if "failed" in answer:
            detail = answer["failed"]["detail"][: ANSWER_LIMIT // 16]  # a character takes up to 12 bytes
            answer["failed"] = {**answer["failed"], "detail": detail}
        if channel:
            try:
                channel.send(answer, limit=ANSWER_LIMIT)
            except OSError:
                _lost()

    try:
        # Imported here, because it imports torch: before that, this process must handle signals and its parent's end.
        from tipbench.worker.session import Session

        session = Session(task, ranks)
        ranks.meet()
        started: dict[str, Any] = {"answer": None}
    except Failed as failure:
        started = {"failed": asdict(failure.why)}
    except BaseException as error:  # a pair file may raise anything at import
        started = {"failed": asdict(Reason("import-error", detail=explain(error, Path(task["file"]))))}
    if ranks.count == 1 or "failed" not in started:
        receive()  # the first request asks whether it has started
    reply(**started)
    if "failed" in started:
        return
    while True:
        request = ranks.share(receive())
        if request is None:
            if ranks.count > 1:
                _leave(ranks)
            return
        command, arguments = request["command"], request["arguments"]
        try:
            answer = getattr(session, command)(**arguments)
            session.guard.check_output(f"{command} {arguments.get('variant', '')}".strip())
            try:
                reply(answer=answer)
            except Unsendable as why:
                method = "mechanism" if command == "observe" else command
                raise Failed("not-storable", f"what {method} returned {why}") from None
        except Failed as failure:
            rank = {"rank": ranks.rank} if ranks.count > 1 else {}
            reply(failed=asdict(replace(failure.why, fields={**failure.why.fields, **rank})))
        except Exception as error:
            if ranks.count == 1:
                raise
            # After a rank is lost, the next collective of the other ranks raises.
            detail = f"{command}: {explain(error, session.guard.file)}"
            reply(failed=asdict(Reason("exited.raised", {"rank": ranks.rank}, detail)))


def _leave(ranks: Ranks) -> NoReturn:
    """Exit once all ranks know that it is over, without Python's own end: gloo's threads outlive it now and then, which
    aborts the process ("terminate called without an active exception")."""
    with suppress(RuntimeError):  # another has left first
        ranks.meet()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _lost() -> NoReturn:
    """Exit at once: a step closed the connection's descriptor, or reused its number."""
    traceback.print_exc()
    os._exit(CONNECTION_LOST)


def run_worker(ranks: int, path: str, task: str) -> None:
    """Run a worker, or torchrun for several ranks, until the connection closes."""
    bound_output()
    faulthandler.register(STACK_SIGNAL)
    if ranks > 1 and "RANK" not in os.environ:
        run_ranks(ranks, path, task)
        return
    described = json.loads(task)
    serve(Ranks(ranks, described["device"]), path, described)


def bound_output() -> None:
    """Limit the size of regular files, so that a step that floods stdout gets an OSError."""
    flooded = max(OUTPUT_LIMIT, 8 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if hard == resource.RLIM_INFINITY or hard > flooded:
        resource.setrlimit(resource.RLIMIT_FSIZE, (flooded, hard))
