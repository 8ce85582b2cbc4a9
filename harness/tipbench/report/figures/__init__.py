"""The figures of a run, by matplotlib, which is imported only when one is drawn."""

import os

# Figures are saved without a window, and matplotlib cannot be imported where this names a backend that it lacks.
os.environ.pop("MPLBACKEND", None)
