"""What may leave the machine of a run: a run again, of which every field has been let through by name and by form.

Numbers pass where a number is expected. Text passes only where it is the suite's own (`harness.publish.suite`), one of
the harness's own sentences (`harness.publish.sentences`), or of a form that holds nothing but what it should: a
version, a date, a word of a processor's name. What is in no list stays: a new field is withheld until it is listed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.controls import HEAP_KEPT
from harness.launch import Surroundings
from harness.machine import DENIED, FLAGS, GPU_READINGS, UNAVAILABLE
from harness.machine import name as hardware_name
from harness.pair import Equal
from harness.publish.sentences import kind, notice, reason, remedy
from harness.publish.suite import WORD, KnownTip, known
from harness.record import LARGEST, Launch, Outcome, PairInfo, Record, Run, VariantInfo, VariantRecord
from harness.source import at_commit, sides
from harness.store import Notice

Rule = Callable[[Any], Any]
"""From a stored value to what may be published of it; None: nothing."""

VERSION = re.compile(r"(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:(?:a|b|rc|\.dev|\.post)\d{1,9})?)(\+.*|[-_~].*)?")
LOCAL = re.compile(r"\+(?:cpu|cu\d{2,4}|rocm\d[\d.]{0,6}|xpu|git[0-9a-f]{4,12})")
"""Of a version's local part: what torch's own builds are called. Somebody's own build may carry any name."""

