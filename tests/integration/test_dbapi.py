"""Tests of the Database API (PEP 249) on a real Cassandra."""

from __future__ import annotations

import datetime
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.support.children import run_python
from tests.support.nodes import paused
from tests.support.proxy import Tap
from tests.support.tables import ROWS

import turbocql
from turbocql import UNSET, dbapi, errors
from turbocql.testing import Cassandra

ALL = [(number, f"v{number}") for number in range(ROWS)]
SELECT = "SELECT c, v FROM wide WHERE p = 0"


@pytest.fixture
def connection(points: list[str], keyspace: str) -> Iterator[dbapi.Connection]:
    with dbapi.connect(points, keyspace=keyspace, page_size=100) as connection:
        yield connection


@pytest.fixture
def cursor(connection: dbapi.Connection) -> dbapi.Cursor:
    return connection.cursor()


# Connections


def test_a_connection_and_its_session(points: list[str], keyspace: str) -> None:
    with dbapi.connect(points, keyspace=keyspace, rows="dict") as connection:
        assert type(connection.session) is turbocql.Session
        select = "SELECT c FROM wide WHERE p = 0 AND c = 1"
        assert connection.session.execute(select).one() == {"c": 1}
        assert connection.cursor().execute(select).fetchone() == (1,)
    assert connection.session.closed
    session = turbocql.connect(config=turbocql.Config(contact_points=points))
    with dbapi.Connection(session) as around:
        assert around.session is session
    assert session.closed
    with dbapi.connect(config=session.config) as connection:
        assert connection.session.config is session.config


def test_commit_does_nothing_and_rollback_is_refused(
    connection: dbapi.Connection, cursor: dbapi.Cursor, number: int
) -> None:
    cursor.execute("INSERT INTO kv (k, v) VALUES (?, ?)", (number, "stays"))
    with pytest.raises(dbapi.NotSupportedError, match="no transactions"):
        connection.rollback()
    assert connection.commit() is None  # type: ignore[func-returns-value]
    cursor.execute("SELECT v FROM kv WHERE k = ?", (number,))
    assert cursor.fetchall() == [("stays",)]


def test_closed_objects_raise(points: list[str], keyspace: str) -> None:
    connection = dbapi.connect(points, keyspace=keyspace, page_size=100)
    cursor = connection.cursor().execute(SELECT)
    assert cursor.fetchone() == ALL[0]
    connection.close()
    connection.close()
    for use in (connection.cursor, connection.commit, connection.rollback, connection.__enter__):
        with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
            use()
    check_closed(cursor, "the connection is closed")
    cursor.close()


def test_a_session_that_is_closed_by_itself(points: list[str]) -> None:
    with dbapi.connect(points) as connection:
        connection.session.close()
        with pytest.raises(dbapi.InterfaceError, match="the connection is closed"):
            connection.cursor()


def check_closed(cursor: dbapi.Cursor, message: str) -> None:
    uses: list[Any] = [
        lambda: cursor.execute(SELECT),
        lambda: cursor.executemany("INSERT INTO kv (k) VALUES (?)", [(1,)]),
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        lambda: next(cursor),
        lambda: list(cursor),
        lambda: cursor.setinputsizes([None]),
        lambda: cursor.setoutputsize(10),
        cursor.__enter__,
    ]
    for use in uses:
        with pytest.raises(dbapi.InterfaceError, match=message):
            use()


