"""Bad luck: every way a pair can go wrong is a failed record that says what and where; the others finish."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import pytest

from tests.made_up import restored
from tests.tiny import LIMITS, PAIRS, RULES, living
from tipbench.engine import handle
from tipbench.engine.diagnose import Evidence
from tipbench.engine.launcher import Launcher
from tipbench.engine.plan import Plan
from tipbench.engine.process import Process
from tipbench.engine.runner import run
from tipbench.machine.controls import controls
from tipbench.machine.orphans import spawn
from tipbench.records.record import Record
from tipbench.suite.discover import Discovery, discover
from tipbench.tip.reason import Reason


@dataclass(frozen=True)
class Outcome:
    """What a run of all sample pairs left behind. source: the folder they were in."""

    source: Path
    found: Discovery
    records: dict[str, Record]
    children: list[int]
    survivors: list[str]
    scratch: Path


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """All of tests/pairs/bad_luck in one run, and a file that is no Python: linters want none in the checkout."""
    source = tmp_path_factory.mktemp("own") / "bad_luck"
    shutil.copytree(PAIRS / "bad_luck", source)
    (source / "syntax_error.py").write_text("from tipbench.tip.pair import Tip\n\nTIP = Tip(\n\nclass Pair:\n")
    found = discover(source, "cpu")
    launcher = Launcher(source, controls(1))
    plan = Plan(LIMITS, RULES, seed=0, cores=1, at_once=2)
    with mock.patch.object(handle, "DEADLINE", 15.0):
        records = {record.name: record for record in run(found.pairs, launcher.start, plan, lambda what: None)}
    children = [int(file.read_text()) for file in launcher.scratch.glob("tmp/child")]
    servers = {server._process.pid for server in launcher._servers.values()}
    survivors = [process for process in living(launcher.scratch) if int(process.partition(":")[0]) not in servers]
    launcher.close()
    return Outcome(source, found, records, children, survivors, launcher.scratch)


# ---- which rank is the reason ----


def why_of_ranks(folder: Path, reports: dict[str, str]) -> Reason:
    """Of a torchrun that has ended with 1, where its ranks have left these files."""
    for name, text in reports.items():
        (folder / name).write_text(text)
    started = spawn(["false"], os.environ, folder / "output")
    torchrun = Process(started.pid, started.wait, ranks=2)
    try:
        return Evidence(torchrun, folder, "bad_ranks.py").closed("results optimized")
    finally:
        torchrun.end()


def test_the_first_rank_to_fail_is_the_reason(tmp_path: Path) -> None:
    first, lost = (
        json.dumps({"rank": rank, "failed": {"code": "step-raised", "detail": detail}, "order": order})
        for rank, detail, order in ((1, "it had enough", 1), (0, "Connection closed by peer", 2))
    )
    left = {"rank-0.json": lost, "rank-1.json": first, "rank-3.json": lost[:20], "exit-codes.json": '{"1": 1}'}
    assert why_of_ranks(tmp_path, left).text == "it had enough"


def test_a_rank_that_torchrun_ended_is_not_the_reason(tmp_path: Path) -> None:
    why = why_of_ranks(tmp_path, {"exit-codes.json": json.dumps({"0": -signal.SIGTERM, "1": 5})})
    assert (why.kind, why.fields["rank"], why.fields["code"]) == ("exited", 1, 5)


# ---- files that cannot be imported ----


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("syntax_error", r"SyntaxError: '\(' was never closed \(syntax_error.py, line 3\)"),
        ("import_raises", r"RuntimeError: no such weights \(import_raises.py, line 7\)"),
        ("import_exits", r"import_exits.py: .*exit code 7 while import.*"),
        ("import_segfaults", r"import_segfaults.py: .*SIGSEGV while import.*"),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_failed_record(outcome: Outcome, file: str, reason: str) -> None:
    (broken,) = [record for record in outcome.found.broken if record.info.file == f"{file}.py"]
    assert (broken.outcome, broken.kind) == ("failed", "import error")
    assert re.fullmatch(reason, broken.reason)
    assert broken.remedy == f"fix {file}.py"


# ---- pairs that fail when they are measured ----

FAILURES = {
    "bad-steps.BuilderRaises": ("build raised", "optimized: LookupError: no weights here", "raise LookupError"),
    "bad-steps.BuilderReturnsNoStep": ("build raised", "optimized returned a Tensor; ", ""),
    "bad-steps.RaisesAtStepThree": ("step raised", "optimized, step 3: ValueError: three ", "raise ValueError"),
    "bad-steps.Segfaults": ("crashed", "SIGSEGV while doing: results optimized", ""),
    "bad-steps.Exits": ("exited", "left with exit code 3 while doing: results optimized; it last printed: last w", ""),
    "bad-steps.SystemExits": ("step raised", "optimized, step 1: SystemExit: enough", "sys.exit"),
    "bad-steps.IsKilled": ("killed", "ended by SIGKILL while doing: results optimized; ", ""),
    "bad-steps.AllocatesTooMuch": ("out of memory", "optimized, step 1: RuntimeError: ", "torch.empty"),
    "bad-steps.RaisesMemoryError": ("out of memory", "optimized, step 1: MemoryError", "bytearray"),
    "bad-steps.Hangs": ("hang", "no answer within 15 s while doing: results optimized; ", "time.sleep"),
    "bad-steps.ClosesItsConnection": ("unreadable answer", "the worker's answer could not be read: its connection", ""),
    "bad-steps.FloodsOutput": ("output flood", "printed over 16 MiB while doing: ", ""),
    "bad-results.Differs": ("different results", "optimized: output differs by 0.0005 of its largest value; ", ""),
    "bad-results.ReturnsNaN": ("not finite", "optimized: output holds NaN or infinity", ""),
    "bad-results.ReturnsZeros": ("all zeros", "optimized: every output is zero", ""),
    "bad-results.ReturnsNothing": ("no output", "optimized: the step returned None for output; ", ""),
    "bad-results.CachesItsResult": ("stale results", "optimized: step 2 returned what step 1 had returned", ""),
    "bad-results.IgnoresItsSeed": ("stale results", "optimized: the variant's outputs are the same for every seed", ""),
    "bad-results.NotEngaged": ("not engaged", "optimized: operations dispatched: 2 -> 2", ""),
    "bad-ranks.OneRankRaises": ("step raised", "optimized, step 1: ValueError: rank 1 ", "raise ValueError"),
    "bad-ranks.OneRankDies": ("exited", "left with exit code 5 while doing: results optimized", ""),
}
"""Record -> (kind, beginning of the reason, what is on the line of the file that the reason names)."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_pair_that_goes_wrong_is_a_failed_record(outcome: Outcome, name: str) -> None:
    record = outcome.records[name]
    kind, reason, line = FAILURES[name]
    assert (record.outcome, record.kind, record.launches) == ("failed", kind, ()), record.reason
    assert record.reason.startswith(reason)
    assert line in line_named(outcome, record.reason if line else record.remedy)
    assert line_named(outcome, record.remedy).startswith(f"class {record.info.pair}(")
    assert record.remedy.endswith(f", then `tipbench run {name}`")
    assert restored(asdict(record)).reason == record.reason


def line_named(outcome: Outcome, text: str) -> str:
    named = re.search(r"(\w+\.py), line (\d+)", text)
    assert named, text
    return (outcome.source / named[1]).read_text().splitlines()[int(named[2]) - 1]


# ---- what must not suffer from it ----


def test_the_good_pair_is_measured_and_nothing_is_left_out_or_behind(outcome: Outcome) -> None:
    assert outcome.records.keys() == {*FAILURES, "good.Adding"} == {info.name for info in outcome.found.pairs}
    assert len(outcome.found.broken) == 4
    record = outcome.records["good.Adding"]
    assert record.outcome == "measured"
    assert len(record.launches) == 2
    assert record.variants["optimized"].mechanism["engaged"]
    assert outcome.survivors == []
    assert len(outcome.children) == 1, "the hanging step was to start one"
    assert living(outcome.scratch) == []
    assert not outcome.scratch.exists()
