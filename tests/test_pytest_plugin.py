"""The pytest door: pairs as items, failures and skips as pytest's own, and durations replayed to the last bit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.made_up import restored
from tests.tiny import ADDING
from tipbench.engine.lock import only_run
from tipbench.pytest_plugin import Replay
from tipbench.suite.files import BENCHMARKS

HOME = Path(__file__).parent.parent

ASKS = "from tipbench.pytest_plugin import *\n"

TEST = "def test_me(): pass\n"

REAL = """
import json
from dataclasses import asdict
from pathlib import Path
from tipbench import pytest_plugin
from tipbench.engine import limits
from tests.tiny import LIMITS, RULES

limits.LIMITS = LIMITS
pytest_plugin.RULES = RULES

def pytest_sessionfinish(session):
    records = {name: asdict(record) for name, record in session.config.stash[pytest_plugin.RECORDS].items()}
    Path("records.json").write_text(json.dumps(records))
"""

MADE_UP = """
import os
from dataclasses import replace
from tipbench import pytest_plugin
from tipbench.suite.discover import Discovery
from tipbench.tip.process import ProcessSettings
from tipbench.records.record import Record, VariantInfo, VariantRecord
from tipbench.tip.reason import Reason
from tests.made_up import info, measured, tip

def named(pair, **more):
    return info(pair, tip=tip("own"), file="pairs.py", **more)

def several(pair):
    about = named(pair, variants=("optimized", "other"))
    lacking = VariantInfo("other", ProcessSettings(), (), Reason("needs.native", {"library": "libjemalloc"}))
    return replace(about, variants=(*about.variants[:2], lacking))

NOWHERE = Reason("needs.own", {}, "no GPU", "buy one")
RAISED = Reason("step-raised", {}, "optimized, step 3: ValueError: no (pairs.py, line 9)")
INFOS = [named("Adding"), several("Several"), named("Nowhere", why=NOWHERE), named("Broken")]

def measure(about, *others):
    if about.reason:
        return Record(about, "skipped", about.why)
    if about.pair == "Broken":
        return Record(about, "failed", RAISED)
    record = measured(about, {"optimized": float(os.environ.get("EFFECT", "0.1")), "other": 0.0})
    variants = {
        variant.name: VariantRecord("skipped", variant.why)
        for variant in about.variants
        if variant.reason
    }
    return replace(record, variants={**record.variants, **variants})

