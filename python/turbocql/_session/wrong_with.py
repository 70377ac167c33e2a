"""Errors for `with` on what needs `async with` and the reverse, and for `with`, `len` and `next` on
results.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..rows import _AsyncResult, _Result, _SyncResult

__all__ = ["ASYNCHRONOUS", "refuse_async_with", "refuse_with"]

ASYNCHRONOUS = (
    "turbocql.aio.connect() is asynchronous: use `async with`, or turbocql.connect() with `with`"
)
_SYNCHRONOUS = (
    "turbocql.connect() is synchronous: use `with`, or turbocql.aio.connect() with `async with`"
)


class RefusedError(TypeError, AttributeError):
    """A `TypeError`, as Python raises in such cases. It is an `AttributeError` too, so that
    `hasattr` does not find the special method: libraries such as pandas call `__len__` where it
    exists.
    """


class _Refusal:
    """A descriptor for a special method, whose lookup raises the error.

    For `with`, a class needs no `__exit__`, with which it would be a context manager for
    `isinstance`. Python 3.14 looks `__exit__` up first. Its own error then says to use the other
    `with`.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __get__(self, instance: object, owner: type[Any]) -> NoReturn:
        raise RefusedError(self._message)


def refuse_with(owner: type[Any], message: str = ASYNCHRONOUS) -> None:
    """Makes `with` on an object of a class raise a `TypeError` with this message."""
    owner.__enter__ = _Refusal(message)


def refuse_async_with(owner: type[Any], message: str = _SYNCHRONOUS) -> None:
    """Makes `async with` on an object of a class raise a `TypeError` with this message."""
    owner.__aenter__ = _Refusal(message)


_RESULT = "a result needs no `with`: there is nothing to close"
refuse_with(_Result, _RESULT)
refuse_async_with(_Result, _RESULT)
_NO_LENGTH = "a result has no length, because further pages may follow: use len({}rows.all())"
_NO_NEXT = "a result is not an iterator: use rows.one(), or {}"


def _refuse_len_and_next(owner: type[Any], await_word: str, iteration: str) -> None:
    owner.__len__ = _Refusal(_NO_LENGTH.format(await_word))
    owner.__next__ = _Refusal(_NO_NEXT.format(iteration))


_refuse_len_and_next(_SyncResult, "", "next(iter(rows))")
_refuse_len_and_next(_AsyncResult, "await ", "`async for`")
