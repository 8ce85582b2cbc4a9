"""Results files that were damaged: read, gone on with and reported, or refused in words."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.made_up import info, measured
from tipbench import cli
from tipbench.publish.redaction import redact
from tipbench.records import store
from tipbench.records.json_line import dump_line, parse_line
from tipbench.records.store import StoreError
from tipbench.report import render

SEED = 20261120
COMMITTED = (
    Path(__file__).parents[1] / "results/reference/amd-epyc-zen4-2c-24g/2026-11-23-d6ae0db3.jsonl"
).read_bytes()


def shortened() -> bytes:
    """The committed run with the skipped and the shortest measured of its pairs: many mutations in little time."""
    header, *lines = COMMITTED.splitlines(keepends=True)
    by_pair: dict[str, list[bytes]] = {}
    for line in lines:
        by_pair.setdefault(json.loads(line)["pair"], []).append(line)
    pairs = sorted(by_pair.values(), key=lambda lines: sum(map(len, lines)))
    skipped = [lines for lines in pairs if b'"outcome":"skipped"' in lines[0]][:2]
    measured = [lines for lines in pairs if len(lines) >= 8][:4]  # with launches enough for a verdict
    short = [header, *(line for lines in (*skipped, *measured) for line in lines)]
    # Whole jobs are drawn.
    return b"".join(dump_line(parse_line(line.replace(b'"scale":"micro"', b'"scale":"macro"'))) for line in short)


SHORT = shortened()

# ---- damage: a bad disk, a bad copy, a bad editor ----


def cut_off(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content))]


def lose_a_block(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(0, len(content), 512)
    return content[:at] + b"\0" * len(content[at : at + 512]) + content[at + 512 :]


def edit_lines(draw: random.Random, content: bytes) -> bytes:
    """Delete, double, reorder or glue lines, the header among them now and then."""
    lines = content.splitlines(keepends=True)
    first = draw.choice([0, 1, 1, 1])
    at = draw.randrange(first, len(lines))
    match draw.choice(["delete", "double", "reorder", "glue", "delete many"]):
        case "delete":
            del lines[at]
        case "double":
            lines.insert(draw.randrange(first, len(lines) + 1), lines[at])
        case "reorder":
            lines[first:] = draw.sample(lines[first:], len(lines) - first)
        case "glue":
            lines[at] = lines[at].rstrip(b"\n")
        case _:
            lines = lines[:first] + [line for line in lines[first:] if draw.random() < 0.5]
    return b"".join(lines)


@pytest.mark.parametrize("damage", [cut_off, lose_a_block, edit_lines])
def test_a_damaged_file_is_read_gone_on_with_and_reported_or_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[random.Random, bytes], bytes]
) -> None:
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(SHORT.replace(json.loads(SHORT.splitlines()[0])["id"].encode(), b"another"))
    codes = Counter[int]()
    for number in range(20):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(damage(random.Random(f"{SEED} {damage.__name__} {number}"), SHORT))
        codes[cli.main(["report", "--format", "json", str(path)])] += 1
        assert cli.main(["compare", "--format", "md", str(whole), str(path)]) in (0, 2)
        assert all(line.startswith("tipbench: ") for line in capsys.readouterr().err.splitlines())
        try:
            run, notices = store.read(path)
        except StoreError:
            with pytest.raises(StoreError, match=re.escape(str(path))):
                store.resume(path)
            continue
        for format in ("md", "json"):
            render(redact(run, notices).run, notices, format)
        again, writer = store.resume(path)
        with writer:
            assert again == run
            writer.append(further := measured(info("Further"), {"optimized": 0.1}, launches=1))
        assert store.read(path)[0].records == (*run.records, further)
    assert set(codes) <= {0, 2}
    assert codes[0] >= 5, "what is damaged too much never reaches the report"
