"""Which pairs a person means by names and by `-k`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from tipbench.errors import UserError
from tipbench.records.record import PairInfo
from tipbench.tip.wording import plain

TRUE, FALSE = "\0T", "\0F"
"""In place of parentheses and what is within: no argument of a command can hold the first character."""


class NothingSelected(UserError):
    """The words a person typed select no pair; the message says what is near."""


def select(
    pairs: Sequence[PairInfo], names: Sequence[str], expression: str = "", remedy: str = "`tipbench list` shows all"
) -> list[PairInfo]:
    """The pairs named `tip` or `tip.Pair` (all, without names) that `expression` keeps, in their order.

    remedy: what to say to a name that does not exist, after the nearest one that does.

    Raises NothingSelected for an unknown name, a broken expression, or an empty result.
    """
    existing = {info.name for info in pairs} | {str(info.tip["id"]) for info in pairs}
    for name in names:
        if name not in existing:
            near = difflib.get_close_matches(name, existing, n=1, cutoff=0.4)
            hint = f"did you mean {plain(near[0])}? " if near else ""
            raise NothingSelected(f"no tip or pair is named {name!r}; {hint}{remedy}")
    chosen = [info for info in pairs if not names or info.name in names or info.tip["id"] in names]
    if expression:
        try:
            chosen = [info for info in chosen if _holds(expression, _searched(info))]
        except SyntaxError:
            raise NothingSelected(f"-k {expression!r} is no expression of words with and, or, not") from None
    if not chosen:
        raise NothingSelected(
            f"-k {expression!r} selects none of the pairs" if expression else "there are no pairs here"
        )
    return chosen


def first_of_tasks(pairs: Sequence[PairInfo]) -> list[PairInfo]:
    """Of each task (training, inference, processes) the first whole job that is declared as its first and can run."""
    first: dict[str, PairInfo] = {}
    for info in pairs:
        if info.scale == "macro" and info.first_of_task and _can_run(info):
            first.setdefault(info.task, info)
    return list(first.values())


def of_a_short_run(pairs: Sequence[PairInfo]) -> list[PairInfo]:
    """All operations alone, and one whole job of each task, in their order."""
    jobs = first_of_tasks(pairs)
    return [info for info in pairs if info.scale != "macro" or info in jobs]


def _can_run(info: PairInfo) -> bool:
    """Whether the baseline and the variant that the tip's answer is about can run here."""
    compared = "baseline", info.worded
    return not info.why and not any(variant.why for variant in info.variants if variant.name in compared)


def _searched(info: PairInfo) -> str:
    return f"{info.name} {info.scale} {info.file} {info.tip['title']}".lower()


def _holds(expression: str, text: str) -> bool:
    """Whether words with and, or, not and parentheses, as after `pytest -k`, hold for a text in lower case: a word does
    if it is part of the text. Raises SyntaxError for anything else."""
    while inner := re.search(r"\(([^()]*)\)", expression):
        value = TRUE if _holds(inner[1], text) else FALSE
        expression = f"{expression[: inner.start()]} {value} {expression[inner.end() :]}"
    alternatives = [re.split(r"\sand\s", part) for part in re.split(r"\sor\s", expression)]
    values = [[_term_holds(term, text) for term in terms] for terms in alternatives]  # all of them: any may be wrong
    return any(map(all, values))


def _term_holds(term: str, text: str) -> bool:
    match = re.fullmatch(rf"\s*((?:not\s+)*)([\w:+\-.\[\]/\\]+|{TRUE}|{FALSE})\s*", term)
    if match is None or match[2] in ("and", "or", "not"):
        raise SyntaxError
    value = match[2] == TRUE or match[2].lower() in text
    return value != (match[1].count("not") % 2 == 1)


def with_controls(chosen: Sequence[PairInfo], controls: Sequence[PairInfo], whole: bool) -> list[PairInfo]:
    """The chosen pairs after the A/A controls: all of them in a whole run, else the first alone.

    Every run carries a control, because the noise floor belongs to the run and not to the machine.
    """
    first = list(controls) if whole else list(controls[:1])
    if any(info in controls for info in chosen):
        first = []
    return first + [info for info in chosen if info not in first]
