"""Several machines measured as one: node 0's end of the connections to the other nodes.

A variant's ranks are spread over the nodes, each node's under its own torchrun. Node 0 decides what is measured,
starts its share and has the others start theirs (`tipbench.engine.follower`); rank 0, whose pipe the runner
holds, is always on it. One connection a node, JSON both ways: every request is answered, and that ranks have
ended there is reported without a request. As with torchrun, whoever can reach the port is trusted.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from tipbench.engine.purpose import Purpose
from tipbench.errors import UserError
from tipbench.records.record import PairInfo
from tipbench.tip.process import ProcessSettings

JOIN_S = 600.0
"""Seconds that the nodes wait for each other to come, as long as torchrun does."""

ANSWER_S = 180.0
"""Seconds until a node that does not answer is given up: its first start may compile for 120."""

SAME = ("suite", "commit", "torch", "python", "pairs")
"""What must be alike on all nodes; "pairs" is a `digest`."""


class NodesError(UserError):
    """The nodes cannot work together; the message says why and what to do."""


class NodeLost(NodesError):
    """A node has left in the middle of a run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=1)


@dataclass(frozen=True)
class Place:
    """Which node this is, of how many, and the address of node 0."""

    count: int
    number: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def command(self, number: int) -> str:
        """What is typed on another node, beside its --from."""
        return f"tipbench run --nnodes {self.count} --node-rank {number} --rdzv {self.address}"


def place(count: int, number: int, rendezvous: str) -> Place | None:
    """Where `--nnodes`, `--node-rank` and `--rdzv` put this machine; None for one machine. Raises NodesError."""
    if count == 1 and not rendezvous and not number:
        return None
    if count < 2 or not rendezvous:
        raise NodesError("several nodes want both --nnodes (2 or more) and --rdzv HOST:PORT, on every node")
    if not 0 <= number < count:
        raise NodesError(f"--node-rank {number}: with --nnodes {count} it is 0 to {count - 1}")
    host, _, port = rendezvous.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise NodesError(f"--rdzv {rendezvous}: expected HOST:PORT, the address of node 0, such as 10.0.0.1:29400")
    return Place(count, number, host, int(port))


@dataclass(frozen=True)
class Rendezvous:
    """How the torchrun of a node finds the others: its --nnodes, --node-rank and master address.

    interface: the network interface they are reached through.
    """

    nodes: int
    node: int
    host: str
    port: int
    interface: str


def digest(folder: Path) -> str:
    """Of all Python files in a folder of pairs, or of one file: short, and another one wherever a byte differs."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    found = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        found.update(f"{file.relative_to(folder.parent)} {len(content)}\n".encode() + content)
    return found.hexdigest()[:12]


def _network(connection: socket.socket) -> dict[str, Any]:
    """{"interface", "mbit"}: the network interface that a connection goes through, and its speed.

    0 Mbit/s where the system does not report it, as of virtual ones. Raises NodesError.
    """
    address = connection.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(address == found.address for found in addresses):
            stats = psutil.net_if_stats().get(name)
            return {"interface": name, "mbit": stats.speed if stats else 0}
    raise NodesError(f"no network interface has the address {address}; --rdzv names that of one, not of all")


class Node:
    """One of the others, as node 0 sees it. about: what it said of itself when it came."""

    def __init__(self, number: int, connection: Connection, about: Mapping[str, Any]) -> None:
        self.number = number
        self.about = about
        self._connection = connection
        self._ended: dict[int, dict[str, Any]] = {}

    def fileno(self) -> int:
        return self._connection.fileno()

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for its answer. Raises NodeLost."""
        try:
            self._connection.send_bytes(json.dumps(request).encode())
        except OSError:
            raise self._lost("has gone") from None
        while "answer" not in (message := self._received(ANSWER_S)):
            pass  # it reported that ranks have ended
        return message["answer"]

    def ended(self, group: int, timeout: float = 0.0) -> dict[str, Any] | None:
        """What it reported of a group of ranks that has ended by itself; None if it has not. Raises NodeLost."""
        end = time.monotonic() + timeout
        while group not in self._ended and select.select([self], [], [], max(0.0, end - time.monotonic()))[0]:
            self._received(ANSWER_S)
        return self._ended.get(group)

    def close(self) -> None:
        with suppress(OSError):
            self._connection.send_bytes(b'{"over": true}')
        self._connection.close()

    def _received(self, timeout: float) -> dict[str, Any]:
        try:
            if not self._connection.poll(timeout):
                raise self._lost(f"has not answered for {timeout:.0f} s")
            message: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._lost("has gone") from None
        if "ended" in message:
            self._ended[message["ended"]] = message
        return message

    def _lost(self, what: str) -> NodeLost:
        return NodeLost(f"node {self.number} {what}")


class RemoteRanks:
    """The ranks of one group on another node."""

    def __init__(self, node: Node, group: int) -> None:
        self.node = node
        self._group = group

    def ask(self, what: str) -> None:
        """ "pause", "resume" or "end". Raises NodeLost."""
        self.node.ask(**{what: self._group})

    def positions(self) -> list[str]:
        """As of `Evidence.positions`. Raises NodeLost."""
        found: list[str] = self.node.ask(positions=self._group)
        return found

    def ended(self, timeout: float = 0.0) -> dict[str, Any] | None:
        """{"codes", "reports"} as of `Evidence.ended_ranks`, once they have ended by themselves. Raises NodeLost."""
        return self.node.ended(self._group, timeout)


