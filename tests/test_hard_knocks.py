"""Hard knocks: killed at any moment a run loses nothing and leaves nothing, and long runs do not grow.

`python -m tests.test_hard_knocks FOUND run ...` is the command `tipbench` with tiny launches and the
discovered pairs kept in the file FOUND: importing torch only to list pairs again would be most of what
there is to be killed in.
"""

from __future__ import annotations

import gc
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests import tiny
from tests.tiny import wait_for
from tipbench.engine import run as running
from tipbench.engine.checks import Served
from tipbench.engine.handle import Worker
from tipbench.engine.launcher import Launcher
from tipbench.engine.lock import Busy, only_run
from tipbench.engine.plan import Plan
from tipbench.engine.runner import run
from tipbench.machine.controls import controls
from tipbench.records import store
from tipbench.records.record import PairInfo
from tipbench.suite.discover import Discovery, discover
from tipbench.tip.process import ProcessSettings

HOME = Path(__file__).parent.parent

PAIRS = tiny.PAIRS / "knocks"

KILLS = {"knocks": (3, 0.3), "knocked-ranks": (1, 0.6)}
"""By tip, how often a run of its pairs is killed, and at most after what share of an undisturbed run."""

FINISHED = {
    "knocks": {
        **{"knocks.Skipped": "skipped", "knocks.Raises": "failed"},
        **{"knocks.Forks": "measured", "knocks.SkippedToo": "skipped"},
    },
    "knocked-ranks": {"knocked-ranks.Waits": "failed"},
}
"""By tip, how its pairs end when nobody kills the run."""


# ---- killed at any moment ----


@dataclass
class Knocked:
    """A run of one tip's pairs that is killed again and again, on a temporary folder of its own."""

    tip: str
    folder: Path
    tmp: Path
    left: list[str] = field(default_factory=list)
    """Processes that outlived a kill."""
    lost: list[str] = field(default_factory=list)
    """Finished records that a later look did not find as they were."""
    locked: int = 0
    """Kills after which the lock was still held."""
    finished: bytes = b""

    @property
    def file(self) -> Path | None:
        """The run's results file, once its header is whole. Half a header is deleted, as its reader is advised to."""
        for file in self.folder.rglob("*.jsonl"):
            if b"\n" in file.read_bytes():
                return file
            file.unlink()
        return None

    def start(self) -> subprocess.Popen[bytes]:
        """The command: it goes on with what there is, or begins."""
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.test_hard_knocks", str(self.folder / "found"), "run"),
                    *(self.tip, "--from", str(PAIRS), "--results", str(self.folder)),
                ],
                cwd=HOME,
                env={**os.environ, "TMPDIR": str(self.tmp), "TIPBENCH_LOCK": str(self.folder / "lock")},
                stdout=said,
                stderr=said,
            )

    def complete(self) -> int:
        """Run undisturbed to the end; the exit code."""
        with self.start() as process:
            code = process.wait()
        self.look()
        return code

    def knock(self, delay: float) -> None:
        """Start, kill after `delay` seconds, and see what is left."""
        with self.start() as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(delay)
            process.kill()
            process.wait()
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TIPBENCH_LOCK", str(self.folder / "lock"))
                with only_run():
                    pass
        except Busy:
            self.locked += 1
        if not wait_for(lambda: not tiny.living(self.tmp), 20):
            self.left += tiny.living(self.tmp)
        self.look()

    def look(self) -> None:
        """Compare what was finished before with what is in the file now."""
        content = self.file.read_bytes() if self.file else b""
        if not content.startswith(self.finished):
            self.lost += self.finished.decode().splitlines()
        self.finished = content[: content.rfind(b"\n") + 1]

    def outcomes(self) -> list[tuple[str, str]]:
        """(name, outcome) of every record in the file."""
        assert self.file is not None
        return [(record.name, record.outcome) for record in store.read(self.file)[0].records]

    def said(self) -> str:
        return (self.folder / "said").read_text()


@pytest.fixture(scope="module")
def knocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Knocked]]:
    """Every tip's run after all its kills and its end. They run beside each other: nothing is timed here."""
    victims = {
        tip: Knocked(tip, tmp_path_factory.mktemp(tip), Path(tempfile.mkdtemp(prefix="tb-", dir="/tmp")))
        for tip in KILLS
    }

    def undergo(victim: Knocked) -> None:
        # The first, which nobody disturbs, tells how long a run lasts here today.
        began = time.monotonic()
        victim.complete()
        whole = time.monotonic() - began
        assert victim.file is not None, victim.said()
        victim.file.unlink()
        victim.finished = b""
        drawn = random.Random(victim.tip)
        kills, share = KILLS[victim.tip]
        for number in range(kills):
            if number == 0:  # this one discovers its pairs itself
                (victim.folder / "found").unlink(missing_ok=True)
            victim.knock(drawn.uniform(0.0, share) * whole)
        victim.complete()

    with ThreadPoolExecutor(len(victims)) as pool:
        list(pool.map(undergo, victims.values()))
    yield victims
    for victim in victims.values():
        shutil.rmtree(victim.tmp, ignore_errors=True)


