"""How a variant is launched: its surroundings, and the switches that are entered around its blocks.

Variants with equal surroundings share one worker process; a variant with surroundings of its own
gets a process (or, with ranks, a group of processes under torchrun) of its own in the same launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class Surroundings:
    """What must be in place before a variant's process starts.

    env: variables set for the process.
    without: controls of the harness (variable names) that must not be set.
    preload: libraries for LD_PRELOAD, by the names `harness.native` finds them under.
    prefix: words before the interpreter, such as ("numactl", "--membind=0").
    ranks: processes started by torchrun; 1 means a plain process.
    """

    env: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    ranks: int = 1

    def filled(self, arguments: Mapping[str, Any]) -> Surroundings:
        """The same, with `{name}` in values replaced by a sweep's arguments."""
        return replace(
            self,
            env=tuple((name, value.format(**arguments)) for name, value in self.env),
            preload=tuple(library.format(**arguments) for library in self.preload),
            prefix=tuple(word.format(**arguments) for word in self.prefix),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Surroundings:
        return cls(
            env=tuple((name, value) for name, value in data["env"]),
            without=tuple(data["without"]),
            preload=tuple(data["preload"]),
            prefix=tuple(data["prefix"]),
            ranks=data["ranks"],
        )


def surroundings(
    *,
    env: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
    preload: tuple[str, ...] = (),
    prefix: tuple[str, ...] = (),
    ranks: int = 1,
) -> Callable[[Builder], Builder]:
    """Give a variant surroundings of its own. In a sweep, `{name}` stands for the swept value."""

    def mark(builder: Builder) -> Builder:
        builder.surroundings = Surroundings(  # type: ignore[attr-defined]
            tuple(sorted((env or {}).items())), without, preload, prefix, ranks
        )
        return builder

    return mark


def scoped(switch: Callable[[], AbstractContextManager[Any]]) -> Callable[[Builder], Builder]:
    """Enter `switch()` before each block of this variant and leave it after, both outside the clock."""

    def mark(builder: Builder) -> Builder:
        builder.switch = switch  # type: ignore[attr-defined]
        return builder

    return mark
