"""Runs a tip's untuned and tuned code against each other and says, with an interval, what the tip brings.

Its rooms, from the doors down; each imports only what is below it:

- `cli`, `pytest_plugin`: the doors
- `publish`: runs and comparisons on a team's wiki
- `compare`: runs set against each other
- `engine`: the parent's side of a run: it starts workers, schedules their blocks and stores what they answer
- `worker`: the measured process
- `report`: a run as people read it
- `suite`: finds pairs and describes them
- `verdict`: from seconds to verdicts
- `records`: what is stored of a run
- `machine`: what this machine is
- `tip`: what a benchmark file is written in
- `errors`: the error that a person is shown as one sentence
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tipbench.report.table import load

__version__ = "0.1.0"

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> object:
    """`tipbench.load`, imported when it is asked for: `tipbench --help` answers at once."""
    if name == "load":
        from tipbench.report.table import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