class Nodes:
    """All other nodes, as node 0 sees them."""

    def __init__(self, place: Place, about: Mapping[str, Any], others: Sequence[Node]) -> None:
        """about: what this node says of itself."""
        self.count = place.count
        self.others = others
        self._abouts = [about, *(node.about for node in others)]
        self._interface = about["interface"]
        self._host = place.host
        self._groups = 0

    def start(
        self, info: PairInfo, settings: ProcessSettings, cache: str, purpose: Purpose, launch: int | None
    ) -> tuple[Rendezvous, list[RemoteRanks]]:
        """Have every other node start its share of the ranks. Raises NodeLost."""
        self._groups += 1
        here = Rendezvous(self.count, 0, self._host, _free_port(self._host), self._interface)
        group: dict[str, Any] = {"info": info.to_json(), "settings": asdict(settings), "cache": cache}
        group |= {"purpose": purpose.value, "launch": launch}
        for node in self.others:
            rendezvous = asdict(replace(here, node=node.number, interface=node.about["interface"]))
            node.ask(start=self._groups, **group, rendezvous=rendezvous)
        return here, [RemoteRanks(node, self._groups) for node in self.others]

    def described(self) -> list[dict[str, Any]]:
        """Of every node, in order, {"name", "interface", "mbit"}: its machine, its way to node 0, that way's speed."""
        return [{name: about[name] for name in ("name", "interface", "mbit")} for about in self._abouts]


def _free_port(host: str) -> int:
    """Every group has its own: several may live at once, and a port that has just been used may still be taken."""
    with socket.create_server((host, 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def gathered(place: Place, about: Mapping[str, Any], controls: Mapping[str, str]) -> Iterator[Nodes]:
    """Wait for all other nodes, and let them go at the end. Raises NodesError.

    about: what SAME names, of this node. controls: those of the run, for all nodes.
    """
    try:
        listening = socket.create_server((place.host, place.port), backlog=place.count)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # create_server appends the address
        raise NodesError(
            f"node 0 cannot listen at {place.address} ({why}); --rdzv names an address of node 0 and a free port of it"
        ) from None
    found: dict[int, Node] = {}
    end = time.monotonic() + JOIN_S
    try:
        with listening:
            about = {**about, **_network(listening)}
            while missing := [number for number in range(1, place.count) if number not in found]:
                listening.settimeout(max(0.001, end - time.monotonic()))
                try:
                    accepted, _ = listening.accept()
                except TimeoutError:
                    raise NodesError(
                        f"node {missing[0]} has not come to {place.address} within {JOIN_S:.0f} s; "
                        f"on it: {place.command(missing[0])}"
                    ) from None
                node = _welcomed(Connection(accepted.detach()), place, about, controls, found)
                if node is not None:
                    found[node.number] = node
        yield Nodes(place, about, [found[number] for number in sorted(found)])
    finally:
        for node in found.values():
            node.close()


def _welcomed(
    connection: Connection,
    place: Place,
    about: Mapping[str, Any],
    controls: Mapping[str, str],
    found: Mapping[int, Node],
) -> Node | None:
    """The node at the other end, or None where it is none that can take part; then it gets the reason."""
    try:
        if not connection.poll(10.0):
            raise EOFError
        theirs = json.loads(connection.recv_bytes(1 << 20))
        number = int(theirs["node"])
        differs = [f"{name} {theirs[name]} (node 0: {about[name]})" for name in SAME if theirs[name] != about[name]]
        if number in found or not 0 < number < place.count or theirs["count"] != place.count:
            refused = f"node {number} of {theirs['count']} is not awaited; node 0 was begun with --nnodes {place.count}"
        else:
            refused = f"it has {differs[0]}: all nodes want the same" if differs else ""
        connection.send_bytes(json.dumps({"refused": refused, "controls": dict(controls)}).encode())
    except (EOFError, OSError, ValueError, KeyError, TypeError):  # no node at all
        connection.close()
        return None
    if refused:
        connection.close()
        if differs:
            raise NodesError(f"node {number} has {differs[0]}: install the same on all nodes")
        return None
    return Node(number, connection, theirs)


def joined(place: Place, about: Mapping[str, Any]) -> tuple[Connection, dict[str, str]]:
    """(Connection to node 0, controls of its run) once it has begun. Raises NodesError."""
    end = time.monotonic() + JOIN_S
    while True:
        try:
            connected = socket.create_connection((place.host, place.port), timeout=max(0.001, end - time.monotonic()))
            break
        except socket.gaierror as error:
            raise NodesError(f"--rdzv {place.address}: {error.strerror}") from None
        except OSError as error:
            if time.monotonic() > end:
                raise NodesError(f"nobody answers at {place.address} ({error.strerror or error})") from None
            time.sleep(1.0)
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    greeting = {**about, **_network(connected), "node": place.number, "count": place.count}
    connection = Connection(connected.detach())
    try:
        connection.send_bytes(json.dumps(greeting).encode())
        # Node 0 may still be welcoming others; it has not begun to listen to this one only when it is gone.
        answer = json.loads(connection.recv_bytes())
    except (EOFError, OSError):
        raise NodesError(f"node 0 at {place.address} has gone") from None
    if answer["refused"]:
        raise NodesError(f"node 0 refuses this one: {answer['refused']}")
    return connection, answer["controls"]
