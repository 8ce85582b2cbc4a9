"""Several machines: two nodes on this one.

`python -m tests.tiny run` is the command with next to no launches.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tiny import PAIRS, living, wait_for
from tipbench.engine import nodes
from tipbench.engine.diagnose import Evidence
from tipbench.engine.nodes import Node, NodeLost, NodesError, Place, RemoteRanks, gathered, joined, place
from tipbench.engine.process import Process, spawn
from tipbench.records import store
from tipbench.records.listing import newest
from tipbench.records.record import Record, Run

HOME = Path(__file__).parent.parent

TIPBENCH = (sys.executable, "-m", "tests.tiny", "run")

TWO_NODES = str(HOME / "tests/two_nodes.sh")

OURS = ("--from", str(PAIRS / "nodes"))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several nodes are measured on Linux only")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@dataclasses.dataclass
class Two:
    """Two nodes on one machine, each with a lock and a temporary folder of its own, as two machines would have."""

    folder: Path
    port: int = dataclasses.field(default_factory=free_port)
    started: list[subprocess.Popen[bytes]] = dataclasses.field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def start(self, number: int, *words: str) -> subprocess.Popen[bytes]:
        own = self.folder / str(number)
        own.mkdir(exist_ok=True)
        env = {**os.environ, "TMPDIR": str(own), "TIPBENCH_LOCK": str(own / "lock")}
        command = [*TIPBENCH, *words, "--rdzv", f"127.0.0.1:{self.port}"]
        with (own / "said").open("wb") as said:
            node = subprocess.Popen(command, cwd=HOME, env=env, stdout=said, stderr=said)
        self.started.append(node)
        return node

    def begin(self, *names: str) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        first = self.start(0, *OURS, *names, "--results", str(self.results), "--nnodes", "2")
        return first, self.other()

    def other(self) -> subprocess.Popen[bytes]:
        return self.start(1, *OURS, "--nnodes", "2", "--node-rank", "1")

    def said(self, number: int) -> str:
        """What the node said, once it has ended."""
        self.started[-2 + number].wait()
        return (self.folder / str(number) / "said").read_text()

    def end(self) -> None:
        """A node whose other has failed would wait for it for ten minutes."""
        for node in self.started:
            node.kill()
            node.wait()

    def stored(self) -> Run:
        run, notices = store.read(newest(self.results))
        assert notices == []
        return run

    def left(self) -> list[str]:
        return [found for number in (0, 1) for found in living(self.folder / str(number))]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.end()


# ---- a whole run ----


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run left behind. code: node 0's. said: by both. interfaces: each node's."""

    code: int
    said: str
    interfaces: list[str]
    run: Run
    left: list[str]