def test_a_closed_cursor_raises_and_others_keep_working(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute(SELECT)
    cursor.close()
    check_closed(cursor, "the cursor is closed")
    assert cursor.description is None
    assert connection.cursor().execute(SELECT).fetchone() == ALL[0]


def test_a_forked_child_gets_an_error_of_the_interface(points: list[str]) -> None:
    program = """
        import os, sys, warnings
        from turbocql import dbapi
        # Python 3.12 warns of forks with threads about, which is what happens here.
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
        with dbapi.connect(sys.argv[1]) as connection:
            cursor = connection.cursor()
            child = os.fork()
            if child == 0:
                try:
                    cursor.execute("SELECT key FROM system.local")
                except dbapi.InterfaceError as error:
                    print(type(error).__name__, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            print(cursor.execute("SELECT key FROM system.local").fetchall())
    """
    assert run_python(program, points[0]) == "ClosedError\n[('local',)]\n"


# Executing


def test_a_cursor_before_it_executes(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.connection is connection
    assert (cursor.description, cursor.rowcount, cursor.lastrowid) == (None, -1, None)
    assert cursor.arraysize == 1
    assert iter(cursor) is cursor
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.__next__):
        with pytest.raises(
            dbapi.ProgrammingError, match=r"executed: call execute before (fetch|an i)"
        ):
            fetch()
    for name, reason in (
        ("callproc", "no stored procedures"),
        ("nextset", "one result"),
        ("scroll", "forward only"),
    ):
        with pytest.raises(dbapi.NotSupportedError, match=reason):
            getattr(cursor, name)


def test_statements_without_a_result(cursor: dbapi.Cursor, number: int) -> None:
    cursor.execute(SELECT)
    insert = "INSERT INTO kv (k, v) VALUES (?, ?)"
    assert cursor.execute(insert, (number, "a")) is cursor
    executions: list[Callable[[], Any]] = [
        lambda: cursor.execute(insert, (number, "a")),
        lambda: cursor.execute(f"INSERT INTO kv (k, v) VALUES ({number}, 'a')"),
        lambda: cursor.executemany(insert, [(number, "a")]),
    ]
    for execute in executions:
        execute()
        assert (cursor.description, cursor.rowcount) == (None, -1)
        for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, cursor.__next__):
            with pytest.raises(dbapi.ProgrammingError):
                fetch()
    cursor.execute("SELECT v FROM kv WHERE k = ? AND v = 'b' ALLOW FILTERING", (number,))
    assert [column[0] for column in cursor.description or ()] == ["v"]
    assert (cursor.fetchone(), cursor.fetchmany(3), cursor.fetchall()) == (None, [], [])
    assert cursor.rowcount == -1


@dataclass
class Kv:
    w: int
    k: int
    v: str


class NamedKv(NamedTuple):
    v: str
    other: str
    w: int
    k: int


def test_parameters_by_position_and_by_name(cursor: dbapi.Cursor, number: int) -> None:
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
    named = "INSERT INTO kv (k, v, w) VALUES (:k, :v, :w)"
    select = "SELECT v, w FROM kv WHERE k = ?"
    prepared = cursor.connection.session.prepare(insert)
    for statement, parameters, expected in (
        (insert, (number, "tuple", 1), ("tuple", 1)),
        (insert, [number, "list", 2], ("list", 2)),
        (named, {"w": 3, "k": number, "v": "mapping"}, ("mapping", 3)),
        (named, (number, "by position", 4), ("by position", 4)),
        (prepared, (number, None, 5), (None, 5)),
        (insert, (number, UNSET, 6), (None, 6)),
        (insert, Kv(w=7, k=number, v="dataclass"), ("dataclass", 7)),
        (insert, NamedKv("named", "left out", 8, number), ("named", 8)),
    ):
        cursor.execute(statement, parameters)
        row = cursor.execute(select, [number]).fetchone()
        assert row == expected
        assert type(row) is tuple


def test_statements_without_parameters_are_not_prepared(points: list[str], keyspace: str) -> None:
    with Tap(points[0]) as tap:
        settings: Any = {"keyspace": keyspace}
        with dbapi.connect(tap.contact_point, **settings) as connection:
            cursor = connection.cursor()
            text = f"{SELECT} AND c < 9"
            cursor.execute(text)
            nothing: list[Any] = [(), [], {}, None]
            for parameters in nothing:
                cursor.execute(text, parameters)
            assert (tap.count("QUERY", text), tap.count("PREPARE", text)) == (5, 0)
            text = f"{SELECT} AND c < ?"
            for top in (3, 4):
                assert len(cursor.execute(text, (top,)).fetchall()) == top
            assert tap.count("QUERY", text) == 0
            assert tap.count("PREPARE", text) >= 1
            prepared = connection.session.prepare(text)
            before = tap.count("EXECUTE")
            for wrong in ((), None, (1, 2), {}, {"d": 1}):
                with pytest.raises(dbapi.ProgrammingError, match="bind marker"):
                    cursor.execute(prepared, wrong)
            for wrong in ((1, 2), {"d": 1}):
                with pytest.raises(dbapi.ProgrammingError, match="bind marker"):
                    cursor.execute(text, wrong)
            assert tap.count("EXECUTE") == before
            with pytest.raises(dbapi.ProgrammingError) as caught:
                cursor.execute(text)
            assert isinstance(caught.value, errors.InvalidQuery)


