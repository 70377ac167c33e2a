"""Represents CQL types as trees, each with its CQL text and its class in scylla-driver.

scylla-driver is "the reference".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import Any

from cassandra import cqltypes

SCALARS = {
    "ascii": cqltypes.AsciiType,
    "text": cqltypes.UTF8Type,
    "tinyint": cqltypes.ByteType,
    "smallint": cqltypes.ShortType,
    "int": cqltypes.Int32Type,
    "bigint": cqltypes.LongType,
    "counter": cqltypes.CounterColumnType,
    "varint": cqltypes.IntegerType,
    "float": cqltypes.FloatType,
    "double": cqltypes.DoubleType,
    "decimal": cqltypes.DecimalType,
    "boolean": cqltypes.BooleanType,
    "blob": cqltypes.BytesType,
    "uuid": cqltypes.UUIDType,
    "timeuuid": cqltypes.TimeUUIDType,
    "inet": cqltypes.InetAddressType,
    "date": cqltypes.SimpleDateType,
    "time": cqltypes.TimeType,
    "timestamp": cqltypes.TimestampType,
    "duration": cqltypes.DurationType,
}
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "counter": 64}
BARE = {"int", "bigint", "float", "double", "boolean", "uuid", "timeuuid", "timestamp"}
"""Types whose values have no length prefix in a vector."""


@dataclass(frozen=True)
class Shape:
    """A CQL type. `kind` is a scalar's name, or list, set, map, tuple, udt, vector, frozen."""

    kind: str
    parts: tuple[Shape, ...] = ()
    names: tuple[str, ...] = ()
    name: str = ""
    dimension: int = 0

    @cached_property
    def cql(self) -> str:
        """The type as text that turbocql parses."""
        if not self.parts:
            return self.kind
        if self.kind == "udt":
            pairs = zip(self.names, self.parts, strict=True)
            fields = ", ".join(f"{field} {part.cql}" for field, part in pairs)
            return f"{self.name}{{{fields}}}"
        inner = ", ".join(part.cql for part in self.parts)
        if self.kind == "vector":
            inner += f", {self.dimension}"
        return f"{self.kind}<{inner}>"

    @cached_property
    def reference(self) -> Any:
        """The type's class in `cassandra.cqltypes`."""
        if not self.parts:
            return SCALARS[self.kind]
        parts = tuple(part.reference for part in self.parts)
        if self.kind == "udt":
            return cqltypes.UserType.make_udt_class("ks", self.name, self.names, parts)
        if self.kind == "vector":
            return cqltypes.VectorType.apply_parameters([*parts, self.dimension], None)
        generic = {
            "list": cqltypes.ListType,
            "set": cqltypes.SetType,
            "map": cqltypes.MapType,
            "tuple": cqltypes.TupleType,
            "frozen": cqltypes.FrozenType,
        }
        return generic[self.kind].apply_parameters(parts)

    @cached_property
    def bare(self) -> Shape:
        """The type without its outer `frozen`. Values are the same with and without `frozen`."""
        return self.parts[0].bare if self.kind == "frozen" else self

    @cached_property
    def fixed_width(self) -> bool:
        """Whether values of the type have no length prefix in a vector."""
        if self.bare.kind == "vector":
            return self.bare.parts[0].fixed_width
        return self.bare.kind in BARE

    @cached_property
    def depth(self) -> int:
        return 1 + max((part.depth for part in self.parts), default=0)


_WORD = re.compile(r"\s*(\w+|[<>{},])")


@cache
def parse(text: str) -> Shape:
    """Parses a type's text, written as in `Shape.cql`."""
    words = _WORD.findall(text)
    shape, end = _parse(words, 0)
    assert end == len(words), text
    return shape


def _parse(words: list[str], at: int) -> tuple[Shape, int]:
    kind, follows = words[at], words[at + 1] if at + 1 < len(words) else ""
    if follows not in ("<", "{"):
        return Shape(kind), at + 1
    parts: list[Shape] = []
    names: list[str] = []
    dimension = 0
    at += 1
    while words[at] not in ">}":
        at += 1
        if words[at].isdecimal():
            dimension, at = int(words[at]), at + 1
            continue
        if follows == "{":
            names.append(words[at])
            at += 1
        part, at = _parse(words, at)
        parts.append(part)
    if follows == "{":
        return Shape("udt", tuple(parts), tuple(names), kind), at + 1
    return Shape(kind, tuple(parts), dimension=dimension), at + 1


