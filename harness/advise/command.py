"""`tipbench advise train.py:job`, or `-- python train.py`: the command from the first word to the last.

An advice is a folder. Its parts are runs, each in a folder of its own: `alone`, every tip by itself; `search-1` and
further ones, a stack of tips beside itself without each member; `confirmed`, the stack that is left, measured anew.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tipbench.advise import page, tuned
from tipbench.advise.pairs import AS_IT_IS, TOGETHER, WITHOUT, sides_alone, write_alone, write_together
from tipbench.advise.surveyed import NoJob, Survey, absolute, is_command, surveyed, write_command
from tipbench.advise.together import Candidate, Stack, first_stack, left_out, that_pay, worst
from tipbench.engine import run
from tipbench.machine.limits import memory_bytes
from tipbench.records import store
from tipbench.report import as_html, as_markdown
from tipbench.report.effect import Effect, effects
from tipbench.report.output import write_file
from tipbench.report.wording import plural

ALONE, SEARCH, CONFIRMED = "alone", "search", "confirmed"

OF_ALL, OF_WHAT_IS_LEFT = 0.5, 0.6
"""Shares of the time: for every tip by itself, and for each search; what is left after them confirms."""

LEAST_S = 30.0
"""For a part, however little time is left."""

MOST_SEARCHES = 3


@dataclass(frozen=True)
class Options:
    """The options of the command. job: FILE:NAME alone, or the words of a command. out: where the folder of this advice
    is made. budget_s: seconds after which nothing more is begun; 0: until all is decided. numerics: whether ways that
    change results by design may be in the stack."""

    job: Sequence[str]
    out: Path = Path("advice")
    budget_s: float = 1200.0
    numerics: bool = False
    seed: int = 0


def begin(options: Options) -> int:
    """Say which tips pay on a person's job, and which of them together. Returns the exit code; raises UserError."""
    out = Path(os.path.realpath(options.out))
    if is_command(options.job):
        folder = _made(out, Path(next((word for word in options.job if word.endswith(".py")), options.job[0])).stem)
        target = f"{write_command(folder, options.job)}:job"
        try:
            found = surveyed(target)
        except NoJob:
            shutil.rmtree(folder)
            raise
    else:
        target = absolute(options.job[0] if options.job else "")
        found = surveyed(target)
        file, _, name = target.rpartition(":")
        folder = _made(out, f"{Path(file).stem}-{name}")
    print(page.about(found), file=sys.stderr)
    about = {"target": target, "numerics": options.numerics, "seed": options.seed, "survey": found}
    write_file(folder / "job.json", json.dumps(about, indent=1).encode())
    print(f"{plural(len(sides_alone(found)), 'tip')} to try, into {folder}", file=sys.stderr)
    return _Advice(folder, target, found, options.numerics, options.seed).go_on(options.budget_s)


def resume(folder: Path, more_s: float | None) -> int:
    """Go on with an advice that was interrupted, or with more time. Returns the exit code; raises UserError."""
    try:
        about = json.loads((folder / "job.json").read_text())
    except (OSError, ValueError):
        raise NoJob(f"{folder} holds no advice: name a folder that `tipbench advise` has made") from None
    advice = _Advice(Path(os.path.realpath(folder)), about["target"], about["survey"], about["numerics"], about["seed"])
    return advice.go_on(Options.budget_s if more_s is None else more_s)


