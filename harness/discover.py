"""Finds the pairs in a folder: no registry, no list to edit. A pair is a class in a file with a TIP.

The files are imported in a process of their own, because a file may do anything at import: what
breaks there becomes a failed record of that file, and the rest is still found.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harness.controls import cleaned
from harness.orphans import die_with_parent
from harness.record import PairInfo, Record, VariantInfo
from harness.source import sides

if TYPE_CHECKING:
    from harness.needs import Need
    from harness.pair import Pair

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

IMPORT_DEADLINE = 120.0
"""Seconds that importing all files of a folder may take."""


@dataclass(frozen=True)
class Discovery:
    """What a folder holds: its pairs in the guide's order, and a failed record of each broken file.

    threads: torch's default number of threads on this machine. torch: its version. device: the
    device that "auto" came to.
    """

    pairs: tuple[PairInfo, ...]
    broken: tuple[Record, ...]
    threads: int
    torch: str
    device: str


class NoFolder(RuntimeError):
    """The folder to take pairs from does not exist, or holds none."""


class NoTorch(RuntimeError):
    """torch cannot be imported, or the wanted device is not there; the message says which."""


def pair_files(folder: Path) -> list[Path]:
    """Files that hold a tip, controls first, then in the guide's order of chapters.

    Raises NoFolder where the folder does not exist or holds no such file.
    """
    if not folder.exists():
        raise NoFolder(f"{folder} does not exist")
    if folder.is_file():
        return [folder]
    chapters = ["general", "cpu", "gpu", "distributed", "training", "modern"]
    files = [file for file in folder.rglob("*.py") if "TIP" in file.read_text(errors="replace")]

    def position(file: Path) -> tuple[int, str]:
        chapter = file.relative_to(folder).parts[0]
        return (chapters.index(chapter) if chapter in chapters else -1, str(file))

    if not files:
        raise NoFolder(f"no pairs in {folder}: a file of pairs has a TIP and classes derived from Pair")
    return sorted(files, key=position)


def discover(folder: Path, device: str = "auto", nodes: int = 1) -> Discovery:
    """Import every file of `folder` in a process of its own and describe its pairs for `device`.

    nodes: how many machines the ranks are spread over.

    Raises NoFolder, and NoTorch where nothing could run.
    """
    files = pair_files(folder)
    broken: list[Record] = []
    with tempfile.TemporaryDirectory(prefix=f"tipbench-{os.getpid()}-") as scratch:
        while True:
            answers, output, ending = _describe(folder, files, device, nodes, Path(scratch))
            if answers and "unusable" in answers[0]:
                raise NoTorch(answers[0]["unusable"])
            if answers and "finished" in answers[-1]:
                break
            if len(answers) < 2:
                raise NoTorch(f"torch cannot be imported by {sys.executable} ({ending}): {output}")
            # The process died in this file; the others get another try without it.
            file = Path(answers[-1]["importing"])
            broken.append(_broken(file, device, f"{file.name}: the process {ending} while importing it"))
            files.remove(file)
    pairs = [PairInfo.from_json(pair) for answer in answers for pair in answer.get("pairs", ())]
    broken += [_broken(Path(answer["file"]), device, answer["error"]) for answer in answers if "error" in answer]
    about = answers[0]
    return Discovery(tuple(pairs), tuple(broken), about["threads"], about["torch"], about["device"])


def _describe(
    folder: Path, files: Sequence[Path], device: str, nodes: int, scratch: Path
) -> tuple[list[dict[str, Any]], str, str]:
    """(answers, last lines of output, how the process ended)."""
    answered, log = scratch / "answers.jsonl", scratch / "output"
    answered.write_text("")
    command = [sys.executable, "-m", "harness.discover", device, str(nodes), str(folder), str(answered)]
    command += map(str, files)
    with log.open("wb") as output:
        # Its own session: what a file starts at import ends with it.
        process = subprocess.Popen(
            command,
            env=cleaned(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(IMPORT_DEADLINE)
            ending = f"ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"
        except subprocess.TimeoutExpired:
            ending = f"came to no end in {IMPORT_DEADLINE:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = answered.read_text().splitlines()
    return [json.loads(line) for line in lines], " ".join(log.read_text(errors="replace").split("\n")[-3:]), ending


def _broken(file: Path, device: str, reason: str) -> Record:
    tip = {"id": file.stem.replace("_", "-"), "title": file.name, "guide": [], "claim": "", "published": ""}
    info = PairInfo(
        tip={**tip, "status": "", "note": ""},
        pair="",
        scale="",
        file=file.name,
        line=0,
        device=device,
        sizes={},
        equal="",
        deadline=0.0,
        variants=(),
    )
    return Record(info, "failed", "import error", reason, f"mend {file.name}")


# ---- below: the process that imports the files ------------------------------------------------------


def load(file: Path, folder: Path) -> ModuleType:
    """Import a pair file. Files of `benchmarks/` by their package name, others by their path."""
    if folder.is_dir() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    inside = file.is_relative_to(BENCHMARKS)
    name = ".".join(file.relative_to(BENCHMARKS.parent).with_suffix("").parts) if inside else f"pairs_{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def pair_classes(module: ModuleType) -> list[type[Pair]]:
    """The pairs a file defines itself, in its order. A name with a leading underscore is a shared base."""
    from harness.pair import Pair

    return [
        member
        for name, member in vars(module).items()
        if inspect.isclass(member)
        and issubclass(member, Pair)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    ]


def explain(error: BaseException, file: Path) -> str:
    """`Type: message (file, line N)` with the innermost line inside `file`."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{type(error).__name__}: {error.msg} ({file.name}, line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f" ({file.name}, line {lines[-1]})" if lines else f" ({file.name})"
    message = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}{': ' if message else ''}{message}{place}"


