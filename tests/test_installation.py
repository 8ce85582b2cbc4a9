"""The wheel, in a fresh environment, beside a project whose folders have the names of ours: neither harms the other.

The environment sees the packages of the one that runs the tests, but not its tipbench, so nothing is fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

HOME = Path(__file__).parent.parent

FOREIGN_TIP = "raise SystemExit('executed, though it is no file of tipbench')\nTIP = Tip(1)\n"

PROJECT = {
    # What Python would find in place of the standard library's, of ours, or of what ours import.
    "random.py": "DICE = 4\n",
    "harness/tools.py": "def additions(x, count):\n    return lambda: [x + 1 for _ in range(count)][-1]\n",
    "benchmarks/control.py": FOREIGN_TIP,
    "benchmarks/helpers.py": "COUNT = 40\n",
    "conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--shout', action='store_true')\n",
    "tests/test_own.py": (
        "from benchmarks.helpers import COUNT\nimport harness.tools\n\n"
        "def test_own(pytestconfig):\n    assert not pytestconfig.getoption('--shout')\n    assert COUNT == 40\n"
    ),
    "pytest.ini": "[pytest]\npython_files = *.py\ntestpaths = tests\npythonpath = .\n",
    "pairs/adding.py": (
        "import torch\n"
        "from benchmarks.helpers import COUNT\nfrom harness.tools import additions\n"
        "from tipbench.tip.words import Claim, Pair, Tip, falls, operations\n\n"
        "TIP = Tip(id='adding', title='Add once', guide=(), claim=Claim.FASTER,\n"
        "          mechanism=falls('operations dispatched', operations))\n\n"
        "class Adding(Pair):\n"
        "    def baseline(self):\n        return additions(torch.randn(1000), COUNT)\n\n"
        "    def optimized(self):\n        return additions(torch.randn(1000), 10)\n\n"
    ),
}

PACKAGES = ("harness", "benchmarks", "tests")

SHORT = """
import sys
from tipbench.cli import main
from tipbench.engine import limits
from tipbench.verdict import rules

