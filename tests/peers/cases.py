"""The cases by name, and how a tool's processes are told which to build. Needs no torch."""

SINES = {"fewer": 200, "more": 206, "elements": 2000}
"""Sizes of the planted cases: 3 % more of the same operation on one side."""

TRUTHS = {
    "Pointwise": 1.0,
    "Convolution": 1.0,
    "TrainingStep": 1.0,
    "SmallOperations": 1.0,
    "MoreInOptimized": SINES["fewer"] / SINES["more"],
    "MoreInBaseline": SINES["more"] / SINES["fewer"],
}
"""By the name of each pair in `pairs.py`, the true speedup: t_baseline / t_optimized."""

CASE, SIDE, SEED = "PEERS_CASE", "PEERS_SIDE", "PEERS_SEED"
"""Environment variables: as a checkout chooses the version of the code, they choose what is built."""
