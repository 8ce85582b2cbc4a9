"""The words of an answer: its kinds, and the kinds of work on which a tip has an answer of its own."""

USE, USE_IF, DEPENDS, ALONE, DEFAULT, SMALL, DO_NOT, UNCLEAR, IMPOSSIBLE = KINDS = (
    "use it",
    "use it if",
    "depends",
    "faster alone",
    "already the default",
    "at most",
    "don't",
    "can't tell",
    "not possible here",
)
"""The kinds of answers, those that ask for action first. Two are shown with more: `use it if memory is short`,
`at most 3 %`."""

TRAINING, INFERENCE, ONE_GPU, SEVERAL, OTHER, OPERATIONS = WORKLOADS = (
    "Training on a CPU",
    "Inference on a CPU",
    "One GPU",
    "Several processes or GPUs",
    "Other jobs",
    "Operations alone",
)
"""The kinds of work on which a tip has an answer of its own."""

ACTS = (USE, USE_IF, DEPENDS, ALONE)
"""Kinds with something to write."""
