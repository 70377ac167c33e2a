"""Tests decoding RESULT bodies: kinds of rows, column metadata and the attributes of a page."""

from __future__ import annotations

import gc
import pickle
import struct
from array import array
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Literal
from uuid import UUID

import numpy as np
import pytest
from tests.support.results import cell, result

from turbocql import Column, _core, protocol
from turbocql.codec import CqlType, encode, find_serializer
from turbocql.errors import ConfigError, DecodeError
from turbocql.protocol import ResultRows, RowsDecoder

Kind = Literal["named", "tuple", "dict"]
KINDS: tuple[Kind, ...] = ("named", "tuple", "dict")
COLUMNS = [("id", "int"), ("name", "text")]
CELLS = [(b"\0\0\0\7", b"a"), (b"\0\0\0\x08", None)]
BODY = result(COLUMNS, CELLS)
UNDESCRIBED = result(2, CELLS)


def test_rows_as_named_tuples() -> None:
    rows: list[Any] = RowsDecoder("named").decode(BODY).rows
    first, second = rows
    assert RowsDecoder().decode(BODY).rows == [first, second]
    assert (first.id, first.name, second.id, second.name) == (7, "a", 8, None)
    assert issubclass(type(first), tuple)
    assert type(first)._fields == ("id", "name")
    assert type(first).__name__ == "Row"
    assert repr(second) == "Row(id=8, name=None)"
    assert first._replace(name="b") == (7, "b")
    assert hash(first) == hash((7, "a"))
    assert pickle.loads(pickle.dumps(first)) == first


def test_rows_as_tuples() -> None:
    rows = RowsDecoder("tuple").decode(BODY).rows
    assert rows == [(7, "a"), (8, None)]
    assert [type(row) for row in rows] == [tuple, tuple]
    assert type(rows) is list


def test_rows_as_dicts() -> None:
    rows = RowsDecoder("dict").decode(BODY).rows
    assert rows == [{"id": 7, "name": "a"}, {"id": 8, "name": None}]
    assert [list(row) for row in rows] == [["id", "name"]] * 2
    # Each dict is independent of the other dicts. Keys can be added to a dict and removed from it.
    rows[0]["more"] = 1
    del rows[0]["id"]
    rows[1]["name"] = "b"
    assert rows == [{"name": "a", "more": 1}, {"id": 8, "name": "b"}]
    again = RowsDecoder("dict").decode(BODY).rows
    assert again == [{"id": 7, "name": "a"}, {"id": 8, "name": None}]


def test_a_dict_of_many_columns() -> None:
    columns = [(f"c{i}", "int") for i in range(1000)]
    row = tuple(struct.pack(">i", i) for i in range(1000))
    decoded = RowsDecoder("dict").decode(result(columns, [row, row])).rows
    assert decoded == [{f"c{i}": i for i in range(1000)}] * 2


