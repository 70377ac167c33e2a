"""Calls functions and returns their results or exceptions in a comparable form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raised:
    """An exception: its class and the repr of its arguments."""

    cls: type[BaseException]
    said: str

    def __repr__(self) -> str:
        return f"{self.cls.__name__}: {self.said[:300]}"


def answer(call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of a call. If the call raises, returns a `Raised` with the exception."""
    try:
        return call(*arguments)
    except RecursionError as error:
        # The message is left out, because it depends on the function that reached the recursion
        # limit.
        return Raised(type(error), "")
    except Exception as error:
        return Raised(type(error), repr(error.args))


def differing(first: Any, second: Any) -> tuple[Any, Any]:
    """Returns the first pair of parts in which two nested results differ."""
    both = (first, second)
    if all(type(value) in (list, tuple) for value in both) and len(first) == len(second):
        for pair in zip(first, second, strict=True):
            if pair[0] != pair[1]:
                return differing(*pair)
    return both
