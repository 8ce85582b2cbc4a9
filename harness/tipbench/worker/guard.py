"""Runs a pair's code: turns its exceptions into failures that say where, and fails it if it leaves a switch changed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import numpy
import torch

from tipbench.suite.files import explain, load_module, pair_classes, set_guides_aside
from tipbench.tip.pair import Pair, Step, Variant, variants
from tipbench.tip.process import ProcessSettings
from tipbench.worker import switches
from tipbench.worker.failed import Failed
from tipbench.worker.protocol import OUTPUT_LIMIT

Returned = TypeVar("Returned")

_NO_MEMORY = ("can't allocate memory", "out of memory", "_STATUS_ALLOC_FAILED")
"""Texts in out-of-memory messages of torch's allocators, and of cuBLAS, cuDNN and cuSOLVER, which allocate their own
memory."""

REFERENCE_VARIANT = Variant("reference", "reference", {}, ProcessSettings(), nullcontext, ())
"""`Pair.reference`, which is built and run like a variant."""


class Guard:
    """A pair, and the only place where its code is called.

    Attributes:
        file: path of the pair's file.
        device: where it runs.
        size: its sizes, by name.
        pair_class: the pair.
        variants: its variants, by name.
        before_step: `Pair.before_step`; None where the pair does not define it.
    """

    def __init__(self, file: Path, folder: Path, pair: str, device: torch.device, size: Mapping[str, int]) -> None:
        """Import the pair's file, which must leave all switches as they are. Raises Failed."""
        self.file, self.device, self.size = file, device, size
        self._switches = switches.read()
        module = load_module(file, folder)
        (self.pair_class,) = (defined for defined in pair_classes(module) if defined.__name__ == pair)
        if self.pair_class.job_file is not None:
            self.file = self.pair_class.job_file  # errors are in the person's file
            set_guides_aside()
        self._settled = self.pair_class.job_file is None
        if self._settled:
            self.expect_unchanged(f"importing {file.name}", "global-switch.import")
        self.variants = {variant.name: variant for variant in variants(self.pair_class)}
        restores = self.pair_class.before_step is not Pair.before_step
        self.before_step: Callable[[], None] | None = self.pair().before_step if restores else None

    def pair(self) -> Pair:
        return self.pair_class(self.device, self.size)

    def build(self, variant: str, seed: int) -> Step:
        """Build the step of a variant, or of "reference". Raises Failed."""
        chosen = REFERENCE_VARIANT if variant == REFERENCE_VARIANT.name else self.variants[variant]
        seed_generators(seed)
        step: object = self.call(
            "build-raised", variant, lambda: getattr(self.pair(), chosen.builder)(**chosen.arguments)
        )
        if not callable(step):
            raise Failed(
                "build-raised", f"{chosen.builder} returned a {type(step).__name__}; return the step, a callable"
            )
        return step

    def step(self, variant: str, step: Callable[[], Returned], number: int | None = None) -> Returned:
        """The return value of a step, or of a function that runs it. number: of the step, from 1. Raises Failed."""
        return self.call("step-raised", f"{variant}, step {number}" if number else variant, step)

    def call(self, code: str, doing: str, run: Callable[[], Returned]) -> Returned:
        """The return value of the pair's code. Raises Failed with `code` and the raising line of the pair's file."""
        try:
            return run()
        except Failed:
            raise
        except BaseException as error:  # a pair may raise anything, SystemExit included
            self.check_output(doing)  # a flood ends as an error of the disk or of `bound_output`
            text = str(error)
            if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
                code = "out-of-memory"
            raise Failed(code, explain(error, self.file), where=doing) from error

    def from_the_start(self, step: Callable[[], Returned]) -> Callable[[], Returned]:
        """The step, with `Pair.before_step` called before it."""

        def restored() -> Returned:
            if self.before_step is not None:
                self.before_step()
            return step()

        return restored

    @contextmanager
    def scope(self, variant: str) -> Iterator[None]:
        """Apply the variant's own switch. Raises Failed if another switch is changed afterwards."""
        with self.variants.get(variant, REFERENCE_VARIANT).switch():
            yield
        self.expect_restored(variant)

    def shares_its_process(self, variant: str) -> bool:
        """Whether another variant runs in this process too."""
        settings = self.variants[variant].settings if variant in self.variants else None
        return sum(candidate.settings == settings for candidate in self.variants.values()) != 1

    def expect_restored(self, variant: str) -> None:
        """Raise Failed if the variant has left a switch changed that other variants run with."""
        if not self._settled or not self.shares_its_process(variant):
            # A variant alone in its process may change what cannot be undone, since no other runs with it. And if a
            # job may set switches, each further build sets what its first build sets.
            self._switches = switches.read()
            self._settled = True
        self.expect_unchanged(variant, "global-switch.variant")

    def expect_unchanged(self, who: str, code: str) -> None:
        """Raise Failed if a switch is not as it was before the pair's file was imported."""
        if moved := switches.describe_changes(self._switches, switches.read()):
            raise Failed(code, f"{who} changed and left changed: {moved}")

    def check_output(self, doing: str) -> None:
        """Raise Failed if a step printed more than OUTPUT_LIMIT; a worker's stdout is a file."""
        if os.fstat(1).st_size > OUTPUT_LIMIT:
            raise Failed("output-flood", mib=OUTPUT_LIMIT >> 20, doing=doing)


def seed_generators(seed: int) -> None:
    """Seed the generators that pairs draw from, so that both sides draw the same."""
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
