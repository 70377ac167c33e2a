"""Decides which cases a pattern chooses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["chosen", "nearest", "unknown"]


def chosen(name: str, patterns: Iterable[str], *suites: str) -> bool:
    """Returns whether a name has all words of at least one pattern. Without patterns, returns true.

    Case is ignored. A number matches only as a whole word: 100 does not match 1000. A word that is
    one of `suites` matches every name.
    """
    patterns = [pattern for pattern in patterns if pattern.strip()]
    return not patterns or any(
        all(word in suites or _has(name.lower(), word) for word in pattern.lower().split())
        for pattern in patterns
    )


def _has(name: str, word: str) -> bool:
    if not word.isdecimal():
        return word in name
    return re.search(rf"(?<!\w){word}(?!\w)", name) is not None


def nearest(pattern: str, names: Iterable[str]) -> list[str]:
    """Returns at most five names with words like those of a pattern, the most similar first."""

    def likeness(name: str) -> float:
        parts = re.findall(r"[\w-]+", name.lower())
        best = [
            max((SequenceMatcher(None, word, part).ratio() for part in parts), default=0.0)
            for word in pattern.lower().split()
        ]
        return sum(best) / max(1, len(best))

    rated = sorted(((likeness(name), name) for name in dict.fromkeys(names)), key=lambda r: -r[0])
    return [name for rate, name in rated[:5] if rate >= 0.5]


def unknown(pattern: str, names: Iterable[str]) -> str:
    """Returns the message about a pattern that chooses nothing."""
    lines = [f"no case has all the words of {pattern!r} in its name; `bench list` lists all"]
    near = nearest(pattern, names)
    return "\n".join([*lines, *(["the nearest:"] if near else []), *(f"  {n}" for n in near)])
