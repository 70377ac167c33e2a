"""Tests every CQL type on a real server.

turbocql writes the values. Then turbocql, scylla-driver and the server's JSON functions read them.
"""

from __future__ import annotations

import datetime
import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.cql_types import (
    SCALARS,
    Kind,
    ListOf,
    MapOf,
    SetOf,
    TupleOf,
    Udt,
    VectorOf,
    identical,
)

import turbocql
from turbocql import Date, Duration, FrozenMap, Prepared, Session, Time, Timestamp, errors
from turbocql.testing import Cassandra

ROOT = Path(__file__).parents[2]
WITNESS = ROOT / ".venv-scylla-driver" / "bin" / "python"

BY_NAME = {scalar.name: scalar for scalar in SCALARS}
INT, TEXT = BY_NAME["int"], BY_NAME["text"]


@dataclass(frozen=True)
class Case:
    """A column, the values that are written to it, and the values that must be read from it.

    The value with index i is in row i.
    """

    name: str
    kind: Kind
    written: list[Any]
    column: str = ""
    read: dict[int, Any] = field(default_factory=dict)
    """Maps a row number to the expected value if it differs from the written one."""

    @property
    def definition(self) -> str:
        return f"{self.name} {self.column or self.kind.column}"

    def expected(self, row: int) -> Any:
        if row in self.read:
            return self.read[row]
        return self.written[row] if row < len(self.written) else None


def _of_each_scalar() -> Iterator[Case]:
    """Yields each scalar type alone and inside collections, tuples and vectors."""
    for scalar in SCALARS:
        name, samples = scalar.name, list(scalar.samples)
        first, last = samples[0], samples[-1]
        yield Case(f"{name}_alone", scalar, samples)
        # An empty collection that is not frozen reads as null.
        yield Case(f"{name}_list", ListOf(scalar), [samples, [first, first], []], read={2: None})
        frozen = ListOf(scalar)
        yield Case(f"{name}_frozen_list", frozen, [samples, [last], []], column=frozen.cql)
        by_number = dict(enumerate(samples))
        yield Case(f"{name}_value", MapOf(INT, scalar), [by_number, {7: last}])
        yield Case(
            f"{name}_tuple",
            TupleOf((scalar, INT, scalar)),
            [(first, 1, last), (None, 2, first), (last, None, None), (None, None, None)],
        )
        yield Case(f"{name}_vector", VectorOf(scalar, 3), [[first, last, first], [last] * 3])
        yield Case(f"{name}_vector_one", VectorOf(scalar, 1), [[sample] for sample in samples])
        if name == "duration":
            continue  # the server cannot order durations, so it refuses them in sets and map keys
        yield Case(f"{name}_set", SetOf(scalar), [set(samples), {last}])
        keys = {sample: number for number, sample in enumerate(samples)}
        yield Case(f"{name}_key", MapOf(scalar, INT), [keys, {first: -1}])


EVERYTHING = Udt("everything", tuple((f"f_{scalar.name}", scalar) for scalar in SCALARS))
PLACE = Udt("place", (("x", INT), ("label", TEXT), ("tags", SetOf(TEXT))))
Deep = Udt("deep", (("home", PLACE), ("ways", ListOf(PLACE)), ("at", MapOf(PLACE, INT))))


def _of_udts() -> Iterator[Case]:
    count = max(len(scalar.samples) for scalar in SCALARS)
    rows: list[Any] = [
        tuple(scalar.samples[i % len(scalar.samples)] for scalar in SCALARS) for i in range(count)
    ]
    nothing = (None,) * len(SCALARS)
    yield Case("udt", EVERYTHING, [*rows, nothing], read={count: None})
    yield Case("udt_frozen", EVERYTHING, [*rows, nothing], column=EVERYTHING.cql)
    here: tuple[Any, ...] = (1, "here", {"a", "b"})
    there: tuple[Any, ...] = (None, "", set())
    home = (2, None, None)
    yield Case(
        "udt_deep",
        Deep,
        [
            (here, [here, home], {(1, "here", frozenset({"a", "b"})): 1}),
            (None, [], {}),
            (there, None, None),
        ],
        column=Deep.cql,
    )


