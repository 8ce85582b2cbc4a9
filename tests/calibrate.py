"""How often the engine is wrong: repeated runs of pairs whose truth is known, idle or with a noisy neighbour.

    python -m tests.calibrate planted.Nothing planted.InBaseline6 --repeat 100 --seed 900000 --loaded

Every repetition is an ordinary run with processes and a seed of its own, stored under `--results`, in `idle/` or
`loaded/`. Ctrl-C ends it with the table of the complete runs. The same command resumes: it counts the stored runs and
continues the interrupted one. Each pair is judged alone. Without names it measures all controls and all pairs of
`tests/planted/`.

Exit codes: 0 done, 1 a verdict was wrong or a pair failed, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from tests.noise import NoNoise, noise
from tipbench.cli import exit_code
from tipbench.engine import run as running
from tipbench.engine.lock import only_run
from tipbench.engine.order import complete
from tipbench.errors import UserError
from tipbench.records import store
from tipbench.records.record import Record, Run
from tipbench.verdict import rules
from tipbench.verdict.rules import AT_MOST, BOUND, MARGIN
from tipbench.verdict.verdict import Judgement, judge

PLANTED = Path(__file__).parent / "planted"

NAMES = "control", "planted", "memory"
"""The tips that are measured if no name is given."""

SEED_STEP = 1000
"""Between the seeds of two runs: more than the launches of any pair, each of which has a seed of its own."""

TOLERANCE = 0.05
"""Planted memory must be reported within this share of what was planted."""

EDGE = 1e-9
"""Two sums of logarithms count as equal within this: 1 % planted is exactly the margin."""

MEMORY = {"live_mib": "tensor_peak", "resident_mib": "resident_peak"}
"""By the size that plants it, the kind of `VariantRecord.memory` that must show it."""


@dataclass(frozen=True)
class Outcome:
    """One truth and what one run reported of it.

    Attributes:
        pair: `tip.Pair`.
        truth: what is known, as the table shows it.
        verdict: judged alone; of memory "found" or "missed"; "failed" or "skipped" if it was not measured.
        wrong: whether the verdict contradicts the truth.
        covered: whether the interval holds the true speedup; None without an interval or a true speedup.
    """

    pair: str
    truth: str
    verdict: str
    wrong: bool = False
    covered: bool | None = None


def contradicts(verdict: str, truth: float) -> bool:
    """Whether a verdict is untrue of a speedup with the natural logarithm `truth`. Exactly 1 % is no difference."""
    if verdict == "faster":
        return truth <= MARGIN + EDGE
    if verdict == "slower":
        return truth >= -MARGIN - EDGE
    most = {"no difference": MARGIN, AT_MOST: BOUND}.get(verdict)
    return most is not None and abs(truth) > most + EDGE


def outcomes(run: Run) -> Iterator[Outcome]:
    """Everything that is known of a run's pairs, and what the run reported of it."""
    for record in run.records:
        planted = {kind: record.info.sizes[name] << 20 for name, kind in MEMORY.items() if name in record.info.sizes}
        for judgement in judge(record, rules.RULES, run.cores):
            if planted:  # what the sides of such a pair take in time is not known
                yield from (_of_memory(record, judgement, kind, size) for kind, size in planted.items())
            else:
                yield _of_time(record, judgement)


def _of_time(record: Record, judgement: Judgement) -> Outcome:
    """A pair without a truth differs from process to process: that its mean is small is all that is true of it."""
    speedup, verdict = record.info.truth.get(judgement.variant), judgement.verdict
    shown = "differs by process" if speedup is None else f"{speedup:.3f}x"
    if verdict in ("failed", "skipped"):
        return Outcome(record.name, shown, verdict)
    if speedup is None:
        return Outcome(record.name, shown, verdict, verdict not in ("inconclusive", AT_MOST))
    truth, covered = math.log(speedup), None
    if judgement.low is not None and judgement.high is not None:
        covered = math.log(judgement.low) - EDGE <= truth <= math.log(judgement.high) + EDGE
    return Outcome(record.name, shown, verdict, contradicts(verdict, truth), covered)


