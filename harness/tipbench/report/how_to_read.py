"""What the words of a run's pages mean."""

from __future__ import annotations

from tipbench.report.document import Line, Strong
from tipbench.verdict.rules import AT_MOST


def of_answers() -> list[Line]:
    """Six lines for the page of answers."""
    return [
        ("2x means half the time. The brackets hold the 95 % interval; where it spans 1x, the gain may be none.",),
        (
            *(Strong("use it"), ": it pays in at least half of the whole jobs, and costs in none. "),
            *(Strong("use it if"), " ...: it pays for those who have that need."),
        ),
        (
            *(Strong("depends"), ": it pays in some jobs, and costs in others, or may. "),
            *(Strong("don't"), ": it costs in some job and pays in none."),
        ),
        (
            *(Strong("already the default"), ": nothing to do. "),
            *(Strong("at most"), " x %: whatever it brings or costs is smaller. "),
            *(Strong("can't tell"), ": undecided, or failed."),
        ),
        (
            "A tip is judged by what it promises, in whole jobs. Other ways to follow it that pay come after "
            '"instead". Memory counts from 5 %.',
        ),
        ('"Pays after" is how many steps earn back what the tip needs once, such as a compilation.',),
    ]


def of_verdicts() -> list[Line]:
    """For tables of evidence."""
    return [
        ("A speedup is the baseline's time over the variant's. Its interval is over launches: fresh processes.",),
        ("In each launch both sides run in turns.",),
        (
            *(Strong("faster"), ", ", Strong("slower"), ": the whole interval lies beyond 1 %. "),
            "Among all such findings of a run at most 5 % are expected to be wrong.",
        ),
        (Strong("no difference"), ": the whole interval lies within 1 % of equal."),
        (Strong(AT_MOST), ": the whole interval lies within 3 % of equal, either way, if not within 1 %."),
        (Strong("inconclusive"), ": the interval is too wide to say; the reason gives its ends."),
        (Strong("skipped"), ", ", Strong("failed"), ": not measured; the reason and the remedy are given."),
        ("A step's time is the median of the baseline's. Memory is the peak of one fresh process.",),
        ('"One-off" is what the variant needs once beyond the baseline: to build, compile and warm up.',),
        (
            "Guide items: A is the official guide's summary, B the ten-tricks article. G is the official Performance "
            "Tuning Guide, M what came later.",
        ),
    ]
