"""torch.utils.benchmark as its tutorial has it: one Timer a side, `blocked_autorange()`, all defaults.

Started as `python -m tests.peers.timed_by_torch FILE`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torch.utils.benchmark import Timer

from tests.peers.steps import chosen

if __name__ == "__main__":
    sides = {}
    for side in ("baseline", "optimized"):
        measured = Timer("step()", globals={"step": chosen(side)}).blocked_autorange()
        sides[side] = {
            "median": measured.median,
            "mean": measured.mean,
            "iqr": measured.iqr,
            "significant_figures": measured.significant_figures,
            "warned": measured.has_warnings,
        }
    Path(sys.argv[1]).write_text(json.dumps(sides))
