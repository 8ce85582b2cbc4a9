"""Counts lines, for `make lint`: none of the folders may have more than `pyproject.toml` says.

A merge that removes lines lowers these numbers; what adds some removes as many elsewhere.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HOME = Path(__file__).parent.parent


def main() -> int:
    project = tomllib.loads((HOME / "pyproject.toml").read_text())
    over = []
    for folder, most in project["tool"]["lines"].items():
        files = [file for file in (HOME / folder).rglob("*.py") if "__pycache__" not in file.parts]
        lines = sum(len(file.read_text().splitlines()) for file in files)
        print(f"{folder}: {lines:,} lines of at most {most:,}, in {len(files)} files")
        over += [folder] if lines > most else []
    print(f"{len(project['project']['dependencies'])} direct dependencies")
    if over:
        print(f"too many lines in {', '.join(over)}: remove as many as the change adds, or lower what it needs")
    return len(over)


if __name__ == "__main__":
    sys.exit(main())
