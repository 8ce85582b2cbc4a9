"""Several machines measured as one: node 0's end of the connections to the other nodes.

A variant's ranks are spread over the nodes, with one torchrun on each. Node 0 decides what is measured, starts its
share of the ranks and requests the others to start theirs (`tipbench.engine.follower`). Rank 0, which the runner is
connected to, is always on node 0. Each node has one connection, with JSON in both directions: every request is
answered, and a node reports without a request that ranks have ended. As with torchrun, anyone who can reach the port is
trusted.
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
"""Seconds that the nodes wait for each other to join, as long as torchrun does."""

ANSWER_S = 180.0
"""Seconds after which a node that does not answer counts as lost: its first start may compile for 120 s."""

SAME = ("suite", "commit", "torch", "python", "pairs")
"""Fields of a node's identity that must be equal on all nodes; "pairs" is a `digest`."""


class NodesError(UserError):
    """The nodes cannot work together; the message says why and what to do."""


class NodeLost(NodesError):
    """A node has left during a run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=1)


@dataclass(frozen=True)
class Place:
    """Which node this is.

    Attributes:
        count: number of nodes.
        number: of this node, from 0.
        host: address of node 0.
        port: of node 0.
    """

    count: int
    number: int
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def command(self, number: int) -> str:
        """The command for the node with this number, without --from."""
        return f"tipbench run --nnodes {self.count} --node-rank {number} --rdzv {self.address}"


def place(count: int, number: int, rendezvous: str) -> Place | None:
    """The place that `--nnodes`, `--node-rank` and `--rdzv` give this machine; None for a single machine. Raises
    NodesError."""
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
    """How the torchrun of a node finds those of other nodes.

    Attributes:
        nodes: its --nnodes.
        node: its --node-rank.
        host: its --master-addr.
        port: its --master-port.
        interface: network interface of this node through which the other nodes are reached.
    """

    nodes: int
    node: int
    host: str
    port: int
    interface: str


def digest(folder: Path) -> str:
    """A short hash of all Python files in a folder of pairs, or of a single file."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    checksum = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        checksum.update(f"{file.relative_to(folder.parent)} {len(content)}\n".encode() + content)
    return checksum.hexdigest()[:12]


def _network(connection: socket.socket) -> dict[str, Any]:
    """{"interface", "mbit"}: the network interface of a connection, and its speed (Mbit/s).

    The speed is 0 where the system does not report it, as for virtual interfaces. Raises NodesError.
    """
    address = connection.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(address == entry.address for entry in addresses):
            stats = psutil.net_if_stats().get(name)
            return {"interface": name, "mbit": stats.speed if stats else 0}
    raise NodesError(f"no network interface has the address {address}; --rdzv names that of one, not of all")


class Node:
    """Node 0's connection to another node.

    Attributes:
        number: of the node.
        identity: what it reported when it joined: SAME, its "name", and `_network`.
    """

    def __init__(self, number: int, connection: Connection, identity: Mapping[str, Any]) -> None:
        self.number = number
        self.identity = identity
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
            pass  # a report that ranks have ended
        return message["answer"]

    def ended(self, group: int, timeout: float = 0.0) -> dict[str, Any] | None:
        """The node's report of a group of ranks that has ended by itself; None where there is none. Raises NodeLost."""
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
        """Request what is named: "pause", "resume" or "end". Raises NodeLost."""
        self.node.ask(**{what: self._group})

    def positions(self) -> list[str]:
        """`Evidence.positions` on that node. Raises NodeLost."""
        positions: list[str] = self.node.ask(positions=self._group)
        return positions

    def ended(self, timeout: float = 0.0) -> dict[str, Any] | None:
        """{"codes", "reports"} of `Evidence.ended_ranks`, once they have ended by themselves; before that None. Raises
        NodeLost."""
        return self.node.ended(self._group, timeout)


class Nodes:
    """Node 0's connections to all other nodes.

    Attributes:
        count: number of nodes, including node 0.
        remote: the other nodes, by number.
    """

    def __init__(self, place: Place, identity: Mapping[str, Any], remote: Sequence[Node]) -> None:
        """identity: of node 0."""
        self.count = place.count
        self.remote = remote
        self._identities = [identity, *(node.identity for node in remote)]
        self._interface = identity["interface"]
        self._host = place.host
        self._groups = 0

    def start(
        self, info: PairInfo, settings: ProcessSettings, cache: str, purpose: Purpose, launch: int | None
    ) -> tuple[Rendezvous, list[RemoteRanks]]:
        """Let every other node start its share of the ranks. Raises NodeLost."""
        self._groups += 1
        here = Rendezvous(self.count, 0, self._host, _free_port(self._host), self._interface)
        group: dict[str, Any] = {"info": info.to_json(), "settings": asdict(settings), "cache": cache}
        group |= {"purpose": purpose.value, "launch": launch}
        for node in self.remote:
            rendezvous = asdict(replace(here, node=node.number, interface=node.identity["interface"]))
            node.ask(start=self._groups, **group, rendezvous=rendezvous)
        return here, [RemoteRanks(node, self._groups) for node in self.remote]

    def described(self) -> list[dict[str, Any]]:
        """{"name", "interface", "mbit"} of each node, in order: its machine, its network interface and the speed of
        that interface (Mbit/s)."""
        return [{name: identity[name] for name in ("name", "interface", "mbit")} for identity in self._identities]


