"""What this machine is, and what disturbs measurements on it now.

Every field is a value, or says why there is none: "unavailable" (this platform does not tell) or
"denied" (it does, but not us); nothing is guessed. What is described here is stored and published,
so it holds nothing that names a person or one particular machine: no hostname, user, path, address,
serial number or GPU UUID.

Functions that read /proc and /sys take `root`, so that tests can give them a tree of their own.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from harness.needs import available_cores

UNAVAILABLE = "unavailable"
DENIED = "denied"

ROOT = Path("/")
GIB = 1 << 30

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve", "bf16")
"""Processor features that torch's kernels differ by, as Linux names them; the last three are Arm's."""

BUSY = 10.0
"""Percent of one core above which another process counts as busy."""


def describe(root: Path = ROOT) -> dict[str, Any]:
    """What this machine is, as plain JSON. Takes about half a second; not to be called while timing.

    cores: logical cores this process may use. memory_bytes: installed, or the cgroup's limit where
    that is lower. quota_cores: processor time the cgroup grants, in cores. caches: bytes of one
    cache of each level, as the first core sees them. cpu_max_mhz: the highest clock that any core can
    have; cpu_limit_mhz: that it may have now. smt: whether cores run several threads, as the kernel
    words it ("on", "off", "forceoff", "notsupported", "notimplemented"). swap_bytes: 0 without any.
    """
    model = cpu_model(root)
    physical = psutil.cpu_count(logical=False) or UNAVAILABLE
    memory = memory_bytes(root)
    quota = quota_cores(root)
    cards = gpus()
    return {
        "name": name(model, _usable_cores(physical, quota), memory, cards),
        "cpu": model,
        "cores": available_cores(),
        "physical_cores": physical,
        "logical_cores": psutil.cpu_count() or UNAVAILABLE,
        "quota_cores": quota,
        "memory_bytes": memory,
        "caches": caches(root),
        "flags": cpu_flags(root),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or UNAVAILABLE,
        "virtual": virtual(root),
        "gpus": cards,
        "os": _os_name(root),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()).strip() or UNAVAILABLE,
        "governor": governor(root),
        "turbo": turbo(root),
        "smt": read(root / "sys/devices/system/cpu/smt/control"),
        "cpu_max_mhz": highest_mhz("cpuinfo_max_freq", root),
        "cpu_limit_mhz": highest_mhz("scaling_max_freq", root),
        "swap_bytes": swap_bytes(root),
        "transparent_huge_pages": _chosen(read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        "address_randomisation": read(root / "proc/sys/kernel/randomize_va_space"),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "torchvision", "numpy", "triton")},
        "compiler": compiler(),
    }


def state(root: Path = ROOT, sample_s: float = 0.5) -> dict[str, Any]:
    """What disturbs measurements now; sleeps `sample_s` seconds to see steal and busy processes.

    load: runnable processes, mean of a minute. cpu_pressure_percent: share of the last 10 s in which
    some task waited for a core. steal_percent: share of all cores' time that the hypervisor took.
    throttled_periods, throttled_s: since the cgroup began. busy_processes: how many others use more
    than 10 % of a core.
    """
    stolen, busy = watch(root, sample_s)
    periods, seconds = throttling(root)
    return {
        "load": load(root),
        "cpu_pressure_percent": cpu_pressure(root),
        "steal_percent": stolen,
        "governor": governor(root),
        "throttled_periods": periods,
        "throttled_s": seconds,
        "free_bytes": psutil.virtual_memory().available,
        "busy_processes": len(busy),
    }


def read(path: Path) -> str:
    """A file of /proc or /sys without its line end; "denied" or "unavailable" where it cannot be read."""
    try:
        return path.read_text().strip() or UNAVAILABLE
    except PermissionError:
        return DENIED
    except (OSError, UnicodeDecodeError):
        return UNAVAILABLE


def name(model: str, cores: int | str, memory: int | str, cards: list[dict[str, Any]] | str) -> str:
    """A readable name made from the hardware, such as `amd-epyc-2c-24g` or `intel-xeon-platinum-8380-80c-512g-h200`.

    The same machine always gets the same name; like machines share one. Letters, digits and dashes.
    """
    words = [_cpu_slug(model)]
    if isinstance(cores, int):
        words.append(f"{cores}c")
    if isinstance(memory, int):
        words.append(f"{_nominal_gib(memory)}g")
    if isinstance(cards, list) and cards:
        slug = _slug(re.sub(r"(?i)nvidia|geforce|tesla|quadro", " ", str(cards[0]["name"])))
        words.append(slug if len(cards) == 1 else f"{len(cards)}x-{slug}")
    return "-".join(words)


def _cpu_slug(model: str) -> str:
    if model in (UNAVAILABLE, DENIED):
        return _slug(platform.machine()) or "machine"
    plain = re.sub(r"\((r|tm|c)\)|®|™|@.*|\bwith\b.*|\b\S+-core\b", " ", model, flags=re.IGNORECASE)
    return _slug(re.sub(r"(?i)\b(cpu|processor)\b", " ", plain)) or "machine"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _nominal_gib(size: int) -> int:
    """GiB as the memory is sold: kernels keep a few percent, which differ by version, for themselves."""
    gib = size / GIB
    sold = sorted(factor << power for factor in (1, 3) for power in range(20))
    fitting = [step for step in sold if gib <= step <= 1.1 * gib]
    return fitting[0] if fitting else max(1, round(gib))


def _usable_cores(physical: int | str, quota: float | str) -> int:
    """Physical cores, or fewer where affinity or quota allow fewer."""
    limits: list[float] = [available_cores()]
    limits += [limit for limit in (physical, quota) if isinstance(limit, (int, float))]
    return max(1, int(min(limits)))


def cpu_model(root: Path = ROOT) -> str:
    """The processor's name. Linux on x86 tells it itself; elsewhere py-cpuinfo knows where to ask."""
    for line in read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    if root != ROOT:
        return UNAVAILABLE
    try:
        import cpuinfo  # slow: it starts a process and sleeps a second to see the clock rate

        return str(cpuinfo.get_cpu_info().get("brand_raw") or UNAVAILABLE)
    except Exception:  # it raises plain Exception for processors unknown to it
        return UNAVAILABLE


