"""Tests CQL types made from text, Java class names and parts, and their attributes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from turbocql.codec import CqlType, find_deserializer, find_serializer

MARSHAL = "org.apache.cassandra.db.marshal."


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "map<text, frozen<list<int>>>",
        "tuple<int, text, vector<float, 3>>",
        "set<frozen<map<timeuuid, duration>>>",
        "'org.example.Odd''Type'",
    ],
)
def test_types_are_printed_as_cql(text: str) -> None:
    assert str(CqlType(text)) == text
    assert CqlType(text).definition == text
    assert repr(CqlType("int")) == "CqlType('int')"


def test_user_defined_types_of_text() -> None:
    cql_type = CqlType('frozen<app."Home ""Address"{street text, "Zip Code" int}>')
    (udt,) = cql_type.subtypes
    assert (udt.keyspace, udt.name) == ("app", 'Home "Address')
    assert udt.field_names == ("street", "Zip Code")
    assert [str(t) for t in udt.subtypes] == ["text", "int"]
    assert str(cql_type) == 'frozen<app."Home ""Address">'
    assert CqlType(cql_type.definition) == cql_type


def test_user_defined_types_looked_up() -> None:
    address = CqlType.udt("Address", [("zip", "int")], keyspace="app")
    plain = CqlType("tag{label text}")
    udts = {"app.Address": address, "tag": plain, "word": "other{n int}"}
    assert CqlType('list<frozen<app."Address">>', udts=udts).subtypes[0].subtypes[0] == address
    assert CqlType("map<text, tag>", udts=udts).subtypes[1] == plain
    assert CqlType("word", udts=udts).name == "other"
    with pytest.raises(ValueError, match="unknown type"):
        CqlType("set<nowhere>", udts=udts)
    with pytest.raises(ValueError, match="unknown type"):
        CqlType("set<tag>")


class Raising(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise RuntimeError(key)


def test_an_exception_of_the_lookup_is_passed_on() -> None:
    with pytest.raises(RuntimeError, match="tag"):
        CqlType("set<tag>", udts=Raising())


@pytest.mark.parametrize(
    ("class_name", "cql"),
    [
        (MARSHAL + "Int32Type", "int"),
        ("UTF8Type", "text"),
        (f"{MARSHAL}ReversedType({MARSHAL}TimestampType)", "timestamp"),
        (f"{MARSHAL}FrozenType({MARSHAL}ListType({MARSHAL}LongType))", "frozen<list<bigint>>"),
        (f"{MARSHAL}MapType(UTF8Type,{MARSHAL}SimpleDateType)", "map<text, date>"),
        (f"{MARSHAL}VectorType({MARSHAL}FloatType , 3)", "vector<float, 3>"),
        ("com.example.Thing(1, 2)", "'com.example.Thing(1, 2)'"),
        ("com.example.Int32Type", "'com.example.Int32Type'"),
    ],
)
def test_java_class_names(class_name: str, cql: str) -> None:
    cql_type = CqlType.from_class_name(class_name)
    assert str(cql_type) == cql
    assert CqlType.from_class_name(cql_type.class_name) == cql_type


def test_java_names_of_user_defined_types_are_in_hex() -> None:
    class_name = f"{MARSHAL}UserType(app,{b'Zip'.hex()},{'größe'.encode().hex()}:Int32Type)"
    udt = CqlType.from_class_name(class_name)
    assert udt.definition == 'app."Zip"{"größe" int}'
    assert udt.kind == "udt"
    assert CqlType.from_class_name(udt.class_name) == udt


def test_composites() -> None:
    composite = CqlType.from_class_name("CompositeType(Int32Type,UTF8Type)")
    assert composite == CqlType.composite_of("int", "text")
    assert CqlType(str(composite)) == composite
    assert composite.kind == "composite"
    written = find_serializer(composite).serialize((1, "ab"))
    assert written == b"\0\4\0\0\0\1\0" + b"\0\2ab\0"
    assert find_deserializer(composite).deserialize(written) == (1, "ab")
    short = find_serializer(composite).serialize([1])
    assert find_deserializer(composite).deserialize(short) == (1,)
    with pytest.raises(ValueError, match="at most 2 components"):
        find_serializer(composite).serialize((1, "a", 2))
    with pytest.raises(TypeError, match=r"value\[1\]"):
        find_serializer(composite).serialize((1, None))
    with pytest.raises(ValueError, match=r"value\[1\].*65535"):
        find_serializer(composite).serialize((1, "x" * 65_536))
    with pytest.raises(ValueError, match="malformed"):
        find_deserializer(composite).deserialize(b"\xff\xff12")


def test_unknown_classes_are_bytes() -> None:
    custom = CqlType.from_class_name("org.example.Point")
    assert custom.kind == "custom"
    assert find_serializer(custom).serialize(b"\1\2") == b"\1\2"
    assert find_deserializer(custom).deserialize(b"\1\2") == b"\1\2"


def test_types_built_from_parts() -> None:
    udt = CqlType.udt("address", {"zip": "int", "lines": CqlType.list_of("text")})
    built = CqlType.map_of(
        CqlType.frozen(CqlType.set_of("uuid")),
        CqlType.tuple_of("int", udt, CqlType.vector_of("float", 3)),
    )
    assert built == CqlType(
        "map<frozen<set<uuid>>, tuple<int, address{zip int, lines list<text>}, vector<float, 3>>>"
    )
    assert built.kind == "map"
    assert built.subtypes[1].subtypes[2].dimension == 3
    assert (built.dimension, built.name, built.keyspace, built.field_names) == (
        None,
        None,
        None,
        (),
    )


def test_equal_hashed_copied_pickled() -> None:
    text = 'map<text, app."T"{a int}>'
    one, other = CqlType(text), CqlType(text)
    assert one == other
    assert hash(one) == hash(other)
    assert one != CqlType("int")
    assert (one == "int") is False
    for again in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), CqlType(one)):
        assert again == one
    serializer = pickle.loads(pickle.dumps(find_serializer(one)))
    assert serializer.serialize({"k": (1,)}) == find_serializer(text).serialize({"k": (1,)})
    reader = pickle.loads(pickle.dumps(find_deserializer("timestamp", naive_timestamps=True)))
    assert reader.deserialize(bytes(8)).tzinfo is None
    with pytest.raises(AttributeError):
        one.kind = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "raised", "message"),
    [
        (lambda: CqlType(""), ValueError, "position 0"),
        (lambda: CqlType("list<" * 100_000), ValueError, "deeper"),
        (lambda: CqlType.from_class_name("ListType(" * 100_000), ValueError, "deeper"),
        (lambda: CqlType.from_class_name("ListType(Int32Type"), ValueError, "not a Java class"),
        (lambda: CqlType.vector_of("int", -1), ValueError, "dimension"),
        (lambda: CqlType.vector_of("int", 2**31), ValueError, "dimension"),
        (lambda: CqlType.vector_of("int", 10**30), ValueError, "dimension"),
        (lambda: CqlType.vector_of("int", 1.5), TypeError, "dimension"),  # type: ignore[arg-type]
        (lambda: CqlType.tuple_of(), ValueError, "at least one"),
        (lambda: CqlType.udt("t", [("a", "int"), ("a", "int")]), ValueError, "two fields"),
        (lambda: CqlType.list_of(list), TypeError, "a CQL type is"),
        (lambda: CqlType(3), TypeError, "a CQL type is"),
        (lambda: CqlType.vector_of(CqlType.vector_of("int", 0), 2**31 - 1), ValueError, "vector"),
    ],
)
def test_invalid_types_are_refused(make: Any, raised: type[Exception], message: str) -> None:
    with pytest.raises(raised, match=message):
        make()


def nested(grow: Callable[[CqlType], CqlType], times: int) -> CqlType:
    cql_type = CqlType("int")
    for _ in range(times):
        cql_type = grow(cql_type)
    return cql_type


def test_the_size_of_built_types_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than 65536 parts"):
        nested(lambda t: CqlType.tuple_of(t, t), 64)
    assert nested(CqlType.list_of, 63).kind == "list"
    with pytest.raises(ValueError, match="deeper than 64 levels"):
        nested(CqlType.list_of, 64)
