"""Generates Python values for every CQL type, with a high share of edge cases.

The values are encoded by turbocql and by scylla-driver, "the reference".
"""

from __future__ import annotations

import array
import datetime
import types
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Hashable
from random import Random
from typing import Any

import numpy as np
from cassandra.util import OrderedMap, SortedSet

from turbocql.types import FrozenMap

from .drivers import Refusal, our_encode, their_encode
from .plain import PLAIN
from .pools import EDGES, NANS, WRONG
from .shapes import INTEGER_BITS, Shape

DTYPES = ("i1", "u1", "<i2", "u2", "<i4", ">i4", "u4", "i8", ">i8", "u8", "f2", "f4", ">f4", "f8")
"""NumPy's names of numeric types."""


class ListSub(list[Any]):
    """A subclass of `list`."""


class TupleSub(tuple[Any, ...]):
    """A subclass of `tuple`."""


def _moved(pairs: list[Any]) -> OrderedDict[Any, Any]:
    """Returns an `OrderedDict` whose iteration order differs from the order in its base `dict`."""
    moved = OrderedDict(pairs)
    if moved:
        moved.move_to_end(next(iter(moved)))
    return moved


class DictSub(dict[Any, Any]):
    """A subclass of `dict`."""


class Generator:
    """Generates random values from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._edges: dict[str, tuple[list[Any], list[Any]]] = {}

    def value(self, shape: Shape) -> Any:
        """Returns a value that is not `None`. Most of the values fit the type."""
        if self.rng.random() < 0.06:
            return self.rng.choice(WRONG)
        if not shape.bare.parts:
            return self._leaf(shape.bare, odd=0.3)
        return self._compound(shape.bare, hashable=False)

    def _leaf(self, shape: Shape, odd: float) -> Any:
        agreed, differing = self.edges(shape)
        chance = self.rng.random()
        if chance < odd and differing:
            return self.rng.choice(differing)
        return self.rng.choice(agreed) if chance < 0.6 else PLAIN[shape.kind](self.rng)

    def edges(self, shape: Shape) -> tuple[list[Any], list[Any]]:
        """Returns two lists: the edge cases that both drivers encode alike, and all other cases."""
        if shape.kind not in self._edges:
            agreed, differing = self._edges[shape.kind] = [], []
            for value in EDGES[shape.kind]:
                ours = our_encode(shape, value, 4)
                same = ours == their_encode(shape, value, 4) and not isinstance(ours, Refusal)
                (agreed if same else differing).append(value)
        return self._edges[shape.kind]

    def _cell(self, shape: Shape, *, hashable: bool, nullable: bool = True) -> Any:
        chance = self.rng.random()
        if chance < 0.09 and (nullable or chance < 0.003):
            return None
        if chance > 0.995 and not hashable:
            return self.rng.choice(WRONG)
        if not shape.bare.parts:
            while True:
                value = self._leaf(shape.bare, odd=0.01)
                if not hashable or _is_hashable(value):
                    return value
        return self._compound(shape.bare, hashable=hashable)

    def _compound(self, shape: Shape, *, hashable: bool) -> Any:
        make: Callable[[Shape, bool], Any] = getattr(self, f"_{shape.kind}")
        return make(shape, hashable)

    def _count(self) -> int:
        return self.rng.choice((0, 1, 1, 2, 2, 3, 4))

    def _list(self, shape: Shape, hashable: bool) -> Any:
        count = self._count()
        numbers = None if hashable else self._numbers(shape.parts[0].bare, count)
        if numbers is not None:
            return numbers
        parts = [self._cell(shape.parts[0], hashable=hashable) for _ in range(count)]
        return tuple(parts) if hashable else self._sequence(parts)

    def _sequence(self, parts: list[Any]) -> Any:
        chance = self.rng.random()
        if chance < 0.7:
            return parts
        makers: list[Callable[[Any], Any]] = [tuple, ListSub, TupleSub, deque, _object_array]
        return self.rng.choice(makers)(parts)

    def _numbers(self, element: Shape, count: int) -> Any:
        """Returns an array of random numbers, or `None`.

        If the elements are numeric, half of the calls return an array. For other elements, 2 % of
        the calls do, and for blobs no call does.
        """
        numeric = element.kind in INTEGER_BITS or element.kind in ("float", "double", "varint")
        # For a blob, the reference turns each number n into n zero bytes, which can be gigabytes.
        if element.kind == "blob" or self.rng.random() > (0.5 if numeric else 0.02):
            return None
        kind = self.rng.choice(DTYPES)
        floats = np.dtype(kind).kind == "f"
        if floats:
            odd = self.rng.random() < 0.2
            drawn = [
                self.rng.choice(NANS) if odd else PLAIN["float"](self.rng) for _ in range(count)
            ]
            numbers = np.array(drawn, "f8")
            made = numbers.astype(kind)
        else:
            low, high = np.iinfo(kind).min, np.iinfo(kind).max
            integers = [self.rng.choice((0, 1, low, high, high // 300)) for _ in range(count)]
            made = np.array(integers, kind)
        form = self.rng.randrange(6)
        native = np.dtype(kind).isnative and kind != "f2"
        if form == 0 and native:
            return array.array(made.dtype.char, made.tolist())
        if form == 1 and native:
            return made.data
        if form == 2:
            return np.repeat(made, 2)[::2]
        if form == 4:
            return made[::-1]
        if form == 3 and self.rng.random() < 0.1:
            return np.ma.masked_array(made, [i % 2 == 1 for i in range(count)])
        return made

    def _set(self, shape: Shape, hashable: bool) -> Any:
        chance = self.rng.random()
        element = shape.parts[0]
        if hashable or chance < 0.5:
            parts = [self._cell(element, hashable=True) for _ in range(self._count())]
            return frozenset(parts) if hashable or chance < 0.1 else set(parts)
        parts = [self._cell(element, hashable=False) for _ in range(self._count())]
        if chance < 0.6:
            try:
                return SortedSet(parts)
            except Exception:
                return parts
        return self._sequence(parts)

    def _map(self, shape: Shape, hashable: bool) -> Any:
        key, value = shape.parts
        chance = self.rng.random()
        pairs = [
            (self._cell(key, hashable=True), self._cell(value, hashable=hashable))
            for _ in range(self._count())
        ]
        if hashable:
            return FrozenMap(pairs)
        if chance < 0.7:
            return dict(pairs)
        if chance < 0.85:
            try:
                return OrderedMap(pairs)
            except Exception:
                return dict(pairs)
        makers: list[Callable[[Any], Any]] = [
            OrderedDict,
            _moved,
            DictSub,
            FrozenMap,
            lambda pairs: types.MappingProxyType(dict(pairs)),
        ]
        return self.rng.choice(makers)(pairs)

    def _tuple(self, shape: Shape, hashable: bool) -> Any:
        parts = [self._cell(part, hashable=hashable) for part in shape.parts]
        chance = self.rng.random()
        if chance < 0.1:
            parts = parts[: self.rng.randrange(len(parts) + 1)]
        elif chance < 0.12:
            parts.append(self.rng.choice((None, 1, "x")))
        return tuple(parts) if hashable or chance < 0.7 else self._sequence(parts)

    def _vector(self, shape: Shape, hashable: bool) -> Any:
        count = shape.dimension
        if self.rng.random() < 0.03:
            count += self.rng.choice((-1, 1))
        numbers = None if hashable else self._numbers(shape.parts[0].bare, count)
        if numbers is not None:
            return numbers
        if not hashable and self.rng.random() < 0.02:
            return self.rng.randbytes(count * self.rng.choice((1, 4, 8)))
        element = shape.parts[0]
        parts = [self._cell(element, hashable=hashable, nullable=False) for _ in range(count)]
        return tuple(parts) if hashable else self._sequence(parts)

    def _udt(self, shape: Shape, hashable: bool) -> Any:
        parts = [self._cell(part, hashable=hashable) for part in shape.parts]
        chance = self.rng.random()
        if hashable or chance < 0.5:
            return tuple(parts)
        if chance < 0.56:
            return self._sequence(parts)
        if chance < 0.59:
            return tuple(parts[: self.rng.randrange(len(parts))])
        if chance < 0.61:
            return (*parts, self.rng.choice((None, 1, "x")))
        if chance < 0.71:
            return namedtuple("Named", shape.names)(*parts)  # noqa: PYI024
        named = list(zip(shape.names, parts, strict=True))
        if chance < 0.73:
            names, values = zip(*reversed(named), strict=True)
            return namedtuple("Turned", names)(*values)  # noqa: PYI024
        if chance > 0.99:
            return dict(enumerate(parts))
        if chance > 0.95:
            named.pop()
        if chance < 0.88:
            return types.SimpleNamespace(**dict(named))
        return dict(named)


def _object_array(parts: list[Any]) -> Any:
    made = np.empty(len(parts), object)
    for i, part in enumerate(parts):
        made[i] = part
    return made


def _is_hashable(value: Any) -> bool:
    if not isinstance(value, Hashable):
        return False
    try:
        hash(value)
    except (TypeError, ValueError):
        # `hash` can fail for a `Hashable`, such as a tuple with a list in it.
        return False
    return not isinstance(value, datetime.timedelta)
