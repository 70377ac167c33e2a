"""What a function gives or raises, in a form that two runs of it can be compared by."""

from __future__ import annotations

import sys
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


def run(checks: list[Callable[[], None]]) -> None:
    """Runs them one by one, with their names on standard error."""
    for check in checks:
        print(check.__name__, file=sys.stderr, flush=True)
        check()
    print(len(checks))
