"""From pages to what is written: those that differ from what the wiki has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from tipbench.publish.wiki import MARK, Page, Wiki, WikiError
from tipbench.tip.wording import lines_of


def plan(wiki: Wiki, pages: Sequence[Page]) -> list[Page]:
    """The pages that are to be written now, in the wiki's markup and with the mark. Raises WikiError where a page is
    not ours."""
    changes = []
    for page in pages:
        text = wiki.render(page).strip()
        held = sha256(text.encode())
        for name, content in sorted(page.files.items()):
            held.update(name.encode() + content)
        mark = wiki.mark.format(digest=held.hexdigest()[:16])
        there = (wiki.read(page.path) or "").lstrip()
        if there and not there.startswith(wiki.mark.partition(MARK)[0] + MARK):
            raise WikiError(
                f"the page {page.path} exists and does not begin as tipbench's pages do, so it is left alone: rename "
                "or delete it, then publish again; a page of your own can link to those of tipbench"
            )
        if not there.startswith(mark):
            changes.append(replace(page, text=f"{mark}\n\n{text}\n"))
    return changes


def send(wiki: Wiki, pages: Sequence[Page]) -> list[str]:
    """Write what differs. Returns the paths of the pages written; [] where the wiki has all of it. Raises WikiError;
    what was written before it stays, and sending again goes on from there."""
    changes = plan(wiki, pages)
    for change in changes:
        for name, content in change.files.items():
            wiki.attach(change.path, name, content)
        wiki.write(change.path, change.text)  # after its files, as it names their digest
    if changes:
        wiki.finish()
    return [change.path for change in changes]


def preview(changes: Sequence[Page]) -> Iterator[str]:
    """Exactly what would be sent, line by line: each page, and its files by name and size."""
    for change in changes:
        yield f"==== {change.path}"
        yield lines_of(change.text)
        for name, content in change.files.items():
            yield f"==== {change.path}: image {name}, {len(content):,} bytes"