PUBLIC_NAME = re.compile(r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*")
LONGEST_NAME = 60
RESERVED = ("comparison",)
"""Names of machines that would take the place of another page of the tree."""

HARDWARE = re.compile(
    r"""(?ix) AMD|EPYC|Ryzen|Threadripper|Opteron|Athlon|PRO|Radeon|Instinct|Intel|Xeon|Core|Atom|Pentium|Celeron
    |Platinum|Gold|Silver|Bronze|Max|Ultra|Phi|Processor|CPU|APU|with|Graphics|Gen|Apple|M\d|Neoverse(-[NVE]\d)?
    |Cortex(-[AXR]\d+[A-Z]*)?|Ampere|Altra|AWS|Graviton\d?|Kunpeng|POWER\d+|Virtual|QEMU|Common|KVM|version|Hygon|Zhaoxin
    |Broadwell|Haswell|Skylake|Cascadelake|Cooperlake|Icelake|Sapphire|Sapphirerapids|Rapids|Rome|Milan|Genoa|IBRS
    |NVIDIA|GeForce|Tesla|Quadro|TITAN|RTX|GTX|GRID|Ada|Generation|Laptop|GPU|GH\d+|GB\d+|HBM\d?[a-z]?|PCI(e)?|SXM\d?
    |NVL|Ti|SUPER|Grace|Hopper|Blackwell|Jetson|Orin|Nano|Thor|MIG|[12347]g\.\d+gb|Server|Edition|Workstation|X|RTX
    |\d{1,4}(\.\d{1,2})?GHz|\d{1,3}-Core|\d{1,4}GB|\d{1,4}(\.\d{1,2})?
    |[A-Z]{0,3}\d{1,2}-\d{3,5}[A-Z]{0,3}|[A-Z]{0,2}\d{2,5}[A-Z]{0,3}\d?[A-Z]?|\d[A-Z]\d{2}[A-Z]?|v\d
    |[A-Z]\d{2,3}-(SXM\d?|PCIE|NVL)(-\d{2,3}GB)?"""
)
"""The words that names of processors and GPUs are made of; others are left out of the name."""

SYSTEM = re.compile(
    r"(Debian GNU/Linux|Ubuntu|Fedora(?: Linux)?|CentOS(?: Linux| Stream)?|Red Hat Enterprise Linux(?: Server)?|"
    r"Rocky Linux|AlmaLinux|Amazon Linux|Oracle Linux(?: Server)?|openSUSE (?:Leap|Tumbleweed)|"
    r"SUSE Linux Enterprise Server|Arch Linux|Alpine Linux|Linux Mint|NixOS|Gentoo(?: Linux)?|"
    r"Pop!_OS|macOS|Linux|Darwin)"
    r"(?: v?(\d{1,4}(?:\.\d{1,3}){0,2}))?(?: .*)?"
)
COMPILER = re.compile(
    r"(?:.* )?(g\+\+|c\+\+|clang\+\+|clang|gcc|icpx|icpc)(?:-\d+)?(?= )"
    r".*?(?<![\d.])(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]).*"
)
INTERFACES = {"eth": "Ethernet", "en": "Ethernet", "ib": "InfiniBand", "wl": "wireless", "lo": "loopback"}
"""By how Linux begins their names; an interface's own name may hold its hardware address."""


@dataclass(frozen=True)
class Allowed:
    """run: what may be published. notices: the same of what was wrong with its file. withheld: names of the pairs
    that are left out because the suite as installed here does not know them."""

    run: Run
    notices: tuple[Notice, ...]
    withheld: tuple[str, ...]


def allowed(run: Run, notices: Sequence[Notice] = (), public_name: str = "") -> Allowed:
    """What may be published of a run. public_name: what its machine is called; else a name made of its hardware."""
    let_through = [_record(run, record) for record in run.records]
    kept = tuple(record for record in let_through if record is not None)
    withheld = [record.name for record, found in zip(run.records, let_through, strict=True) if found is None]
    planned = [name for name in run.planned if _is_known(name) and name not in withheld]
    withheld += [name for name in run.planned if not _is_known(name)]
    return Allowed(
        Run(
            id=_id(run.id),
            started=_date(run.started),
            suite=_version(run.suite) or UNAVAILABLE,
            commit=run.commit if re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", run.commit) else UNAVAILABLE,
            machine=_machine(run.machine, public_name),
            controls={name: found for name, rule in CONTROLS.items() if (found := rule(run.controls.get(name)))},
            options=_fields(run.options, OPTIONS),
            planned=tuple(planned),
            records=kept,
        ),
        tuple(Notice(Path("results"), found.line, notice(found.text)) for found in notices),
        tuple(dict.fromkeys(withheld)),
    )


def check_public_name(name: str) -> str:
    """The name, which is then a page's. Raises ValueError, whose message says what one may look like."""
    taken = name.lower() in RESERVED or re.search(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}$", name)
    if not PUBLIC_NAME.fullmatch(name) or len(name) > LONGEST_NAME or taken:
        raise ValueError(
            f"a machine's public name is made of letters, digits and single dashes, dots or underscores between them, "
            f"at most {LONGEST_NAME} of them, is not {' or '.join(RESERVED)}, and does not end as a run's name does"
        )
    return name


def one_of(*words: str) -> Rule:
    return lambda found: found if isinstance(found, str) and found in words else None


def _number(found: Any) -> int | float | None:
    fits = isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < LARGEST
    return found if fits else None


def _measured(found: Any) -> int | float | str | None:
    """A number, or one of the words that stand for those that JSON has none for."""
    return found if found in ("nan", "inf", "-inf") else _number(found)


def _flag(found: Any) -> bool | None:
    return found if isinstance(found, bool) else None


def _told(rule: Rule) -> Rule:
    """The same for what a machine may not tell."""
    return lambda found: found if found in (UNAVAILABLE, DENIED) else rule(found)


def _version(found: Any) -> str | None:
    """A version without what a person's own build may have added to it. An address is none."""
    parts = VERSION.fullmatch(found) if isinstance(found, str) else None
    if parts is None:
        return None
    rest = LOCAL.fullmatch(parts[2] or "")
    return parts[1] + (rest[0] if rest else "")


def _hardware(found: Any) -> str | None:
    words = re.sub(r"(?i)\((r|tm|c)\)|[®™@,]", " ", found).split() if isinstance(found, str) else []
    return " ".join(word for word in words if HARDWARE.fullmatch(word)) or None


def _system(found: Any) -> str | None:
    parts = SYSTEM.fullmatch(found) if isinstance(found, str) else None
    return " ".join(filter(None, parts.groups())) if parts else None


def _compiler(found: Any) -> str | None:
    parts = COMPILER.fullmatch(found[:200]) if isinstance(found, str) else None
    return f"{parts[1]} {parts[2]}" if parts else None


def _libc(found: Any) -> str | None:
    name, _, number = found.partition(" ") if isinstance(found, str) else ("", "", "")
    return found if name in ("glibc", "musl", "libc") and _version(number) == number else None


def _governors(found: Any) -> str | None:
    known = {"performance", "powersave", "schedutil", "ondemand", "conservative", "userspace"}
    return found if isinstance(found, str) and set(found.split("+")) <= known else None


def _quota(found: Any) -> Any:
    return found if found == "none" else _number(found)


def _numbers(keys: str) -> Rule:
    """Of a mapping the entries whose keys match and whose values are numbers, or words for why there is none."""

    def rule(found: Any) -> dict[str, Any] | None:
        entries = found.items() if isinstance(found, Mapping) else ()
        kept = {key: _told(_number)(item) for key, item in entries if re.fullmatch(keys, str(key))}
        return {key: item for key, item in kept.items() if item is not None}

    return rule


def _flags(found: Any) -> list[str] | None:
    return [flag for flag in FLAGS if flag in found] if isinstance(found, list) else None


def _cards(found: Any) -> list[dict[str, Any]] | None:
    listed = [_fields(card, CARD) for card in found if isinstance(card, Mapping)] if isinstance(found, list) else None
    return None if listed is None else [{"name": UNAVAILABLE, **card} for card in listed]


def _nodes(found: Any) -> list[dict[str, Any]] | None:
    listed = [node for node in found if isinstance(node, Mapping)] if isinstance(found, list) else []
    return [
        {"name": f"node {number}", "interface": _interface(node.get("interface")), "mbit": _number(node.get("mbit"))}
        for number, node in enumerate(listed)
    ] or None


def _interface(found: Any) -> str:
    return next((kind for begun, kind in INTERFACES.items() if str(found).startswith(begun)), "another network")


def _switch(found: Any) -> bool | str | None:
    return (
        found
        if isinstance(found, bool) or found in ("on", "off", "forceoff", "notsupported", "notimplemented")
        else None
    )


CARD: Mapping[str, Rule] = {
    "name": _told(_hardware),
    "memory_bytes": _told(_number),
    "driver": _told(_version),
    "capability": _told(_version),
    "power_limit_w": _told(_number),
    "readings": _numbers("|".join(GPU_READINGS)),
    **dict.fromkeys(("max_sm_mhz", "max_memory_mhz", "application_sm_mhz", "application_memory_mhz"), _told(_number)),
    **dict.fromkeys(("ecc", "mig"), _told(_switch)),
}

MACHINE: Mapping[str, Rule] = {
    "cpu": _told(_hardware),
    "cores": _told(_number),
    "physical_cores": _told(_number),
    "logical_cores": _told(_number),
    "quota_cores": _told(_quota),
    "memory_bytes": _told(_number),
    "caches": _told(_numbers(r"L[1-5][di]?")),
    "flags": _told(_flags),
    "numa_nodes": _told(_number),
    "virtual": _told(_flag),
    "gpus": _told(_cards),
    "os": _told(_system),
    "kernel": _told(_version),
    "architecture": one_of("x86_64", "aarch64", "arm64", "i686", "ppc64le", "riscv64", "s390x", "loongarch64"),
    "libc": _told(_libc),
    "governor": _told(_governors),
    "turbo": _told(one_of("on", "off")),
    "transparent_huge_pages": _told(one_of("always", "madvise", "never")),
    "address_randomisation": _told(one_of("0", "1", "2")),
    "python": _told(_version),
    **dict.fromkeys(("torch", "torchvision", "numpy", "triton"), _told(_version)),
    "compiler": _told(_compiler),
    "nodes": _nodes,
    **dict.fromkeys(("cpu_max_mhz", "cpu_limit_mhz", "swap_bytes"), _told(_number)),
    "smt": _told(_switch),
}
"""What may be published of `harness.machine.describe()`, beside the name; "name" is made of these."""

CONTROLS: Mapping[str, Rule] = {
    "MALLOC_TRIM_THRESHOLD_": one_of(HEAP_KEPT),
    "MALLOC_MMAP_THRESHOLD_": one_of(HEAP_KEPT),
    "OMP_NUM_THREADS": lambda found: found if isinstance(found, str) and re.fullmatch(r"\d{1,4}", found) else None,
    "PYTHONHASHSEED": one_of("0"),
}
"""What `harness.controls` itself sets, and nothing that was ever taken from a person's shell."""

OPTIONS: Mapping[str, Rule] = {
    "profile": one_of("quick", "full"),
    "device": one_of("auto", "cpu", "cuda"),
    "seed": _number,
    "bare": _flag,
    "nnodes": _number,
}

EQUAL: Mapping[str, Rule] = {
    "method": one_of(*map(str, Equal)),
    **dict.fromkeys(("worst", "tolerance", "seeds", "error", "baseline_error", "target", "lowest"), _measured),
}

MEMORY = "tensor_peak|resident_peak|tree|allocated_peak|reserved_peak|device_used"


def _fields(found: Mapping[str, Any], rules: Mapping[str, Rule]) -> dict[str, Any]:
    kept = {name: rule(found[name]) for name, rule in rules.items() if name in found}
    return {name: item for name, item in kept.items() if item is not None}


def _id(found: str) -> str:
    """The run's id, or where somebody gave it another than `uuid4().hex`, one made of it."""
    return (
        found
        if re.fullmatch(r"[0-9a-f]{8,32}", found)
        else hashlib.sha256(found.encode("utf-8", "replace")).hexdigest()[:32]
    )


def _date(found: str) -> str:
    """A date of ISO 8601 in UTC, which tells no time zone; the epoch for what is none."""
    try:
        return datetime.fromisoformat(found).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return "1970-01-01T00:00:00+00:00"


def _machine(found: Mapping[str, Any], public_name: str) -> dict[str, Any]:
    kept = _fields(found, MACHINE)
    return {"name": public_name or _name(kept), **kept}


def _name(kept: Mapping[str, Any]) -> str:
    """As `machine.name` made it when the run began, of what is published anyway."""
    cards = [dict(card) for card in kept.get("gpus", ()) if isinstance(card, Mapping)]
    limits = [kept.get(key) for key in ("cores", "physical_cores", "quota_cores")]
    cores = [limit for limit in limits if isinstance(limit, int | float)]
    memory = kept.get("memory_bytes")
    return hardware_name(
        str(kept.get("cpu", UNAVAILABLE)) if kept.get("cpu") not in (UNAVAILABLE, DENIED) else "machine",
        max(1, int(min(cores))) if cores else UNAVAILABLE,
        int(memory) if isinstance(memory, int | float) and memory > 0 else UNAVAILABLE,
        cards,
    )[:LONGEST_NAME].strip("-")


def _tip(info: PairInfo) -> KnownTip | None:
    return known(str(info.tip.get("id")), info.pair)


def _is_known(name: str) -> bool:
    tip, _, pair = name.partition(".")
    return known(tip, pair) is not None


def _record(run: Run, record: Record) -> Record | None:
    """The record of one of the suite's pairs; None of any other, and of one with variants the suite does not know."""
    tip = _tip(record.info)
    if tip is None:
        return None
    names = {variant.name for variant in record.info.variants} | set(record.variants)
    names |= {name for launch in record.launches for name in launch.variant}
    if not all(map(tip.variant, names)):
        return None
    return Record(
        info=_info(run, record.info, tip),
        outcome=_outcome(record.outcome),
        kind=kind(record.kind),
        reason=reason(record.reason),
        remedy=remedy(record.remedy),
        steps=record.steps,
        variants={name: _variant(found, tip) for name, found in record.variants.items()},
        launches=tuple(map(_launch, record.launches)),
        wall_s=_number(record.wall_s) or 0.0,
    )


def _outcome(found: str) -> Outcome:
    """What `store.read` lets through, which is one of these."""
    return "measured" if found == "measured" else "skipped" if found == "skipped" else "failed"


def _info(run: Run, info: PairInfo, tip: KnownTip) -> PairInfo:
    return PairInfo(
        tip=tip.about,
        pair=info.pair,
        scale=one_of("micro", "macro")(info.scale) or "",
        file=tip.file,
        line=info.line,
        device=one_of("cpu", "cuda")(info.device) or "cpu",
        sizes={name: size for name, size in info.sizes.items() if name in tip.words and _number(size) is not None},
        equal=one_of(*map(str, Equal))(info.equal) or "",
        deadline=info.deadline,
        variants=tuple(
            VariantInfo(
                variant.name,
                Surroundings(ranks=variant.surroundings.ranks if isinstance(variant.surroundings.ranks, int) else 1),
                (),
                reason(variant.reason),
                remedy(variant.remedy),
            )
            for variant in info.variants
        ),
        reason=reason(info.reason),
        remedy=remedy(info.remedy),
        cold=info.cold,
        code=_code(run, info, tip),
    )


def _code(run: Run, info: PairInfo, tip: KnownTip) -> Mapping[str, str]:
    """The code that was measured where the suite's file says the same, now or at the run's commit; else none."""
    if not info.code:
        return {}
    is_ours = info.code == tip.code(info.pair) or info.code == sides(at_commit(run.commit, tip.file), info.pair)
    return info.code if is_ours else {}


def _variant(found: VariantRecord, tip: KnownTip) -> VariantRecord:
    return VariantRecord(
        _outcome(found.outcome),
        kind(found.kind),
        reason(found.reason),
        remedy(found.remedy),
        equal=_fields(found.equal, EQUAL),
        mechanism=_mechanism(found.mechanism, tip),
        memory=_numbers(MEMORY)(found.memory),
        one_off=_numbers("build|warm_up")(found.one_off),
        energy=_numbers("joules_a_step")(found.energy),
        work=_numbers("flops|bytes")(found.work),
    )


def _mechanism(found: Mapping[str, Any], tip: KnownTip) -> dict[str, Any]:
    if not found:
        return {}
    what = found.get("what")
    sides = {side: _counted(found.get(side), tip) for side in ("baseline", "optimized")}
    return {"what": what if what in tip.counts else "count", **sides, "engaged": _flag(found.get("engaged"))}


def _counted(found: Any, tip: KnownTip, depth: int = 0) -> Any:
    """What a mechanism counted: numbers, and text of the words of the tip's own file."""
    if isinstance(found, bool) or _measured(found) is not None:
        return found
    if isinstance(found, str):
        return found if _of_words(found, tip.words) else "told here only"
    if isinstance(found, Mapping) and depth < 3:
        return {key: _counted(item, tip, depth + 1) for key, item in found.items() if _of_words(str(key), tip.words)}
    if isinstance(found, list | tuple) and depth < 3:
        return [_counted(item, tip, depth + 1) for item in found[:100]]
    return None


def _of_words(text: str, words: Iterable[str]) -> bool:
    """Whether text is made of these words and of small numbers, and is no path and no address."""
    if len(text) > 100 or re.search(r"[^\w ,:;=+\[\]().%-]|\d\.\d+\.|\d{9}", text, re.ASCII):
        return False
    return set(WORD.findall(text)) <= set(words)


def _launch(launch: Launch) -> Launch:
    kept = {name: column for name, column in launch.gpu.items() if name in GPU_READINGS}
    return replace(launch, gpu=kept)
