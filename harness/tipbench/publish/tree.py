"""The tree of pages: Benchmarks (the index of all runs), its machines, their runs, and the comparison.

The index is its own memory: within our region it holds one line a run, in a form that survives any wiki's markup.
Whoever publishes reads these lines back, puts his own among them and writes the page anew, so that runs published by
others, on other machines, stay.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from tipbench.publish.wiki import Path
from tipbench.records.record import Run
from tipbench.records.store import file_name
from tipbench.report.advice import ANSWERS, advise
from tipbench.report.document import Block, Bullets, Cell, Code, Folded, Heading, Link, Page, Paragraph, Table
from tipbench.report.effect import Effect, effect
from tipbench.report.rows import CONTROL, Row, counts, rows

ROOT = "Benchmarks"
INDEX: Path = (ROOT,)
COMPARISON: Path = (ROOT, "Comparison")

FIRST_ANSWERS = ("use it", "don't bother", "don't", "can't tell", "not possible here")
"""Those that lines have which were published until November 2026."""

LINE = re.compile(r"tipbench-run(?: [a-z]+=[A-Za-z0-9.:+_-]*)+")
"""A run in the index, wherever a wiki has put it: letters, digits and signs that no markup changes, but for writing
them as entities of HTML."""


@dataclass(frozen=True)
class Entry:
    """One run in the index. begun: ISO 8601, in UTC. noise: the widest interval of its A/A controls, `0.994..1.008`,
    empty where none was measured. answers: how many tips got each of `ANSWERS`, or of FIRST_ANSWERS, in that
    order, joined by "-"."""

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
    def path(self) -> Path:
        return (ROOT, self.machine, self.run)

    @property
    def evidence(self) -> Path:
        """Of the page below the run's, which holds what its answers rest on."""
        return (*self.path, "Evidence")

    def line(self) -> str:
        return " ".join(["tipbench-run", *(f"{field.name}={getattr(self, field.name)}" for field in fields(self))])


FORMS: Mapping[str, str] = {
    "id": r"[0-9a-f]{8,32}",
    "machine": r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*",
    "run": r"\d{4}-\d\d-\d\d-[0-9a-f]{8}",
    "begun": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
    "torch": r"[0-9A-Za-z.+]*",
    "device": r"[a-z]*",
    **dict.fromkeys(("measured", "skipped", "failed", "missing"), r"\d{1,6}"),
    "noise": r"(?:[0-9.]+)?",
    "answers": r"\d+(?:-\d+)*",
}
"""What each field of an Entry looks like: a line of any other form is not one of ours."""


def entry(run: Run, earlier: Sequence[Sequence[Effect]] = ()) -> Entry:
    """The run's line, of a run that `allowed` has let through. earlier: what earlier runs of the machine found, which
    its answers count too."""
    found, counted = rows(run), counts(run)
    answers = [given.kind for given in advise([*earlier, list(map(effect, found))])]
    device = next((record.info.device for record in run.records), str(run.options.get("device", "")))
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
        noise=_noise(found),
        answers="-".join(str(answers.count(answer)) for answer in ANSWERS),
    )


def _noise(found: Sequence[Row]) -> str:
    intervals = [
        (row.judgement.low, row.judgement.high)
        for row in found
        if row.tip == CONTROL and row.judgement.low is not None and row.judgement.high is not None
    ]
    if not intervals:
        return ""
    low, high = max(intervals, key=lambda interval: interval[1] - interval[0])
    return f"{low:.3f}..{high:.3f}"


def entries(region: str | None) -> list[Entry]:
    """The runs that our region of the index names, in its order; lines of another form are none."""
    found = []
    for line in LINE.findall(html.unescape(region or "")):
        fields = dict(word.split("=", 1) for word in line.split()[1:])
        if fields.keys() == FORMS.keys() and all(re.fullmatch(form, fields[name]) for name, form in FORMS.items()):
            found.append(Entry(**fields))
    return found


