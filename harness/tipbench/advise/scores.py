"""The score that a person's own function gives their model after some steps: whether a tip that changes results by
design keeps it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

from tipbench.advise.folder import read_json
from tipbench.advise.surveyed import NoJob, scored
from tipbench.given.survey import Survey, WayHere
from tipbench.records.fields import Count, Number
from tipbench.report.output import write_file

SEEDS = 3

AS_IT_IS = ""
"""In place of a way's name: the job without any."""

FILE = "scores.json"


@dataclass(frozen=True)
class Scores:
    """Scores of the job's model.

    Attributes:
        steps: after which models were scored.
        of: by way, one score for each seed; the higher, the better.
    """

    steps: Count = 0
    of: Mapping[str, Sequence[Number]] = field(default_factory=dict)

    def keeps(self, way: str) -> bool:
        """Whether the mean score with this way is no lower than the lowest one without it."""
        return way in self.of and fmean(self.of[way]) >= min(self.of[AS_IT_IS])

    def words(self, way: str) -> str:
        """`score 0.91 (0.90 to 0.92) after 200 steps, as it is 0.92 (0.91 to 0.93)`; empty where it was not scored."""
        if way not in self.of:
            return ""
        own, without = (
            f"{fmean(scores):.4g} ({min(scores):.4g} to {max(scores):.4g})"
            for scores in (self.of[way], self.of[AS_IT_IS])
        )
        return f"score {own} after {self.steps} steps, as it is {without}"


def read(folder: Path) -> Scores | None:
    """The scores of an advice; None where nothing has been scored yet. Raises NoJob for a damaged file."""
    file = folder / FILE
    if not file.exists():
        return None
    scores = read_json(file, Scores)
    if not scores.of.get(AS_IT_IS) or not all(scores.of.values()):
        raise NoJob(f"{file} is damaged: remove it, and the job is scored anew")
    return scores


def write(folder: Path, target: str, survey: Survey, check: str, ways: Sequence[WayHere], budget_s: float) -> Scores:
    """Score the job with each of these ways, and without any, within about so many seconds. Raises NoJob where the job
    as it is cannot be scored; a way with which it cannot be has no score."""
    trainings = SEEDS * (1 + len(ways))
    steps = max(1, int((budget_s / trainings - survey.build_s) / survey.step_s))
    of: dict[str, Sequence[float]] = {AS_IT_IS: scored(target, check, steps, SEEDS)}
    for way in ways:
        try:
            of[way.name] = scored(target, check, steps, SEEDS, (way,))
        except NoJob as why:
            print(f"tipbench: not scored with {way.do.rstrip(':')}: {why}", file=sys.stderr)
    scores = Scores(steps, of)
    write_file(folder / FILE, json.dumps(asdict(scores)).encode())
    return scores
