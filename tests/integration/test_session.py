"""Tests of a session. Each test runs on the synchronous and on the asynchronous API.

It runs on the asynchronous API once with each kind of event loop.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from typing import Any

import pytest
from tests.support.apis import Api
from tests.support.nodes import paused
from tests.support.proxy import Tap
from tests.support.tables import KEYSPACE, ROWS

from turbocql import UNSET, Batch, Prepared, errors
from turbocql.statements import BatchKind
from turbocql.testing import Cassandra

# Executing


async def test_a_text(api_and_loop: Api, points: list[str], keyspace: str, number: int) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        done = await client.execute(f"INSERT INTO kv (k, v, w) VALUES ({number}, 'a', 1)")
        assert done.one() is None
        assert await done.all() == []
        assert done.columns == ()
        rows = await client.execute("SELECT * FROM kv WHERE k = ?", (number,))
        assert await rows.all() == [(number, "a", 1)]
        assert rows.coordinator == points[0]
        assert rows.warnings == []
        assert [(c.keyspace, c.table, c.name, c.cql_type) for c in rows.columns] == [
            (keyspace, "kv", "k", "int"),
            (keyspace, "kv", "v", "text"),
            (keyspace, "kv", "w", "int"),
        ]
        nobody = await client.execute("SELECT * FROM kv WHERE k = ?", [-number])
        assert nobody.one() is None
        assert [column.name for column in nobody.columns] == ["k", "v", "w"]


async def test_prepared_and_bound(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        insert = await client.prepare("INSERT INTO kv (k, v, w) VALUES (?, ?, ?)")
        assert isinstance(insert, Prepared)
        assert insert.text == "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
        assert [(name, kind) for _, _, name, kind in insert.markers] == [
            ("k", "int"),
            ("v", "text"),
            ("w", "int"),
        ]
        assert insert.partition_key == [0]
        assert insert.result_columns == []
        await client.execute(insert, (number, "positional", 1))
        select = await client.prepare("SELECT v, w FROM kv WHERE k = :key")
        assert (await client.execute(select, {"key": number})).one() == ("positional", 1)
        await client.execute(insert, {"w": 2, "k": number, "v": "named"})
        assert (await client.execute(select, [number])).one() == ("named", 2)
        bound = insert.bind((number, "bound", 3))
        assert bound.prepared is insert
        assert bound.cells == [number.to_bytes(4, "big"), b"bound", b"\0\0\0\3"]
        for _ in range(2):
            await client.execute(bound)
        assert (await client.execute(select.bind((number,)))).one() == ("bound", 3)
        with pytest.raises(TypeError, match="has its values already"):
            await client.execute(bound, (1, "a", 2))


async def test_a_prepared_statement_of_another_session(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as first:
        insert = await first.prepare(f"INSERT INTO {keyspace}.kv (k, v) VALUES (?, ?)")
    async with api_and_loop.connect(points) as second:
        await second.execute(insert, (number, "elsewhere"))
        select = f"SELECT v FROM {keyspace}.kv WHERE k = {number}"
        assert (await second.execute(select)).one().v == "elsewhere"


async def test_missing_values_leave_the_stored_values(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
    select = "SELECT v, w FROM kv WHERE k = ?"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        await client.execute(insert, (number, "stays", 1))
        await client.execute(insert, {"k": number, "w": 2})
        assert (await client.execute(select, (number,))).one() == ("stays", 2)
        await client.execute(insert, (number, UNSET, 3))
        assert (await client.execute(select, (number,))).one() == ("stays", 3)
        await client.execute(insert, (number,))
        assert (await client.execute(select, (number,))).one() == ("stays", 3)
        await client.execute(insert, {"k": number, "v": None, "w": UNSET})
        assert (await client.execute(select, (number,))).one() == (None, 3)


async def test_values_that_do_not_fit_are_not_sent(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    insert = f"INSERT INTO {keyspace}.kv (k, v, w) VALUES (?, ?, ?)"
    refused: list[tuple[Any, str]] = [
        ({"k": number, "nope": 1}, 'no bind marker "nope"; it has: k, v, w'),
        ({"v": "a"}, r'"k".*a partition key column needs a value, got none'),
        ({"k": None, "v": "a"}, r'"k".*a partition key column needs a value, got None'),
        ((UNSET, "a", 1), "a partition key column needs a value"),
        ((), "a partition key column needs a value"),
        (None, "a partition key column needs a value"),
        ((number, "a", 1, 2), "the statement has 3 bind markers, got 4 values"),
        ((number, 7, 1), 'column "v": expected text .*, got int 7'),
        ((number, "a", 2**31), 'column "w"'),
    ]
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(tap.contact_point, keyspace=keyspace) as client:
            prepared = await client.prepare(insert)
            before = tap.count("EXECUTE")  # connecting sends EXECUTEs too
            for values, message in refused:
                with pytest.raises(errors.EncodeError, match=message):
                    await client.execute(prepared, values)
                if values is not None:
                    with pytest.raises(errors.EncodeError, match=message):
                        await client.execute(insert, values)
            for values in ("abc", b"abc", 7, {1, 2}):
                with pytest.raises(TypeError, match="values must be a list, tuple"):
                    await client.execute(prepared, values)
        assert tap.count("EXECUTE") == before
        assert tap.count("PREPARE", insert) >= 1


async def test_values_beyond_their_range(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    """Every method that takes values raises or reports a `RangeError` for a number out of range.

    `RangeError` is a subclass of `OverflowError`, because other drivers raise `OverflowError`.
    """
    insert = f"INSERT INTO {keyspace}.kv (k, v, w) VALUES (?, ?, ?)"
    bad: tuple[Any, ...] = (number, "a", 2**31)
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        prepared = await client.prepare(insert)
        batch = Batch()
        batch.add(insert, (number, "a", 1))
        batch.add(insert, bad)
        for statement, values in (
            (insert, bad),
            (prepared, bad),
            (insert, {"k": number, "w": 2**31}),
            (batch, None),
        ):
            with pytest.raises(OverflowError) as caught:
                await client.execute(statement, values)
            assert type(caught.value) is errors.RangeError
            assert caught.value.path == 'column "w"'
            said = str(caught.value).partition("; statement: INSERT INTO ")
            assert said[0].endswith("int 2147483648 is out of the range of int")
            assert said[1]
        with pytest.raises(OverflowError):
            prepared.bind(bad)
        with pytest.raises(OverflowError):
            batch.add(prepared, bad)
        for statement in (insert, prepared):
            report = await client.execute_many(
                statement, [bad, (number, "b", 1), bad], raise_failures=False
            )
            assert [type(failure.error) for failure in report.failures] == [errors.RangeError] * 2
            assert report.succeeded == 1


async def test_other_objects_are_no_statements(api_and_loop: Api, points: list[str]) -> None:
    async with api_and_loop.connect(points) as client:
        for nonsense in (None, 7, b"SELECT", ["SELECT"]):
            with pytest.raises(TypeError, match="a str, a Query, a Prepared or a Bound"):
                await client.execute(nonsense)


async def test_batches(api_and_loop: Api, points: list[str], keyspace: str, number: int) -> None:
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?)"
    first, second, third = number * 1000, number * 1000 + 1, number * 1000 + 2
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        prepared = await client.prepare(insert)
        kinds: dict[BatchKind, int] = {"logged": 1, "unlogged": 2}
        for kind, w in kinds.items():
            batch = Batch(kind)
            batch.add(prepared, {"k": first, "v": kind, "w": w})
            batch.add(prepared.bind((second, kind, w)))
            batch.add(insert, (third, kind, w))
            batch.add(f"UPDATE kv SET w = {w} WHERE k = {number}")
            assert (batch.kind, len(batch)) == (kind, 4)
            assert (await client.execute(batch)).one() is None
            rows = await client.execute(
                f"SELECT v, w FROM kv WHERE k IN ({first},{second},{third})"
            )
            assert await rows.all() == [(kind, w)] * 3
            rows = await client.execute(f"SELECT w FROM kv WHERE k = {number}")
            assert rows.one().w == w
        with pytest.raises(TypeError, match="values must be left out for a Batch"):
            await client.execute(batch, (1,))
        assert (await client.execute(Batch())).one() is None
        with pytest.raises(errors.EncodeError, match='column "w"'):
            batch.add(prepared, (1, "a", "b"))
        batch = Batch()
        batch.add(insert, (1, "a", 1))
        batch.add(insert, (1, "a", "b"))
        with pytest.raises(errors.EncodeError, match='statement 1 of the batch: column "w"') as no:
            await client.execute(batch)
        assert no.value.path == 'column "w"'


async def test_a_batch_of_counters(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        add = await client.prepare("UPDATE counts SET n = n + ? WHERE k = ?")
        batch = Batch("counter")
        for step in (5, 6, -1):
            batch.add(add, (step, number))
        await client.execute(batch)
        rows = await client.execute("SELECT n FROM counts WHERE k = ?", (number,))
        assert rows.one().n == 10
        mixed = Batch("logged")
        mixed.add(add, (1, number))
        with pytest.raises(errors.InvalidQuery, match="counter"):
            await client.execute(mixed)


async def test_a_conditional_batch_returns_applied(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        batch = Batch()
        batch.add("INSERT INTO wide (p, c, v) VALUES (?, 1, 'a') IF NOT EXISTS", (number,))
        batch.add("INSERT INTO wide (p, c, v) VALUES (?, 2, 'b')", (number,))
        assert (await client.execute(batch)).one().applied is True
        assert (await client.execute(batch)).one().applied is False


async def test_conditions(api_and_loop: Api, points: list[str], keyspace: str, number: int) -> None:
    insert = "INSERT INTO kv (k, v) VALUES (?, ?) IF NOT EXISTS"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        done = await client.execute(insert, (number, "first"), serial_consistency="SERIAL")
        assert done.one() == (True,)
        done = await client.execute(insert, (number, "second"))
        assert done.one()._asdict() == {"applied": False, "k": number, "v": "first", "w": None}
        done = await client.execute(
            f"UPDATE kv SET v = 'third' WHERE k = {number} IF v = 'first'", rows="dict"
        )
        assert done.one() == {"[applied]": True}


async def test_timestamps_of_requests(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        insert = "INSERT INTO kv (k, v) VALUES (?, ?)"
        await client.execute(insert, (number, "later"), timestamp=2_000)
        await client.execute(insert, (number, "earlier"), timestamp=1_000)
        rows = await client.execute(f"SELECT v, writetime(v) FROM kv WHERE k = {number}")
        assert rows.one() == ("later", 2_000)


async def test_options_are_checked(api_and_loop: Api, points: list[str]) -> None:
    select = "SELECT key FROM system.local"
    async with api_and_loop.connect(points) as client:
        for options, kind in (
            ({"timeout_s": 0}, errors.ConfigError),
            ({"timeout_s": "1"}, (TypeError, ValueError)),
            ({"page_size": "1"}, (TypeError, ValueError)),
            ({"serial_consistency": "ONE"}, errors.ConfigError),
            ({"rows": "object"}, errors.ConfigError),
            ({"nope": 1}, TypeError),
            ({"\ud800": 1}, TypeError),
            ({"timeout_s": True}, TypeError),
            ({"timeout_s": -(10**400)}, errors.ConfigError),
            ({"page_size": True}, TypeError),
            ({"page_size": 10**30}, errors.ConfigError),
            ({"timestamp": True}, TypeError),
            ({"timestamp": -(2**63)}, errors.ConfigError),
            ({"rows": 5}, TypeError),
            ({"rows": "\ud800"}, TypeError),
        ):
            with pytest.raises(kind):
                await client.execute(select, **options)
        assert (await client.execute(select)).one().key == "local"
        with pytest.raises(errors.EncodeError, match="a statement must be UTF-8"):
            await client.execute("SELECT '\ud800'")


# Implicit preparation


async def test_the_cache_of_prepared_statements_is_bounded(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(
            tap.contact_point, keyspace=keyspace, prepared_cache_size=2
        ) as client:
            core = client.session._core
            texts = [f"SELECT v FROM wide WHERE p = ? AND c = {c}" for c in range(3)]
            for text in texts:
                await client.execute(text, (0,))
            assert len(core.prepared) == 2
            before = [tap.count("PREPARE", text) for text in texts]
            assert min(before) >= 1
            for _ in range(3):
                for text in texts[1:]:
                    await client.execute(text, (0,))
            assert [tap.count("PREPARE", text) for text in texts] == before
            assert (await client.execute(texts[0], (0,))).one().v == "v0"
            assert tap.count("PREPARE", texts[0]) > before[0]
            assert len(core.prepared) == 2


async def test_concurrent_preparations_send_one_prepare(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    text = "SELECT w FROM kv WHERE k = ?"
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(tap.contact_point, keyspace=keyspace) as client:
            await client.prepare("SELECT v FROM kv WHERE k = ?")
            once = tap.count("PREPARE", "SELECT v FROM kv")
            tap.hold()
            work = [asyncio.ensure_future(client.prepare(text)) for _ in range(15)]
            work += [asyncio.ensure_future(client.execute(text, (0,))) for _ in range(15)]  # type: ignore[arg-type]
            await client.until(work[0], 30)
            tap.release()
            await asyncio.gather(*work)
            assert tap.count("PREPARE", text) == once
            assert len(client.session.prepared) == 2


async def test_a_statement_that_cannot_be_prepared(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        for _ in range(2):  # a statement that fails is not cached
            with pytest.raises(errors.CqlSyntaxError):
                await client.prepare("SELEC")
            with pytest.raises(errors.InvalidQuery):
                await client.execute("SELECT nope FROM kv WHERE k = ?", (1,))
        assert client.session._core.prepared == []


async def test_using_another_keyspace(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    other = f"{keyspace}_{number}"
    async with api_and_loop.connect(points) as client:
        await client.execute(KEYSPACE.format(other))
        await client.execute(f"CREATE TABLE {other}.kv (k int PRIMARY KEY, v text)")
        await client.execute(f"USE {keyspace}")
        assert client.session.keyspace == keyspace
        insert = "INSERT INTO kv (k, v) VALUES (?, ?)"
        await client.execute(insert, (number, "here"))
        await client.execute(f"USE {other}")
        assert client.session.keyspace == other
        await client.execute(insert, (number, "there"))  # this prepares the text again for `other`
        for name, value in ((keyspace, "here"), (other, "there")):
            rows = await client.execute(f"SELECT v FROM {name}.kv WHERE k = {number}")
            assert rows.one().v == value
        with pytest.raises(errors.InvalidQuery, match="no_such_keyspace"):
            await client.execute("USE no_such_keyspace")
        assert client.session.keyspace == other
        await client.execute(f"DROP KEYSPACE {other}")


async def test_a_table_that_is_created_again(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    """A table is created again with other types, and a cached statement must use the new types.

    The server gives the text of the statement the same id as before.
    """
    insert = f"INSERT INTO anew{number} (k, v) VALUES (?, ?)"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        for kind, value in (("int", 2), ("float", 2), ("text", "two")):
            await client.execute(f"CREATE TABLE anew{number} (k int PRIMARY KEY, v {kind})")
            await client.execute(insert, (1, value))
            rows = await client.execute(f"SELECT v FROM anew{number}")
            assert rows.one().v == value
            await client.execute(f"DROP TABLE anew{number}")


# Rows


async def test_the_kinds_of_rows(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    select = 'SELECT c, v, c AS "the class", v AS "class" FROM wide WHERE p = 0 AND c = 3'
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        named = (await client.execute(select)).one()
        assert named == (3, "v3", 3, "v3")
        assert named._fields == ("c", "v", "the_class", "field_3")
        assert (named.c, named.v, named.the_class) == (3, "v3", 3)
        assert pickle.loads(pickle.dumps(named)) == named
        assert type((await client.execute(select)).one()) is type(named)
        assert type((await client.execute(select, rows="tuple")).one()) is tuple
        assert (await client.execute(select, rows="dict")).one() == {
            "c": 3,
            "v": "v3",
            "the class": 3,
            "class": "v3",
        }


@pytest.mark.parametrize("kind", ["named", "tuple", "dict"])
async def test_many_pages(api: Api, points: list[str], keyspace: str, kind: str) -> None:
    expected: list[Any] = [(number, f"v{number}") for number in range(ROWS)]
    if kind == "dict":
        expected = [{"c": c, "v": v} for c, v in expected]
    async with api.connect(points, keyspace=keyspace, page_size=50, rows=kind) as client:
        for values in ((0,), None):
            marker = "?" if values else "0"
            select = f"SELECT c, v FROM wide WHERE p = {marker}"
            rows = await client.execute(select, values)
            assert rows.one() == expected[0]
            assert [row async for row in rows] == expected
            assert await (await client.execute(select, values)).all() == expected
            for page_size in (1, 7, ROWS - 1, ROWS, ROWS + 1, 100_000):
                limit = f"{select} LIMIT 20" if page_size < 50 else select
                rows = await client.execute(limit, values, page_size=page_size)
                assert await rows.all() == (expected[:20] if page_size < 50 else expected)
        assert await client.idle()


async def test_a_second_iteration(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    select = "SELECT c FROM wide WHERE p = 0 LIMIT 30"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        rows = await client.execute(select)
        assert await rows.all() == await rows.all()
        assert rows.one() == (0,)
        rows = await client.execute(select, page_size=10)
        assert len(await rows.all()) == 30
        for again in (rows.all(), rows.all()):
            with pytest.raises(errors.Error, match="iteration has gone beyond"):
                await again
        with pytest.raises(errors.Error, match="iteration has gone beyond"):
            rows.one()


async def test_an_iteration_left_early(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        rows = await client.execute("SELECT c FROM wide WHERE p = 0", page_size=10)
        seen = 0
        async for row in rows:
            assert row.c == seen
            seen += 1
            if seen == 25:
                break
        del rows
        assert await client.idle()


async def test_the_next_page_is_fetched_ahead(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    select = "SELECT c FROM wide WHERE p = ?"
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(
            tap.contact_point, keyspace=keyspace, page_size=100
        ) as client:
            await client.prepare(select)
            before = tap.count("EXECUTE")  # connecting sends EXECUTEs too
            rows = await client.execute(select, (0,))
            assert tap.count("EXECUTE") == before + 1  # no page is prefetched before iteration
            iterator = rows.__aiter__()
            assert (await iterator.__anext__()).c == 0
            while tap.count("EXECUTE") < before + 2:
                await asyncio.sleep(0.005)
            assert await client.idle()
            assert tap.count("EXECUTE") == before + 2  # only one page is prefetched
            rest = [row.c async for row in iterator]
            assert rest == list(range(1, ROWS))
            assert tap.count("EXECUTE") == before + 10


async def test_warnings_of_the_server(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        batch = Batch("unlogged")
        for key in range(11):
            batch.add(f"INSERT INTO kv (k, v) VALUES ({number * 1000 + key}, 'x')")
        rows = await client.execute(batch)
        assert any("batch" in warning.lower() for warning in rows.warnings)


# Errors


async def test_errors_of_the_server(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    cases: list[tuple[str, type[errors.ServerError], int, str]] = [
        ("SELEC 1", errors.CqlSyntaxError, 0x2000, "no viable alternative"),
        ("SELECT nope FROM kv", errors.InvalidQuery, 0x2200, "[Uu]ndefined column name nope"),
        ("SELECT v FROM kv WHERE w = 1", errors.InvalidQuery, 0x2200, "ALLOW FILTERING"),
        (KEYSPACE.format(keyspace), errors.AlreadyExists, 0x2400, keyspace),
        ("CREATE TABLE kv (k int PRIMARY KEY)", errors.AlreadyExists, 0x2400, "kv"),
        ("DROP TABLE nowhere", errors.InvalidQuery, 0x2200, "nowhere"),
    ]
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        for statement, kind, code, message in cases:
            with pytest.raises(kind, match=message) as caught:
                await client.execute(statement)
            error = caught.value
            assert type(error) is kind
            assert error.code == code
            assert error.coordinator == points[0]
            assert isinstance(error, errors.RequestError)
            again = pickle.loads(pickle.dumps(error))
            assert (type(again), str(again), again.code) == (kind, str(error), code)
        with pytest.raises(errors.AlreadyExists) as caught:
            await client.execute("CREATE TABLE kv (k int PRIMARY KEY)")
        assert caught.value.details == {"keyspace": keyspace, "table": "kv"}


async def test_a_function_that_fails(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        await client.execute(
            f"CREATE FUNCTION fail{number} (n int) RETURNS NULL ON NULL INPUT RETURNS int "
            "LANGUAGE java AS 'return 1 / (n - n);'"
        )
        with pytest.raises(errors.FunctionFailure, match=f"fail{number}") as caught:
            await client.execute(f"SELECT fail{number}(c) FROM wide WHERE p = 0")
        assert caught.value.code == 0x1400


async def test_a_request_without_an_answer(
    api_and_loop: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(cassandra.contact_points, keyspace=keyspace) as client:
        insert = await client.prepare("INSERT INTO kv (k, v) VALUES (?, ?)")
        with paused(cassandra.nodes[0]):
            before = time.monotonic()
            with pytest.raises(errors.RequestTimeout) as caught:
                await client.execute(insert, (number, "a"), timeout_s=0.2)
            assert 0.15 < time.monotonic() - before < 2
            assert isinstance(caught.value, TimeoutError)
            assert caught.value.may_have_applied
            before = time.monotonic()
            with pytest.raises(errors.RequestTimeout) as caught:
                await client.execute("SELECT v FROM kv WHERE k = ?", (number,), timeout_s=0.2)
            assert not caught.value.may_have_applied
            assert time.monotonic() - before < 2  # the limit includes the preparation
        assert await client.idle()
        rows = await client.execute("SELECT v FROM kv WHERE k = ?", (number,))
        assert rows.one() in [None, ("a",)]


async def test_a_timeout_of_the_session(
    api_and_loop: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(
        cassandra.contact_points, keyspace=keyspace, timeout_s=0.2
    ) as client:
        insert = await client.prepare("INSERT INTO kv (k, v) VALUES (?, ?)")
        with paused(cassandra.nodes[0]):
            with pytest.raises(errors.RequestTimeout):
                await client.execute(insert, (number, "a"))
            with pytest.raises(errors.RequestTimeout, match="preparing"):
                await client.prepare("SELECT w FROM kv WHERE k = ?")
            with pytest.raises(errors.BulkError) as caught:
                await client.execute_many(insert, [(number, "a")] * 3)
            assert all(
                isinstance(failure.error, errors.RequestTimeout) for failure in caught.value.failed
            )
            assert len(caught.value.failed) == 3
