"""Tests of the advice in errors: of requests that a server refuses, and of data without columns."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from turbocql import errors
from turbocql._columns.pieces import columns_of
from turbocql._transfer.load import rows_or_columns

SYNTAX, INVALID, READ_TIMEOUT, READ_FAILURE = 0x2000, 0x2200, 0x1200, 0x1300
ALREADY_EXISTS = 0x2400
PASS_VALUES = "pass the values of the bind markers: session.execute(text, (value, ...))"
NO_MARKERS = " takes no bind markers: write values into the text with turbocql.quote_literal"
NO_NAMES = "a bind marker stands for a value only: write names into the text with turbocql.quote_id"
NO_KEYSPACE = "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)"
TABLE_NAME = "executing: syntax error: Bind variables cannot be used for table names"


def hint(code: int, message: str, statement: str) -> str:
    """Returns the advice that is added to a server's error."""
    whole = f"{message}; statement: {statement}"
    error = errors.from_engine("server", whole, code, "a:1", 1, False, {})
    text, _, shown_statement = str(error).partition("; statement: ")
    assert shown_statement == statement
    assert text.startswith(f"{message}; asked a:1")
    return text.removeprefix(f"{message}; asked a:1").removeprefix("; ")


@pytest.mark.parametrize(
    ("code", "message", "statement", "advice"),
    [
        (INVALID, "Invalid amount of bind variables", "SELECT v FROM t WHERE k = ?", PASS_VALUES),
        (INVALID, "Invalid amount of bind variables: expected 1", "DELETE FROM t", PASS_VALUES),
        (SYNTAX, TABLE_NAME, "DROP TABLE ?", f"DROP{NO_MARKERS}"),
        (SYNTAX, TABLE_NAME, "TRUNCATE ?", f"TRUNCATE{NO_MARKERS}"),
        (SYNTAX, TABLE_NAME, "SELECT * FROM ?", NO_NAMES),
        (SYNTAX, "no viable alternative at input '?'", "SELECT * FROM t ORDER BY ?", NO_NAMES),
        (SYNTAX, "at ':'", "ALTER TABLE t WITH comment = :text", f"ALTER{NO_MARKERS}"),
        (SYNTAX, "line 1:5 …", "… grant ? ON t TO bob", f"GRANT{NO_MARKERS}"),
        (INVALID, "no", "CREATE KEYSPACE x WITH replication = ?", f"CREATE{NO_MARKERS}"),
        (SYNTAX, "preparing: …", "CREATE ROLE bob WITH PASSWORD", f"CREATE{NO_MARKERS}"),
        (SYNTAX, "executing: …", "CREATE ROLE bob WITH PASSWORD", ""),
        (SYNTAX, "no", "CREATE KEYSPACE x WITH replication = {…:…, …: true}", ""),
        (SYNTAX, "no", "SELEC v FROM t WHERE k = ?", ""),
        (INVALID, "No keyspace has been specified", "SELECT * FROM t", NO_KEYSPACE),
        (READ_FAILURE, "no", "SELECT count(*) FROM t", "count a large table by token ranges: the"),
        (READ_TIMEOUT, "no", "SELECT COUNT (*) FROM t", "count a large table by token ranges: the"),
        (READ_TIMEOUT, "no", "SELECT * FROM t", "read a large table by token ranges: session.scan"),
        (READ_TIMEOUT, "no", "SELECT * FROM t WHERE k = ?", ""),
        (SYNTAX, "at '%'", "SELECT * FROM t WHERE k = %s", "bind markers are ? or :name"),
        (SYNTAX, "at character '@'", "SELECT * FROM t WHERE k = @k", "bind markers are ? or :name"),
        (SYNTAX, "'1' expecting '$'", "SELECT * FROM t WHERE k = $…", "bind markers are ? or"),
        (SYNTAX, "no", 'SELECT * FROM t WHERE k = "a" LIMIT …', "a text is in single quotes;"),
        (SYNTAX, "no", 'SELECT "a" FROM t WHERE', ""),
        (SYNTAX, "expecting EOF", "DELETE a; DELETE b", "execute one statement at a time"),
        (SYNTAX, "no", "DELETE a;", ""),
        (INVALID, "There were 1 markers(?) in CQL but 0 bound", "DELETE ?", PASS_VALUES),
        (INVALID, "Unsupported unset value for column v", "x", "pass a value for each bind"),
        (INVALID, "Unknown type ks.integer", "CREATE TABLE t (k integer)", "did you mean int?"),
        (INVALID, "Unknown type ks.txet", "CREATE TABLE t (k txet)", "did you mean text?"),
        (INVALID, "Unknown type ks.place", "CREATE TABLE t (k place)", ""),
        (INVALID, "Keyspace 'Shop' does not exist", 'USE "Shop"', "letter case matters"),
        (INVALID, "Keyspace 'shop' does not exist", 'USE "shop"', ""),
        (ALREADY_EXISTS, "already", "CREATE TABLE t (k int)", "CREATE ... IF NOT EXISTS leaves"),
    ],
)
def test_advice_for_a_statement(code: int, message: str, statement: str, advice: str) -> None:
    shown = hint(code, message, statement)
    assert shown.startswith(advice)
    assert bool(shown) == bool(advice)


