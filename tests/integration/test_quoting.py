"""Tests of `quote_identifier` and `quote_literal` against a server, which parses their results."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address
from typing import Any, NamedTuple
from uuid import UUID, uuid1

import pytest

import turbocql
from turbocql import (
    Date,
    Duration,
    FrozenMap,
    Session,
    Time,
    Timestamp,
    quote_identifier,
    quote_literal,
)
from turbocql.codec import decode, encode
from turbocql.testing import Cassandra


class Point(NamedTuple):
    """A value of the user-defined type `point`."""

    x: int | None
    order: str | None


NASTY = "it's; DROP TABLE t; -- /* \" $$ \\ \0\r\n \U0001f600 '' ''"
VALUES: dict[str, list[Any]] = {
    "ascii": ["", "a'b\0\\"],
    "text": ["", NASTY, "'", "''", "\u2019"],
    "blob": [b"", bytes(range(256)), memoryview(b"ab")],
    "boolean": [True, False],
    "tinyint": [-128, 127],
    "bigint": [-(2**63), 2**63 - 1],
    "varint": [-(10**200), 0],
    "float": [math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-45, 3.4028234663852886e38],
    "double": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e16, 1.7976931348623157e308],
    "decimal": [Decimal("1E+3"), Decimal("-1E-400"), Decimal("0E-10"), Decimal("12.340")],
    "uuid": [UUID(int=0), UUID(int=2**128 - 1)],
    "timeuuid": [uuid1()],
    "inet": [ip_address("10.0.0.1"), ip_address("fe80::1:2")],
    "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), Date(-(2**31)), Date(2**31 - 1)],
    "time": [Time(0), Time(86_399_999_999_999), datetime.time(1, 2, 3, 4)],
    "timestamp": [
        datetime.datetime(1, 1, 1),
        datetime.datetime(1599, 12, 31, 23, 59, 59, 999_999),
        datetime.datetime(1600, 1, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        Timestamp(-(2**63)),
        Timestamp(2**63 - 1),
    ],
    "duration": [
        Duration(0, 0, 0),
        Duration(-1, -2, -3),
        Duration(2**31 - 1, 2**31 - 1, 2**63 - 1),
        datetime.timedelta(days=2, microseconds=1),
    ],
    "list<text>": [[NASTY, ""]],
    "list<double>": [[-math.inf, 1.0, math.nan]],
    "set<int>": [{3, 1, 2}],
    "map<text, timestamp>": [{"'": datetime.datetime(1500, 1, 1), "b": datetime.datetime.max}],
    "set<frozen<map<text, inet>>>": [{FrozenMap({"a": ip_address("::1")})}],
    "tuple<int>": [(1,)],
    "tuple<int, text, list<blob>>": [(1, NASTY, [b"'"]), (None, None, None)],
    "vector<float, 2>": [[math.nan, -1.5]],
    "vector<text, 2>": [["'", ""]],
    "frozen<point>": [Point(1, NASTY), Point(None, "")],
    "list<frozen<point>>": [[Point(2, None)]],
}


TABLE = "quoted"


@pytest.fixture(scope="module")
def session(cassandra: Cassandra, cassandra_keyspace: str) -> Iterator[Session]:
    columns = ", ".join(f"c{number} {cql_type}" for number, cql_type in enumerate(VALUES))
    with turbocql.connect(cassandra.contact_points, keyspace=cassandra_keyspace) as session:
        session.execute('CREATE TYPE point (x int, "order" text)')
        session.execute(
            f"CREATE TABLE {TABLE} (k int PRIMARY KEY, {columns}, v text, l list<text>)"
        )
        yield session


def as_bound(cql_type: str, value: Any) -> Any:
    """Returns the value that a session reads after it has written `value` with a bind marker."""
    return value if "point" in cql_type else decode(cql_type, encode(cql_type, value))


@pytest.mark.parametrize("cql_type", VALUES)
def test_values_are_read_back(session: Session, cql_type: str) -> None:
    column = f"c{[*VALUES].index(cql_type)}"
    for value in VALUES[cql_type]:
        types = [None] if "point" in cql_type else [None, cql_type]
        for written_type in types:
            literal = quote_literal(value, written_type)
            session.execute(f"INSERT INTO {TABLE} (k, {column}) VALUES (1, {literal})")
            stored = session.execute(f"SELECT {column} FROM {TABLE}").scalar()
            expected = as_bound(cql_type, value)
            # A NaN does not equal itself, but the `repr` of both values is the same.
            assert stored == expected or repr(stored) == repr(expected), literal


def test_random_texts_are_read_back(session: Session) -> None:
    draw = random.Random(0)
    for _ in range(200):
        texts = ["".join(draw.choices("'\"\\;-/* $a\0\n\U0001f600", k=9)) for _ in range(2)]
        values = ", ".join(map(quote_literal, (1, texts[0], texts)))
        session.execute(f"INSERT INTO {TABLE} (k, v, l) VALUES ({values})")
        assert session.execute(f"SELECT v, l FROM {TABLE}").one() == (texts[0], texts)


def test_names(session: Session, number: int, cassandra_keyspace: str) -> None:
    table = quote_identifier(cassandra_keyspace, f"Quoted_{number}")
    columns = ['a"; DROP TABLE t; --', "select", "Länge", " ", "'", "date"]
    definitions = ", ".join(f"{quote_identifier(column)} int" for column in columns)
    comment = quote_literal(NASTY)
    session.execute(
        f"CREATE TABLE {table} (k int PRIMARY KEY, {definitions}) WITH comment = {comment}"
    )
    described = session.schema().keyspace(cassandra_keyspace).table(f"Quoted_{number}")
    assert set(described.columns) == {"k", *columns}
    assert described.options["comment"] == NASTY


def test_a_password_in_a_statement(cassandra_secure: Any, number: int) -> None:
    """Statements about roles accept no bind markers, so a password must be a literal."""
    tls = turbocql.Tls(ca=cassandra_secure.ca_certificate)
    points, user, password = cassandra_secure.contact_points, f'odd "role" {number}', "pass'word--"
    login = {"user": cassandra_secure.user, "password": cassandra_secure.password}
    with turbocql.connect(points, tls=tls, **login) as session:
        session.execute(
            f"CREATE ROLE {quote_identifier(user)} WITH LOGIN = true"
            f" AND PASSWORD = {quote_literal(password)}"
        )
    with turbocql.connect(points, tls=tls, user=user, password=password) as session:
        assert session.execute("SELECT key FROM system.local").scalar() == "local"
