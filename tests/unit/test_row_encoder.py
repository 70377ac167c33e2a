"""Tests binding rows to cells: by position, by name and from objects, one row or many.

Most tests run with three kinds of encoders: with column types of the native core, with column types
that are implemented in Python, and with an encryption policy. `WAYS` has the functions that make
these encoders.
"""

from __future__ import annotations

import itertools
import struct
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from turbocql import UNSET, Column
from turbocql.codec import CqlType, EncodedRow, RowEncoder, encode, find_serializer
from turbocql.codec import routing_key as pack
from turbocql.codec import token as token_of
from turbocql.errors import EncodeError
from turbocql.protocol import ExecuteMessage

COLUMNS = [("id", "int"), ("name", "text"), ("tags", "set<text>")]


class Delegate:
    """A column type that is implemented in Python."""

    def __init__(self, cql_type: str) -> None:
        self.serializer = find_serializer(cql_type)

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        assert protocol_version in (3, 4)
        return self.serializer.serialize(value, protocol_version)


class Policy:
    """An encryption policy for the given columns. Its `encrypt` returns the data unchanged."""

    def __init__(self, columns: list[tuple[str, Any]]) -> None:
        self.types = dict(columns)
        self.asked: list[Any] = []

    def contains_column(self, column: Any) -> bool:
        self.asked.append(column)
        return column.col in self.types

    def column_type(self, column: Any) -> Any:
        return self.types[column.col]

    def encrypt(self, column: Any, data: bytes) -> bytes:
        assert type(data) is bytes
        return data


Columns = list[tuple[str, str]]


def native(columns: Columns, **options: Any) -> RowEncoder:
    return RowEncoder(columns, **options)


def plain(columns: Columns, **options: Any) -> RowEncoder:
    return RowEncoder([(name, Delegate(cql_type)) for name, cql_type in columns], **options)


def encrypted(columns: Columns, **options: Any) -> RowEncoder:
    # In the table, encrypted columns are blobs. The policy knows the types of the values.
    blobs = [("ks", "t", name, "blob") for name, _ in columns]
    return RowEncoder(blobs, encryption_policy=Policy(list(columns)), **options)


WAYS = [native, plain, encrypted]
Way = Callable[..., RowEncoder]
way = pytest.mark.parametrize("way", WAYS)


@dataclass
class User:
    id: int
    name: Any
    tags: Any = ()
    other: str = "not a column"


Named = namedtuple("Named", "tags name id")  # noqa: PYI024
Other = namedtuple("Other", "a b c")  # noqa: PYI024


@way
@pytest.mark.parametrize(
    "row",
    [
        (1, "a", {"x"}),
        [1, "a", {"x"}],
        {"tags": ["x"], "id": 1, "name": "a"},
        OrderedDict(name="a", id=1, tags=("x",)),
        MappingProxyType({"tags": ["x"], "id": 1, "name": "a"}),
        User(1, "a", ["x"]),
        # A named tuple that has a field for each column is bound by name. `Other` has none of the
        # columns and is bound by position.
        Named(["x"], "a", 1),
        Other(1, "a", ["x"]),
    ],
)
def test_rows_of_every_kind(way: Way, row: Any) -> None:
    bound = way(COLUMNS).bind(row)
    assert isinstance(bound, EncodedRow)
    assert bound.cells == [b"\0\0\0\1", b"a", encode("set<text>", {"x"})]
    assert len(bound) == 3
    assert bytes(bound) == b"".join(struct.pack(">i", len(c)) + c for c in bound.cells)


def named(names: str) -> Any:
    return namedtuple("R", names)  # noqa: PYI024


@way
def test_named_tuples_with_names_at_other_positions(way: Way) -> None:
    """A named tuple with fields for only some of the columns is bound by position.

    If one of these fields has another position than its column, the tuple is refused.
    """
    encoder = way([("a", "int"), ("b", "int")])
    swapped, beside, first, few = map(named, ("b a", "b c", "a c", "b"))
    assert encoder.bind(swapped(1, 2)).cells == [b"\0\0\0\2", b"\0\0\0\1"]
    assert encoder.bind(first(1, 2)).cells == [b"\0\0\0\1", b"\0\0\0\2"]
    for row in (beside(1, 2), few(1)):
        with pytest.raises(EncodeError, match=r"R has a value called \"b\" at another position"):
            encoder.bind(row)


