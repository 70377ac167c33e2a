"""Compares the literals that native code formats for simple statements with those of the driver."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import ipaddress
import random
import struct
import types
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cassandra import cluster, query, util
from cassandra.encoder import Encoder, ValueSequence
from cassandra.query import BatchStatement, SimpleStatement
from tests.accel.answers import Raised, answer
from tests.accel.statements import seams

from turbocql import accel

NAME = "query.bind_params"
ZONES = [datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30)), None]
CHOSEN = random.Random(20261123)
OWN = query.bind_params
"""The driver's own function, kept because the accelerator replaces it."""

pytestmark = pytest.mark.usefixtures("accelerated")


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Colour(enum.IntEnum):
    RED = 1


class Listed(list):  # type: ignore[type-arg]
    pass


def moment() -> datetime.datetime:
    return datetime.datetime(
        CHOSEN.choice([1, 999, 1000, 1582, 1969, 1970, 2026, 9999]),
        CHOSEN.randint(1, 12),
        CHOSEN.randint(1, 28),
        CHOSEN.randint(0, 23),
        CHOSEN.randint(0, 59),
        CHOSEN.randint(0, 59),
        CHOSEN.choice([0, 1, 999, 1000, 123_456, 999_999]),
        CHOSEN.choice(ZONES),
    )


def text() -> str:
    letters = "ab'\"%\\\n\0é€\U0001f600{}[]"
    return "".join(CHOSEN.choices(letters, k=CHOSEN.randint(0, 12)))


SCALARS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: CHOSEN.choice([True, False]),
    lambda: CHOSEN.choice([-1, 1]) * CHOSEN.getrandbits(CHOSEN.choice([1, 8, 31, 63, 64, 200])),
    lambda: struct.unpack(">d", CHOSEN.randbytes(8))[0],
    lambda: CHOSEN.choice([0.0, -0.0, 0.1, 1e16, 1e-5, float("inf"), float("-inf"), float("nan")]),
    text,
    lambda: CHOSEN.randbytes(CHOSEN.randint(0, 9)),
    lambda: bytearray(CHOSEN.randbytes(3)),
    lambda: memoryview(CHOSEN.randbytes(4)),
    lambda: uuid.UUID(int=CHOSEN.getrandbits(CHOSEN.choice([1, 64, 128]))),
    moment,
    lambda: moment().date(),
    lambda: moment().time(),
    lambda: decimal.Decimal(CHOSEN.getrandbits(90)).scaleb(CHOSEN.randint(-40, 40)),
    lambda: CHOSEN.choice([decimal.Decimal("NaN"), decimal.Decimal("-Infinity")]),
    lambda: ipaddress.ip_address(CHOSEN.getrandbits(32)),
    lambda: ipaddress.IPv6Address(CHOSEN.getrandbits(128)),
    lambda: util.Date(CHOSEN.randint(-1000, 100_000)),
    lambda: util.Time(CHOSEN.randrange(86_400 * 10**9)),
    lambda: util.Point(1.5, CHOSEN.random()),
    lambda: Text(text()),
    lambda: Number(CHOSEN.getrandbits(20)),
    lambda: Colour.RED,
    lambda: np.float32(CHOSEN.random()),
    lambda: np.int64(CHOSEN.getrandbits(40)),
]


def value(depth: int = 0) -> Any:
    """Returns a random value of one of many classes that programs pass."""
    if depth > 3 or CHOSEN.random() < 0.75:
        return CHOSEN.choice(SCALARS)()
    items = [value(depth + 1) for _ in range(CHOSEN.randint(0, 4))]
    keys = [key for key in items if type(key) in (int, str, float, uuid.UUID, bytes, type(None))]
    made = CHOSEN.choice(
        [
            items,
            tuple(items),
            set(keys),
            frozenset(keys),
            dict(zip(keys, items, strict=False)),
            collections.OrderedDict(zip(keys, items, strict=False)),
            ValueSequence(items),
            Listed(items),
            util.sortedset([1, 2]),
            collections.deque(items),
            np.array([1.5, 2.5]),
        ]
    )
    return made


def same(*arguments: Any) -> Any:
    """Asserts that the accelerated function returns the same as the driver's own. Returns the
    result.
    """
    expected = answer(OWN, *arguments)
    accelerated = answer(query.bind_params, *arguments)
    assert accelerated == expected, (arguments, accelerated, expected)
    return accelerated


def test_the_function_is_replaced() -> None:
    assert query.bind_params is not OWN
    assert accel.status().on


def test_generated_values() -> None:
    """Compares 100,000 random values in rows of four values."""
    CHOSEN.seed(20261123)
    encoder = Encoder()
    rows = 25_000
    for _ in range(rows):
        values = [value() for _ in range(4)]
        same("%s, %s, %s, %s", tuple(values), encoder)
        same("%s, %s, %s, %s", values, encoder)
        named = dict(zip("abcd", values, strict=True))
        same("%(a)s %(d)s %(b)s", named, encoder)
    seam = seams()[NAME]
    assert seam.native >= rows * 3
    assert seam.fallback == 0


class Failing:
    """An object whose `__str__` raises."""

    def __str__(self) -> str:
        raise KeyError("no")


def recursive() -> list[Any]:
    """Returns a list that contains itself."""
    items: list[Any] = []
    items.append(items)
    return items


