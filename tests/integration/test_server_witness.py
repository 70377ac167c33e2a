"""Tests every type in every place that Cassandra allows, without another driver.

In one direction, turbocql writes values, and the server returns them as JSON or text. In the other
direction, the server makes values from JSON, and turbocql reads them. tests/support writes and
parses this JSON. JSON cannot express some values, so the tests at the end of this module check
these values without JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import zip_longest
from typing import Any
from uuid import uuid4

import pytest
from tests.support.cql_types import (
    Kind,
    ListOf,
    MapOf,
    Scalar,
    SetOf,
    TupleOf,
    Udt,
)
from tests.support.witness_types import (
    AWKWARD,
    COUNTER,
    LEAVES,
    SHAPES,
    UNWRITABLE,
    json_of,
    one_of,
    parse,
    refusal,
    same,
    shape,
    term_of,
    values,
)

import turbocql
from turbocql import Duration, Session, Timestamp, errors
from turbocql.testing import Cassandra

JSON_ROWS = 1000
"""The first key of the rows that the server made from JSON. Keys of turbocql's rows begin at 0."""

# `EACH` is a UDT with a field of every scalar type. A shape in `SHAPES` is a kind of container. For
# each shape there is another UDT. Its fields are containers of this shape, one for each scalar type
# that the container can hold.
EACH = Udt("each", tuple((f"f_{name}", leaf) for name, leaf in AWKWARD.items()))
AROUND = Udt("around", (("inner", EACH), ("n", AWKWARD["int"])))
OF_COUNTERS = Udt("of_counters", (("f_counter", shape("vector", COUNTER)),))
UDTS = [
    EACH,
    AROUND,
    OF_COUNTERS,
    *(
        Udt(
            f"of_{path}",
            tuple(
                (f"f_{name}", shape(path, leaf))
                for name, leaf in AWKWARD.items()
                if not refusal(path, leaf)
            ),
        )
        for path in SHAPES
    ),
]


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    frozen: bool = False
    given: Sequence[Any] = ()
    """Values to write. Without them, the values of `values(kind)` are written."""

    @property
    def definition(self) -> str:
        return f"{self.name} {self.kind.cql if self.frozen else self.kind.column}"

    @property
    def written(self) -> list[Any]:
        return list(self.given) or values(self.kind)

    def read(self, value: Any) -> Any:
        """Returns the value that is read after `value` was written.

        If a collection or UDT is not frozen, then an empty collection or a UDT with only nulls is
        read as None.
        """
        if self.frozen or not isinstance(self.kind, ListOf | SetOf | MapOf | Udt):
            return value
        gone = all(part is None for part in value) if isinstance(self.kind, Udt) else not value
        return None if gone else value


def _columns_around(outer: str) -> list[Column]:
    """Returns columns whose types are the container `outer` around an inner type.

    The inner types are every scalar type, every container of a scalar type, and a UDT. The server
    refuses some of the resulting types, and it cannot write values of the types in `UNWRITABLE`.
    There are no columns of these types.
    """
    columns = [
        Column(f"{outer}_{leaf.name}{'_frozen' * frozen}", shape(outer, leaf), frozen)
        for leaf in LEAVES
        for frozen in (False, True)
        if not refusal(outer, leaf) and not (frozen and outer in ("tuple", "vector"))
    ]
    for inner in SHAPES:
        path = f"{outer} {inner}"
        columns += [
            Column(f"{outer}_{inner}_{leaf.name}", shape(path, leaf), bool(number % 2))
            for number, leaf in enumerate(LEAVES)
            if not refusal(path, leaf) and f"{path} {leaf.name}" not in UNWRITABLE
        ]
    return [*columns, Column(f"{outer}_udt", shape(outer, EACH))]


def _deep() -> Iterator[Column]:
    """Yields columns with two to four levels of containers.

    The innermost type is a UDT, or a scalar type with or without a fixed width.
    """
    paths = (
        "list value tuple, key tuple set, value vector key, tuple list vector, set key tuple, "
        "vector set list, vector vector vector, list tuple value set, value list set tuple, "
        "key set vector list, tuple vector value list"
    )
    for path in paths.split(", "):
        for name in ("text", "bigint", "varint", "timestamp", "boolean"):
            yield Column(f"{path.replace(' ', '_')}_{name}", shape(path, AWKWARD[name]), True)
    for path in ("list vector", "value tuple", "key list", "tuple set vector"):
        yield Column(f"{path.replace(' ', '_')}_udt", shape(path, AROUND), True)


