"""Settings of trainings, such as learning rates, that are chosen with the same care on both sides."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuned:
    """A setting that was chosen among several, by trainings with seeds that are never counted.

    Attributes:
        tried: the values, in rising order.
        chosen: one of them, with a lower and a higher one tried beside it: beyond the edge there may be a better one.
    """

    tried: tuple[float, ...]
    chosen: float

    @property
    def is_inside(self) -> bool:
        return self.chosen in self.tried[1:-1] and list(self.tried) == sorted(self.tried)


def geometric(least: float, ratio: float = 1.6, count: int = 6) -> tuple[float, ...]:
    """Learning rates to try, each so many times the one before, with three digits."""
    return tuple(float(f"{least * ratio**number:.3g}") for number in range(count))