def test_operations_must_be_texts(cursor: dbapi.Cursor) -> None:
    cursor.execute(SELECT)
    for nonsense in (None, 7, b"SELECT", turbocql.Batch()):
        for execute in (cursor.execute, cursor.executemany):
            with pytest.raises(dbapi.ProgrammingError, match="an operation is a str"):
                execute(nonsense, ((1,),))  # type: ignore[arg-type]
    for execute in (cursor.execute, cursor.executemany):
        with pytest.raises(dbapi.ProgrammingError, match="characters that UTF-8 does not know"):
            execute("SELECT '\ud800' FROM wide", ())
    assert cursor.description is None


def test_a_failure_leaves_no_earlier_result(cursor: dbapi.Cursor) -> None:
    cursor.execute(SELECT)
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT nope FROM wide")
    assert cursor.description is None
    with pytest.raises(dbapi.ProgrammingError, match="no statement was executed"):
        cursor.fetchone()


def test_conditional_statements_return_a_row(cursor: dbapi.Cursor, number: int) -> None:
    insert = "INSERT INTO kv (k, v) VALUES (?, ?) IF NOT EXISTS"
    assert cursor.execute(insert, (number, "a")).fetchall() == [(True,)]
    cursor.execute(insert, (number, "b"))
    assert [column[0] for column in cursor.description or ()] == ["[applied]", "k", "v", "w"]
    assert cursor.fetchone() == (False, number, "a", None)


def test_many(cursor: dbapi.Cursor, number: int) -> None:
    insert = "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)"
    assert cursor.executemany(insert, ((number, c, "x") for c in range(500))) is cursor
    cursor.executemany(
        "UPDATE wide SET v = :v WHERE p = :p AND c = :c",
        [{"p": number, "c": c, "v": "y"} for c in (2, 3)],
    )
    cursor.executemany(insert, [])
    cursor.execute("SELECT count(*), min(c), max(c) FROM wide WHERE p = ?", (number,))
    assert cursor.fetchall() == [(500, 0, 499)]
    cursor.execute("SELECT v FROM wide WHERE p = ? AND c < 5", (number,))
    assert cursor.fetchall() == [("x",), ("x",), ("y",), ("y",), ("x",)]


def test_many_that_fail(cursor: dbapi.Cursor, number: int) -> None:
    insert = "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)"
    with pytest.raises(dbapi.DataError, match="2 of 4 rows failed; the first, row 1") as data:
        cursor.executemany(
            insert, [(number, 1, "a"), (number, 2, 7), (number, "3", "c"), (1, 4, "d")]
        )
    assert isinstance(data.value, errors.BulkError)
    assert [failure.row for failure in data.value.failed] == [1, 2]
    assert data.value.done == 2
    for wrong in ((number, 7), {"p": number}, "abc", 7):
        with pytest.raises(dbapi.ProgrammingError, match=r"bind markers|must be a") as caught:
            cursor.executemany(insert, [(number, 6, "a"), wrong, (number, 8, "b")])  # type: ignore[list-item]
        assert isinstance(caught.value, errors.BulkError)
        assert (caught.value.report.rows, caught.value.report.succeeded) == (1, 1)
    with pytest.raises(dbapi.ProgrammingError, match=r"first row: .*a row, as in .*; statement: I"):
        cursor.executemany(insert, (number, 6, "a"))  # type: ignore[arg-type]
    with pytest.raises(dbapi.ProgrammingError, match="must be an iterable, got int"):
        cursor.executemany(insert, 7)  # type: ignore[arg-type]
    with pytest.raises(dbapi.ProgrammingError, match="without a result"):
        cursor.executemany(f"{SELECT} AND c = ?", [(1,)])

    def broken() -> Iterator[Any]:
        yield (number, 9, "a")
        raise OSError("no such file")

    with pytest.raises(dbapi.InterfaceError, match="OSError: no such file") as foreign:
        cursor.executemany(insert, broken())
    assert isinstance(foreign.value.__cause__, OSError)
    cursor.execute("SELECT c FROM wide WHERE p = ?", (number,))
    assert cursor.fetchall() == [(1,), (6,), (9,)]


