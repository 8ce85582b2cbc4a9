"""Runs a tip's untuned and tuned code against each other and says, with an interval, what the tip brings."""

__version__ = "0.1.0"