INNER: dict[str, tuple[Kind, list[Any], list[Any]]] = {
    # Each entry has a type, a list of two values, and a list of the same values in hashable form.
    "list": (ListOf(INT), [[1, 2], []], [(1, 2), ()]),
    "set": (SetOf(TEXT), [{"a", "b"}, set()], [frozenset({"a", "b"}), frozenset()]),
    "map": (
        MapOf(TEXT, INT),
        [{"a": 1}, {"b": 2, "c": 3}],
        [FrozenMap({"a": 1}), FrozenMap({"b": 2, "c": 3})],
    ),
    "tuple": (TupleOf((INT, TEXT)), [(1, "a"), (None, "b")], [(1, "a"), (None, "b")]),
    "udt": (
        PLACE,
        [(1, "a", {"t"}), (2, None, None)],
        [(1, "a", frozenset({"t"})), (2, None, None)],
    ),
    "vector": (VectorOf(INT, 2), [[1, 2], [-3, 4]], [(1, 2), (-3, 4)]),
    "wide_vector": (VectorOf(TEXT, 2), [["a", ""], ["b", "cd"]], [("a", ""), ("b", "cd")]),
}


def _nested() -> Iterator[Case]:
    """Yields lists, sets, maps, tuples and vectors that contain each kind of container."""
    for name, (kind, (one, two), hashable) in INNER.items():
        yield Case(f"list_of_{name}", ListOf(kind), [[one, two], [two]])
        yield Case(f"set_of_{name}", SetOf(kind), [set(hashable), {hashable[1]}])
        keys = dict(zip(hashable, (1, 2), strict=True))
        yield Case(f"map_by_{name}", MapOf(kind, INT), [keys])
        yield Case(f"map_to_{name}", MapOf(INT, kind), [{1: one, 2: two}])
        yield Case(f"tuple_of_{name}", TupleOf((kind, kind)), [(one, two), (None, one)])
        yield Case(f"vector_of_{name}", VectorOf(kind, 2), [[one, two]])
    deep = MapOf(INT, ListOf(SetOf(TupleOf((INT, VectorOf(TEXT, 1))))))
    yield Case("deep", deep, [{1: [{(1, ("a",)), (2, ("b",))}, set()], 2: []}])


CASES = [*_of_each_scalar(), *_of_udts(), *_nested()]
ROWS = max(len(case.written) for case in CASES) + 1  # the last row has nulls only


@dataclass(frozen=True)
class Stored:
    """The same rows three times: as turbocql, scylla-driver and the server's JSON return them."""

    ours: list[dict[str, Any]]
    witness: list[dict[str, Any]]
    json: list[dict[str, Any]]