@dataclass(frozen=True)
class _Advice:
    folder: Path
    target: str
    survey: Survey
    numerics: bool
    seed: int

    def go_on(self, budget_s: float) -> int:
        """All parts that are not there yet, and the last one that is. Raises NoJob where the job itself fails."""
        until = time.monotonic() + budget_s if budget_s else math.inf
        code = self._alone(OF_ALL * budget_s)
        if code == 130:
            return code
        self._expect_measured()
        stack = first_stack(self._candidates(), self.numerics, self._most())
        if stack:
            stack, code = self._searched(stack, until)
        if stack and code != 130:
            code = self._together(CONFIRMED, stack, _left(until))
        return code if code == 130 else self._concluded(stack)

    def _alone(self, budget_s: float) -> int:
        place = self.folder / ALONE
        if not place.exists():
            write_alone(place / "pairs", self.target, self.survey)
        return self._measured(place, budget_s, last=not self._place(1).exists())

    def _expect_measured(self) -> None:
        """Raise NoJob where the job could not be measured beside itself, which no tip can then be either."""
        own = [effect for effect in self._effects(self.folder / ALONE) if effect.tip == AS_IT_IS]
        if any(effect.verdict == "failed" for effect in own):
            raise NoJob(f"{self.survey['name']} cannot be measured: {own[0].reason}")

    def _searched(self, stack: Stack, until: float) -> tuple[Stack, int]:
        """The members that pay beside the others."""
        without: dict[str, Effect] = {}
        for number in range(1, MOST_SEARCHES + 1):
            if len(stack) == 1:
                return stack, 0
            code = self._together(self._place(number).name, stack, OF_WHAT_IS_LEFT * _left(until))
            if code == 130:
                return stack, code
            without = self._without(self._place(number))
            harmful = worst(stack, without)
            if not harmful:
                break
            stack = left_out(stack, harmful)
        return that_pay(stack, without), 0

    def _together(self, name: str, stack: Stack, budget_s: float) -> int:
        place = self.folder / name
        if not place.exists():
            write_together(place / "pairs", self.target, self.survey, stack)
        return self._measured(place, budget_s, last=True)

    def _most(self) -> int:
        """Tips that may be followed together: the job as it is, the stack, and the stack without each of them are all
        in memory at once."""
        return max(1, int(memory_bytes() // max(1, self.survey["bytes"])) - 2)

    def _place(self, number: int) -> Path:
        return self.folder / f"{SEARCH}-{number}"

    def _measured(self, place: Path, budget_s: float, last: bool) -> int:
        """Begin the run of a part, or go on with it where it is the last. Returns the exit code."""
        if file := _file_of(place):
            return run.resume(file, more_s=0.0 if math.isinf(budget_s) else budget_s) if last else 0
        options = run.Options(
            folder=place / "pairs",
            results=place,
            device=self.survey["device"],
            seed=self.seed,
            budget_s=0.0 if math.isinf(budget_s) else budget_s,
            given=self.target,
        )
        return run.measured(options)[0]

    def _effects(self, place: Path) -> list[Effect]:
        file = _file_of(place)
        return effects(store.read(file)[0]) if file else []

    def _candidates(self) -> list[Candidate]:
        measured = {(one.tip, one.variant): one for one in self._effects(self.folder / ALONE) if one.measured}
        found = []
        for tip, sides in sides_alone(self.survey).items():
            for side, way in sides.items():
                effect = measured.get((tip, side))
                if effect is not None and (mean := page.mean_of(effect)) is not None:
                    slower = effect.verdict == "slower"
                    found.append(Candidate(way["name"], way["one_of"], mean, slower, way["changes_numbers"]))
        return found

    def _without(self, place: Path) -> dict[str, Effect]:
        """By member, the stack without it against the stack."""
        listed = [effect for effect in self._effects(place) if effect.variant.startswith(WITHOUT)]
        return {effect.variant.removeprefix(WITHOUT): effect for effect in listed}

    def _concluded(self, stack: Stack) -> int:
        """Write the pages, and say what was found. Returns the exit code."""
        alone = _file_of(self.folder / ALONE)
        assert alone is not None
        confirmed = self._effects(self.folder / CONFIRMED) if stack else []
        of_stack = {effect.variant: effect for effect in confirmed if effect.tip == TOGETHER and effect.measured}
        found = page.Found(self.survey, store.read(alone)[0], stack, of_stack)
        if page.pays(found):
            ways = {way["name"]: way for way in self.survey["ways"]}
            members = [ways[name] for name in stack]
            tuned.write(self.folder, self.target, self.survey, members, page.together(found))
        made = page.page(found)
        write_file(self.folder / "advice.md", as_markdown.render(made).encode("utf-8", "replace"))
        write_file(self.folder / "advice.html", as_html.render(made, {}).encode("utf-8", "replace"))
        write_file(self.folder / "advice.json", json.dumps(page.as_json(found), indent=1).encode())
        print("\n".join(["", *page.lines(found), "", f"page: {self.folder / 'advice.html'}"]))
        return 0


def _left(until: float) -> float:
    return max(LEAST_S, until - time.monotonic())


def _file_of(place: Path) -> Path | None:
    """The results of a part; None where it has not begun."""
    return next(iter(sorted(place.glob("*/*.jsonl"), reverse=True)), None)


def _made(out: Path, job: str) -> Path:
    """A folder that is not there yet, named after the job and the day."""
    stem = f"{job}-{date.today().isoformat()}"
    for number in range(1, 1000):
        folder = out / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise NoJob(f"cannot make {folder}: {error.strerror}; name another place with --out") from None
        return folder
    raise NoJob(f"{out} holds a thousand advices of {stem}: name another place with --out")