@pytest.mark.parametrize("tip", KILLS)
def test_killed_again_and_again_a_run_loses_and_leaves_nothing(knocked: dict[str, Knocked], tip: str) -> None:
    victim = knocked[tip]
    assert dict(victim.outcomes()) == FINISHED[tip], victim.said()
    assert len(victim.outcomes()) == len(FINISHED[tip]), "every record once"
    assert victim.file is not None
    kept, notices = store.read(victim.file)
    assert not notices
    assert sorted(kept.planned) == sorted(FINISHED[tip])
    assert not victim.lost
    assert not victim.left
    assert not victim.locked, "the lock is free at once"
    assert list(victim.tmp.iterdir()) == [], "the folders of killed runs are swept by the next"


# ---- several pairs in one run ----

MANY = 4


def one_of_many(number: int) -> str:
    """Every second one fails."""
    text = tiny.ADDING.replace('id="own"', f'id="many-{number}"')
    return text + "\n    def optimized(self):\n        raise LookupError('no weights here')\n" * (number % 2)


@dataclass(frozen=True)
class Held:
    """What this process holds at one moment. children: process ids. files: open descriptors."""

    children: frozenset[int]
    files: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        me = psutil.Process()
        return cls(frozenset(child.pid for child in me.children(recursive=True)), me.num_fds())


@dataclass(frozen=True)
class Long:
    """A run of many pairs. moments: after each check, each first launch, each second one and each memory pass. left:
    what was in the temporary folder after it.
    """

    outcomes: Mapping[str, str]
    before: Held
    moments: list[list[Held]]
    after: Held
    left: list[Path]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Long]:
    folder = tmp_path_factory.mktemp("many") / "pairs"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"many_{number:02}.py").write_text(one_of_many(number))
    found = discover(folder, "cpu")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="tb-", dir="/tmp") as place:
        patch.setattr(tempfile, "tempdir", place)
        before = Held.now()
        launcher = Launcher(folder, controls(1))

        def start(info: PairInfo, settings: ProcessSettings, cache: str, served: Served | None) -> Worker:
            # Also those that measure memory are forked: importing torch anew for them would be most of this test.
            return launcher.start(info, settings, cache, 0 if served is None else served)

        outcomes: dict[str, str] = {}
        moments: dict[tuple[int, bool], list[Held]] = {}
        for record in run(found.pairs, start, Plan(tiny.LIMITS, tiny.RULES, seed=0, cores=1), lambda what: None):
            part = len(record.launches), any(each.one_off for each in record.variants.values())
            moments.setdefault(part, []).append(Held.now())
            outcomes[record.name] = record.outcome
        launcher.close()
        yield Long(outcomes, before, list(moments.values()), Held.now(), list(Path(place).iterdir()))


def test_a_long_run_holds_as_many_processes_and_open_files_all_the_time_and_leaves_none(long: Long) -> None:
    assert long.outcomes == {f"many-{number}.Adding": "failed" if number % 2 else "measured" for number in range(MANY)}
    checked, *launched = map(len, long.moments)
    assert (checked, launched[0]) == (MANY, (MANY + 1) // 2), "each is checked, and what passed is launched"
    assert long.after.children == long.before.children
    assert long.after.files == long.before.files
    assert not long.left
    for first, *others in long.moments[1:]:  # while a check is reported, the next goes on already
        assert [moment.children for moment in others] == [first.children] * len(others)
        assert [moment.files for moment in others] == [first.files] * len(others)


# ---- the command that is killed ----


def main(found_file: str, *arguments: str) -> int:
    """`tipbench ARGUMENTS` as the module says."""
    from tipbench.cli import main as command

    patch = pytest.MonkeyPatch()
    tiny.shrink(patch)
    discovered, kept = running.discover_folder, Path(found_file)

    def found(options: running.Options) -> tuple[Discovery, list[PairInfo]]:
        if not kept.exists():
            new = kept.with_suffix(".new")
            new.write_bytes(pickle.dumps(discovered(options)))
            new.rename(kept)
        kept_pairs: tuple[Discovery, list[PairInfo]] = pickle.loads(kept.read_bytes())
        return kept_pairs

    patch.setattr(running, "discover_folder", found)
    return command(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