def finite(value: Any) -> Any:
    """Replaces infinities and NaNs by None, because the server's JSON has null for them.

    Maps become lists of pairs, and sets become lists.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return [(finite(key), finite(part)) for key, part in value.items()]
    if isinstance(value, tuple):
        return tuple(map(finite, value))
    return list(map(finite, value)) if isinstance(value, list | set | frozenset) else value


def ask_witness(contact_point: str, *queries: str) -> list[list[dict[str, Any]]]:
    """Runs queries with scylla-driver in its own environment. Returns the rows of each query."""
    if not WITNESS.exists():
        pytest.fail(
            f"the witness is missing: {WITNESS}; make it with: "
            f"make -C {ROOT} .venv-scylla-driver/.installed"
        )
    host, _, port = contact_point.rpartition(":")
    done = subprocess.run(
        [WITNESS, ROOT / "tests" / "support" / "witness.py", host, port],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def session(cassandra: Cassandra) -> Iterator[Session]:
    """A session in a keyspace that only this module uses, with the user-defined types."""
    name = f"types_{uuid4().hex[:12]}"
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {name} "
            "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"USE {name}")
        for udt in (EVERYTHING, PLACE, Deep):
            session.execute(udt.create)
        yield session


@pytest.fixture(scope="module")
def stored(session: Session, cassandra: Cassandra) -> Stored:
    """Writes all columns once and reads them with all three readers."""
    columns = ", ".join(case.definition for case in CASES)
    session.execute(f"CREATE TABLE stored (k int PRIMARY KEY, {columns})")
    names = ", ".join(case.name for case in CASES)
    insert = session.prepare(f"INSERT INTO stored (k, {names}) VALUES (?{', ?' * len(CASES)})")
    for row in range(ROWS):
        cells = [case.written[row] if row < len(case.written) else None for case in CASES]
        session.execute(insert, (row, *cells))
    keys = ", ".join(map(str, range(ROWS)))
    select = f"SELECT k, {names} FROM stored WHERE k IN ({keys})"
    ours = session.execute(select, rows="dict").all()
    (witness,) = ask_witness(
        cassandra.contact_points[0],
        select.replace("FROM stored", f"FROM {session.keyspace}.stored"),
    )
    texts = session.execute(select.replace("SELECT", "SELECT JSON"), rows="tuple").all()
    # The server can write several keys of a map as null. A dict would keep only one of these
    # entries, so JSON objects are parsed as lists of pairs.
    parsed = [
        dict(json.loads(text, parse_float=Decimal, object_pairs_hook=list)) for (text,) in texts
    ]
    for rows in (ours, parsed):
        assert [row["k"] for row in rows] == list(range(ROWS))
    assert [row["k"] for row in witness] == [str(row) for row in range(ROWS)]
    return Stored(ours, witness, parsed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_written_values_are_read_by_all_readers(stored: Stored, case: Case) -> None:
    for row in range(ROWS):
        expected, ours = case.expected(row), stored.ours[row][case.name]
        assert identical(expected, ours), f"row {row}: wrote {expected!r}, read {ours!r}"
        told = stored.witness[row][case.name]
        assert told == case.kind.cell(ours), f"row {row}: the witness has {told}"
        said = stored.json[row][case.name]
        meant = case.kind.cell(case.kind.parse_cell(said))
        assert meant == case.kind.cell(finite(ours)), f"row {row}: the server's JSON has {said}"


def test_the_columns_are_described(session: Session, stored: Stored) -> None:
    columns = session.execute("SELECT * FROM stored LIMIT 1").columns
    described = {column.name: column.cql_type for column in columns}
    for case in CASES:
        if not isinstance(case.kind, Udt):
            plain = case.kind.cql.replace("frozen<", "<")
            assert "<" in described[case.name] or described[case.name] == plain


def roundtrip(session: Session, table: str, values: list[Any]) -> list[Any]:
    """Writes values to column v of a table, reads them again, and returns the values read."""
    insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
    for number, value in enumerate(values):
        session.execute(insert, (number, value))
    select = session.prepare(f"SELECT v FROM {table} WHERE k = ?")
    return [session.execute(select, (number,)).page()[0].v for number in range(len(values))]


def raw(session: Session, table: str, function: str) -> list[Any]:
    """Returns the results of a server function on column v, ordered by key."""
    rows = session.execute(f"SELECT k, {function}(v) FROM {table}", rows="tuple")
    return [value for _, value in sorted(rows)]


# Values beyond Python's ranges


def test_dates_beyond_pythons_calendar(session: Session, cassandra: Cassandra) -> None:
    session.execute("CREATE TABLE dates (k int PRIMARY KEY, v date)")
    low, high = Date.from_date(datetime.date.min).days, Date.from_date(datetime.date.max).days
    days = [-(2**31), low - 1, low, high, high + 1, 2**31 - 1]
    read = roundtrip(session, "dates", [Date(day) for day in days])
    assert identical(read[0], Date(days[0]))
    assert identical(read[1], Date(days[1]))
    assert identical(read[2:4], [datetime.date.min, datetime.date.max])
    assert identical(read[4:], [Date(day) for day in days[4:]])
    # The test compares bytes and not the server's text, because this text has no sign before years
    # above 9999. In the bytes, day 0 is the number 2**31.
    assert raw(session, "dates", "dateAsBlob") == [(day + 2**31).to_bytes(4, "big") for day in days]
    (witness,) = ask_witness(
        cassandra.contact_points[0], f"SELECT k, v FROM {session.keyspace}.dates"
    )
    assert {int(row["k"]): row["v"] for row in witness} == dict(enumerate(days))


def test_timestamps_beyond_pythons_calendar(session: Session) -> None:
    """scylla-driver cannot read these timestamps, so the test compares the server's bytes."""
    session.execute("CREATE TABLE timestamps (k int PRIMARY KEY, v timestamp)")
    utc = datetime.timezone.utc
    first = datetime.datetime.min.replace(tzinfo=utc)
    last = datetime.datetime.max.replace(microsecond=999_000, tzinfo=utc)
    low, high = Timestamp.from_datetime(first), Timestamp.from_datetime(last)
    milliseconds = [
        -(2**63),
        low.milliseconds - 1,
        low.milliseconds,
        high.milliseconds,
        high.milliseconds + 1,
        2**63 - 1,
    ]
    read = roundtrip(session, "timestamps", [Timestamp(ms) for ms in milliseconds])
    expected = [Timestamp(ms) for ms in milliseconds]
    assert identical(read, [*expected[:2], first, last, *expected[4:]])
    assert raw(session, "timestamps", "timestampAsBlob") == [
        ms.to_bytes(8, "big", signed=True) for ms in milliseconds
    ]