pytest_plugin.discover = lambda folder, device: Discovery(tuple(INFOS), (), 2, "2.15.0", "cpu", "S")
pytest_plugin.measure = measure
"""


class Folder:
    """A folder in which a person runs pytest."""

    def __init__(self, path: Path, conftest: str, pairs: str = ADDING) -> None:
        self.path = path
        (path / "pairs.py").write_text(pairs)
        (path / "conftest.py").write_text(ASKS + conftest)

    def run(self, *arguments: str, module: str = "pytest", **env: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(HOME), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", module, *arguments]
        around = {**os.environ, "PYTHONPATH": path, "COLUMNS": "300", **env}
        return subprocess.run(command, cwd=self.path, env=around, capture_output=True, text=True)

    def pytest(self, *arguments: str, **env: str) -> tuple[int, str]:
        done = self.run("-W", "error", "-rs", "pairs.py", *arguments, **env)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, MADE_UP)


# ---- items ----


def test_the_items_are_the_variants_of_all_pairs_and_can_be_named_and_selected(folder: Folder) -> None:
    variants = {"Adding": 2, "Several": 3, "Nowhere": 2, "Broken": 2}
    names = [
        f"pairs.py::own::{pair}[{variant}]"
        for pair, count in variants.items()
        for variant in ("baseline", "optimized", "other")[:count]
    ]
    code, out = folder.pytest("--collect-only", "-q")
    assert code == 0
    assert out.splitlines()[: len(names)] == names
    _, out = folder.pytest("--collect-only", "-q", "-k", "own and optimized and not Broken")
    chosen = [line for line in out.splitlines() if "::" in line]
    assert chosen == [f"pairs.py::own::{pair}[optimized]" for pair in ("Adding", "Several", "Nowhere")]
    done = folder.run("-W", "error", "-q", "pairs.py::own::Adding[optimized]")
    assert "1 passed" in done.stdout


def test_other_files_are_left_to_pytest(folder: Folder) -> None:
    """Nothing is imported that is no test, does not import from tipbench, or cannot be read."""
    (folder.path / "test_mine.py").write_text('TEXT = """\nfrom tipbench.tip.pair import Tip\nTIP = Tip(\n"""\n' + TEST)
    (folder.path / "helper.py").write_text("raise RuntimeError('not to be imported')\n")
    (folder.path / "foreign.py").write_text("raise RuntimeError('not to be imported')\nTIP = Tip(\n")
    (folder.path / "gone.py").symlink_to(folder.path / "nowhere")
    (folder.path / "folder.py").mkdir()
    done = folder.run("-W", "error", "-q", ".", "--collect-only", "-k", "not own")
    assert done.returncode == 0, done.stdout
    assert "test_mine.py::test_me" in done.stdout


def test_only_folders_whose_conftest_asks_have_pairs(tmp_path: Path) -> None:
    for name in ("asks", "asks_too", "asks_not"):
        (tmp_path / name).mkdir()
        Folder(tmp_path / name, MADE_UP)
    (tmp_path / "asks_not/conftest.py").unlink()
    (tmp_path / "asks_not/test_mine.py").write_text(TEST)
    above = Folder(tmp_path, "")
    (tmp_path / "conftest.py").unlink()

    done = above.run("-q", "--collect-only", "asks", "asks_not", "asks_too", "--tipbench-device=cpu")
    collected = [line.split("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(collected) == {"asks/pairs.py", "asks_not/test_mine.py", "asks_too/pairs.py"}

    # Read while files are collected, the conftest is too late for options; they have their defaults.
    done = above.run("-q", ".", "-k", "Adding or test_me")
    assert "5 passed" in done.stdout, done.stdout
    done = above.run("-q", "asks_not", "--tipbench-device=cpu")
    assert done.returncode == 4, "this pytest has no such option"


def test_the_guides_pairs_are_collected_with_options(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    command += ["--tipbench-device", "cpu"]
    files = [BENCHMARKS / "general", BENCHMARKS / "control.py"]
    done = subprocess.run([*command, *files], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    collected = [line.rpartition("benchmarks/")[2] for line in done.stdout.splitlines()]
    assert "general/channels_last.py::channels-last::Convolution[baseline]" in collected
    assert "control.py::control::Convolution[optimized]" in collected


def test_without_pytest_benchmark_what_is_missing_is_named(folder: Folder) -> None:
    code, out = folder.pytest("-p", "no:benchmark")
    assert code == 2
    assert "pip install 'tipbench[pytest]'" in out


# ---- outcomes ----


Ran = tuple[int, str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """(exit code, output, pytest-benchmark's JSON) of all items."""
    folder = Folder(tmp_path_factory.mktemp("ran"), MADE_UP)
    code, out = folder.pytest("--benchmark-json=out.json")
    return code, out, json.loads((folder.path / "out.json").read_text())["benchmarks"]


def test_what_is_not_met_is_a_skip_with_its_remedy_and_a_failing_pair_a_failure_with_its_kind(ran: Ran) -> None:
    code, out, _ = ran
    assert code == 1
    assert "2 failed, 4 passed, 3 skipped" in out
    assert "no GPU; buy one" in out
    assert "libjemalloc not found; run `make native`" in out
    assert "step raised: optimized, step 3: ValueError: no (pairs.py, line 9)" in out
    assert "Traceback" not in out
    assert "not used at all" not in out, "which pytest-benchmark would warn of"


def test_an_item_carries_its_verdict_which_is_shown_below_the_table_of_times(ran: Ran) -> None:
    baseline, optimized = ran[2][:2]
    assert baseline["extra_info"] == {}
    assert optimized["extra_info"].keys() == {"verdict", "speedup", "low", "high", "launches"}
    assert optimized["extra_info"]["verdict"] == "faster"
    assert baseline["group"] == optimized["group"] == "own.Adding"
    lines = ran[1].partition("does the tip pay?")[2].splitlines()[1:6]
    shown = [line.split()[:2] for line in lines]
    assert [name for name, _ in shown] == [f"own.{item}" for item in (
        "Adding[optimized]", "Several[optimized]", "Several[other]", "Nowhere[optimized]", "Broken[optimized]",
    )]  # fmt: skip
    assert (shown[0][1], [word for _, word in shown[2:]]) == ("faster", ["skipped:", "skipped:", "failed:"])


def test_a_busy_machine_is_one_sentence_and_exit_code_2(folder: Folder) -> None:
    with only_run():
        code, out = folder.pytest("-q")
        assert code == 2
        assert f"another run (process {os.getpid()}) is measuring" in out
        assert "Traceback" not in out
        assert "passed" not in out
        code, out = folder.pytest("--benchmark-disable", "-k", "Adding")
        assert code == 0
        assert "2 skipped" in out, "benchmarks can be disabled"


def test_nothing_is_measured_in_several_processes_at_once(folder: Folder, tmp_path: Path) -> None:
    done = folder.run("-n", "2", "pairs.py")
    assert (done.returncode, done.stderr.count("pairs are measured one at a time")) == (4, 1), done.stdout
    # Below what is named, pytest-xdist reads a conftest.py in its workers alone.
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("pairs.py", "conftest.py"):
        (tmp_path / name).rename(tmp_path / "a/b" / name)
    (tmp_path / "test_mine.py").write_text(TEST)
    done = folder.run("-n", "2", ".", "-rN")
    assert done.returncode == 1, done.stdout
    assert "9 failed, 1 passed" in done.stdout
    assert done.stdout.count("pairs are measured one at a time") == 9


def test_a_file_that_cannot_be_imported_is_an_error_of_collection(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "", ADDING + "\nclass Half(\n")
    code, out = folder.pytest()
    assert code == 2
    line = ADDING.count("\n") + 2
    assert f"SyntaxError: '(' was never closed (pairs.py, line {line})" in out


# ---- storing and comparing, by pytest-benchmark's own means ----


def test_saved_runs_are_compared_and_a_regression_fails(folder: Folder) -> None:
    code, out = folder.pytest("-k", "Adding", "--benchmark-autosave", EFFECT="0.1")
    assert code == 0, out
    (saved,) = folder.path.glob(".benchmarks/*/0001_*.json")

    against = ("-k", "Adding", "--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%")
    code, out = folder.pytest(*against, EFFECT="0.1")
    assert code == 0, out
    code, out = folder.pytest(*against, "--benchmark-autosave", EFFECT="-0.1")
    assert code != 0
    assert "Performance has regressed" in out
    assert "Adding[optimized]" in out.partition("Performance has regressed")[2]
    assert "Adding[baseline]" not in out.partition("Performance has regressed")[2].partition("FAILED")[0]

    compared = folder.run("compare", module="pytest_benchmark")
    assert compared.returncode == 0, compared.stderr
    assert saved.stem[:4] in compared.stdout
    assert "Adding[optimized]" in compared.stdout


# ---- replay ----

AWKWARD = [0.1 + 0.2, 1e-9, 5e-324, math.nextafter(1.0, 2.0), 123456.789, 2**-1074, 1 / 3]


def test_durations_are_replayed_to_the_last_bit() -> None:
    """As pytest-benchmark times a round; reading the clock between rounds changes nothing."""
    replay = Replay()
    replay.load(AWKWARD)
    played = []
    for _ in AWKWARD:
        replay()
        start = replay()
        replay.play()
        played.append(replay() - start)
    assert played == AWKWARD


def test_one_true_run_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    folder = Folder(tmp_path, REAL)
    code, out = folder.pytest("--benchmark-json=out.json", "--tipbench-device=cpu")
    assert code == 0, out
    assert "2 passed" in out
    record = restored(json.loads((tmp_path / "records.json").read_text())["own.Adding"])
    saved = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    assert [item["name"] for item in saved] == ["Adding[baseline]", "Adding[optimized]"]
    for item, variant in zip(saved, ("baseline", "optimized"), strict=True):
        blocks = [
            seconds / record.steps
            for launch in record.launches
            for name, seconds in zip(launch.variant, launch.seconds, strict=True)
            if name == variant
        ]
        assert item["stats"]["data"] == blocks
        assert len(blocks) >= 4
