"""The index of all runs that a wiki has, whoever published them: made of the names of its pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tipbench.publish.wiki import ROOT, Page
from tipbench.records.record import Run
from tipbench.records.store import file_name
from tipbench.report.markdown import link

COMPARISON = f"{ROOT}/Comparison"

LONGEST_NAME = 60

PUBLIC_NAME = r"[a-z0-9]+(?:[-.][a-z0-9]+)*"
"""Of a machine: what every wiki keeps as it is in the name of a page."""

RUN = re.compile(rf"{ROOT}/(?P<machine>{PUBLIC_NAME})/(?P<run>\d{{4}}-\d\d-\d\d-[0-9a-f]{{8}})")


def path_of(run: Run) -> str:
    """The page of a run that `allowed` has let through."""
    return f"{ROOT}/{run.machine['name']}/{file_name(run)}"


def index_page(paths: Iterable[str]) -> Page:
    """paths: of the wiki's pages and of those that are written with the index."""
    listed = set(paths)
    lines = ["# PyTorch tuning tips: benchmarks", ""]
    lines += ["Which PyTorch tuning tips pay, measured on the machines of this team with tipbench.", ""]
    if COMPARISON in listed:
        lines += [link("All of them compared", COMPARISON), ""]
    runs: dict[str, list[re.Match[str]]] = {}
    for run in sorted(filter(None, map(RUN.fullmatch, listed)), key=lambda run: run["run"], reverse=True):
        runs.setdefault(run["machine"], []).append(run)
    for machine, of_machine in runs.items():
        lines += [f"## {machine}", "", *(f"- {link(run['run'], run[0])}" for run in of_machine), ""]
    return Page(ROOT, "\n".join(lines))
