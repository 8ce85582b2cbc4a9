"""The pytest door: `pytest benchmarks` collects the pairs as items `tip::Pair[variant]`.

They are measured by the same engine as `tipbench run`, once a pair; each variant's item then replays
its block timings into pytest-benchmark, whose storing and comparing work on them as on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.discover import Discovery
    from harness.record import PairInfo, Record

# The plugin is loaded into every pytest of the environment, so the harness is imported when first needed.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tipbench")
    group.addoption(
        "--tipbench-profile", choices=["quick", "full"], default="quick", help="as `tipbench run --profile`"
    )
    group.addoption(
        "--tipbench-device", choices=["auto", "cpu", "cuda"], default="auto", help="as `tipbench run --device`"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A file of pairs says `TIP = Tip(`; tests that quote one are left to pytest."""
    if file_path.suffix != ".py" or file_path.name.startswith(("test_", "conftest")):
        return None
    if "\nTIP = Tip(" not in file_path.read_text(errors="replace"):
        return None
    return PairFile.from_parent(parent, path=file_path)


class PairFile(pytest.File):
    """A file of pairs; its one child is the tip."""

    def collect(self) -> Iterator[pytest.Collector]:
        found = _discovered(self.path, self.config.getoption("--tipbench-device"))
        for broken in found.broken:
            if Path(broken.info.file).name == self.path.name:
                raise self.CollectError(broken.reason)
        pairs = [info for info in found.pairs if Path(info.file).name == self.path.name]
        if pairs:
            yield TipCollector.from_parent(self, name=str(pairs[0].tip["id"]), pairs=pairs)


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
        benchmark.extra_info.update(_extra_info(record, variant, config))
        benchmark.pedantic(replayed.play, rounds=len(seconds), iterations=1, warmup_rounds=0)

    return test


def _stop_unless_measured(record: Record, variant: str) -> None:
    for stopped in (record, record.variants.get(variant)):
        if stopped is None or stopped.outcome == "measured":
            continue
        if stopped.outcome == "skipped":
            pytest.skip(f"{stopped.reason}; {stopped.remedy}")
        pytest.fail(f"{stopped.kind}: {stopped.reason}", pytrace=False)


def _extra_info(record: Record, variant: str, config: pytest.Config) -> dict[str, Any]:
    from harness.needs import available_cores
    from harness.profiles import PROFILES
    from harness.verdict import judge

    looks = PROFILES[config.getoption("--tipbench-profile")].looks
    for judged in judge(record, looks, available_cores()):
        if judged.variant == variant:
            return {name: getattr(judged, name) for name in ("verdict", "speedup", "low", "high", "launches")}
    return {}


@functools.cache
def _discovered(file: Path, device: str) -> Discovery:
    """The pairs of `benchmarks/` together, so that one process describes all; other files by themselves."""
    from harness.discover import BENCHMARKS, discover

    return _all_benchmarks(device) if file.is_relative_to(BENCHMARKS) else discover(file, device)


@functools.cache
def _all_benchmarks(device: str) -> Discovery:
    from harness.discover import BENCHMARKS, discover

    return discover(BENCHMARKS, device)


MEASURED = pytest.StashKey[dict[str, "Record"]]()
CLOSING = pytest.StashKey[ExitStack]()


def _measured(config: pytest.Config, info: PairInfo, file: Path) -> Record:
    """The pair's record, measured when its first item asks."""
    from harness.controls import controls
    from harness.discover import BENCHMARKS
    from harness.lock import Busy, only_run
    from harness.needs import available_cores
    from harness.profiles import PROFILES
    from harness.runner import measure
    from harness.workplace import Workplace

    records = config.stash.setdefault(MEASURED, {})
    if info.name not in records:
        if CLOSING not in config.stash:
            config.stash[CLOSING] = ExitStack()
            try:
                config.stash[CLOSING].enter_context(only_run("`pytest`"))
            except Busy as busy:
                pytest.exit(str(busy), returncode=2)
        found = _discovered(file, config.getoption("--tipbench-device"))
        folder = BENCHMARKS if file.is_relative_to(BENCHMARKS) else file
        workplace = Workplace(folder, controls(found.threads))
        profile = PROFILES[config.getoption("--tipbench-profile")]
        try:
            records[info.name] = measure(info, workplace.start, profile, 0, available_cores(), lambda what: None)
        finally:
            workplace.close()
    return records[info.name]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the machine's lock go."""
    if CLOSING in config.stash:
        config.stash[CLOSING].close()
