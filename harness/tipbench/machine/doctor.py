"""What `tipbench doctor` says: this machine, what is missing, what disturbs measurements now, each with its remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TextIO, TypedDict

import msgspec
import psutil

from tipbench.machine import activity, describe, gpu, native
from tipbench.machine.describe import GIB
from tipbench.machine.gpu import COMPUTE_MODES
from tipbench.machine.proc import DENIED, ROOT, UNAVAILABLE
from tipbench.tip.wording import plain

OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)

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
    facts["accelerator"] = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else ""
    try:
        import torchvision
    except Exception as error:
        facts["torchvision_error"] = str(error).strip() or type(error).__name__
except Exception as error:
    facts["torch_error"] = str(error).strip() or type(error).__name__
print("\\n" + json.dumps(facts))
"""
"""Runs in a child process, so that doctor itself needs no torch and survives one that crashes."""


class TorchFacts(TypedDict):
    """What PROBE writes of a torch that can be imported."""

    torch: str
    threads: int
    built_for: str
    gpus: int
    accelerator: str
    torchvision_error: NotRequired[str]


class TorchError(TypedDict):
    """What it writes of one that cannot."""

    torch_error: str


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


def report(stream: TextIO | None = None) -> int:
    """Write what `lines` gives. Returns 0 where measuring is possible, 1 where it is not."""
    described, torch_facts = describe.describe(), ask_torch()
    # Last: importing torch, above, is work of our own, which has ended by now.
    _, busy = activity.occupying()
    missed = [*missing(described, torch_facts), *order_of_gpus(gpu.gpus({}))]
    for line in lines(described, torch_facts, missed, disturbances(described, activity.state(), busy)):
        print(line, file=stream or sys.stdout)
    return int(any(finding.blocks for finding in missed))


def lines(
    described: Mapping[str, Any],
    torch_facts: Mapping[str, Any],
    missed: list[Finding],
    disturbing: list[Finding],
) -> list[str]:
    """The whole report, safe in a terminal: another user names the processes that are busy.

    described: `describe.describe()`. torch_facts: `ask_torch()`.
    """
    rows = [(topic, plain(value)) for topic, value in _rows(described, torch_facts)]
    width = max(len(topic) for topic, *_ in [*rows, *((finding.topic,) for finding in [*missed, *disturbing])])
    text = ["This machine", *(f"  {topic:<{width}}  {value}" for topic, value in rows)]
    for title, none, findings in (
        ("Missing", "nothing", missed),
        ("Disturbs measurements now", "nothing seen", disturbing),
    ):
        text += ["", title] if findings else ["", f"{title}: {none}"]
        for finding in findings:
            text.append(f"  {finding.topic:<{width}}  {plain(finding.text)}")
            text.append(f"  {'':<{width}}  -> {plain(finding.remedy)}")
    return [*text, "", verdict(missed, disturbing)]


def verdict(missed: list[Finding], disturbing: list[Finding]) -> str:
    """One sentence: ready, ready with limits, or not ready."""
    blocking = [finding.topic for finding in missed if finding.blocks]
    if blocking:
        return f"Not ready: nothing can be measured before this is fixed: {_joined(blocking)}."
    limits = []
    if missed:
        limits.append(f"see {_joined([finding.topic for finding in missed])} under Missing")
    if disturbing:
        causes = _joined([finding.topic for finding in disturbing])
        limits.append(f"intervals will be wider than need be because of {causes}")
    return f"Ready, with limits: {'; '.join(limits)}." if limits else "Ready."


