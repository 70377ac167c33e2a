"""What a function gives or raises, in a form that two runs of it can be compared by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raised:
    """An exception by its class and what it says."""

    cls: type[BaseException]
    said: str

    def __repr__(self) -> str:
        return f"{self.cls.__name__}: {self.said[:300]}"


def answer(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call gives, or what it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return Raised(type(error), repr(error.args))


def differing(one: Any, other: Any) -> tuple[Any, Any]:
    """The first parts that differ."""
    both = (one, other)
    if all(type(value) in (list, tuple) for value in both) and len(one) == len(other):
        for pair in zip(one, other, strict=True):
            if pair[0] != pair[1]:
                return differing(*pair)
    return both
