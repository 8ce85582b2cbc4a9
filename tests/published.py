"""Small runs of the suite's own pairs, as a person would publish them, and pages without figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.made_up import BITWISE, CLOSE, MACHINE, NO_GPU, both, count, info, measured, run
from tipbench.publish import tree
from tipbench.publish.send import Published
from tipbench.publish.suite import known
from tipbench.records.record import Record, Run, VariantRecord
from tipbench.records.store import create
from tipbench.report.document import Figure, Page, Paragraph
from tipbench.tip.reason import Reason

PNG = b"\x89PNG\r\n\x1a\n-made-up"


def of(tip: str, pair: str, variants: Sequence[str] = ("optimized",), **more: Any) -> Any:
    """A PairInfo of one of the suite's own pairs."""
    found = known(tip, pair)
    assert found is not None
    return info(pair, variants, tip=dict(found.about), file=found.file, **more)


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
            of("no-sync", "LargeLinear"), "failed",
            Reason("step-raised", {}, "optimized, step 2: RuntimeError: it broke (line 60)", "fix no_sync.py, line 40"),
        ),
        Record(
            of("cuda-graphs", "TinyKernels"), "skipped", NO_GPU,
        ),
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


def stored(folder: Path, found: Run) -> Path:
    """The run as a results file."""
    with create(folder, found) as writer:
        for record in found.records:
            writer.append(record)
        return writer.path


def entry(id: str, machine: str = "box", begun: str = "2026-03-01T09:30:00+00:00", **more: str) -> tree.Entry:
    fixed = {"torch": "2.15.0", "device": "cpu", "measured": "3", "skipped": "1", "failed": "0", "missing": "0"}
    told = {"noise": "0.990..1.010", "answers": "1-0-0-0-0", **fixed, **more}
    return tree.Entry(id=id, machine=machine, run=f"{begun[:10]}-{id[:8]}", begun=begun, **told)


def published(id: str = "a" * 32, text: str = "What was found.", machine: str = "box", **more: str) -> Published:
    """A page with one figure."""
    page = Page("A run", (Paragraph((text,)), Figure("speedups", "made up")))
    return Published(entry(id, machine, **more), page, {"speedups.png": PNG + id.encode()})
