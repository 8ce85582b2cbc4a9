"""From pages to what is written: those that differ from what the wiki has, and the tries until they are there."""

from __future__ import annotations

import difflib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tipbench.publish import index
from tipbench.publish.index import COMPARISON, Entry
from tipbench.publish.wiki import ROOT, Conflict, Page, Wiki, WikiError, unmarked
from tipbench.tip.wording import lines_of

TRIES = 8
"""Publishers that write at once come one after the other: each try that loses means that another one has won."""


@dataclass(frozen=True)
class Publication:
    """What is to be published.

    Attributes:
        runs: for each run its line in the index and its pages, in the order in which they are written.
        comparison: the page that compares runs; None to leave it as it is.
        compared: ids of the runs that it compares.
        fleets: pages of fleets, which nothing names.
    """

    runs: Sequence[tuple[Entry, Sequence[Page]]] = ()
    comparison: Page | None = None
    compared: frozenset[str] = frozenset()
    fleets: Sequence[Page] = ()


@dataclass(frozen=True)
class Change:
    """What is to be written to one page.

    Attributes:
        path: the page's.
        base: the page as the wiki has it; None where it has none.
        text: the whole page; equal to `base` where only files differ.
        files: those that the wiki lacks, or has with another content.
    """

    path: str
    base: str | None
    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)


def send(wiki: Wiki, publication: Publication) -> list[str]:
    """Write what differs, on top of what others write meanwhile. Returns the paths of the pages written; [] where the
    wiki has all of it. Raises WikiError; what was written before it stays, and sending again goes on from there."""
    written: dict[str, None] = {}
    attempt = 0
    while True:
        attempt += 1
        changes = plan(wiki, publication)
        try:
            for change in changes:
                for name, content in change.files.items():
                    wiki.attach(change.path, name, content)
                if change.text != change.base:
                    wiki.write(change.path, change.text, change.base)
                written[change.path] = None
            if changes:
                wiki.finish()
            return list(written)
        except Conflict as conflict:
            if attempt == TRIES:
                raise WikiError(f"{conflict}, {TRIES} times in a row: try again when fewer others publish") from None
            time.sleep(random.uniform(0, 0.2 * attempt))  # so that two do not go on meeting


def plan(wiki: Wiki, publication: Publication) -> list[Change]:
    """What is to be written now, in this order: pages of fleets, runs, comparison, machines, and the index.

    The comparison is left as it is where it holds runs that ours lacks: they are somebody else's. Raises WikiError,
    also where the wiki's index has another run in the place of one of these.
    """
    pages = list(publication.fleets)
    # Read once: what is written over must be what the runs of others were taken from.
    texts: dict[str, str | None] = {}
    if publication.runs:
        texts = {path: wiki.read(path) for path in (ROOT, COMPARISON)}
        published = index.entries(unmarked(texts[ROOT], wiki.mark, ROOT))
        ours = [entry for entry, _ in publication.runs]
        listed = index.merged(published, ours)
        _expect_places_of_their_own(ours, listed)
        pages += [page for _, of_run in publication.runs for page in of_run]
        there = index.compared_ids(unmarked(texts[COMPARISON], wiki.mark, COMPARISON))
        if publication.comparison is not None and publication.compared.issuperset(there):
            compared = [entry for entry in listed if entry.id in publication.compared]
            pages.append(index.comparison_page(publication.comparison, compared))
        ids = {entry.id for entry in ours}
        # A run may have been published under another name of its machine before.
        machines = dict.fromkeys(entry.machine for entry in (*listed, *published) if entry.id in ids)
        pages += [index.machine_page(name, listed) for name in machines]
        pages.append(index.index_page(listed, bool(there or publication.comparison)))
    changes = (_change(wiki, page, texts[page.path] if page.path in texts else wiki.read(page.path)) for page in pages)
    return [change for change in changes if change.text != change.base or change.files]


def compared_there(wiki: Wiki) -> list[str]:
    """Ids of the runs in the wiki's comparison; [] where it has none. Raises WikiError."""
    return index.compared_ids(unmarked(wiki.read(COMPARISON), wiki.mark, COMPARISON))


def published_there(wiki: Wiki) -> list[Entry]:
    """The runs in the wiki's index. Raises WikiError."""
    return index.entries(unmarked(wiki.read(ROOT), wiki.mark, ROOT))


def preview(changes: Sequence[Change]) -> Iterator[str]:
    """Exactly what would be sent, line by line: a diff of each page, and its files by name and size."""
    for change in changes:
        if change.text != change.base:
            before, after = lines_of(change.base or "").split("\n"), lines_of(change.text).split("\n")
            name, before = ("nothing", []) if change.base is None else (change.path, before)
            yield from difflib.unified_diff(before, after, name, change.path, lineterm="")
        for name, content in change.files.items():
            yield f"+++ {change.path}: image {name}, {len(content):,} bytes"


def _expect_places_of_their_own(ours: Sequence[Entry], listed: Sequence[Entry]) -> None:
    """Raises WikiError where one of our runs would be the page of another."""
    for entry in ours:
        for neighbour in listed:
            if neighbour.path == entry.path and neighbour.id != entry.id:
                raise WikiError(
                    f"two runs, {entry.id} and {neighbour.id}, would both be the page {entry.path}: publish one of "
                    "them with another --public-name"
                )


def _change(wiki: Wiki, page: Page, base: str | None) -> Change:
    """Line ends, and blank lines around the text, do not count: wikis change both."""
    new = wiki.render(page).strip()
    is_there = base is not None and unmarked(base, wiki.mark, page.path).replace("\r\n", "\n").strip() == new
    text = base if base is not None and is_there else f"{wiki.mark}\n{new}\n"
    files = {name: content for name, content in page.files.items() if not wiki.has(page.path, name, content)}
    return Change(page.path, base, text, files)
