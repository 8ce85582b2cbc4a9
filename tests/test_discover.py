"""Pairs are found by looking into a folder: no registry, no list to edit. What breaks is in test_bad_luck."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_up import files
from tipbench.engine.run import Options
from tipbench.machine.controls import HEAP
from tipbench.records.record import PairInfo
from tipbench.suite.discover import Discovery, NoTorch, discover
from tipbench.suite.files import BENCHMARKS, NoFolder, load_module, pair_files
from tipbench.suite.source import source_digest
from tipbench.tip.pair import TipText

HEAD = """
import shared
from tipbench.tip.process import process_settings
from tipbench.tip.needs import Need
from tipbench.tip.job import MacroPair
from tipbench.tip.pair import Claim, Equal, Pair, Tip, variant, requires, sweep
from tipbench.tip.sizes import Sizes
from tipbench.tip.reason import Reason

TIP = Tip(id="{id}", title="Do so", guide=("A1.1", "B3"), claim=Claim.LEANER, note="not always")
NOWHERE = Need("a unicorn", lambda device: Reason("needs.own", {{}}, "no unicorn found", "buy one"))
"""

VARIETY = """
class _Shared(Pair):
    sizes = Sizes(dict(elements=shared.ELEMENTS))

class Plain(_Shared):
    equal = Equal.BITWISE

class Many(_Shared, MacroPair):
    @process_settings(env={"OMP_NUM_THREADS": "{threads}"})
    @sweep(threads=(1, 2))
    def optimized(self, threads=2): ...

    @variant
    @requires(NOWHERE)
    def other(self): ...

class Nowhere(Pair):
    needs = (NOWHERE,)

class OnlyOnGPUs(Pair):
    devices = ("cuda",)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A person's own folder: chapters, a helper, files that are no pairs."""
    texts = {
        "shared.py": 'print("a stray print")\nELEMENTS = 5\n',
        "deploy.py": "# TIP: never run it by accident\nimport tipbench\nraise SystemExit\n",
        "foreign.py": "TIP = 'of another suite'\nraise SystemExit\n",
        "control.py": HEAD.format(id="own-control") + "class Same(Pair): ...\n",
        "gpu/fast.py": HEAD.format(id="fast") + "class One(Pair): ...\n",
        "general/variety.py": HEAD.format(id="variety") + VARIETY,
        "general/again.py": HEAD.format(id="again") + "from general.variety import Plain\nclass Own(Pair): ...\n",
    }
    return files(tmp_path_factory.mktemp("work") / "own", texts)


@pytest.fixture(scope="module")
def discovery(folder: Path) -> Discovery:
    return discover(folder, "cpu")


def pair(discovery: Discovery, name: str) -> PairInfo:
    (named,) = [info for info in discovery.pairs if info.name == name]
    return named


# ---- a folder ----


def test_files_come_in_the_guides_order_of_chapters_controls_first(folder: Path) -> None:
    names = [str(file.relative_to(folder)) for file in pair_files(folder)]
    assert names == ["control.py", "general/again.py", "general/variety.py", "gpu/fast.py"]
    assert pair_files(folder / "control.py") == [folder / "control.py"], "a file alone is a folder of one"


def test_pairs_of_a_job_are_taken_only_where_an_advice_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "as-it-is.pair.json").write_text("{}")
    with pytest.raises(NoFolder, match="no pairs in"):
        discover(tmp_path, "cpu")
    (broken,) = discover(tmp_path, "cpu", of_data=True).broken
    assert "as-it-is.pair.json" in broken.reason