def test_repeated_names_and_names_that_are_no_identifiers() -> None:
    columns = [("a", "int"), ("a", "text"), ("class", "int"), ("", "int"), ("Zip Code", "int")]
    body = result(columns, [(b"\0\0\0\1", b"x", b"\0\0\0\2", None, b"\0\0\0\3")])
    (row,) = RowsDecoder().decode(body).rows
    assert row == (1, "x", 2, None, 3)
    assert type(row)._fields == ("a", "field_1", "field_2", "field_3", "Zip_Code")
    assert RowsDecoder("tuple").decode(body).rows == [(1, "x", 2, None, 3)]
    # If a name is repeated, a dict has the last value.
    expected = {"a": "x", "class": 2, "": None, "Zip Code": 3}
    assert RowsDecoder("dict").decode(body).rows == [expected]
    assert [column.name for column in RowsDecoder().decode(body).columns] == [
        name for name, _ in columns
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows(kind: Kind) -> None:
    for columns in (COLUMNS, []):
        page = RowsDecoder(kind).decode(result(columns))
        assert (page.rows, len(page)) == ([], 0)
        assert [column.name for column in page.columns] == [name for name, _ in columns]
    assert RowsDecoder(kind, columns=[]).decode(result(0)).rows == []


def test_the_attributes_of_a_page() -> None:
    page = RowsDecoder().decode(BODY)
    assert isinstance(page, ResultRows)
    assert page.rows is page.rows
    assert len(page) == 2
    assert (page.paging_state, page.metadata_id) == (None, None)
    assert repr(page) == "<ResultRows of 2 rows, 2 columns>"
    for state, new_id in ((b"state", None), (None, b"id"), (b"", b""), (bytes(70_000), b"\xff")):
        for columns in (COLUMNS, 2):
            decoder = RowsDecoder(columns=COLUMNS)
            body = result(columns, CELLS, paging_state=state, metadata_id=new_id)
            page = decoder.decode(body)
            assert (page.paging_state, page.metadata_id) == (state, new_id)
            assert page.rows == [(7, "a"), (8, None)]
    # The protocol allows a null paging state.
    null = struct.pack(">iiii", 2, 1 | 2, 0, -1) + b"\0\0\0\0" + b"\0\0\0\0"
    assert RowsDecoder().decode(null).paging_state is None


def test_columns_of_one_table_and_of_several() -> None:
    expected = (Column("ks", "t", "id", "int"), Column("ks", "t", "name", "text"))
    for shared in (True, False):
        page = RowsDecoder().decode(result(COLUMNS, CELLS, shared=shared))
        assert page.columns == expected
        assert [type(column) for column in page.columns] == [Column, Column]
        assert page.rows == [(7, "a"), (8, None)]


def test_columns_are_passed_in_the_forms_of_a_row_encoder() -> None:
    given: list[Any] = [
        COLUMNS,
        tuple(COLUMNS),
        iter(COLUMNS),
        [("id", CqlType("int")), ("name", CqlType("text"))],
        [("ks", "t", "id", "int"), ("ks", "t", "name", "text")],
        [Column("ks", "t", "id", "int"), Column("ks", "t", "name", "text")],
    ]
    for columns in given:
        decoder = RowsDecoder(columns=columns)
        assert repr(decoder) == "<RowsDecoder named of 2 columns>"
        for _ in range(2):
            page = decoder.decode(UNDESCRIBED)
            assert page.rows == [(7, "a"), (8, None)]
            assert [column.name for column in page.columns] == ["id", "name"]
            assert [str(column.cql_type) for column in page.columns] == ["int", "text"]
    assert repr(RowsDecoder("dict")) == "<RowsDecoder dict>"
    whole = RowsDecoder(columns=given[-1]).decode(UNDESCRIBED).columns
    assert whole == tuple(given[-1])


def test_metadata_takes_precedence_over_passed_columns() -> None:
    decoder = RowsDecoder("dict", columns=[("x", "blob"), ("y", "blob")])
    assert decoder.decode(BODY).rows == [{"id": 7, "name": "a"}, {"id": 8, "name": None}]
    expected = [{"x": b"\0\0\0\7", "y": b"a"}, {"x": b"\0\0\0\x08", "y": None}]
    assert decoder.decode(UNDESCRIBED).rows == expected


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        (5, TypeError, "not iterable"),
        ("ab", TypeError, "a column is"),
        ([("a",)], TypeError, "a column is"),
        ([("a", "foo<")], ValueError, "not a CQL type"),
        ([("a", object())], TypeError, "a CQL type is"),
        ([("a", "int")] * 65_536, ValueError, "at most 65535 columns"),
    ],
)
def test_invalid_columns_are_refused(columns: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        RowsDecoder(columns=columns)


def test_other_kinds_and_bodies_are_refused() -> None:
    no_kind: Any = "list"
    with pytest.raises(ConfigError, match="'named', 'tuple' or 'dict'"):
        RowsDecoder(no_kind)
    for no_text in (5, None, b"named"):
        with pytest.raises(TypeError):
            RowsDecoder(no_text)  # type: ignore[arg-type]
    positional: Any = RowsDecoder
    with pytest.raises(TypeError):
        positional("named", COLUMNS)
    for no_bytes in ("abc", None, 5, [1], np.zeros(2)):
        with pytest.raises(TypeError, match="bytes-like"):
            RowsDecoder().decode(no_bytes)  # type: ignore[arg-type]
    made: Callable[[], Any] = ResultRows
    with pytest.raises(TypeError):
        made()


def test_bodies_in_any_bytes() -> None:
    decoder = RowsDecoder("tuple")
    twice = bytes(byte for byte in BODY for _ in range(2))

    class Own(bytes):
        def __len__(self) -> int:
            return 1

    bodies: list[Any] = [bytearray(BODY), memoryview(BODY), memoryview(twice)[::2], Own(BODY)]
    bodies += [array("B", BODY), np.frombuffer(BODY, "uint8")]
    for body in bodies:
        assert decoder.decode(body).rows == [(7, "a"), (8, None)]
    changed = bytearray(result([("a", "blob")], [(b"abc",)], paging_state=b"state"))
    page = decoder.decode(changed)
    changed[:] = bytes(len(changed))
    assert (page.rows, page.paging_state) == ([(b"abc",)], b"state")
    changed.clear()


def test_naive_timestamps_and_numpy_vectors() -> None:
    columns = [("t", "timestamp"), ("v", "vector<float, 2>"), ("l", "list<timestamp>")]
    instant = datetime(2024, 2, 29, 1, 2, 3, 4000, timezone.utc)
    values = [instant, [1.0, 2.0], [instant, None]]
    row = [encode(cql_type, value) for (_, cql_type), value in zip(columns, values, strict=True)]
    assert RowsDecoder("tuple").decode(result(columns, [row])).rows == [tuple(values)]
    decoder = RowsDecoder("tuple", naive_timestamps=True, numpy_vectors=True)
    ((moment, vector, moments),) = decoder.decode(result(columns, [row])).rows
    naive = instant.replace(tzinfo=None)
    assert (moment, moments) == (naive, [naive, None])
    assert isinstance(vector, np.ndarray)
    assert (vector.dtype, vector.tolist()) == (np.dtype("float32"), [1.0, 2.0])


def test_every_type_has_its_number_or_its_class() -> None:
    types = [
        *("ascii", "bigint", "blob", "boolean", "counter", "decimal", "double", "float", "int"),
        *("timestamp", "uuid", "text", "varint", "timeuuid", "inet", "date", "time", "smallint"),
        *("tinyint", "duration", "list<int>", "set<text>", "map<int, list<text>>"),
        *("tuple<int, text>", "u{a int, b list<text>}", "vector<float, 3>", "'org.example.Odd'"),
        *("list<vector<text, 2>>", "tuple<u{a vector<int, 1>}>"),
    ]
    columns = [(f"c{i}", cql_type) for i, cql_type in enumerate(types)]
    for shared in (True, False):
        page = RowsDecoder().decode(result(columns, [[None] * len(types)], shared=shared))
        assert page.rows == [(None,) * len(types)]
        for column, cql_type in zip(page.columns, types, strict=True):
            assert column.cql_type == str(CqlType(cql_type))
        assert page.columns[23].cql_type == "tuple<int, text>"
    # A server sends the Java class name of a type that has no number in the server's protocol.
    for cql_type in types:
        class_name = CqlType(cql_type).class_name.encode()
        named = struct.pack(">H", len(class_name)) + class_name
        body = result([("a", "'a'")]).replace(b"\0\1a\0\0\0\1a", b"\0\1a\0\0" + named)
        assert RowsDecoder().decode(body).columns[0].cql_type == str(CqlType(cql_type))


def test_records_of_user_defined_types() -> None:
    cql_type = 'app."Home Address"{street text, "Zip Code" int}'
    data = find_serializer(cql_type).serialize(("s", 5))
    (row,) = RowsDecoder().decode(result([("a", cql_type)], [[data]])).rows
    assert repr(row) == "Row(a=Home_Address(street='s', Zip_Code=5))"


def test_more_metadata_than_the_cache_holds() -> None:
    """Decodes bodies with more different metadata than the cache holds.

    The bodies are decoded forward, backward and in another order. So the cache is hit, evicts
    metadata, and metadata is parsed again.
    """
    bodies = [
        result([(f"n{i}", "int")] * (i % 3 + 1), [[b"\0\0\0\1"] * (i % 3 + 1)], shared=i % 2 == 0)
        for i in range(150)
    ]
    decoder = RowsDecoder("dict")
    expected = [RowsDecoder("dict").decode(body).rows for body in bodies]
    order = [*range(150), *reversed(range(150)), *(i * 7 % 150 for i in range(600)), *[3] * 5]
    for i in order:
        page = decoder.decode(bodies[i])
        assert page.rows == expected[i]
        assert page.columns[0].name == f"n{i}"


def test_equal_metadata_with_other_flags_and_counts() -> None:
    """The cache must compare more than the bytes that describe the columns.

    Two other parts of the metadata come before these bytes: the number of columns, and the flag for
    columns that share one table.
    """
    one = result([("a", "int")], [[b"\0\0\0\1"]])
    two = result([("a", "int"), ("b", "int")], [[b"\0\0\0\1"] * 2])
    bodies = [one, two]
    for body in (one, two):
        for flags in (0, 1):
            for count in (0, 1, 2, 3):
                bodies.append(body[:4] + struct.pack(">ii", flags, count) + body[12:])

    def outcome(decoder: RowsDecoder, body: bytes) -> object:
        try:
            page = decoder.decode(body)
        except DecodeError as error:
            return str(error)
        return page.rows, page.columns

    shared = RowsDecoder()
    fresh = [outcome(RowsDecoder(), body) for body in bodies]
    assert len({str(seen) for seen in fresh}) > 4
    for _ in range(3):
        assert [outcome(shared, body) for body in bodies] == fresh
        bodies.reverse()
        fresh.reverse()


@pytest.mark.parametrize("kind", [1, 3, 4, 5, 0, 6, -1, 2**31 - 1])
def test_results_of_other_kinds(kind: int) -> None:
    """Kind 1 is VOID, kind 3 SET_KEYSPACE, kind 4 PREPARED, and kind 5 SCHEMA_CHANGE."""
    body = struct.pack(">i", kind) + b"\0\2ks"
    with pytest.raises(DecodeError) as caught:
        RowsDecoder().decode(body)
    if 1 <= kind <= 5:
        assert str(caught.value) == f"a result of kind {kind}, which has no rows"
    else:
        assert str(caught.value).startswith(f"not the body of a RESULT: it begins with {kind}, ")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (UNDESCRIBED, "2 columns without a description"),
        (struct.pack(">iii", 2, 0x10, 0), "unknown flags in the metadata"),
        (struct.pack(">iii", 2, -(2**31), 0), "unknown flags in the metadata"),
        (struct.pack(">iii", 2, 1, -1), "a length of -1"),
        (struct.pack(">iii", 2, 0, 2**31 - 1), "a count of 2147483647 elements in 0 bytes"),
        (struct.pack(">iiii", 2, 3, 0, 2**31 - 1), "needs 2147483647 more bytes, 0 left"),
        (result(COLUMNS)[:-4] + struct.pack(">i", -1), "a length of -1"),
        (result(COLUMNS)[:-4] + struct.pack(">i", 2**31 - 1), "a count of 2147483647 elements"),
        (BODY[:-12] + struct.pack(">i", 3), "needs 3 more bytes, 0 left"),
        (result([])[:-4] + struct.pack(">i", 1), "rows without columns"),
        (BODY + b"\0", "malformed a page of rows: 1 bytes left over"),
        (result(COLUMNS) + bytes(3), "malformed a page of rows: 3 bytes left over"),
        (BODY.replace(b"id", b"\xff\xfe"), "a name that is not UTF-8"),
        (result([("a", "int")]).replace(b"\0\x09", b"\0\x0a"), "an unknown type number"),
        (result([("a", "int")]).replace(b"\0\x09", b"\0\x20" * 64 + b"\0\x09"), "too deep"),
        (result([("a", "'a.B'")]).replace(b"a.B", b"a.("), "position"),
        (result([("a", "tuple<int>")]).replace(b"\0\1\0\x09", b"\xff\xff\0\x09"), "count of 65535"),
    ],
)
def test_bodies_that_are_no_results(body: bytes, said: str) -> None:
    decoder = RowsDecoder()
    for _ in range(2):
        with pytest.raises(DecodeError, match=said) as caught:
            decoder.decode(body)
        assert caught.value.path == ""
    # The decoder must not have cached the metadata of the body that failed.
    assert decoder.decode(BODY).rows == [(7, "a"), (8, None)]


