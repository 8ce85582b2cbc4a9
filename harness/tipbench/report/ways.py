"""The ways to follow a tip: what each brings in the whole jobs of a workload, and which of them the answer is about."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tipbench.report.answer_kinds import ACTS, DEFAULT, DEPENDS, DO_NOT, SMALL, UNCLEAR, USE, USE_IF
from tipbench.report.measure import Effect
from tipbench.report.price import price
from tipbench.report.result import Result
from tipbench.tip.pair import DEFAULT_NOW, code_to_write
from tipbench.tip.wording import job_words, way_words
from tipbench.verdict.pooling import LEAST_PROBABILITY
from tipbench.verdict.statistics import Mean

JOB_AS_IT_IS = "the job as it is"
"""What a gain was measured against where nothing else is named."""


@dataclass(frozen=True)
class WayEffect:
    """What one way to follow a tip brings in the whole jobs of a workload.

    Attributes:
        name: what it is called: the variant's name, or `Tip.called` of the headline variant.
        is_headline: whether the guide words the tip so.
        kind: one of KINDS.
        do: what to write; empty if nothing can be shown.
        is_way: whether it is to be followed at all: `Tip.ways` names the variants that are not.
        against: what its gains were measured against; empty for the job as it is.
        price: what following it costs.
        gains: one a job, gains first.
        brings: the mean over its jobs by what the tip claims, as ln of the baseline over the way; 0 if not known.
    """

    name: str
    is_headline: bool
    kind: str
    do: str
    is_way: bool
    against: str
    price: str
    gains: tuple[Effect, ...]
    brings: float

    @property
    def value(self) -> str:
        """Of its setting, where the variants are values of one: of `num_workers=4` the 4."""
        return self.gains[0].row.variant.partition("=")[2]

    @property
    def extreme(self) -> str:
        """`0.72x`: the ratio of the job in which it costs most."""
        ratios = [gain.ratio for gain in self.gains if gain.mean is not None]
        return f"{min(ratios):.2f}x" if ratios else ""

    @property
    def cost(self) -> str:
        """What it costs, in the jobs in which it does."""
        losses = [gain for gain in self.gains if gain.state.word == "loss"]
        if len(losses) == 1:
            return f"{losses[0].brought} in {job_words(losses[0].row.pair)}"
        ratios = [gain.ratio for gain in losses]
        return f"{min(ratios):.2f}x to {max(ratios):.2f}x in {', '.join(job_words(gain.row.pair) for gain in losses)}"


def ways_of(jobs: Sequence[Effect], alone: Sequence[Result]) -> list[WayEffect]:
    """The headline variant first, which may be called otherwise in each job; then the others in their order. alone: the
    results of operations alone, whose trainings may have been counted."""
    by_name: dict[str, list[Effect]] = {}
    for effect in sorted(jobs, key=lambda effect: not effect.row.is_headline):
        by_name.setdefault("" if effect.row.is_headline else effect.row.variant, []).append(effect)
    return [_way(of_way, [result for result in alone if result.is_headline]) for of_way in by_name.values()]


def _way(jobs: Sequence[Effect], alone: Sequence[Result]) -> WayEffect:
    results = [job.row for job in jobs]
    first, means = results[0], [job.mean.mean for job in jobs if job.mean is not None]
    called = first.about.called or ("" if first.variant == "optimized" else first.variant)
    return WayEffect(
        name=called if first.is_headline else way_words(first.variant),
        is_headline=first.is_headline,
        kind=_kind(jobs),
        do=code_to_write(first.about.do, first.about.ways, first.variant, first.is_headline),
        is_way=first.is_headline or first.about.ways.get(first.variant, "-") != "",
        against=_against(results),
        price=price(results, [*results, *(alone if first.is_headline else ())]),
        gains=tuple(sorted(jobs, key=lambda job: job.state.word != "gain")),
        brings=statistics.fmean(means or [0.0]),
    )


def _against(results: Sequence[Result]) -> str:
    """What the gains were measured against, of each job where that differs; empty for the jobs as they are. Of whole
    jobs alone: `Tip.against` says nothing of operations."""
    jobs: dict[str, list[str]] = {}
    for result in results:
        jobs.setdefault(result.about.against if result.scale == "macro" else "", []).append(result.pair)
    if len(jobs) <= 1:
        return "".join(jobs)
    return "; ".join(f"{against or JOB_AS_IT_IS} ({', '.join(pairs)})" for against, pairs in jobs.items())


def _kind(jobs: Sequence[Effect]) -> str:
    if jobs[0].row.about.status.startswith(DEFAULT_NOW):
        return DEFAULT
    measured = [job for job in jobs if job.means]
    states = [job.state.word for job in measured]
    gains, losses = states.count("gain"), states.count("loss")
    if gains and losses:
        return DEPENDS
    if losses:
        return DO_NOT
    if gains and jobs[0].row.about.when:
        return USE_IF
    if gains:
        pays = 2 * gains >= len(measured) and not any(job.may_cost for job in measured)
        return USE if pays else DEPENDS
    return SMALL if measured and set(states) == {"within"} else UNCLEAR


def lead_of(ways: Sequence[WayEffect]) -> WayEffect:
    """The way that the answer is about: one that pays, if there is any. The headline variant leads unless another way
    is likely to be better; the largest of several means alone would be the luckiest."""
    ways = [way for way in ways if way.is_way] or ways
    kinds = {way.kind for way in ways}
    paying = next((group for group in ((USE, USE_IF), (DEPENDS,)) if not kinds.isdisjoint(group)), ())
    best = [way for way in ways if way.kind in paying] or ways
    headline = next((way for way in best if way.is_headline), None)
    if headline is None:
        return max(best, key=lambda way: way.brings)
    better = [way for way in best if paying and _is_better(way, headline)]
    return max(better, key=lambda way: way.brings, default=headline)


def _is_better(way: WayEffect, other: WayEffect) -> bool:
    """Whether it is likely to bring more, on average over all jobs of the other."""
    means = [{gain.row.pair: gain.mean for gain in each.gains} for each in (way, other)]
    couples = [(mine, its) for pair, its in means[1].items() if its and (mine := means[0].get(pair))]
    if not couples or len(couples) < len(means[1]):
        return False
    more = statistics.fmean(mine.mean - its.mean for mine, its in couples)
    error = math.hypot(*(mean.error for couple in couples for mean in couple)) / len(couples)
    freedom = min(mean.freedom for couple in couples for mean in couple)
    return Mean(more, error, freedom).above(way.gains[0].measure.margin) >= LEAST_PROBABILITY


def name_ways(kind: str, lead: WayEffect, ways: Sequence[WayEffect]) -> str:
    """What of several ways the answer is about, from a colon on; empty where that is the tip as the guide words it."""
    if kind not in ACTS or len(ways) == 1:
        return ""
    harmful = [way for way in ways if way is not lead and way.kind == DO_NOT]
    names = [lead.name] if lead.name else []
    names += [f"not {way.name or 'as the guide words it'} ({way.extreme})" for way in harmful]
    return f": {', '.join(names)}" if harmful or not lead.is_headline else ""