rules.RULES = rules.Rules(most=2)
limits.LIMITS = limits.Limits(rounds=(1, 2), longest_s=0.01, block_s=0.0005)
sys.exit(main())
"""
"""The command with next to no launches."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment."""

    folder: Path

    def run(self, command: str, *arguments: object, where: Path) -> subprocess.CompletedProcess[str]:
        """A program of the environment, from the folder `where`."""
        return run(self.folder / "bin" / command, *arguments, where=where)

    def show_packages(self) -> None:
        """Let it see what this Python has installed, but for editable installs: .pth files there are not read."""
        site = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", where=self.folder)
        (Path(site.stdout.strip()) / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


def run(*command: object, where: Path) -> subprocess.CompletedProcess[str]:
    """Without what the variables of this pytest would add, such as PYTHONPATH."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    env, words = {**own, "XDG_CACHE_HOME": str(where / ".cache"), "COLUMNS": "200"}, [*map(str, command)]
    return subprocess.run(words, cwd=where, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def pip(*arguments: object, where: Path) -> None:
    """This Python's pip, without the network."""
    done = run(sys.executable, "-m", "pip", *arguments, "-q", "--no-deps", "--no-index", where=where)
    assert done.returncode == 0, done.stderr


def environment(folder: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return Environment(folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: nothing is left in the checkout, and nothing that lies there is taken along."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    shutil.copy(HOME / "pyproject.toml", source)
    for folder in ("harness", "benchmarks"):
        shutil.copytree(HOME / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-build-isolation", "--wheel-dir", built, source, where=source)
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel."""
    fresh = environment(tmp_path_factory.mktemp("environment"))
    pip("--python", fresh.folder, "install", wheel, where=fresh.folder)
    fresh.show_packages()
    return fresh


@pytest.fixture(scope="module", params=["packages", "folders"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's project, its folders with __init__.py or without."""
    root = tmp_path_factory.mktemp("project")
    for name, text in PROJECT.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "benchmarks/unreadable.py").symlink_to(root / "nowhere")
    for name in PACKAGES if request.param == "packages" else ():
        (root / name / "__init__.py").touch()
    return root


def test_the_wheel_holds_every_room_and_every_tip_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {f"tipbench/{file.relative_to(HOME / 'harness/tipbench')}" for file in files("harness/tipbench")}
    pairs = {f"tipbench/guide_pairs/{file.relative_to(HOME)}" for file in files("benchmarks")}
    assert held == ours | pairs
    assert {"tipbench/guide_pairs/benchmarks/general/no_grad.py"} <= held


def files(folder: str) -> list[Path]:
    """What lies in a folder of the checkout, without READMEs and what Python compiled."""
    present = [file for file in (HOME / folder).rglob("*") if file.is_file()]
    return [file for file in present if file.suffix not in (".pyc", ".md")]


def test_a_projects_own_pytest_says_what_it_said_before(installed: Environment, project: Path, tmp_path: Path) -> None:
    before = environment(tmp_path)
    before.show_packages()

    def says(where: Environment, *arguments: str) -> str:
        done = where.run("python", "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments, where=project)
        assert done.returncode == 0, done.stdout + done.stderr
        # Durations, addresses, ids of objects, and the time of day in pytest-benchmark's help.
        changing = r"in \d+\.\d+s|0x[0-9a-f]+|\d{12,}|\d{8}_\d{6}"
        return re.sub(changing, "", done.stdout).replace(str(where.folder), "")

    for arguments, words in ((["-v", "--trace-config"], "1 passed"), (["--help"], "--shout")):
        expected = says(before, *arguments)
        assert words in expected
        assert says(installed, *arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("list --device cpu", "### PyTorch Performance Tuning Guide, general"),
        ("list --device cpu --from pairs", "Adding  micro  runs"),
        ("doctor", "torch         2."),
    ],
)
@pytest.mark.parametrize("project", ["packages"], indirect=True)
def test_commands_without_a_run_work_there(installed: Environment, project: Path, arguments: str, words: str) -> None:
    done = installed.run("tipbench", *arguments.split(), where=project)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert words in done.stdout


@pytest.mark.parametrize("project", ["packages"], indirect=True)
def test_runs_are_measured_reported_and_compared_there(installed: Environment, project: Path) -> None:
    """A control of the guides' comes along with a person's own pairs, each in processes of its own."""
    short = ("-P", "-c", SHORT, "run", "--device", "cpu", "--from", "pairs")
    done = installed.run("python", *short, where=project)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = project.glob("results/*/*.jsonl")

    done = installed.run("tipbench", "report", run, "--format", "json", where=project)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [(pair["tip"], pair["pair"]) for pair in report["pairs"]] == [("control", "Pointwise"), ("adding", "Adding")]
    assert all(pair["verdict"] not in ("failed", "skipped") for pair in report["pairs"])
    done = installed.run("tipbench", "report", "--format", "html", "--out", "reports", where=project)
    assert done.returncode == 0, done.stderr
    assert "<html" in Path(project, done.stdout.strip()).read_text()

    again = run.with_stem("again")
    again.write_text(re.sub(r',"crc32":\d+', "", run.read_text()).replace(report["run"]["id"], "f" * 32))
    done = installed.run("tipbench", "compare", run, again, where=project)
    assert done.returncode == 0, done.stderr
    assert "Pointwise" in done.stdout
    done = installed.run("python", *short, where=project)
    assert done.returncode == 0, done.stderr
    assert "its pairs are timed once more" in done.stdout


KILLED_WHILE_INSTALLING = """
mount -t overlay overlay -o lowerdir=/usr/sbin,upperdir="$1/upper",workdir="$1/work" /usr/sbin || exit 77
rm -f /usr/sbin/policy-rc.d
cp "$1/bin/starter" /usr/sbin/invoke-rc.d
ls /usr/sbin > "$1/before"
PATH="$1/bin:$PATH" .ci/install-for-tests &
until [ -e "$1/installing" ]; do sleep 0.1; done
kill -9 $!
ls /usr/sbin > "$1/after"
"""
"""On a copy of /usr/sbin in a mount namespace, in which no policy forbids that services start."""


def test_installing_the_wikis_starts_no_service_and_leaves_nothing_behind_when_killed(tmp_path: Path) -> None:
    programs = {
        "dpkg-query": "exit 1",
        "starter": f"touch {tmp_path}/started",
        "apt-get": f"[ $2 = update ] && exit; invoke-rc.d apache2 start; touch {tmp_path}/installing; sleep 1",
    }
    for folder in ("bin", "upper", "work"):
        (tmp_path / folder).mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    done = run("unshare", "--mount", "bash", "-c", KILLED_WHILE_INSTALLING, "killed", tmp_path, where=HOME)
    if not (tmp_path / "installing").exists():
        pytest.skip(f"mount namespaces or overlays are not permitted here: {done.stderr}")
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
    assert not (tmp_path / "started").exists()