# Rows


def test_description(cursor: dbapi.Cursor, number: int) -> None:
    groups: dict[str, list[tuple[str, Any]]] = {
        "STRING": [("ascii", "a"), ("text", "b")],
        "BINARY": [("blob", dbapi.Binary(b"\0"))],
        "NUMBER": [
            ("tinyint", 1),
            ("smallint", 2),
            ("int", 3),
            ("bigint", 4),
            ("varint", 10**30),
            ("float", 0.5),
            ("double", 0.1),
            ("decimal", Decimal("1.10")),
        ],
        "DATETIME": [
            ("date", dbapi.Date(2024, 2, 29)),
            ("time", dbapi.Time(12, 30)),
            ("timestamp", dbapi.TimestampFromTicks(1.5)),
            ("duration", turbocql.Duration(1, 2, 3)),
        ],
        "BOOLEAN": [("boolean", True)],
        "UUID": [("uuid", UUID(int=7))],
        "INET": [("inet", "127.0.0.1")],
        "COLLECTION": [
            ("list<int>", [1]),
            ("set<text>", {"a"}),
            ("map<text, int>", {"a": 1}),
            ("frozen<list<int>>", [2]),
            ("tuple<int, text>", (1, "a")),
            ("vector<float, 2>", [0.5, 1.0]),
            (f"frozen<kind{number}>", (1,)),
        ],
    }
    cursor.execute(f"CREATE TYPE kind{number} (a int)")
    # The names are in alphabetical order, because the server sorts columns by name.
    columns = [
        (f"c{place:02}", group, cql_type, value)
        for place, (group, cql_type, value) in enumerate(
            (group, *column) for group, members in groups.items() for column in members
        )
    ]
    definitions = ", ".join(f"{name} {cql_type}" for name, _, cql_type, _ in columns)
    cursor.execute(f"CREATE TABLE types{number} (a int PRIMARY KEY, {definitions})")
    assert cursor.description is None
    names = [name for name, *_ in columns]
    cursor.execute(
        f"INSERT INTO types{number} (a, {', '.join(names)}) VALUES (1{', ?' * len(names)})",
        [value for *_, value in columns],
    )
    cursor.execute(f"SELECT {', '.join(names)} FROM types{number} WHERE a = 1")
    description = cursor.description
    assert description is not None
    assert [column[0] for column in description] == names
    for column, (_, group, cql_type, _) in zip(description, columns, strict=True):
        assert column[2:] == (None,) * 5
        equal = [name for name in (*groups, "ROWID") if getattr(dbapi, name) == column[1]]
        assert equal == [group]
        if "frozen" not in cql_type:
            assert column[1] == cql_type
    row = cursor.fetchone()
    for value, (_, group, _, written) in zip(row, columns, strict=True):
        assert (str(value) if group == "INET" else value) == written
    assert cursor.fetchone() is None
    assert cursor.description == description


def test_fetching_across_pages(cursor: dbapi.Cursor) -> None:
    for statement, parameters in ((SELECT, ()), (SELECT.replace("= 0", "= ?"), (0,))):
        assert cursor.execute(statement, parameters).fetchall() == ALL
        assert cursor.fetchall() == []
        assert list(cursor.execute(statement, parameters)) == ALL
        cursor.execute(statement, parameters)
        assert cursor.fetchone() == ALL[0]
        assert cursor.fetchmany() == ALL[1:2]
        assert cursor.fetchmany(0) == []
        assert cursor.fetchmany(99) == ALL[2:101]  # crosses the end of the first page
        assert cursor.fetchmany(99) == ALL[101:200]  # ends with the second page
        assert next(cursor) == ALL[200]
        cursor.arraysize = 250
        assert cursor.fetchmany() == ALL[201:451]  # spans more than two pages
        assert cursor.fetchmany(size=3) == ALL[451:454]
        assert [cursor.fetchone() for _ in range(3)] == ALL[454:457]
        assert cursor.fetchall() == ALL[457:]
        assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()) == (None, [], [])
        assert next(cursor, "the end") == "the end"
        cursor.arraysize = 1
        for size in (1, 7, 100, ROWS - 1, ROWS, ROWS + 1):
            cursor.execute(statement, parameters)
            rows: list[Any] = []
            while some := cursor.fetchmany(size):
                assert len(some) == min(size, ROWS - len(rows))
                rows += some
            assert rows == ALL


