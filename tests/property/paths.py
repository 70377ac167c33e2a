"""Defines repeatable calls of every path through the native codec, with good and bad values."""

from __future__ import annotations

import array
import datetime
import pickle
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from ipaddress import ip_address
from typing import Any

import numpy as np

from turbocql import UNSET, Date, Duration, Time, Timestamp
from turbocql.codec import (
    CqlType,
    RowEncoder,
    decode,
    encode,
    find_deserializer,
    find_serializer,
    routing_key,
    token,
)
from turbocql.errors import CodecError
from turbocql.protocol import BatchMessage, ExecuteMessage, QueryMessage

from .paths_results import results

__all__ = ["BAD", "GOOD", "PATHS", "Path"]

Path = Callable[[], object]

UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=2))
UDT = 'address{street text, "Zip Code" int, tags frozen<set<text>>}'

COMPOSITE = "'org.apache.cassandra.db.marshal.CompositeType(Int32Type,UTF8Type)'"
CUSTOM = "'org.example.Custom'"
UNBOUNDED = {"ascii", "text", "blob", "varint", "decimal", CUSTOM, COMPOSITE, UDT}
"""Types whose encoded values stay valid with an additional byte."""


class Sized:
    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2, 3))


class Index:
    def __index__(self) -> int:
        return 5


@dataclass
class Address:
    street: str
    tags: Any = None


@dataclass
class Item:
    id: int
    name: str
    v: Any = UNSET


GOOD: dict[str, list[Any]] = {
    "ascii": ["", "plain"],
    "text": ["", "grüße \U0001f600"],
    "tinyint": [1, Index()],
    "smallint": [-300],
    "int": [2**31 - 1, np.int8(3)],
    "bigint": [-(2**63)],
    "counter": [7],
    "varint": [0, 2**70, -(2**300), Index()],
    "float": [1.5, 7, np.float32(2)],
    "double": [1.5, 7, np.float64(2)],
    "decimal": [Decimal("-1.25"), Decimal("1E+1000"), Decimal(10**80), 12],
    "boolean": [True, np.True_],
    "blob": [b"", b"abc", bytearray(b"abc"), memoryview(b"abcdef")[::2]],
    "uuid": [uuid.UUID(int=2**127)],
    "timeuuid": [uuid.UUID("13814000-1dd2-11b2-8080-808080808080")],
    "inet": [ip_address("::1"), ip_address("127.0.0.1"), "10.0.0.1"],
    "date": [datetime.date(2024, 2, 29), Date(2**31 - 1), 2**31],
    "time": [datetime.time(1, 2, 3, 4), Time(5), 6],
    "timestamp": [
        datetime.datetime(2024, 2, 29, tzinfo=UTC),
        datetime.datetime(1969, 1, 1, 0, 0, 0, 999),
        datetime.datetime(2024, 2, 29, tzinfo=EAST),
        datetime.date(2024, 2, 29),
        Timestamp(-(2**63)),
        5,
    ],
    "duration": [Duration(1, 2, 3), datetime.timedelta(days=-1, microseconds=5)],
    "list<int>": [[], [1, None, 3], (1, 2), Sized(), array.array("i", [1, 2]), np.arange(3)],
    "set<text>": [set(), {"a", "b"}, frozenset("x"), ["a"]],
    "map<text, int>": [{}, {"a": 1, "b": None}],
    "map<frozen<list<int>>, frozen<set<int>>>": [{(1, 2): {3}}],
    "tuple<int, text>": [(1, "a"), [1], (None, None)],
    UDT: [{"street": "s", "Zip Code": 1}, ("s",), Address("s"), Address("s", ["a"])],
    "vector<float, 3>": [
        [1, 2.5, 3],
        (1.0, 2.0, 3.0),
        np.zeros(3, "float32"),
        np.arange(6.0)[::2],
        np.zeros(3, ">f8"),
        np.zeros(3, "float16"),
        array.array("d", [1, 2, 3]),
        bytes(12),
        Sized(),
    ],
    "vector<double, 2>": [[1, 2], np.zeros(2)],
    "vector<int, 3>": [[1, 2, 3], np.zeros(3, "int64"), range(3)],
    "vector<text, 2>": [["a", "bcd"]],
    "vector<frozen<vector<float, 2>>, 2>": [[[1, 2], [3, 4]], np.zeros((2, 2))],
    CUSTOM: [b"abc"],
    COMPOSITE: [(1, "a"), (1,)],
    "list<frozen<map<text, frozen<tuple<int, vector<float, 2>>>>>>": [[{"a": (1, [1, 2])}, None]],
}

