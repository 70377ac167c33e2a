"""Literals of simple statements against the driver's own.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.literals [--count N]

Run in the environment of either driver. Prints the names of what passed; the first that fails is
an AssertionError.
"""

from __future__ import annotations

import argparse
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
from cassandra import cluster, query, util
from cassandra.encoder import Encoder, ValueSequence
from cassandra.query import BatchStatement, SimpleStatement
from tests.accel.answers import Raised, answer, run

from turbocql import accel

NAME = "query.bind_params"
ZONES = [datetime.timezone.utc, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30)), None]
CHOSEN = random.Random(20261123)


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
    """A value of any class that users give."""
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


def same(own: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, which is the driver's own."""
    expected = answer(own, *arguments)
    ours = answer(query.bind_params, *arguments)
    assert ours == expected, (arguments, ours, expected)
    return ours


def generated_values(own: Callable[..., Any], count: int) -> None:
    encoder = Encoder()
    before = accel.status()
    for _ in range(count // 4):
        values = [value() for _ in range(4)]
        same(own, "%s, %s, %s, %s", tuple(values), encoder)
        same(own, "%s, %s, %s, %s", values, encoder)
        named = dict(zip("abcd", values, strict=True))
        same(own, "%(a)s %(d)s %(b)s", named, encoder)
    told = {seam.name: seam for seam in accel.status().seams}[NAME]
    assert told.native >= count // 4 * 3
    assert told.fallback == 0
    assert before.on


def errors_are_the_drivers(own: Callable[..., Any], _: int) -> None:
    encoder = Encoder()
    recursive: list[Any] = []
    recursive.append(recursive)
    deep: Any = 1
    for _ in range(200):
        deep = [deep]

    class Failing:
        def __str__(self) -> str:
            raise KeyError("no")

    for text_, params in (
        ("%s", ()),
        ("%s", (1, 2)),
        ("%d", ("a",)),
        ("%(a)s", {}),
        ("%(a)s", (1,)),
        ("%", (1,)),
        ("%s", (Failing(),)),
        ("%s", ([Failing()],)),
        ("%s", (decimal.Decimal("sNaN"),)),
        ("%s", (10**5000,)),
        ("%s", ("\ud800",)),
        ("%s", (["\ud800"],)),
        ("%s", (recursive,)),
        ("%s", (deep,)),
        ("%s", 5),
        ("%s", None),
        ("%s", "ab"),
        ("%s", {1: 2}.items()),
        (b"%s", (1,)),
        (Text("%s"), (1,)),
        (None, (1,)),
    ):
        same(own, text_, params, encoder)
    for arguments in ((), ("%s",), ("%s", (1,)), ("%s", (1,), None), ("%s", (1,), encoder, 1)):
        same(own, *arguments)
    generator = query.bind_params("%s", ((n for n in range(3)),), encoder)
    assert generator == "[0, 1, 2]"


def what_users_have_put_in_its_place_wins(own: Callable[..., Any], _: int) -> None:
    values = ([1, "a", (2,)], (1, 2), 1.5, "it's", {"a": 1.5}, True, Number(3))
    text_ = ", ".join(["%s"] * len(values))

    changed = Encoder()
    changed.mapping[tuple] = changed.cql_encode_tuple
    changed.mapping[float] = lambda value: f"<{value}>"
    changed.mapping[Number] = lambda value: b"bytes"
    assert "(1, 2)" in same(own, text_, values, changed)
    assert "<1.5>" in same(own, text_, values, changed)
    raised = same(own, "%s", ([Number(3)],), changed)
    assert isinstance(raised, Raised)
    assert raised.cls is TypeError
    assert "b'bytes'" in same(own, "%s", ({"a": Number(3)},), changed)

    other = Encoder()
    changed.mapping[str] = other.cql_encode_str
    same(own, text_, values, changed)
    del changed.mapping[int]
    changed.mapping[list] = changed.cql_encode_set_collection
    same(own, text_, values, changed)
    changed.mapping = types.MappingProxyType(changed.mapping)
    same(own, text_, values, changed)

    class Mine(Encoder):  # type: ignore[misc]
        def cql_encode_all_types(self, val: Any, as_text_type: bool = False) -> str:
            return "mine"

    assert "mine" in same(own, text_, values, Mine())
    single = Encoder()
    single.cql_encode_object = lambda value: "single"
    assert "single" in same(own, text_, values, single)
    for name in ("cql_encode_object", "cql_encode_float", "cql_encode_all_types", "cql_encode_str"):
        usual = vars(Encoder)[name]
        encoder = Encoder()
        try:
            setattr(Encoder, name, lambda self, value: "replaced")
            same(own, text_, (*values, decimal.Decimal("1.5")), encoder)
            same(own, text_, values, Encoder())
        finally:
            setattr(Encoder, name, usual)
        same(own, text_, values, encoder)


def functions_may_change_what_they_encode(own: Callable[..., Any], _: int) -> None:
    """The program's own functions, called in the middle of a collection, do odd things."""
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
    assert own("%s", (1,), encoder) == "1"


def statements_and_batches(own: Callable[..., Any], _: int) -> None:
    assert cluster.bind_params is query.bind_params
    batch = BatchStatement()
    batch.add("INSERT INTO t (a, b) VALUES (%s, %s)", (1, "it's"))
    batch.add(SimpleStatement("UPDATE t SET b = %(b)s"), {"b": [1.5]})
    texts = [text_ for _, text_, _ in batch._statements_and_parameters]
    assert texts == ["INSERT INTO t (a, b) VALUES (1, 'it''s')", "UPDATE t SET b = [1.5]"]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=100_000)
    count = options.parse_args().count
    own = query.bind_params
    accel.accelerate()
    assert query.bind_params is not own
    checks = [
        generated_values,
        errors_are_the_drivers,
        what_users_have_put_in_its_place_wins,
        functions_may_change_what_they_encode,
        statements_and_batches,
    ]

    def bound(check: Callable[[Callable[..., Any], int], None]) -> Callable[[], None]:
        def named() -> None:
            check(own, count)

        named.__name__ = check.__name__
        return named

    run([bound(check) for check in checks])


if __name__ == "__main__":
    main()
