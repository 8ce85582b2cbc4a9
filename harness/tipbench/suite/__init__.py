"""Finds the pairs of a folder, describes them, and selects among them. Nothing is registered anywhere.

Files of pairs are imported in a process of their own (`describe`), never in the parent.
"""
