"""A sentence of a guide, and what tries it."""

from __future__ import annotations

from dataclasses import dataclass

from tipbench.tip.pair import Claim


@dataclass(frozen=True)
class Sentence:
    """One thing that a guide says, in our words.

    item: an id in tipbench.tip.guide.ITEMS. tried: the pairs that try it, such as "amp.Linear": as the guide words the
    tip; or one variant of a pair, "amp.GPTTraining[float16]", or all points of a sweep, "batch-size.Gradients[batch]".
    untried: why there is no pair, or what the pairs leave out. claim: what the sentence promises, by which findings
    are judged.
    """

    item: str
    text: str
    tried: tuple[str, ...] = ()
    untried: str = ""
    claim: Claim = Claim.FASTER
