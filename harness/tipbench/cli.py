"""The command `tipbench`."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tipbench.errors import UserError
from tipbench.fleet import options as fleet
from tipbench.machine.interrupts import interrupts

# Nothing else is imported up here: `--help` answers at once, and `report` must not need torch.

EXIT_CODES = "exit codes: 0 done, 1 some pair failed, 2 usage or a file that cannot be used, 130 interrupted"

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a device that takes no more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. A UserError is printed as one line."""
    if sys.platform != "linux":
        print("tipbench: only Linux is supported; Windows runs it under WSL", file=sys.stderr)
        return 2
    options = _parser().parse_args(arguments)
    try:
        code = exit_code(lambda: int(options.command(options)))
        if sys.stdout is not None:
            sys.stdout.flush()  # now, while what goes wrong can be reported
        return code
    except BrokenPipeError:  # `tipbench list | head`
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        _discard_output()
        why = (error.strerror or str(error)).lower()
        print(f"tipbench: cannot write the output, or a temporary file: {why}", file=sys.stderr)
        return 2


def exit_code(command: Callable[[], int]) -> int:
    """What a command returns. An interrupt and a UserError are printed as one line."""
    from tipbench.machine.home import require_home

    with interrupts():
        try:
            require_home()
            return command()
        except KeyboardInterrupt:
            print("tipbench: interrupted", file=sys.stderr)
            return 130
        except UserError as error:
            from tipbench.tip.wording import lines_of

            # Names of files and what a server says may hold what a terminal acts on.
            print(f"tipbench: {lines_of(str(error))}", file=sys.stderr)
            return error.exit_code