def merged(known: Iterable[Entry], ours: Iterable[Entry]) -> list[Entry]:
    """All runs, newest first; ours in the place of what was known of the same run."""
    by_id = {found.id: found for found in (*known, *ours)}
    return sorted(by_id.values(), key=lambda found: (found.begun, found.id), reverse=True)


def index(listed: Sequence[Entry], comparison: bool) -> Page:
    """comparison: whether there is a page of it."""
    machines = dict.fromkeys(found.machine for found in listed)
    blocks: list[Block] = [
        Paragraph(("Which PyTorch tuning tips pay, measured on the machines of this team with tipbench.",)),
        *(
            [
                Paragraph((Link("All of them compared", "/".join(COMPARISON)), ".")),
            ]
            if comparison
            else []
        ),
        Heading("Runs, newest first"),
        Table("runs", HEAD, tuple(map(_row, listed))),
        Paragraph((NOISE,)),
        Heading("Machines"),
        Bullets(tuple((Link(name, f"{ROOT}/{name}"),) for name in machines)),
        Folded("The same for tipbench, which reads it back", (Code("\n".join(found.line() for found in listed)),)),
    ]
    return Page("PyTorch tuning tips: benchmarks", tuple(blocks))


HEAD = ("run", "machine", "torch", "device", "pairs", "tips", "noise floor")

NOISE = (
    "Noise floor: the widest interval of the run's A/A controls, whose both sides are identical code. Effects of that "
    "run that lie within it are not to be relied on."
)


def _row(found: Entry) -> tuple[Cell, ...]:
    pairs = f"{found.measured} measured, {found.skipped} skipped, {found.failed} failed"
    pairs += f", {found.missing} not reached" if found.missing != "0" else ""
    counts = found.answers.split("-")
    words = {len(ANSWERS): ANSWERS, len(FIRST_ANSWERS): FIRST_ANSWERS}.get(len(counts), ())
    tips = ", ".join(f"{count} {answer}" for count, answer in zip(counts, words, strict=False) if count != "0")
    low, _, high = found.noise.partition("..")
    return (
        Cell((Link(found.run, "/".join(found.path)),)),
        Cell((Link(found.machine, f"{ROOT}/{found.machine}"),)),
        Cell((found.torch or "-",)),
        Cell((found.device or "-",)),
        Cell((pairs,)),
        Cell((tips or "-",)),
        Cell((f"[{low}, {high}]x" if high else "unknown",)),
    )


def machine(name: str, listed: Sequence[Entry]) -> Page:
    """A machine's runs. Nothing here depends on what was measured, so a run measured further leaves it as it is."""
    items = tuple(
        (Link(found.run, "/".join(found.path)), f", begun {found.begun}, torch {found.torch or 'unknown'}")
        for found in listed
        if found.machine == name
    )
    blocks = (
        Paragraph(("Runs of this machine, newest first. ", Link("All runs of all machines", ROOT), ".")),
        Bullets(items),
    )
    return Page(f"PyTorch tuning tips on {name}", blocks)


COMPARED = re.compile(r"tipbench-compared ([0-9a-f]{8,32})")


def comparison(compared: Page, listed: Iterable[Entry]) -> Page:
    """The comparison with its runs: linked, and by id, so that nobody who lacks one writes it anew without it.

    listed: the runs that are compared.
    """
    runs = tuple(listed)
    links = tuple((Link(found.run, "/".join(found.path)), f" of {found.machine}") for found in runs)
    lines = "\n".join(f"tipbench-compared {found.id}" for found in runs)
    for_tipbench = Folded("The same for tipbench, which reads it back", (Code(lines),))
    return Page(compared.title, (*compared.blocks, Heading("The runs"), Bullets(links), for_tipbench))


def compared_ids(region: str | None) -> list[str]:
    """The runs that our region of the comparison names."""
    return COMPARED.findall(html.unescape(region or ""))
