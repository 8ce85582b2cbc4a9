"""`tipbench advise train.py:job`, or `-- python train.py`: the command from the first word to the last.

An advice is a folder. Its parts are runs, each in a folder of its own: `alone`, every tip by itself; `search-1` and
further ones, a combination with each member left out in turn; `confirmed`, the combination that is left, measured anew,
and `confirmed-2`, the same without the members that brought nothing for certain there.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tipbench.advise import page, scores, tuned
from tipbench.advise.combination import (
    WITHOUT,
    Candidate,
    Combination,
    clear,
    first_combination,
    next_combination,
)
from tipbench.advise.folder import JOB_FILE, StoredJob, new_folder, results_file, stored_job
from tipbench.advise.outcome import Outcome, gain, pays
from tipbench.advise.pairs import ALONE_PAIR, AS_IT_IS, TOGETHER, is_known, sides_alone, write_alone, write_together
from tipbench.advise.scores import Scores
from tipbench.advise.surveyed import (
    NoJob,
    absolute,
    is_command,
    scored,
    surveyed,
    time_with,
    write_command,
)
from tipbench.engine import resume as resuming
from tipbench.engine import run
from tipbench.given.survey import Survey, WayHere
from tipbench.machine.limits import memory_bytes
from tipbench.machine.scratch import Scratch
from tipbench.records import store
from tipbench.records.record import Record
from tipbench.report import html
from tipbench.report.output import write_file
from tipbench.report.result import Result
from tipbench.report.results import results
from tipbench.tip.wording import plural

ALONE, SEARCH = "alone", "search"
CONFIRMED, CONFIRMED_AGAIN = "confirmed", "confirmed-2"

OF_ALL, KEPT, OF_WHAT_IS_LEFT = 0.45, 0.3, 0.6
"""Shares of the time: for every tip by itself, and kept to confirm; of what is left, for each search, and to
confirm before members are taken out."""

OF_SCORES, SCORES_S = 0.1, 120.0
"""Share of the time in which the person's own function scores the job, and seconds where there is no end of it."""

LEAST_S = 30.0
"""For a part, however little time is left."""

MOST_SEARCHES = 3

SHORT_S = 300.0
"""For a part, which then has shorter launches, of which more fit in, and memory only where time is left."""


@dataclass(frozen=True)
class Options:
    """The options of the command.

    Attributes:
        job: FILE:NAME alone, or the words of a command.
        out: the folder in which the folder of this advice is made.
        budget_s: seconds after which nothing more is started; 0: until everything is decided.
        numerics: whether ways that change results by design may be in the combination.
        check: a function of the job's file that scores a model; ways that keep the score may then be in it too.
        seed: of inputs, weights and block order.
    """

    job: Sequence[str]
    out: Path = Path("advice")
    budget_s: float = 1200.0
    numerics: bool = False
    check: str = ""
    seed: int = 0


def begin(options: Options) -> int:
    """Say which tips pay on a person's job, and which of them together. Returns the exit code; raises UserError."""
    out = Path(os.path.realpath(options.out))
    if is_command(options.job):
        if options.check:
            raise NoJob("a command shows no model that --check could score: name a function that builds the job")
        program = next((word for word in options.job if word.endswith(".py")), options.job[0])
        folder = new_folder(out, Path(program).stem)
        target = f"{write_command(folder, options.job)}:job"
        try:
            survey = surveyed(target)
        except BaseException:  # no job, or an interruption
            shutil.rmtree(folder)
            raise
    else:
        target = absolute(options.job[0] if options.job else "")
        survey = surveyed(target)
        file, _, name = target.rpartition(":")
        if options.check:  # a fault of it is reported before anything is measured
            if not is_known(survey):
                raise NoJob(f"{survey.name} is a step of which no model is known: --check has nothing to score")
            scored(target, options.check, steps=0, seeds=1)
        folder = new_folder(out, f"{Path(file).stem}-{name}")
    print("\n".join([page.headline(survey), *page.slow(survey)]), file=sys.stderr)
    job = StoredJob(target, options.numerics, options.check, options.seed, survey)
    write_file(folder / JOB_FILE, json.dumps(asdict(job), indent=1).encode())
    print(f"{plural(len(sides_alone(survey)), 'tip')} to try, into {folder}", file=sys.stderr)
    return _continue(folder, job, options.budget_s)


