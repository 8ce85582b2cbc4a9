"""Where the code of a pair is to be read: its file and line at the run's commit, on the web where that is known.

The repository's address is the one that the package's own metadata name (`Repository` among the URLs in
pyproject.toml). Git's `origin` would say it too, but it can hold a user's name or a token, and the same run would give
another page in every checkout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import PurePath
from urllib.parse import quote, urlsplit

from tipbench.suite.files import BENCHMARKS

BLOB = {"codeberg": "src/commit", "gitea": "src/commit", "forgejo": "src/commit"}
"""By a word in a host's name, what parts the repository from a commit there; "blob" elsewhere (GitHub, GitLab)."""


@dataclass(frozen=True)
class Place:
    """A file with code of pairs.

    Attributes:
        file: as the reader's checkout has it; of a file from elsewhere only its name.
        lines: at which the pairs begin.
        address: of the file at the run's commit, empty where it is not on the web.
    """

    file: str
    lines: tuple[int, ...]
    address: str


@dataclass(frozen=True)
class Code:
    """Files with code, and the commit they are from, such as `commit 0123456789ab`; empty where none is known."""

    places: tuple[Place, ...]
    commit: str


def code_of(commit: str, pairs: Iterable[tuple[str, int]], repository: str | None = None) -> Code:
    """pairs: file and line, 0 for an unknown one, of each. repository: its web address, empty for none; None for the
    one of the package's metadata."""
    lines: dict[str, dict[int, None]] = {}
    for file, line in pairs:
        lines.setdefault(place_of(file), {}).update({line: None} if line else {})
    web = _repository() if repository is None else repository
    places = tuple(Place(file, tuple(numbers), _address_at(commit, file, web)) for file, numbers in lines.items())
    match = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", commit)
    is_of_suite = match is not None and any(_is_of_suite(file) for file in lines)
    words = f"commit {match[1][:12]}{', with changes' * bool(match[2])}" if match and is_of_suite else ""
    return Code(places, words)


def place_of(file: str) -> str:
    """The file as the reader's checkout has it; of one from elsewhere only the name: paths are private."""
    path = PurePath(file)
    if "benchmarks" not in path.parts:
        return path.name
    return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index("benchmarks") :])


def _address_at(commit: str, file: str, repository: str) -> str:
    """Empty where no address leads to the file as it was."""
    if not repository or not _is_of_suite(file) or not re.fullmatch(r"[0-9a-f]{40}", commit):
        return ""
    host = urlsplit(repository).hostname or ""
    blob = next((path for word, path in BLOB.items() if word in host), "blob")
    return f"{repository.rstrip('/')}/{blob}/{commit}/{quote(file)}"


def _is_of_suite(file: str) -> bool:
    return bool(re.fullmatch(r"benchmarks/[\w/-]{1,100}\.py", file)) and (BENCHMARKS.parent / file).is_file()


@cache
def _repository() -> str:
    """Empty where the package names no repository."""
    try:
        urls = metadata("tipbench").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = dict(url.split(", ", 1) for url in urls if ", " in url)
    address = named.get("Repository", "")
    return address if address.startswith(("https://", "http://")) else ""
