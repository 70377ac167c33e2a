"""Compares turbocql with the reference (scylla-driver) on a case, and splits a case into parts."""

from __future__ import annotations

import array
import datetime
import ipaddress
from collections import UserList, deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
from cassandra.util import OrderedMap, SortedSet

from turbocql.types import Duration, FrozenMap

from . import cells
from .drivers import (
    Refusal,
    our_decode,
    our_encode,
    their_compiled_decode,
    their_decode,
    their_encode,
)
from .normal import normal
from .shapes import Shape

ENCODE, DECODE, COMPILED = "encode", "decode", "decode, compiled"


@dataclass(frozen=True)
class Case:
    """A value to encode or bytes to decode."""

    way: str
    shape: Shape
    given: Any
    protocol: int = 4


@dataclass(frozen=True)
class Difference:
    """A case for which the two drivers have different results."""

    case: Case
    ours: Any
    theirs: Any

    @property
    def shape(self) -> Shape:
        """The type of the case without its outer `frozen`."""
        return self.case.shape.bare

    @property
    def kind(self) -> str:
        return self.shape.kind

    @property
    def given(self) -> Any:
        return self.case.given

    @property
    def encoding(self) -> bool:
        return self.case.way == ENCODE

    @property
    def we_refuse(self) -> bool:
        return isinstance(self.ours, Refusal)

    @property
    def they_refuse(self) -> bool:
        return isinstance(self.theirs, Refusal)

    def __str__(self) -> str:
        case = self.case
        lines = [f"{case.way} {case.shape.cql} (protocol {case.protocol}): {shown(case.given)}"]
        lines += [f"    turbocql:  {shown(self.ours)}", f"    reference: {shown(self.theirs)}"]
        return "\n".join(lines)


def shown(value: Any) -> str:
    """Returns the repr of a value, cut to 400 characters."""
    try:
        return f"{value!r:.400}"
    except ValueError as error:
        # CPython refuses to print integers of more than 4,300 digits.
        return f"a {type(value).__name__} ({error})"


class Pairs(Mapping[Any, Any]):
    """A mapping whose keys need not be hashable."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self.pairs = pairs

    def __getitem__(self, key: Any) -> Any:
        return next(part for known, part in self.pairs if known == key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def items(self) -> Any:
        """Returns a list and not a view, which is enough for both drivers."""
        return self.pairs

    def __repr__(self) -> str:
        return f"Pairs({self.pairs!r})"


@dataclass
class Tally:
    """Counts of compared cases, by outcome."""

    same: int = 0
    both_refused: int = 0
    different: int = 0

    @property
    def total(self) -> int:
        return self.same + self.both_refused + self.different


def run(case: Case, tally: Tally | None = None) -> tuple[Any, Any, Difference | None]:
    """Returns both drivers' results, and the `Difference`, or `None` if the results agree."""
    if case.way == ENCODE:
        ours = our_encode(case.shape, case.given, case.protocol)
        theirs = their_encode(case.shape, case.given, case.protocol)
    else:
        ours = our_decode(case.shape, case.given, case.protocol)
        read = their_decode if case.way == DECODE else their_compiled_decode
        theirs = read(case.shape, case.given, case.protocol)
    refused = isinstance(ours, Refusal), isinstance(theirs, Refusal)
    if any(refused):
        same = all(refused)
    elif case.way == ENCODE:
        same = type(ours) is bytes and ours == theirs
    else:
        same = normal(case.shape, ours, ours=True) == normal(case.shape, theirs, ours=False)
    if tally:
        tally.same += same and not all(refused)
        tally.both_refused += all(refused)
        tally.different += not same
    return ours, theirs, None if same else Difference(case, ours, theirs)


def children(case: Case) -> list[tuple[int, Case]]:
    """Returns the index of each part of a compound value, and a case for the part.

    Null parts are left out.
    """
    bare = case.shape.bare
    if not bare.parts:
        return []
    parts = _cells(case) if case.way != ENCODE else _values(bare, case.given)
    if parts is None:
        return []
    shapes = cells.parts_of(bare, len(parts))
    # The reference has no compiled deserializer for vectors.
    way = DECODE if case.way == COMPILED and bare.kind == "vector" else case.way
    pairs = list(zip(shapes, parts, strict=False))
    return [
        (i, replace(case, way=way, shape=shape, given=part))
        for i, (shape, part) in enumerate(pairs)
        if part is not None
    ]