def _free_port(host: str) -> int:
    """A free port. Each group gets its own: several may run at once, and a port just used may still be taken."""
    with socket.create_server((host, 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def gathered(place: Place, identity: Mapping[str, Any], controls: Mapping[str, str]) -> Iterator[Nodes]:
    """Wait for all other nodes, and release them at the end. Raises NodesError.

    identity: this node's "name" and SAME. controls: of the run, for all nodes.
    """
    try:
        listening = socket.create_server((place.host, place.port), backlog=place.count)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # create_server appends the address
        raise NodesError(
            f"node 0 cannot listen at {place.address} ({why}); --rdzv names an address of node 0 and a free port of it"
        ) from None
    nodes: dict[int, Node] = {}
    end = time.monotonic() + JOIN_S
    try:
        with listening:
            identity = {**identity, **_network(listening)}
            while missing := [number for number in range(1, place.count) if number not in nodes]:
                listening.settimeout(max(0.001, end - time.monotonic()))
                try:
                    accepted, _ = listening.accept()
                except TimeoutError:
                    raise NodesError(
                        f"node {missing[0]} has not come to {place.address} within {JOIN_S:.0f} s; "
                        f"on it: {place.command(missing[0])}"
                    ) from None
                node = _accepted(Connection(accepted.detach()), place, identity, controls, nodes)
                if node is not None:
                    nodes[node.number] = node
        yield Nodes(place, identity, [nodes[number] for number in sorted(nodes)])
    finally:
        for node in nodes.values():
            node.close()


def _accepted(
    connection: Connection,
    place: Place,
    identity: Mapping[str, Any],
    controls: Mapping[str, str],
    nodes: Mapping[int, Node],
) -> Node | None:
    """The node at the other end; None where it cannot take part; the reason is sent to it.

    nodes: those that have joined already. Raises NodesError where its SAME differ.
    """
    try:
        if not connection.poll(10.0):
            raise EOFError
        theirs = json.loads(connection.recv_bytes(1 << 20))
        number = int(theirs["node"])
        differs = [
            f"{name} {theirs[name]} (node 0: {identity[name]})" for name in SAME if theirs[name] != identity[name]
        ]
        if number in nodes or not 0 < number < place.count or theirs["count"] != place.count:
            refused = f"node {number} of {theirs['count']} is not awaited; node 0 was begun with --nnodes {place.count}"
        else:
            refused = f"it has {differs[0]}: all nodes want the same" if differs else ""
        connection.send_bytes(json.dumps({"refused": refused, "controls": dict(controls)}).encode())
    except (EOFError, OSError, ValueError, KeyError, TypeError):  # not a node of tipbench
        connection.close()
        return None
    if refused:
        connection.close()
        if differs:
            raise NodesError(f"node {number} has {differs[0]}: install the same on all nodes")
        return None
    return Node(number, connection, theirs)


def joined(place: Place, identity: Mapping[str, Any]) -> tuple[Connection, dict[str, str]]:
    """(connection to node 0, controls of its run), once node 0 has started. Raises NodesError.

    identity: this node's "name" and SAME.
    """
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
    greeting = {**identity, **_network(connected), "node": place.number, "count": place.count}
    connection = Connection(connected.detach())
    try:
        connection.send_bytes(json.dumps(greeting).encode())
        # Without a deadline: node 0 may still be accepting other nodes, and if it has gone, the read raises.
        answer = json.loads(connection.recv_bytes(1 << 20))
        refused, controls = str(answer["refused"]), dict(answer["controls"])
    except (EOFError, OSError):
        raise NodesError(f"node 0 at {place.address} has gone, or something else answers there") from None
    except (ValueError, KeyError, TypeError):
        raise NodesError(f"what answers at {place.address} is no tipbench") from None
    if refused:
        raise NodesError(f"node 0 refuses this one: {refused}")
    return connection, controls