@attrs.define
class Attrs:
    tags: list[str]
    id: int
    name: str = "a"


class Struct(msgspec.Struct):
    tags: list[str]
    id: int
    name: str = "a"
    more: int = 5


class Model(pydantic.BaseModel):
    tags: list[str] = pydantic.Field(alias="labels")
    id: int
    name: str = "a"


@way
def test_objects_of_every_kind_of_class(way: Way) -> None:
    encoder = way(COLUMNS)
    for row in (Attrs(["x"], 1), Struct(["x"], 1), Model(labels=["x"], id=1)):
        expected = [b"\0\0\0\1", b"a", encode("set<text>", {"x"})]
        assert encoder.bind(row).cells == expected
    with pytest.raises(EncodeError, match="Attrs has no such field; UNSET"):
        way([("id", "int"), ("other", "int")]).bind(Attrs([], 1))
    for kind in (Attrs, Struct, Model):
        with pytest.raises(TypeError, match="sequence, mapping, dataclass or object of"):
            encoder.bind(kind)


@way
def test_null_unset_and_missing(way: Way) -> None:
    encoder = way(COLUMNS)
    assert encoder.bind((1, None, UNSET)).cells == [b"\0\0\0\1", None, UNSET]
    assert encoder.bind((1,)).cells == [b"\0\0\0\1", UNSET, UNSET]
    assert encoder.bind(()).cells == [UNSET] * 3
    with pytest.raises(TypeError, match="got None"):
        encoder.bind(None)
    assert encoder.bind({"name": None}).cells == [UNSET, None, UNSET]
    assert encoder.bind(User(1, UNSET, None)).cells == [b"\0\0\0\1", UNSET, None]


@way
def test_errors_name_the_column_and_the_place(way: Way) -> None:
    encoder = way(COLUMNS)
    with pytest.raises(EncodeError, match=r'column "id"') as raised:
        encoder.bind(("1", "a", []))
    assert raised.value.path.startswith('column "id"')
    with pytest.raises(EncodeError, match=r'column "tags"'):
        encoder.bind((1, "a", ["x", 2]))
    with pytest.raises(EncodeError, match="3 bind markers, got 4"):
        encoder.bind((1, "a", [], 4))
    near = r'no bind marker "nmae"; did you mean name\? It has: id, name, tags'
    with pytest.raises(EncodeError, match=near):
        encoder.bind({"id": 1, "nmae": "a"})
    for row in ("abc", b"abc", 7, {1, 2}, iter([1])):
        with pytest.raises(TypeError, match="sequence, mapping, dataclass or object of"):
            encoder.bind(row)


def test_a_dataclass_that_does_not_fit() -> None:
    with pytest.raises(EncodeError, match=r'column "zip".*User has no such field'):
        RowEncoder([("id", "int"), ("zip", "int")]).bind(User(1, "a"))
    with pytest.raises(TypeError):
        RowEncoder([("id", "int")]).bind(User)


@way
def test_routing_keys_and_tokens(way: Way) -> None:
    encoder = way(COLUMNS, key_columns=["name", "id"])
    assert encoder.key_columns == ("name", "id")
    bound = encoder.bind((7, "ab", None))
    assert bound.routing_key == b"\0\2ab\0" + b"\0\4\0\0\0\7\0"
    assert bound.routing_key == pack([b"ab", b"\0\0\0\7"])
    assert bound.token == token_of(bound.routing_key)
    single = way(COLUMNS, key_columns=[0]).bind((7,))
    assert single.routing_key == b"\0\0\0\7"
    none = way(COLUMNS).bind((7,))
    assert (none.routing_key, none.token) == (None, None)


@way
@pytest.mark.parametrize("row", [(None, "a"), (UNSET, "a"), (), {"name": "a"}])
def test_key_columns_need_a_value(way: Way, row: Any) -> None:
    with pytest.raises(EncodeError, match=r'column "id".*partition key'):
        way(COLUMNS, key_columns=["id"]).bind(row)


