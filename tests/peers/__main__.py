"""Give the same cases to tipbench and its peers, one after the other, and print who claimed what.

The table's numbers are this machine's; the file holds every comparison, and `--table FILE` prints it again.
"""

from __future__ import annotations

import argparse
import random
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from tests.peers.cases import TRUTHS
from tests.peers.comparison import Comparison, UnusableFile, append, begin, read
from tests.peers.rules import RULES
from tests.peers.table import table
from tests.peers.tools import TOOLS, Shell, Tool, ToolFailed, environment, missing
from tipbench.engine.lock import Busy, only_run
from tipbench.machine import describe

SEEDS_APART = 100
"""Between two repetitions: tipbench takes a seed for each launch."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 some comparison failed, 2 usage, or a tool or file that cannot be used, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(arguments)
    try:
        if options.table:
            print(table(*read(options.table)))
            return 0
        return run(options, shlex.join(["python", "-m", "tests.peers", *arguments]))
    except (Busy, ToolFailed, UnusableFile) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("peers: interrupted; the same command continues", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, metavar="FILE", help="append the comparisons; continue where it stopped")
    where.add_argument("--table", type=Path, metavar="FILE", help="measure nothing, print the table of a file")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="comparisons of each case by each tool")
    parser.add_argument("--only", nargs="+", choices=[tool.name for tool in TOOLS], metavar="TOOL", help="these tools")
    parser.add_argument(
        "--cases", nargs="+", choices=TRUTHS, default=list(TRUTHS), metavar="CASE", help=", ".join(TRUTHS)
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of inputs, weights and order")
    return parser


def run(options: argparse.Namespace, command: str) -> int:
    """Measure what the file does not hold yet, then print its table."""
    tools = [tool for tool in TOOLS if not options.only or tool.name in options.only]
    if lacking := missing(tools):
        raise ToolFailed(
            f"not installed: {', '.join(lacking)}. The tools come with "
            "`pip install -c harness/constraints.txt -e '.[peers]'`, git with the system; or name others with --only"
        )
    with only_run():
        done = {comparison.key for comparison in begin(options.out, header(command, options.seed))}
        left = [
            (repetition, case, tool)
            for repetition, case, tool in schedule(options.repeat, options.seed)
            if case in options.cases and tool in tools and (tool.name, case, repetition) not in done
        ]
        print(f"{len(left)} comparisons; leave the machine alone", file=sys.stderr, flush=True)
        failed = 0
        for number, (repetition, case, tool) in enumerate(left, 1):
            try:
                comparison = compare(tool, case, repetition, options.seed)
            except ToolFailed as error:
                failed += 1
                print(f"{number} of {len(left)}: {tool.name}, {case}: failed: {error}", file=sys.stderr, flush=True)
                continue
            append(options.out, comparison)
            print(f"{number} of {len(left)}: {sentence(comparison)}", file=sys.stderr, flush=True)
    print(table(*read(options.out)))
    if failed:
        print(f"peers: {failed} comparisons failed; the same command tries them again", file=sys.stderr)
    return int(bool(failed))


def schedule(repeat: int, seed: int) -> Iterator[tuple[int, str, Tool]]:
    """(repetition, case, tool): every tool in turn on a case, in an order of its own, before the next case begins."""
    for repetition in range(repeat):
        order = random.Random(f"{seed}/{repetition}")
        for case in order.sample(list(TRUTHS), len(TRUTHS)):
            for tool in order.sample(TOOLS, len(TOOLS)):
                yield repetition, case, tool


def compare(tool: Tool, case: str, repetition: int, seed: int) -> Comparison:
    """One comparison, in fresh processes and a scratch folder of its own. Raises ToolFailed."""
    with tempfile.TemporaryDirectory(prefix="tipbench-peers-") as scratch:
        answer = tool.compare(Shell(Path(scratch), environment(case, seed + SEEDS_APART * repetition)))
    about: dict[str, Any] = {"tool": tool.name, "case": case, "repetition": repetition, "truth": TRUTHS[case]}
    return Comparison(**about, **msgspec.structs.asdict(answer))


def header(command: str, seed: int) -> dict[str, Any]:
    """The file's first line."""
    versions = {"python": sys.version.split()[0]}
    for tool in TOOLS:
        try:
            versions[tool.package] = version(tool.package)
        except PackageNotFoundError:
            continue
    root = str(Path(__file__).parent)
    commit = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "began": datetime.now(UTC).date().isoformat(),
        "command": command,
        "seed": seed,
        "machine": describe.describe()["name"],
        "versions": versions,
        "commit": commit.stdout.strip() or "unavailable",
    }


def sentence(comparison: Comparison) -> str:
    """What is shown after a comparison."""
    rule = next(rule for rule in RULES if rule.tool == comparison.tool)
    claim = rule.claim(comparison) or comparison.decisions.get(rule.decision, "no difference claimed")
    speedup = f"{comparison.speedup[rule.statistic]:.3f}x, truth {comparison.truth:.3f}x"
    return f"{comparison.tool}, {comparison.case}: {claim}, {speedup} ({comparison.seconds:.1f} s)"


if __name__ == "__main__":
    # `kill` asks as Ctrl-C does: the tool that runs is ended with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
