"""Where the code of a pair is to be read: its file and line at the run's commit, on the web where that is known.

The repository's address is the one that the package's own metadata name (`Repository` among the URLs in
pyproject.toml). Git's `origin` would say it too, but it can hold a user's name or a token, and the same run would give
another page in every checkout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import PurePath
from urllib.parse import quote, urlsplit

from tipbench.records.record import PairInfo
from tipbench.report.cells import between
from tipbench.report.document import Line, Link, Literal, Span
from tipbench.suite.files import BENCHMARKS

BLOB = {"codeberg": "src/commit", "gitea": "src/commit", "forgejo": "src/commit"}
"""By a word in a host's name, what parts the repository from a commit there; "blob" elsewhere (GitHub, GitLab)."""


def code_places(commit: str, infos: Sequence[PairInfo], repository: str | None = None) -> Line:
    """The files of pairs and the lines at which they begin, as links where an address is known, and the commit.

    repository: its web address, empty for none; None for the one of the package's metadata.
    """
    lines: dict[str, dict[int, None]] = {}
    for info in infos:
        lines.setdefault(place_of(info.file), {})[info.line] = None
    spans: list[Span] = []
    for place, numbers in lines.items():
        spans += ["; "] if spans else []
        address = _address_at(commit, place, _repository() if repository is None else repository)
        spans.append(Link(place, address) if address else Literal(place))
        known = [number for number in numbers if number]
        spans += [f", line{'s' * (len(known) > 1)} "] if known else []
        listed = [Link(str(number), f"{address}#L{number}") if address else str(number) for number in known]
        spans += between(listed, ", ")
    at = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", commit)
    ours = any(_is_of_suite(place) for place in lines)
    spans += [f" (commit {at[1][:12]}{', with changes' * bool(at[2])})"] if at and ours else []
    return tuple(spans)


def _address_at(commit: str, place: str, repository: str) -> str:
    """Empty where no address leads to the file as it was."""
    if not repository or not _is_of_suite(place) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        return ""
    host = urlsplit(repository).hostname or ""
    between_them = next((found for word, found in BLOB.items() if word in host), "blob")
    return f"{repository.rstrip('/')}/{between_them}/{commit}/{quote(place)}"


def _is_of_suite(place: str) -> bool:
    return bool(re.fullmatch(r"benchmarks/[\w/-]{1,100}\.py", place)) and (BENCHMARKS.parent / place).is_file()


def place_of(file: str) -> str:
    """The file as the reader's checkout has it; of one from elsewhere only the name: paths are private."""
    path = PurePath(file)
    if "benchmarks" not in path.parts:
        return path.name
    return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index("benchmarks") :])


@cache
def _repository() -> str:
    """Empty where the package names no repository."""
    try:
        listed = metadata("tipbench").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = dict(url.split(", ", 1) for url in listed if ", " in url)
    found = named.get("Repository", "")
    return found if found.startswith(("https://", "http://")) else ""
