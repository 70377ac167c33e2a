"""Checks that the quick paths and the safe path return the same bytes and raise the same errors.

The quick paths depend on CPython's internals. `force_safe` turns them off.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID, uuid1

import numpy as np
import pytest

from turbocql import _core
from turbocql.codec import RowEncoder, find_serializer
from turbocql.errors import EncodeError

from .paths import BAD, GOOD


@pytest.fixture(autouse=True)
def quick_again() -> Iterator[None]:
    yield
    _core.force_safe(False)


def outcome(cql_type: str, value: Any, safe: bool) -> bytes | str:
    """Returns the encoded bytes, or the message of the error."""
    _core.force_safe(safe)
    try:
        return find_serializer(cql_type).serialize(value)
    except EncodeError as error:
        return str(error)


def both(cql_type: str, value: Any) -> bytes | str:
    quick, safe = outcome(cql_type, value, False), outcome(cql_type, value, True)
    assert quick == safe, (cql_type, value)
    row = []
    for way in (False, True):
        _core.force_safe(way)
        try:
            row.append(bytes(RowEncoder([("a", cql_type)]).bind((value,))))
        except EncodeError as error:
            row.append(str(error).encode())
    assert row[0] == row[1], (cql_type, value)
    return quick


@pytest.mark.parametrize("cql_type", GOOD)
def test_accepted_values(cql_type: str) -> None:
    for value in GOOD[cql_type]:
        assert isinstance(both(cql_type, value), bytes)


@pytest.mark.parametrize("cql_type", BAD)
def test_values_that_are_refused(cql_type: str) -> None:
    for value in BAD[cql_type]:
        if type(value).__name__ != "list_iterator":
            assert isinstance(both(cql_type, value), str)


def integers(random: Random) -> int:
    bits = random.choice((1, 7, 8, 15, 16, 29, 30, 31, 32, 59, 60, 61, 62, 63, 64, 90, 127))
    edge = random.choice((-1, 1)) * ((1 << bits) + random.choice((-1, 0, 1)))
    return edge if random.random() < 0.7 else random.randrange(-(1 << bits), 1 << bits)


def floats(random: Random) -> float:
    if random.random() < 0.5:
        (number,) = struct.unpack("<d", random.randbytes(8))
        return float(number)
    edge = 3.4028235677973366e38
    return random.choice(
        (0.0, -0.0, 1.5, 1e-45, 5e-324, edge, -edge, math.nextafter(edge, 0), math.inf, math.nan)
    )


LENGTHS = (1, 5, 18, 19, 20, 37, 38, 39, 60)
"""Numbers of digits. A decimal of Python stores 19 digits in a word, so some of these numbers are
next to the limits of one and two words."""


def decimals(random: Random) -> Decimal:
    digits = "".join(random.choices("0123456789", k=random.choice(LENGTHS)))
    exponent = random.choice((0, -1, 5, -40, 300, -(2**31), 2**31 - 1, 2**31))
    sign = random.choice(("", "-"))
    return Decimal(f"{sign}{digits}E{exponent}") if random.random() < 0.95 else Decimal("NaN")


def instants(random: Random) -> datetime:
    zone = random.choice((None, timezone.utc, timezone(timedelta(hours=-3, seconds=7))))
    number = random.randrange(86_400 * 10**6 * 3_652_000)
    return (datetime(1, 1, 2) + timedelta(microseconds=number)).replace(tzinfo=zone)


MAKERS = {
    "tinyint": integers,
    "smallint": integers,
    "int": integers,
    "bigint": integers,
    "counter": integers,
    "varint": integers,
    "float": lambda random: random.choice((floats, integers))(random),
    "double": lambda random: random.choice((floats, integers))(random),
    "decimal": decimals,
    "boolean": lambda random: random.choice((True, False, 1)),
    "text": lambda random: "".join(random.choices("aé€\U0001f600\0\ud800", k=random.randrange(4))),
    "ascii": lambda random: "".join(random.choices("ab\x7f\x80", k=random.randrange(4))),
    "blob": lambda random: random.randbytes(random.randrange(5)),
    "uuid": lambda random: UUID(int=random.getrandbits(128)),
    "timeuuid": lambda random: random.choice((uuid1(), UUID(int=random.getrandbits(128)))),
    "date": lambda random: date.fromordinal(random.randrange(1, 3_652_060)),
    "timestamp": instants,
}


@pytest.mark.parametrize("cql_type", MAKERS)
def test_random_values_alone_and_inside(cql_type: str, proof: bool) -> None:
    random = Random(f"both ways {cql_type}")
    make = MAKERS[cql_type]
    for _ in range(20_000 if proof else 300):
        value = make(random)
        both(cql_type, value)
        parts = [make(random) for _ in range(random.randrange(4))]
        with_null = [*parts, random.choice((None, value))]
        both(f"list<{cql_type}>", with_null)
        both(f"tuple<{cql_type}, {cql_type}>", tuple(with_null[:2]))
        both(f"vector<{cql_type}, {len(with_null)}>", with_null)
        both(f"map<int, frozen<list<{cql_type}>>>", {1: parts, 2: None})
        if cql_type not in ("float", "double"):
            both(f"set<{cql_type}>", set(with_null))


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", ">f4", "f8", ">f8", "i1", "u2", "i4", ">i4", "u4", "i8", "u8"]
)
@pytest.mark.parametrize("element", ["float", "double", "int", "bigint", "smallint"])
def test_arrays_of_every_kind(element: str, dtype: str) -> None:
    random = Random(f"{element} {dtype}")
    for _ in range(60):
        count = random.choice((1, 3, 17, 64, 65))
        raw = np.frombuffer(random.randbytes(count * 8), dtype="f8" if "f" in dtype else "i8")
        with np.errstate(all="ignore"):
            array = raw.astype(dtype)
        if random.random() < 0.5:
            array = np.arange(count).astype(dtype)
        for view in (array, np.repeat(array, 2)[::2], array[::-1], np.asfortranarray(array)):
            both(f"vector<{element}, {count}>", view)
