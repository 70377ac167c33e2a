"""Tests that errors for everyday mistakes say what to do, on a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.apis import Api
from tests.support.tables import KEYSPACE

import turbocql
from turbocql import errors
from turbocql.testing import Cassandra


@pytest.fixture(scope="module")
def shop(cassandra: Cassandra) -> Iterator[str]:
    """A keyspace with a few tables."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(KEYSPACE.format("shop_mistakes"))
        for table in (
            "items (id int PRIMARY KEY, name text)",
            "orders (id int PRIMARY KEY, at timestamp)",
        ):
            session.execute(f"CREATE TABLE shop_mistakes.{table}")
        yield "shop_mistakes"
        session.execute("DROP KEYSPACE shop_mistakes")


@pytest.mark.parametrize(
    ("statement", "values", "kind", "message"),
    [
        ("SELECT * FROM items WHERE id = ?", None, errors.InvalidQuery, "pass the values of the"),
        ("SELECT * FROM items WHERE id = :id", None, errors.InvalidQuery, "pass the values of the"),
        ("SELECT * FROM ? WHERE id = 1", ("items",), errors.CqlSyntaxError, "stands for a value"),
        ("CREATE TABLE ? (k int PRIMARY KEY)", ("t",), errors.CqlSyntaxError, "CREATE takes no"),
        ("DROP TABLE ?", None, errors.CqlSyntaxError, "DROP takes no bind markers"),
        ("TRUNCATE ?", ("items",), errors.CqlSyntaxError, "TRUNCATE takes no bind markers"),
        ("GRANT SELECT ON TABLE ? TO bob", ("t",), errors.CqlSyntaxError, "GRANT takes no bind"),
        ("ALTER TABLE items WITH comment = ?", ("t",), errors.CqlSyntaxError, "ALTER takes no"),
        ("ALTER TABLE items WITH comment = :c", {"c": ""}, errors.CqlSyntaxError, "ALTER takes no"),
        ("CREATE ROLE bob WITH PASSWORD = ?", ("x",), errors.CqlSyntaxError, "CREATE takes no"),
        ("CREATE ROLE b WITH PASSWORD = :p", {"p": "x"}, errors.CqlSyntaxError, "CREATE takes no"),
    ],
)
async def test_bind_markers(
    api: Api,
    points: list[str],
    shop: str,
    statement: str,
    values: Any,
    kind: type[errors.Error],
    message: str,
) -> None:
    async with api.connect(points, keyspace=shop) as session:
        with pytest.raises(kind, match=message):
            await session.execute(statement, values)


