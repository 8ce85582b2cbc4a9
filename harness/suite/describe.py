"""The process that imports files of pairs and describes what they hold; started by `discover`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tipbench.machine import native
from tipbench.machine.orphans import die_with_parent
from tipbench.records.record import PairInfo, VariantInfo
from tipbench.suite.files import BENCHMARKS, explain, load, pair_classes
from tipbench.suite.source import sides
from tipbench.tip.device import NoDevice, torch_here
from tipbench.tip.needs import Need, Unmet, gpu
from tipbench.tip.pair import Pair, variants


def info(pair: type[Pair], tip: Any, file: Path, root: Path, device: str, nodes: int) -> PairInfo:
    reason, remedy = _unmet(pair.needs, device)
    if device not in pair.devices and (not reason or device == "cuda"):
        # Without a GPU, that there is none says more; on one, a remedy for something else would lead nowhere.
        reason, remedy = f"runs on {' or '.join(pair.devices)}, not on {device}", f"--device {pair.devices[0]}"
    ranks = max(variant.settings.ranks for variant in variants(pair))
    if not reason and nodes > 1 and ranks == 1 and tip.id != "control":
        reason, remedy = "has no ranks, so nothing of it would run on other nodes", "run it without --nnodes"
    if not reason and device == "cuda" and ranks > 1:
        reason, remedy = _unmet((gpu(-(-ranks // nodes)),), device)  # each rank has one of its own
    listed = []
    for variant in variants(pair):
        missing = _unmet(variant.needs, device)
        ranks = variant.settings.ranks
        if not any(missing) and ranks > 1 and ranks % nodes:
            missing = f"{ranks} ranks cannot be shared out evenly among {nodes} nodes", "run it with another --nnodes"
        needs = tuple(need.text for need in variant.needs)
        listed.append(VariantInfo(variant.name, variant.settings, needs, *missing))
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
        flush_l2=pair.flush_l2 and device == "cuda",
        code=sides(file.read_text(), pair.__name__),
    )


def unmet(needs: Sequence[Need], device: str) -> Unmet | None:
    """What is missing of the first need that is not met on a device; None where all are."""
    for need in needs:
        if missing := need.unmet(device):
            return missing
        if need.native and not native.find(need.native.removeprefix("lib")):
            return Unmet(f"{need.native} not found", "run `make native`")
    return None


def _unmet(needs: Sequence[Need], device: str) -> tuple[str, str]:
    """(reason, remedy), two empty words where nothing is missing."""
    missing = unmet(needs, device)
    return (missing.reason, missing.remedy) if missing else ("", "")


def main(device: str, nodes: str, folder: str, answered: str, *files: str) -> None:
    """Write one JSON line a file to `answered`: {"file", "pairs"} or {"file", "error"}."""
    with Path(answered).open("w") as out:

        def answer(**fields: Any) -> None:
            print(json.dumps(fields), file=out, flush=True)

        try:
            here = torch_here(device)
        except NoDevice as error:
            answer(unusable=str(error))
            return
        answer(**asdict(here))
        for name in files:
            file = Path(name)
            answer(importing=name)
            try:
                module = load(file, Path(folder))
                if not hasattr(module, "TIP"):
                    continue
                root = BENCHMARKS if file.is_relative_to(BENCHMARKS) else Path(folder)
                pairs = [
                    info(pair, module.TIP, file, root.parent, here.device, int(nodes)).to_json()
                    for pair in pair_classes(module)
                ]
                for pair in pairs:
                    PairInfo.from_json(pair)  # what no results file can hold is an error of this file
                answer(file=name, pairs=pairs)
            except BaseException as error:  # a pair file may raise anything, SystemExit included
                answer(file=name, error=explain(error, file))
        answer(finished=True)


if __name__ == "__main__":
    die_with_parent()
    main(*sys.argv[1:])