def _info(pair: type[Pair], tip: Any, file: Path, root: Path, device: str, nodes: int) -> PairInfo:
    from harness.needs import gpu
    from harness.pair import variants

    reason, remedy = _unmet(pair.needs)
    if not reason and device not in pair.devices:
        reason, remedy = f"runs on {' or '.join(pair.devices)}, not on {device}", f"--device {pair.devices[0]}"
    ranks = max(variant.surroundings.ranks for variant in variants(pair))
    if not reason and nodes > 1 and ranks == 1 and tip.id != "control":
        reason, remedy = "has no ranks, so nothing of it would run on other nodes", "run it without --nnodes"
    if not reason and device == "cuda" and ranks > 1:
        reason, remedy = _unmet((gpu(-(-ranks // nodes)),))  # each rank has one of its own
    listed = []
    for variant in variants(pair):
        missing = _unmet(variant.needs)
        ranks = variant.surroundings.ranks
        if not any(missing) and ranks > 1 and ranks % nodes:
            missing = f"{ranks} ranks cannot be shared out evenly among {nodes} nodes", "run it with another --nnodes"
        needs = tuple(need.text for need in variant.needs)
        listed.append(VariantInfo(variant.name, variant.surroundings, needs, *missing))
    return PairInfo(
        tip=asdict(tip),
        pair=pair.__name__,
        scale=pair.scale,
        file=str(file.relative_to(root)),
        line=inspect.getsourcelines(pair)[1],
        device=device,
        sizes=pair.sizes_on(device),
        equal=str(pair.equal),
        deadline=pair.deadline,
        variants=tuple(listed),
        needs=tuple(need.text for need in pair.needs),
        reason=reason,
        remedy=remedy,
        cold=pair.cold and device == "cuda",
        code=sides(file.read_text(), pair.__name__),
    )


def _unmet(needs: Sequence[Need]) -> tuple[str, str]:
    """(reason, remedy) of the first need that is not met; two empty words where all are."""
    for need in needs:
        missing = need.unmet()
        if missing is not None:
            return missing.reason, missing.remedy
    return "", ""


def main(device: str, nodes: str, folder: str, answered: str, *files: str) -> None:
    """Write one JSON line a file to `answered`: {"file", "pairs"} or {"file", "error"}."""
    with Path(answered).open("w") as out:

        def answer(**fields: Any) -> None:
            print(json.dumps(fields), file=out, flush=True)

        import torch

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda" and not torch.cuda.is_available():
            answer(unusable="--device cuda: torch finds no CUDA GPU here; run `tipbench doctor`")
            return
        answer(threads=torch.get_num_threads(), torch=torch.__version__, device=device)
        for name in files:
            file = Path(name)
            answer(importing=name)
            try:
                module = load(file, Path(folder))
                if not hasattr(module, "TIP"):
                    continue
                root = BENCHMARKS if file.is_relative_to(BENCHMARKS) else Path(folder)
                pairs = [
                    _info(pair, module.TIP, file, root.parent, device, int(nodes)).to_json()
                    for pair in pair_classes(module)
                ]
                answer(file=name, pairs=pairs)
            except BaseException as error:  # a pair file may raise anything, SystemExit included
                answer(file=name, error=explain(error, file))
        answer(finished=True)


if __name__ == "__main__":
    die_with_parent()
    main(*sys.argv[1:])