def cable_allowed() -> bool:
    """Whether two networks and a cable between them can be made here: containers may forbid any part of it."""
    try:
        return subprocess.run([TWO_NODES, "true"], capture_output=True, timeout=20).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Over a cable between two networks; where the kernel forbids them, over the loopback address."""
    two = Two(tmp_path_factory.mktemp("two"))
    if cable_allowed():
        command = [TWO_NODES, *TIPBENCH, *OURS, "--results", str(two.results)]
        env = {**os.environ, "TMPDIR": str(two.folder / "0")}
        (two.folder / "0").mkdir()
        ran = subprocess.run(command, cwd=HOME, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return Outcome(ran.returncode, ran.stdout, ["cable0", "cable1"], two.stored(), two.left())
    first, _ = two.begin()
    said = two.said(0) + two.said(1)
    return Outcome(first.returncode, said, ["lo", "lo"], two.stored(), two.left())


def of(outcome: Outcome, pair: str) -> Record:
    (record,) = (record for record in outcome.run.records if record.info.pair == pair)
    return record


def test_ranks_are_shared_out_among_the_nodes_and_a_variant_without_runs_on_node_0(outcome: Outcome) -> None:
    record = of(outcome, "Summing")
    assert record.outcome == "measured", record.reason
    assert record.variants["optimized"].mechanism["optimized"] == ["0", "1"]
    assert record.variants["optimized"].equal["worst"] == 0
    assert len(record.launches) == 2
    assert record.variants["alone"].outcome == "measured", record.variants["alone"].reason
    assert record.variants["alone"].mechanism["optimized"] == ["0"]


@pytest.mark.parametrize(
    ("pair", "variant", "reason"), [("NoRanks", "", "has no ranks"), ("Summing", "three", "3 ranks cannot be shared")]
)
def test_what_cannot_be_shared_out_is_skipped_with_the_reason(
    outcome: Outcome, pair: str, variant: str, reason: str
) -> None:
    record = of(outcome, pair)
    skipped: Any = record.variants[variant] if variant else record
    assert skipped.outcome == "skipped"
    assert reason in skipped.reason
    assert "--nnodes" in skipped.remedy


@pytest.mark.parametrize(
    ("pair", "kind", "reason"),
    [
        ("OneRankRaises", "step raised", "optimized, step 1: ValueError: rank 1 has had enough (over_nodes.py, line "),
        ("OneRankDies", "exited", "left with exit code 5 while doing: results optimized"),
        ("OneRankHangs", "hang", "no answer within 8 s while doing: results optimized; ended when rank 0 was in over_"),
    ],
)
def test_a_rank_that_fails_on_another_node_is_the_reason(outcome: Outcome, pair: str, kind: str, reason: str) -> None:
    record = of(outcome, pair)
    assert (record.outcome, record.kind) == ("failed", kind), record.reason
    assert record.reason.startswith(reason)


def test_where_a_hanging_step_was_is_known_of_each_rank(outcome: Outcome) -> None:
    reason = of(outcome, "OneRankHangs").reason
    source = (PAIRS / "nodes/over_nodes.py").read_text().splitlines()
    named = re.findall(r"rank (\d) was in over_nodes\.py, line (\d+)", reason)
    lines = {rank: source[int(line) - 1].strip() for rank, line in named}
    assert lines == {"0": "distributed.all_reduce(total)", "1": "time.sleep(1000)"}, reason


def test_both_nodes_say_how_it_went_and_leave_nothing(outcome: Outcome) -> None:
    assert outcome.code == 1, outcome.said  # three pairs fail, which is node 0's to say
    assert "tipbench run --nnodes 2 --node-rank 1 --rdzv " in outcome.said
    assert "Node 0 has the results" in outcome.said
    assert outcome.run.options["nnodes"] == 2
    assert [node["interface"] for node in outcome.run.machine["nodes"]] == outcome.interfaces
    assert outcome.left == []


# ---- a node is lost ----


def wait_for_ranks(node: subprocess.Popen[bytes]) -> None:
    """Sleep until a rank of the node has started."""

    def started() -> bool:
        for child in psutil.Process(node.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "RANK" in child.environ():
                    return True
        return False

    assert wait_for(started, 120)


def test_a_lost_node_ends_the_run_which_can_go_on(two: Two) -> None:
    first, other = two.begin("over-nodes.NoRanks", "over-nodes.OneRankRaises")
    wait_for_ranks(other)
    other.kill()
    said = two.said(0)
    assert first.returncode == 1, said
    assert "node 1 has gone; 1 of 2 pairs are safe in " in said
    assert f"--rdzv 127.0.0.1:{two.port}, and on the other nodes as before" in said
    assert "Traceback" not in said
    assert [record.info.pair for record in two.stored().records] == ["NoRanks"]
    assert two.left() == []

    first, other = two.start(0, *OURS, "--resume", str(newest(two.results))), two.other()
    said = two.said(0)
    assert (first.returncode, other.wait()) == (1, 0), said
    assert [record.outcome for record in two.stored().records] == ["skipped", "failed"]
    assert "rank 1 has had enough" in two.stored().records[1].reason


def test_when_node_0_goes_the_others_end(two: Two) -> None:
    first, other = two.begin("over-nodes.Summing")
    wait_for_ranks(other)
    first.kill()
    said = two.said(1)
    assert other.returncode == 1, said
    assert f"node 0 at 127.0.0.1:{two.port} has gone; what it had measured is safe there" in said
    first.wait()
    assert two.left() == []


# ---- who may take part ----

ABOUT = {"name": "here", "suite": "1", "commit": "abc", "torch": "2.15.0", "python": "3.11", "pairs": "def"}


@contextmanager
def node_0(about: dict[str, str], said: list[object], count: int = 2) -> Iterator[Place]:
    """Node 0 waiting, and what comes of it in `said`: NodesError, or Nodes."""
    here = Place(count, 0, "127.0.0.1", free_port())

    def wait() -> None:
        try:
            with gathered(here, about, {"OMP_NUM_THREADS": "3"}) as found:
                said.append(found)
        except NodesError as error:
            said.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()

    def listens() -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection((here.host, here.port)):
            return True  # who leaves without a word is none of the nodes
        return False

    assert wait_for(listens, 10)
    yield here
    waiting.join()


def test_a_node_gets_the_controls_of_the_run() -> None:
    said: list[Any] = []
    with node_0(ABOUT, said) as here:
        connection, controls = joined(dataclasses.replace(here, number=1), ABOUT)
        connection.close()
    assert controls == {"OMP_NUM_THREADS": "3"}
    assert [node["name"] for node in said[0].described()] == ["here", "here"]


@pytest.mark.parametrize("name", nodes.SAME)
def test_a_node_with_something_else_installed_ends_the_run_on_both(name: str) -> None:
    said: list[object] = []
    with node_0(ABOUT, said) as here, pytest.raises(NodesError, match=rf"refuses this one: it has {name} other"):
        joined(dataclasses.replace(here, number=1), {**ABOUT, name: "other"})
    assert f"node 1 has {name} other (node 0: {ABOUT[name]})" in str(said[0])


def test_a_node_that_is_not_awaited_is_sent_away_and_the_right_one_still_taken() -> None:
    said: list[Any] = []
    with node_0(ABOUT, said) as here:
        with pytest.raises(NodesError, match="node 2 of 3 is not awaited; node 0 was begun with --nnodes 2"):
            joined(dataclasses.replace(here, number=2, count=3), ABOUT)
        joined(dataclasses.replace(here, number=1), ABOUT)[0].close()
    assert said[0].count == 2


def test_who_speaks_another_language_is_sent_away() -> None:
    said: list[Any] = []
    with node_0(ABOUT, said) as here:
        with socket.create_connection((here.host, here.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        joined(dataclasses.replace(here, number=1), ABOUT)[0].close()
    assert said[0].count == 2


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request", b"\0\0\0\2{}", b"\0\0\0\2\xff\xff", b""])
def test_what_answers_in_place_of_node_0_is_named(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(1 << 16)
                accepted.sendall(answer)

        threading.Thread(target=serve).start()
        host, port = listening.getsockname()
        there = Place(2, 1, host, port)
        with pytest.raises(
            NodesError, match=f"at {there.address} (is no tipbench|has gone, or something else answers)"
        ):
            joined(there, ABOUT)


def test_who_waits_in_vain_says_what_to_type_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "JOIN_S", 0.05)
    said: list[object] = []
    with node_0(ABOUT, said, count=3):
        pass
    assert "tipbench run --nnodes 3 --node-rank 1 --rdzv 127.0.0.1:" in str(said[0])
    with pytest.raises(NodesError, match=r"nobody answers at 127\.0\.0\.1:\d+ \(Connection refused\)"):
        joined(Place(2, 1, "127.0.0.1", free_port()), ABOUT)


@pytest.mark.parametrize("host", ["203.0.113.1", "gone.invalid"])
def test_an_address_of_another_machine_cannot_be_listened_at(host: str) -> None:
    refused = rf"node 0 cannot listen at {host}:29400 .*--rdzv"
    with pytest.raises(NodesError, match=refused), gathered(Place(2, 0, host, 29400), ABOUT, {}):
        pass


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((2, 0, ""), "several nodes want both --nnodes"),
        ((1, 0, "here:1"), "several nodes want both --nnodes"),
        ((1, 1, ""), "several nodes want both --nnodes"),
        ((2, 2, "here:1"), "--node-rank 2: "),
        ((2, -1, "here:1"), "--node-rank -1: "),
        ((2, 0, "here"), "expected HOST:PORT"),
        ((2, 0, "here:http"), "expected HOST:PORT"),
        ((2, 0, "here:70000"), "expected HOST:PORT"),
    ],
)
def test_half_of_what_is_needed_is_refused(given: tuple[int, int, str], why: str) -> None:
    with pytest.raises(NodesError, match=why):
        place(*given)
    assert place(1, 0, "") is None, "one machine is no place among nodes"
    assert place(2, 1, "here:29400") == Place(2, 1, "here", 29400)


# ---- messages between them ----


def a_node() -> tuple[Node, Any]:
    from multiprocessing import Pipe

    ours, theirs = Pipe()
    return Node(1, ours, ABOUT), theirs


REPORT = {"rank": 1, "failed": {"code": "step-raised", "detail": "optimized, step 1: it had enough"}, "order": 1}
"""What rank 1 leaves where it is the first to fail."""


def test_that_ranks_have_ended_may_come_before_an_answer() -> None:
    node, there = a_node()
    there.send_bytes(json.dumps({"ended": 7, "codes": {}, "reports": [REPORT]}).encode())
    there.send_bytes(b'{"answer": null}')
    node.ask(pause=8)
    assert node.ended(8) is None
    ended = node.ended(7)
    assert ended is not None
    assert ended["reports"] == [REPORT]


def test_the_first_rank_to_fail_is_the_reason_whoever_is_heard_first(tmp_path: Path) -> None:
    """Rank 0 sees rank 1's connection closed and reports it here, long before the other node's message is read."""
    lost = {"rank": 0, "failed": {"code": "step-raised", "detail": "Connection closed by peer"}, "order": 2}
    (tmp_path / "rank-0.json").write_text(json.dumps(lost))
    (tmp_path / "rank-3.json").write_text(json.dumps(lost)[:20])  # killed while it wrote
    node, there = a_node()
    there.send_bytes(json.dumps({"ended": 7, "codes": {"1": 1}, "reports": [REPORT]}).encode())
    torchrun = Process(spawn(["false"], os.environ, tmp_path / "output"), ranks=2)
    failure = Evidence(torchrun, tmp_path, "over_nodes.py", [RemoteRanks(node, 7)]).closed("results optimized")
    torchrun.end()
    assert (failure.kind, failure.text) == ("step raised", "optimized, step 1: it had enough")


def test_a_rank_that_torchrun_ended_is_not_the_reason(tmp_path: Path) -> None:
    (tmp_path / "exit-codes.json").write_text(json.dumps({"0": -signal.SIGTERM, "1": 5}))
    torchrun = Process(spawn(["false"], os.environ, tmp_path / "output"), ranks=2)
    failure = Evidence(torchrun, tmp_path, "over_nodes.py").closed("results optimized")
    torchrun.end()
    assert (failure.kind, failure.fields["rank"], failure.fields["code"]) == ("exited", 1, 5)


@pytest.mark.parametrize("closed", [True, False])
def test_a_node_that_is_silent_or_gone_is_lost(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    monkeypatch.setattr(nodes, "ANSWER_S", 0.05)
    node, there = a_node()
    if closed:
        there.close()
    with pytest.raises(NodeLost, match="node 1 has gone" if closed else "node 1 has not answered for 0 s"):
        node.ask(pause=1)


def test_a_digest_is_of_every_file_and_its_name(tmp_path: Path) -> None:
    for folder in ("a/pairs", "b/pairs"):
        shutil.copytree(PAIRS / "nodes", tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    same, mine = nodes.digest(tmp_path / "a/pairs"), tmp_path / "b/pairs"
    assert nodes.digest(mine) == same
    (mine / "helper.py").write_text("")
    assert nodes.digest(mine) != same
    (mine / "helper.py").rename(mine / "over_nodes_2.py")
    assert nodes.digest(mine) != same
    assert nodes.digest(mine / "over_nodes.py") not in (same, nodes.digest(mine))
