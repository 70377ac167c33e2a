"""Errors for `with` on objects that need `async with`, for the reverse mistake, and for both kinds
of `with` on results, which need none.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..rows import _Result

__all__ = ["ASYNCHRONOUS", "refuse_async_with", "refuse_with"]

ASYNCHRONOUS = (
    "turbocql.aio.connect() is asynchronous: use `async with`, or turbocql.connect() with `with`"
)
_SYNCHRONOUS = (
    "turbocql.connect() is synchronous: use `with`, or turbocql.aio.connect() with `async with`"
)


class WrongWithError(TypeError, AttributeError):
    """The error for the wrong `with`. It is a `TypeError`, as Python's own error for this mistake.
    It is also an `AttributeError`, so that `hasattr` returns false for `__enter__` and
    `__aenter__`.
    """


class _Refusal:
    """A descriptor for `__enter__` or `__aenter__`, whose lookup raises the error.

    The class with the descriptor gets no `__exit__`, because `isinstance` would then take its
    objects for context managers. Python 3.14 looks up `__exit__` first, so there Python raises its
    own error, which also says to use the other `with`.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __get__(self, instance: object, owner: type[Any]) -> NoReturn:
        raise WrongWithError(self._message)


def refuse_with(owner: type[Any], message: str = ASYNCHRONOUS) -> None:
    """Makes `with` on an object of a class raise a `TypeError` with this message."""
    owner.__enter__ = _Refusal(message)


def refuse_async_with(owner: type[Any], message: str = _SYNCHRONOUS) -> None:
    """Makes `async with` on an object of a class raise a `TypeError` with this message."""
    owner.__aenter__ = _Refusal(message)


_RESULT = "a result needs no `with`: there is nothing to close"
refuse_with(_Result, _RESULT)
refuse_async_with(_Result, _RESULT)