def test_the_number_of_passed_columns_must_match() -> None:
    for known in (0, 1, 3):
        columns = [(f"c{i}", "blob") for i in range(known)]
        said = f"2 columns without a description, but {known} were described before"
        with pytest.raises(DecodeError, match=said):
            RowsDecoder(columns=columns).decode(UNDESCRIBED)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_that_are_no_values(kind: Kind) -> None:
    columns = [("id", "int"), ("tags", "list<int>"), ("name", "text")]
    good = [b"\0\0\0\7", encode("list<int>", [1, 2]), b"a"]
    wrong_list = [good[0], encode("list<int>", [1]) + b"\0", good[2]]
    wrong_part = [good[0], struct.pack(">i", 2) + cell(b"\0\0\0\1") + cell(b"\0"), good[2]]
    for row, path, cql_type, said in [
        ([b"\0", *good[1:]], 'column "id"', "int", "malformed int: expected 4 bytes, got 1"),
        (wrong_list, 'column "tags"', "list<int>", "1 bytes left over"),
        (wrong_part, 'column "tags"[1]', "int", "malformed int: expected 4 bytes, got 1"),
    ]:
        for rows in ([row], [good, good, row], [row, good]):
            with pytest.raises(DecodeError, match=said) as caught:
                RowsDecoder(kind).decode(result(columns, rows))
            assert (caught.value.path, caught.value.cql_type) == (path, cql_type)
            assert str(caught.value).startswith(f"{path}: malformed")


