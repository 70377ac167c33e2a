"""Errors of calls that were not awaited, which the Rust core raises."""

from __future__ import annotations

__all__ = ["not_iterable"]


def not_iterable(call: str) -> TypeError:
    """Makes the error for a plain `for` over a call that needs `async for`."""
    return TypeError(f"use `async for row in {call}`: {call} of an AsyncSession is not iterable")