def _cells(case: Case) -> list[Any] | None:
    return cells.split(case.shape, case.given)


def _values(shape: Shape, value: Any) -> list[Any] | None:
    """Returns the parts of a value, or `None` if the value is not divisible into parts."""
    if shape.kind == "map":
        if not isinstance(value, Mapping):
            return None
        return [part for entry in _items(value) for part in entry]
    if shape.kind == "udt":
        if isinstance(value, Mapping):
            return [value.get(name) for name in shape.names]
        if isinstance(value, SimpleNamespace):
            return [getattr(value, name, None) for name in shape.names]
        if getattr(value, "_fields", shape.names) != shape.names:
            return None
    arrays = (np.ndarray, array.array, memoryview)
    views = (KeysView, ValuesView, ItemsView)
    sequences = (list, tuple, set, frozenset, deque, SortedSet, UserList, range, *arrays, *views)
    if isinstance(value, np.ma.MaskedArray) or getattr(value, "ndim", 1) == 0:
        return None
    if not isinstance(value, sequences):
        return None
    return list(value)


def _items(value: Any) -> Any:
    return value._items if isinstance(value, OrderedMap) else value.items()


def with_parts(case: Case, replaced: dict[int, Any]) -> Case:
    """Returns a copy of the case in which some parts are replaced.

    `replaced` maps the index of a part to the new part.
    """
    bare = case.shape.bare
    if case.way != ENCODE:
        known = _cells(case)
        assert known is not None
        parts = [replaced.get(i, part) for i, part in enumerate(known)]
        return replace(case, given=cells.join(bare, parts))
    values = _values(bare, case.given)
    assert values is not None
    parts = [replaced.get(i, part) for i, part in enumerate(values)]
    return replace(case, given=_rebuilt(bare, case.given, parts))


def _rebuilt(shape: Shape, value: Any, parts: list[Any]) -> Any:
    """Returns a value with these parts. If possible, the value has the same class as `value`."""
    if shape.kind == "map":
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        return FrozenMap(pairs) if isinstance(value, FrozenMap) else Pairs(pairs)
    if shape.kind == "udt" and isinstance(value, Mapping):
        known = zip(shape.names, parts, strict=True)
        return {**value, **{name: part for name, part in known if name in value}}
    if shape.kind == "udt" and isinstance(value, SimpleNamespace):
        known = zip(shape.names, parts, strict=True)
        return SimpleNamespace(**{name: part for name, part in known if hasattr(value, name)})
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    keep: tuple[type, ...] = (list, tuple, set, frozenset, deque)
    if shape.kind == "set":
        keep += (SortedSet,)
    make: Callable[[Any], Any] = type(value) if isinstance(value, keep) else list
    return make(parts)


def benign(shape: Shape, number: int) -> Any:
    """Returns a hashable value that depends on `number` and that both drivers encode alike."""
    shape = shape.bare
    if shape.kind in BENIGN:
        return BENIGN[shape.kind](number)
    if shape.kind == "set":
        return frozenset((benign(shape.parts[0], number),))
    if shape.kind == "map":
        return FrozenMap({benign(shape.parts[0], number): benign(shape.parts[1], number)})
    count = shape.dimension if shape.kind == "vector" else len(shape.parts)
    return tuple(benign(part, number) for part in cells.parts_of(shape, count))


BENIGN: dict[str, Callable[[int], Any]] = {
    "text": str,
    "ascii": str,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "boolean": lambda number: number % 2 == 1,
    "blob": lambda number: str(number).encode(),
    "uuid": lambda number: UUID(int=number),
    "timeuuid": lambda number: UUID(int=number | 1 << 76),
    "inet": ipaddress.IPv4Address,
    "date": lambda number: datetime.date.fromordinal(number + 700_000),
    "timestamp": lambda number: datetime.datetime(2000, 1, 1, 0, number % 60),
    # The reference's own duration class is not hashable, but the reference also encodes other
    # objects that have the attributes `months`, `days` and `nanoseconds`.
    "duration": lambda number: Duration(number, 2, 3),
    **{
        kind: (lambda number: number % 100)
        for kind in ("tinyint", "smallint", "int", "bigint", "counter", "varint", "time")
    },
}
