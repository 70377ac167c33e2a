"""Tests nulls in collections. At every depth, an element of the length -1 decodes to `None`."""

from __future__ import annotations

import struct

from turbocql.codec import find_deserializer, find_serializer

NULL = b"\xff\xff\xff\xff"


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def count(number: int) -> bytes:
    return struct.pack(">i", number)


def int4(number: int) -> bytes:
    return sized(struct.pack(">i", number))


def test_null_round_trip_list() -> None:
    written = find_serializer("list<int>").serialize([1, None, 3, None])
    assert written == count(4) + int4(1) + NULL + int4(3) + NULL
    assert find_deserializer("list<int>").deserialize(written) == [1, None, 3, None]


def test_null_round_trip_set() -> None:
    written = find_serializer("set<text>").serialize(["a", None])
    assert written == count(2) + sized(b"a") + NULL
    assert find_deserializer("set<text>").deserialize(written) == {"a", None}


def test_null_round_trip_map() -> None:
    written = find_serializer("map<text, int>").serialize({"a": None, None: 2})
    assert written == count(2) + sized(b"a") + NULL + NULL + int4(2)
    assert find_deserializer("map<text, int>").deserialize(written) == {"a": None, None: 2}


def test_null_round_trip_tuple() -> None:
    written = find_serializer("tuple<int, text, int>").serialize((None, "x", None))
    assert written == NULL + sized(b"x") + NULL
    assert find_deserializer("tuple<int, text, int>").deserialize(written) == (None, "x", None)


def test_null_round_trip_udt() -> None:
    udt = "address{street text, zip int, note text}"
    written = find_serializer(udt).serialize({"street": None, "zip": 1, "note": None})
    assert written == NULL + int4(1) + NULL
    assert find_deserializer(udt).deserialize(written) == (None, 1, None)


def test_null_at_every_depth() -> None:
    cql_type = "list<frozen<map<text, frozen<tuple<frozen<set<int>>, u{f frozen<list<int>>}>>>>>"
    value = [None, {"k": None}, {"l": (None, None)}, {"m": ({None}, ([None],))}]
    written = find_serializer(cql_type).serialize(value)
    # These six nulls are an element of the list, a value of a map, two components of a tuple, an
    # element of a set, and an element of the list in the UDT's field.
    assert written.count(NULL) == 6
    assert find_deserializer(cql_type).deserialize(written) == value