TABLES: dict[str, list[Column]] = {
    "alone": [Column(f"alone_{leaf.name}", leaf) for leaf in AWKWARD.values()],
    **{outer: _columns_around(outer) for outer in SHAPES},
    "udt": [
        Column(f"{udt.name}{'_frozen' * frozen}", udt, frozen)
        for udt in UDTS
        for frozen in (False, True)
    ],
    "deep": list(_deep()),
}


@pytest.fixture(scope="module")
def session(cassandra: Cassandra) -> Iterator[Session]:
    """A session in a keyspace with all types and tables."""
    name = f"witness_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"USE {name}")
        for udt in UDTS:
            session.execute(udt.create)
        for table, columns in TABLES.items():
            make_table(session, f"t_{table}", columns)
        yield session


def make_table(session: Session, table: str, columns: Sequence[Column]) -> None:
    definitions = ", ".join(column.definition for column in columns)
    session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, {definitions})")


def rows_of(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    """Returns rows that contain every value of every column. The remaining cells are null."""
    return list(zip_longest(*(column.written for column in columns)))


def write(session: Session, table: str, columns: Sequence[Column]) -> int:
    """Writes all rows with turbocql and returns their number."""
    names = ", ".join(column.name for column in columns)
    insert = session.prepare(f"INSERT INTO {table} (k, {names}) VALUES (?{', ?' * len(columns)})")
    rows = rows_of(columns)
    for k, cells in enumerate(rows):
        session.execute(insert, (k, *cells))
    return len(rows)


def write_json(session: Session, table: str, columns: Sequence[Column]) -> int:
    """Makes the server write all rows from JSON and returns their number."""
    rows = rows_of(columns)
    for k, cells in enumerate(rows):
        said: dict[str, Any] = {"k": JSON_ROWS + k}
        for column, cell in zip(columns, cells, strict=True):
            said[column.name] = json_of(column.kind, cell)
        session.execute(f"INSERT INTO {table} JSON ?", (json.dumps(said),))
    return len(rows)


@pytest.mark.parametrize("table", TABLES)
def test_the_servers_json_shows_what_turbocql_wrote(session: Session, table: str) -> None:
    columns = TABLES[table]
    rows = write(session, f"t_{table}", columns)
    selectors = ", ".join(f"toJson({column.name})" for column in columns)
    select = session.prepare(f"SELECT {selectors} FROM t_{table} WHERE k = ?")
    answers = [session.execute(select, (k,), rows="tuple").page()[0] for k in range(rows)]
    wrong = []
    for place, column in enumerate(columns):
        for k, value in enumerate(column.written):
            said = answers[k][place]
            meant = column.kind.cell(column.kind.parse_cell(parse(said)))
            if meant != column.kind.cell(column.read(value)):
                wrong.append(f"{column.definition}: wrote {value!r}, the server has {said}")
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("table", TABLES)
def test_turbocql_reads_what_the_server_wrote(session: Session, table: str) -> None:
    # The server cannot make counters from JSON.
    columns = [column for column in TABLES[table] if "counter" not in column.name]
    rows = write_json(session, f"t_{table}", columns)
    names = ", ".join(column.name for column in columns)
    select = session.prepare(f"SELECT {names} FROM t_{table} WHERE k = ?")
    answers = [
        session.execute(select, (JSON_ROWS + k,), rows="tuple").page()[0] for k in range(rows)
    ]
    wrong = []
    for place, column in enumerate(columns):
        for k, value in enumerate(column.written):
            got = answers[k][place]
            if not same(column.kind, column.read(value), got):
                said = json.dumps(json_of(column.kind, value))
                wrong.append(f"{column.definition}: the server was told {said}, read {got!r}")
    assert not wrong, "\n".join(wrong[:5])


# Types that the server refuses. All types that it accepts are in columns above, or in `UNWRITABLE`.


@pytest.mark.parametrize("outer", SHAPES)
def test_types_that_the_server_refuses(session: Session, outer: str) -> None:
    refused = 0
    for path in (outer, *(f"{outer} {inner}" for inner in SHAPES)):
        for leaf in LEAVES:
            message = refusal(path, leaf)
            if message is None:
                continue
            refused += 1
            kind = shape(path, leaf)
            with pytest.raises(errors.InvalidQuery, match=message):
                session.execute(f"CREATE TABLE refused (k int PRIMARY KEY, v {kind.column})")
            with pytest.raises(errors.InvalidQuery, match=message):
                session.execute(f"CREATE TYPE refused (f {kind.cql})")
    assert refused == 7 + (outer != "vector") + (outer in ("set", "key"))


@pytest.mark.parametrize("outer", ["list<{}>", "set<{}>", "map<{}, int>", "map<int, {}>"])
def test_collections_hold_only_frozen_collections(session: Session, outer: str) -> None:
    for inner in ("list<int>", "set<int>", "map<int, int>", "each"):
        with pytest.raises(errors.InvalidQuery, match=r"Non-frozen (collections|UDTs) are not all"):
            session.execute(f"CREATE TABLE refused (k int PRIMARY KEY, v {outer.format(inner)})")


def test_durations_in_keys(session: Session) -> None:
    """In keys, the server refuses durations, even inside other types.

    But it accepts durations that are inside vectors.
    """
    for name in ("duration", "frozen<list<duration>>", "tuple<duration>", "frozen<each>"):
        with pytest.raises(errors.InvalidQuery, match="duration type is not supported for PRIMARY"):
            session.execute(f"CREATE TABLE refused (k {name} PRIMARY KEY)")
    session.execute("CREATE TABLE spans (k vector<duration, 1> PRIMARY KEY)")
    written = [Duration(1, 2, 3)]
    session.execute("INSERT INTO spans (k) VALUES (?)", (written,))
    said = session.execute("SELECT toJson(k) FROM spans WHERE k = ?", (written,), rows="tuple")
    assert said.one() == ('["1mo2d3ns"]',)


# Values that JSON cannot express


def test_casts_to_text(session: Session) -> None:
    """The server casts values to text. Unlike JSON, this text can express infinities and NaNs."""
    # Timestamps before the year 1 are left out, because a cast omits their era, as `toJson` does.
    every = {**AWKWARD, **BEYOND_JSON, "timestamp": AWKWARD["timestamp"]}
    columns = [Column(f"c_{name}", leaf) for name, leaf in every.items()]
    make_table(session, "t_cast", columns)
    rows = write(session, "t_cast", columns)
    for column in columns:
        query = f"SELECT k, CAST({column.name} AS text) FROM t_cast"
        if column.kind in (AWKWARD["blob"], AWKWARD["duration"]):
            with pytest.raises(errors.InvalidQuery, match="Invalid call to function"):
                session.execute(query)
            continue
        said = dict(session.execute(query, rows="tuple").all())
        assert len(said) == rows
        for k, value in enumerate(column.written):
            # The text of a value is the same as in JSON, except that JSON has no text for booleans.
            text = said[k] == "true" if column.name == "c_boolean" else said[k]
            assert column.kind.cell(column.kind.parse_json(text)) == column.kind.cell(value), text


BEYOND_JSON: dict[str, Scalar] = {
    name: replace(AWKWARD[name], samples=samples)
    for name, samples in {
        # NaNs and infinities are null in JSON, although the server parses them from text.
        "float": (math.nan, math.inf, -math.inf, 0.5),
        "double": (math.nan, math.inf, -math.inf, 0.5),
        # JSON omits the era of years before 1.
        "timestamp": (
            Timestamp(-62_135_596_800_001),
            Timestamp(-(2**63)),
            AWKWARD["timestamp"].samples[0],
        ),
    }.items()
}


def test_values_that_json_shows_wrongly(session: Session) -> None:
    """Shows that `toJson` is wrong for NaNs, infinities and early timestamps.

    The next test checks these values without `toJson`.
    """
    columns = [Column(f"c_{name}", leaf) for name, leaf in BEYOND_JSON.items()]
    make_table(session, "t_falsely", columns)
    write(session, "t_falsely", columns)
    selectors = (
        "toJson(c_float), toJson(c_double), toJson(c_timestamp), toUnixTimestamp(c_timestamp)"
    )
    query = f"SELECT {selectors} FROM t_falsely WHERE k IN (0, 1)"
    assert session.execute(query, rows="tuple").all() == [
        ("null", "null", '"0001-12-31 23:59:59.999Z"', -62_135_596_800_001),
        ("null", "null", '"+292275056-05-16 16:47:04.192Z"', -(2**63)),
    ]


def test_the_server_finds_values_that_json_cannot_express(session: Session) -> None:
    """In WHERE clauses, the server compares turbocql's values with values that it makes from JSON.

    Sets and maps inside tuples and vectors have only one element here. If they had more, two equal
    sets could have different bytes: the server sorts the elements of a set that it makes from JSON,
    but it does not sort the elements of a bound set.
    """
    fields = Udt("beyond", tuple((f"f_{name}", leaf) for name, leaf in BEYOND_JSON.items()))
    session.execute(fields.create)
    columns = []
    for path in ["", *SHAPES, *(f"{outer} {inner}" for outer in SHAPES for inner in SHAPES)]:
        outer, _, inner = path.partition(" ")
        unordered = outer in ("tuple", "vector") and inner in ("set", "key", "value")
        for name, kind in {**BEYOND_JSON, "udt": fields}.items():
            ones = [one_of(outer, one_of(inner, value)) for value in values(kind) if unordered]
            called = f"c_{path.replace(' ', '_')}_{name}"
            columns.append(Column(called, shape(path, kind), frozen=True, given=ones))
    make_table(session, "t_beyond", columns)
    write(session, "t_beyond", columns)
    write_json(session, "t_beyond", columns)
    read = {row["k"]: row for row in session.execute("SELECT * FROM t_beyond", rows="dict")}
    for column in columns:
        cells = list(map(column.kind.cell, column.written))
        for k, value in enumerate(column.written):
            term = f"fromJson('{json.dumps(json_of(column.kind, value))}')"
            found = session.execute(
                f"SELECT k FROM t_beyond WHERE {column.name} = {term} ALLOW FILTERING", rows="tuple"
            )
            alike = [row for row, cell in enumerate(cells) if cell == cells[k]]
            alike += [JSON_ROWS + row for row in alike]
            assert sorted(k for (k,) in found) == alike, (column, value)
            for row in (k, JSON_ROWS + k):
                assert same(column.kind, value, read[row][column.name]), (column, value, row)


def test_the_most_negative_duration(session: Session) -> None:
    """The server can store the most negative duration, but not convert it to or from text."""
    least = Duration(-(2**31), -(2**31), -(2**63))
    told = f"blobAsDuration(0x{'f0ffffffff' * 2 + 'ff' * 9})"
    session.execute("CREATE TABLE back (k int PRIMARY KEY, v duration)")
    session.execute("INSERT INTO back (k, v) VALUES (1, ?)", (least,))
    session.execute(f"INSERT INTO back (k, v) VALUES (2, {told})")
    rows = session.execute("SELECT v, durationAsBlob(v), toJson(v) FROM back", rows="tuple")
    assert rows.all() == [(least, b"\xf0\xff\xff\xff\xff" * 2 + b"\xff" * 9, '"-"')] * 2
    for path in ("list", "value", "tuple", "vector"):
        kind = shape(path, AWKWARD["duration"])
        found = write_and_find(session, f"back_{path}", kind, one_of(path, least), path, told)
        assert found == [1, 2]


def test_ipv4_addresses_in_ipv6(session: Session) -> None:
    """Java parses the address ::ffff:1.2.3.4 as 1.2.3.4.

    The server decodes bound collections and encodes them again. So an address ::ffff:1.2.3.4 in a
    collection becomes 1.2.3.4. In tuples and vectors it does not change, because the server keeps
    their bytes.
    """
    mapped = IPv6Address("::ffff:1.2.3.4")
    plain = IPv4Address("1.2.3.4")
    told = f"blobAsInet(0x{'00' * 10}ffff01020304)"
    session.execute("CREATE TABLE mapped (k int PRIMARY KEY, v inet)")
    session.execute("INSERT INTO mapped (k, v) VALUES (1, ?)", (mapped,))
    session.execute(f"INSERT INTO mapped (k, v) VALUES (2, {told})")
    rows = session.execute("SELECT v, inetAsBlob(v), toJson(v) FROM mapped", rows="tuple").all()
    assert rows == [(mapped, bytes(10) + b"\xff\xff\1\2\3\4", '"1.2.3.4"')] * 2
    for path in SHAPES:
        kind = shape(path, AWKWARD["inet"])
        found = write_and_find(session, f"mapped_{path}", kind, one_of(path, mapped), path, told)
        kept = path in ("tuple", "vector")
        assert found == ([1, 2] if kept else [2])
        (read,) = session.execute(f"SELECT v FROM mapped_{path} WHERE k = 1", rows="tuple").page()[
            0
        ]
        assert same(kind, one_of(path, mapped if kept else plain), read)


def write_and_find(
    session: Session, table: str, kind: Kind, value: Any, path: str, told: str
) -> list[int]:
    """Writes row 1 with a value that turbocql binds, and row 2 with a CQL literal.

    Returns the keys of the rows whose value equals the literal according to the server.
    """
    session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v {kind.cql})")
    term = term_of(path, told)
    session.execute(f"INSERT INTO {table} (k, v) VALUES (1, ?)", (value,))
    session.execute(f"INSERT INTO {table} (k, v) VALUES (2, {term})")
    (read,) = session.execute(f"SELECT v FROM {table} WHERE k = 2", rows="tuple").page()[0]
    assert same(kind, value, read)
    rows = session.execute(f"SELECT k FROM {table} WHERE v = {term} ALLOW FILTERING", rows="tuple")
    return sorted(k for (k,) in rows)


