"""Finds the pairs of a folder, describes them, and selects among them. Nothing is registered anywhere."""
