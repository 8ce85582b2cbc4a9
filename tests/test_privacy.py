"""What leaves the machine: canaries in every field of a run, in the environment and in git's settings, and none of
them in a byte of what is sent."""

from __future__ import annotations

import ast
import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.git_server import CREDENTIALS, everything, files, serving
from tests.made_up import MACHINE as MADE_UP
from tests.made_up import stored
from tests.published import TOKEN, suite_run
from tipbench.machine.controls import controls
from tipbench.publish.forms import hardware_name
from tipbench.publish.redaction import redact
from tipbench.publish.suite import declares, is_own
from tipbench.records.record import Launch, PairInfo, Record, Run, VariantInfo, VariantRecord
from tipbench.records.store import Notice
from tipbench.report.results import results
from tipbench.tip.process import ProcessSettings
from tipbench.tip.reason import SENTENCES, WITHHELD, Reason, field_names

CANARIES = {
    "hostname": "canary-host.corp.example",
    "user": "canaryuser",
    "home": "/home/canaryuser/secret-project",
    "address": "10.77.66.55",
    "hardware address": "02:ca:0a:4a:ee:01",
    "UUID": "GPU-c0ffee00-dead-beef-cafe-0123456789ab",
    "serial": "SN4711CANARY",
    "environment value": "canary_value=hunter2",
    "command line": "python train.py --canary-flag",
    "remote": "git@canary.example:corp/secret.git",
    "markup": "<!-- canary --> [[canary]] {{canary}}",
}

GPU = {
    "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85520809984, "driver": "570.86.15", "capability": "9.0",
    "power_limit_w": 700.0, "max_sm_mhz": 1980, "ecc": True, "mig": "unavailable",
    "compute_mode": "exclusive process",
}  # fmt: skip


def full_run() -> Run:
    """One of everything that a results file can hold."""
    of_suite = suite_run()
    records = of_suite.records
    launch = records[2].launches[0]
    blocks = len(launch.variant)
    gpu = {"sm_mhz": (1980,) * blocks, "milliwatts": (300_000,) * blocks, "clock_events": (0,) * blocks}
    card = {"parameters": 11_181_642, "flops": 10**10, "bytes": 10**9, "loading": 0.1, "forward": 0.2, "backward": 0.3}
    around = ProcessSettings((("KMP_BLOCKTIME", "1"),), ("OMP_NUM_THREADS",), ("iomp5",), ("numactl", "--membind=0"), 2)
    about = records[2].info
    about = dataclasses.replace(
        about,
        needs=("1 GPU",),
        source="0123456789abcdef",
        truth={"optimized": 1.3},
        variants=tuple(dataclasses.replace(side, settings=around, needs=("libiomp5",)) for side in about.variants),
    )
    differs = Reason(
        "different-results.values",
        {"where": "optimized, step 3", "difference": 0.3, "allowed": 0.0001},
        "output",
        "fix channels_last.py, line 40, then `tipbench run channels-last.Convolution`",
    )
    failed = VariantRecord("failed", differs)
    lossy = {"method": "lossy", "tolerance": 0.1, "seeds": 3, "error": 0.01, "baseline_error": "nan"}
    record = dataclasses.replace(
        records[2],
        info=about,
        launches=(
            dataclasses.replace(launch, gpu=gpu, card=card, stretches={"baseline": (0.02,)}),
            *records[2].launches[1:],
        ),
        variants={name: dataclasses.replace(side, equal=lossy) for name, side in records[2].variants.items()},
    )
    broken = dataclasses.replace(records[4], variants={"optimized": failed})
    return dataclasses.replace(
        of_suite,
        records=(*records[:2], record, records[3], broken, records[5]),
        options={"size": "S", "device": "cpu", "seed": 0, "folder": "/home/me/pairs"},
        later=("2026-03-02T09:30:00+00:00",),
        machine={
            **MADE_UP, "gpus": [GPU], "os": "Debian GNU/Linux 12 (bookworm)", "libc": "glibc 2.36", "turbo": "on",
            "compiler": "g++ (Debian 12.2.0-14+deb12u1) 12.2.0", "architecture": "x86_64", "virtual": True,
            "governor": "performance",
            "transparent_huge_pages": "madvise", "address_randomisation": "2",
            "name": "amd-epyc-zen4-2c-24g-h100-80gb-hbm3",
        },
    )  # fmt: skip


Place = tuple[Any, ...]