def resume(folder: Path, more_s: float | None) -> int:
    """Go on with an advice that was interrupted, or with more time. Returns the exit code; raises UserError."""
    return _continue(Path(os.path.realpath(folder)), stored_job(folder), Options.budget_s if more_s is None else more_s)


def markdown_of(folder: Path) -> str:
    """The page of an advice that has ended, as Markdown. Raises NoJob if there is none."""
    job = stored_job(folder)
    try:
        stored = json.loads((folder / "advice.json").read_text())
        combination, phase_seconds = tuple(stored["measured_anew"]), stored["time_with_changes"]
    except (OSError, KeyError):
        raise NoJob(
            f"{folder} has no advice of this version yet: continue with `tipbench advise --resume {folder}`"
        ) from None
    return page.markdown(_Advice(folder, folder, job).outcome(combination, phase_seconds))


def _continue(folder: Path, job: StoredJob, budget_s: float) -> int:
    with Scratch() as compiled:
        return _Advice(folder, compiled, job).measure(budget_s)


@dataclass(frozen=True)
class _Advice:
    """An advice, measured part by part.

    Attributes:
        folder: of the advice.
        compiled: folder of what has been compiled, for all parts.
        job: what the advice is about.
    """

    folder: Path
    compiled: Path
    job: StoredJob

    @property
    def survey(self) -> Survey:
        return self.job.survey

    def measure(self, budget_s: float) -> int:
        """All parts that are not there yet, and the last one that is. Raises NoJob where the job itself fails."""
        until = time.monotonic() + budget_s if budget_s else math.inf
        searched_until = until - KEPT * budget_s
        code = self._alone(OF_ALL * budget_s)
        if code == 130:
            return code
        self._score(OF_SCORES * budget_s or SCORES_S)
        combination = self._first_combination()
        for further in (searched_until, until - LEAST_S):  # as long as there is nothing to measure together
            if not combination and code != 130 and (left_s := further - time.monotonic()) > LEAST_S:
                code = self._alone(left_s)
                self._score(OF_SCORES * budget_s or SCORES_S)
                combination = self._first_combination()
        if combination and code != 130:
            combination, code = self._searched(combination, searched_until)
        if combination and code != 130:
            combination, code = self._confirmed(combination, until)
        return code if code == 130 else self._concluded(combination)

    def _alone(self, budget_s: float) -> int:
        place = self.folder / ALONE
        if not place.exists():
            write_alone(place / "pairs", self.job.target, self.survey)
        return self._measured(place, budget_s)

    def _score(self, budget_s: float) -> None:
        """Score the ways that change results and may pay, by the person's own function; once, and not after a
        combination was chosen by the scores. Raises NoJob."""
        if not self.job.check or any(part.exists() for part in self._parts()[1:]):
            return
        usable = [way for way in self.survey.ways if not way.why_not and way.changes_numbers]
        bring = {candidate.name: candidate.mean for candidate in self._candidates() if candidate.verdict != "slower"}
        ways = [way for way in usable if bring.get(way.name, 0.0) > 0.0]
        if any(way.name not in self._scores().of for way in ways):
            scores.write(self.folder, self.job.target, self.survey, self.job.check, ways, budget_s)

    def _first_combination(self) -> Combination:
        """Raises NoJob."""
        return first_combination(self._candidates(), self._most(), abs(self._noise()))

    def _is_allowed(self, way: WayHere) -> bool:
        return not way.changes_numbers or self.job.numerics or self._scores().keeps(way.name)

    def _scores(self) -> Scores:
        return scores.read(self.folder) or Scores()

    def _noise(self) -> float:
        """ln of the speedup of the job over itself; 0 if it has not been measured yet. Raises NoJob if it cannot be
        measured: then no tip can be either."""
        own = [result for result in self._results(self.folder / ALONE) if result.tip == AS_IT_IS]
        if any(result.verdict == "failed" for result in own):
            raise NoJob(f"{self.survey.name} cannot be measured: {own[0].reason}")
        return next((mean for result in own if (mean := result.log_speedup_so_far)), 0.0)

    def _searched(self, combination: Combination, until: float) -> tuple[Combination, int]:
        """The members that pay beside the others, as far as searches find in their time; where there is none for a
        search, those that clearly pay alone. What has been confirmed is not searched again."""
        alone = self._candidates()

        def is_time(number: int) -> bool:
            is_left = until - time.monotonic() >= max(LEAST_S, self._launch_s(combination))
            return self._place(number).exists() or (is_left and not (self.folder / CONFIRMED).exists())

        if not is_time(1):
            return clear(combination, alone), 0
        for number in range(1, MOST_SEARCHES + 1):
            if len(combination) <= 1 or not is_time(number):
                break
            code = self._together(self._place(number).name, combination, OF_WHAT_IS_LEFT * _left(until))
            if code == 130:
                return combination, code
            fewer = next_combination(combination, self._sides(self._place(number)), alone)
            if fewer == combination:
                break
            combination = fewer
        return combination, 0

    def _launch_s(self, combination: Combination) -> float:
        """Seconds that a launch of these members together may take: twice as long as one of each alone, checks
        included, as it has sides without each of them too."""
        file = results_file(self.folder / ALONE)
        tips = {way.tip for way in self.survey.ways if way.name in combination}
        records = store.read(file)[0].records if file else ()
        alone = (record.wall_s / max(1, len(record.launches)) for record in records if record.info.tip["id"] in tips)
        return 2 * sum(alone)

    def _confirmed(self, combination: Combination, until: float) -> tuple[Combination, int]:
        """The members that pay by launches that chose nothing. Without those that bring nothing for certain beside the
        others the combination is measured once more, by further launches."""
        each = len(combination) > 1 and self._place(1).exists()
        left_s = _left(until)
        code = self._together(CONFIRMED, combination, OF_WHAT_IS_LEFT * left_s if each else left_s)
        is_time = until - time.monotonic() >= LEAST_S or (self.folder / CONFIRMED_AGAIN).exists()
        if not each or code == 130 or not is_time:
            return combination, code
        fewer = next_combination(combination, self._sides(self.folder / CONFIRMED), self._candidates())
        if not fewer or fewer == combination:
            return combination, self._together(CONFIRMED, combination, _left(until))
        return fewer, self._together(CONFIRMED_AGAIN, fewer, _left(until))

    def _together(self, name: str, combination: Combination, budget_s: float) -> int:
        place = self.folder / name
        if not place.exists():
            # Where there was no time for a search there is none for sides without each member: to compile a model for
            # each took all that was left.
            each = name != CONFIRMED or self._place(1).exists()
            write_together(place / "pairs", self.job.target, self.survey, combination, each)
        return self._measured(place, budget_s)

    def _most(self) -> int:
        """Size of a combination: the job as it is, the combination, and the combination without each member are all in
        memory at once."""
        return max(1, int(memory_bytes() // max(1, self.survey.bytes)) - 2)

    def _place(self, number: int) -> Path:
        return self.folder / f"{SEARCH}-{number}"

    def _parts(self) -> list[Path]:
        """In their order, whether they are there yet or not."""
        searches = map(self._place, range(1, MOST_SEARCHES + 1))
        return [self.folder / ALONE, *searches, self.folder / CONFIRMED, self.folder / CONFIRMED_AGAIN]

    def _measured(self, place: Path, budget_s: float) -> int:
        """Begin the run of a part, or go on with it unless another has begun, to which it has led. Returns the exit
        code."""
        if file := results_file(place):
            parts = self._parts()
            if any(part.exists() for part in parts[parts.index(place) + 1 :]):
                return 0
            more_s, side_bytes = 0.0 if math.isinf(budget_s) else budget_s, self.survey.bytes
            return resuming.resume(
                file, str(place / "pairs"), more_s=more_s, shared=self.compiled, side_bytes=side_bytes
            )
        short = 0 < budget_s < SHORT_S or place.name.startswith(SEARCH)
        options = run.Options(
            folder=str(place / "pairs"),
            results=place,
            device=self.survey.device,
            seed=self.job.seed,
            budget_s=0.0 if math.isinf(budget_s) else budget_s,
            given=self.job.target,
            profile="quick" if short else "full",
            shared=self.compiled,
            side_bytes=self.survey.bytes,
            checked=self._checked(place),
            first=tuple(f"{way.tip}.{ALONE_PAIR}" for way in self.survey.ways if way.first),
        )
        return run.measured(options)[0]

    def _checked(self, place: Path) -> tuple[Record, ...]:
        """Results of earlier checks of a combination: the last search is of the same one, if it was the last."""
        if place.name != CONFIRMED:
            return ()
        files = filter(None, map(results_file, self._parts()[1:]))
        return tuple(replace(record, steps=0, launches=()) for file in files for record in store.read(file)[0].records)

    def _results(self, place: Path) -> list[Result]:
        file = results_file(place)
        return results(store.read(file)[0]) if file else []

    def _candidates(self) -> list[Candidate]:
        measured = {(row.tip, row.variant): row for row in self._results(self.folder / ALONE) if row.is_measured}
        candidates = []
        for tip, sides in sides_alone(self.survey).items():
            for side, way in sides.items():
                result = measured.get((tip, side))
                if result is not None and (mean := result.log_speedup_so_far) is not None:
                    allowed, decided = self._is_allowed(way), result.is_decided
                    candidates.append(Candidate(way.name, way.one_of, mean, result.verdict, allowed, decided))
        return candidates

    def _sides(self, place: Path) -> dict[str, Result]:
        """By side of a combination's pair, its effect relative to the whole combination; only what was measured."""
        return {row.variant: row for row in self._results(place) if row.tip == TOGETHER and row.is_measured}

    def outcome(self, combination: Combination, phase_seconds: Mapping[str, float] | None = None) -> Outcome:
        """What the parts hold about this last combination. phase_seconds: as `Outcome` has it."""
        alone = results_file(self.folder / ALONE)
        assert alone is not None
        combinations = [self._sides(part) for part in self._parts()[1:] if part.exists()]
        left_out = {
            name: result
            for sides in combinations
            for side, result in sides.items()
            if (name := side.removeprefix(WITHOUT)) not in (*combination, side)
        }
        confirmed = combinations[-1] if combination else {}
        return Outcome(
            self.survey, store.read(alone)[0], combination, confirmed, left_out, phase_seconds or {}, self._scores()
        )

    def _concluded(self, combination: Combination) -> int:
        """Write the pages, and print what the advice is. Returns the exit code."""
        outcome = self.outcome(combination)
        if pays(outcome):
            members = [self.survey.by_name[name] for name in combination]
            if is_known(self.survey):
                outcome = replace(outcome, phase_seconds=time_with(self.job.target, members))
            tuned.write(self.folder, self.job.target, self.survey, members, gain(outcome))
        markdown = page.markdown(outcome)
        title = f"Which tips pay for {self.survey.name}"
        write_file(self.folder / "advice.md", markdown.encode("utf-8", "replace"))
        write_file(self.folder / "advice.html", html.render(markdown, title).encode("utf-8", "replace"))
        write_file(self.folder / "advice.json", json.dumps(page.as_json(outcome), indent=1).encode())
        print("\n".join(["", *page.lines(outcome), "", f"page: {self.folder / 'advice.html'}"]))
        return 0


def _left(until: float) -> float:
    return max(LEAST_S, until - time.monotonic())