def test_counters_in_vectors(session: Session) -> None:
    """The server accepts vectors of counters as literals, but cannot read them from JSON.

    The opposite direction works, as a test above shows: the server can write these vectors as JSON.
    """
    low, high = -(2**63), 2**63 - 1
    for number, (definition, term, value) in enumerate(
        (
            ("vector<counter, 2>", f"[{low}, {high}]", [low, high]),
            ("list<vector<counter, 1>>", f"[[{low}], [0]]", [[low], [0]]),
            ("tuple<vector<counter, 1>, int>", "([-1], 2)", ([-1], 2)),
            ("vector<vector<counter, 1>, 2>", "[[1], [2]]", [[1], [2]]),
        )
    ):
        table = f"counted_{number}"
        session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v {definition})")
        session.execute(f"INSERT INTO {table} (k, v) VALUES (1, {term})")
        assert session.execute(f"SELECT v FROM {table}", rows="tuple").one() == (value,)
        said = json.dumps({"k": 1, "v": value})
        with pytest.raises(errors.ServerInternalError, match="UnsupportedOperationException"):
            session.execute(f"INSERT INTO {table} JSON ?", (said,))
    for path in UNWRITABLE:
        table, kind = path.replace(" ", "_"), shape(path.removesuffix(" counter"), COUNTER)
        session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v {kind.column})")
        with pytest.raises(errors.ServerInternalError, match="UnsupportedOperationException"):
            session.execute(f"INSERT INTO {table} (k, v) VALUES (1, ?)", (values(kind)[0],))


