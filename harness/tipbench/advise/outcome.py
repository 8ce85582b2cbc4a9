"""What an advice concludes from its measurements: which changes together, what they bring and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

from tipbench.advise.combination import SIDE_WITHOUT, Combination, costs, log_gain, rungs
from tipbench.advise.pairs import IN_A_ROW, LOADING_TIPS, results_by_way
from tipbench.given.curve import JobCurve
from tipbench.given.survey import AS_IT_IS, Survey, WayHere
from tipbench.machine.activity import OCCUPIED, mostly_beside
from tipbench.machine.controls import HEAP
from tipbench.records.record import Run
from tipbench.report.price import SOON, more_memory
from tipbench.report.result import Result, steps_to_pay
from tipbench.report.results import results
from tipbench.tip.wording import equal_work, percent, plural, ratio, seconds
from tipbench.verdict.rules import JOB_BOUND

OFF = math.log(1.05)
"""How far the job may be off from itself."""


@dataclass(frozen=True)
class JobOutcome:
    """What was measured of a job, and which ways to follow tips are left.

    Attributes:
        survey: of the job as it is.
        alone: the run of every tip by itself.
        members: names of the ways that are left together, in the order in which they are applied.
        sides: of the combination's pair, measured anew: by side its time relative to the whole combination; empty
            without members.
        left_out: for each way that was removed from the combination, the time without it relative to the full
            combination at that point.
        others: of each launch of all parts, cores that other programs kept busy, as far as that is known.
        on_busy: whether there is advice from a busy machine too.
        curves: how the rate of the job as it is depends on what can act on it.
    """

    survey: Survey
    alone: Run
    members: Combination
    sides: dict[str, Result]
    left_out: Mapping[str, Result] = field(default_factory=dict)
    others: Sequence[float] = ()
    on_busy: bool = False
    curves: Sequence[JobCurve] = ()

    @cached_property
    def by_way(self) -> dict[str, Result]:
        """By name, what each way brings alone."""
        return results_by_way(self.survey, results(self.alone))

    @property
    def whole(self) -> Result | None:
        """The job as it is, relative to the whole combination; None if that was not measured."""
        return self.sides.get("optimized")

    def without(self, name: str) -> Result | None:
        """The combination without this member, relative to all of it; None if it was not left out in turn."""
        return self.whole if len(self.members) == 1 else self.sides.get(f"{SIDE_WITHOUT}{name}")

    @cached_property
    def launch_step_s(self) -> list[float]:
        """Seconds of a step of the job as it is, the median in each launch of its comparisons."""
        loaded, steps = self.survey.epoch or IN_A_ROW, []
        for record in self.alone.records:
            in_a_row = loaded if self.survey.workers or record.info.tip.id in LOADING_TIPS else 1
            for launch in record.launches:
                blocks = [took for side, took in zip(launch.variant, launch.seconds, strict=True) if side == "baseline"]
                steps.append(median(blocks) / record.steps / in_a_row)
        return steps

    @property
    def load_of_others(self) -> str:
        """What other programs took of this machine in most launches, or while the job was surveyed if there is none
        yet; empty where that is little."""
        if self.others or self.survey.others <= OCCUPIED:
            return mostly_beside(self.others)
        return f"other programs kept {self.survey.others:.1f} cores busy while the job was surveyed"

    @cached_property
    def beside_itself(self) -> Result | None:
        """The job as it is on both sides; None if it was not timed."""
        return next((row for row in results(self.alone) if row.tip == AS_IT_IS and row.is_timed), None)

    @property
    def off_from_itself(self) -> str:
        """What the job beside itself came out as, if that is more than OFF; else empty."""
        own = self.beside_itself
        return speedup_of(own) if own and abs(log_gain(own)) > OFF else ""

    @property
    def is_unreliable(self) -> bool:
        """Whether nothing is advised, whatever was measured."""
        return bool(self.off_from_itself or (self.load_of_others and not self.on_busy))

    @property
    def pays(self) -> bool:
        """Whether the changes together bring more than the 1 % that counts as no difference for certain, or by the
        interval of too few launches for that more than JOB_BOUND."""
        if self.is_unreliable or not self.members or self.whole is None:
            return False
        return self.whole.verdict == "slower" or is_likely(self.whole)

    @property
    def is_open(self) -> bool:
        """Whether further launches may still show that changes pay."""
        if self.members:
            return self.whole is None or self.whole.verdict == "inconclusive"
        return bool(self._undecided)

    @property
    def gain(self) -> str:
        """`1.83x [1.76, 1.90] with 2 changes`, from launches that chose nothing, which may be few."""
        whole = self.sides["optimized"]
        few = f", likely, from {plural(len(whole.effects), 'launch')}" if is_likely(whole) else ""
        return f"{inverse_of(whole)} with {plural(len(self.members), 'change')}{few}"

    @property
    def conclusion(self) -> str:
        """What to do, in one sentence without its full stop."""
        others, whole = self.load_of_others, self.whole
        if others and not self.on_busy:
            return f"This machine was busy, so there is no advice: {others}"
        if off := self.off_from_itself:
            return f"No number here can be trusted, so there is no advice: the job beside itself came out {off}"
        if self.pays:
            return f"{self.gain}, measured while {others}" if others else self.gain
        if self.members:
            do = " and ".join(self.survey.by_name[name].in_a_line for name in self.members)
            if whole is None:
                return f"Not enough time yet to measure again what seems to pay alone: {do}"
            if whole.verdict == "inconclusive":
                return f"Not known yet: {inverse_of(whole)} with {do}"
            anew = f"not more than 1 % for certain when measured anew: {inverse_of(whole)}"
            return f"Nothing worth changing: {do} seemed to pay, but {anew}"
        if undecided := self._undecided:
            count = f"{len(undecided)} of {plural(len({way.tip for way in self._alike}), 'tip')}"
            return f"Nothing worth changing was found yet: {count} need{'s' * (len(undecided) == 1)} more launches"
        alike = [self.by_way[way.name].high for way in self._alike if way.name in self.by_way]
        if not (bounds := [high - 1 for high in alike if high is not None]):
            return "Nothing worth changing was found: no tip that leaves the results as they are could be measured"
        most = percent(max(0.0, *bounds))
        return f"Nothing worth changing: no tip that leaves the results as they are brings more than {most}"

    @property
    def _alike(self) -> list[WayHere]:
        """The ways that were tried and leave the results as they are."""
        return [way for way in self.survey.ways if not way.why_not and not way.changes_numbers]

    @property
    def _undecided(self) -> set[str]:
        """Their tips that have no launches, or may still bring more than 5 %."""
        rows = [(way.tip, self.by_way.get(way.name)) for way in self._alike]
        return {
            tip
            for tip, row in rows
            if not row or (row.verdict == "inconclusive" and (row.log_high is None or row.log_high > JOB_BOUND))
        }

    @property
    def changes(self) -> list[str]:
        """What each member brings on top of the others, and what those brought that were left out; nothing where
        nothing pays."""
        if not self.pays:
            return []
        lines, ways = [], self.survey.by_name
        for name in self.members:
            brings = self._on_top(name) or f"{speedup_of(self.by_way[name])} alone"
            lines.append(ways[name].in_a_line + (f": {brings}" if len(self.members) > 1 else ""))
        left = self.left_out.items()
        return [*lines, *(f"Left out: {ways[name].in_a_line}, {inverse_of(row)} on top of these" for name, row in left)]

    def _on_top(self, name: str) -> str:
        """What a member brings on top of the others, and costs once; empty if that is not known."""
        if (without := self.without(name)) is None:
            return ""
        once = price_once(without) if self.survey.by_name[name].takes_once else ""
        nothing, price = "" if costs(without) else ", where it may bring nothing", f"; costs {once}" if once else ""
        return f"{inverse_of(without)} on top of the others{nothing}{price}"

    def together(self, name: str) -> str:
        """What the launches of combinations say of a way; empty where they say nothing."""
        way, whole = self.survey.by_name[name], self.whole
        if self.is_unreliable:
            return ""
        if name in self.left_out:
            return f"left out, {inverse_of(self.left_out[name])} on top of the others"
        if name in self.members and whole is not None:
            if len(self.members) == 1:
                return f"{inverse_of(whole)} measured anew"
            return self._on_top(name) or f"{inverse_of(whole)} with all changes"
        members = [self.survey.by_name[member] for member in self.members if self.pays]
        rival = next((member for member in members if way.one_of and member.one_of == way.one_of), None)
        return f"not with {rival.name}" if rival else ""

    @property
    def ladder(self) -> str:
        """`107 ms as it is -> async-loading 60.0 ms -> fused-optimizer 57.1 ms`: a step with one member after the
        other; empty where nothing pays, or a side between was not measured."""
        if not self.pays or self.whole is None or not self.whole.speedup or not self.launch_step_s:
            return ""
        as_it_is = median(self.launch_step_s)
        words = [f"{seconds(as_it_is)} as it is"]
        for name, side, _ in rungs(self.members, self.by_way):
            result = self.sides.get(side)
            relative = 1.0 if side == "baseline" else result.speedup if result else None
            if relative:
                words.append(f"{name} {seconds(as_it_is * self.whole.speedup / relative)}")
        return " -> ".join(words) if len(words) == len(self.members) + 1 else ""

    @property
    def lossy(self) -> dict[str, str]:
        """By name, the ways that pay alone and alter results, those first that bring most: what each brings, and how
        far results are off with it. Empty where nothing is advised."""
        ways, lines = self.survey.by_name, {}
        taken = {ways[name].one_of for name in self.members} - {""}
        for name, row in sorted(self.by_way.items(), key=lambda item: -log_gain(item[1])):
            way = ways[name]
            if way.changes_numbers and way.one_of not in taken and row.verdict == "faster":
                off = f"{_off(row.equal, self.survey.kind)}{equal_work(row.equal) or 'results were not compared'}"
                lines[name] = f"{way.in_a_line}: {speedup_of(row)} alone; {off}"
        return {} if self.is_unreliable else lines

    @property
    def remarks(self) -> list[str]:
        """What holds of all members together, in sentences."""
        apart = ""
        if self.pays and not any(map(self.without, self.members)):
            apart = (
                "There was no time to leave each out in turn, so what each brings on top of the others is not known; a "
                "longer budget shows that."
            )
        return [sentence for sentence in (apart, self._price, self._heap) if sentence]

    @property
    def _price(self) -> str:
        """What all changes cost once, with the steps that pay for it, and in memory; empty where that is nothing."""
        whole = self.whole
        if whole is None or not self.pays:
            return ""
        takes_once = any(self.survey.by_name[name].takes_once for name in self.members)
        if takes_once and whole.one_off_sides is None:
            return "What the changes take once, such as to compile, was not measured; a longer budget shows that."
        live = [sides[::-1]] if (sides := whole.memory_sides) and all(sides) else []
        trees = [sides[::-1]] if (sides := whole.tree_sides) else []
        once = price_once(whole) if takes_once else ""
        listed = [*([once] if once else []), *more_memory(live, trees)]
        if not listed:
            return ""
        what = "This change costs" if len(self.members) == 1 else "Together the changes cost"
        cached = " Compile caches were empty: a later run finds there what is compiled, and starts sooner."
        return f"{what} {', and '.join(listed)}.{cached if once else ''}"

    @property
    def _heap(self) -> str:
        """That the changes bring so much where glibc keeps its heap; empty where they set their own allocator."""
        ways = [self.survey.by_name[name] for name in self.members]
        own = any(HEAP.keys() & way.env.keys() or "malloc" in "".join(way.preload) for way in ways)
        had = HEAP.items() <= self.alone.controls.items()
        if own or not had or not self.pays or self.survey.device != "cpu":
            return ""
        names = " and ".join(f"{name}={value}" for name, value in HEAP.items())
        return (
            f"Set {names} too: both sides had them, and tuned.env has. Without, a process may map its large "
            "temporaries anew at each step, and the changes bring less, or cost. With them it gives no memory back, "
            "and can grow at each step that keeps a small tensor, such as a loss: leave them out if its memory does "
            "not stay level."
        )


def is_likely(whole: Result) -> bool:
    """Whether the job as it is takes longer by more than JOB_BOUND, by the interval of few launches."""
    return whole.verdict == "inconclusive" and whole.log_high is not None and whole.log_high < -JOB_BOUND


def _off(equal: Mapping[str, Any], kind: str) -> str:
    """How far what a step returns is off; empty if that was not compared."""
    off = equal.get("returned_error")
    what = "the loss over the compared steps is" if kind == "training" else "outputs are"
    return f"{what} {percent(off)} off; " if isinstance(off, float) else ""


def price_once(without: Result) -> str:
    """What the combination costs once beyond this side of its pair, and the steps that recoup it: `56.8 s once, paid
    back after about 1,400 steps`; empty if it was not measured, is noise, or every training has as many."""
    if without.one_off_sides is None or without.step_s is None or log_gain(without) >= 0:
        return ""
    whole_s, without_s = without.one_off_sides
    extra_s = whole_s - without_s
    steps = steps_to_pay(extra_s, without_s, without.step_s * math.expm1(-log_gain(without)))
    if steps <= SOON:
        return ""
    return f"{seconds(extra_s)} once, paid back after about {float(f'{steps:.2g}'):,.0f} steps"


def speedup_of(result: Result) -> str:
    """`1.35x [1.33, 1.38]`, or why there is none."""
    if result.speedup is not None:
        return ratio(result.speedup, result.low, result.high)
    return "not measured yet" if result.is_measured else "; ".join(reason.what for reason in result.reasons[:1])


def inverse(result: Result) -> Result:
    """What the baseline brings over this side."""
    gain, high, low = (1 / end if end else None for end in (result.speedup, result.low, result.high))
    return replace(result, speedup=gain, low=low, high=high)


def inverse_of(result: Result) -> str:
    return speedup_of(inverse(result))
