"""Asks for the pairs as pytest's items: `pytest benchmarks`."""

from tipbench.pytest_plugin import *
