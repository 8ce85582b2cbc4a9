"""What `tipbench doctor` says: this machine, what is missing, what disturbs measurements now, each with its remedy."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tipbench.machine import activity, describe, native
from tipbench.machine.describe import GIB
from tipbench.machine.gpu import COMPUTE_MODES
from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE
from tipbench.tip.wording import plain

OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)

PROBE = """
import json, sys
facts = {}
try:
    import torch
    facts["torch"] = torch.__version__
    facts["threads"] = torch.get_num_threads()
    facts["built_for"] = "CUDA " + torch.version.cuda if torch.version.cuda else "ROCm" if torch.version.hip else ""
    # The driver alone counts cards that this torch cannot use: a driver too old for it, for one.
    facts["gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        import torchvision
    except Exception as error:
        facts["torchvision_error"] = str(error).strip() or type(error).__name__
except Exception as error:
    facts["torch_error"] = str(error).strip() or type(error).__name__
print("\\n" + json.dumps(facts))
"""
"""Runs in a child process, so that doctor itself needs no torch and survives one that crashes."""


@dataclass(frozen=True)
class Finding:
    """One thing that is missing or disturbs.

    Attributes:
        topic: what it is about, in a word or two.
        text: what is missing or disturbs, and what follows from it.
        remedy: what to do.
        blocks: whether nothing at all can be measured until it is fixed.
    """

    topic: str
    text: str
    remedy: str
    blocks: bool = False


def report() -> int:
    """Print what `lines` gives. Returns 0 where measuring is possible, 1 where it is not."""
    described, torch_facts = describe.describe(), ask_torch()
    missed = missing_findings(described, torch_facts)
    # Last: importing torch, above, is work of our own, which has ended by now.
    disturbing = disturbances(described, activity.describe_load(), psutil.virtual_memory().available)
    print(*lines(described, torch_facts, missed, disturbing), sep="\n")
    return int(any(finding.blocks for finding in missed))


def lines(
    described: Mapping[str, Any], torch_facts: Mapping[str, Any], missed: list[Finding], disturbing: list[Finding]
) -> list[str]:
    """The whole report, safe in a terminal: another user names the processes that are busy.

    described: `describe.describe()`. torch_facts: `ask_torch()`.
    """
    text = ["This machine", *(_line(topic, value) for topic, value in _rows(described, torch_facts).items())]
    for title, findings in (("Missing", missed), ("Disturbs measurements now", disturbing)):
        text += ["", title if findings else f"{title}: nothing"]
        for finding in findings:
            text += [_line(finding.topic, finding.text), _line("", f"-> {finding.remedy}")]
    blocking = [finding.topic for finding in missed if finding.blocks]
    if blocking:
        return [*text, "", f"Not ready: nothing can be measured before this is fixed: {', '.join(blocking)}."]
    return [*text, "", "Ready, within these limits." if missed or disturbing else "Ready."]


def _line(topic: str, text: str) -> str:
    return f"  {topic:<12}  {plain(text)}"


def ask_torch(python: str = sys.executable, timeout_s: float = 180) -> dict[str, Any]:
    """What torch says of itself, in a child process.

    Keys: torch (version), threads, built_for ("CUDA 13.0", "ROCm", or "" for a CPU build), gpus (how many it can use);
    torchvision_error and torch_error, each only where the import fails.
    """
    try:
        command = [python, "-P", "-c", PROBE]
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"torch_error": f"importing it took more than {timeout_s:.0f} s"}
    except OSError as error:
        return {"torch_error": str(error)}
    answer = done.stdout.strip().rpartition(b"\n")[2]
    try:
        return dict(json.loads(answer))
    except ValueError:  # it prints nothing else
        return {"torch_error": f"importing it ended the process with status {done.returncode}"}


def missing_findings(described: Mapping[str, Any], torch_facts: Mapping[str, Any], root: Path = ROOT) -> list[Finding]:
    """What is missing, or has a version that is not supported."""
    cards = described["gpus"] if isinstance(described["gpus"], list) else []
    return [
        *_torch(torch_facts),
        *_gpu(torch_facts, cards),
        *_native(described),
        *_shared_memory(root),
    ]


def _torch(facts: Mapping[str, Any]) -> list[Finding]:
    if "torch_error" in facts:
        why = f"torch cannot be imported: {facts['torch_error'].splitlines()[0]}"
        return [Finding("torch", why, "run `make setup`, or `pip install torch`", blocks=True)]
    findings = []
    version = facts["torch"]
    number = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(number[1]), int(number[2])) if number else (math.inf,)
    if not OLDEST_TORCH <= numbers <= NEWEST_TORCH:
        text = f"this is {version}; 2.11 to 2.15 are supported"
        remedy = "run `make setup`, which installs 2.15"
        findings.append(Finding("torch", text, remedy, blocks=numbers < OLDEST_TORCH))
    if "torchvision_error" in facts:
        why = f"cannot be imported: {facts['torchvision_error'].splitlines()[0]}"
        findings.append(Finding("torchvision", why, f"install the torchvision that fits torch {version}"))
    return findings


def _gpu(facts: Mapping[str, Any], cards: list[dict[str, Any]]) -> list[Finding]:
    modes = sorted({str(card.get("compute_mode")) for card in cards} & set(COMPUTE_MODES.values()) - {"default"})
    if modes:
        text = f"{' and '.join(modes)}: the workers of a run share a card, so pairs will fail"
        return [Finding("compute mode", text, "as root: nvidia-smi -c DEFAULT")]
    if "torch_error" in facts or facts["gpus"]:
        return []
    if not cards:
        return [Finding("GPU", "none found", "run on a machine with a GPU; all else is measured without")]
    why = "this torch is a CPU build" if not facts["built_for"] else f"torch for {facts['built_for']} cannot use it"
    text = f"{cards[0]['name']} is here, but {why}"
    return [Finding("GPU", text, f"install a torch built for this driver ({cards[0]['driver']})")]


def _native(described: Mapping[str, Any]) -> list[Finding]:
    findings = []
    if described["compiler"] == UNAVAILABLE:
        text = "none of $CXX, g++, c++, clang++ found; torch.compile needs one"
        findings.append(Finding("C++ compiler", text, "install g++ (`apt-get install g++`, as root) or clang++"))
    for name in native.LIBRARY_NAMES:
        if reason := native.missing(name):
            topic = name if name == "numactl" else f"lib{name}"
            findings.append(Finding(topic, reason.text, reason.remedy))
    return findings


def _shared_memory(root: Path) -> list[Finding]:
    """Whether /dev/shm holds what DataLoader workers and NCCL's ranks pass to one another; Docker's has 64 MiB."""
    try:
        total = shutil.disk_usage(root / "dev/shm").total
    except OSError:
        return []
    if total >= GIB:
        return []
    text = (
        f'it has {total / (1 << 20):.0f} MiB: DataLoader workers may die ("Bus error"), and NCCL may fail '
        '("unhandled system error")'
    )
    remedy = "docker run --shm-size=2g or --ipc=host; without Docker, as root: mount -o remount,size=2g /dev/shm"
    return [Finding("/dev/shm", text, remedy)]


def disturbances(described: Mapping[str, Any], occupied: str, free_bytes: int) -> list[Finding]:
    """What makes measurements noisier right now. occupied: `activity.describe_load()`."""
    findings = []
    if occupied:
        findings.append(Finding("other work", occupied, "end what else is running, or wait"))
    if described["governor"] not in (UNAVAILABLE, DENIED, "performance"):
        text = f"the frequency governor is {described['governor']}: the clock rises only once work has begun"
        findings.append(Finding("governor", text, "as root: cpupower frequency-set -g performance"))
    quota, usable = described["quota_cores"], described["cores"]
    if isinstance(quota, (int, float)) and quota < usable:
        text = f"the cgroup grants the time of {quota:g} cores, but {usable} threads will run: they get stopped"
        findings.append(Finding("CPU quota", text, "give whole cores instead (docker: --cpuset-cpus, not --cpus)"))
    if free_bytes < 2 * GIB:
        text = f"{free_bytes / GIB:.1f} GiB left; the larger jobs need about 2"
        findings.append(Finding("memory", text, "end what else is running"))
    return findings


def _rows(described: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    cores = f"{described['physical_cores']} cores, {described['logical_cores']} threads, {described['cores']} usable"
    flags, cards = (described[name] if isinstance(described[name], list) else [] for name in ("flags", "gpus"))
    built = f" ({facts['built_for'] or 'CPU only'}), {facts['threads']} threads" if "torch" in facts else ""
    return {
        "name": described["name"],
        "processor": f"{described['cpu']}, {cores}{', virtual machine' if described['virtual'] is True else ''}",
        "features": " ".join(flags) or "none that torch's kernels differ by",
        "memory": f"{described['memory_bytes'] / GIB:.1f} GiB",
        "NUMA nodes": str(described["numa_nodes"]),
        "GPU": ", ".join(f"{card['name']} (driver {card['driver']})" for card in cards) or "none found",
        "system": f"{described['os']}, kernel {described['kernel']}, {described['libc']}",
        "governor": f"{described['governor']}, turbo {described['turbo']}",
        "huge pages": described["transparent_huge_pages"],
        "Python": described["python"],
        "torch": f"{facts.get('torch', described['torch'])}{built}",
        "torchvision": described["torchvision"],
        "C++ compiler": described["compiler"],
    }