def cpu_flags(root: Path = ROOT) -> list[str] | str:
    """Which of `FLAGS` the processor has."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    if not found:
        return UNAVAILABLE
    present = set(found[1].split())
    return [flag for flag in FLAGS if flag in present]


def virtual(root: Path = ROOT) -> bool | str:
    """Whether a hypervisor runs this; only x86 processors tell."""
    found = re.search(r"^flags\s*:(.*)$", read(root / "proc/cpuinfo"), re.MULTILINE)
    return "hypervisor" in found[1].split() if found else UNAVAILABLE


def caches(root: Path = ROOT) -> dict[str, int] | str:
    """Bytes of the first core's caches: {"L1d": 32768, "L1i": ..., "L2": ..., "L3": ...}."""
    sizes = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        size = re.fullmatch(r"(\d+)([KM]?)", read(folder / "size"))
        if size:
            kind = {"Data": "d", "Instruction": "i"}.get(read(folder / "type"), "")
            sizes[f"L{read(folder / 'level')}{kind}"] = int(size[1]) << {"": 0, "K": 10, "M": 20}[size[2]]
    return sizes or UNAVAILABLE


def memory_bytes(root: Path = ROOT) -> int:
    """Memory this process can get: what is installed, or the lowest limit of its cgroups."""
    limits = [int(text) for path in cgroup_files(root, "memory", ("memory.max", "memory.limit_in_bytes"))
              if (text := read(path)).isdigit()]  # fmt: skip
    return min([psutil.virtual_memory().total, *limits])


def quota_cores(root: Path = ROOT) -> float | str:
    """Cores' worth of time the cgroups grant, the lowest if nested; "none" where nothing limits it."""
    quotas: list[float] = []
    told = False
    for path in cgroup_files(root, "cpu", ("cpu.max", "cpu.cfs_quota_us")):
        words = read(path).split()
        period = words[1] if len(words) == 2 else read(path.with_name("cpu.cfs_period_us"))
        told = told or words[0] not in (UNAVAILABLE, DENIED)
        if words[0].isdigit() and period.isdigit():
            quotas.append(int(words[0]) / int(period))
    return min(quotas) if quotas else "none" if told else UNAVAILABLE


