"""Pairs whose truth is known: what `tipbench calibrate` measures, beside the controls of `benchmarks/control.py`."""
