"""Every item of the guides has a tip, every tip its pairs and checks; what is not there yet is listed by name."""

import re
from itertools import groupby
from pathlib import Path

import pytest

from tests.made_up import both, info, measured, run, tip
from tipbench.records import store
from tipbench.records.record import Record
from tipbench.report import guides
from tipbench.suite.files import BENCHMARKS, load_module, pair_classes, pair_files
from tipbench.tip.guide import ITEMS, SOURCES, GuideSentence, Item
from tipbench.tip.pair import Claim, Pair, Tip, variants
from tipbench.tip.reason import Reason

FILES = [file for file in pair_files(BENCHMARKS) if file.stem not in ("control", "control_jobs", "together")]


def tip_and_pairs(file: Path) -> tuple[Tip, list[type[Pair]]]:
    module = load_module(file, BENCHMARKS)
    return module.TIP, pair_classes(module)


TIPS = [tip_and_pairs(file) for file in FILES]


def test_each_item_of_the_guides_has_a_tip() -> None:
    assert {item for tip, _ in TIPS for item in tip.guide} == {item.id for item in ITEMS}


def test_items_are_distinct_and_have_a_source() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    assert [chapter for chapter, _ in groupby(item.source for item in ITEMS)] == list(SOURCES.values())
    assert all(item.source in SOURCES.values() and item.title for item in ITEMS)


@pytest.mark.parametrize(("tip", "pairs"), TIPS, ids=[tip.id for tip, _ in TIPS])
def test_a_tip_has_a_whole_job(tip: Tip, pairs: list[type[Pair]]) -> None:
    assert tip.claim in Claim
    assert "macro" in {pair.scale for pair in pairs}


def test_each_sentence_of_the_guides_names_what_is_there_or_says_why_nothing_is() -> None:
    there = {
        f"{tip.id}.{pair.__name__}{which}"
        for tip, pairs in TIPS
        for pair in pairs
        for variant in variants(pair)
        for which in ("", f"[{variant.name}]", f"[{variant.name.partition('=')[0]}]")
    }
    for sentence in [sentence for item in ITEMS for sentence in item.sentence]:
        assert set(sentence.tried) <= there, sentence.says
        assert sentence.tried or sentence.untried, sentence.says


@pytest.mark.parametrize(("tip", "pairs"), TIPS, ids=[tip.id for tip, _ in TIPS])
def test_some_sentence_of_each_item_is_tried_by_each_tip_that_answers_it(tip: Tip, pairs: list[type[Pair]]) -> None:
    """But for practice since the guides were written, which no guide has a sentence on."""
    tried = {
        item.id
        for item in ITEMS
        for sentence in item.sentence
        for name in sentence.tried
        if name.partition("[")[0] in {f"{tip.id}.{pair.__name__}" for pair in pairs}
    }
    assert {item for item in tip.guide if not item.startswith("M")} <= tried


def test_the_readme_s_sentences_are_those_of_its_run() -> None:
    readme = (BENCHMARKS / "README.md").read_text()
    ((file, shown),) = re.findall(r"<!-- sentences: (\S+),.*? -->\n(.*?)<!-- end of sentences -->", readme, re.DOTALL)
    assert shown == guides.sentences(store.read(BENCHMARKS.parent / file)[0])


def findings(*sentences: GuideSentence) -> list[list[str]]:
    """The cells of the one table that a made-up run gives."""
    about = tip("amp", guide=("A3.6",))
    sweep = tip("async-loading", guide=("A1.1",))
    ways = {"optimized": 0.7, "half": 0.2}
    points = {"n=1": 0.1, "n=4": 0.3}
    results = run(
        [
            measured(info("Linear", list(ways), tip=about), ways, memory=both(400, 1000)),
            measured(info("Epoch", list(points), tip=sweep), points),
            Record(info("Training", tip=about), "skipped", Reason("needs.c++-compiler")),
        ]
    )
    _, table = guides.sentences(results, [Item("A3.6", "", sentences)]).strip().split("\n\n")
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_a_sentence_is_judged_by_what_it_promises() -> None:
    time, memory = findings(
        GuideSentence("It is `faster`.", ("amp.Linear",)),
        GuideSentence("It is leaner.", ("amp.Linear",), claim=Claim.LEANER),
    )
    assert time[:3] == ["A3.6", "It is `faster`.", "`amp.Linear`"]
    assert time[3].startswith("Linear 2.01")
    assert memory[3].startswith("Linear -50 %")


def test_a_sentence_has_the_variant_or_the_sweep_that_it_names() -> None:
    one, swept = findings(
        GuideSentence("One.", ("amp.Linear[half]",)), GuideSentence("Several.", ("async-loading.Epoch[n]",))
    )
    assert one[3].startswith("Linear (half) 1.22")
    assert [line.split(" ")[1] for line in swept[3].split("; ")] == ["(n=1)", "(n=4)"]


def test_of_a_sentence_that_was_not_tried_the_reason_is_shown() -> None:
    skipped, absent, untried, partly = findings(
        GuideSentence("Skipped.", ("amp.Training",)),
        GuideSentence("Absent.", ("amp.Elsewhere",)),
        GuideSentence("Untried.", untried="no card"),
        GuideSentence("Partly.", ("amp.Elsewhere",), untried="one card alone"),
    )
    assert skipped[3].replace("\\", "") == Reason("needs.c++-compiler").text
    assert absent[3] == "not in this run"
    assert untried[2:] == ["none: no card", "-"]
    assert partly[2] == "`amp.Elsewhere`, but one card alone"
