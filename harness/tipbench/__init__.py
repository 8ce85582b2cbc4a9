"""Runs a tip's untuned and tuned code against each other and says, with an interval, what the tip brings.

`harness/README.md` lists its rooms; each imports only what stands below it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tipbench.report.as_json import load

__version__ = "0.1.0"

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> object:
    """`tipbench.load`, imported when it is asked for: `tipbench --help` answers at once."""
    if name == "load":
        from tipbench.report.as_json import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