def deep() -> Any:
    """Returns 200 nested lists."""
    items: Any = 1
    for _ in range(200):
        items = [items]
    return items


FAULTS: dict[str, tuple[Any, Any]] = {
    "too few": ("%s", ()),
    "too many": ("%s", (1, 2)),
    "no number": ("%d", ("a",)),
    "no such name": ("%(a)s", {}),
    "no names": ("%(a)s", (1,)),
    "an unfinished format": ("%", (1,)),
    "str fails": ("%s", (Failing(),)),
    "str fails in a list": ("%s", ([Failing()],)),
    "a signalling decimal": ("%s", (decimal.Decimal("sNaN"),)),
    "too many digits": ("%s", (10**5000,)),
    "a surrogate": ("%s", ("\ud800",)),
    "a surrogate in a list": ("%s", (["\ud800"],)),
    "a recursive list": ("%s", (recursive(),)),
    "a deep list": ("%s", (deep(),)),
    "a number for parameters": ("%s", 5),
    "None for parameters": ("%s", None),
    "text for parameters": ("%s", "ab"),
    "items for parameters": ("%s", {1: 2}.items()),
    "a statement of bytes": (b"%s", (1,)),
    "a statement of a class of its own": (Text("%s"), (1,)),
    "None for a statement": (None, (1,)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_equal_those_of_the_driver(fault: str) -> None:
    same(*FAULTS[fault], Encoder())


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_any_number_of_arguments(count: int) -> None:
    arguments = ("%s", (1,), None if count == 3 else Encoder(), 1)
    same(*arguments[:count])


def test_a_generator_is_a_list() -> None:
    assert query.bind_params("%s", ((n for n in range(3)),), Encoder()) == "[0, 1, 2]"


VALUES = ([1, "a", (2,)], (1, 2), 1.5, "it's", {"a": 1.5}, True, Number(3))
FORMAT = ", ".join(["%s"] * len(VALUES))


def test_an_encoders_own_functions_win() -> None:
    changed = Encoder()
    changed.mapping[tuple] = changed.cql_encode_tuple
    changed.mapping[float] = lambda value: f"<{value}>"
    changed.mapping[Number] = lambda value: b"bytes"
    assert "(1, 2)" in same(FORMAT, VALUES, changed)
    assert "<1.5>" in same(FORMAT, VALUES, changed)
    raised = same("%s", ([Number(3)],), changed)
    assert isinstance(raised, Raised)
    assert raised.cls is TypeError
    assert "b'bytes'" in same("%s", ({"a": Number(3)},), changed)

    other = Encoder()
    changed.mapping[str] = other.cql_encode_str
    same(FORMAT, VALUES, changed)
    del changed.mapping[int]
    changed.mapping[list] = changed.cql_encode_set_collection
    same(FORMAT, VALUES, changed)
    changed.mapping = types.MappingProxyType(changed.mapping)
    same(FORMAT, VALUES, changed)


def test_a_derived_encoder_wins() -> None:
    class Mine(Encoder):  # type: ignore[misc]
        def cql_encode_all_types(self, val: Any, as_text_type: bool = False) -> str:
            return "mine"

    assert "mine" in same(FORMAT, VALUES, Mine())
    single = Encoder()
    single.cql_encode_object = lambda value: "single"
    assert "single" in same(FORMAT, VALUES, single)


@pytest.mark.parametrize(
    "name", ["cql_encode_object", "cql_encode_float", "cql_encode_all_types", "cql_encode_str"]
)
def test_a_replaced_method_of_encoders_wins(name: str) -> None:
    usual = vars(Encoder)[name]
    encoder = Encoder()
    try:
        setattr(Encoder, name, lambda self, value: "replaced")
        same(FORMAT, (*VALUES, decimal.Decimal("1.5")), encoder)
        same(FORMAT, VALUES, Encoder())
    finally:
        setattr(Encoder, name, usual)
    same(FORMAT, VALUES, encoder)


def test_functions_may_change_what_they_encode() -> None:
    """While a collection is encoded, a program's function empties the collection and the encoder's
    mapping.
    """
    encoder = Encoder()
    items: list[Any] = [Number(1), 2, 3]
    table: dict[Any, Any] = {"a": Number(1), "b": 2}

    def clearing(value: Any) -> str:
        items.clear()
        table.clear()
        encoder.mapping.clear()
        return "cleared"

    encoder.mapping[Number] = clearing
    assert query.bind_params("%s", (items,), encoder).startswith("[cleared")
    encoder = Encoder()
    encoder.mapping[Number] = clearing
    table["a"] = Number(1)
    assert query.bind_params("%s", (table,), encoder).startswith("{'a': cleared")
    assert OWN("%s", (1,), encoder) == "1"


def test_statements_and_batches() -> None:
    assert cluster.bind_params is query.bind_params
    batch = BatchStatement()
    batch.add("INSERT INTO t (a, b) VALUES (%s, %s)", (1, "it's"))
    batch.add(SimpleStatement("UPDATE t SET b = %(b)s"), {"b": [1.5]})
    texts = [text_ for _, text_, _ in batch._statements_and_parameters]
    assert texts == ["INSERT INTO t (a, b) VALUES (1, 'it''s')", "UPDATE t SET b = [1.5]"]
