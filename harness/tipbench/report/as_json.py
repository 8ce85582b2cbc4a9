"""The report as JSON: a public format, kept stable. Names are added; one goes only with the measurement behind it.

    {
      "run": {"id", "started", "suite", "commit",
              "planned", "measured", "skipped", "failed", "not_reached", "notices"},
      "machine": {...}, "controls": {...},
      "pairs": [{"tip", "pair", "scale", "variant", "device", "verdict", "speedup", "low", "high", "launches",
                 "memory", "equal", "mechanism", "trainings", "one_off_s", "break_even_steps", "reason_code",
                 "reason", "remedy", "gpu"}],
      "answers": [{"tip", "title", "workload", "kind", "answer", "when", "do", "gain", "against", "price", "sessions",
                   "ways"}]
    }

run: `started` is ISO 8601 in UTC; `planned` = `measured` + `skipped` + `failed` + `not_reached` counts
pairs; `notices` are lines of results files that could not be used. machine, controls: as recorded.

pairs: one object for each pair and variant other than the baseline; unknown numbers are null.
- scale: "micro" or "macro"; device: "cpu" or "cuda".
- verdict: "faster", "slower", "no difference", "at most 3 %" (either way), "inconclusive", "skipped" or "failed".
- speedup, low, high: baseline's time over the variant's, with its 95 % interval, from the first launch on; launches it
  rests on. The spread between launches is estimated from these and from stored runs.
- memory: {"baseline": {...}, "variant": {...}}, each with those known of "tensor_peak", "steady_peak", "resident_peak",
  "tree", "allocated_peak", "reserved_peak", "device_used", in bytes.
- equal: null, or {"method", "tolerance", "seeds"} with "worst" (bitwise, allclose) or "error" and
  "baseline_error" (close to fp64, lossy), or {"method", "seeds"} (same target); runs before November 2026 have
  {"method", "target", "seeds", "lowest"} (target reached), where "lowest" is the lowest score of both sides. A number
  that is not finite is a string: "nan", "inf", "-inf".
- mechanism: null, or {"what", "baseline", "optimized", "engaged"}. Where nothing on the machine can count it, the
  counts are {"unseen": why} and "engaged" is null.
- trainings: null, or {"baseline", "variant"}, each {"target", "batch", "steps_timed", "seeds", "steps", "reached",
  "scores", "lower_is_better", "counted", "table"}: whole trainings from the table of that name in the suite, counted on
  that day and not on this machine. Lists are by seed: optimizer steps until the target was reached or the training
  given up, which of the two, and the score in the end, null where not finite. batch: samples of an optimizer step;
  steps_timed: optimizer steps within a timed step; lower_is_better: of the score.
- one_off_s: seconds the variant needs once beyond the baseline, negative where it needs less.
- break_even_steps: steps after which a faster variant has earned them back; 0 where there is nothing to
  earn back; null where it is not faster.
- reason_code, reason, remedy: why there is no clear answer, the main reason of it as a code (a key of
  `tipbench.tip.reason.SENTENCES`), and what to do about it; "" where there is nothing to say.
- gpu: null on a CPU, else {"sm_mhz", "memory_mhz", "celsius", "milliwatts"}, each {"baseline", "variant"}, medians of
  readings at the blocks' ends, or null where the driver did not tell; and "l2_emptied": whether the L2 cache was
  emptied before every step.

answers: one object a tip and workload ("Training on a CPU", "Inference on a CPU", "One GPU", "Several processes or
GPUs", "Other jobs", "Operations alone"), in the order of the page. kind: "use it", "use it if", "depends", "faster
alone", "already the default", "at most", "don't", "can't tell" or "not possible here"; answer: the same with what
follows it. when: the condition; do: what to write; against: what the gain was measured against, "" for the job as it
is; gain, price: in words; sessions: how many sessions timed its jobs, at most. ways: [{"name", "kind",
"do", "gain"}], each way to follow the tip in whole jobs, that of the answer first; name: "" where it has none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tipbench.records.record import Run
from tipbench.records.store import Notice
from tipbench.report.answer import Answer, answers
from tipbench.report.result import Result
from tipbench.report.results import counts, results
from tipbench.report.table import SIDES

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
    readings = {name: sides and dict(zip(SIDES, sides, strict=True)) for name, sides in row.gpu.items()}
    return {
        **fields_of(row, "tip pair scale variant device verdict speedup low high launches"),
        "memory": {"baseline": row.baseline_memory, "variant": row.variant_memory},
        "equal": row.equal or None,
        "mechanism": row.mechanism or None,
        "trainings": row.trainings and dict(zip(SIDES, map(asdict, row.trainings), strict=True)),
        **fields_of(row, "one_off_s break_even_steps reason_code reason remedy"),
        "gpu": {**readings, "l2_emptied": row.cold} if readings else None,
    }
