"""The process that answers a question about a person's job, which it runs: `tipbench.advise` starts it and reads the
file that it writes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tipbench.given.curve import SWEEPS
from tipbench.given.surveying import survey
from tipbench.given.sweeping import sweep_of_job
from tipbench.given.target import BadJob, error_with_line
from tipbench.suite.files import set_guides_aside
from tipbench.worker.serve import bound_output


def main(target: str, answer: str, question: str, seconds: str) -> None:
    """Write to the file `answer`, as JSON: a Survey, a JobCurve if the question is one of SWEEPS, or {"problem"}."""
    bound_output()
    set_guides_aside()
    try:
        if question in SWEEPS:
            content: dict[str, Any] = asdict(sweep_of_job(target, question, float(seconds)))
        else:
            content = asdict(survey(target, float(seconds)))
    except BadJob as bad:
        content = {"problem": str(bad)}
    except Exception as error:  # of a person's job
        content = {"problem": error_with_line(error, Path(target.rpartition(":")[0]))}
    Path(answer).write_text(json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