IN_LIST = "SELECT v FROM t WHERE k IN (?)"
IN_MARKER = "SELECT v FROM t WHERE k in ?"


@pytest.mark.parametrize(
    ("message", "statement", "advice"),
    [
        (
            'column "k": expected int (int), got list of length 2',
            IN_LIST,
            "; to bind a list, write",
        ),
        ('column "k": expected int (int), got str "a"', IN_LIST, ""),
        ('column "in(k)": expected list<int> (a list), got int 1', IN_MARKER, "; IN ? takes one"),
        ("the statement has 1 bind markers, got 2 values", IN_MARKER, "; IN ? takes one value, wh"),
        ("the statement has 1 bind markers, got 2 values", "SELECT v FROM t WHERE k = ?", ""),
        ('column "in": expected int, got list of length 1', "INSERT INTO t (in) VALUES (?)", ""),
    ],
)
def test_advice_for_values_of_in(message: str, statement: str, advice: str) -> None:
    error = errors.from_codec("encode", f"{message}; statement: {statement}", "", "int")
    text, _, shown_statement = str(error).partition("; statement: ")
    assert shown_statement == statement
    assert text.removeprefix(message).startswith(advice)
    assert bool(text.removeprefix(message)) == bool(advice)


class Pair(NamedTuple):
    """A row."""

    id: int
    name: str


@dataclasses.dataclass
class Entry:
    """A row."""

    id: int
    name: str


class Infinite:
    """An asynchronous iterable."""

    def __aiter__(self) -> Infinite:
        return self


ROWS = "rows are for execute_many(statement, rows)"
COLUMNS = 'columns, such as {"id": [1, 2]}'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([{"id": 1, "name": "x"}], ['column "id"', "int, a single value", COLUMNS, ROWS]),
        (({"id": i} for i in range(3)), ['column "id"', "int", COLUMNS, ROWS]),
        ({"id": 1, "name": "x"}, ['column "id"', "int, a single value", COLUMNS, ROWS]),
        ({"id": [1], "name": "x"}, ['column "name"', "got str, a single value", ROWS]),
        ({"id": None}, ['column "id"', "got NoneType", ROWS]),
        ([(1, "x")], [COLUMNS, "got one of tuple", ROWS]),
        ([[1, "x"]], [COLUMNS, "got one of list", ROWS]),
        (((i, "x") for i in range(3)), [COLUMNS, "got one of tuple", ROWS]),
        ([Pair(1, "x")], [COLUMNS, ".Pair", ROWS]),
        ([Entry(1, "x")], [".Entry", ROWS]),
        (Entry(1, "x"), [".Entry", ROWS]),
        ({"id": {1, 2}}, ['column "id"', "set: pass a list of its values"]),
        (
            {"id": (i for i in "ab")},
            ['column "id"', "generator: pass a list of its values"],
        ),
        (np.zeros((2, 2)), ["got numpy.ndarray: name the columns, as in"]),
        (5, ["data must have the Arrow PyCapsule interface", "got int"]),
    ],
)
def test_rows_in_place_of_columns(data: Any, expected: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        columns_of(data)
    for text in expected:
        assert re.search(re.escape(text), str(caught.value)), text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": 1, "name": "x"}, "got a mapping: pass one row as [row], and columns as columns="),
        (Infinite(), "rows of an asynchronous iterable need a session of turbocql.aio"),
    ],
)
def test_no_rows(rows: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        rows_or_columns(rows, None, False)


def test_a_range_is_a_column() -> None:
    columns = columns_of({"id": range(1000)})
    assert columns is not None
    assert (columns.names, columns.rows) == (["id"], 1000)
    assert sum(map(len, columns.pieces)) == 1000
