"""Our region of a page that people edit too: found by its marks, put in its place, and nothing else touched."""

from __future__ import annotations

from tipbench.publish.wiki import WikiError

Marks = tuple[str, str]
"""The lines that begin and end the region."""


class Damaged(WikiError):
    """A page's marks are not one beginning and one end after it, so nobody can say what is ours."""


def inside(text: str | None, marks: Marks, page: str) -> str | None:
    """Our region as it is in a page, without the marks; None where it has none. Raises Damaged.

    page: what an error calls it.
    """
    lines = _lines(text or "")
    found = _between(lines, marks, page)
    return None if found is None else "".join(lines[found[0] + 1 : found[1]])


def placed(text: str | None, marks: Marks, region: str, page: str) -> str:
    """The whole page with `region` in our place: where it stood, or below all else. Raises Damaged.

    A page that holds just this already comes back as it is, to the byte: blank ends of the region do not count,
    and neither does how its lines end, as wikis change both. A line of the region that looks like a mark is left out.
    """
    region = "".join(line for line in _lines(region) if line.strip() not in marks)
    ours = f"{marks[0]}\n{region.strip(NEWLINES)}\n{marks[1]}"
    if text is None:
        return f"{ours}\n"
    standing = inside(text, marks, page)
    if standing is None:
        above = text.rstrip()
        return f"{above}\n\n{ours}\n" if above else f"{ours}\n"
    if _as_shown(standing) == _as_shown(region):
        return text
    lines = _lines(text)
    begin, end = _between(lines, marks, page) or (0, 0)
    after = lines[end][len(lines[end].rstrip(NEWLINES)) :]
    return "".join([*lines[:begin], ours, after, *lines[end + 1 :]])


NEWLINES = "\r\n"


def _lines(text: str) -> list[str]:
    """The lines with their ends, at `\\n` alone: Python would part them at form feeds and the like too."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + parts[-1:]


def _as_shown(text: str) -> str:
    return text.replace("\r\n", "\n").strip(NEWLINES)


def _between(lines: list[str], marks: Marks, page: str) -> tuple[int, int] | None:
    begins, ends = ([number for number, line in enumerate(lines) if line.strip() == mark] for mark in marks)
    if not begins and not ends:
        return None
    if len(begins) == len(ends) == 1 and begins[0] < ends[0]:
        return begins[0], ends[0]
    raise Damaged(
        f'the page {page} holds {len(begins)} lines "{marks[0]}" and {len(ends)} lines "{marks[1]}" where one of each, '
        "in this order, is expected: correct them on the wiki, or delete all to have the region put below the rest"
    )
