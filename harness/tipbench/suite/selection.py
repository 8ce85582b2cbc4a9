"""Which pairs a person means by names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from tipbench.errors import UserError
from tipbench.records.record import PairInfo
from tipbench.tip.wording import plain


class NothingSelected(UserError):
    """The words a person typed select no pair; the message says what is near."""


def select(pairs: Sequence[PairInfo], names: Sequence[str]) -> list[PairInfo]:
    """The pairs named `tip` or `tip.Pair`, or by a pattern of such names as a shell has for files, in their order; all
    without names.

    Raises NothingSelected for an unknown name, and where there are no pairs.
    """
    existing = {info.name for info in pairs} | {info.tip.id for info in pairs}
    chosen: set[str] = set()
    for name in names:
        matching = {one for one in existing if fnmatchcase(one, name)}
        if not matching:
            near = difflib.get_close_matches(name, existing, n=1, cutoff=0.4)
            hint = f"did you mean {plain(near[0])}? " if near else ""
            raise NothingSelected(f"no tip or pair is named {name!r}; {hint}`tipbench list` shows all")
        chosen |= matching
    if not pairs:
        raise NothingSelected("there are no pairs here")
    return [info for info in pairs if not names or info.name in chosen or info.tip.id in chosen]


def add_control(chosen: Sequence[PairInfo], controls: Sequence[PairInfo]) -> list[PairInfo]:
    """The chosen pairs, after the first A/A control unless there is one among them.

    Every run carries a control, because the noise floor belongs to the run and not to the machine.
    """
    return list(chosen) if any(info in controls for info in chosen) else [*controls[:1], *chosen]
