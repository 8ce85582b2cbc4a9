"""The jobs that a run's whole-job pairs share: how large each is, and where its time goes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tipbench.records.record import PHASES
from tipbench.report.cells import table
from tipbench.report.document import Block, Heading, Paragraph
from tipbench.report.rows import Row
from tipbench.report.wording import plural, seconds, value


@dataclass(frozen=True)
class JobCard:
    """What `tipbench.worker.job_card` found of a job at some sizes. pairs: how many of the run are about it."""

    job: str
    sizes: str
    card: Mapping[str, float]
    pairs: int

    @property
    def step_s(self) -> float:
        return sum(self.card.get(phase, 0.0) for phase in PHASES)

    @property
    def shares(self) -> dict[str, float]:
        """Of a step's time, by phase; empty where nothing of it is known."""
        whole = self.step_s
        return {phase: self.card.get(phase, 0.0) / whole for phase in PHASES} if whole > 0 else {}


def cards(found: Sequence[Row]) -> list[JobCard]:
    """One a job and sizes, of those that the run has a card of."""
    records = {(row.info.name, row.info.device): row.judgement.record for row in found if row.info.job}
    keys = {
        place: json.dumps([r.info.job, r.info.device, r.info.sizes], sort_keys=True) for place, r in records.items()
    }
    pairs = Counter(keys.values())
    return [
        JobCard(record.info.job, value(record.info.sizes), record.launches[0].card, pairs[keys[place]])
        for place, record in records.items()
        if record.launches and record.launches[0].card
    ]


def shares(found: Sequence[Row]) -> dict[str, dict[str, float]]:
    """By job, with its sizes where it has several: the phases' shares of a step's time."""
    listed = cards(found)
    several = Counter(card.job for card in listed)
    return {card.job if several[card.job] == 1 else f"{card.job}: {card.sizes}": card.shares for card in listed}


def section(found: Sequence[Row]) -> list[Block]:
    """Heading and table; nothing where the run has no card of a job."""
    body = [
        [
            card.job,
            card.sizes,
            _count(card.card, "parameters"),
            _count(card.card, "flops"),
            _count(card.card, "bytes"),
            seconds(card.step_s),
            " / ".join(f"{100 * share:.0f}" for share in card.shares.values()),
            plural(card.pairs, "pair"),
        ]
        for card in cards(found)
    ]
    if not body:
        return []
    about = (
        "A step's operations are floating-point ones; its bytes are what all operations read and write. "
        "The time of a step goes to loading, the forward pass, the backward pass and the optimizer."
    )
    head = ("job", "sizes", "parameters", "operations", "bytes", "step", "time in %", "used by")
    return [Heading("The jobs", anchor="the-jobs"), Paragraph((about,)), table("jobs", head, body, cards=range(8))]


def _count(card: Mapping[str, float], name: str) -> str:
    """`17.5 G`."""
    from matplotlib.ticker import EngFormatter

    return str(EngFormatter(places=1)(card.get(name, 0.0)))