def test_fetchmany_of_huge_sizes(cursor: dbapi.Cursor) -> None:
    for size in (sys.maxsize, 10**30):
        assert cursor.execute(SELECT).fetchmany(size) == ALL


@pytest.mark.parametrize("size", [-1, 1.0, "1", True])
def test_invalid_sizes_are_refused(cursor: dbapi.Cursor, size: Any) -> None:
    cursor.execute(SELECT)
    with pytest.raises(dbapi.ProgrammingError, match="size must be an int of 0 or more"):
        cursor.fetchmany(size)
    cursor.arraysize = size
    with pytest.raises(dbapi.ProgrammingError, match="size must be an int of 0 or more"):
        cursor.fetchmany()
    assert cursor.fetchone() == ALL[0]


def test_a_page_is_fetched_when_it_is_needed(points: list[str], keyspace: str) -> None:
    with Tap(points[0]) as tap:
        settings: Any = {"keyspace": keyspace, "page_size": 100}
        with dbapi.connect(tap.contact_point, **settings) as connection:
            cursor = connection.cursor()
            cursor.execute(SELECT)
            assert tap.count("QUERY", SELECT) == 1  # no page is prefetched before a fetch
            for rows, pages in ((50, 2), (50, 2), (100, 3), (1, 4)):
                cursor.fetchmany(rows)
                while connection.session.in_flight:
                    time.sleep(0.005)
                assert tap.count("QUERY", SELECT) == pages  # only one page is prefetched
            assert cursor.fetchall() == ALL[201:]
            assert tap.count("QUERY", SELECT) == 10


def test_a_page_that_times_out_loses_no_row(points: list[str], keyspace: str) -> None:
    with Tap(points[0]) as tap:
        settings: Any = {"keyspace": keyspace, "page_size": 100, "timeout_s": 0.5}
        with dbapi.connect(tap.contact_point, **settings) as connection:
            cursor = connection.cursor()
            cursor.execute(SELECT)
            assert cursor.fetchmany(30) == ALL[:30]  # this requests the second page
            while connection.session.in_flight:
                time.sleep(0.005)
            tap.hold()
            for fetch in (cursor.fetchall, lambda: cursor.fetchmany(900)):
                with pytest.raises(dbapi.OperationalError) as caught:
                    fetch()
                assert isinstance(caught.value, errors.RequestTimeout)
            assert cursor.fetchone() == ALL[30]
            assert cursor.fetchmany(100) == ALL[31:131]
            with pytest.raises(dbapi.OperationalError):
                cursor.fetchmany(70)
            tap.release()
            assert cursor.fetchmany(75) == ALL[131:206]
            assert cursor.fetchall() == ALL[206:]


# Errors


