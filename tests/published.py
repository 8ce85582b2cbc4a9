"""What tests publish: small runs of the suite's own pairs, and short pages."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import traceback
import zlib
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest

from tests.made_up import BITWISE, CLOSE, MACHINE, NO_GPU, both, count, info, measured, run
from tipbench.publish.wiki import ROOT_PAGE, Page, WikiError
from tipbench.records.record import Record, Run, VariantRecord
from tipbench.report import markdown
from tipbench.suite.files import BENCHMARKS, load_module
from tipbench.tip.reason import Reason

TOKEN = "t0p-secret/Token+of=the&tests%41"
"""What must never be seen in a message; with characters that URLs and forms spell otherwise."""

BOT_TOKEN = "0123456789abcdefghijklmnopqrstuv"
"""MediaWiki takes a bot password of 32 characters, of 0-9 and a-v only."""


def of(tip: str, pair: str, variants: Sequence[str] = ("optimized",), **more: Any) -> Any:
    """A PairInfo of one of the suite's own pairs."""
    (file,) = (file for file in BENCHMARKS.rglob(f"{tip.replace('-', '_')}.py") if f"class {pair}(" in file.read_text())
    about = load_module(file, BENCHMARKS).TIP.texts
    return info(pair, variants, tip=about, file=str(file.relative_to(BENCHMARKS.parent)), **more)


def suite_run(id: str = "a" * 32, faster: float = 0.3, **more: Any) -> Run:
    """Two controls, a speedup, a skip and a failure. faster: ln of the speedup."""
    records = [
        measured(of("control", "Pointwise"), {"optimized": 0.0004}),
        measured(of("control", "Convolution"), {"optimized": -0.0011}, spread=0.003),
        measured(
            of("channels-last", "Convolution", sizes={"batch": 8, "pixels": 56}),
            {"optimized": faster},
            memory=both(700, 1004),
            equal={"optimized": CLOSE},
            mechanism=count("layers whose output is not channels_last", 1, optimized=0),
            one_off={"baseline": {"build": 0.01, "warm_up": 0.2}, "optimized": {"build": 0.02, "warm_up": 0.3}},
        ),
        measured(
            of("allocator", "Temporaries", ("optimized", "tcmalloc")),
            {"optimized": 0.1},
            equal={"optimized": BITWISE},
            mechanism=count("allocator in use, and page faults a step", "glibc: 45060", optimized="jemalloc: 260"),
        ),
        Record(
            of("no-sync", "GPTTraining"), "failed",
            Reason("step-raised", {}, "optimized, step 2: RuntimeError: it broke (line 60)", "fix no_sync.py, line 40"),
        ),
        Record(of("cuda-graphs", "TinyKernels"), "skipped", NO_GPU),
    ]  # fmt: skip
    skipped = VariantRecord("skipped", Reason("needs.native", {"library": "libtcmalloc"}))
    records[3] = dataclasses.replace(records[3], variants={**records[3].variants, "tcmalloc": skipped})
    return run(records, **{"id": id, **more})


def on(name: str, cores: int = 2, **more: Any) -> Run:
    """A small run on a machine of so many cores. name: the first character of its id, a hexadecimal digit."""
    records = [
        measured(of("control", "Pointwise"), {"optimized": 0.0004}),
        measured(of("channels-last", "Convolution"), {"optimized": 0.3}),
    ]
    machine = {**MACHINE, "name": f"amd-epyc-{cores}c-24g", "cores": cores, "physical_cores": cores}
    return run(records, **{"id": name * 32, "machine": machine, **more})


def published(text: str = "What was measured.", machine: str = "box", shade: int = 200) -> list[Page]:
    """A run of one short page with one figure, and a link to the page of its evidence."""
    path = f"{ROOT_PAGE}/{machine}/2026-03-01-{sha256(machine.encode()).hexdigest()[:8]}"
    evidence = Page(f"{path}/Evidence", "# Evidence\n\n## channels-last\n\nUnmistakable.\n")
    front = (
        f"# A run\n\n**Limits.** One machine; [evidence]({evidence.path}#channels-last).\n\n"
        f"{markdown.text(text)}\n\n| a | b |\n| --- | --- |\n| `x\\|y` | **use it** |\n\n"
        "![Speedups of two pairs](speedups.png)\n"
    )
    return [evidence, Page(path, front, {"speedups.png": picture(shade)})]


def picture(shade: int) -> bytes:
    """A PNG of 64 x 32 pixels, all of one grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = zlib.compress((b"\0" + bytes([shade]) * 64) * 32)
    header = struct.pack(">IIBBBBB", 64, 32, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@contextlib.contextmanager
def refused(words: str) -> Iterator[None]:
    """A sentence with these words, a pattern, and with no token, neither in it nor in what a traceback would show."""
    with pytest.raises(WikiError, match=words) as caught:
        yield
    shown = "".join(traceback.format_exception(caught.value))
    assert TOKEN not in shown
    assert BOT_TOKEN not in shown
