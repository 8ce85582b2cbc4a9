"""The command, from a person's side: what it says, what it leaves behind, and its exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import made_up, tiny
from tests.made_up import NO_GPU, info, measured, run, tip
from tipbench.cli import main
from tipbench.engine import run as running
from tipbench.engine.launcher import Launcher
from tipbench.records import store
from tipbench.records.record import PairInfo, Record
from tipbench.suite import commit
from tipbench.suite import discover as discovery
from tipbench.suite.discover import Discovery
from tipbench.tip.reason import Reason

HOME = Path(__file__).parent.parent

LATER = """
class Nowhere(Adding):
    needs = (NOWHERE,)
"""

HELD = """
class Held(Adding):
    def optimized(self):
        step = super().optimized()
        hold = os.environ.get("TIPBENCH_TEST_HOLD")

        def held():
            if hold and not gc.isenabled():  # so it is only inside a timed block
                Path(hold + ".new").write_text(str(os.getpid()))
                os.rename(hold + ".new", hold)
                time.sleep(600)
            return step()

        return held

Adding.needs = (NOWHERE,)
Held.needs = ()
"""


def own(folder: Path, text: str = "", name: str = "own.py") -> Path:
    """A person's folder of pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(tiny.ADDING + text)
    return folder


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[PairInfo]:
    """Discovery made up: three pairs that all are skipped, so that a run needs no torch."""
    pairs = [
        info(name, tip=tip("fuse-pointwise"), why=Reason("needs.own", {}, "no GPU", "buy one"))
        for name in ("Gelu", "Erf", "MLP")
    ]
    found = Discovery(tuple(pairs), (), 2, "2.15.0", "cpu", "S")
    monkeypatch.setattr(running, "discover_folder", lambda options: (found, list(found.pairs)))
    monkeypatch.setattr(discovery, "discover", lambda *_: found)
    return pairs


Said = Callable[..., tuple[int, str, str]]
Lines = list[dict[str, Any]]


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Said:
    """Run the command in this process: (exit code, stdout, stderr)."""

    def said(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as left:  # argparse
            code = int(left.code or 0)
        return code, *capfd.readouterr()

    return said


def stored(folder: Path) -> Path:
    (file,) = folder.rglob("*.jsonl")
    return file


def names(file: Path) -> list[str]:
    """The records in a results file, in their order."""
    return [record.name for record in store.read(file)[0].records]


def answered(file: Path) -> list[str]:
    """Those of a results file of which more is known than what their checks have found."""
    return sorted(
        record.name for record in store.read(file)[0].records if record.launches or record.outcome != "measured"
    )


# ---- what needs no torch ----


def test_help_imports_next_to_nothing_and_names_commands_and_exit_codes() -> None:
    program = (
        "import sys\nfrom tipbench.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stderr.split()) & {"torch", "scipy", "numpy", "pandas", "psutil", "pytest"}
    for word in ("list", "doctor", "run", "report", "0 done", "1 some pair failed", "2 usage", "130 interrupted"):
        assert word in done.stdout


# ---- what is typed wrongly ----


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "measure", "run --fast", "run --seed x", "run --seed -1", "report --format pdf"),
        *(f"run --budget {text}" for text in ("soon", "30", "-5m", "1h30m", "nan", "3d", "m", "+")),
    ],
)
def test_what_the_command_does_not_know_is_usage(say: Said, arguments: str) -> None:
    code, out, err = say(*arguments.split())
    assert (code, out) == (2, "")
    assert "usage: tipbench" in err