BAD: dict[str, list[Any]] = {
    "ascii": ["ü", b"a", "\ud800"],
    "text": [1, "\ud800"],
    "int": [2**31, 1.0, None, "1"],
    "varint": ["1", 1.5],
    "float": [1e39, "1", Decimal(1)],
    "decimal": [Decimal("nan"), 1.5],
    "boolean": [1],
    "blob": ["a", 3],
    "uuid": ["x"],
    "timeuuid": [uuid.UUID(int=1)],
    "inet": ["x", 5],
    "date": [datetime.datetime(2024, 1, 1), "2024-01-01"],
    "time": [datetime.time(1, tzinfo=UTC), -1],
    "timestamp": ["now", 1.5],
    "duration": [Duration(1, -1, 0), 5],
    "list<int>": [[1, "a"], {1}, iter([1]), "ab", np.array([2**40])],
    "set<text>": [{1}, 5],
    "map<text, int>": [{"a": "b"}, {1: 1}, [1]],
    "tuple<int, text>": [(1, 2), (1, "a", 3), 5],
    UDT: [{"steet": 1}, {"street": 5}, 5, ("s", 1, [1])],
    "vector<float, 3>": [[1, 2], [1, 2, None], np.zeros(4), np.array([1e39, 0, 0]), bytes(11)],
    "vector<text, 2>": [["a", 1]],
    COMPOSITE: [(1, None), (1, 2, 3)],
}

LONG = b"\x7f\xff\xff\xff"

MALFORMED: dict[str, list[bytes]] = {
    "int": [b"\0", bytes(5)],
    "boolean": [bytes(2)],
    "decimal": [bytes(3)],
    "inet": [bytes(5)],
    "uuid": [bytes(15)],
    "duration": [b"\2\4", b"\2\4\6\0", b"\xff" * 9 + bytes(2)],
    "list<int>": [LONG, b"\xff" * 4, bytes(3), bytes(5), b"\0\0\0\1" + LONG],
    "set<int>": [b"\0\0\0\1\0\0\0\1\0", LONG],
    "map<text, int>": [b"\0\0\0\1\0\0\0\1a\0\0\0\1b", b"\0\0\0\1\xff\xff\xff\xff", LONG],
    "tuple<int, text>": [b"\0\0", b"\0\0\0\4\0\0\0\1" + LONG, bytes(9)],
    UDT: [b"\0\0", b"\0\0\0\0\0\0\0\2ab", LONG],
    "vector<float, 3>": [bytes(11), bytes(13)],
    "vector<text, 2>": [b"\1a", b"\1a\1b\0", b"\xff" * 9],
    "vector<vector<text, 2>, 1>": [b"\2\1a"],
    COMPOSITE: [b"\0", b"\0\4\0\0", b"\0\1a\0", b"\xff\xff" + bytes(4)],
    "list<frozen<map<text, frozen<tuple<int, vector<float, 2>>>>>>": [
        b"\0\0\0\1\0\0\0\x11\0\0\0\1\0\0\0\1a\0\0\0\4\0\0\0\5"
    ],
}
"""Invalid bytes by type, one item for each reason why bytes can be invalid."""


def refused(call: Path) -> Path:
    def path() -> None:
        try:
            call()
        except (CodecError, ValueError, TypeError):
            return
        raise AssertionError("it was not refused")

    return path


def encoding(cql_type: str, value: Any) -> Path:
    serializer = find_serializer(cql_type)
    return lambda: serializer.serialize(value)


def decoding(cql_type: str, data: Any, **options: bool) -> Path:
    deserializer = find_deserializer(cql_type, **options)
    return lambda: deserializer.deserialize(data)


class Policy:
    def contains_column(self, column: Any) -> bool:
        return bool(column.col == "name")

    def column_type(self, column: Any) -> str:
        return "text"

    def encrypt(self, column: Any, data: bytes) -> bytes:
        return data[::-1]


class BrokenPolicy(Policy):
    def encrypt(self, column: Any, data: bytes) -> bytes:
        raise RuntimeError(data)


class PythonType:
    def serialize(self, value: Any, protocol_version: int) -> bytes:
        return bytes(str(value), "ascii")