def test_other_forms_of_a_timestamp(session: Session) -> None:
    session.execute("CREATE TABLE instants (k int PRIMARY KEY, v timestamp)")
    zone = datetime.timezone(datetime.timedelta(hours=2))
    utc = datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.timezone.utc)
    written = [
        datetime.datetime(2024, 1, 1, 12, tzinfo=zone),
        datetime.datetime(2024, 1, 1, 10),
        1_704_103_200_000,
        Timestamp(1_704_103_200_000),
    ]
    assert identical(roundtrip(session, "instants", written), [utc] * 4)


def test_decimals_keep_their_exponent(session: Session) -> None:
    session.execute("CREATE TABLE decimals (k int PRIMARY KEY, v decimal)")
    written = [
        Decimal(text) for text in ("1E+10", "0E-20", "0.000", "-0.10", "1E+2147483647", "9" * 100)
    ]
    assert identical(roundtrip(session, "decimals", written), written)


def test_signed_zeros_and_nans(session: Session) -> None:
    session.execute("CREATE TABLE zeros (k int PRIMARY KEY, v double)")
    written = [-0.0, 0.0, math.nan, -math.nan]
    assert identical(roundtrip(session, "zeros", written), written)


def test_large_values(session: Session) -> None:
    session.execute("CREATE TABLE large (k int PRIMARY KEY, v list<blob>)")
    written = [[bytes([i]) * 60_000 for i in range(100)], [b""] * 10_000]
    assert roundtrip(session, "large", written) == written
    session.execute("CREATE TABLE vectors (k int PRIMARY KEY, v vector<float, 8192>)")
    vector = [float(i) for i in range(8192)]
    assert roundtrip(session, "vectors", [vector]) == [vector]


# Nulls, empty values and missing components