NASTY = (
    "list<text>",
    "list<blob>",
    "list<boolean>",
    "list<tinyint>",
    "list<smallint>",
    "list<int>",
    "list<bigint>",
    "list<float>",
    "list<double>",
    "list<decimal>",
    "list<varint>",
    "list<timestamp>",
    "set<text>",
    "set<float>",
    "set<double>",
    "set<decimal>",
    "set<uuid>",
    "set<inet>",
    "set<time>",
    "set<duration>",
    "set<frozen<set<int>>>",
    "set<frozen<list<text>>>",
    "set<frozen<map<int, text>>>",
    "set<frozen<tuple<int, text>>>",
    "set<frozen<keyed{a int, b text}>>",
    "set<vector<float, 2>>",
    "map<text, int>",
    "map<double, boolean>",
    "map<decimal, blob>",
    "map<timestamp, duration>",
    "map<frozen<list<int>>, text>",
    "map<frozen<set<text>>, frozen<map<int, date>>>",
    "map<frozen<map<int, text>>, frozen<list<time>>>",
    "map<frozen<tuple<int, frozen<set<text>>>>, inet>",
    "map<frozen<pair{a int, b frozen<list<text>>}>, timeuuid>",
    "tuple<int>",
    "tuple<text, blob, ascii>",
    "tuple<int, text, double>",
    "tuple<list<int>, set<text>, map<int, blob>>",
    "tuple<tuple<tuple<tuple<int>>>>",
    "one{a int}",
    "person{name text, age int, height double}",
    "awkward{count int, index text, real double, items list<int>}",
    "wide{a int, b bigint, c text, d blob, e uuid, f date, g time, h timestamp, i inet}",
    "outer{inner frozen<innermost{a text, b frozen<list<int>>}>, rest frozen<map<text, int>>}",
    "list<frozen<list<frozen<list<frozen<list<int>>>>>>>",
    "map<text, frozen<map<text, frozen<map<text, frozen<map<text, int>>>>>>>",
    "list<frozen<tuple<text, frozen<person2{name text, tags frozen<set<text>>}>>>>",
    "vector<vector<float, 3>, 2>",
    "vector<vector<text, 2>, 2>",
    "vector<frozen<list<int>>, 2>",
    "vector<frozen<record{a int, b text}>, 2>",
    "list<vector<double, 2>>",
    "map<text, vector<bigint, 3>>",
)
"""Types that have been involved in bugs, or that are likely to be."""


def vectors() -> list[Shape]:
    """Returns a vector type for each scalar type except `counter`, and for five compound types."""
    elements = [Shape(kind) for kind in SCALARS if kind != "counter"]
    texts = ("list<int>", "set<text>", "map<int, text>", "tuple<int, text>", "v{a int, b text}")
    elements += [parse(text) for text in texts]
    return [Shape("vector", (element,), dimension=3) for element in elements]


def generated(count: int, seed: int) -> list[Shape]:
    """Returns random nested types of two to four levels. Equal seeds give equal types."""
    rng = Random(seed)
    shapes: dict[str, Shape] = {}
    while len(shapes) < count:
        shape = _nested(rng, rng.randint(2, 4), len(shapes))
        if shape.bare.depth >= 2:
            shapes.setdefault(shape.cql, shape)
    return list(shapes.values())


def _nested(rng: Random, depth: int, number: int, *, top: bool = True) -> Shape:
    if depth <= 1:
        return Shape(rng.choice([kind for kind in SCALARS if kind != "counter"]))

    def part(deep: bool) -> Shape:
        levels = depth - 1 if deep else rng.randint(1, depth - 1)
        return _nested(rng, levels, number, top=False)

    kind = rng.choice(["list", "set", "map", "tuple", "udt", "vector"])
    dimension = 0
    if kind in ("list", "set"):
        parts: tuple[Shape, ...] = (part(True),)
    elif kind == "map":
        parts = part(rng.random() < 0.5), part(True)
    elif kind == "vector":
        parts, dimension = (part(True),), rng.choice((1, 2, 2, 3, 5))
    else:
        parts = tuple(part(i == 0) for i in range(rng.randint(1, 4)))
    names = tuple(f"f{i}" for i in range(len(parts))) if kind == "udt" else ()
    # The reference caches the class of a UDT by the UDT's name, so every UDT needs its own name.
    name = f"u{number}_{rng.getrandbits(40):x}" if kind == "udt" else ""
    shape = Shape(kind, parts, names, name, dimension)
    return shape if top or rng.random() < 0.4 else Shape("frozen", (shape,))


def every_type() -> list[Shape]:
    """Returns all types that the tests compare."""
    scalars = [Shape(kind) for kind in SCALARS]
    return [*scalars, *vectors(), *map(parse, NASTY), *generated(60, 20_240_229)]
