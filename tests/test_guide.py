"""Every item of the guides has a tip, every tip its pairs and checks; what is not there yet is listed by name."""

import re
from pathlib import Path

import pytest
import torch

from tipbench.suite.catalog import coverage
from tipbench.suite.discover import discover
from tipbench.suite.files import BENCHMARKS, load, pair_classes, pair_files
from tipbench.tip.guide import ITEMS, SOURCES, answers
from tipbench.tip.pair import Claim, Equal, Pair, Tip

FILES = [file for file in pair_files(BENCHMARKS) if file.stem not in ("control", "limit")]


def tip_and_pairs(file: Path) -> tuple[Tip, list[type[Pair]]]:
    module = load(file, BENCHMARKS)
    return module.TIP, pair_classes(module)


TIPS = [tip_and_pairs(file) for file in FILES]


def test_each_item_of_the_guides_has_a_tip() -> None:
    found = answers((vars(tip), [(pair.scale, pair.__name__) for pair in pairs]) for tip, pairs in TIPS)
    assert not {item for item, tips in found.items() if not tips}


def test_items_are_distinct_and_have_a_source() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    assert all(item.source in SOURCES.values() and item.title for item in ITEMS)


@pytest.mark.parametrize(("tip", "pairs"), TIPS, ids=[tip.id for tip, _ in TIPS])
def test_a_tip_has_pairs_of_both_scales_or_says_why_not(tip: Tip, pairs: list[type[Pair]]) -> None:
    assert tip.claim in Claim
    scales = {pair.scale for pair in pairs}
    assert "macro" in scales
    assert ("micro" in scales) != bool(tip.no_micro), "either micro pairs, or the reason why there are none"
    assert tip.do, "what to write"


@pytest.mark.parametrize("pair", [pair for _, pairs in TIPS for pair in pairs], ids=lambda pair: pair.__qualname__)
def test_a_pair_checks_equal_work_and_mechanism(pair: type[Pair]) -> None:
    assert pair(torch.device("cpu")).mechanism.what
    assert pair.equal in Equal
    assert pair.tolerance <= (1e-1 if pair.equal is Equal.LOSSY else 1e-2)
    assert pair.equal not in (Equal.REFERENCE, Equal.LOSSY) or pair.reference is not Pair.reference


def test_a_reason_takes_the_place_of_a_micro_pair_and_an_item_of_no_guide_is_named() -> None:
    found = answers([({"id": "mine", "guide": ("B7",), "no_micro": "it is a loop"}, [("macro", "One")])])
    assert [(answer.micro, answer.macro) for answer in found["B7"]] == [("none: it is a loop", "One")]
    with pytest.raises(ValueError, match="mine names the guide item Z9"):
        answers([({"id": "mine", "guide": ("Z9",)}, [("micro", "One")])])


def test_the_readme_s_table_is_what_list_prints() -> None:
    readme = (BENCHMARKS / "README.md").read_text()
    (table,) = re.findall(r"<!-- coverage: .*? -->\n(.*?)\n<!-- end of coverage -->", readme, re.DOTALL)
    assert table == coverage(discover(BENCHMARKS, "cpu"))
