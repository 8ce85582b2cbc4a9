"""`tipbench publish`: from results files to a wiki."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tipbench.compare.comparison import Comparison
from tipbench.compare.inputs import LEAST_RUNS, MOST_RUNS
from tipbench.compare.stored import StoredRun
from tipbench.publish import pages
from tipbench.publish.allowed import Allowed, redact
from tipbench.publish.send import plan, preview, send
from tipbench.publish.target import open_wiki, parse
from tipbench.publish.wiki import Conflict, Page, WikiError
from tipbench.records import store
from tipbench.records.listing import is_reference
from tipbench.records.record import Run
from tipbench.report.results import results as results_of
from tipbench.tip.wording import lines_of, plain, plural

_TRIES = 3
"""Publications to one git wiki at the same time come one after the other."""


@dataclass(frozen=True)
class PublishOptions:
    """The options of the command.

    Attributes:
        to: the target, see `tipbench.publish.target`.
        files: of runs.
        dry_run: whether to show what would be sent, and send nothing.
        flavour: of a git wiki; "" to guess it from the host.
    """

    to: str
    files: Sequence[Path]
    dry_run: bool = False
    flavour: str = ""


def begin(options: PublishOptions) -> int:
    """Publish, or show what would be. Returns the exit code; raises WikiError and `store.StoreError`."""
    target = parse(options.to)
    for folder in filter(Path.is_dir, options.files):
        raise WikiError(
            f"{folder} is a folder: name results files; what is about a job of your own is not published: its "
            "advice.md is yours to send"
        )
    runs = _runs(options.files)
    wiki = open_wiki(target, options.flavour)  # it may refuse, before anything is drawn
    of_runs = [page for run in runs for page in pages.pages_of_run(run)]
    to_send = [*of_runs, *_comparison(runs)]
    if options.dry_run:
        changes = plan(wiki, to_send)
        for line in preview(changes):
            print(line)
        _say(f"dry run: {plural(len(changes), 'page')} would be written; nothing was sent")
        return 0
    for left in reversed(range(_TRIES)):
        try:
            written = send(wiki, to_send)
            break
        except Conflict:
            if not left:
                raise
            wiki = open_wiki(target, options.flavour)
    for path in written:
        print(f"written: {path}")
    if not written:
        print("nothing to write: the wiki has all of it already")
    return 0


def _runs(files: Sequence[Path]) -> list[Allowed]:
    """The runs as they may be published, each once. Raises WikiError where files differ of one run."""
    by_id: dict[str, tuple[Path, Allowed]] = {}
    for file in files:
        read = _read(file)
        first, publication = by_id.setdefault(read.run.id, (file, read))
        if publication.run != read.run:
            raise WikiError(f"{first} and {file} hold different things under the run id {read.run.id}: leave one out")
    return [publication for _, publication in by_id.values()]


def _read(file: Path) -> Allowed:
    """What may be published of a file. What stays here is named on stderr."""
    run, notices = store.read(file)
    if run.options.get("given"):
        raise store.StoreError(
            f"{file} is about a job of your own, and is not published; its advice.md is yours to send"
        )
    for notice in notices:
        _say(str(notice))
    publication = _allowed(file, run, notices)
    if withheld := publication.withheld:
        names = ", ".join(map(plain, withheld[:5])) + ", ..." * (len(withheld) > 5)
        left_out = (
            f"{plural(len(withheld), 'pair')} left out, as this suite has none of that name, or words its tip otherwise"
        )
        _say(f"{file}: {left_out}: {names}")
    if not publication.run.records:
        raise WikiError(f"{file}: no pair of the suite is finished in it, so there is nothing to publish")
    return publication


def _allowed(file: Path, run: Run, notices: Sequence[store.Notice]) -> Allowed:
    """What may be published of the run in this file, with what tells here of which machine it is."""
    return replace(redact(run, notices), folder=file.absolute().parent, reference=is_reference(file))


def _comparison(runs: Sequence[Allowed]) -> list[Page]:
    """The comparison of these runs, from two on."""
    newest = sorted(runs, key=lambda run: (run.run.started, run.run.id), reverse=True)[:MOST_RUNS]
    if len(newest) < LEAST_RUNS:
        return []
    stored = tuple(map(_as_stored, newest))
    notices = tuple(notice for each in stored for notice in each.notices)
    return [pages.page_of_comparison(Comparison(stored, notices))]


def _as_stored(publication: Allowed) -> StoredRun:
    run = publication.run
    notices = tuple(f"{store.file_name(run)}, line {notice.line}: {notice.text}" for notice in publication.notices)
    return StoredRun(
        publication.folder / store.file_name(run),
        replace(run, records=()),
        len(run.records),
        tuple(results_of(run)),
        notices,
        publication.reference,
    )


def _say(text: str) -> None:
    print(f"tipbench: {lines_of(text)}", file=sys.stderr)
