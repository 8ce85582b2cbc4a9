"""Pairs of known speedup or memory, for `python -m tests.calibrate` and `tipbench run --from tests/planted`."""