def test_no_command_needs_pytest_and_of_a_name_that_is_none_nothing_is_stored(tmp_path: Path) -> None:
    """pytest and pytest-benchmark belong to an extra."""
    for name in ("pytest", "_pytest", "pytest_benchmark"):
        (tmp_path / f"{name}.py").write_text("raise ImportError\n")
    command = [sys.executable, "-P", "-m", "tipbench", "run", "--from", str(own(tmp_path / "mine")), "no-such-tip"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no tip or pair is named" in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("command", ["run", "list"])
def test_a_folder_that_is_not_there_or_holds_no_pairs_is_refused(say: Said, tmp_path: Path, command: str) -> None:
    for name, why in (("nowhere", "does not exist"), (".", "a file of pairs has a TIP")):
        code, _, err = say(command, "--from", tmp_path / name)
        assert (code, err.startswith("tipbench: "), why in err) == (2, True, True)


def test_what_is_typed_is_what_is_run_and_stored(say: Said, known: list[PairInfo], tmp_path: Path) -> None:
    options = ("--seed", 7, "--device", "cpu")
    say("run", "fuse-pointwise.[GM]*", *options, "--bare", "--results", tmp_path)
    kept, _ = store.read(stored(tmp_path))
    assert kept.planned == ("fuse-pointwise.Gelu", "fuse-pointwise.MLP")
    assert {"seed": 7, "device": "cpu", "bare": True}.items() <= kept.options.items()
    assert kept.controls == {}


@pytest.mark.parametrize(
    ("typed", "budget_s"), [("", 2700), ("90s", 90), ("30m", 1800), ("2h", 7200), ("0.5h", 1800), ("0", 0)]
)
def test_a_runs_time_is_half_an_hour_or_what_is_typed(
    say: Said, known: list[PairInfo], tmp_path: Path, typed: str, budget_s: float
) -> None:
    assert say("run", "--results", tmp_path, *(["--budget", typed] if typed else []))[0] == 0
    assert store.header(stored(tmp_path)).options["budget_s"] == budget_s


@pytest.mark.parametrize("command", ["report gone.jsonl", "report"])
def test_without_results_no_report(say: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = say(*command.split())
    assert code == 2
    assert ("gone.jsonl cannot be read" if "gone" in command else "measure first") in err


# ---- what cannot be stored, and what is damaged ----


def test_after_a_full_disk_a_run_goes_on_with_what_was_lost(
    say: Said, known: list[PairInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = os.write, []

    def full(descriptor: int, data: bytes) -> int:
        if data.startswith((b'{"line":"pair"', b'{"schema"')):
            written.append(data)
            if len(written) == 3:  # header, first record, and then half of the second
                write(descriptor, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    code, _, err = say("run", "--results", tmp_path / "results")
    file = stored(tmp_path)
    assert code == 1
    assert "then give the same command again" in err
    assert len(names(file)) == 1
    assert store.read(file)[1] == [], "the half line is taken back"
    monkeypatch.setattr(os, "write", write)
    assert say("run", "--results", tmp_path / "results")[0] == 0
    assert sorted(names(file)) == sorted(info.name for info in known)


def test_a_truncated_line_costs_its_record_only(say: Said, known: list[PairInfo], tmp_path: Path) -> None:
    say("run", "--results", tmp_path)
    file = stored(tmp_path)
    file.write_bytes(file.read_bytes()[:-50])
    code, out, err = say("report", file, "--format", "json")
    assert (code, json.loads(out)["run"]["not_reached"]) == (0, 1)
    assert f"tipbench: {file}, line 4: truncated" in err
    code, _, err = say("run", "--results", tmp_path)
    assert code == 0
    assert f"{file}, line 4: truncated" in err
    assert sorted(names(file)) == sorted(info.name for info in known)


# ---- what is reported ----


def test_reports_of_several_files_are_written_into_the_folder_named(say: Said, tmp_path: Path) -> None:
    made = [run([measured(info(), {"optimized": 0.1})], id=id) for id in ("11111111", "22222222")]
    files = [made_up.stored(tmp_path / "results", each) for each in made]
    code, out, _ = say("report", *files, "--format", "json", "--out", tmp_path / "reports")
    assert code == 0
    assert [Path(line).name for line in out.splitlines()] == ["2026-03-01-11111111.json", "2026-03-01-22222222.json"]


def test_the_commit_is_that_of_the_suites_own_checkout_whoever_owns_it_and_a_damaged_one_gives_gits_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, fleet = tmp_path / "checkout", tmp_path / "fleet"
    me = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", "init", "-q", checkout], check=True)
    subprocess.run(["git", "-C", checkout, *me, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    exec_git = f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"'
    tiny.put_in_front(monkeypatch, tmp_path, git=exec_git)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))  # as in a hook of another repository
    monkeypatch.setattr(commit, "BENCHMARKS", checkout / ".venv/tipbench/benchmarks")
    assert commit.suite_commit() == ("unavailable", ""), "installed inside another project, it is not of that one"
    monkeypatch.setattr(commit, "BENCHMARKS", checkout / "benchmarks")
    assert re.fullmatch("[0-9a-f]{12}", commit.suite_commit()[0])
    assert main(["fleet", "plan", str(fleet), "--nodes", "n1"]) == 0
    (checkout / ".git/HEAD").write_text("damaged")
    assert main(["fleet", "node", str(fleet), "--as", "n1"]) == 2
    assert main(["fleet", "plan", str(tmp_path / "other"), "--nodes", "n1"]) == 2
    assert capsys.readouterr().err.count("fatal: not a git repository") == 2


# ---- whole runs, with real workers ----


def test_a_run_and_its_report_end_to_end(say: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tiny.shrink(monkeypatch)
    (own(tmp_path / "mine", LATER) / "broken.py").write_text("import tipbench; TIP = (\n")
    code, out, err = say("run", "--from", tmp_path / "mine", "--results", tmp_path / "results", "--seed", 5)
    assert code == 1
    assert re.search(r"broken: failed: import error: SyntaxError: .* \(broken.py, line 1\)", err)
    assert "own.Nowhere: skipped: no unicorn found" in err
    file = stored(tmp_path / "results")
    assert f"results: {file}" in out
    planned = ["broken", "own.Adding", "own.Nowhere"]
    kept, notices = store.read(file)
    assert (sorted(names(file)), sorted(kept.planned), notices) == (planned, planned, [])
    code, out, _ = say("report", file, "--format", "json")
    assert code == 0
    (pair,) = [pair for pair in json.loads(out)["pairs"] if pair["pair"] == "Adding"]
    assert pair["verdict"] in ("faster", "slower", "no difference", "inconclusive")
    assert 0 < pair["low"] <= pair["speedup"] <= pair["high"]
    assert pair["equal"] == {"method": "bitwise", "tolerance": 1e-4, "seeds": 2, "worst": 0.0}
    assert pair["memory"]["baseline"]["tensor_peak"] > pair["memory"]["variant"]["tensor_peak"] > 0
    (record,) = [record for record in kept.records if record.info.pair == "Adding"]
    assert [launch.seed for launch in record.launches] == [5, 6]


@pytest.mark.slow
def test_the_first_control_comes_along_with_a_persons_own_pairs(tmp_path: Path) -> None:
    found, pairs = running.discover_folder(running.Options(folder=str(own(tmp_path / "mine")), device="cpu"))
    assert [info.name for info in found.pairs] == ["own.Adding"]
    assert pairs[0].name == "control.Pointwise"
    # Where it lies is as in a run of benchmarks/, though it was looked up alone.
    assert pairs[0].file == "benchmarks/control.py"
    with closing(Launcher(tmp_path / "mine", {})) as launcher:
        worker = launcher.start(pairs[0], pairs[0].variants[0].settings, "warm", None)
        worker.ready()
        worker.end()


# ---- the time of a run ----


def again(file: Path) -> list[object]:
    """The command that goes on with a file of the person's own pairs."""
    return ["run", "--from", store.read(file)[0].folder, "--results", file.parents[1]]


@pytest.fixture(scope="module")
def without_time(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a run of two pairs that had no time for any launch; made once, as it takes six seconds."""
    base, said = tmp_path_factory.mktemp("timed-out"), io.StringIO()
    folder = own(base / "mine", LATER)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        tiny.shrink(patch)
        code = main(["run", "--from", str(folder), "--results", str(base / "results"), "--budget", "0.001s"])
    file = stored(base / "results")
    assert code == 0
    assert "continue with: the same command" in said.getvalue()
    assert answered(file) == ["own.Nowhere"]
    return file


@pytest.fixture
def timed_out(without_time: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of it."""
    tiny.shrink(monkeypatch)
    folder = tmp_path / "results" / without_time.parent.name
    folder.mkdir(parents=True)
    return Path(shutil.copy(without_time, folder))


def test_a_run_goes_on_with_what_is_open_and_then_times_all_once_more(say: Said, timed_out: Path) -> None:
    before = timed_out.read_bytes()
    code, out, _ = say(*again(timed_out))
    assert code == 0
    assert "continue with" not in out
    assert timed_out.read_bytes().startswith(before)
    assert answered(timed_out) == ["own.Adding", "own.Nowhere"]
    (adding,) = (record for record in store.read(timed_out)[0].records if record.launches)
    assert [launch.session for launch in adding.launches] == [1, 1]
    assert adding.variants["optimized"].memory

    code, out, _ = say(*again(timed_out))
    assert code == 0
    assert f"nothing is open in {timed_out}: its pairs are timed once more" in out
    of_all, notices = store.read(timed_out)
    assert (len(of_all.later), notices) == (2, [])
    (twice,) = (record for record in of_all.records if record.launches)
    assert twice.launches[:2] == adding.launches
    assert {launch.session for launch in twice.launches[2:]} == {2}
    for name, was in adding.variants.items():  # What was checked stays; whether it pays, and so a price, may be new.
        assert dataclasses.replace(twice.variants[name], memory=was.memory, one_off=was.one_off) == was
        assert twice.variants[name].memory.items() >= was.memory.items()


def test_what_fails_when_it_is_timed_once_more_takes_nothing_from_earlier_sessions(
    say: Said, known: list[PairInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(record: Record) -> None:
        monkeypatch.setattr(running, "run", lambda *_: (each for each in [record]))

    known[:] = known[:1]
    answer(measured(known[0], {"optimized": 0.3}, memory=made_up.both(900, 1000)))
    monkeypatch.setattr(running, "complete", lambda *_: True)
    assert say("run", "--results", tmp_path, known[0].name)[0] == 0
    before = store.read(stored(tmp_path))[0].records
    answer(Record(known[0], "failed", Reason("hang", {"seconds": 9})))
    code, _, err = say("run", "--results", tmp_path, known[0].name)
    assert (code, "failed this time" in err) == (1, True)
    assert store.read(stored(tmp_path))[0].records == before


# ---- interrupted ----


@pytest.mark.parametrize("word", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_between_pairs_keeps_the_records_and_names_the_way_on(
    say: Said, known: list[PairInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: signal.Signals
) -> None:
    def interrupted(pairs: Sequence[PairInfo], *_: object) -> Iterator[Record]:
        yield Record(pairs[0], "skipped", NO_GPU)
        try:
            signal.raise_signal(word)
        finally:
            signal.raise_signal(word)  # again, as nothing seems to happen
            ended.append(word)

    ended: list[int] = []
    monkeypatch.setattr(running, "run", interrupted)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
    before = signal.getsignal(word)
    code, _, err = say("run", "--results", tmp_path)
    after = signal.getsignal(word)
    signal.signal(signal.SIGHUP, hangup)
    file = stored(tmp_path)
    assert (code, ended) == (130, [word])
    assert f"pairs are safe in {file}\ncontinue with: the same command" in err
    assert names(file) == ["fuse-pointwise.Gelu"]
    assert after == before


class Command:
    """`tipbench run` in a process of its own, on its own temporary folder, held in the middle of a block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.tmp = Path(tempfile.mkdtemp(prefix="tb-", dir="/tmp"))
        self.command = [sys.executable, "-m", "tests.tiny", "run"]
        hold = folder / "hold"
        with (folder / "said").open("w") as said:
            self.process = subprocess.Popen(
                [*self.command, "--from", str(own(folder / "mine", LATER + HELD)), "--results", str(self.results)],
                cwd=HOME,
                env={**os.environ, "TMPDIR": str(self.tmp), "TIPBENCH_TEST_HOLD": str(hold)},
                stdout=said,
                stderr=said,
            )
        tiny.wait_for(lambda: hold.exists() or self.process.poll() is not None, 240)
        assert hold.exists(), self.said()
        self.worker = int(hold.read_text())

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.tmp, ignore_errors=True)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    command.close()


def test_ctrl_c_in_a_block_keeps_the_records_and_leaves_no_worker(held: Command) -> None:
    assert psutil.pid_exists(held.worker)
    held.process.send_signal(signal.SIGINT)
    assert held.process.wait(60) == 130
    assert "2 of 3 pairs are safe" in held.said()
    assert answered(stored(held.results)) == ["own.Adding", "own.Nowhere"]
    assert not psutil.pid_exists(held.worker)
    assert tiny.living(held.tmp) == []
    assert list(held.tmp.iterdir()) == [], "scratch folders are gone"


@pytest.mark.slow
def test_kill_9_leaves_no_worker_and_the_next_repeats_nothing(held: Command, say: Said, known: list[PairInfo]) -> None:
    # While it measures, another run is refused.
    code, _, err = say("run", "--results", held.folder / "others")
    assert code == 2
    assert f"another run (process {held.process.pid}) is measuring" in err
    assert not (held.folder / "others").exists()

    held.process.kill()
    held.process.wait()
    assert tiny.wait_for(lambda: not psutil.pid_exists(held.worker), 60), "the worker outlived its parent"
    assert tiny.wait_for(lambda: not tiny.living(held.tmp), 60), tiny.living(held.tmp)
    file = stored(held.results)
    before = file.read_bytes()
    assert answered(file) == ["own.Adding", "own.Nowhere"]

    command = [*held.command, "--from", str(held.folder / "mine"), "--results", str(held.results)]
    resumed = subprocess.run(command, cwd=HOME, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert file.read_bytes().startswith(before)
    assert answered(file) == ["own.Adding", "own.Held", "own.Nowhere"]
    kept, notices = store.read(file)
    assert ({record.outcome for record in kept.records}, notices) == ({"measured", "skipped"}, [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: line["machine"].update(torch="1.0"), "was begun with torch 1.0; here it is 2."),
        (lambda line: line["machine"].update(kernel="2.4.1"), "was begun with Linux 2; here it is "),
        (lambda line: line["controls"].update(OMP_NUM_THREADS="99"), "was begun with OMP_NUM_THREADS 99; here it "),
        (lambda line: line.update(suite="0.0.1"), "was begun with tipbench 0.0.1; here it is "),
        (lambda line: line["options"].update(folder="/other"), ""),
        (lambda line: line["options"].update(seed=True), "line 1: the options are damaged"),
    ],
)
def test_another_machine_version_or_option_begins_another_file_and_says_why(
    say: Said, known: list[PairInfo], tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    say("run", "--results", tmp_path)
    file = stored(tmp_path)
    made_up.edited(file, lambda lines: change(lines[0]))
    before = file.read_bytes()
    code, _, err = say("run", "--results", tmp_path)
    assert code == 0
    assert why in err
    assert len([*tmp_path.rglob("*.jsonl")]) == 2
    assert file.read_bytes() == before


def test_another_file_begins_where_that_is_wanted(say: Said, known: list[PairInfo], tmp_path: Path) -> None:
    for further in ((), ("--new",), ("fuse-pointwise.Gelu",)):
        assert say("run", "--results", tmp_path, *further)[0] == 0
    sessions = [len(store.read(file)[0].later) for file in tmp_path.rglob("*.jsonl")]
    assert sorted(sessions) == [0, 1]


@pytest.mark.slow
def test_a_pair_that_changed_is_measured_anew_in_the_same_file(say: Said, timed_out: Path) -> None:
    say(*again(timed_out))
    made_up.edited(
        timed_out, lambda lines: [line["record"]["info"].update(source="0" * 16) for line in lines if "record" in line]
    )
    code, _, err = say(*again(timed_out))
    assert code == 0
    assert "measured anew, as their code or needs changed: own.Adding" in err
    (adding,) = (record for record in store.read(timed_out)[0].records if record.launches)
    assert {launch.session for launch in adding.launches} == {2}


def test_an_own_folder_with_discovered_pairs_is_listed(say: Said, tmp_path: Path) -> None:
    (own(tmp_path / "mine", LATER) / "broken.py").write_text("import tipbench; TIP = (\n")
    code, out, _ = say("list", "--from", tmp_path / "mine", "--device", "cpu")
    assert code == 1
    assert "  Adding  " in out
    assert "why: no unicorn found; remedy: buy one" in out
    assert "\nbroken: " in out
    assert "broken.py" in out