@pytest.mark.parametrize(
    ("keys", "raised"),
    [(["nope"], ValueError), ([3], ValueError), (["id", 0], ValueError), ("id", TypeError)],
)
def test_wrong_key_columns(keys: Any, raised: type[Exception]) -> None:
    with pytest.raises(raised, match="key_columns"):
        RowEncoder(COLUMNS, key_columns=keys)


@way
def test_version_3_has_no_unset(way: Way) -> None:
    encoder = way(COLUMNS, protocol_version=3)
    assert encoder.protocol_version == 3
    assert encoder.bind((1, None, [])).cells[1] is None
    rows: list[Any] = [(1, UNSET, []), (1,), {"id": 1}]
    for row in rows:
        with pytest.raises(EncodeError, match=r'column "name".*protocol version 3'):
            encoder.bind(row)


def test_many_rows() -> None:
    encoder = RowEncoder(COLUMNS, key_columns=["id"])
    rows = encoder.bind_many((i, str(i), None) for i in range(1000))
    assert len(rows) == 1000
    assert rows[999].cells == [struct.pack(">i", 999), b"999", None]
    assert rows[-1].cells == rows[999].cells
    assert rows.tokens()[7] == rows[7].token
    assert [row.cells[1] for row in rows][:2] == [b"0", b"1"]
    assert rows.byte_size == sum(len(bytes(row)) for row in rows)
    assert list(rows[7]) == rows[7].cells
    with pytest.raises(IndexError):
        rows[1000]
    with pytest.raises(EncodeError, match=r'row 2, column "name": expected text'):
        encoder.bind_many([(1, "a"), (2, "b"), (3, 4)])
    assert len(encoder.bind_many([])) == 0


VECTORS = [("id", "int"), ("v", "vector<float, 3>")]


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f4", "int16", "float16"])
@pytest.mark.parametrize("way", WAYS)
def test_a_two_dimensional_array_row_by_row(way: Way, dtype: str) -> None:
    array = np.arange(12).reshape(4, 3).astype(dtype)
    encoder = way(VECTORS)
    expected = [[struct.pack(">i", i), struct.pack(">3f", *array[i])] for i in range(4)]
    for columns in (
        [range(4), array],
        {"v": array, "id": np.arange(4, dtype="int32")},
        [[0, 1, 2, 3], np.asfortranarray(array)],
        [(0, 1, 2, 3), np.concatenate([array, array], axis=1)[:, :3]],
    ):
        rows = encoder.bind_columns(columns)
        assert [row.cells for row in rows] == expected


def test_columns_that_do_not_fit() -> None:
    encoder = RowEncoder(VECTORS)
    array = np.zeros((4, 3), dtype="float32")
    assert encoder.bind_columns([[1, 2]])[1].cells == [b"\0\0\0\2", UNSET]
    assert len(encoder.bind_columns([])) == 0
    with pytest.raises(EncodeError, match=r'column "v".*expected 3 rows.*got 4'):
        encoder.bind_columns([[1, 2, 3], array])
    with pytest.raises(EncodeError, match=r'row 0, column "v".*expected 3 elements.*got 2'):
        encoder.bind_columns([[1, 2, 3, 4], array[:, :2]])
    with pytest.raises(EncodeError, match=r'row 2, column "id"'):
        encoder.bind_columns([[1, 2, "x", 4], array])
    with pytest.raises(EncodeError, match="got more"):
        encoder.bind_columns([[1], [array[0]], [2]])
    with pytest.raises(EncodeError, match='no column "w"'):
        encoder.bind_columns({"id": [1], "w": [2]})
    for column in ("abcd", {1, 2}, {1: 2}, 7, np.ma.array([1, 2], mask=[False, True])):
        with pytest.raises(EncodeError, match=r'column "id".*expected a sequence of int'):
            encoder.bind_columns([column])


