"""Tests the advice in errors.

Errors have advice for requests that the server refused, and for rows that are passed where columns
are expected.
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

from turbocql import _hints, errors
from turbocql._columns.pieces import columns_of
from turbocql._transfer.load import rows_or_columns

SYNTAX, INVALID, READ_TIMEOUT, READ_FAILURE = 0x2000, 0x2200, 0x1200, 0x1300
INVALID_SCHEMA, ALREADY_EXISTS, UNAUTHORIZED = 0x2300, 0x2400, 0x2100
NO_WAY = "no viable alternative at input"
PASS_VALUES = "pass the values of the bind markers: session.execute(text, (value, ...))"
NO_MARKERS = " takes no bind markers: write values into the text with turbocql.quote_literal"
NO_NAMES = "a bind marker stands for a value only: write names into the text with turbocql.quote_id"
NO_KEYSPACE = "write keyspace.table, pass keyspace= to connect, or call session.use_keyspace(name)"
TABLE_NAME = "executing: syntax error: Bind variables cannot be used for table names"


def hint(code: int, message: str, statement: str) -> str:
    """Returns the advice that turbocql adds to an error of the server."""
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
        (
            INVALID,
            "Keyspace 'shop' does not exist",
            'USE "shop"',
            "for a single node, create it: CREATE KEYSPACE shop WITH replication = {'class': 'Ne",
        ),
        (INVALID, "Keyspace 'shop' doesn't exist", "CREATE TABLE shop.t", "for a single node, cre"),
        (
            SYNTAX,
            "no",
            "INSERT INTO t (k, v) VALUES (…, hello)",
            "a text is in single quotes: 'hello'",
        ),
        (
            SYNTAX,
            "no",
            "insert into t (k, v) values (…, hello world)",
            "a text is in single quotes:",
        ),
        (
            SYNTAX,
            "'@'",
            "INSERT INTO t (v) VALUES (b@x.eu)",
            "a text is in single quotes: 'b@x.eu'",
        ),
        (SYNTAX, "no", "INSERT INTO t (v) VALUES ({…: one})", "a text is in single quotes: 'one'"),
        (SYNTAX, "no", "INSERT INTO t (v) VALUES ([one])", "a text is in single quotes: 'one'"),
        (SYNTAX, "no", "INSERT INTO t (v) VALUES (…) IF v = x", "a text is in single quotes: 'x'"),
        (SYNTAX, "no", "INSERT INTO t (v) VALUES (None)", "write null in place of None"),
        (SYNTAX, "no", "UPDATE t SET v = hello WHERE k = …", "a text is in single quotes: 'hello'"),
        (SYNTAX, "no", "SELECT * FROM t WHERE v = hello", "a text is in single quotes: 'hello'"),
        (SYNTAX, "no", "SELECT * FROM t WHERE k IN (a, b)", "a text is in single quotes: 'a'"),
        (SYNTAX, "no", "INSERT INTO t (k, v) VALUES (?, :v, now(), null, {street: …}", ""),
        (SYNTAX, "no", "UPDATE t SET c = c + … WHRE k = ? AND b = true AND a = now()", ""),
        (SYNTAX, "no", "SELECT a, b FROM t WHERE token(a) > ? AND (a, b) > (?, ?) LIMT", ""),
        (SYNTAX, "input 's' ('it'[s]...)", "INSERT INTO t (v) VALUES (…s…", "a quote within a"),
        (
            SYNTAX,
            "'<EOF>' expecting '''",
            "INSERT INTO t (v) VALUES (…",
            "a quote within a text is",
        ),
        (
            SYNTAX,
            "(1, 2020[-01]...)",
            "INSERT INTO t (v) VALUES (…)",
            "a date is in single quotes:",
        ),
        (SYNTAX, "(1, 127.0[.]...)", "INSERT INTO t (v) VALUES (…)", "an address is in single"),
        (
            SYNTAX,
            "at input 'OR'",
            "SELECT * FROM t WHERE k = … OR k = …",
            "CQL has no OR: write IN",
        ),
        (SYNTAX, "no", "SELECT * FROM t JOIN u ON t.k = u.k", "CQL has no JOIN: read one table"),
        (SYNTAX, "input 'OFFSET'", "SELECT * FROM t OFFSET …", "CQL has no OFFSET: continue"),
        (SYNTAX, "input 'VALUES'", "INSERT INTO k.t VALUES (…)", "name the columns: INSERT INTO"),
        (
            SYNTAX,
            "input '('",
            "CREATE TABLE t (v varchar(…))",
            "a type has no length or precision:",
        ),
        (
            SYNTAX,
            "input '('",
            "ALTER TABLE t ADD v decimal(…, …)",
            "a type has no length or precisio",
        ),
        (SYNTAX, "input '('", "SELECT intdiv((…) FROM t", ""),
        (
            SYNTAX,
            "no",
            "CREATE TABLE t (v vector<float>)",
            "write the number of elements too: vect",
        ),
        (
            SYNTAX,
            "mismatched input 'c' expecting '(' (...ORDER BY [c]...)",
            "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY c DESC",
            "write CLUSTERING ORDER BY (column DESC)",
        ),
        (SYNTAX, "input 'TRANSACTION'", "BEGIN TRANSACTION", "CQL has no transactions: a Batch is"),
        (SYNTAX, "input 'SHOW'", "SHOW TABLES", "write DESCRIBE TABLES, or read session.schema()"),
        (
            SYNTAX,
            "'<EOF>' expecting K_FROM",
            "SELECT now()",
            "SELECT needs FROM: FROM system.local",
        ),
        (SYNTAX, "input 'AS'", "SELECT * FROM t AS x", "tables have no aliases: leave AS out"),
        (
            SYNTAX,
            "no",
            "SELECT COUNT(DISTINCT v) FROM t",
            "CQL has no count(DISTINCT ...): count in",
        ),
        (
            SYNTAX,
            "input 'NULL'",
            "SELECT * FROM t WHERE v IS NULL",
            "a condition finds no nulls: l",
        ),
        (
            SYNTAX,
            "input 'BETWEEN'",
            "SELECT * FROM t WHERE k BETWEEN … AND …",
            "this server has no",
        ),
        (
            SYNTAX,
            "input 'REPLACE'",
            "REPLACE INTO t (k) VALUES (…)",
            "write INSERT, which replaces",
        ),
        (
            SYNTAX,
            "input ',' expecting EOF",
            "INSERT INTO t (k) VALUES (…), (…)",
            "an INSERT is for",
        ),
        (
            SYNTAX,
            "input 'ON'",
            "INSERT INTO t (k) VALUES (…) ON CONFLICT DO NOTHING",
            "INSERT repla",
        ),
        (
            UNAUTHORIZED,
            "You have to be logged in",
            "GRANT SELECT ON t TO bob",
            "pass user= and password= to connect",
        ),
        (UNAUTHORIZED, "User bob has no MODIFY permission", "INSERT INTO t (k) VALUES (…)", ""),
        (
            INVALID,
            'Clustering column "c" cannot be restricted (preceding column "b" is',
            "x",
            "only",
        ),
        (
            INVALID,
            "Collection column 'tags' (set<text>) cannot be restricted by a '=' relation",
            "x",
            "write tags CONTAINS ?",
        ),
        (
            INVALID,
            "Invalid operation (at.s = 'a') for frozen UDT column at",
            "x",
            "a frozen value is",
        ),
        (
            INVALID,
            "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'k'",
            "x",
            "write frozen<list<int>>",
        ),
        (
            INVALID_SCHEMA,
            "Unrecognized strategy option {DC9} passed to",
            "x",
            "name datacenters of",
        ),
        (INVALID_SCHEMA, "Unable to find replication strategy class 'x'", "x", "write replication"),
        (INVALID, 'Invalid INTEGER constant (5) for "l" of type list<int>', "x", "write a list as"),
        (
            SYNTAX,
            "input 'NOT'",
            "CREATE TABLE t (v int NOT NULL)",
            "a column has a name and a type",
        ),
        (
            SYNTAX,
            "'v' expecting K_NOT",
            "INSERT INTO t (k) VALUES (…) IF v = …",
            "INSERT takes IF NO",
        ),
        (
            SYNTAX,
            "input 'IF' expecting K_WHERE",
            "UPDATE t SET v = … IF EXISTS WHERE k = …",
            "IF c",
        ),
        (SYNTAX, "'<EOF>' expecting K_WHERE", "DELETE FROM t", "UPDATE and DELETE need WHERE with"),
        (
            SYNTAX,
            "Unknown property 'ttl'",
            "CREATE TABLE t (k int) WITH ttl = …",
            "did you mean def",
        ),
        (SYNTAX, "Unknown property 'nothing'", "CREATE TABLE t (k int) WITH nothing = …", ""),
        (
            SYNTAX,
            f"{NO_WAY} 'order' (([order]...)",
            "CREATE TABLE t (order int)",
            "order is a reserved",
        ),
        (SYNTAX, f"{NO_WAY} 'FORM' (SELECT a [FORM]...)", "SELECT a FORM t", ""),
        (
            INVALID,
            "Cannot include a counter statement in a logged batch",
            "x",
            "counters go into a",
        ),
        (
            INVALID,
            "Counter and non-counter mutations cannot exist in the same batch",
            "x",
            "counter",
        ),
        (INVALID, "Cannot include non-counter statement in a counter batch", "x", "counters go"),
        (INVALID, "Batch with conditions cannot span multiple tables", "x", "the statements of a"),
        (
            INVALID,
            "ANY ConsistencyLevel is only supported for writes",
            "x",
            "reads take ONE, LOCAL",
        ),
        (
            INVALID,
            "use conditional updates for serializable writes",
            "x",
            "consistency= takes SERIAL",
        ),
        (
            INVALID,
            "ANN ordering by vector requires the column to be indexed",
            "SELECT * FROM shop.docs ORDER BY emb ANN OF ? LIMIT …",
            "ANN OF needs a column of vectors with an index: CREATE INDEX ON shop.docs (emb) USING"
            " 'sai'",
        ),
        (
            INVALID,
            "ANN ordering by vector requires the column to be indexed using 'vector_index'",
            "SELECT * FROM docs ORDER BY emb ANN OF ? LIMIT …",
            "ANN OF needs a column of vectors with an index: CREATE CUSTOM INDEX ON docs (emb)"
            " USING 'vector_index'",
        ),
        (
            INVALID,
            "ANN ordering is only supported on float vector indexes",
            "SELECT * FROM docs ORDER BY id ANN OF ? LIMIT …",
            "ANN OF needs a column of vectors with an index: CREATE INDEX ON docs (column) USING",
        ),
        (INVALID, "Top-K queries must have a limit specified", "x", "add LIMIT n, with n below"),
        (INVALID, "as it might involve data filtering", "x", "no filtering is needed for"),
        (
            INVALID,
            'PRIMARY KEY column "c" cannot be restricted as preceding column "b" is not restricted',
            "x",
            "add a condition on b, or make a table that has c before b in its key",
        ),
        (
            INVALID,
            "Some clustering keys are missing: b, c",
            "x",
            "the statement is for one row: ad",
        ),
        (INVALID, "PRIMARY KEY part k found in SET part", "x", "the key of a row does not change"),
        (
            INVALID,
            "Order by is currently only supported on the clustered columns",
            "x",
            "sort the rows in",
        ),
        (INVALID, "ORDER BY is only supported when the partition key is restricted", "x", "add a"),
        (INVALID, "Group by is currently only supported on", "x", "group the rows in the program"),
        (INVALID, "LIKE restriction is only supported on", "x", "LIKE needs an index of the class"),
        (INVALID, 'Unsupported "!=" relation: k != 1', "x", "read the rows without this condition"),
        (INVALID, "Unknown column 'c' referenced in PRIMARY KEY", "x", "define c with its type"),
        (INVALID, "No PRIMARY KEY specifed for table 't'", "x", "write one key after the columns"),
        (INVALID, "Unmatched column names/values", "x", "write as many values as columns"),
        (INVALID, "Invalid null value in condition for column k", "x", "a condition finds no null"),
        (INVALID, "Invalid user type literal for m of type map<text, int>", "x", "a text is in si"),
        (
            INVALID,
            "Non-frozen collections are not allowed inside collections: map<text, list<int>>",
            "x",
            "freeze the inner type: map<text, frozen<list<int>>>",
        ),
        (INVALID_SCHEMA, "Missing replication strategy class", "x", "write replication = {'class'"),
        (
            INVALID,
            'Invalid STRING constant (5f) for "u" of type uuid',
            "x",
            "write the value witho",
        ),
        (
            INVALID,
            'Invalid INTEGER constant (5) for "v" of type text',
            "x",
            "write the value in si",
        ),
        (INVALID, 'Invalid STRING constant (a) for "v" of type text', "x", ""),
        (
            INVALID,
            "Unable to parse a date/time from '31.12.2020'",
            "x",
            "write it as '2020-12-31 2",
        ),
        (INVALID, "Unable to coerce 'x' to a formatted date (long)", "x", "write it as '2020-12-3"),
        (INVALID, "Unable to coerce 'x' to a formatted time (long)", "x", "write it as '23:59:00'"),
        (
            INVALID,
            "Cannot provide custom timestamp for conditional updates",
            "x",
            "leave out USING",
        ),
        (INVALID, "Cannot provide custom TTL for counter updates", "x", "leave out USING TTL: co"),
        (INVALID, "Cannot use selection function ttl on PRIMARY KEY part k", "x", "the key has no"),
        (ALREADY_EXISTS, "already", "CREATE TABLE t (k int)", "CREATE ... IF NOT EXISTS leaves"),
    ],
)
def test_advice_for_a_statement(code: int, message: str, statement: str, advice: str) -> None:
    shown = hint(code, message, statement)
    assert shown.startswith(advice)
    assert bool(shown) == bool(advice)


def test_advice_for_a_damaged_certificate() -> None:
    message = "tls: ca: invalid peer certificate: BadEncoding"
    error = errors.from_engine("config", message, None, None, None, False, {})
    assert str(error) == f"{message}; a certificate in the file is damaged: export it again"


class KnownNames:
    """A stand-in for a session. It knows some columns, and its cluster has the node `a:1`."""

    keyspace = "shop"

    def _known_columns(self, coordinator: str) -> list[tuple[str, str, str]]:
        names = [("shop", "docs", "name"), ("shop", "docs", "id"), ("old", "item", "key")]
        return names if coordinator == "a:1" else []


@pytest.mark.parametrize(
    ("message", "statement", "advice"),
    [
        ("Undefined column name nmae in table shop.docs", "SELECT nmae FROM docs", "name"),
        ("Undefined column name kye in table shop.docs", "SELECT kye FROM docs", ""),
        ("Undefined column name kye in table old.item", "SELECT kye FROM old.item", "key"),
        ("Column nmae was not found in table 'shop.docs'", "ALTER TABLE docs DROP nmae", "name"),
        ("table dosc does not exist", "SELECT * FROM dosc", "docs"),
        ("table itme does not exist", "SELECT * FROM itme", ""),
        ("table itme does not exist", "SELECT * FROM OLD.itme", "item"),
        ("Table 'old.itme' doesn't exist", "ALTER TABLE old.itme ADD x int", "item"),
        ("unconfigured table dosc", "SELECT * FROM dosc", "docs"),
        ("dosc cannot be read", "SELECT * FROM dosc", ""),
        ("Undefined column name name in table shop.docs", "SELECT name FROM docs", ""),
        ("table docs does not exist", "SELECT name FROM docs", ""),
    ],
)
def test_advice_for_names(
    message: str, statement: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "_SESSIONS", [KnownNames()])
    assert hint(INVALID, message, statement) == (f"did you mean {advice}?" if advice else "")
    other = errors.from_engine("server", message, INVALID, "b:1", 1, False, {})
    assert "did you mean" not in str(other)


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
        ("the statement has 1 bind marker, got 2 values", IN_MARKER, "; IN ? takes one value, wh"),
        (
            "the statement has 1 bind marker, got 2 values",
            "DELETE k = ?",
            "; pass one value for ea",
        ),
        ("the statement has 2 bind markers, got 3 values", "INSERT ?, ?", "; pass one value for e"),
        (
            "the statement has 2 bind markers, got 3 values",
            "SELECT k FROM t WHERE token(k) > ? AND token(k) <= ? AND v = … ALLOW FILTERING",
            "; where= has 0 of these markers, and 1 of these values are those of values=: write",
        ),
        (
            'column "v": expected int, got Arrow\'s double; cast it to int32 first',
            "INSERT ?",
            '; in pandas, astype("Int32"), which keeps missing values',
        ),
        (
            'column "v": expected int, got Arrow\'s int64; cast it to int32 first',
            "INSERT ?",
            '; in pandas, astype("Int32"), which keeps missing values',
        ),
        (
            'column "v": expected smallint, got Arrow\'s uint64; cast it to int16 first',
            "INSERT ?",
            '; in pandas, astype("Int16"), which',
        ),
        (
            'column "v": expected bigint, got Arrow\'s double; cast it to int64 first',
            "INSERT ?",
            '; in pandas, astype("Int64"), which',
        ),
        (
            'column "v": expected timestamp, got Arrow\'s large_string; cast it to timestamp[ms',
            "INSERT ?",
            "; in pandas, pandas.to_datetime(column)",
        ),
        (
            'column "v": expected date, got Arrow\'s large_string; cast it to date32[day] first',
            "INSERT ?",
            "; in pandas, pandas.to_datetime(column)",
        ),
        (
            'column "v": expected decimal, got Arrow\'s double; cast it to decimal128 first',
            "INSERT ?",
            "; or pass Decimal(str(value))",
        ),
        (
            'column "v": expected boolean, got Arrow\'s large_string; cast it to bool first, if',
            "INSERT ?",
            '; in pandas, column.map({"true": True, "false": False}): astype(bool) makes all texts',
        ),
        (
            'column "id": expected int, got Arrow\'s int64; cast it to int32 first',
            "INSERT ?",
            '; in pandas, astype("Int32"), which keeps missing values; for an index, frame.index',
        ),
        (
            'column "v": expected decimal, got Arrow\'s double; cast it to decimal128 first',
            "INSERT ?",
            "; or pass Decimal(str(value)) for each value, and None for a missing one",
        ),
        (
            'column "v": expected float, got Arrow\'s double; cast it to float first',
            "INSERT ?",
            '; in pandas, astype("float32"), which rounds',
        ),
        (
            'column "v": float does not take Arrow\'s double; cast it to float first',
            "INSERT ?",
            '; a NumPy array becomes one by array.astype("float32")',
        ),
        ('the data has no column "v"', "INSERT ?", "; rename a column of the data, or leave the"),
        ('column "k": expected smallint (int), got float nan', "INSERT ?", "; pass None for a mi"),
        (
            'column "k": expected int, got pandas.api.typing.NaTType that cannot',
            "INSERT ?",
            "; pas",
        ),
        (
            'column "k": expected timeuuid, got uuid.UUID: a UUID whose version is not 1',
            "INSERT ?",
            "; turbocql.uuid_from_time(datetime) makes one",
        ),
        (
            'column "k": expected timestamp (datetime), got float 1.5',
            "INSERT ?",
            "; for seconds, p",
        ),
        (
            'column "k": expected time (int), got datetime.datetime',
            "INSERT ?",
            "; of a datetime, pa",
        ),
        ('column "k": expected decimal (int), got float 1.5', "INSERT ?", "; pass Decimal(str(val"),
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


def test_advice_reads_the_beginning_of_a_message() -> None:
    """A message that quotes values can be very long, so only its beginning is searched.

    Some regular expressions would need minutes for the whole message.
    """
    reason = "Invalid x" + " constant for x of type " * 5000 + "counter " * 40_000
    began = time.monotonic()
    error = errors.from_engine(
        "server", f"executing: {reason}; statement: x", 0x2200, None, 1, False, {}
    )
    assert isinstance(error, errors.InvalidQuery)
    errors.from_codec("encode", f"{reason}; statement: x", "", "int")
    assert time.monotonic() - began < 20


def test_a_fault_of_the_advice_does_not_replace_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(_hints, "hints", fails)
    error = errors.from_engine("server", "executing: x", 0x2200, None, 1, False, {})
    assert type(error) is errors.InvalidQuery
