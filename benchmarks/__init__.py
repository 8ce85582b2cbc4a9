"""The guides' tips, one file each, in the guide's order.

A package, so that no other package named `benchmarks` takes its place. The folders below have no such file.
"""