def test_nulls_inside_collections(session: Session) -> None:
    """The server accepts nulls in a frozen list, if the type of the column is this list.

    It refuses nulls in all other collections. For a list that is not frozen, the error of the
    server is a NullPointerException.
    """
    session.execute(
        "CREATE TABLE holes (k int PRIMARY KEY, l list<int>, fl frozen<list<int>>, "
        "s set<int>, fs frozen<set<int>>, m map<int, int>, fm frozen<map<int, int>>, "
        "t tuple<frozen<list<int>>>, u frozen<place>, v vector<int, 2>)"
    )
    refused: list[tuple[str, Any, str]] = [
        ("l", [1, None], "NullPointerException"),
        ("s", [1, None], "Null value read when not allowed"),
        ("fs", [1, None], "Null value read when not allowed"),
        ("m", {1: None}, "Null value read when not allowed"),
        ("m", {None: 1}, "Null value read when not allowed"),
        ("fm", {1: None}, "Null value read when not allowed"),
        ("t", ([1, None],), "Null value read when not allowed"),
        ("u", (1, "a", [None]), "Null value read when not allowed"),
    ]
    for column, value, message in refused:
        insert = f"INSERT INTO holes (k, {column}) VALUES (1, ?)"
        with pytest.raises((errors.InvalidQuery, errors.ServerInternalError), match=message):
            session.execute(insert, (value,))
    # The wire format cannot express a null element of a vector. So turbocql refuses it and sends
    # nothing.
    with pytest.raises(
        errors.EncodeError, match=r'"v"\[1\].*an element of a vector cannot be null'
    ):
        session.execute("INSERT INTO holes (k, v) VALUES (1, ?)", ([1, None],))
    assert session.execute("SELECT * FROM holes").all() == []
    session.execute("INSERT INTO holes (k, fl) VALUES (1, ?)", ([None, 1, None],))
    assert session.execute("SELECT fl FROM holes").page()[0].fl == [None, 1, None]
    # Neither scylla-driver ("Length must be positive") nor the server's toJson can read this list,
    # so there is no second reader.
    with pytest.raises(errors.ServerInternalError, match="NullPointerException"):
        session.execute("SELECT toJson(fl) FROM holes")


def test_values_of_zero_bytes(session: Session) -> None:
    """For many types, the server accepts a value of zero bytes. turbocql reads it as null."""
    with_empty = ("ascii", "text", "blob")
    never = ("tinyint", "smallint", "date", "time", "duration")
    names = [scalar.name for scalar in SCALARS if scalar.name not in with_empty]
    columns = ", ".join(f"{name}_ {name}" for name in names)
    session.execute(f"CREATE TABLE empties (k int PRIMARY KEY, {columns})")
    for name in names:
        insert = f"INSERT INTO empties (k, {name}_) VALUES (1, blobAs{name}(0x))"
        if name in never:
            with pytest.raises(errors.InvalidQuery, match="value 0x is not a valid binary"):
                session.execute(insert)
        else:
            session.execute(insert)
    row = session.execute("SELECT * FROM empties", rows="dict").one()
    assert row == {"k": 1, **{f"{name}_": None for name in names}}


def test_short_tuples(session: Session) -> None:
    session.execute("CREATE TABLE tuples (k int PRIMARY KEY, v tuple<int, text, int>)")
    read = roundtrip(session, "tuples", [(1, "a", 2), (1, "a"), (1,), ()])
    assert read[:3] == [(1, "a", 2), (1, "a", None), (1, None, None)]
    assert read[3] in (None, (None, None, None))
    with pytest.raises(errors.EncodeError, match="at most 3 components, got 4"):
        session.execute("INSERT INTO tuples (k, v) VALUES (1, ?)", ((1, "a", 2, 3),))


# User-defined types that change


def test_udts_by_name(session: Session) -> None:
    session.execute("CREATE TABLE places (k int PRIMARY KEY, v frozen<place>)")
    named = {"x": 1, "label": "a", "tags": {"t"}}
    read = roundtrip(
        session,
        "places",
        [
            named,
            SimpleNamespace(**named),
            (1, "a", {"t"}),
            (1,),
            {"label": "b"},
            SimpleNamespace(x=3, other="ignored"),
        ],
    )
    whole = (1, "a", {"t"})
    assert read == [whole, whole, whole, (1, None, None), (None, "b", None), (3, None, None)]
    assert read[0]._fields == ("x", "label", "tags")
    assert read[0].label == "a"
    assert roundtrip(session, "places", read) == read
    with pytest.raises(errors.EncodeError, match=r"has no field .*nope.*; its fields are x, label"):
        session.execute("INSERT INTO places (k, v) VALUES (1, ?)", ({"nope": 1},))


