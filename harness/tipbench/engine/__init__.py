"""The parent's side of a run: it schedules launches, starts workers and asks them, and stores what they answer.

Nothing here computes a step or a statistic, and nothing prints: a run reports through `Progress`.

`run` is one command from its first word to its last, and `runner` decides which pass of which pair comes next. A worker
is held by its `handle`: a `process`, which `launcher` has started afresh or through a `fork_server`; a `channel`, which
carries requests and answers; and `diagnose`, for when there is no answer.
"""
