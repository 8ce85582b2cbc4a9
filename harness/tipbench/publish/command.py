"""`tipbench publish`: from results files to a wiki."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from tipbench import compare
from tipbench.compare.comparison import Comparison
from tipbench.compare.stored import stored_run
from tipbench.publish.pages import pages_of_run
from tipbench.publish.redaction import Publication, redact
from tipbench.publish.send import plan, preview, send
from tipbench.publish.target import open_wiki, parse
from tipbench.publish.wiki import ROOT_PAGE, Page, WikiError
from tipbench.records import store
from tipbench.tip.wording import lines_of, plain, plural


def begin(to: str, files: Sequence[Path], dry_run: bool, flavour: str) -> int:
    """Publish runs, or show what would be sent, and return the exit code. Raises WikiError and `store.StoreError`.

    to: the target, see `tipbench.publish.target`. flavour: of a git wiki; "" to guess it from the host.
    """
    target = parse(to)
    for folder in filter(Path.is_dir, files):
        raise WikiError(
            f"{folder} is a folder: name results files; what is about a job of your own is not published: its "
            "advice.md is yours to send"
        )
    runs = {publication.run.id: publication for publication in map(_read, files)}.values()  # of one run the later file
    wiki = open_wiki(target, flavour)  # it may refuse, before anything is drawn
    of_runs = [page for run in runs for page in pages_of_run(run)]
    to_send = [*of_runs, *_comparison(runs)]
    if dry_run:
        changes = plan(wiki, to_send)
        for line in preview(changes):
            print(line)
        _say(f"dry run: {plural(len(changes), 'page')} would be written; nothing was sent")
        return 0
    written = send(wiki, to_send)
    for path in written:
        print(f"written: {path}")
    if not written:
        print("nothing to write: the wiki has all of it already")
    return 0


def _read(file: Path) -> Publication:
    """What may be published of a file. What stays here is named on stderr."""
    run, notices = store.read(file)
    if run.options.get("given"):
        raise store.StoreError(
            f"{file} is about a job of your own, and is not published; its advice.md is yours to send"
        )
    for notice in notices:
        _say(str(notice))
    publication = redact(run, notices)
    if withheld := publication.withheld:
        names = ", ".join(map(plain, withheld[:5])) + ", ..." * (len(withheld) > 5)
        left_out = (
            f"{plural(len(withheld), 'pair')} left out, as this suite has none of that name, or words its tip otherwise"
        )
        _say(f"{file}: {left_out}: {names}")
    if not publication.run.records:
        raise WikiError(f"{file}: no pair of the suite is finished in it, so there is nothing to publish")
    return publication


def _comparison(runs: Collection[Publication]) -> list[Page]:
    """The comparison of these runs, from two on, the newest first. Where a file lies stays here."""
    if len(runs) < 2:
        return []
    stored = []
    for publication in sorted(runs, key=lambda each: (each.run.started, each.run.id), reverse=True):
        name = Path(store.file_name(publication.run))
        notices = [replace(notice, file=name) for notice in publication.notices]
        stored.append(stored_run(name, publication.run, notices))
    notes = tuple(notice for each in stored for notice in each.notices)
    return [Page(f"{ROOT_PAGE}/Comparison", compare.markdown(Comparison(tuple(stored), notes)))]


def _say(text: str) -> None:
    print(f"tipbench: {lines_of(text)}", file=sys.stderr)