def test_a_type_that_has_grown(session: Session, cassandra: Cassandra) -> None:
    session.execute("CREATE TYPE growing (a int, b text)")
    session.execute(
        "CREATE TABLE grown (k int PRIMARY KEY, v frozen<growing>, l list<frozen<growing>>)"
    )
    insert = session.prepare("INSERT INTO grown (k, v, l) VALUES (?, ?, ?)")
    select = session.prepare("SELECT k, v, l FROM grown WHERE k = ?")
    session.execute(insert, (1, (1, "a"), [(2, "b"), (3, None)]))
    assert session.execute(select, (1,)).one() == (1, (1, "a"), [(2, "b"), (3, None)])
    session.execute("ALTER TYPE growing ADD c int")
    # Statements that were prepared before the change still work. In values that were written with
    # the old type, the new field is read as null.
    session.execute(insert, (2, (4, "d"), []))
    with turbocql.connect(cassandra.contact_points, keyspace=session.keyspace) as fresh:
        for reader in (session, fresh):
            rows = reader.execute("SELECT k, v, l FROM grown WHERE k IN (1, 2)").all()
            assert rows == [
                (1, (1, "a", None), [(2, "b", None), (3, None, None)]),
                (2, (4, "d", None), None),
            ]
            assert rows[0].v._fields == ("a", "b", "c")
        fresh.execute("INSERT INTO grown (k, v) VALUES (3, ?)", ({"a": 5, "c": 6},))
    found = session.execute("SELECT v FROM grown WHERE k = 3").page()[0].v
    assert found == (5, None, 6)
    # The statement that was prepared before the change reads the new row too. Its value may or may
    # not have the new field.
    found = session.execute(select, (3,)).page()[0].v
    assert tuple(found)[:2] == (5, None)


def test_a_table_that_grows_under_a_prepared_statement(session: Session) -> None:
    session.execute("CREATE TABLE table_grows (k int PRIMARY KEY, b text)")
    session.execute("INSERT INTO table_grows (k, b) VALUES (1, 'b')")
    select = session.prepare("SELECT * FROM table_grows WHERE k = ?")
    assert session.execute(select, (1,)).one() == (1, "b")
    # The new column `a` comes before `b`. So a session with the old metadata would decode the rows
    # wrongly.
    session.execute("ALTER TABLE table_grows ADD a list<int>")
    session.execute("INSERT INTO table_grows (k, a) VALUES (1, [1, 2])")
    for _ in range(3):
        rows = session.execute(select, (1,))
        assert rows.page()[0]._asdict() == {"k": 1, "a": [1, 2], "b": "b"}
        assert [column.name for column in rows.columns] == ["k", "a", "b"]
    session.execute("ALTER TABLE table_grows DROP b")
    for _ in range(3):
        assert session.execute(select, (1,)).page()[0]._asdict() == {"k": 1, "a": [1, 2]}


def test_a_table_that_grows_between_two_pages(session: Session) -> None:
    session.execute("CREATE TABLE pages_grow (p int, c int, z int, PRIMARY KEY (p, c))")
    session.execute_many(
        "INSERT INTO pages_grow (p, c, z) VALUES (1, ?, ?)", ((c, -c) for c in range(100))
    )
    select = session.prepare("SELECT * FROM pages_grow WHERE p = ?")
    rows = session.execute(select, (1,), page_size=10, rows="dict")
    iterator = iter(rows)
    seen = [next(iterator)]
    session.execute("ALTER TABLE pages_grow ADD a text")
    seen += iterator
    assert [(row["c"], row["z"]) for row in seen] == [(c, -c) for c in range(100)]


# Counters


