"""From runs to what is written: the pages that differ from what the wiki has, and the tries until they are there."""

from __future__ import annotations

import difflib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tipbench.publish import tree
from tipbench.publish.region import inside, placed
from tipbench.publish.wiki import Change, Conflict, Path, Stored, Wiki, WikiError, WikiPage
from tipbench.report.document import Page
from tipbench.report.wording import lines_of

TRIES = 8
"""Publishers that write at once come one after the other: each try that loses means that another one has won."""


@dataclass(frozen=True)
class Published:
    """A run ready to be sent. images: PNG files of its page by name with ending. below: the page that holds its
    evidence."""

    entry: tree.Entry
    page: Page
    images: Mapping[str, bytes] = field(default_factory=dict)
    below: WikiPage | None = None

    @property
    def pages(self) -> Iterator[WikiPage]:
        """Of the run, in the order in which they are written: what is linked comes first."""
        yield from [self.below] if self.below else []
        yield WikiPage(self.entry.path, self.page, self.images)


@dataclass(frozen=True)
class Compared:
    """The comparison page, and the ids of the runs that it compares."""

    ids: tuple[str, ...]
    page: Page
    images: Mapping[str, bytes] = field(default_factory=dict)


def send(
    wiki: Wiki, runs: Sequence[Published], compared: Compared | None = None, own: Sequence[WikiPage] = ()
) -> list[Change]:
    """Write what differs, on top of what others write meanwhile. Returns what was written; [] where the wiki has
    all of it already. Raises WikiError; what was written before it stays, and sending again goes on from there."""
    written: dict[Path, Change] = {}
    for tried in range(1, TRIES + 1):
        changes = plan(wiki, runs, compared, own)
        written |= {change.path: change for change in changes}
        try:
            if changes:
                wiki.write(changes, _summary(runs, own))
            return list(written.values())
        except Conflict as conflict:
            if tried == TRIES:
                raise WikiError(f"{conflict}, {TRIES} times in a row: try again when fewer others publish") from None
            time.sleep(random.uniform(0, 0.2 * tried))  # so that two do not go on meeting
    raise AssertionError("unreachable")


def plan(
    wiki: Wiki, runs: Sequence[Published], compared: Compared | None = None, own: Sequence[WikiPage] = ()
) -> list[Change]:
    """What is to be written now, in this order: runs, comparison, machines, and the index, which names them all. Before
    these come pages of a person's own jobs, which nothing names.

    The comparison is left as it is where it holds runs that `compared` lacks: they are somebody else's. Raises
    WikiError, also where the wiki's index has another run in the place of one of these.
    """
    changes = [_change(wiki, page) for page in own]
    if not runs:
        return [change for change in changes if change is not None]
    # Read once: what is written over must be what the runs of others were taken from.
    index, comparison = wiki.read(tree.INDEX), wiki.read(tree.COMPARISON)
    known = _entries(wiki, index)
    listed = tree.merged(known, [found.entry for found in runs])
    _expect_places_of_their_own([found.entry for found in runs], listed)
    changes += [_change(wiki, page) for found in runs for page in found.pages]
    held = _compared(wiki, comparison)
    if compared is not None and set(held) <= set(compared.ids):
        page = tree.comparison(compared.page, [found for found in listed if found.id in compared.ids])
        changes.append(_change(wiki, WikiPage(tree.COMPARISON, page, compared.images), comparison))
    ours = {found.entry.id for found in runs}
    # A run may have been published under another name of its machine before.
    machines = dict.fromkeys(found.machine for found in (*listed, *known) if found.id in ours)
    changes += [_change(wiki, WikiPage((tree.ROOT, name), tree.machine(name, listed))) for name in machines]
    changes.append(_change(wiki, WikiPage(tree.INDEX, tree.index(listed, bool(held or compared))), index))
    return [change for change in changes if change is not None]


def compared_there(wiki: Wiki) -> list[str]:
    """Ids of the runs in the wiki's comparison; [] where it has none. Raises WikiError."""
    return _compared(wiki, wiki.read(tree.COMPARISON))


def known_there(wiki: Wiki) -> list[tree.Entry]:
    """The runs in the wiki's index. Raises WikiError."""
    return _entries(wiki, wiki.read(tree.INDEX))


def _entries(wiki: Wiki, index: Stored) -> list[tree.Entry]:
    return tree.entries(inside(index.text, wiki.marks, tree.ROOT))


def _compared(wiki: Wiki, comparison: Stored) -> list[str]:
    return tree.compared_ids(inside(comparison.text, wiki.marks, "/".join(tree.COMPARISON)))


def preview(changes: Sequence[Change]) -> Iterator[str]:
    """Exactly what would be sent, line by line: a diff of each page, and its images by name and size."""
    for change in changes:
        key = "/".join(change.path)
        if change.text is not None:
            before, after = lines_of(change.before.text or "").split("\n"), lines_of(change.text).split("\n")
            was = "nothing" if change.before.text is None else key
            yield from difflib.unified_diff([] if was == "nothing" else before, after, was, key, lineterm="")
        for name, content in change.images.items():
            yield f"+++ {key}: image {name}, {len(content):,} bytes"


def _summary(runs: Sequence[Published], own: Sequence[WikiPage]) -> str:
    if not runs:
        return f"tipbench: {', '.join(page.key for page in own)}"
    if len(runs) == 1:
        return f"tipbench: the run {runs[0].entry.run} of {runs[0].entry.machine}"
    return f"tipbench: {len(runs)} runs"


def _expect_places_of_their_own(ours: Sequence[tree.Entry], listed: Sequence[tree.Entry]) -> None:
    """Raises WikiError where one of our runs would be the page of another."""
    for found in ours:
        for other in listed:
            if other.path == found.path and other.id != found.id:
                raise WikiError(
                    f"two runs, {found.id} and {other.id}, would both be the page {'/'.join(found.path)}: "
                    "publish one of them with another --public-name"
                )


def _change(wiki: Wiki, page: WikiPage, stored: Stored | None = None) -> Change | None:
    """stored: the page as it was read already. None where the wiki has it so."""
    stored = stored or wiki.read(page.path)
    text = placed(stored.text, wiki.marks, wiki.render(page), page.key)
    images = {name: content for name, content in page.images.items() if not wiki.has_image(page.path, name, content)}
    if text == stored.text and not images:
        return None
    return Change(page.path, stored, None if text == stored.text else text, images)
