"""Renders what is committed under reports/ anew, by this suite: `python -m tests.evidence`, or `make evidence`.

Of each machine under results/reference/ the newest run of a size gets its page, but none of a part of the pairs; those
on CPUs are compared, and the README's excerpt and the guides' sentences follow. What such a page tells people to write
is what the suite says today. Pages of other runs go: their texts are old. What it rewrote is printed, and what it
cannot render, as no stored run is behind it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tipbench.records import json_line, store
from tipbench.records.record import PairInfo
from tipbench.report import guides
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS

HOME = Path(__file__).parent.parent
RESULTS, REPORTS = HOME / "results/reference", HOME / "reports"
TIPS = ("amp", "channels-last", "checkpointing")
"""Whose rows the README shows."""

RUN_PAGE = re.compile(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}")


def main() -> int:
    newest: dict[tuple[str, str], Path] = {}  # by machine and size
    for file in sorted(RESULTS.glob("*/*.jsonl"), key=_started):
        of = file.parent.name, store.header(file).options.get("size", "S")
        # A run of a part of the pairs has no page in place of one of all.
        if of not in newest or 2 * len(store.header(file).planned) >= len(store.header(newest[of]).planned):
            newest[of] = file
    shown = {file.stem for file in newest.values()}
    for page in REPORTS.glob("*/*"):
        if RUN_PAGE.fullmatch(page.stem) and page.stem not in shown:
            shutil.rmtree(page) if page.is_dir() else page.unlink()
    now = {pair.name: pair for pair in discover(BENCHMARKS, "cpu").pairs}
    with tempfile.TemporaryDirectory() as copy:
        shown_of = {file: Path(copy) / file.relative_to(RESULTS) for file in newest.values()}
        for file, of_today in shown_of.items():
            _with_texts_of_today(file, of_today, now)
            shutil.rmtree(REPORTS / file.parent.name / file.stem, ignore_errors=True)
            _tipbench("report", of_today, "--format", "md", "--format", "html", "--out", REPORTS)
        on_cpus = [
            shown_of[file] for _, file in sorted(newest.items()) if store.header(file).options["device"] == "cpu"
        ]
        _tipbench("compare", *on_cpus, "--format", "html", "--out", REPORTS)
    linked = _linked(HOME / "README.md", r"reports/[^)]*\.md")
    excerpt = _excerpt((HOME / linked).read_text(), Path(linked).parent)
    _replace(HOME / "README.md", "excerpt", "end of excerpt", excerpt)
    run_file = HOME / _linked(HOME / "benchmarks/README.md", r"results/\S+?\.jsonl")
    sentences = guides.sentences(store.read(run_file)[0])
    _replace(HOME / "benchmarks/README.md", "sentences", "end of sentences", sentences)
    changed = _git("status", "--porcelain", "--", "reports", "README.md", "benchmarks/README.md")
    print("\n".join(["rewritten:", *changed] if changed else ["everything is as it was"]))
    others = sorted(str(file.relative_to(HOME)) for file in REPORTS.glob("*/*.md") if not RUN_PAGE.fullmatch(file.stem))
    print("\n".join(["not rendered, as their runs are not stored (reports/README.md names the commands):", *others]))
    return 0


def _with_texts_of_today(stored: Path, copy: Path, now: Mapping[str, PairInfo]) -> None:
    """A copy of a run that tells people to write what the suite says today, as a text of its own day may have turned
    out to harm. Pairs of other sizes or with other processes since are not in it, nor are variants that are gone. The
    page names the run's commit: the code of a pair may have been rewritten since."""
    lines = [json_line.parse_line(line) for line in stored.read_bytes().splitlines()]
    changed, gone = set(), dict[str, set[str]]()
    for info in (line["record"]["info"] for line in lines if line.get("line") == "pair"):
        name = f"{info['tip']['id']}.{info['pair']}"
        if name in now and info["sizes"] == now[name].sizes and _shares(info) == _shares(asdict(now[name])):
            info["tip"] = asdict(now[name].tip)
            gone[name] = _variants(info) - _variants(asdict(now[name]))
            info["variants"] = [variant for variant in info["variants"] if variant["name"] not in gone[name]]
        else:
            changed.add(name)
    for line in lines:
        _take_out(line, gone.get(line.get("pair", ""), set()))
    for line in lines:
        if "planned" in line:  # of the header and of each later session
            line["planned"] = [name for name in line["planned"] if name not in changed]
    if changed:
        print(f"{stored.name} without {len(changed)} pairs that have changed since: {', '.join(sorted(changed))}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    left = [line for line in lines if line.get("pair") not in changed and _sides(line) != {"baseline"}]
    copy.write_bytes(b"".join(map(json_line.dump_line, left)))


def _shares(info: Mapping[str, Any]) -> bool:
    """Whether the sides of a pair share a process."""
    return not any(variant["settings"].get("own_process") for variant in info["variants"])


def _take_out(line: dict[str, Any], gone: set[str]) -> None:
    """Take these variants out of what a line stores of its pair."""
    launch = line.get("launch", {})
    for of_variants in (
        line.get("record", {}).get("variants", {}),
        line.get("variants", {}),
        launch.get("stretches", {}),
    ):
        for name in gone & of_variants.keys():
            del of_variants[name]
    timed = launch.get("variant", ())
    left = [place for place, name in enumerate(timed) if name not in gone]
    for name, blocks in launch.items():
        if isinstance(blocks, list) and len(blocks) == len(timed):
            launch[name] = [blocks[place] for place in left]


def _sides(line: Mapping[str, Any]) -> set[str]:
    """Those that a launch timed; of another line none."""
    return set(line.get("launch", {}).get("variant", ()))


def _variants(info: Mapping[str, Any]) -> set[str]:
    return {variant["name"] for variant in info["variants"]}


def _started(file: Path) -> str:
    return store.header(file).started


def _tipbench(*words: object) -> None:
    subprocess.run([sys.executable, "-P", "-m", "tipbench", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(HOME), *words], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def _linked(page: Path, address: str) -> str:
    """The first address of this form in a page."""
    match = re.search(address, page.read_text())
    if match is None:
        raise SystemExit(f"{page} names no {address}")
    return match[0]


def _excerpt(page: str, folder: Path) -> str:
    """The head of the table of answers, and the rows of TIPS, with links from the README's folder."""
    lines = page.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| grade |"))
    rows = [line for tip in TIPS for line in lines[head:] if line.startswith("| **") and f"/{tip}.md)" in line]
    linked = [re.sub(r"\]\((?=[^)]*\.md\))", f"]({folder}/", row) for row in rows]
    return "\n".join([*lines[head : head + 2], *linked]) + "\n"


def _replace(page: Path, begin: str, end: str, text: str) -> None:
    marked = re.compile(rf"(<!-- {begin}: .*? -->\n).*?(?=<!-- {end} -->)", re.DOTALL)
    page.write_text(marked.sub(lambda match: match[1] + text, page.read_text(), count=1))


if __name__ == "__main__":
    sys.exit(main())
