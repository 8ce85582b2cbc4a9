"""Hand-built records with known effects, and the verdicts they must get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.made_up import info, launch, measured, only
from tipbench.records.record import Launch, Outcome, Record, VariantRecord
from tipbench.tip.reason import Reason, reasons_text, remedies
from tipbench.verdict.launches import is_disturbed, launch_effect
from tipbench.verdict.rules import RULES
from tipbench.verdict.verdict import judge, launches_to_decide

CORES = 2


@pytest.mark.parametrize(
    ("share", "others", "percent"),
    [
        *[(0.1, -1.0, None), (0.5, -1.0, 50), (3.0, -1.0, 100), (-1.0, -1.0, None)],
        *[(0.5, 1.0, 50), (0.5, 0.05, None)],  # its own processes waited for each other
    ],
)
def test_inconclusive_says_where_cores_were_short(share: float, others: float, percent: int | None) -> None:
    """share: of the blocks' time, in which tasks waited. others: cores that other programs kept busy. Below 0 they are
    not known."""
    quiet = measured(info(), {"optimized": 0.0}, spread=0.04)
    busy = tuple(
        replace(
            launch,
            pressure_us=tuple(round(share * 1e6 * s) if share > 0 else -1 for s in launch.seconds),
            others=others,
        )
        for launch in quiet.launches
    )
    shortages = [reason for reason in only(replace(quiet, launches=busy)).reasons if reason.code == "verdict.shortage"]
    assert [reason.fields["percent"] for reason in shortages] == ([] if percent is None else [pytest.approx(percent)])


def test_every_point_of_a_sweep_is_judged_against_the_one_baseline() -> None:
    effects = {"workers=1": -0.2, "workers=2": 0.4, "workers=4": 0.0}
    judged = judge(measured(info(variants=list(effects)), effects), RULES, CORES)
    verdicts = zip(effects, ("slower", "faster", "no difference"), strict=True)
    assert [(judgement.variant, judgement.verdict) for judgement in judged] == list(verdicts)


def test_skipped_and_failed_records_keep_their_reasons() -> None:
    about = info(variants=["optimized", "arm"])
    outcomes: tuple[Outcome, ...] = ("failed", "skipped")
    for outcome in outcomes:
        record = Record(about, outcome, Reason("needs.own", {}, "1 NUMA node", "a larger machine"))
        judged = judge(record, RULES, CORES)
        assert [judgement.variant for judgement in judged] == ["optimized", "arm"]
        for judgement in judged:
            assert (judgement.verdict, judgement.reasons) == (outcome, (record.why,))
            assert (judgement.speedup, judgement.low, judgement.high) == (None, None, None)


def test_a_variant_can_fail_or_be_skipped_alone() -> None:
    record = measured(info(variants=["optimized", "lossy", "native"]), {"optimized": 0.3})
    differs = Reason("different-results", {}, "output differs", "fix it")
    lacks = Reason("needs.native", {"library": "libjemalloc"})
    more = {"lossy": VariantRecord("failed", differs), "native": VariantRecord("skipped", lacks)}
    first, *others = judge(replace(record, variants={**record.variants, **more}), RULES, CORES)
    assert first.verdict == "faster"
    assert [(judgement.variant, judgement.verdict, judgement.speedup) for judgement in others] == [
        ("lossy", "failed", None),
        ("native", "skipped", None),
    ]
    assert [reasons_text(judgement.reasons) for judgement in others] == [
        "different results: output differs",
        "libjemalloc not found",
    ]
    assert [remedies(judgement.reasons) for judgement in others] == ["fix it", "run `make native`"]


def with_steal(launch: Launch, at: range, ticks: int) -> Launch:
    return replace(launch, steal_ticks=tuple(ticks if i in at else 0 for i in range(len(launch.seconds))))


def with_throttling(launch: Launch, at: range) -> Launch:
    return replace(launch, throttled_us=tuple(50 if i in at else 0 for i in range(len(launch.seconds))))


@pytest.mark.parametrize(
    ("ticks", "block_s", "cores", "gone"),
    [
        (0, 0.02, 2, False),
        (1, 0.001, 2, False),  # one tick is the counter's resolution
        (2, 0.02, 2, True),  # 20 ms of 160 ms
        (2, 0.1, 2, False),  # 20 ms of 800 ms
        (2, 0.02, 8, False),  # 20 ms of 640 ms
        (-1, 0.02, 2, False),  # not known
    ],
)
def test_stolen_time_quarantines_a_round_by_its_share(ticks: int, block_s: float, cores: int, gone: bool) -> None:
    timed = with_steal(launch({"optimized": 0.0}, 0, rounds=1, baseline_s=block_s), range(1), ticks)
    assert is_disturbed(timed, slice(0, 4), cores) is gone


def test_throttling_at_all_quarantines_a_round_and_slowness_never_does() -> None:
    timed = launch({"optimized": 0.0}, 0, rounds=2)
    assert is_disturbed(with_throttling(timed, range(1)), slice(0, 4), CORES)
    assert not is_disturbed(with_throttling(timed, range(1)), slice(4, 8), CORES)
    slow = replace(timed, seconds=(9.0, *timed.seconds[1:]))
    assert not is_disturbed(slow, slice(0, 4), CORES)


@pytest.mark.parametrize(
    ("event", "gone"),
    [
        ("GpuIdle", False),
        ("ApplicationsClocksSetting", False),
        ("SwPowerCap", False),  # the workload's own
        ("HwSlowdown", True),
        ("SyncBoost", False),
        ("SwThermalSlowdown", True),
        ("HwThermalSlowdown", True),
        ("HwPowerBrakeSlowdown", True),
        ("DisplayClockSetting", False),
        ("", False),  # not known
    ],
)
def test_a_gpu_held_back_by_heat_or_hardware_quarantines_a_round(event: str, gone: bool) -> None:
    import pynvml

    bits = getattr(pynvml, f"nvmlClocksEventReason{event}") if event else -1
    timed = replace(launch({"optimized": 0.0}, 0, rounds=2), gpu={"clock_events": (0, bits, 0, 0, 0, 0, 0, 0)})
    assert is_disturbed(timed, slice(0, 4), CORES) is gone
    assert not is_disturbed(timed, slice(4, 8), CORES)


@pytest.mark.parametrize(
    ("effect", "mhz", "verdict"),
    [
        (0.05, (1980, 1980), "faster"),
        (0.05, (1900, 1980), "inconclusive"),  # 4 % of clock, and 1 % is no practical size
        (0.05, (1950, 1980), "faster"),  # 1.5 %: 3.5 % are left
        (0.05, (1980, 1700), "faster"),  # though its own clock was lower
        (-0.05, (1980, 1900), "inconclusive"),
        (-0.05, (1900, 1980), "slower"),
        (0.9, (1200, 1980), "faster"),
        (0.05, (-1, 1980), "faster"),  # not known
        (0.05, (), "faster"),
        (0.0, (1700, 1980), "no difference"),
    ],
)
def test_a_claim_holds_without_what_a_gpus_clock_may_bring(effect: float, mhz: tuple[int, ...], verdict: str) -> None:
    record = measured(info(device="cuda"), {"optimized": effect}, spread=0.0005)
    if mhz:
        side = dict(zip(("baseline", "optimized"), mhz, strict=True))
        launches = tuple(
            replace(launch, gpu={"sm_mhz": tuple(side[name] for name in launch.variant)}) for launch in record.launches
        )
        record = replace(record, launches=launches)
    (judgement,) = judge(record, RULES, CORES)
    assert judgement.verdict == verdict
    if verdict == "inconclusive":
        assert all(f"{clock} MHz" in reasons_text(judgement.reasons) for clock in mhz)
        assert "nvidia-smi -lgc 1900" in remedies(judgement.reasons)
    assert launches_to_decide(record, RULES, CORES) == {}, "further launches would not change it"


def test_a_launch_is_dropped_when_half_its_rounds_or_more_are_disturbed() -> None:
    timed = launch({"optimized": 0.3}, 0, rounds=4)
    effect, dropped = launch_effect(with_throttling(timed, range(4)), "optimized", CORES)
    assert effect is not None
    assert effect.value == pytest.approx(0.3)
    assert dropped == 1
    assert launch_effect(with_throttling(timed, range(8)), "optimized", CORES) == (None, 2)


def test_inconclusive_counts_the_launches_that_were_too_disturbed() -> None:
    record = measured(info(), {"optimized": 0.0}, spread=0.04)
    spoilt = tuple(with_throttling(launch, range(16)) for launch in record.launches[:3])
    judgement = only(replace(record, launches=(*spoilt, *record.launches)))
    assert (judgement.verdict, len(judgement.effects)) == ("inconclusive", 6)
    assert judgement.reasons[0] == only(record).reasons[0]
    assert judgement.reasons[1] == Reason("verdict.disturbed", {"disturbed": 3, "launches": 9})