WHOLE = result(
    [("id", "int"), ("u", "ks.u{a int, b list<text>}"), ("m", "map<int, text>"), ("x", "'a.B'")],
    [[b"\0\0\0\7", cell(b"\0\0\0\1"), encode("map<int, text>", {1: "a"}), b"x"]] * 2,
    paging_state=b"state",
    metadata_id=b"id",
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_truncation(kind: Kind) -> None:
    kept = RowsDecoder(kind, columns=COLUMNS)
    for body in (WHOLE, BODY, UNDESCRIBED):
        kept.decode(body)
        for end in range(len(body)):
            for decoder in (kept, RowsDecoder(kind, columns=COLUMNS)):
                with pytest.raises(DecodeError):
                    decoder.decode(body[:end])
        for more in (b"\0", bytes(4), b"\xff" * 4, body):
            with pytest.raises(DecodeError):
                kept.decode(body + more)
        kept.decode(body)


def test_what_the_collector_knows_of_rows() -> None:
    """The GC tracks only rows that can be part of a reference cycle."""
    quick = {name for name, on, _ in _core.quick_paths() if on}
    atomic = [("a", "int"), ("b", "text"), ("c", "blob"), ("d", "timestamp"), ("e", "double")]
    atomic += [("g", "uuid"), ("h", "inet"), ("i", "time"), ("j", "decimal")]
    row = [b"\0\0\0\7", b"x", b"y", bytes(8), bytes(8), bytes(16), bytes(4), bytes(8), bytes(5)]
    for kind in ("tuple", "named"):
        rows = RowsDecoder(kind).decode(result(atomic, [row] * 3)).rows
        assert gc.is_tracked(rows)
        # If the quick path "rows" is off, turbocql constructs rows by calling their classes, and
        # the GC tracks them.
        if "rows" in quick:
            assert not any(map(gc.is_tracked, rows))
        # The last value of a row is a decimal. It is left out, because CPython 3.13 tracks
        # decimals, which refer to their class.
        if {"decode", "uuids", "addresses", "times"} <= quick:
            assert not any(gc.is_tracked(value) for row in rows for value in row[:-1])
    for cql_type, data in (("list<int>", bytes(4)), ("set<int>", bytes(4))):
        rows = RowsDecoder("tuple").decode(result([*atomic, ("f", cql_type)], [[*row, data]])).rows
        assert gc.is_tracked(rows)
        assert all(map(gc.is_tracked, rows))
        rows = RowsDecoder().decode(result([*atomic, ("f", cql_type)], [[*row, data]])).rows
        assert all(map(gc.is_tracked, rows))
    (value,) = RowsDecoder("tuple").decode(result([("l", "list<uuid>")], [[bytes(4)]])).rows[0]
    assert gc.is_tracked(value)


def test_uuids_of_rows_have_all_attributes() -> None:
    numbers = [0, 1, 2**60, 2**90, 2**128 - 1]
    cells = [[number.to_bytes(16, "big")] for number in numbers]
    for (value,), number in zip(
        RowsDecoder("tuple").decode(result([("u", "uuid")], cells)).rows, numbers, strict=True
    ):
        assert value == UUID(int=number)
        assert (value.int, str(value)) == (number, str(UUID(int=number)))
        with pytest.raises(TypeError):
            value.int = 5


def test_the_classes_are_part_of_the_module() -> None:
    assert {"RowsDecoder", "ResultRows"} <= set(protocol.__all__)
    for made in (RowsDecoder(), RowsDecoder().decode(BODY)):
        assert type(made).__module__ == "turbocql.protocol"
        with pytest.raises(TypeError):
            pickle.dumps(made)
        with pytest.raises(AttributeError):
            made.rows = []  # type: ignore[misc, union-attr]