def test_counters(session: Session, cassandra: Cassandra) -> None:
    session.execute("CREATE TABLE counters (k int PRIMARY KEY, v counter)")
    update: Prepared = session.prepare("UPDATE counters SET v = v + ? WHERE k = ?")
    assert update.markers[0][3] in ("counter", "bigint")
    for key, step in ((1, 5), (1, -7), (2, 2**63 - 1), (3, -(2**63)), (4, 0)):
        session.execute(update, (step, key))
    read = {row.k: row.v for row in session.execute("SELECT k, v FROM counters")}
    assert read == {1: -2, 2: 2**63 - 1, 3: -(2**63), 4: 0}
    (witness,) = ask_witness(
        cassandra.contact_points[0], f"SELECT k, v FROM {session.keyspace}.counters"
    )
    assert {int(row["k"]): int(row["v"]) for row in witness} == read
    said = session.execute("SELECT k, toJson(v) FROM counters", rows="tuple")
    assert {key: int(text) for key, text in said} == read
    with pytest.raises(errors.EncodeError):
        session.execute(update, (2**63, 1))
    with pytest.raises(errors.InvalidQuery, match="INSERT statements are not allowed on counter"):
        session.execute("INSERT INTO counters (k, v) VALUES (1, 1)")


# What the server refuses

REFUSED = {
    "k int PRIMARY KEY, v set<duration>": "Durations are not allowed inside sets",
    "k int PRIMARY KEY, v map<duration, int>": "Durations are not allowed as map keys",
    "k duration PRIMARY KEY": "duration type is not supported for PRIMARY KEY",
    "k int, v set<int>, PRIMARY KEY (k, v)": "Invalid non-frozen collection type",
    "k int PRIMARY KEY, v list<counter>": "Counters are not allowed inside collections",
    "k int PRIMARY KEY, v set<counter>": "Counters are not allowed inside collections",
    "k int PRIMARY KEY, v map<int, counter>": "Counters are not allowed inside collections",
    "k int PRIMARY KEY, v tuple<counter>": "Counters are not allowed inside tuples",
    "k counter PRIMARY KEY": "counter type is not supported for PRIMARY KEY",
    "k int PRIMARY KEY, v counter, w int": "Cannot mix counter and non counter columns",
    "k int PRIMARY KEY, v list<list<int>>": "Non-frozen collections are not allowed inside",
    "k int PRIMARY KEY, v vector<int, 0>": "vectors may only have positive dimensions",
    "k int PRIMARY KEY, v nosuchtype": "Unknown type",
}


@pytest.mark.parametrize("columns", REFUSED)
def test_types_that_the_server_refuses(session: Session, columns: str) -> None:
    with pytest.raises(errors.InvalidQuery, match=REFUSED[columns]) as caught:
        session.execute(f"CREATE TABLE refused ({columns})")
    assert caught.value.code == 0x2200


def test_a_vector_of_counters_is_accepted(session: Session) -> None:
    """The server does not check for vectors of counters, so it accepts them.

    In the encoded vector, each counter has a length prefix.
    """
    session.execute("CREATE TABLE counted (k int PRIMARY KEY, v vector<counter, 2>)")
    session.execute("INSERT INTO counted (k, v) VALUES (1, ?)", ([-(2**63), 2**63 - 1],))
    assert session.execute("SELECT v FROM counted").page()[0].v == [-(2**63), 2**63 - 1]
    # scylla-driver expects no length prefixes, so it cannot read this vector. The server can read
    # it.
    said = session.execute("SELECT toJson(v) FROM counted").page()[0][0]
    assert json.loads(said) == [-(2**63), 2**63 - 1]


def test_a_udt_refuses_counters(session: Session) -> None:
    with pytest.raises(errors.InvalidQuery, match="A user type cannot contain counters"):
        session.execute("CREATE TYPE refused (a counter)")


