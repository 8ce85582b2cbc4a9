"""Runs of several machines, days and versions set against each other."""