@pytest.mark.parametrize(
    ("statement", "values", "options", "kind", "message"),
    [
        (
            "id",
            {"id": 1, "nmae": "x"},
            {},
            errors.EncodeError,
            r'"nmae"; did you mean name\? It has',
        ),
        ("id", 1, {}, errors.EncodeError, r"got int: pass a single value as \(value,\)"),
        ("id", "1", {}, errors.EncodeError, r"got str: pass a single value as \(value,\)"),
        ("id", {1}, {}, errors.EncodeError, r"got set; statement"),
        (
            "id",
            (1, "x"),
            {"profile": "repots"},
            errors.ConfigError,
            r"you mean reports\? Its profile",
        ),
        ("id", (1, "x"), {"rows": "dicts"}, errors.ConfigError, r'"dicts"; did you mean dict\?'),
        ("id", (1, "x"), {"rows": dict}, TypeError, r"got type: pass a class as row=$"),
        (
            "SELECT key FROM system.local",
            (1,),
            {},
            errors.EncodeError,
            r"no bind markers \(\? or :",
        ),
        ("SELECT id FROM items WHERE id IN (?)", ([1],), {}, errors.EncodeError, "write IN \\?"),
        ("USE ?", ("x",), {}, errors.ConfigError, "or call use_keyspace"),
    ],
)
async def test_values_and_options(
    api: Api,
    points: list[str],
    shop: str,
    statement: str,
    values: Any,
    options: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    if statement == "id":
        statement = "INSERT INTO items (id, name) VALUES (?, ?)"
    profiles = {"reports": turbocql.ExecutionProfile(timeout_s=5)}
    async with api.connect(points, keyspace=shop, profiles=profiles) as session:
        with pytest.raises(kind, match=message):
            await session.execute(statement, values, **options)


async def test_statements_that_cannot_be_prepared(api: Api, points: list[str]) -> None:
    async with api.connect(points) as session:
        query: Any = turbocql.Query("SELECT key FROM system.local")
        with pytest.raises(TypeError, match="got a Query: pass its text"):
            await session.prepare(query)
        prepared: Any = await session.prepare(query.text)
        with pytest.raises(TypeError, match="got a Prepared, which needs no preparation"):
            await session.prepare(prepared)


async def test_no_keyspace(api: Api, points: list[str]) -> None:
    async with api.connect(points) as session:
        with pytest.raises(errors.InvalidQuery, match="pass keyspace= to connect"):
            await session.execute("SELECT * FROM items")


async def test_names_of_statements(api: Api, points: list[str], shop: str) -> None:
    async with api.connect(points, keyspace=shop) as session:
        await session.execute("UPDATE orders SET at = ? WHERE id = ?", (0, 1))
        with pytest.raises(errors.InvalidQuery, match=r"name idd in .*did you mean id\?"):
            await session.execute("SELECT idd FROM orders")
        with pytest.raises(
            errors.InvalidQuery, match=r"preparing.*name idd in .*did you mean id\?"
        ):
            await session.prepare("SELECT at FROM orders WHERE idd = ?")
        with pytest.raises(errors.InvalidQuery, match=r"nmae(?!.*did you mean)"):
            await session.execute("SELECT nmae FROM items")
        with pytest.raises(errors.InvalidQuery, match=r"did you mean orders\?"):
            await session.execute("SELECT * FROM oders")
        await session.call("schema")
        with pytest.raises(errors.InvalidQuery, match=r"name nmae in .*did you mean name\?"):
            await session.execute("SELECT nmae FROM items")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO items (id, name) VALUES (1, pen)", "a text is in single quotes: 'pen'"),
        (
            "INSERT INTO items (id, name) VALUES (1, 'it's')",
            "a quote within a text is written twice",
        ),
        ("INSERT INTO orders (id, at) VALUES (1, 2020-12-31)", "a date is in single quotes"),
        ("SELECT * FROM items WHERE id = 1 OR id = 2", "CQL has no OR"),
        ("SELECT * FROM items LIMIT 10 OFFSET 5", "CQL has no OFFSET"),
        ("INSERT INTO items VALUES (1, 'pen')", "name the columns"),
        ("CREATE TABLE x (order int PRIMARY KEY)", "order is a reserved word"),
        ("CREATE TABLE x (id int PRIMARY KEY) WITH ttl = 60", "did you mean default_time_to_live"),
        ("CREATE TABLE x (id int PRIMARY KEY, l list<list<int>>)", "list<frozen<list<int>>>$"),
        ("SELECT * FROM items WHERE name = 'pen'", "no filtering is needed for"),
        ("UPDATE items SET id = 2 WHERE id = 1", "the key of a row does not change"),
        ("INSERT INTO items (id, name) VALUES (1, 5)", "write the value in single quotes"),
        ("INSERT INTO orders (id, at) VALUES (1, '31.12.20')", "write it as '2020-12-31 23:59"),
    ],
)
async def test_statements(
    api: Api, points: list[str], shop: str, statement: str, message: str
) -> None:
    async with api.connect(points, keyspace=shop) as session:
        with pytest.raises(errors.ServerError) as caught:
            await session.execute(statement)
    assert re.search(message, str(caught.value).partition("; statement: ")[0])


async def test_tables_that_do_not_exist(api: Api, points: list[str], shop: str) -> None:
    async with api.connect(points, keyspace=shop) as session:
        columns = {"id": [1]}
        near = f"there is no table {shop}.itmes; did you mean {shop}.items\\?"
        for method, arguments in (
            ("scan", ("itmes",)),
            ("splits", ("itmes", 2)),
            ("load", ("itmes", columns)),
            ("verify", ("itmes", columns)),
            ("unload", ("itmes", "itmes.csv")),
        ):
            with pytest.raises(errors.ConfigError, match=near):
                await session.call(method, *arguments)
        with pytest.raises(errors.ConfigError, match="the keyspace has items, orders"):
            await session.scan("zzz")
        with pytest.raises(errors.ConfigError, match=f"no keyspace shpo_mistakes; .* {shop}\\?"):
            await session.call("load", "shpo_mistakes.items", columns)