def test_the_forms_in_which_columns_are_passed() -> None:
    by_hand = RowEncoder(
        [
            ("ks", "t", "a", CqlType("int")),
            Column("ks", "t", "b", "list<int>"),
            ("c", "text"),
        ]
    )
    assert by_hand.columns == ("a", "b", "c")
    assert [str(t) for t in by_hand.types] == ["int", "list<int>", "text"]
    for wrong in ([("a",)], ["a"], [("a", "int", 3)], [7], [("a", 7)], [("a", object())]):
        with pytest.raises(TypeError):
            RowEncoder(wrong)
    with pytest.raises(ValueError, match="not a CQL type"):
        RowEncoder([("a", "imt")])


class Broken(Policy):
    def __init__(self, result: Any) -> None:
        super().__init__([("id", "int")])
        self.result = result

    def encrypt(self, column: Any, data: bytes) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def test_a_bound_row_can_be_the_values_of_a_message() -> None:
    row = RowEncoder(COLUMNS).bind((1, None))
    message = ExecuteMessage(b"id", row)
    assert message == ExecuteMessage(b"id", row.cells)
    assert bytes(row) in message.encode(4)


def test_a_policy_needs_keyspace_table_and_name() -> None:
    for column in (("id", "blob"), ("ks", "", "id", "blob")):
        with pytest.raises(ValueError, match="by keyspace, table and name"):
            RowEncoder([column], encryption_policy=Policy([("id", "int")]))


def test_the_calls_and_results_of_a_policy() -> None:
    policy = Policy([("v", "int")])
    columns = [("ks", "t", "id", "int"), ("ks", "t", "v", "blob")]
    encoder = RowEncoder(columns, encryption_policy=policy)
    assert policy.asked == [("ks", "t", "id"), ("ks", "t", "v")]
    assert policy.asked[1]._fields == ("ks", "table", "col")
    assert encoder.bind((1, 2)).cells == [b"\0\0\0\1", b"\0\0\0\2"]
    sealed = RowEncoder([("ks", "t", "id", "blob")], encryption_policy=Broken(b"sealed"))
    assert sealed.bind((1,)).cells == [b"sealed"]
    assert sealed.bind((None,)).cells == [None]
    error = RuntimeError("no key")
    for result, message in ((error, "encrypt failed"), ("text", "must return bytes, got str")):
        with pytest.raises(EncodeError, match=f'column "id".*{message}') as raised:
            RowEncoder([("ks", "t", "id", "blob")], encryption_policy=Broken(result)).bind((1,))
        assert raised.value.__cause__ is (error if result is error else None)
    with pytest.raises(KeyboardInterrupt):
        RowEncoder([("ks", "t", "id", "blob")], encryption_policy=Broken(KeyboardInterrupt())).bind(
            (1,)
        )


def test_a_type_that_is_implemented_in_python() -> None:
    class Text:
        def serialize(self, value: Any, protocol_version: int) -> Any:
            return value.upper().encode()

    encoder = RowEncoder([("a", Text())], key_columns=["a"])
    assert encoder.bind(("x",)).cells == [b"X"]
    assert encoder.bind(("x",)).routing_key == b"X"
    with pytest.raises(EncodeError, match=r'column "a".*serialize failed') as raised:
        encoder.bind((1,))
    assert isinstance(raised.value.__cause__, AttributeError)
    assert encoder.types[0].kind == "custom"


@pytest.mark.parametrize("parts", [b"abc", "abc", 3, [1], ["a"], [None]])
def test_parts_of_a_key(parts: Any) -> None:
    with pytest.raises(TypeError, match="key"):
        pack(parts)


def test_routing_keys_of_parts() -> None:
    assert pack([b"abc"]) == b"abc"
    assert pack((bytearray(b"a"), memoryview(b"bc"), b"")) == b"\0\1a\0\0\2bc\0\0\0\0"
    with pytest.raises(ValueError, match="65535"):
        pack([b"a", bytes(65_536)])
    assert pack([bytes(65_536)]) == bytes(65_536)
    wrong: list[Any] = [[], itertools.repeat(b"a")]
    for parts in wrong:
        with pytest.raises(ValueError, match="1 to 65535 parts"):
            pack(parts)
    # These are the tokens that Cassandra computes with its variant of Murmur3.
    assert token_of(b"") == 0
    assert token_of(b"123") == -7468325962851647638
