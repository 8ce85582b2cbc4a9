"""NVIDIA GPUs, as their driver describes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tipbench.machine.proc import DENIED, UNAVAILABLE

GPU_READINGS: dict[str, Callable[[Any, Any], int]] = {
    "sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
    "memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
    "celsius": lambda nvml, card: nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
    "milliwatts": lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card),
    "clock_events": lambda nvml, card: nvml.nvmlDeviceGetCurrentClocksEventReasons(card),
}
"""What is read from a GPU's driver, given nvidia-ml-py's module and a card's handle: the present clocks, temperature
and power, and the set bits of what holds its clock back."""


COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
"""Which processes may use a card, by NVML's number for it. Exclusive: one at a time. Newer drivers treat an exclusive
thread as an exclusive process."""


GPU_SETTINGS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, card: _text(nvml.nvmlDeviceGetName(card)),
    "memory_bytes": lambda nvml, card: int(nvml.nvmlDeviceGetMemoryInfo(card).total),
    "driver": lambda nvml, _: _text(nvml.nvmlSystemGetDriverVersion()),
    "capability": lambda nvml, card: ".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(card))),
    "power_limit_w": lambda nvml, card: nvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1000,
    "max_sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM),
    "max_memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_MEM),
    "application_sm_mhz": lambda nvml, card: nvml.nvmlDeviceGetApplicationsClock(card, nvml.NVML_CLOCK_SM),
    "application_memory_mhz": lambda nvml, card: nvml.nvmlDeviceGetApplicationsClock(card, nvml.NVML_CLOCK_MEM),
    "ecc": lambda nvml, card: bool(nvml.nvmlDeviceGetEccMode(card)[0]),
    "mig": lambda nvml, card: bool(nvml.nvmlDeviceGetMigMode(card)[0]),
    "compute_mode": lambda nvml, card: COMPUTE_MODES[nvml.nvmlDeviceGetComputeMode(card)],
}
"""What a card is and can, and how it is set: the fields of `tipbench.machine.fields.CARD_FIELDS`."""


def gpus(env: Mapping[str, str] = os.environ) -> list[dict[str, Any]] | str:
    """NVIDIA GPUs that `env` lets CUDA see, in the driver's words; [] for a driver without any.

    All of them where CUDA_VISIBLE_DEVICES is not set, in the driver's order, which is that of the PCI bus. Each has the
    fields of `tipbench.machine.fields.CARD_FIELDS`: a value, or why the driver gives none. Of a card that is split into
    instances (MIG) it is the whole card that is described.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, or one that does not answer
        return UNAVAILABLE
    try:
        count = pynvml.nvmlDeviceGetCount()
        # The driver also counts cards that a cgroup keeps from this process; it gives no handle for them.
        handles = [_ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        cards = [handle for handle in handles if handle not in (UNAVAILABLE, DENIED)]
        if "CUDA_VISIBLE_DEVICES" in env:
            cards = [cards[place] for place in _visible(pynvml, cards, env["CUDA_VISIBLE_DEVICES"])]
        return [{name: _ask(of, pynvml, card) for name, of in GPU_SETTINGS.items()} for card in cards]
    except pynvml.NVMLError:
        return UNAVAILABLE
    finally:
        pynvml.nvmlShutdown()


def _visible(nvml: Any, handles: Sequence[Any], listed: str) -> list[int]:
    """Which of `handles` a value of CUDA_VISIBLE_DEVICES means, in its order: by index, by UUID or its beginning, or by
    the UUID of an instance ("MIG-..."), which here means its card. The first entry that means no card ends the list."""
    uuids = [_text(_ask(nvml.nvmlDeviceGetUUID, handle)) for handle in handles]
    chosen: list[int] = []
    for entry in map(str.strip, listed.split(",")):
        start = _text(_ask(_uuid_of_whole_card, nvml, entry)) if entry.startswith("MIG-") else entry
        places = [place for place, uuid in enumerate(uuids) if start.startswith("GPU-") and uuid.startswith(start)]
        if entry.isdigit() and int(entry) < len(handles):
            places = [int(entry)]
        if len(places) != 1:
            break
        chosen += [place for place in places if place not in chosen]
    return chosen


def _uuid_of_whole_card(nvml: Any, instance: str) -> Any:
    handle = nvml.nvmlDeviceGetHandleByUUID(instance)
    return nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    import pynvml

    try:
        return question(*arguments)
    except pynvml.NVMLError_NoPermission:
        return DENIED
    except Exception:  # a driver's refusal, an answer not known here, or a function that nvidia-ml-py does not have yet
        return UNAVAILABLE


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