def test_nulls_in_frozen_lists(session: Session) -> None:
    """The server's `toJson` fails on frozen lists with nulls, unless the elements are decimals.

    In a list of decimals, `toJson` shows a null as an empty string. `collection_count` counts the
    nulls, and `collection_max` ignores them.
    """
    columns = [Column(f"c_{name}", ListOf(leaf), frozen=True) for name, leaf in AWKWARD.items()]
    make_table(session, "t_holes", columns)
    names = ", ".join(column.name for column in columns)
    holes = [[None, leaf.samples[-1], None] for leaf in AWKWARD.values()]
    session.execute(f"INSERT INTO t_holes (k, {names}) VALUES (1{', ?' * len(holes)})", holes)
    for column, hole in zip(columns, holes, strict=True):
        name = column.name
        query = f"SELECT {name}, collection_count({name}), collection_max({name}) FROM t_holes"
        row = session.execute(query, rows="tuple").one()
        assert same(
            TupleOf((column.kind, AWKWARD["int"], AWKWARD[name[2:]])), (hole, 3, hole[1]), row
        )
        query = f"SELECT toJson({name}) FROM t_holes"
        if name == "c_decimal":
            assert parse(session.execute(query, rows="tuple").page()[0][0]) == ["", hole[1], ""]
            continue
        with pytest.raises(errors.ServerInternalError, match="NullPointerException"):
            session.execute(query)
