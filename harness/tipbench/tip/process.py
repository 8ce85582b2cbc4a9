"""How a variant is launched: its process settings, and the switches that are entered around its blocks.

Variants with equal process settings share one worker process; a variant with process settings of its own
gets a process (or, with ranks, a group of processes under torchrun) of its own in the same launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class ProcessSettings:
    """What must be in place before a variant's process starts.

    Attributes:
        env: variables set for the process.
        without: controls of the harness (variable names) that must not be set. torchrun does not set them either.
        preload: libraries for LD_PRELOAD, by the names `tipbench.machine.native` finds them under.
        prefix: words before the interpreter, such as ("numactl", "--membind=0").
        ranks: processes started by torchrun; 1 means a plain process.
        own_process: the variant's name if it must not share its process; else empty.
    """

    env: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    ranks: int = 1
    own_process: str = ""

    def filled(self, arguments: Mapping[str, Any]) -> ProcessSettings:
        """The same, with `{name}` in variables replaced by a sweep's arguments, if there are any."""
        if not arguments:
            return self
        return replace(
            self,
            env=tuple((name, value.format(**arguments)) for name, value in self.env),
            own_process=self.own_process and " ".join([self.own_process, *map(str, arguments.values())]),
        )


def mark_builder(**marks: Any) -> Callable[[Builder], Builder]:
    """Give a builder what `tipbench.tip.pair.variants` reads of it."""

    def mark(builder: Builder) -> Builder:
        vars(builder).update(marks)
        return builder

    return mark


def process_settings(
    *,
    env: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
    preload: tuple[str, ...] = (),
    prefix: tuple[str, ...] = (),
    ranks: int = 0,
    own_process: bool = False,
) -> Callable[[Builder], Builder]:
    """Give a variant process settings of its own. In a sweep, `{name}` in `env` is replaced by the swept value.

    ranks: 0: as many as the pair has.
    own_process: for a switch that decides what is put into a cache of the process, as cudnn.benchmark does: in one
    process both sides would run with what the first of them has put there.
    """

    def mark(builder: Builder) -> Builder:
        own = builder.__name__ * own_process
        settings = ProcessSettings(tuple(sorted((env or {}).items())), without, preload, prefix, ranks, own)
        return mark_builder(settings=settings)(builder)

    return mark


def within(switch: Callable[[], AbstractContextManager[Any]]) -> Callable[[Builder], Builder]:
    """Enter `switch()` before each block of this variant and leave it after, both outside the clock."""
    return mark_builder(switch=switch)
