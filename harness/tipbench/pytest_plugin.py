"""The pytest door: `pytest benchmarks` collects the pairs as items `tip::Pair[variant]`.

A folder's conftest.py asks for it with `from tipbench.pytest_plugin import *`. Then pytest itself calls these hooks for
the files in and below that folder alone, and elsewhere nothing of this is loaded.

The pairs are measured by the same engine as `tipbench run`, once a pair; each variant's item then replays
its block timings into pytest-benchmark, whose storing and comparing work on them as on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tipbench.engine import limits
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import Busy, only_run
from tipbench.engine.plan import Plan
from tipbench.engine.run import verdict
from tipbench.engine.runner import measure
from tipbench.machine.controls import controls
from tipbench.machine.home import require_home
from tipbench.records.record import PairInfo, Record
from tipbench.suite.discover import Discovery, discover
from tipbench.suite.files import BENCHMARKS, file_text, holds_a_tip
from tipbench.tip.needs import available_cores
from tipbench.tip.wording import plain
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import judge

__all__ = [
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_configure",
    "pytest_runtestloop",
    "pytest_terminal_summary",
]

RECORDS = pytest.StashKey[dict[str, Record]]()
"""By name, the pairs that were measured."""

_LOCK = pytest.StashKey[ExitStack]()

AT_ONCE = "pairs are measured one at a time: run them without pytest-xdist, by `-n 0`, and other tests apart from them"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tipbench")
    if group.options:
        return  # the conftest.py of another folder has asked already
    group.addoption(
        "--tipbench-device", choices=["auto", "cpu", "cuda"], default="auto", help="as `tipbench run --device`"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse pytest-xdist. Where this folder's conftest.py is read in its workers alone, each pair says so."""
    if config.getoption("dist", "no") != "no" and _measures(config):
        raise pytest.UsageError(AT_ONCE)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A file of pairs has a TIP and imports from tipbench; tests that quote one are left to pytest."""
    if file_path.suffix != ".py" or file_path.name.startswith(("test_", "conftest")):
        return None
    return PairFile.from_parent(parent, path=file_path) if holds_a_tip(file_text(file_path)) else None


class PairFile(pytest.File):
    """A file of pairs; its one child is the tip."""

    def collect(self) -> Iterator[pytest.Collector]:
        if not self.config.pluginmanager.hasplugin("benchmark"):
            raise self.CollectError("pairs need pytest-benchmark: pip install 'tipbench[pytest]'")
        require_home()
        discovery = _discovered(_folder(self.path), _device(self.config))
        root = _folder(self.path).parent
        for broken in discovery.broken:
            if Path(broken.info.file).name == self.path.name:
                raise self.CollectError(plain(broken.reason))
        pairs = [info for info in discovery.pairs if root / info.file == self.path]
        if pairs:
            yield TipCollector.from_parent(self, name=pairs[0].tip.id, pairs=pairs)


class TipCollector(pytest.Collector):
    """A tip; its children are one item a pair and variant."""

    def __init__(self, *, pairs: list[PairInfo], **others: Any) -> None:
        super().__init__(**others)
        self.pairs = pairs

    def collect(self) -> Iterator[pytest.Item]:
        for info in self.pairs:
            for variant in info.variants:
                replayed = Replay()
                item = pytest.Function.from_parent(
                    self,
                    name=f"{info.pair}[{variant.name}]",
                    callobj=_test(info, variant.name, self.path, replayed, self.config),
                )
                item.add_marker(pytest.mark.benchmark(timer=replayed, group=info.name))
                # The pair's own failure says what there is to say.
                item.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used at all"))
                yield item


class Replay:
    """A clock that stands at 0 but for the next reading after `play`, which is the duration played.

    pytest-benchmark subtracts two readings around each round; d - 0.0 is d to the last bit, however
    often it reads the clock otherwise.
    """

    def __init__(self) -> None:
        self._durations: Iterator[float] = iter(())
        self._reading = 0.0

    def load(self, durations: list[float]) -> None:
        self._durations = iter(durations)

    def play(self) -> None:
        self._reading = next(self._durations)

    def __call__(self) -> float:
        reading, self._reading = self._reading, 0.0
        return reading


def _test(info: PairInfo, variant: str, file: Path, replayed: Replay, config: pytest.Config) -> Callable[..., None]:
    """The test function of one item."""

    def test(benchmark: Any) -> None:
        if _is_worker(config) and _measures(config):
            pytest.fail(AT_ONCE, pytrace=False)
        if benchmark.disabled:
            pytest.skip("benchmarks are disabled, and this item is nothing else")
        record = _measured(config, info, file)
        _stop_unless_measured(record, variant)
        launches = record.launches
        seconds = [
            block / record.steps
            for launch in launches
            for name, block in zip(launch.variant, launch.seconds, strict=True)
            if name == variant
        ]
        replayed.load(seconds)
        benchmark.extra_info.update(_extra_info(record, variant))
        benchmark.pedantic(replayed.play, rounds=len(seconds), iterations=1, warmup_rounds=0)

    return test


def _stop_unless_measured(record: Record, variant: str) -> None:
    for stopped in (record, record.variants.get(variant)):
        if stopped is None or stopped.outcome == "measured":
            continue
        if stopped.outcome == "skipped":
            pytest.skip(plain(f"{stopped.reason}; {stopped.remedy}"))
        pytest.fail(plain(f"{stopped.kind}: {stopped.reason}"), pytrace=False)


def _extra_info(record: Record, variant: str) -> dict[str, Any]:
    for judged in judge(record, RULES, available_cores()):
        if judged.variant == variant:
            named = {name: getattr(judged, name) for name in ("verdict", "speedup", "low", "high")}
            return {**named, "launches": len(judged.effects)}
    return {}


def _is_worker(config: pytest.Config) -> bool:
    """Of pytest-xdist."""
    return hasattr(config, "workerinput")


def _measures(config: pytest.Config) -> bool:
    return not (config.option.collectonly or config.getoption("benchmark_disable", False))


def _device(config: pytest.Config) -> str:
    # The default where the conftest.py was read too late for options: `pytest .` above its folder.
    return str(config.getoption("--tipbench-device", "auto"))


def _folder(file: Path) -> Path:
    """What is discovered for a file: all of `benchmarks/`, so that one process describes it, or the file itself."""
    return BENCHMARKS if file.is_relative_to(BENCHMARKS) else file


@functools.cache
def _discovered(folder: Path, device: str) -> Discovery:
    return discover(folder, device)


def _measured(config: pytest.Config, info: PairInfo, file: Path) -> Record:
    """The pair's record, measured when its first item needs it."""
    records = config.stash.setdefault(RECORDS, {})
    if info.name not in records:
        discovery = _discovered(_folder(file), _device(config))
        launcher = Launcher(_folder(file), controls(discovery.threads, discovery.keeps_heap))
        try:
            plan = Plan(limits.LIMITS, RULES, seed=0, cores=available_cores())
            records[info.name] = measure(info, launcher.start, plan)
        finally:
            launcher.close()
    return records[info.name]


def pytest_runtestloop(session: pytest.Session) -> None:
    """Hold the machine's lock while there are pairs to measure; where another run holds it, leave with exit code 2."""
    config = session.config
    pairs = any(isinstance(item.parent, TipCollector) for item in session.items)
    if _LOCK in config.stash or not pairs or not _measures(config) or _is_worker(config):
        return
    config.stash[_LOCK] = ExitStack()
    config.add_cleanup(config.stash[_LOCK].close)
    try:
        config.stash[_LOCK].enter_context(only_run())
    except Busy as busy:
        raise session.Interrupted(str(busy)) from None


@pytest.hookimpl(trylast=True)  # below pytest-benchmark's table, which has the times alone
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A line a pair and variant: the verdict, as in a report of all pairs of this session."""
    records = config.stash.get(RECORDS, {})
    config.stash[RECORDS] = {}  # each conftest.py that asks for the pairs calls this
    if not records:
        return
    terminalreporter.section("does the tip pay? (speedup of each variant over the baseline)")
    for judged in (each for record in records.values() for each in judge(record, RULES, available_cores())):
        terminalreporter.write_line(f"{judged.record.name}[{judged.variant}] {plain(verdict(judged))}")
