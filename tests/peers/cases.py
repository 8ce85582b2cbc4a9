"""The cases by name, and how a tool's processes are told which to build. Needs no torch."""

FEWER, MORE = 200, 206
"""Sines of the planted cases: 3 % more of the same operation on one side."""

TRUTHS = {
    "Pointwise": 1.0,
    "Convolution": 1.0,
    "TrainingStep": 1.0,
    "SmallOperations": 1.0,
    "MoreInOptimized": FEWER / MORE,
    "MoreInBaseline": MORE / FEWER,
}
"""By the name of each pair in `pairs.py`, the true speedup: t_baseline / t_optimized."""

CASE, SIDE, SEED = "PEERS_CASE", "PEERS_SIDE", "PEERS_SEED"
"""Environment variables: as a checkout chooses the version of the code, they choose what is built."""
