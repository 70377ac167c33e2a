"""Orders the turns of clients in rounds, and computes the spread of the rounds' figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Spread", "against", "number", "turns"]

_T = TypeVar("_T")


def turns(items: Sequence[_T], rounds: int) -> Iterator[tuple[int, _T]]:
    """Yields each item once per round, in a pair with the round's number.

    Every second round is in reverse order, so that no client always has the same predecessor.
    """
    for number in range(1, rounds + 1):
        for item in items if number % 2 else reversed(items):
            yield number, item


@dataclass(frozen=True)
class Spread:
    """The median, the lowest and the highest figure of the rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @staticmethod
    def of(values: Iterable[float], scale: float = 1) -> Spread:
        """Returns the spread of the values, each multiplied by the scale."""
        scaled = [value * scale for value in values]
        return Spread(statistics.median(scaled), min(scaled), max(scaled), len(scaled))

    def overlaps(self, other: Spread) -> bool:
        """Returns whether the ranges overlap. If so, another run could have the opposite result."""
        return other.low <= self.high and self.low <= other.high

    def divided_by(self, other: Spread) -> Spread:
        """Returns the ratio of the medians, with a range that contains 1 if the spreads overlap."""
        return Spread(
            self.median / other.median,
            self.low / other.high,
            self.high / other.low,
            max(self.rounds, other.rounds),
        )

    def __str__(self) -> str:
        if self.rounds == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def against(ours: Spread, theirs: Spread, unit: str) -> str:
    """Describes two figures with their spreads, and says so if the spreads overlap."""
    within = "; the difference is within the spread" if ours.overlaps(theirs) else ""
    return f"{ours} {unit} against {theirs}{within}"


def number(value: float | None) -> str:
    """Formats a figure with about three digits; None becomes a dash."""
    if value is None:
        return "-"
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"