def test_values_that_the_server_refuses(session: Session) -> None:
    session.execute("CREATE TABLE spans (k int PRIMARY KEY, v duration)")
    # The bytes 0x020102 mean 1 month, -1 day and 1 nanosecond.
    with pytest.raises(errors.InvalidQuery, match="not a valid binary representation for type dur"):
        session.execute("INSERT INTO spans (k, v) VALUES (1, blobAsDuration(0x020102))")
    with pytest.raises(errors.EncodeError, match="months, days and nanoseconds of different signs"):
        session.execute("INSERT INTO spans (k, v) VALUES (1, ?)", (Duration(1, -1, 0),))
    session.execute("CREATE TABLE texts (k text PRIMARY KEY)")
    with pytest.raises(errors.InvalidQuery, match="Key may not be empty"):
        session.execute("INSERT INTO texts (k) VALUES (?)", ("",))


# Partition keys: turbocql must compute the same routing hash as the server.


def test_every_type_in_a_partition_key(session: Session) -> None:
    """A row can be read with the same key values with which it was written."""
    keys: list[tuple[Kind, list[Any]]] = [
        (scalar, list(scalar.samples)) for scalar in SCALARS if scalar.name != "duration"
    ]
    keys += [(ListOf(INT), [[1], []]), (TupleOf((INT, TEXT)), [(1, "a"), (None, None)])]
    keys += [(PLACE, [(1, "a", {"b"}), (2, None, None)]), (VectorOf(INT, 2), [[1, 2], [3, 4]])]
    names = [f"k{number}" for number in range(len(keys))]
    columns = "".join(f"{name} {kind.cql}, " for name, (kind, _) in zip(names, keys, strict=True))
    session.execute(f"CREATE TABLE keyed ({columns} v int, PRIMARY KEY (({', '.join(names)})))")
    # The bind markers are in the reverse order of the key's columns. The routing key must still
    # have the columns in their own order.
    markers = ", ".join(["?"] * len(keys))
    insert = session.prepare(
        f"INSERT INTO keyed (v, {', '.join(reversed(names))}) VALUES (?, {markers})"
    )
    assert insert.partition_key == list(range(len(keys), 0, -1))
    where = " AND ".join(f"{name} = ?" for name in names)
    select = session.prepare(f"SELECT v, {', '.join(names)} FROM keyed WHERE {where}")
    count = max(len(samples) for _, samples in keys)
    rows = [[samples[row % len(samples)] for _, samples in keys] for row in range(count)]
    for v, row in enumerate(rows):
        session.execute(insert, (v, *reversed(row)))
    for v, row in enumerate(rows):
        found = session.execute(select, row, rows="tuple").one()
        assert identical((v, *row), found)


def test_naive_timestamps_and_numpy_vectors(cassandra: Cassandra, session: Session) -> None:
    session.execute("CREATE TABLE chosen (k int PRIMARY KEY, t timestamp, v vector<float, 2>)")
    instant = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    session.execute("INSERT INTO chosen (k, t, v) VALUES (1, ?, ?)", (instant, [1.5, 2.5]))
    with turbocql.connect(
        cassandra.contact_points, keyspace=session.keyspace, timestamps="naive", vectors="numpy"
    ) as other:
        row = other.execute("SELECT t, v FROM chosen").page()[0]
        assert identical(row.t, instant.replace(tzinfo=None))
        assert (row.v.dtype.name, row.v.tolist()) == ("float32", [1.5, 2.5])
        other.execute("INSERT INTO chosen (k, v) VALUES (2, ?)", (row.v * 2,))
        assert other.execute("SELECT v FROM chosen WHERE k = 2").page()[0].v.tolist() == [3.0, 5.0]


def test_types_of_function_results(session: Session) -> None:
    row = session.execute(
        "SELECT now(), token(k), writetime(t), ttl(t), toDate(t) FROM chosen LIMIT 1"
    )
    assert isinstance(row.page()[0][0], UUID)
    kinds = [column.cql_type for column in row.columns]
    assert kinds == ["timeuuid", "bigint", "bigint", "int", "date"]


def test_times_written_as_datetime_time(session: Session) -> None:
    session.execute("CREATE TABLE times (k int PRIMARY KEY, v time)")
    written = [datetime.time(8, 12, 54, 123_456), Time.of(8, 12, 54, 123_456_000)]
    assert identical(roundtrip(session, "times", written), [written[1]] * 2)