def test_errors_of_every_class(
    cassandra: Cassandra, keyspace: str, cursor: dbapi.Cursor, number: int
) -> None:
    cursor.execute(f"CREATE TABLE lists{number} (k int PRIMARY KEY, l list<int>)")
    cases: list[tuple[str, Any, type[dbapi.Error], type[errors.Error]]] = [
        ("SELEC 1", (), dbapi.ProgrammingError, errors.CqlSyntaxError),
        ("SELECT nope FROM kv", (), dbapi.ProgrammingError, errors.InvalidQuery),
        ("SELECT * FROM nowhere WHERE k = ?", (1,), dbapi.ProgrammingError, errors.InvalidQuery),
        ("CREATE TABLE kv (k int PRIMARY KEY)", (), dbapi.ProgrammingError, errors.AlreadyExists),
        ("INSERT INTO kv (k) VALUES (?)", ("1",), dbapi.DataError, errors.EncodeError),
        ("INSERT INTO kv (k) VALUES (?)", (2**31,), dbapi.DataError, errors.RangeError),
        ("SELECT c / 0 FROM wide WHERE p = 0", (), dbapi.DataError, errors.FunctionFailure),
        (
            f"INSERT INTO lists{number} (k, l) VALUES (?, ?)",
            (1, [1, None]),
            dbapi.InternalError,
            errors.ServerInternalError,
        ),
    ]
    for statement, parameters, ours, theirs in cases:
        with pytest.raises(ours) as caught:
            cursor.execute(statement, parameters)
        error: Any = caught.value
        assert isinstance(error, theirs)
        assert isinstance(error, getattr(cursor.connection, ours.__name__))
        assert error.__cause__ is None
        if isinstance(error, errors.ServerError):
            # The crate scylla does not report the coordinator of a failed PREPARE.
            assert error.coordinator == (
                None if parameters == (1,) else cassandra.contact_points[0]
            )
            assert error.code >= 0
        else:
            assert error.cql_type == "int"
    settings: Any = {"keyspace": keyspace, "timeout_s": 0.3}
    with dbapi.connect(cassandra.contact_points, **settings) as connection:
        insert = connection.session.prepare("INSERT INTO kv (k, v) VALUES (?, ?)")
        with paused(cassandra.nodes[0]):
            with pytest.raises(dbapi.OperationalError) as late:
                connection.cursor().execute(insert, (number, "late"))
            assert isinstance(late.value, errors.RequestTimeout)
            assert isinstance(late.value, TimeoutError)
            assert late.value.may_have_applied
            with pytest.raises(dbapi.OperationalError) as many:
                connection.cursor().executemany(insert, [(number, "late")])
            assert isinstance(many.value, errors.BulkError)


def test_a_keyspace_that_does_not_exist(points: list[str]) -> None:
    with pytest.raises(dbapi.OperationalError, match="nowhere") as caught:
        dbapi.connect(points, keyspace="nowhere")
    assert isinstance(caught.value, errors.ConnectError)
    assert isinstance(caught.value.__cause__, errors.InvalidQuery)


# Threads


def test_threads_share_a_connection(connection: dbapi.Connection, number: int) -> None:
    together = threading.Barrier(8)

    def work(worker: int) -> list[Any]:
        together.wait()
        with connection.cursor() as cursor:
            for step in range(20):
                cursor.execute(
                    "INSERT INTO wide (p, c, v) VALUES (?, ?, ?)",
                    (-number, worker * 20 + step, "t"),
                )
            return cursor.execute(SELECT).fetchall()

    with ThreadPoolExecutor(8) as pool:
        assert all(rows == ALL for rows in pool.map(work, range(8)))
    cursor = connection.cursor().execute("SELECT c FROM wide WHERE p = ?", (-number,))
    assert cursor.fetchall() == [(c,) for c in range(160)]


# Generic tools


def test_a_generic_tool(connection: Any, keyspace: str) -> None:
    """Makes the calls of a query runner that knows only the Database API."""
    module = dbapi
    assert module.apilevel == "2.0"
    cursor = connection.cursor()
    try:
        cursor.setinputsizes([None])
        cursor.setoutputsize(1000, 1)
        cursor.execute(f"SELECT c, v, writetime(v) FROM {keyspace}.wide WHERE p = 0 LIMIT 3")
        header = [column[0] for column in cursor.description]
        right = [column[1] == module.NUMBER for column in cursor.description]
        table = [dict(zip(header, row, strict=True)) for row in cursor]
    finally:
        cursor.close()
    assert header == ["c", "v", "writetime(v)"]
    assert right == [True, False, True]
    assert [(row["c"], row["v"]) for row in table] == ALL[:3]
    written = module.TimestampFromTicks(table[0]["writetime(v)"] / 1e6)
    assert written <= datetime.datetime.now(datetime.timezone.utc)
    connection.commit()
