"""The report as JSON, and its pairs as a pandas table: a public format, kept stable. Names are added; one goes only
with the measurement behind it.

    {
      "run": {"id", "started", "suite", "commit",
              "planned", "measured", "skipped", "failed", "not_reached", "notices"},
      "machine": {...}, "controls": {...},
      "pairs": [{"tip", "claim", "pair", "scale", "variant", "is_headline", "device", "task", "sizes", "verdict",
                 "speedup", "low", "high", "launches", "effects", "truth", "baseline_step_s", "variant_step_s",
                 "memory", "equal", "mechanism", "trainings", "one_off_s", "break_even_steps", "reason_code",
                 "reason", "remedy", "gpu"}],
      "answers": [{"tip", "title", "workload", "kind", "answer", "when", "do", "gain", "against", "price", "sessions",
                   "ways"}]
    }

run: `started` is ISO 8601 in UTC; `planned` = `measured` + `skipped` + `failed` + `not_reached` counts
pairs; `notices` are lines of results files that could not be used. machine, controls: as recorded.

pairs: one object for each pair and variant other than the baseline; unknown numbers are null.
- claim: what the guide promises.
- scale: "micro" for an operation alone, "macro" for a whole job; device: "cpu" or "cuda".
- is_headline: whether the guide words the tip as this variant does.
- task: of a whole job "training", "inference", or "processes" for several at once; sizes: of the work, by name.
- verdict: "faster", "slower", "no difference", "at most 3 %" (either way), "inconclusive", "skipped" or "failed".
- speedup, low, high: baseline's time over the variant's, with its 95 % interval, from the first launch on; launches it
  rests on. The spread between launches is estimated from these and from stored runs. effects: ln of the speedup in each
  of these launches, in their order.
- truth: the true speedup, of a planted pair that declares it.
- baseline_step_s, variant_step_s: seconds of a step.
- memory: {"baseline": {...}, "variant": {...}}, each with those known of "tensor_peak", "steady_peak", "resident_peak",
  "tree", "allocated_peak", "reserved_peak", "device_used", in bytes.
- equal: null, or {"method", "tolerance", "seeds"} with "worst" (bitwise, allclose) or "error" and
  "baseline_error" (close to fp64, lossy), or {"method", "seeds"} (same target). A number that is not finite is a
  string: "nan", "inf", "-inf".
- mechanism: null, or {"what", "baseline", "optimized", "engaged"}. Where nothing on the machine can count it, the
  counts are {"unseen": why} and "engaged" is null.
- trainings: null, or {"sentence", "table"}: what whole trainings of both sides came to, and the table of the suite that
  holds them by seed. They were not counted on this machine.
- one_off_s: seconds the variant needs once beyond the baseline, negative where it needs less.
- break_even_steps: steps after which a faster variant has earned them back; 0 where there is nothing to
  earn back; null where it is not faster.
- reason_code, reason, remedy: why there is no clear answer, the main reason of it as a code (a key of
  `tipbench.tip.reason.SENTENCES`), and what to do about it; "" where there is nothing to say.
- gpu: null on a CPU, else {"sm_mhz", "memory_mhz", "celsius", "milliwatts"}, each {"baseline", "variant"}, medians of
  readings at the blocks' ends, or null where the driver did not tell.

answers: one object a tip and workload ("Training on a CPU", "Inference on a CPU", "One GPU", "Several processes or
GPUs", "Other jobs", "Operations alone"), in the order of the page. kind: "use it", "use it if", "depends", "faster
alone", "already the default", "at most", "don't", "can't tell" or "not possible here"; answer: the same with what
follows it. when: the condition; do: what to write; against: what the gain was measured against, "" for the job as it
is; gain, price: in words; sessions: how many sessions timed its jobs, at most. ways: [{"name", "kind",
"do", "gain"}], each way to follow the tip in whole jobs, that of the answer first; name: "" where it has none.

`load` makes a table of the pairs of any number of runs. Its columns have these names, nested ones joined by `_`:
`memory_variant_tensor_peak`. Of the run it has run (its id), started, suite, commit and machine (the readable name).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tipbench.records.record import Run
from tipbench.records.store import Notice, folder_name, read
from tipbench.report.answer import Answer, answers
from tipbench.report.result import Result
from tipbench.report.results import counts, results
from tipbench.report.trained import describe_trainings

if TYPE_CHECKING:
    import pandas as pd

ANSWER = "tip title workload kind answer when do gain against price sessions"


def render(run: Run, notices: Sequence[Notice]) -> str:
    rows = results(run)
    document = {
        "run": {
            **fields_of(run, "id started suite commit"),
            **asdict(counts(run)),
            "notices": [f"{notice.file.name}, line {notice.line}: {notice.text}" for notice in notices],
        },
        "machine": run.machine,
        "controls": run.controls,
        "pairs": list(map(_pair, rows)),
        "answers": list(map(_answer, answers(rows))),
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def fields_of(row: object, names: str) -> dict[str, Any]:
    """Of a row these fields and properties, separated by spaces."""
    return {name: getattr(row, name) for name in names.split()}


def _answer(answer: Answer) -> dict[str, Any]:
    ways = [
        {**fields_of(way, "name kind do"), "gain": "; ".join(gain.words for gain in way.gains)} for way in answer.ways
    ]
    return {**fields_of(answer, ANSWER), "ways": ways}


def _pair(row: Result) -> dict[str, Any]:
    readings = {name: sides and {"baseline": sides[0], "variant": sides[1]} for name, sides in row.gpu.items()}
    return {
        "tip": row.tip,
        "claim": row.about.claim,
        **fields_of(row, "pair scale variant is_headline device task"),
        "sizes": json.loads(row.sizes),
        **fields_of(row, "verdict speedup low high launches effects truth"),
        "baseline_step_s": row.step_s,
        "variant_step_s": row.variant_step_s,
        "memory": {"baseline": row.baseline_memory, "variant": row.variant_memory},
        "equal": row.equal or None,
        "mechanism": row.mechanism or None,
        "trainings": row.trainings and {"sentence": describe_trainings(row), "table": row.trainings[0].table},
        **fields_of(row, "one_off_s break_even_steps reason_code reason remedy"),
        "gpu": readings or None,
    }


def load(*files: str | Path) -> pd.DataFrame:
    """The pairs of stored runs as one table, one row a run, pair, variant and device, in the order of the files.

    Raises `tipbench.records.store.StoreError` if a file cannot be used; what in a usable file cannot be used is in the
    notices of `tipbench report`.
    """
    import pandas as pd  # takes half a second, which commands that make no table are spared

    rows: list[dict[str, Any]] = []
    for file in files:
        run, _ = read(Path(file))
        of_run = {"run": run.id, **fields_of(run, "started suite commit"), "machine": folder_name(run.machine)}
        rows += [of_run | _pair(row) for row in results(run)]
    # What is nested has columns of its own, and null where a row has none of it, a further one.
    return pd.json_normalize(rows, sep="_").drop(columns=["equal", "mechanism", "trainings", "gpu"], errors="ignore")
