"""Which pairs a person means by names and by `-k`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from harness.record import PairInfo


class NothingSelected(ValueError):
    """The words a person gave select no pair; the message says what is near."""


def select(pairs: Sequence[PairInfo], names: Sequence[str], expression: str = "") -> list[PairInfo]:
    """The pairs named `tip` or `tip.Pair` (all, without names) that `expression` keeps, in their order.

    Raises NothingSelected for an unknown name, a broken expression, or an empty result.
    """
    known = {info.name for info in pairs} | {str(info.tip["id"]) for info in pairs}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}? " if near else ""
            raise NothingSelected(f"no tip or pair is named {name!r}; {hint}`tipbench list` shows all")
    chosen = [info for info in pairs if not names or info.name in names or info.tip["id"] in names]
    if expression:
        chosen = [info for info in chosen if _matches(info, expression)]
    if not chosen:
        raise NothingSelected(
            f"-k {expression!r} selects none of the pairs" if expression else "there are no pairs here"
        )
    return chosen


def _matches(info: PairInfo, expression: str) -> bool:
    # pytest's own -k language, so that it means the same here as in `pytest benchmarks -k`.
    from _pytest.mark.expression import Expression

    def named(word: str, /, **_: object) -> bool:
        return word.lower() in words

    words = f"{info.name} {info.scale} {info.file} {info.tip['title']}".lower()
    try:
        return Expression.compile(expression).evaluate(named)
    except SyntaxError as error:
        raise NothingSelected(f"-k {expression!r} is no expression of words with and, or, not: {error.msg}") from None


def with_controls(chosen: Sequence[PairInfo], controls: Sequence[PairInfo], whole: bool) -> list[PairInfo]:
    """The chosen pairs after the A/A controls: all of them in a whole run, else the first alone.

    Every run carries a control, because the noise floor belongs to the run and not to the machine.
    """
    first = list(controls) if whole else list(controls[:1])
    if any(info in controls for info in chosen):
        first = []
    return first + [info for info in chosen if info not in first]