def rows() -> Iterator[tuple[str, Path]]:
    columns = [("id", "int"), ("name", "text"), ("v", "vector<float, 3>")]
    encoder = RowEncoder(columns, key_columns=["id", "name"])
    array2d = np.zeros((2, 3), "float32")
    bound = encoder.bind((1, "a"))
    many = encoder.bind_many([(1, "a"), (2, "b", None)])
    whole = [("ks", "t", *column) for column in columns]
    sealed = RowEncoder(whole, encryption_policy=Policy())
    python: RowEncoder = RowEncoder([("id", PythonType()), ("name", "text")], key_columns=["id"])
    broken = RowEncoder(whole, encryption_policy=BrokenPolicy())
    older = RowEncoder(columns, protocol_version=3)
    yield "bind a tuple", lambda: encoder.bind((1, "a", [1, 2, 3]))
    yield "bind a dict", lambda: encoder.bind({"id": 1, "name": "a", "v": array2d[0]})
    yield "bind a dataclass", lambda: encoder.bind(Item(1, "a"))
    yield "bind too much", refused(lambda: encoder.bind((1, "a", None, 4)))
    yield "bind an unknown name", refused(lambda: encoder.bind({"id": 1, "nome": "a"}))
    yield "bind a wrong value", refused(lambda: encoder.bind((1, "a", [1, 2, "x"])))
    yield "bind a key without a value", refused(lambda: encoder.bind((1, None)))
    yield "bind with a policy", lambda: sealed.bind((1, "a", None))
    yield "bind by Python", lambda: python.bind((1, "a"))
    yield "bind many", lambda: encoder.bind_many([(1, "a"), (2, "b", None)])
    yield "bind many wrong", refused(lambda: encoder.bind_many([(1, "a"), (2, 3)]))
    yield "bind columns", lambda: encoder.bind_columns([[1, 2], ("a", "b"), array2d])
    yield "bind columns wrong", refused(lambda: encoder.bind_columns([[1, 2], ["a"]]))
    yield "bind with a broken policy", refused(lambda: broken.bind((1, "a", None)))
    yield "bind a wrong value by Python", refused(lambda: python.bind(("ü", "a")))
    yield "bind unset in version 3", refused(lambda: older.bind((1, "a")))
    yield "bind no row", refused(lambda: encoder.bind(5))
    yield "bind a dataclass that lacks a field", refused(lambda: python.bind(Address("s")))
    yield "bind columns by name", lambda: encoder.bind_columns({"id": [1], "name": ("a",)})
    yield "bind columns with a gap", refused(lambda: encoder.bind_columns([[1, 2], ["a", None]]))
    yield "bind text as a column", refused(lambda: encoder.bind_columns([[1], "a"]))
    yield "no encoder", refused(lambda: RowEncoder([("a", "int", 5)]))
    yield "no key column", refused(lambda: RowEncoder(columns, key_columns=["x"]))
    yield "cells", lambda: bound.cells
    yield "key of a row", lambda: (bound.routing_key, bound.token)
    yield "bytes of a row", lambda: bytes(bound)
    yield "tokens", many.tokens
    yield "a row of many", lambda: many[1]
    yield "pack a key", lambda: routing_key([b"a", bytearray(b"b")])
    yield "pack a wrong key", refused(lambda: routing_key(["a"]))
    yield "token", lambda: token(b"a" * 40)
    yield "make an encoder", lambda: RowEncoder(columns, key_columns=[0])


def types() -> Iterator[tuple[str, Path]]:
    text = "map<text, frozen<app.t{a int, b frozen<list<uuid>>}>>"
    cql_type = CqlType(text)
    yield "parse", lambda: CqlType(text)
    yield "parse what is no type", refused(lambda: CqlType("list<int"))
    yield "look up", lambda: CqlType("list<t>", udts={"t": "app.t{a int}"})
    yield "print", lambda: (str(cql_type), repr(cql_type), cql_type.class_name)
    yield "read a class name", lambda: CqlType.from_class_name(cql_type.class_name)
    yield "no class name", refused(lambda: CqlType.from_class_name("ListType(Int32Type"))
    yield "by hand", lambda: CqlType.udt("t", {"a": CqlType.list_of("int"), "b": cql_type})
    yield "parts", lambda: (cql_type.subtypes, cql_type.subtypes[1].subtypes[0].field_names)
    yield "compare", lambda: (cql_type == CqlType("int"), hash(cql_type))
    yield "encode by name", lambda: encode("int", 1)
    yield "decode by name", lambda: decode("int", b"\0\0\0\1")


def made(call: Callable[[], Any]) -> Path:
    """Returns a call that makes a message and reads all its attributes."""

    def path() -> None:
        message = call()
        for name in dir(message):
            if not name.startswith("_") and name != "encode":
                getattr(message, name)
        repr(message)
        assert message == call()
        assert hash(message) == hash(call())

    return path


Query: Callable[..., Any] = QueryMessage
Execute: Callable[..., Any] = ExecuteMessage
Batch: Callable[..., Any] = BatchMessage

CELLS = [b"a", None, bytearray(b"bc"), memoryview(b"defg")[::2]]
NAMED = {"a": b"a", "b": None}
STATEMENTS = ["q", b"id", ("q", CELLS)]
SETTINGS = {"consistency": "QUORUM", "serial_consistency": "SERIAL", "timestamp": -5}
PAGING = {"page_size": 5, "paging_state": b"state", "skip_metadata": True}
NEWER = {"keyspace": "ks", "now_in_seconds": 7}

