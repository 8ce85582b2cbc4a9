"""The code of both sides, cut out of files as people write them."""

from __future__ import annotations

import ast

import pytest

from tipbench.suite import source
from tipbench.suite.discover import Discovery
from tipbench.suite.source import SHARED, sides

FILE = '''
import torch
from benchmarks.jobs.kitchen import Cooks

TIP = None

def tip(job):
    """The tip."""
    deeper(job)

def deeper(job):
    job.model.tune()

def old_way(job):
    job.model.detune()

def unused():
    pass

class _Base(Cooks, apply=tip):
    pass

class Job(_Base, untuned=partial(old_way, much=True)):
    sizes = Sizes(dict(batch=2))

class OwnJob(_Base):
    def job(self):
        return make(self.size)

    def step_of(self, job):
        return job.epoch

class Alone(Pair):
    def data(self):
        return torch.ones(2)

    def baseline(self):
        data = self.data()
        return lambda: data + 1

    @sweep(threads=(1, 2))
    def optimized(self, threads):
        data = self.data()
        return lambda: tip(data, threads)

    @variant
    def other(self):
        return self.optimized(3)
'''

JOBS = {
    "benchmarks/jobs/kitchen.py": """
def cook(size):
    pass

class Cooks(MacroPair):
    def job(self):
        return cook(self.size)
"""
}

TUNED = 'apply = tip\n\ndef tip(job):\n    """The tip."""\n    deeper(job)\n\ndef deeper(job):\n    job.model.tune()'


def test_the_sides_of_a_job_are_the_job_and_what_is_applied_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "suite_source", JOBS.__getitem__)
    assert sides(FILE, "Job") == {
        "baseline": "untuned = partial(old_way, much=True)\n\n"
        "def job(self):\n    return cook(self.size)\n\ndef old_way(job):\n    job.model.detune()",
        "optimized": TUNED,
    }
    assert sides(FILE, "OwnJob") == {
        "baseline": "def job(self):\n    return make(self.size)\n\ndef step_of(self, job):\n    return job.epoch",
        "optimized": TUNED,
    }


def test_of_a_job_that_is_nowhere_the_tip_is_shown_alone_or_nothing() -> None:
    assert sides(FILE, "OwnJob")["optimized"] == TUNED
    assert sides(FILE.replace("untuned=", "other="), "Job") == {}


def test_what_all_sides_use_is_shown_by_itself_and_marks_stay() -> None:
    code = sides(FILE, "Alone")
    assert list(code) == ["baseline", "optimized", "other", SHARED]
    assert code[SHARED] == "def data(self):\n    return torch.ones(2)"
    assert code["baseline"] == "def baseline(self):\n    data = self.data()\n    return lambda: data + 1"
    assert code["optimized"].startswith("@sweep(threads=(1, 2))\ndef optimized(self, threads):")
    assert "def deeper(job)" in code["optimized"]
    assert code["other"].startswith("@variant\ndef other(self):")
    assert not any("unused" in text or "mechanism" in text for text in code.values())


@pytest.mark.parametrize(
    "text",
    ["", "class Alone(:", "x = 1", "class Alone(Alone): pass", "\0", "(" * 100_000, "x = " + "-" * 200_000 + "1"],
)
def test_what_holds_no_such_pair_has_no_sides(text: str) -> None:
    assert sides(text, "Alone") == {}


def test_every_pair_of_the_suite_shows_both_sides(suite: Discovery) -> None:
    for info in (info for info in suite.pairs if info.tip.id != "control"):  # its sides are one
        assert {"baseline", "optimized"} <= set(info.code), info.name
        assert all(ast.parse(text).body for text in info.code.values()), info.name
        further = {variant.name for variant in info.variants if "=" not in variant.name}
        assert further <= {*info.code, "optimized"}, info.name
