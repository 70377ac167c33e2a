"""Calls that are not awaited yet. Their results' members raise errors that say to await them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Iterable
from typing import Any, NoReturn, TypeVar

from .. import _core
from ..rows import AsyncRows, AwaitableRows, _rows_of_awaitable
from ..statements import Prepared

__all__ = ["Preparing", "Scanning", "unawaited_error"]

T = TypeVar("T")


def unawaited_error(call: str, variable: str, name: str) -> AttributeError:
    """The error for a member of a result that was used before the call was awaited."""
    return AttributeError(
        f"{call} must be awaited first: `{variable} = await {call}`, and then {variable}.{name}"
    )


def not_iterable(call: str) -> TypeError:
    """The error for a call that is iterated over with a plain `for`."""
    return TypeError(f"use `async for row in {call}`: {call} of an AsyncSession is not iterable")


class _Unawaited(Coroutine[Any, Any, T]):
    """A coroutine. Members of its result raise an error, and its own members are the coroutine's.

    A subclass names the call, the variable for its result in errors, and the result's class.
    """

    __slots__ = ("__weakref__", "_coroutine")

    _call: str
    _variable: str
    _result_class: type[Any]

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        names: Any = coroutine
        # These names are shown if the coroutine is never awaited.
        names.__name__, names.__qualname__ = self._call, f"AsyncSession.{self._call}"
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_coroutine":  # a copy that has no coroutine
            raise AttributeError(name)
        if not name.startswith("_") and hasattr(self._result_class, name):
            raise unawaited_error(f"session.{self._call}(...)", self._variable, name)
        return getattr(self._coroutine, name)

    def __repr__(self) -> str:
        return repr(self._coroutine)


class Preparing(_Unawaited[Prepared]):
    """A call of `AsyncSession.prepare`."""

    __slots__ = ()

    _call, _variable, _result_class = "prepare", "prepared", Prepared


class Scanning(_Unawaited[AsyncRows[T]], AwaitableRows[T]):
    """A call of `AsyncSession.scan`."""

    __slots__ = ()

    _call, _variable, _result_class = "scan", "rows", AsyncRows

    def __aiter__(self) -> AsyncIterator[T]:
        return _rows_of_awaitable(self)

    def __iter__(self) -> NoReturn:
        raise not_iterable("session.scan(...)")


class _Member:
    """A descriptor in the class of unawaited calls of `execute`: the member of the same name of the
    result.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> _Member:
        if instance is None:
            return self
        raise unawaited_error("session.execute(...)", "rows", self._name)


def _add_members(owner: type[Any], names: Iterable[str]) -> None:
    # A `__getattr__` would slow down the attributes that a task of asyncio looks for in vain.
    for name in names:
        if not name.startswith("_") and name not in vars(owner):
            setattr(owner, name, _Member(name))


AwaitableRows.register(_core.OpAwait)
_add_members(_core.OpAwait, dir(AsyncRows))