WRONG_MESSAGES: list[Path] = [
    lambda: Query(b"q"),
    lambda: Query("\ud800"),
    lambda: Query("q", [b"", 5]),
    lambda: Query("q", {1: b""}),
    lambda: Query("q", {"a": "b"}),
    lambda: Query("q", b"abc"),
    lambda: Query("q", consistency="NONE"),
    lambda: Query("q", serial_consistency="ONE"),
    lambda: Query("q", timestamp=2**64),
    lambda: Query("q", page_size=0),
    lambda: Query("q", paging_state="x"),
    lambda: Query("q").encode(6),
    lambda: Execute("id"),
    lambda: Execute(bytes(65_536)),
    lambda: Batch(["q", ("q", {"a": b""})]),
    lambda: Batch(["q", ("q", [5])]),
    lambda: Batch([("q",)]),
    lambda: Batch([5]),
    lambda: Batch("q"),
    lambda: Batch(["q"], kind="odd"),
]


def messages() -> Iterator[tuple[str, Path]]:
    known = {"result_metadata_id": b"m"}
    for version in (3, 4, 5):
        newer, id_known = (NEWER, known) if version == 5 else ({}, {})
        good = {
            "query": Query("q", CELLS, **SETTINGS, **PAGING, **newer),
            "query by name": Query("q", NAMED),
            "execute": Execute(b"id", CELLS, **id_known, **SETTINGS, **PAGING, **newer),
            "batch": Batch(STATEMENTS, kind="unlogged", **SETTINGS, **newer),
        }
        bad = {
            3: [Query("q", [UNSET]), Execute(b"id", {"a": UNSET}), Batch([("q", [UNSET])])],
            4: [Query("q", **NEWER), Execute(b"id", **known), Batch(["q", "q"], keyspace="ks")],
            5: [Execute(b"id")],
        }
        for what, message in good.items():
            yield f"{what} of version {version}", partial(message.encode, version)
        for number, message in enumerate(bad[version]):
            yield f"refuse {version} {number}", refused(partial(message.encode, version))
    yield "make a query", made(lambda: Query("q", CELLS, **SETTINGS, **PAGING, **NEWER))
    yield "make a query by name", made(lambda: Query("q", NAMED))
    yield "make an execute", made(lambda: Execute(b"id", tuple(CELLS), **known, **NEWER))
    yield "make a batch", made(lambda: Batch([*STATEMENTS, (b"i", iter(CELLS))]))
    for number, make in enumerate(WRONG_MESSAGES):
        yield f"refuse message {number}", refused(make)


def paths() -> Iterator[tuple[str, Path]]:
    for cql_type, values in GOOD.items():
        for number, value in enumerate(values):
            name = f"{cql_type} {number} {type(value).__name__}"
            yield f"encode {name}", encoding(cql_type, value)
            data = encode(cql_type, value)
            yield f"decode {name}", decoding(cql_type, data)
            if number == 0 or cql_type in ("list<int>", "set<text>", "map<text, int>"):
                wrong = data + b"\0" if data else b"\1"
                if cql_type not in UNBOUNDED:
                    yield f"decode wrong {name}", refused(decoding(cql_type, wrong))
    yield "decode no UTF-8", decoding("text", b"a\xff")
    yield "decode naive", decoding("timestamp", bytes(8), naive_timestamps=True)
    yield "decode to NumPy", decoding("vector<float, 3>", bytes(12), numpy_vectors=True)
    yield "decode empty", decoding("int", b"")
    deserializer = find_deserializer("int", naive_timestamps=True)
    yield "pickle a deserializer", lambda: pickle.loads(pickle.dumps(deserializer))
    serializer = find_serializer("list<int>")
    yield "pickle a serializer", lambda: pickle.loads(pickle.dumps(serializer))
    yield "decode None", decoding("int", None)
    yield "decode an array of bytes", decoding("int", array.array("B", bytes(4)))
    yield "decode what is not bytes", refused(lambda: decode("int", "abc"))
    for cql_type, values in BAD.items():
        for number, value in enumerate(values):
            yield f"refuse {cql_type} {number}", refused(encoding(cql_type, value))
    for cql_type, malformed in MALFORMED.items():
        for number, data in enumerate(malformed):
            yield f"malformed {cql_type} {number}", refused(decoding(cql_type, data))
            arrays = decoding(cql_type, data, numpy_vectors=True)
            yield f"malformed {cql_type} {number}, arrays", refused(arrays)
    yield from rows()
    yield from types()
    yield from messages()
    for name, path, bad in results():
        yield name, refused(path) if bad else path


PATHS: dict[str, Path] = dict(paths())
"""Maps the name of each call to the call."""