def _of_memory(record: Record, judgement: Judgement, kind: str, planted: int) -> Outcome:
    """kind: a key of `VariantRecord.memory`. planted: bytes that the optimized side takes beyond the baseline."""
    shown = f"{planted >> 20} MiB of {kind}"
    if judgement.verdict in ("failed", "skipped"):
        return Outcome(record.name, shown, judgement.verdict)
    sides = [record.variants[name].memory for name in ("baseline", "optimized") if name in record.variants]
    if len(sides) < 2 or not all(kind in side for side in sides):
        return Outcome(record.name, shown, "skipped")
    missed = abs((sides[1][kind] - sides[0][kind]) / planted - 1) > TOLERANCE
    return Outcome(record.name, shown, "missed" if missed else "found", missed)


def table(results: Sequence[Outcome]) -> str:
    """One line for each pair and truth, and what they come to with exact (Clopper-Pearson) 95 % intervals."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in results:
        groups.setdefault((outcome.pair, outcome.truth), []).append(outcome)
    rows = [
        {
            "pair": pair,
            "truth": truth,
            "verdicts": ", ".join(f"{count} {word}" for word, count in Counter(o.verdict for o in group).items()),
            "wrong": _share([o.wrong for o in group if o.verdict not in ("failed", "skipped")]),
            "interval holds the truth": _share([o.covered for o in group if o.covered is not None]),
        }
        for (pair, truth), group in groups.items()
    ]
    wrong = [o.wrong for o in results if o.verdict not in ("failed", "skipped")]
    covered = [o.covered for o in results if o.covered is not None]
    totals = [f"wrong: {_share(wrong, True)}", f"intervals that hold the truth: {_share(covered, True)}"]
    return "\n".join([pd.DataFrame(rows).to_string(index=False), "", *totals])


def _share(holds: Sequence[bool], interval: bool = False) -> str:
    if not holds:
        return "-"
    counted = f"{sum(holds)} of {len(holds)}"
    if not interval:
        return counted
    between = binomtest(sum(holds), len(holds)).proportion_ci(0.95, method="exact")
    return f"{counted} (95 % interval {100 * between.low:.1f} to {100 * between.high:.1f} %)"


def measure(options: argparse.Namespace, seed: int, file: Path | None) -> tuple[int, Path]:
    """Make the run with this seed, or go on with its file. Returns its exit code and file; raises UserError."""
    if file is not None:
        run = store.read(file)[0]
        if {record.name for record in run.records if complete(record, rules.RULES, run.cores)} >= set(run.planned):
            return 0, file
    neighbour = noise(seed) if options.loaded else nullcontext(lambda: None)
    with only_run():
        pass  # refused before the noise disturbs the run that is measuring
    with neighbour as check, redirect_stdout(io.StringIO()):
        code, file = running.measure_machine(
            running.Options(
                names=options.names or NAMES,
                folder=str(PLANTED),
                results=options.results,
                device=options.device,
                seed=seed,
            )
        )
        try:
            check()
        except NoNoise as error:
            file.unlink()
            raise NoNoise(f"{error}: {file} is deleted. Run the same command again", exit_code=1) from None
    return code, file


def main(arguments: Sequence[str] | None = None) -> int:
    """Raises UserError."""
    options = _options(arguments)
    options.results /= "loaded" if options.loaded else "idle"
    stored = {store.header(file).options["seed"]: file for file in sorted(options.results.rglob("*.jsonl"))}
    results: list[Outcome] = []
    first: Run | None = None
    for number in range(options.repeat):
        seed = (options.seed + number * SEED_STEP) % 2**31
        print(f"run {number + 1} of {options.repeat}, seed {seed}", file=sys.stderr)
        try:
            code, file = measure(options, seed, stored.get(seed))
        except KeyboardInterrupt:
            code = 130
        if code == 130:
            if results:
                print(table(results))
            print("The same command continues here; `tipbench run` would without noise.", file=sys.stderr)
            return code
        run, notices = store.read(file)
        for notice in notices:
            print(notice, file=sys.stderr)
        first = first or run
        if run.planned != first.planned:
            raise UserError(f"{file} is of other pairs: give another folder with --results")
        results += outcomes(run)
    print(table(results))
    return int(any(outcome.wrong or outcome.verdict == "failed" for outcome in results))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.calibrate", description="How often is the engine wrong?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tip or tip.Pair, such as control")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs; default: 1")
    parser.add_argument("--loaded", action="store_true", help="measure beside a noisy neighbour")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="default: auto")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run; default: 0")
    parser.add_argument("--results", type=Path, default=Path("calibration"), metavar="DIR", help="default: calibration")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(main))
