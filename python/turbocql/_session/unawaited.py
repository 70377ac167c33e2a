"""Calls of asynchronous methods that are not awaited yet. A program may forget `await`, and look up
a member of the result on the object that the call returns. Then the error says to await the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from functools import update_wrapper
from types import MethodType
from typing import Any, NoReturn, TypeVar

from .. import _core
from .._checks import advise
from .._native.unawaited import not_iterable
from ..rows import AsyncRows, AwaitableRows, _rows_of_awaitable
from ..statements import Prepared
from .wrong_with import refuse_async_with, refuse_with

__all__ = ["Preparing", "Scanning", "explain_unawaited", "unawaited_error"]

T = TypeVar("T")


def unawaited_error(call: str, variable: str, name: str) -> AttributeError:
    """Makes the error for the use of a result's member on a call that was not awaited."""
    return AttributeError(
        f"{call} must be awaited first: `{variable} = await {call}`, and then {variable}.{name}"
    )


class _Unawaited(Coroutine[Any, Any, T]):
    """Wraps the coroutine of a call, and has the attributes of a coroutine. The lookup of any other
    attribute raises an error that says to await the call.

    A subclass sets the names that these errors show: `_owner` for the object that has the method,
    `_call` for the method, and `_variable` for a variable that holds the result.
    """

    __slots__ = ("__weakref__", "_coroutine")

    _owner = "session"
    _call: str
    _variable: str

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        names: Any = coroutine
        # Python shows these names in its warning about a coroutine that was never awaited.
        if self._owner == "session":
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
        if name == "_coroutine":
            # `copy` makes objects without a call of `__init__`, so their slot `_coroutine` is
            # empty. Without this error, the lookup below would call this method without end.
            raise AttributeError(name)
        if name.startswith(("_", "cr_", "gi_")):
            return getattr(self._coroutine, name)
        raise unawaited_error(f"{self._owner}.{self._call}(...)", self._variable, name)

    def __getitem__(self, position: object) -> NoReturn:
        call = f"{self._owner}.{self._call}(...)"
        raise TypeError(f"{call} must be awaited first: `{self._variable} = await {call}`")

    def __repr__(self) -> str:
        return repr(self._coroutine)


class Preparing(_Unawaited[Prepared]):
    """A call of `AsyncSession.prepare`."""

    __slots__ = ()

    _call, _variable = "prepare", "prepared"


class Scanning(_Unawaited[AsyncRows[T]], AwaitableRows[T]):
    """A call of `AsyncSession.scan`."""

    __slots__ = ()

    _call, _variable = "scan", "rows"

    def __aiter__(self) -> AsyncIterator[T]:
        return _rows_of_awaitable(self)

    def __iter__(self) -> NoReturn:
        raise not_iterable("session.scan(...)")


class _Method:
    """Wraps a coroutine function so that its calls return objects of `call_class`.

    It has the attributes by which `inspect` recognizes a coroutine function. Mocks use `inspect`.
    """

    def __init__(self, function: Callable[..., Any], call_class: type[_Unawaited[Any]]) -> None:
        update_wrapper(self, function)
        attributes: Any = function
        self.__code__ = attributes.__code__
        self.__defaults__ = attributes.__defaults__
        self.__kwdefaults__ = attributes.__kwdefaults__
        self._function, self._call_class = function, call_class

    def __call__(self, *args: Any, **kwargs: Any) -> _Unawaited[Any]:
        return self._call_class(self._function(*args, **kwargs))

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        return self if instance is None else MethodType(self, instance)


_VARIABLES = {
    "session": {
        "await_schema_agreement": "version",
        "execute_many": "report",
        "load": "report",
        "schema": "schema",
        "splits": "splits",
        "unload": "report",
        "verify": "report",
    },
    "rows": {
        "to_arrow": "table",
        "to_numpy": "arrays",
        "to_pandas": "frame",
        "to_polars": "frame",
        "trace": "trace",
    },
}
"""The methods of sessions and of results that `explain_unawaited` wraps, each with the name of a
variable for its result. The method `all` is left out. Programs call it so often that one more
object for each call would slow them down."""


_ADVICE = {
    "execute_async": "use await session.execute(...), or asyncio.create_task",
    "execute_concurrent": "for one statement, use session.execute_many(statement, rows); for"
    " several, asyncio.gather, with a session.execute(...) for each",
    "execute_concurrent_async": "use await session.execute_many(statement, rows)",
}
"""Advice for attributes that an `AsyncSession` lacks, in place of the advice of `SessionBase`."""


def explain_unawaited(cls: type[Any], owner: str) -> None:
    """Wraps the methods in `_VARIABLES[owner]`, so that their calls are objects of subclasses of
    `_Unawaited`. `owner` is `session` or `rows`, and `cls` a class of sessions or results.
    """
    for name, variable in _VARIABLES[owner].items():
        members = {"__slots__": (), "_owner": owner, "_call": name, "_variable": variable}
        call_class = type(f"_{name}", (_Unawaited,), members)
        setattr(cls, name, _Method(getattr(cls, name), call_class))
    if owner == "session":
        advise(cls, _ADVICE)


class _Member:
    """A descriptor in `OpAwait`, the class of unawaited calls of `execute`. It has the name of a
    member of the result. Looking up this name raises the error that says to await the call.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> _Member:
        if instance is None:
            return self
        raise unawaited_error("session.execute(...)", "rows", self._name)


def _add_members(owner: type[Any], names: Iterable[str]) -> None:
    # The class gets a descriptor for each name, and no `__getattr__`. A `__getattr__` would slow
    # down asyncio, whose tasks look for attributes that an unawaited call does not have.
    for name in names:
        if not name.startswith("_") and name not in vars(owner):
            setattr(owner, name, _Member(name))


AwaitableRows.register(_core.OpAwait)
_add_members(_core.OpAwait, dir(AsyncRows))
_NO_WITH = (
    "session.execute(...) needs no `with`: `rows = await session.execute(...)`, or `async for row"
    " in session.execute(...)`"
)
refuse_with(_core.OpAwait, _NO_WITH)
refuse_async_with(_core.OpAwait, _NO_WITH)
explain_unawaited(AsyncRows, "rows")