@pytest.mark.parametrize(
    ("heap", "shell", "kept"),
    [
        (HEAP, {}, True),
        # As a glibc up to 2.34 does with a threshold above 32 MiB: it takes the other setting alone.
        ({"MALLOC_TRIM_THRESHOLD_": HEAP["MALLOC_TRIM_THRESHOLD_"]}, {}, False),
        (HEAP, {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=65536"}, False),
    ],
)
def test_whether_glibc_keeps_its_heap_is_counted(
    heap: dict[str, str], shell: dict[str, str], kept: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tipbench.suite.discover.HEAP", heap)
    here = discover(folder / "control.py", "cpu", of_the_shell=shell)
    assert here.keeps_heap is kept
    assert (HEAP.items() <= Options().controlled(here).items()) is kept, "what takes no effect is not set"


def test_files_of_the_same_name_in_two_folders_have_their_own_pairs(tmp_path: Path) -> None:
    head = HEAD.replace("import shared\n", "")
    texts = {
        f"{file}.py": f"{head.format(id=name)}class {name.title()}(Pair): ...\n"
        for name, file in (("one", "one/same"), ("two", "two/same"), ("three", "a_b/c"), ("four", "a/b_c"))
    }
    names = [info.name for info in discover(files(tmp_path, texts), "cpu").pairs]
    assert sorted(names) == ["four.Four", "one.One", "three.Three", "two.Two"]


def test_pairs_of_a_file_come_in_its_order_without_shared_bases_and_imported_ones(discovery: Discovery) -> None:
    assert not discovery.broken
    names = ["again.Own", *("variety.Plain", "variety.Many", "variety.Nowhere", "variety.OnlyOnGPUs"), "fast.One"]
    assert [info.name for info in discovery.pairs] == ["own-control.Same", *names]
    assert (discovery.device, discovery.torch[:2]) == ("cpu", "2.")
    assert discovery.threads >= 1


def test_a_pair_is_described_with_its_tip_and_settings(discovery: Discovery, folder: Path) -> None:
    info = pair(discovery, "variety.Plain")
    guide = ("A1.1", "B3")
    assert info.tip == TipText(id="variety", title="Do so", guide=guide, claim="less memory", note="not always")
    assert (info.scale, info.equal, info.sizes) == ("micro", "bitwise", {"elements": 5})
    assert (info.device, info.reason, info.needs) == ("cpu", "", ())
    assert info.file == "own/general/variety.py", "and not where the person works"
    assert (folder / "general/variety.py").read_text().splitlines()[info.line - 1].startswith("class Plain")
    assert info.source == source_digest(folder / "general/variety.py", folder), "with the helper beside its chapter"
    assert pair(discovery, "variety.Many").scale == "macro"


def test_variants_are_the_baseline_the_sweep_and_further_variants(discovery: Discovery) -> None:
    listed = [(variant.name, variant.settings.env) for variant in pair(discovery, "variety.Many").variants]
    threads = [(f"threads={n}", (("OMP_NUM_THREADS", str(n)),)) for n in (1, 2)]
    assert listed == [("baseline", ()), *threads, ("other", ())]
    headlines = {name: pair(discovery, f"variety.{name}").worded for name in ("Plain", "Many")}
    assert headlines == {"Plain": "optimized", "Many": "threads=2"}


def test_a_need_that_is_not_met_is_named_with_its_remedy(discovery: Discovery) -> None:
    whole = pair(discovery, "variety.Nowhere")
    *others, last = pair(discovery, "variety.Many").variants
    for lacking in (whole, last):
        assert (lacking.needs, lacking.reason, lacking.remedy) == (("a unicorn",), "no unicorn found", "buy one")
    assert not any(variant.reason for variant in others)
    elsewhere = pair(discovery, "variety.OnlyOnGPUs")
    assert (elsewhere.reason, elsewhere.remedy) == ("runs on cuda, not on cpu", "--device cuda")


def test_a_library_that_does_not_exist_skips_its_variant_alone(tmp_path: Path) -> None:
    head = HEAD.format(id="misspelt").replace("import shared\n", "")
    body = "class One(Pair):\n    @process_settings(preload=('jemaloc',))\n    def optimized(self): ...\n"
    (info,) = discover(files(tmp_path, {"misspelt.py": head + body}) / "misspelt.py", "cpu").pairs
    assert [variant.reason for variant in info.variants] == ["", "no library is called 'jemaloc'"]
    assert "jemalloc" in info.variants[1].remedy


def test_a_device_that_is_not_there_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(NoTorch, match="--device cuda"):
        discover(folder / "control.py", "cuda")


def test_a_torch_that_fails_to_import_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: wrong ELF class')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(NoTorch, match=r"torch cannot be imported by .*python.*wrong ELF class"):
        discover(folder)


@pytest.mark.parametrize(
    ("endless", "ending"),
    [("time.sleep(600)", "came to no end in 3 s"), ("while True: print('x' * (1 << 20))", "printed over 64 MiB")],
)
def test_a_file_that_never_ends_its_import_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endless: str, ending: str
) -> None:
    # Without torch in the way, the deadline can be short.
    (tmp_path / "torch.py").write_text(
        "__version__ = '2'\nget_num_threads = lambda: 1\nclass cuda: is_available = staticmethod(lambda: False)\n"
        "uint8 = full = lambda *_, **__: None\n"
    )
    (tmp_path / "endless.py").write_text(f"import time\nTIP = None\n{endless}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("tipbench.suite.discover.IMPORT_DEADLINE", 3.0)
    (broken,) = discover(tmp_path / "endless.py").broken
    assert broken.kind == "import error"
    assert f"endless.py: the process {ending} while importing it" in broken.reason


# ---- one file ----


def test_files_of_benchmarks_are_imported_under_their_package_name() -> None:
    module = load_module(BENCHMARKS / "control.py", BENCHMARKS)
    assert module.__name__ == "benchmarks.control"
    assert load_module(BENCHMARKS / "control.py", BENCHMARKS) is module


def test_a_package_of_others_named_benchmarks_takes_nothing_over(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/__init__.py").write_text("raise RuntimeError\n")
    program = "from tipbench.suite import files as f; f.load_module(f.BENCHMARKS / 'control.py', f.BENCHMARKS)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, check=True)
