"""The parts of an advice: what is measured of a person's job, in what order, and how long.

Each part is a run in a folder of its own: `alone`, every tip by itself, then `together-1` and further ones. Each of
these measures a combination, and it with each member left out in turn, in a share of the time that is left. Members
that do not pay leave, and the next part measures the others, by launches that did not choose them. Where nobody leaves,
or one member is left, the part has all the time. Where there is no time to leave out each, `together` is the last one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from tipbench.advise import page, tuned
from tipbench.advise.combination import SIDE_WITHOUT, Combination, clear, first_combination, next_combination
from tipbench.advise.folder import ADVICE_FILE, results_file
from tipbench.advise.outcome import JobOutcome
from tipbench.advise.pairs import ALONE_PAIR, results_by_way, write_alone, write_together
from tipbench.advise.surveyed import NoJob
from tipbench.engine import run
from tipbench.given.curve import JobCurve
from tipbench.given.survey import AS_IT_IS, Survey
from tipbench.machine.controls import foreign_variables
from tipbench.machine.limits import memory_bytes
from tipbench.records import store
from tipbench.records.record import cores_of_others
from tipbench.report import html
from tipbench.report.output import write_file
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.pair import TOGETHER
from tipbench.tip.wording import lines_of, plain

ALONE_RUN, EACH_LEFT_OUT = "alone", "together-"

OF_ALL, FOR_COMBINATIONS, OF_WHAT_IS_LEFT = 0.45, 0.3, 0.4
"""Shares of the time: for every tip by itself, and kept from them as long as none seems to pay; and of what is left,
for a combination before members leave it."""

LEAST_S = 30.0
"""For the tips alone, however small their share of the time is, as far as there is time."""

AT_ONCE_S = 1e-3
"""The budget of a part for which no time is left: it says what it has."""

LAUNCHES = 2
"""That a verdict as a rule needs of changes that bring much."""


@dataclass(frozen=True)
class Advice:
    """An advice, measured part by part.

    Attributes:
        folder: of the advice.
        compiled: folder of what has been compiled, for all parts.
        survey: of the job as it is.
        curves: how its rate depends on what can act on it.
        target: absolute FILE:NAME of the job.
        seed, busy: as in `tipbench.advise.command.AdviseOptions`.
    """

    folder: Path
    compiled: Path
    survey: Survey
    curves: Sequence[JobCurve]
    target: str
    seed: int
    busy: bool

    def measure(self, until: float) -> int:
        """All parts, then the pages, also where it is interrupted, of what there is then. until: when the time is over,
        as `time.monotonic` has it. Raises NoJob where the job itself fails."""
        budget_s = _left(until)
        kept_s = [0.0 if math.isinf(budget_s) else share * budget_s for share in (1 - OF_ALL, FOR_COMBINATIONS, 0.0)]
        combination, code = Combination(), 0
        for number, alone_s in enumerate(_left(until) - kept for kept in kept_s):
            if number and (combination or alone_s <= LEAST_S):  # as long as there is nothing to measure together
                continue
            code = self._alone(max(alone_s, min(LEAST_S, _left(until))))
            if code == 130:
                break
            combination = self._first_combination()
        if combination and _left(until) > 0 and code != 130:
            combination, code = self._together(combination, until)
        if code == 130 and not results_file(self.folder / ALONE_RUN):
            return code
        concluded = self._concluded(combination)
        return code if code == 130 else concluded

    def _alone(self, budget_s: float) -> int:
        return self._measured(
            self.folder / ALONE_RUN, budget_s, lambda pairs: write_alone(pairs, self.target, self.survey)
        )

    def _first_combination(self) -> Combination:
        """Raises NoJob."""
        one_of = {way.name: way.one_of for way in self.survey.ways}
        return first_combination(self._alone_by_way(), one_of, self._most(), abs(self._noise()))

    def _noise(self) -> float:
        """ln of the speedup of the job over itself; 0 if it has not been measured yet. Raises NoJob if it cannot be
        measured: then no tip can be either."""
        own = [result for result in self._results(self.folder / ALONE_RUN) if result.tip == AS_IT_IS]
        if any(result.verdict == "failed" for result in own):
            raise NoJob(f"{self.survey.name} cannot be measured: {own[0].reason}")
        return next((mean for result in own if (mean := result.log_speedup)), 0.0)

    def _together(self, combination: Combination, until: float) -> tuple[Combination, int]:
        """The last combination that was measured, and the exit code."""
        alone = self._alone_by_way()
        for number in count(1):
            place, is_one = self._place(number), len(combination) == 1
            if not self._fits(combination, until):
                combination = clear(combination, alone) if number == 1 else combination
                return combination, self._combined(self.folder / TOGETHER, combination, _left(until), each=False)
            code = self._combined(place, combination, _left(until) * (1.0 if is_one else OF_WHAT_IS_LEFT))
            if code == 130 or is_one or _left(until) <= LEAST_S:
                break
            is_reached = bool(self._results(place))
            fewer = next_combination(combination, self._sides(place), alone) if is_reached else combination
            if fewer == combination:
                code = self._combined(place, combination, _left(until))
                break
            combination = fewer
        return combination, code

    def _fits(self, combination: Combination, until: float) -> bool:
        """Whether there is time for as many launches as a verdict needs once members have left, with a side without
        each of the others. To compile a model for each such side took all that was left."""
        return len(combination) == 1 or self._launch_s(combination) <= (1 - OF_WHAT_IS_LEFT) * _left(until) / LAUNCHES

    def _launch_s(self, combination: Combination) -> float:
        """Seconds that a launch of these members together may take: twice as long as one of each alone, checks
        included, as it has sides without each of them too."""
        file = results_file(self.folder / ALONE_RUN)
        tips = {way.tip for way in self.survey.ways if way.name in combination}
        records = store.read(file)[0].records if file else ()
        alone = (record.wall_s / max(1, len(record.launches)) for record in records if record.info.tip.id in tips)
        return 2 * sum(alone)

    def _combined(self, place: Path, combination: Combination, budget_s: float, each: bool = True) -> int:
        alone = self._alone_by_way()
        return self._measured(
            place, budget_s, lambda pairs: write_together(pairs, self.target, self.survey, combination, each, alone)
        )

    def _most(self) -> int:
        """Size of a combination: the job as it is, the combination, and the combination without each member are all in
        memory at once."""
        return max(1, int(memory_bytes() // max(1, self.survey.bytes)) - 2)

    def _place(self, number: int) -> Path:
        return self.folder / f"{EACH_LEFT_OUT}{number}"

    def _parts(self) -> list[Path]:
        """In their order, whether they are there yet or not."""
        return [self.folder / ALONE_RUN, *map(self._place, range(1, len(self.survey.ways) + 1)), self.folder / TOGETHER]

    def _measured(self, place: Path, budget_s: float, write: Callable[[Path], None]) -> int:
        """Begin the run of a part, or go on with it. Returns the exit code. write: writes the part's pairs into a
        folder. Raises NoJob."""
        pairs = place / "pairs"
        budget_s = 0.0 if math.isinf(budget_s) else max(AT_ONCE_S, budget_s)
        write(pairs)
        # Of a tip with two ways one may not apply: the other must not come first in its place.
        urgent = [way for way in self.survey.ways if way.first and not way.why_not]
        options = run.Options(
            folder=str(pairs),
            results=place,
            device=self.survey.device,
            seed=self.seed,
            budget_s=budget_s,
            given=self.survey.name,
            shared=self.compiled,
            side_bytes=self.survey.bytes,
            of_the_shell=foreign_variables(),
            first=tuple(f"{way.tip}.{ALONE_PAIR}" for way in sorted(urgent, key=lambda way: -way.first)),
        )
        return run.measure_machine(options)[0]

    def _results(self, place: Path) -> list[Result]:
        file = results_file(place)
        return results(store.read(file)[0]) if file else []

    def _alone_by_way(self) -> dict[str, Result]:
        """Of the ways that leave results as they are, what was measured of each alone."""
        alone, ways = results_by_way(self.survey, self._results(self.folder / ALONE_RUN)), self.survey.by_name
        return {name: row for name, row in alone.items() if row.is_timed and not ways[name].changes_numbers}

    def _sides(self, place: Path) -> dict[str, Result]:
        """By side of a combination's pair, its effect relative to the whole combination; only what was measured."""
        return {row.variant: row for row in self._results(place) if row.tip == TOGETHER and row.is_measured}

    def outcome(self, combination: Combination) -> JobOutcome:
        """What the parts hold about this last combination. Raises NoJob where they hold nothing yet."""
        file = results_file(self.folder / ALONE_RUN)
        if file is None:
            raise NoJob(f"{self.folder} holds no results: give it more time, with --budget")
        alone = store.read(file)[0]
        combinations = [self._sides(part) for part in self._parts()[1:] if part.exists()]
        left_out = {
            name: result
            for sides in combinations
            for side, result in sides.items()
            if (name := side.removeprefix(SIDE_WITHOUT)) in self.survey.by_name and name not in combination
        }
        confirmed = combinations[-1] if combination and combinations else {}
        return JobOutcome(
            *(self.survey, alone, combination, confirmed, left_out),
            others=[others for part in self._parts() for others in _others(part)],
            on_busy=self.busy,
            curves=self.curves,
        )

    def _concluded(self, combination: Combination) -> int:
        """Write the pages, and print what the advice is. Returns the exit code."""
        outcome = self.outcome(combination)
        names, further = combination if outcome.pays else (), tuple(outcome.lossy)[:1]
        if names or further:
            members = [self.survey.by_name[name] for name in names]
            said = outcome.gain if names else "nothing that leaves the results as they are"
            tuned.write(self.folder, self.target, self.survey, members, said, outcome.alone.controls, further)
        shown = page.advice_page(outcome)
        markdown = page.markdown(shown)
        title = plain(f"Which tips pay for {self.survey.name}")
        write_file(self.folder / "advice.md", markdown.encode("utf-8", "replace"))
        write_file(self.folder / "advice.html", html.render(markdown, title).encode("utf-8", "replace"))
        write_file(self.folder / ADVICE_FILE, json.dumps(asdict(shown), indent=1).encode())
        print("", lines_of("\n".join(page.lines(shown))), "", f"page: {self.folder / 'advice.html'}", sep="\n")
        if outcome.is_open:
            print("more launches: the same command with more time, --budget")
        return int(outcome.is_unreliable)


def _others(part: Path) -> list[float]:
    """As `JobOutcome.others` has it."""
    file = results_file(part)
    return cores_of_others(store.read(file)[0].records) if file else []


def _left(until: float) -> float:
    return until - time.monotonic()
