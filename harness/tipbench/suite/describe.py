"""The process that imports files of pairs and describes what they hold; started by `discover`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tipbench.machine import native
from tipbench.machine.limits import memory_bytes
from tipbench.records.fields import convert
from tipbench.records.record import PairInfo, VariantInfo
from tipbench.records.trainings import read_trainings
from tipbench.suite.files import BENCHMARKS, explain, load_module, pair_classes
from tipbench.suite.source import source_digest
from tipbench.tip.device import torch_here
from tipbench.tip.needs import Need, available_cores, gpu, other_device
from tipbench.tip.pair import NO_TIPS, Pair, headline_variant, variants
from tipbench.tip.reason import Reason
from tipbench.tip.sizes import tier_here


def info(pair: type[Pair], tip: Any, file: Path, root: Path, device: str, tier: str) -> PairInfo:
    missing = unmet(pair.needs, device)
    if device not in pair.devices and (not missing or device == "cuda"):
        # Without a GPU, that there is none says more; on one, a remedy for something else would lead nowhere.
        missing = other_device(pair.devices, device)
    ranks = max(variant.settings.ranks for variant in variants(pair))
    if not missing and device == "cuda" and ranks > 1:
        missing = unmet((gpu(ranks),), device)  # each rank has one of its own
    if tip.evidence:
        read_trainings(file.with_name(tip.evidence))  # raises where it cannot be used
    listed = []
    for variant in variants(pair):
        lacks = unmet(variant.needs, device) or next(filter(None, map(native.missing, variant.settings.preload)), None)
        needs = tuple(need.text for need in variant.needs)
        listed.append(VariantInfo(variant.name, variant.settings, needs, lacks))
    return PairInfo(
        tip=replace(tip.texts, against=pair.against or tip.against, called=pair.called or tip.called),
        pair=pair.__name__,
        scale=pair.scale,
        file=str(file.relative_to(root)),
        line=line_of(pair),
        device=device,
        sizes=pair.sizes.on(tier),
        equal=str(pair.equal),
        variants=tuple(listed),
        needs=tuple(need.text for need in pair.needs),
        why=missing,
        flush_l2=pair.flush_l2 and device == "cuda",
        worded="" if tip.id in NO_TIPS else headline_variant(pair),
        task="processes" if any(variant.settings.ranks > 1 for variant in variants(pair)) else pair.task,
        job=job_label(pair, tip.id),
        truth=dict(pair.truth),
        source=source_digest(file, root / Path(file.relative_to(root).parts[0])),
    )


def line_of(pair: type[Pair]) -> int:
    """Where its class begins; 0 of one that is made of data."""
    try:
        return inspect.getsourcelines(pair)[1]
    except (OSError, TypeError):
        return 0


def job_label(pair: type[Pair], tip: str) -> str:
    """What a whole job is called, alike for pairs with the same one: the class that builds it elsewhere, or the
    tip's own class if its file changes what is built or stepped; empty for an operation alone."""
    from tipbench.tip.job import MacroPair  # with torch, which a file may replace: that is found out later

    if not issubclass(pair, MacroPair):
        return ""
    own = [cls for cls in pair.__mro__ if cls.__module__ == pair.__module__]
    changed = next((cls for cls in own if {"job", "step_of"} & vars(cls).keys()), None)
    elsewhere = next(cls for cls in pair.__mro__ if cls not in own and issubclass(cls, MacroPair))
    if changed is None:
        return elsewhere.__name__
    # What several pairs of a file share has a name for its readers alone, and each of them another job beneath it.
    return f"{tip}.{(pair if changed.__name__.startswith('_') else changed).__name__}"


def unmet(needs: Sequence[Need], device: str) -> Reason | None:
    """Why the first need that a device does not meet is not met; None if all are."""
    for need in needs:
        if missing := need.unmet(device):
            return missing
        if need.native and (missing := native.missing(need.native.removeprefix("lib"))):
            return missing
    return None


def main(device: str, tier: str, folder: str, answered: str, *files: str) -> None:
    """Write one JSON line a file to `answered`: {"file", "pairs"} or {"file", "error"}."""
    with Path(answered).open("w") as out:

        def answer(**fields: Any) -> None:
            print(json.dumps(fields), file=out, flush=True)

        torch = torch_here(device)
        if "unusable" in torch:
            return answer(**torch)
        device = torch["device"]
        tier = tier or tier_here(device, available_cores(), memory_bytes())
        answer(**torch, size=tier)
        for name in files:
            file = Path(name)
            answer(importing=name)
            try:
                module = load_module(file, Path(folder))
                if not hasattr(module, "TIP"):
                    continue
                root = BENCHMARKS if file.is_relative_to(BENCHMARKS) else Path(folder)
                pairs = [
                    asdict(info(pair, module.TIP, file, root.parent, device, tier)) for pair in pair_classes(module)
                ]
                for pair in pairs:
                    convert(pair, PairInfo)  # what no results file can hold is an error of this file
                answer(file=name, pairs=pairs)
            except BaseException as error:  # a pair file may raise anything, SystemExit included
                answer(file=name, error=explain(error, file))
        answer(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
