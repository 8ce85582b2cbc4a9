"""Thousands of stored runs, made up from one, and how long some of them take to be found and compared.

`python -m tests.many_runs 10000 DIR [--like FILE] [--pairs N]` writes that many runs beneath DIR, unless they are
there, each with the first N pairs of FILE (by default all of tests/golden/run.jsonl) and an id, a day and a
machine of its own. It prints what `tipbench compare` takes, Python's start included, for two runs and for fifty,
named by the beginnings of their ids.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from tipbench.records.json_line import parsed

GOLDEN = Path(__file__).parent / "golden" / "run.jsonl"

MACHINES = 20


def write(count: int, folder: Path, like: Path, pairs: int | None) -> list[str]:
    """The ids of the runs beneath `folder`, which are written where they are not there."""
    header, *lines = like.read_bytes().splitlines()
    about = parsed(header)
    kept = list(dict.fromkeys(json.loads(line)["pair"] for line in lines))[:pairs]
    lines = [re.sub(rb',"crc32":\d+}$', b"}", line) for line in lines]  # each run has another id
    body = b"".join(line + b"\n" for line in lines if json.loads(line)["pair"] in kept)
    first_id = about["id"].encode()
    numbers = random.Random(0)
    ids = []
    for index in range(count):
        about["id"] = f"{numbers.getrandbits(128):032x}"
        about["started"] = f"2026-{1 + index % 12:02}-{1 + index % 28:02}T09:{index % 60:02}:00+00:00"
        model = f"Made Up {index % MACHINES}"
        about["machine"] = {**about["machine"], "name": f"made-up-{index % MACHINES}-2c-24g", "cpu": model}
        path = folder / about["machine"]["name"] / f"{about['started'][:10]}-{about['id'][:8]}.jsonl"
        ids.append(about["id"])
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            own = body.replace(b'"run":"%b"' % first_id, b'"run":"%b"' % about["id"].encode())
            path.write_bytes(json.dumps(about, separators=(",", ":")).encode() + b"\n" + own)
    return ids


def seconds(runs: list[str], folder: Path) -> float:
    """Wall time of one `tipbench compare`."""
    command = [sys.executable, "-m", "tipbench", "compare", "--results", str(folder), *(run[:12] for run in runs)]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--like", type=Path, default=GOLDEN)
    parser.add_argument("--pairs", type=int)
    options = parser.parse_args()
    ids = write(options.count, options.folder, options.like, options.pairs)
    sizes = [file.stat().st_size for file in options.folder.rglob("*.jsonl")]
    print(f"{len(sizes)} runs of {sum(sizes) / len(sizes) / 1024:.1f} KiB, {sum(sizes) / (1 << 20):.0f} MiB in all")
    print(f"two runs by their ids: {seconds(ids[:2], options.folder):.2f} s")
    print(f"fifty: {seconds(ids[2:52], options.folder):.2f} s")


if __name__ == "__main__":
    main()