def places(part: Any, at: Place = ()) -> Iterator[Place]:
    """Where text stands, or could: every text, every key, and every number in a mapping, which JSON may make text.
    Of a tip's own id the key is left out: `store.read` lets no run in that lacks it."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            yield from places(getattr(part, field.name), (*at, field.name))
    elif isinstance(part, Mapping):
        for key, item in part.items():
            if key not in ("id", "title", "claim"):
                yield (*at, ("key", key))
            yield from [(*at, ("item", key))] if isinstance(item, int | float) else places(item, (*at, ("item", key)))
    elif isinstance(part, list | tuple):
        # One of what is alike stands for all: of launches, of planned names, of records that were measured.
        alike = {
            (type(item), getattr(item, "outcome", ""), not getattr(getattr(item, "info", ""), "source", "")): index
            for index, item in reversed(list(enumerate(part)))
        }
        for index in alike.values():
            yield from places(part[index], (*at, index))
    elif isinstance(part, str):
        yield at


def planted(part: Any, at: Place, text: str) -> Any:
    """The same with `text` at one place."""
    if not at:
        return text
    first, *rest = at
    if isinstance(first, str):
        return dataclasses.replace(part, **{first: planted(getattr(part, first), tuple(rest), text)})
    if isinstance(first, int):
        changed = [planted(item, tuple(rest), text) if index == first else item for index, item in enumerate(part)]
        return type(part)(changed)
    what, key = first
    if what == "key":
        return {text if name == key else name: item for name, item in part.items()}
    return {name: planted(item, tuple(rest), text) if name == key else item for name, item in part.items()}


FULL = full_run()
PLACES = sorted(set(places(FULL)), key=str)


def where(at: Place) -> str:
    return ".".join(str(part if not isinstance(part, tuple) else f"{part[0]} {part[1]}") for part in at)


def test_what_is_planted_covers_every_field_that_can_hold_text() -> None:
    """A field that is added to what a run holds is planted too, or this fails."""
    reached = {part for at in PLACES for part in at if isinstance(part, str)}
    single = {"int", "bool", "bool | None", "Whole", "Count", "Positive", "Number", "Seconds"}
    numbers = single | {f"tuple[{name}, ...]" for name in single}
    for kind in (Run, Record, PairInfo, VariantInfo, VariantRecord, Launch, ProcessSettings):
        for field in dataclasses.fields(kind):
            assert field.name in reached or str(field.type) in numbers, f"{kind.__name__}.{field.name}"
    assert len(PLACES) > 130


def test_a_run_without_canaries_is_published_whole() -> None:
    """The allow-list lets all of it through that it should, so that the tests below are not about an empty page."""
    let_through = redact(FULL)
    run, machine, records = let_through.run, let_through.run.machine, let_through.run.records
    assert let_through.withheld == ()
    numbers, expected = ([(row.verdict, row.speedup) for row in results(each)] for each in (run, FULL))
    assert numbers == expected
    assert (machine["name"], machine["gpus"]) == (FULL.machine["name"], FULL.machine["gpus"])
    assert (machine.get("os"), machine["compiler"]) == (None, "g++ 12.2.0")
    assert run.controls == FULL.controls
    assert records[2].info.source == FULL.records[2].info.source
    assert records[2].info.variants[0].settings == ProcessSettings(ranks=2)
    assert records[2].launches == FULL.records[2].launches
    assert records[3].variants["optimized"].mechanism == FULL.records[3].variants["optimized"].mechanism
    assert records[4].reason == WITHHELD
    differs = records[4].variants["optimized"].reason
    assert differs == "optimized, step 3: an output differs by 0.3 of its largest value; 0.0001 allowed"
    assert records[5].reason == "needs 1 CUDA GPU: 0 found"
    assert "folder" not in run.options


def has_a_canary(text: str) -> bool:
    """Or a part of one."""
    words = (*CANARIES.values(), "canary", "4711", "c0ffee", "10.77", "02:ca")
    return any(word.lower() in text.lower() for word in words)


@pytest.mark.parametrize("around", ["{}", "{} CPU @ 2.30GHz", "2.15.0+{}", "{}: 3", "optimized, step {}"])
def test_no_field_lets_a_canary_through(around: str) -> None:
    """Planted in one field after the other, the rest as it should be."""
    for number, at in enumerate(PLACES):
        canary = list(CANARIES.values())[number % len(CANARIES)]
        assert not has_a_canary(repr(redact(planted(FULL, at, around.format(canary))).run)), (where(at), canary)


def test_of_a_machine_fields_of_the_table_leave_in_their_forms() -> None:
    card = {"name": "NVIDIA H200", "driver": "580.1-build-of-alice", "serial": "1234", "mig": "denied"}
    recorded = {
        **{"name": "alices-laptop", "cpu": "AMD EPYC", "memory_bytes": 1 << 34, "hostname": "alice", "os": "Alice 12"},
        **{"gpus": [card, {"name": "a card of alice"}, "alice"], "virtual": "unavailable", "kernel": "6.1.0-alice"},
    }
    assert redact(dataclasses.replace(FULL, machine=recorded)).run.machine == {
        **{"cpu": "AMD EPYC", "memory_bytes": 1 << 34, "virtual": "unavailable", "kernel": "6.1.0"},
        "gpus": [{"name": "NVIDIA H200", "driver": "580.1", "mig": "denied"}, {"name": "unavailable"}],
        "name": "amd-epyc-16g-2x-h200",
    }


def test_texts_and_code_of_a_tip_are_the_suites_own(suite: Any) -> None:
    assert all(is_own(text) for info in suite.pairs for text in (info.tip.do, *sum(info.tip.ways.items(), ())))
    assert declares("benchmarks/control.py", "Convolution")
    assert not declares("benchmarks/control.py", "Canary")
    about = ("records", 2, "info")
    changed = planted(FULL, (*about, "tip", "when"), "canary")
    assert redact(changed).withheld == ("channels-last.Convolution",), "without its condition an answer would mislead"
    assert redact(planted(FULL, (*about, "source"), "canary")).run.records[2].info.source == ""


def test_notices_name_no_file() -> None:
    texts = ("truncated: canary", "not a valid record (canary); lost", "canary is stored a second time")
    stored_here = [Notice(Path("/home/canary/x.jsonl"), line, text) for line, text in enumerate(texts, 3)]
    let_through = redact(FULL, stored_here).notices
    assert "canary" not in repr(let_through)
    assert [notice.line for notice in let_through] == [3, 4, 5]
    assert let_through[0].text == f"it could not be used; {WITHHELD}"


def test_what_the_harness_itself_sets_may_be_published() -> None:
    made = controls(4)
    assert redact(dataclasses.replace(FULL, controls=made)).run.controls == made


@pytest.mark.parametrize(
    ("stored_name", "published"),
    [
        ("AMD EPYC 7R13 Processor", "AMD EPYC 7R13 Processor"),
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "Intel Xeon Platinum 8380 CPU 2.30GHz"),
        ("Neoverse-V2", "Neoverse-V2"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("alice's vCPU on build-07", ""),
    ],
)
def test_names_of_hardware(stored_name: str, published: str | None) -> None:
    assert hardware_name(stored_name) == published


def published(reason: Reason) -> Reason:
    """As it leaves the machine, of a pair of the suite."""
    record = dataclasses.replace(FULL.records[4], why=reason)
    why = redact(dataclasses.replace(FULL, records=(record,))).run.records[0].why
    assert why is not None
    return why


@pytest.mark.parametrize("code", SENTENCES)
def test_of_a_reason_code_and_fields_leave_and_what_a_person_said_stays(code: str) -> None:
    fields = dict.fromkeys(field_names(code), 3)
    why = published(Reason(code, fields, "canary", "canary"))
    assert (why.code, why.fields) == (code, fields)
    assert "canary" not in why.text + why.remedy
    assert why.text
    assert "?" not in why.text + why.remedy
    for canary in CANARIES.values():
        why = published(Reason(code, dict.fromkeys((*field_names(code), canary), canary)))
        assert not why.fields
        assert canary not in why.text + why.remedy


def test_of_a_code_that_is_not_known_nothing_leaves() -> None:
    why = published(Reason("step-raised.canary", {"canary": "canary"}, "canary", "canary"))
    assert (why.kind, why.text, why.remedy, why.fields) == ("", WITHHELD, "", {})


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("needs.native", {"library": "libtcmalloc"}),
        ("needs.torch", {"wanted": "2.10"}),
        ("killed", {"doing": "starting"}),
        ("crashed", {"signal": "SIGSEGV", "doing": "check num_workers=4", "rank": 1}),
        ("stale-results.seeds", {"where": "optimized, step 3", "side": "baseline"}),
    ],
)
def test_the_suites_own_words_in_a_reason_leave(code: str, fields: dict[str, Any]) -> None:
    assert published(Reason(code, fields)).fields == fields


def reasons() -> Iterator[tuple[str, set[str]]]:
    """(code, names of fields) of every reason that stands in the harness's files."""
    rooms = ("tip", "engine", "worker", "suite", "verdict")
    for tree in (ast.parse(file.read_text()) for room in rooms for file in Path("harness/tipbench", room).glob("*.py")):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("Failed", "Reason", "Unequal"):
                continue
            if node.args and isinstance(node.args[0], ast.Constant):
                dicts = [word for word in node.args[1:2] if isinstance(word, ast.Dict)]
                keys = {str(key.value) for fields in dicts for key in fields.keys if isinstance(key, ast.Constant)}
                yield str(node.args[0].value), keys | {word.arg for word in node.keywords if word.arg}


