"""Our part of a page that people edit too: found by its marks and written whole; nothing else is touched."""

from __future__ import annotations

from tipbench.publish.wiki import WikiError


class Unmarked(WikiError):
    """A page has no marks, or damaged ones, so nobody can say what is ours."""


def inside(text: str | None, marks: tuple[str, str], page: str) -> str:
    """Our part as it is in a page, without the marks; "" where there is no page. Raises Unmarked."""
    if not (text or "").strip():
        return ""
    lines = _lines(text or "")
    begin, end = _between(lines, marks, page)
    return "".join(lines[begin + 1 : end])


def placed(text: str | None, marks: tuple[str, str], part: str, page: str) -> str:
    """The whole page with `part` in our place. Raises Unmarked.

    A page that holds just this already comes back as it is, to the byte: line ends and blank lines around the part do
    not count, as wikis change both. A line of the part that looks like a mark is left out.
    """
    part = "".join(line for line in _lines(part) if line.strip() not in marks)
    ours = f"{marks[0]}\n{part.strip(NEWLINES)}\n\n{marks[1]}"
    if text is None or not text.strip():
        return f"{ours}\n"
    lines = _lines(text)
    begin, end = _between(lines, marks, page)
    if _comparable("".join(lines[begin + 1 : end])) == _comparable(part):
        return text
    line_end = lines[end][len(lines[end].rstrip(NEWLINES)) :]
    return "".join([*lines[:begin], ours, line_end, *lines[end + 1 :]])


NEWLINES = "\r\n"


def _lines(text: str) -> list[str]:
    """The lines with their ends, at `\\n` alone: Python would part them at form feeds and the like too."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + parts[-1:]


def _comparable(text: str) -> str:
    return text.replace("\r\n", "\n").strip(NEWLINES)


def _between(lines: list[str], marks: tuple[str, str], page: str) -> tuple[int, int]:
    begins, ends = ([number for number, line in enumerate(lines) if line.strip() == mark] for mark in marks)
    if len(begins) == len(ends) == 1 and begins[0] < ends[0]:
        return begins[0], ends[0]
    if not begins and not ends:
        raise Unmarked(
            f"the page {page} exists and was not written by tipbench, so it is left alone: rename or delete it, or put "
            f"these two lines where tipbench's part is to go, then publish again:\n{marks[0]}\n{marks[1]}"
        )
    raise Unmarked(
        f'the page {page} holds {len(begins)} lines "{marks[0]}" and {len(ends)} lines "{marks[1]}" where one of each, '
        "in this order, is expected: correct them on the wiki, then publish again"
    )