def ask_torch(python: str = sys.executable, timeout_s: float = 180) -> dict[str, Any]:
    """What torch says of itself, in a child process.

    Keys: torch (version), threads, built_for ("CUDA 13.0", "ROCm", or "" for a CPU build), gpus (how many it can use),
    accelerator ("cuda", which ROCm is as well, "xpu" ..., or "");
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
        return dict(msgspec.json.decode(answer, type=TorchError if b'"torch_error"' in answer else TorchFacts))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if done.returncode:
            return {"torch_error": f"importing it ended the process with status {done.returncode}"}
        return {"torch_error": f"what was printed last after its import is no answer: {error}"}


def missing(described: Mapping[str, Any], torch_facts: Mapping[str, Any], root: Path = ROOT) -> list[Finding]:
    """What is missing, or has a version that is not supported."""
    return [
        *_python(sys.version_info[:2]),
        *_torch(torch_facts),
        *_gpu(torch_facts, described["gpus"]),
        *_settings_of_gpus(described["gpus"]),
        *_native(described),
        *_readings(root),
        *_shared_memory(root),
    ]


def _python(running: tuple[int, ...]) -> list[Finding]:
    version = ".".join(map(str, running))
    if running < OLDEST_PYTHON:
        return [Finding("Python", f"this is {version}; 3.11 to 3.13 are supported", "install Python 3.13", blocks=True)]
    if running > NEWEST_PYTHON:
        return [Finding("Python", f"this is {version}; only 3.11 to 3.13 were tried", "use Python 3.13")]
    return []


def _torch(facts: Mapping[str, Any]) -> list[Finding]:
    if "torch_error" in facts:
        why = f"torch cannot be imported: {_first_line(facts['torch_error'])}"
        return [Finding("torch", why, "run `make setup`, or `pip install torch`", blocks=True)]
    findings = []
    version = facts["torch"]
    number, install = re.match(r"(\d+)\.(\d+)", version), "run `make setup`, which installs 2.15"
    if number and (int(number[1]), int(number[2])) < OLDEST_TORCH:
        findings.append(Finding("torch", f"this is {version}; 2.11 to 2.15 are supported", install, blocks=True))
    elif not number or (int(number[1]), int(number[2])) > NEWEST_TORCH:
        findings.append(Finding("torch", f"this is {version}; only 2.11 to 2.15 were tried", install))
    if "torchvision_error" in facts:
        why = f"cannot be imported: {_first_line(facts['torchvision_error'])}"
        findings.append(Finding("torchvision", why, f"install the torchvision that fits torch {version}"))
    return findings


def _gpu(facts: Mapping[str, Any], gpus: object) -> list[Finding]:
    if "torch_error" in facts or facts["gpus"]:
        return []
    if isinstance(gpus, list) and gpus:
        why = "this torch is a CPU build" if not facts["built_for"] else f"torch for {facts['built_for']} cannot use it"
        text = f"{gpus[0]['name']} is here, but {why}"
        return [Finding("GPU", text, f"install a torch built for this driver ({gpus[0]['driver']})")]
    if facts["accelerator"]:
        text = f"torch can use {facts['accelerator']} here, but no pair is written for it"
        return [Finding("GPU", text, "none: pairs run on the CPU, and on GPUs of NVIDIA and AMD (ROCm)")]
    if gpus == [] and "CUDA_VISIBLE_DEVICES" in os.environ:
        text = f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']!r} hides every card from CUDA"
        return [Finding("GPU", text, "unset it, or give it the numbers that `nvidia-smi -L` lists")]
    return [Finding("GPU", "none found", "run on a machine with a GPU; all else is measured without")]


def _settings_of_gpus(gpus: object) -> list[Finding]:
    """Settings of cards under which some of the suite cannot run, or cannot be read."""
    cards = gpus if isinstance(gpus, list) else []
    findings = []
    for mode in sorted({card.get("compute_mode") for card in cards} & set(COMPUTE_MODES.values()) - {"default"}):
        numbers = _numbers(card for card in cards if card.get("compute_mode") == mode)
        allowed = "no process" if mode == "prohibited" else "one process at a time, but workers share a card"
        text = f"GPU {numbers}: compute mode {mode}, which allows {allowed}: pairs will fail"
        findings.append(Finding("compute mode", text, f"as root: nvidia-smi -i {numbers} -c DEFAULT"))
    numbers = _numbers(card for card in cards if card.get("mig") is True)
    if numbers:
        text = (
            f"GPU {numbers}: split into instances; clocks, power and energy cannot be read for one instance, "
            "and NCCL cannot use two of one card"
        )
        remedy = f"as root: nvidia-smi -i {numbers} -mig 0, which gives the whole card; or accept missing readings"
        findings.append(Finding("MIG", text, remedy))
    return findings


def _numbers(cards: Iterable[Mapping[str, Any]]) -> str:
    """As nvidia-smi takes them: "0,1"."""
    return ",".join(str(card["index"]) for card in cards)


def order_of_gpus(every: object, env: Mapping[str, str] = os.environ) -> list[Finding]:
    """Whether CUDA may number the cards in another order than the driver. every: `gpu.gpus({})`.

    By itself CUDA puts the fastest card first, and the driver goes by the PCI bus; UUIDs mean the same to both.
    """
    names = {card["name"] for card in every} if isinstance(every, list) else set()
    by_uuid = env.get("CUDA_VISIBLE_DEVICES", "").startswith(("GPU-", "MIG-"))
    if len(names) < 2 or by_uuid or env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return []
    text = f"cards differ ({_joined(sorted(names))}), and indices may mean others to CUDA than to the driver"
    return [Finding("order of GPUs", text, "export CUDA_DEVICE_ORDER=PCI_BUS_ID")]


def _native(described: Mapping[str, Any]) -> list[Finding]:
    findings = []
    if described["compiler"] == UNAVAILABLE:
        text = "none of $CXX, g++, c++, clang++ found; torch.compile needs one"
        findings.append(Finding("C++ compiler", text, "install g++ (`apt-get install g++`, as root) or clang++"))
    for name in native.NAMES:
        if reason := native.missing(name):
            topic = name if name == "numactl" else f"lib{name}"
            findings.append(Finding(topic, reason.text, reason.remedy))
    return findings


def _readings(root: Path) -> list[Finding]:
    """Files the memory pass reads or writes; sandboxes and old kernels withhold them."""
    findings = []
    for file, mode, what in (
        ("clear_refs", "w", "resident peaks are left out"),
        ("smaps_rollup", "r", "the memory of process trees is left out"),
    ):
        path = root / "proc/self" / file
        try:
            path.open(mode).close()
        except OSError as error:
            text = f"{path}: {(error.strerror or str(error)).lower()}; {what}"
            findings.append(Finding(f"/proc/self/{file}", text, "run outside the sandbox that withholds it"))
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
        f'/dev/shm has {total / (1 << 20):.0f} MiB: DataLoader workers may die ("Bus error"), and NCCL may fail '
        '("unhandled system error")'
    )
    remedy = "docker run --shm-size=2g or --ipc=host; without Docker, as root: mount -o remount,size=2g /dev/shm"
    return [Finding("shared memory", text, remedy)]


def disturbances(described: Mapping[str, Any], state: Mapping[str, Any], busy: list[str]) -> list[Finding]:
    """What makes measurements noisier right now. state: `activity.state()`. busy: names of busy processes."""
    findings = []
    cores = described["logical_cores"]
    load, pressure = state["load"], state["cpu_pressure_percent"]
    heavy = isinstance(load, float) and isinstance(cores, int) and load > 0.5 * cores
    if heavy or busy:
        names = list(dict.fromkeys(busy))
        shown = f"; busy: {_joined(names[:4])}{' and others' if len(names) > 4 else ''}" if names else ""
        waited = f", some task waited for a core {pressure:.0f} % of the time" if isinstance(pressure, float) else ""
        loaded = f"load {load:.1f} on {cores} cores" if isinstance(load, float) else "other processes are running"
        remedy = (
            "end what else is running, or wait" if names else "wait a minute: the load is a mean, and nothing is busy"
        )
        findings.append(Finding("other work", f"{loaded}{waited}{shown}", remedy))
    if state["governor"] not in (UNAVAILABLE, DENIED, "performance"):
        text = f"the frequency governor is {state['governor']}: the clock rises only once work has begun"
        findings.append(Finding("governor", text, "as root: cpupower frequency-set -g performance"))
    quota, usable = described["quota_cores"], described["cores"]
    if isinstance(quota, (int, float)) and quota < usable:
        text = f"the cgroup grants the time of {quota:g} cores, but {usable} threads will run: they get stopped"
        findings.append(Finding("CPU quota", text, "give whole cores instead (docker: --cpuset-cpus, not --cpus)"))
    periods = state["throttled_periods"]
    if isinstance(periods, int) and periods > 0:
        text = f"stopped in {periods} periods, {state['throttled_s']:.1f} s in all, since the cgroup began"
        findings.append(Finding("throttling", text, "raise the CPU quota, or give whole cores"))
    steal = state["steal_percent"]
    if isinstance(steal, float) and steal >= 1:
        text = f"the hypervisor took {steal:.0f} % of the processor time"
        findings.append(Finding("steal", text, "wait, or use a machine with cores of its own"))
    if state["free_bytes"] < 2 * GIB:
        text = f"{state['free_bytes'] / GIB:.1f} GiB left; the larger jobs need about 2"
        findings.append(Finding("memory", text, "end what else is running"))
    if _on_battery():
        findings.append(Finding("battery", "no mains power: the clock is held down", "plug it in"))
    return findings


def _on_battery() -> bool:
    sensor = getattr(psutil, "sensors_battery", lambda: None)()
    return sensor is not None and sensor.power_plugged is False


def _rows(described: Mapping[str, Any], facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    cores = f"{described['physical_cores']} cores, {described['logical_cores']} threads, {described['cores']} usable"
    flags = described["flags"]
    virtual = ["virtual machine"] if described["virtual"] is True else []
    gpus = described["gpus"]
    built = facts.get("built_for") or "CPU only"
    return [
        ("name", described["name"]),
        ("processor", _listed(described["cpu"], cores, *virtual)),
        ("features", " ".join(flags) if isinstance(flags, list) and flags else "none that torch's kernels differ by"),
        ("memory", f"{described['memory_bytes'] / GIB:.1f} GiB"),
        ("NUMA nodes", str(described["numa_nodes"])),
        ("GPU", _listed(*(_gpu_line(gpu) for gpu in gpus)) if isinstance(gpus, list) and gpus else "none found"),
        ("system", _listed(described["os"], f"kernel {described['kernel']}", described["libc"])),
        ("governor", f"{described['governor']}, turbo {described['turbo']}"),
        ("huge pages", described["transparent_huge_pages"]),
        ("Python", described["python"]),
        (
            "torch",
            f"{facts['torch']} ({built}), {facts['threads']} threads" if "torch" in facts else described["torch"],
        ),
        ("torchvision", described["torchvision"]),
        ("C++ compiler", described["compiler"]),
    ]


def _gpu_line(gpu: Mapping[str, Any]) -> str:
    memory = gpu["memory_bytes"]
    size = f"{memory / GIB:.0f} GiB" if isinstance(memory, int) else UNAVAILABLE
    return f"{gpu['name']} ({size}, capability {gpu['capability']}, driver {gpu['driver']})"


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part != UNAVAILABLE) or UNAVAILABLE


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