def test_every_reason_that_the_harness_gives_has_a_sentence_which_names_its_fields() -> None:
    listed = list(reasons())
    assert len(listed) > 50
    for code, names in listed:
        assert (names - {"detail", "fix"}) | {"rank", "where"} == field_names(code), code


def test_nothing_of_the_machine_is_in_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real publication over HTTP, from a place full of canaries: every request and every object is looked through."""
    home = tmp_path / "canary-home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Canary Person\n\temail = person@canary.example\n")
    (home / ".netrc").write_text("machine canary.example login canaryuser password hunter2\n")
    run = FULL
    numbers = [("machine", ("item", name)) for name in ("cores", "memory_bytes")]  # of text `store.read` reads none
    spared = {"id", "pair", "name", "outcome", ("item", "id"), "device", "scale", "status"}
    spared |= {("item", "claim"), "method"}
    for at in PLACES:
        is_key = any(isinstance(part, tuple) and part[0] == "key" for part in at)
        if is_key or at in numbers or at[-1] in spared or "variant" in at or "planned" in at:
            continue
        if at[0] in ("machine", "controls", "options", "suite", "commit") or "why" in at or "file" in at:
            kind = sorted(CANARIES)[len(str(at)) % len(CANARIES)]
            run = planted(run, at, CANARIES[kind])
    run = dataclasses.replace(run, options={**FULL.options, "folder": CANARIES["home"]})
    file = stored(home / "canary-results", run)
    assert "canary" in file.read_text()
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(Path.cwd()), "HOME": str(home), "USER": CANARIES["user"],
        "LOGNAME": CANARIES["user"], "HOSTNAME": CANARIES["hostname"], "EMAIL": "person@canary.example",
        "CANARY": CANARIES["environment value"], "SSH_CLIENT": f"{CANARIES['address']} 1 22", "TIPBENCH_TOKEN": TOKEN,
        "TIPBENCH_USER": "canaryuser", "TZ": "Asia/Kathmandu", "OMP_NUM_THREADS": "77",
        **CREDENTIALS,
    }  # fmt: skip
    with serving(tmp_path) as server:
        folder = server.wiki()
        command = [sys.executable, "-m", "tipbench", "publish", "--flavour", "github"]
        words = [*command, "--to", f"git+{server.url}/wiki.git", str(file)]
        for more in (["--dry-run"], []):
            done = subprocess.run([*words, *more], env=env, cwd=home, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "canary" not in done.stdout.lower()
            assert TOKEN not in done.stdout + done.stderr
            if more:
                preview = done.stdout
        sent = [line + headers + body.decode("latin-1") for line, headers, body in server.seen]
        objects = everything(folder)
        pages = files(folder)
    assert any("git-receive-pack" in request for request in sent)
    private = [*CANARIES.values(), "canary", "hunter2", TOKEN, str(tmp_path), str(Path.cwd()), socket.gethostname()]
    for text in filter(lambda text: len(text) > 4, private):
        assert text.lower().encode() not in objects.lower(), text
        for request in sent:
            # but for who logs in, which the wiki knows: Basic auth is base64 of user and token
            assert text.lower() not in request.lower(), text
    # and the preview had shown it: every line of every page
    lines = set(preview.splitlines())
    for name, content in pages.items():
        if name.endswith(".md") and name != "Home.md":
            missing = [line for line in content.decode().splitlines() if line.rstrip() and line.rstrip() not in lines]
            assert not missing
        elif name.endswith(".png"):
            assert f"image {Path(name).name}, {len(content):,} bytes" in preview
