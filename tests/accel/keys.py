"""Tasks about routing keys. Some set a key, as bytes or as a list of parts. Others pack the parts
of a key into bytes.

A task is a description and a function. The function is called without and with the accelerator,
and the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

from cassandra.query import BatchStatement, SimpleStatement, Statement
from tests.accel.answers import answer
from tests.differential.cases import shown

Task = tuple[str, Callable[[], Any]]


class Part(bytes):
    """A part of a key. Its `len()` is always 2, regardless of the number of its bytes."""

    def __len__(self) -> int:
        return 2


class Parts(list):  # type: ignore[type-arg]
    """A subclass of `list`."""


class Unequal:
    """An iterable without a length. At its end, its iterator raises `error` if that is not None."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def __iter__(self) -> Iterator[bytes]:
        yield b"first"
        if self.error is not None:
            raise self.error


class Sized:
    """An object that has a length, but cannot be used as bytes."""

    def __len__(self) -> int:
        return 3


ODD: list[Any] = [
    *(None, True, 0, 1.5, "text", "", bytearray(b"ab"), memoryview(b"ab"), Part(b"abc"), Sized()),
    *([], (), object(), b"x" * 65_535, b"x" * 65_536, bytearray(65_536)),
]
"""Parts of unusual classes and sizes. The driver refuses some of them."""
WHOLE: list[Any] = [
    *(None, b"", b"key", bytearray(b"key"), "key", 0, {}, {b"a": 1}, {b"a"}, Sized(), Part(b"abc")),
    *([], (), [b"a"], (b"a",), [None], ["text"], [[b"a", b"b"]], Parts(), Parts([b"a"])),
    *(Parts([b"a", b"b"]), iter([b"a", b"b"]), Unequal(), range(2), object()),
]
"""Routing keys of many classes. Most of them are not a list of several parts."""


def key_tasks(count: int) -> Iterator[Task]:
    """Yields tasks that set the routing key of each class of statement, or pack a key's parts."""
    rng = Random(11)
    keys = list(WHOLE)
    for part in ODD:
        keys += [[b"a", part], [part, b"b"], (b"a", b"b", part), [part, part]]
    for _ in range(count):
        parts: list[Any] = [rng.randbytes(rng.choice((0, 1, 4, 16, 300))) for _ in range(4)]
        if rng.random() < 0.1:
            parts[rng.randrange(4)] = rng.choice(ODD)
        keys.append(rng.choice((list, tuple, Parts))(parts[: rng.randrange(2, 5)]))
    for key in keys:
        for make in (Statement, partial(SimpleStatement, "q"), BatchStatement):
            yield f"set {shown(key)}", partial(_set, make, key)
        yield f"at once {shown(key)}", partial(_made, key)
        if not hasattr(key, "__next__"):
            yield f"packed {shown(key)}", partial(_packed, key)
    for error in (ValueError("no"), StopIteration("end")):
        yield f"packed until {error!r}", partial(_packed, Unequal(error))


def _set(make: Callable[[], Any], key: Any) -> Any:
    statement = make()
    before = answer(lambda: setattr(statement, "routing_key", key))
    seen = [before, _same(statement.routing_key, key), dict(vars(statement)).get("_routing_key")]
    called = answer(statement._set_routing_key, key)
    seen += [called, _same(statement._get_routing_key(), key)]
    del statement.routing_key
    return [*seen, statement.routing_key]


def _made(key: Any) -> Any:
    statement = SimpleStatement("q", routing_key=key)
    batch = BatchStatement()
    added = answer(batch.add, SimpleStatement("q", routing_key=key, keyspace="ks"))
    return statement.routing_key is key, added is batch or added, _same(batch.routing_key, key)


def _packed(parts: Any) -> list[Any]:
    return packed(Statement(), parts)


def _same(value: Any, key: Any) -> Any:
    return "the key" if value is key else value


def packed(statement: Any, parts: Any) -> list[Any]:
    """Returns the packed parts, the error after them, and the results of further `next` calls."""
    items = answer(statement._key_parts_packed, parts)
    if not hasattr(items, "__next__"):
        return [items]
    seen: list[Any] = [iter(items) is items]
    while len(seen) < 9:
        seen.append(answer(next, items))
        if not isinstance(seen[-1], bytes):
            break
    return [*seen, answer(next, items), list(items), answer(items.close), answer(next, items)]
