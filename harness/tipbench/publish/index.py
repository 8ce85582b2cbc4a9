"""The index of all runs, its machines and the comparison.

The index is its own memory: it holds one line a run in a block of code, in a form that survives any wiki's markup.
Whoever publishes reads these lines back, puts his own among them and writes the page anew, so that runs published by
others, on other machines, stay.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from tipbench.publish.wiki import ROOT, Page
from tipbench.records.record import Run
from tipbench.records.store import file_name
from tipbench.report.answer import answers
from tipbench.report.answer_kinds import KINDS
from tipbench.report.markdown import render
from tipbench.report.result import Result
from tipbench.report.results import counts

COMPARISON = f"{ROOT}/Comparison"

LONGEST_NAME = 60
RESERVED = ("comparison",)
"""Names of machines that would take the place of another page of the tree."""

LINE = re.compile(r"tipbench-run(?: [a-z]+=[A-Za-z0-9.:+_-]*)+")
"""A run in the index: letters, digits and signs that no markup changes, but for writing them as entities of HTML."""

PUBLIC_NAME = r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*"

FORMS: Mapping[str, str] = {
    "id": r"[0-9a-f]{8,32}",
    "machine": PUBLIC_NAME,
    "run": r"\d{4}-\d\d-\d\d-[0-9a-f]{8}",
    "begun": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
    "torch": r"[0-9A-Za-z.+]*",
    "device": r"[a-z]*",
    **dict.fromkeys(("measured", "skipped", "failed", "missing"), r"\d{1,6}"),
    "noise": r"(?:[0-9.]+)?",
    "answers": r"\d+(?:-\d+)*",
}
"""What each field of an Entry looks like: a line of any other form is not one of ours."""


@dataclass(frozen=True)
class Entry:
    """One run in the index.

    Attributes:
        id: the run's id.
        machine: its public name.
        run: the name of its results file, without ending.
        begun: ISO 8601, in UTC.
        torch: version.
        device: "cpu" or "cuda".
        measured, skipped, failed, missing: numbers of pairs.
        noise: the widest interval of its A/A controls, `0.994..1.008`; "" where none was measured.
        answers: how many tips got each of `KINDS`, in that order, joined by "-".
    """

    id: str
    machine: str
    run: str
    begun: str
    torch: str
    device: str
    measured: str
    skipped: str
    failed: str
    missing: str
    noise: str
    answers: str

    @property
    def path(self) -> str:
        return f"{ROOT}/{self.machine}/{self.run}"

    @property
    def line(self) -> str:
        return " ".join(["tipbench-run", *(f"{field.name}={getattr(self, field.name)}" for field in fields(self))])

    @property
    def tips(self) -> str:
        """`3 use it, 1 don't`."""
        numbers = self.answers.split("-")
        if len(numbers) != len(KINDS):  # of a suite with other answers
            return "-"
        return ", ".join(f"{count} {answer}" for count, answer in zip(numbers, KINDS, strict=True) if count != "0")


def entry(run: Run, runs: Sequence[Sequence[Result]]) -> Entry:
    """The run's line, of a run that `allowed` has let through. runs: results of earlier runs of the machine, which its
    answers count too, and last its own."""
    counted = counts(run)
    kinds = [answer.kind for answer in answers(runs)]
    device = next((record.info.device for record in run.records), str(run.options.get("device", "")))
    intervals = [(row.low, row.high) for row in runs[-1] if row.is_identical and row.low and row.high]
    low, high = max(intervals, key=lambda interval: interval[1] - interval[0], default=(None, None))
    return Entry(
        id=run.id,
        machine=str(run.machine["name"]),
        run=file_name(run),
        begun=run.started,
        torch=str(run.machine.get("torch", "")),
        device=device,
        measured=str(counted.measured),
        skipped=str(counted.skipped),
        failed=str(counted.failed),
        missing=str(counted.not_reached),
        noise=f"{low:.3f}..{high:.3f}" if low else "",
        answers="-".join(str(kinds.count(kind)) for kind in KINDS),
    )


def entries(text: str) -> list[Entry]:
    """The runs that our part of the index names, in its order; lines of another form are none."""
    listed = []
    for line in LINE.findall(html.unescape(text)):
        values = dict(word.split("=", 1) for word in line.split()[1:])
        has_forms = values.keys() == FORMS.keys() and all(
            re.fullmatch(form, values[name]) for name, form in FORMS.items()
        )
        if has_forms and is_public_name(values["machine"]):
            listed.append(Entry(**values))
    return listed


def is_public_name(name: str) -> bool:
    """Whether a machine may be called so, on whose page and below it the name then stands."""
    is_taken = name.lower() in RESERVED or re.search(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}$", name) is not None
    return re.fullmatch(PUBLIC_NAME, name) is not None and len(name) <= LONGEST_NAME and not is_taken


def merged(published: Iterable[Entry], ours: Iterable[Entry]) -> list[Entry]:
    """All runs, newest first; ours in the place of what was published of the same run."""
    by_id = {entry.id: entry for entry in (*published, *ours)}
    return sorted(by_id.values(), key=lambda entry: (entry.begun, entry.id), reverse=True)


def index_page(listed: Sequence[Entry], has_comparison: bool) -> Page:
    return Page(
        ROOT,
        render(
            "wiki_index.md.j2",
            entries=listed,
            machines=[(name, f"{ROOT}/{name}") for name in dict.fromkeys(entry.machine for entry in listed)],
            comparison=COMPARISON if has_comparison else "",
            memory="\n".join(entry.line for entry in listed),
        ),
    )


def machine_page(name: str, listed: Sequence[Entry]) -> Page:
    """A machine's runs. Nothing here depends on measurements, so a run measured further leaves it as it is."""
    of_machine = [entry for entry in listed if entry.machine == name]
    return Page(f"{ROOT}/{name}", render("wiki_machine.md.j2", name=name, entries=of_machine, root=ROOT))


COMPARED = re.compile(r"tipbench-compared ([0-9a-f]{8,32})")


def comparison_page(page: Page, listed: Iterable[Entry]) -> Page:
    """The comparison with its runs: linked, and by id, so that nobody who lacks one writes it anew without it."""
    runs = list(listed)
    memory = "\n".join(f"tipbench-compared {entry.id}" for entry in runs)
    return Page(page.path, f"{page.text}\n{render('wiki_compared.md.j2', entries=runs, memory=memory)}", page.files)


def compared_ids(text: str) -> list[str]:
    """The runs that our part of the comparison names."""
    return COMPARED.findall(html.unescape(text))
