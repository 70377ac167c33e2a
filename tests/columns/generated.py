"""Generates types of columns, and values of these types."""

from __future__ import annotations

import datetime
import ipaddress
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from turbocql import Date, Duration, Time

UTC = datetime.timezone.utc


@dataclass(frozen=True)
class Kind:
    """A CQL type. `text` is its CQL, and `name` says of which kind it is, without inner types.

    `parts` are the types of elements, keys, values or fields. `size` is the dimension of a vector.
    """

    text: str
    name: str
    parts: tuple[Kind, ...] = ()
    size: int = 0


def _timeuuid(rng: random.Random) -> uuid.UUID:
    number = rng.getrandbits(128) & ~(15 << 76) & ~(3 << 62)
    return uuid.UUID(int=number | 1 << 76 | 2 << 62)


def _text(rng: random.Random) -> str:
    return "".join(rng.choice("ab \u20ac\U0001f600'\"\0") for _ in range(rng.randint(0, 6)))


SCALARS: dict[str, Callable[[random.Random], Any]] = {
    "ascii": lambda rng: _text(rng).encode("ascii", "ignore").decode(),
    "text": _text,
    "tinyint": lambda rng: rng.randint(-128, 127),
    "smallint": lambda rng: rng.randint(-(2**15), 2**15 - 1),
    "int": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "bigint": lambda rng: rng.randint(-(2**63), 2**63 - 1),
    "varint": lambda rng: rng.randint(-1, 1) * rng.getrandbits(rng.choice([7, 63, 64, 200])),
    "float": lambda rng: rng.choice([0.0, -0.0, 0.5, float("inf"), -(2.0**-149)]),
    "double": lambda rng: rng.choice([0.1, -0.0, float("-inf"), 5e-324]),
    "decimal": lambda rng: (
        Decimal(rng.randint(-(10**40), 10**40)).scaleb(rng.randint(-50, 50))
        if rng.random() < 0.8
        else Decimal("0E+3")
    ),
    "boolean": lambda rng: rng.random() < 0.5,
    "blob": lambda rng: rng.randbytes(rng.randint(0, 5)),
    "uuid": lambda rng: uuid.UUID(int=rng.getrandbits(128)),
    "timeuuid": _timeuuid,
    "inet": lambda rng: rng.choice(
        [ipaddress.IPv4Address(rng.getrandbits(32)), ipaddress.IPv6Address(rng.getrandbits(128))]
    ),
    "date": lambda rng: Date(rng.randint(-(2**31), 2**31 - 1)),
    "time": lambda rng: Time(rng.randint(0, 86_399_999_999_999)),
    "timestamp": lambda rng: datetime.datetime(
        rng.randint(1, 9998), 1, 1, 1, 1, 1, rng.randint(0, 999) * 1000, UTC
    ),
    "duration": lambda rng: Duration(rng.randint(0, 99), rng.randint(0, 9), rng.getrandbits(60)),
}


def cql_type_of(rng: random.Random, depth: int) -> Kind:
    """Returns a type of at most `depth` levels. All types except scalars and vectors are frozen.

    The UDT `deep` has three levels, even if `depth` is two.
    """
    if depth == 1 or rng.random() < 0.3:
        name = rng.choice(list(SCALARS))
        return Kind(name, name)
    name = rng.choice(["list", "set", "map", "tuple", "udt pair", "udt deep", "vector"])
    if name == "udt pair":
        return Kind("frozen<pair>", name, (Kind("int", "int"), Kind("text", "text")))
    if name == "udt deep":
        pair = Kind("frozen<pair>", "udt pair", (Kind("int", "int"), Kind("text", "text")))
        doubles = Kind("frozen<list<double>>", "list", (Kind("double", "double"),))
        return Kind("frozen<deep>", name, (pair, doubles))
    part = cql_type_of(rng, depth - 1)
    if name == "vector":
        size = rng.randint(1, 4)
        return Kind(f"vector<{part.text}, {size}>", name, (part,), size)
    if name == "tuple":
        parts = (part, cql_type_of(rng, depth - 1))
        return Kind(f"frozen<tuple<{parts[0].text}, {parts[1].text}>>", name, parts)
    if name == "map":
        key = _key(rng)
        return Kind(f"frozen<map<{key.text}, {part.text}>>", name, (key, part))
    if name == "set":
        part = _key(rng)
    return Kind(f"frozen<{name}<{part.text}>>", name, (part,))


def _key(rng: random.Random) -> Kind:
    """Returns a scalar type for set elements and map keys. Never returns float or double. Never
    returns duration either, because the server refuses it in sets and as a key.
    """
    name = rng.choice([name for name in SCALARS if name not in ("duration", "float", "double")])
    return Kind(name, name)


def value_of(rng: random.Random, kind: Kind) -> Any:
    """Returns a random value of a type. Parts of tuples and user-defined types may be null."""
    if kind.name in SCALARS:
        return SCALARS[kind.name](rng)
    count = rng.choice([0, 1, 3])
    if kind.name == "list":
        return [value_of(rng, kind.parts[0]) for _ in range(count)]
    if kind.name == "set":
        return {value_of(rng, kind.parts[0]) for _ in range(count)}
    if kind.name == "map":
        return {value_of(rng, kind.parts[0]): value_of(rng, kind.parts[1]) for _ in range(count)}
    if kind.name == "vector":
        return [value_of(rng, kind.parts[0]) for _ in range(kind.size)]
    return tuple(None if rng.random() < 0.3 else value_of(rng, part) for part in kind.parts)