def throttling(root: Path = ROOT) -> tuple[int | str, float | str]:
    """Periods in which the cgroup ran out of quota, and the seconds it then had to wait."""
    for path in cgroup_files(root, "cpu", ("cpu.stat",)):
        counters = dict(line.split() for line in read(path).splitlines() if line.count(" ") == 1)
        if "nr_throttled" in counters:
            waited = (
                int(counters["throttled_usec"]) / 1e6
                if "throttled_usec" in counters
                else int(counters.get("throttled_time", 0)) / 1e9  # cgroup v1 counts nanoseconds
            )
            return int(counters["nr_throttled"]), waited
    return UNAVAILABLE, UNAVAILABLE


def cgroup_files(root: Path, controller: str, files: tuple[str, ...]) -> Iterator[Path]:
    """Files that exist by these names in this process's cgroup and in those around it, innermost first.

    In a container the path in /proc/self/cgroup may be the host's and missing here; the walk up ends
    at the mount, which is the container's own group then.
    """
    base = root / "sys/fs/cgroup"
    for line in read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, inside = rest.partition(":")
        if controllers == "":
            mounts = [base]
        elif controller in controllers.split(","):
            mounts = [base / controllers, base / controller]
        else:
            continue
        mount = next((mount for mount in mounts if mount.is_dir()), None)
        if mount is None:
            continue
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            for file in files:
                path = mount.joinpath(*parts[:depth]) / file
                if path.exists():
                    yield path


