"""What a benchmark file is written in. Small, and changed as rarely as possible: people's own pairs use it.

Nothing of the rest of the harness is imported here.
"""
