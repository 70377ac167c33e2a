"""Compares the results of two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["differences", "line_differences"]

K = TypeVar("K")
V = TypeVar("V")


def differences(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, tuple[V | None, V | None]]:
    """Maps each key whose values differ to both values. None stands for a missing key."""
    return {
        key: (before.get(key), after.get(key))
        for key in {**before, **after}
        if key not in before or key not in after or before[key] != after[key]
    }


def line_differences(
    before: Sequence[str], after: Sequence[str]
) -> dict[int, tuple[str | None, str | None]]:
    """Maps the number of each line that differs to both lines."""
    return differences(dict(enumerate(before, 1)), dict(enumerate(after, 1)))