def governor(root: Path = ROOT) -> str:
    """The frequency governor; several, joined by "+", where cores differ."""
    found = {read(path) for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return "+".join(sorted(found)) or UNAVAILABLE


def turbo(root: Path = ROOT) -> str:
    """Whether cores may run above their nominal clock: "on" or "off"."""
    cpu = root / "sys/devices/system/cpu"
    for path, on in ((cpu / "intel_pstate/no_turbo", "0"), (cpu / "cpufreq/boost", "1")):
        found = read(path)
        if found in ("0", "1"):
            return "on" if found == on else "off"
        if found == DENIED:
            return DENIED
    return UNAVAILABLE


def highest_mhz(file: str, root: Path = ROOT) -> float | str:
    """The highest clock of all cores that a file of their cpufreq folders holds, in kHz there."""
    found = [read(path) for path in (root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/cpufreq/{file}")]
    told = [int(text) for text in found if text.isdigit()]
    return max(told) / 1000 if told else DENIED if DENIED in found else UNAVAILABLE


def swap_bytes(root: Path = ROOT) -> int | str:
    """Swap space, used or not."""
    text = read(root / "proc/meminfo")
    found = re.search(r"^SwapTotal:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else DENIED if text == DENIED else UNAVAILABLE


def load(root: Path = ROOT) -> float | str:
    """Processes running or waiting to run, mean of the last minute."""
    try:
        return float(read(root / "proc/loadavg").split()[0]) if root != ROOT else os.getloadavg()[0]
    except (OSError, ValueError):
        return UNAVAILABLE


def cpu_pressure(root: Path = ROOT) -> float | str:
    """Percent of the last 10 s in which some task waited for a core."""
    text = read(root / "proc/pressure/cpu")
    found = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    return float(found[1]) if found else DENIED if text == DENIED else UNAVAILABLE


def watch(root: Path = ROOT, seconds: float = 0.5) -> tuple[float | str, list[str]]:
    """Percent of all cores' time stolen by the hypervisor while this sleeps for `seconds`, and the
    names of other processes that were busy meanwhile, busiest first."""
    others = [process for process in psutil.process_iter() if process.pid != os.getpid()]
    before = _ticks(root)
    for process in others:
        _percent(process)
    time.sleep(seconds)
    used = sorted(((_percent(process), process) for process in others), key=lambda one: -one[0])
    after = _ticks(root)
    busy = [_process_name(process) for percent, process in used if percent > BUSY]
    if before is None or after is None or after[1] <= before[1]:
        return UNAVAILABLE, busy
    return round(100 * (after[0] - before[0]) / (after[1] - before[1]), 1), busy


def _ticks(root: Path) -> tuple[int, int] | None:
    """Stolen ticks and all ticks of all cores together, since boot."""
    words = read(root / "proc/stat").partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    ticks = [int(word) for word in words[1:9]]  # guest time, which follows, is counted in user time already
    return ticks[7], sum(ticks)


def _percent(process: psutil.Process) -> float:
    """Percent of one core since this was last asked of the same object; 0 for a process that is gone."""
    try:
        return process.cpu_percent()
    except psutil.Error:
        return 0.0


def _process_name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "a process that has ended"


def version(package: str) -> str:
    """The installed version, read without importing the package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return UNAVAILABLE


def compiler() -> str:
    """The C++ compiler torch.compile would use, with its version."""
    for program in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if program and shutil.which(program):
            try:
                told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
            except (OSError, subprocess.SubprocessError):
                continue
            # The line starts with the program as it was called, which may be a path.
            first = told.stdout.partition("\n")[0].strip()
            return first.replace(program, Path(program).name) if first else Path(program).name
    return UNAVAILABLE


GPU_READINGS: dict[str, Callable[[Any, Any], int]] = {
    "sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
    "memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
    "celsius": lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
    "milliwatts": lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card),
    "clock_events": lambda nvml, card: nvml.nvmlDeviceGetCurrentClocksEventReasons(card),
    "millijoules": lambda nvml, card: nvml.nvmlDeviceGetTotalEnergyConsumption(card),
}
"""What a GPU's driver is asked, given nvidia-ml-py's module and a card's handle: the present clocks, temperature
and power, the set bits of what holds its clock back, and the energy used since the driver was loaded."""


GPU_SETTINGS: dict[str, Callable[[Any, Any], Any]] = {
    "max_sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM),
    "max_memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_MEM),
    "application_sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetApplicationsClock(card, nvml.NVML_CLOCK_SM),
    "application_memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetApplicationsClock(card, nvml.NVML_CLOCK_MEM),
    "ecc": lambda nvml, card: bool(nvml.nvmlDeviceGetEccMode(card)[0]),
    "mig": lambda nvml, card: bool(nvml.nvmlDeviceGetMigMode(card)[0]),
}
"""What a card can, and how it is set: the highest clocks, those that applications are given, whether memory corrects
errors (which takes bandwidth from some cards), whether the card is split into instances."""


def gpus() -> list[dict[str, Any]] | str:
    """NVIDIA GPUs as the driver lists them, whatever this torch can use; [] for a driver without any.

    memory_bytes: total. power_limit_w: watts enforced now. Beside them stand those of GPU_SETTINGS. readings: those of
    GPU_READINGS at this moment. Each is a value, or why the driver does not tell.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, or one that does not answer
        return UNAVAILABLE
    try:
        driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion))
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        found = []
        for handle in handles:
            memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
            capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
            power = _ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
            found.append(
                {
                    "name": _text(_ask(pynvml.nvmlDeviceGetName, handle)),
                    "memory_bytes": memory if isinstance(memory, str) else int(memory.total),
                    "driver": driver,
                    "capability": capability if isinstance(capability, str) else ".".join(map(str, capability)),
                    "power_limit_w": power if isinstance(power, str) else power / 1000,
                    **{name: _ask(question, pynvml, handle) for name, question in GPU_SETTINGS.items()},
                    "readings": {name: _ask(question, pynvml, handle) for name, question in GPU_READINGS.items()},
                }
            )
        return found
    except pynvml.NVMLError:
        return UNAVAILABLE
    finally:
        pynvml.nvmlShutdown()


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    import pynvml

    try:
        return question(*arguments)
    except pynvml.NVMLError_NoPermission:
        return DENIED
    except pynvml.NVMLError:
        return UNAVAILABLE


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _chosen(text: str) -> str:
    """Of "always [madvise] never" the word in brackets."""
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else text


def _os_name(root: Path) -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', read(root / "etc/os-release"), re.MULTILINE)
    return found[1] if found else platform.system() or UNAVAILABLE
