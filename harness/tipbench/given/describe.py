"""The process that describes pairs on a person's job: as `tipbench.suite.describe`, for files of data too."""

from __future__ import annotations

import sys

from tipbench.given import pair  # noqa: F401 - makes pairs of data
from tipbench.suite.describe import main

if __name__ == "__main__":
    main(*sys.argv[1:])