def _discard_output() -> None:
    """Drop what stdout still holds: Python would try to write it once more at its end, and fail again."""
    with suppress(OSError):  # a stand-in for stdout may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tipbench", description="Which PyTorch tuning tips pay on this machine?", epilog=EXIT_CODES
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="show every tip, its pairs, and whether they can run here")
    command.set_defaults(command=_list)
    _add_folder(command)
    _add_device(command)

    what = "show this machine, what is missing, what disturbs measuring now"
    commands.add_parser("doctor", help=what).set_defaults(command=_doctor)

    command = commands.add_parser("run", help="measure pairs and store the run", epilog=EXIT_CODES)
    command.set_defaults(command=_run)
    command.add_argument(
        "names", nargs="*", metavar="NAME", help="tip, tip.Pair or a pattern such as '*.GPT*'; all without one"
    )
    _add_folder(command)
    command.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    _add_device(command)
    text = "such as 90s, 30m or 2h; 0: until all is decided. Default: 45m"
    command.add_argument("--budget", type=_seconds, default="45m", metavar="TIME", help=text)
    command.add_argument(
        "--size",
        choices=["S", "M", "L"],
        default="",
        help="of the jobs: for two cores, a workstation, and a card of 16 GB and more. Default: what this machine is",
    )
    command.add_argument("--new", action="store_true", help="begin another file; else this machine's is gone on with")
    command.add_argument("--seed", type=_seed, default=0, metavar="N", help="of inputs, weights and block order")
    command.add_argument("--bare", action="store_true", help="do not control the environment: heap, threads, hash seed")

    what = "try the tips on a job of your own, and say which of them pay there"
    command = commands.add_parser("advise", help=what, epilog=EXIT_CODES)
    command.set_defaults(command=_advise)
    command.add_argument(
        "job",
        nargs="*",
        metavar="FILE:FUNCTION",
        help="such as train.py:job, which builds the job; or, after --, a command, such as -- python train.py; "
        "or two advice.json, to say whether the job got slower between them",
    )
    text = "such as 5m; 0: until all is decided. Default: 20m"
    command.add_argument("--budget", type=_seconds, default="20m", metavar="TIME", help=text)
    command.add_argument(
        "--sweep",
        action="append",
        choices=["workers", "batch", "threads"],
        help="nothing but the rate and the memory at several values of it; may be given several times",
    )
    command.add_argument("--out", type=Path, default=Path("advice"), metavar="DIR", help="default: advice")
    command.add_argument("--seed", type=_seed, default=0, metavar="N", help="of inputs, weights and block order")
    command.add_argument("--busy", action="store_true", help="advise although other programs keep the machine busy")

    command = commands.add_parser("report", help="render stored runs; without FILE the newest under results/")
    command.set_defaults(command=_report)
    command.add_argument("files", nargs="*", type=Path, metavar="FILE")
    command.add_argument(
        "--format", choices=["md", "html", "json"], action="append", help="default: md; several may be asked for"
    )
    command.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing")

    command = commands.add_parser(
        "compare",
        help="set runs of machines, days and versions against each other",
        epilog="exit codes: 0 done, or nothing worsened; 1 with --fail-if: something did; 2 usage, or a file that "
        "cannot be used; 3 with --fail-if: nothing could be compared, or files are damaged; 130 interrupted",
    )
    command.set_defaults(command=_compare)
    command.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a results file, such as results/*/*d0a81395* (FILE@2026-11-27: its sessions of that day); a folder, of "
        "which the newest file of each machine counts; or alone the folder of a fleet",
    )
    command.add_argument(
        "--format", choices=["md", "html"], default="md", help="default: md; tipbench.load(RUN, RUN) has the numbers"
    )
    command.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing")
    command.add_argument(
        "--fail-if",
        action="append",
        choices=["slower", "failed"],
        metavar="WHAT",
        help="of two runs, OLD and NEW: end with 1 where a verdict worsened (slower), or where a pair that OLD "
        "measured fails in NEW (failed)",
    )

    text = "before --fail-if ends with 1: time once more what alarmed, into NEW's file, for so long at most"
    command.add_argument("--confirm", type=_seconds, metavar="TIME", help=text)
    _add_folder(command)

    command = commands.add_parser(
        "publish",
        help="put runs and their comparison on a wiki; without FILE the newest under results/",
        epilog="exit codes: 0 published, or nothing to write; 2 usage, a file that cannot be used, or a wiki that "
        "cannot be read or written; 130 interrupted. User and token are taken from TIPBENCH_USER and TIPBENCH_TOKEN; "
        "git takes its own",
    )
    command.set_defaults(command=_publish)
    command.add_argument("files", nargs="*", type=Path, metavar="FILE")
    command.add_argument(
        "--to",
        required=True,
        metavar="TARGET",
        help="git+https://HOST/OWNER/REPO.wiki.git (also git+ssh, git+file), mediawiki+https://HOST/PATH/, "
        "dokuwiki+https://HOST/PATH/ or (experimental) confluence+https://SITE/wiki?space=KEY",
    )
    command.add_argument("--dry-run", action="store_true", help="show what would be sent, page by page; send nothing")
    command.add_argument(
        "--flavour", default="", metavar="KIND", help="of a git wiki: github, gitlab, gitea or azure; else by its host"
    )

    fleet.add(commands.add_parser("fleet", help=fleet.DESCRIPTION, epilog=EXIT_CODES), _seconds, _count)
    return parser


def _add_folder(command: argparse.ArgumentParser) -> None:
    text = "take the pairs from any folder or file"
    command.add_argument("--from", type=os.path.realpath, metavar="DIR", dest="folder", help=text)


def _add_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="default: auto")


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {2**31 - 1}")
    return value


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])|0", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is no time such as 90s, 30m, 2h or 0")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] if found[1] else 0.0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _list(options: argparse.Namespace) -> int:
    from tipbench.suite.catalog import as_text
    from tipbench.suite.discover import discover
    from tipbench.suite.files import BENCHMARKS

    found = discover(Path(options.folder) if options.folder else BENCHMARKS, options.device)
    print(as_text(found))
    if not options.folder:
        from tipbench.report import guides

        print(f"\n{guides.sentences()}", end="")
    return int(bool(found.broken))


def _doctor(options: argparse.Namespace) -> int:
    from tipbench.machine import doctor

    return doctor.report()


def _run(options: argparse.Namespace) -> int:
    from tipbench import report
    from tipbench.engine import run
    from tipbench.records import store

    code, path = run.measure_machine(
        run.Options(
            names=options.names,
            folder=options.folder or "",
            news=None if options.folder or options.names else report.news(),
            results=options.results,
            new=options.new,
            device=options.device,
            size=options.size,
            seed=options.seed,
            bare=options.bare,
            budget_s=options.budget,
        )
    )
    if code in (0, 1):  # it came to its end
        stored, notices = store.read(path)
        print("\n".join(["", *report.one_liners(stored)]))
        for notice in notices:
            print(f"tipbench: {notice}", file=sys.stderr)
    return code


def _advise(options: argparse.Namespace) -> int:
    from tipbench.advise import command, difference

    if len(options.job) == 2 and all(word.endswith(".json") for word in options.job):
        print("\n".join(difference.compare_advices(*map(Path, options.job))))
        return 0
    typed = command.AdviseOptions(options.job, options.out, options.budget, options.seed, options.busy)
    if options.sweep:
        return command.print_sweeps(typed, list(dict.fromkeys(options.sweep)))
    return command.begin(typed)


def _report(options: argparse.Namespace) -> int:
    from tipbench import report
    from tipbench.records import listing, store

    for file in options.files or [listing.newest(Path("results"))]:
        run, notices = store.read(file)
        for notice in notices:
            print(f"tipbench: {notice}", file=sys.stderr)
        for format in options.format or ["md"]:
            written = report.write(run, notices, format, options.out)
            if written is not None:
                print(written)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from tipbench import compare
    from tipbench.compare.slow import NONE_SLOW
    from tipbench.fleet import comparison as fleet
    from tipbench.tip.wording import plain

    if options.confirm and not options.fail_if:
        raise UserError("--confirm times once more what --fail-if alarms at: add --fail-if slower, or failed")
    if fleet.is_fleet(options.runs) and not options.fail_if:
        comparison, slow = fleet.read(Path(options.runs[0]))
    else:
        comparison, slow = compare.read_comparison(options.runs), NONE_SLOW
    for note in comparison.notes:
        print(f"tipbench: {plain(note)}", file=sys.stderr)
    if not options.fail_if or options.out:
        for written in compare.show(comparison, options.format, options.out, slow):
            print(written)
    code = compare.check_regression(comparison, options.fail_if) if options.fail_if else 0
    if code != 1 or options.confirm is None:
        return code
    from tipbench.compare.gate import gate
    from tipbench.engine import run

    new = comparison.runs[1]
    same = {name: value for name, value in new.run.options.items() if name in ("device", "size", "seed", "bare")}
    same |= {"folder": options.folder} if options.folder else {}
    names, results = gate(comparison).alarmed, new.file.resolve().parents[1]
    run.measure_machine(run.Options(**same, names=names, results=results, budget_s=options.confirm))
    return compare.check_regression(compare.read_comparison(options.runs), options.fail_if)


def _publish(options: argparse.Namespace) -> int:
    from tipbench.publish import command
    from tipbench.records import listing

    files = options.files or [listing.newest(Path("results"))]
    return command.begin(options.to, files, options.dry_run, options.flavour)
