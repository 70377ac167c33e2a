"""Tests of options of requests: tracing, paging states, profiles and other options."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from datetime import datetime, timezone
from typing import Any

import pytest
from tests.support.apis import Api
from tests.support.proxy import Tap
from tests.support.tables import ROWS

import turbocql
from turbocql import Batch, ExecutionProfile, Query, errors

INSERT = "INSERT INTO kv (k, v) VALUES (?, ?)"
WRITE_TIME = "SELECT v, writetime(v) AS at FROM kv WHERE k = ?"


async def test_tracing(api_and_loop: Api, points: list[str], keyspace: str, number: int) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        plain = await client.execute(INSERT, (number, "a"))
        assert plain.rows.trace_id is None
        assert await plain.trace() is None
        before = datetime.now(timezone.utc)
        traced = await client.execute(INSERT, (number, "a"), tracing=True)
        trace_id = traced.rows.trace_id
        assert trace_id is not None
        trace = await traced.trace()
        assert trace.request == "Execute CQL3 prepared query"
        assert abs((trace.started_at - before).total_seconds()) < 60
        assert str(trace.coordinator) == points[0].rsplit(":", 1)[0]
        assert trace.duration_us is None or trace.duration_us > 0
        assert trace.parameters["consistency_level"] == "LOCAL_QUORUM"
        assert trace.events
        assert {event.source for event in trace.events} == {trace.coordinator}
        assert all(event.activity and event.thread for event in trace.events)


async def test_every_form_of_statement_has_options(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:

        async def written() -> int:
            row = (await client.execute(WRITE_TIME, (number,))).one()
            at: int = row.at
            return at

        stamp = 1_000_000
        prepared = (await client.prepare(INSERT)).with_options(timestamp=stamp)
        await client.execute(prepared, (number, "prepared"))
        assert await written() == stamp
        bound = prepared.bind((number, "bound")).with_options(timestamp=stamp + 1)
        await client.execute(bound)
        assert await written() == stamp + 1
        await client.execute(bound, timestamp=stamp + 2)
        assert await written() == stamp + 2
        await client.execute(Query(INSERT, timestamp=stamp + 3), (number, "query"))
        assert await written() == stamp + 3
        await client.execute(
            Query(f"INSERT INTO kv (k, v) VALUES ({number}, 'text')", timestamp=stamp + 4)
        )
        assert await written() == stamp + 4
        batch = Batch("unlogged", timestamp=stamp + 5)
        batch.add(Query(INSERT), (number, "batch"))
        await client.execute(batch)
        assert await written() == stamp + 5
        stamped: list[Any] = [prepared, Query(INSERT, timestamp=1)]
        for one in stamped:
            with pytest.raises(errors.ConfigError, match="in a batch cannot have the option"):
                batch.add(one, (number, "lost"))
        await client.execute(batch, timestamp=stamp + 6)
        assert await written() == stamp + 6
        await client.execute_many(Query(INSERT, timestamp=stamp + 7), [(number, "many")])
        assert await written() == stamp + 7
        await client.execute_many(prepared, [(number, "many")], timestamp=stamp + 8)
        assert await written() == stamp + 8


async def test_conditional_statements_send_a_serial_consistency(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    """Conditional statements always send a serial consistency.

    Other statements send one only if the option `serial_consistency` is set.
    """
    plain, conditional = INSERT, f"{INSERT} IF NOT EXISTS"
    number += 0x5EA1 << 16  # makes the key easy to find in bodies
    batch = Batch()
    batch.add(conditional, (number, "batch"))
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(tap.contact_point, keyspace=keyspace) as client:
            for statement in (plain, conditional, WRITE_TIME):
                values = (number, "a")[: statement.count("?")]
                await client.execute(statement, values)
                await client.execute(statement, values, serial_consistency="SERIAL")
            for condition in ("", " IF NOT EXISTS"):
                text = f"INSERT INTO kv (k, v) VALUES ({number}, 'marked'){condition}"
                await client.execute(text)
            await client.execute(batch)
    # An EXECUTE begins with the length of an id, the id, a consistency and flags. The engine also
    # makes requests of its own. Their bodies do not contain the key, so they are left out.
    bound = [body for body in tap.bodies("EXECUTE") if number.to_bytes(4, "big") in body]
    executed = [body[2 + int.from_bytes(body[:2], "big") + 2] for body in bound]
    assert [bool(flags & 0x10) for flags in executed] == [False, True, True, True, False, True]
    # A QUERY begins with the length of a text, the text, a consistency and flags.
    texts = [body for body in tap.bodies("QUERY") if b"'marked'" in body]
    queried = [body[4 + int.from_bytes(body[:4], "big") + 2] for body in texts]
    assert [bool(flags & 0x10) for flags in queried] == [False, True]
    # The BATCH ends with the flags and the serial consistency.
    (sent,) = tap.bodies("BATCH")
    assert sent[-3:] == b"\x10\x00\x09"


async def test_invalid_options_are_refused(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        select = "SELECT v FROM kv WHERE k = 1"
        wrongs: list[tuple[dict[str, Any], type[Exception]]] = [
            ({"tracing": "yes"}, TypeError),
            ({"profile": "nope"}, errors.ConfigError),
            ({"profile": 1}, TypeError),
            ({"paging_state": "abc"}, TypeError),
            ({"row": 5}, TypeError),
            ({"row": dict, "rows": "dict"}, errors.ConfigError),
        ]
        for wrong, error in wrongs:
            with pytest.raises(error):
                await client.execute(select, **wrong)
        with pytest.raises(errors.ConfigError):
            Query(select, consistency="MOST")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="unknown option 'colour'"):
            Query(select, colour="red")  # type: ignore[call-arg]
        plain = await client.prepare(select)
        bound: Any = plain.bind()
        with pytest.raises(TypeError, match="a Bound has its values"):
            await client.execute_many(bound, [()])
        unbound: Any = plain
        with pytest.raises(TypeError, match="replicas are those of a Bound"):
            client.session.replicas(unbound)
        prepared = (await client.prepare(select)).with_options(profile="nope")
        with pytest.raises(errors.ConfigError, match=r"no profile .nope."):
            await client.execute(prepared)
        with pytest.raises(errors.RequestError):  # the server, not turbocql, checks paging states
            await client.execute("SELECT c FROM wide", page_size=10, paging_state=b"junk")


async def test_statements_without_pages_refuse_options_of_pages(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    batch = Batch()
    batch.add(INSERT, (number, "a"))
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        for options in ({"page_size": 5}, {"paging_state": b"x"}):
            with pytest.raises(errors.ConfigError, match="a batch has no pages"):
                await client.execute(batch, **options)
        with pytest.raises(errors.ConfigError, match="without a result"):
            await client.execute(INSERT, (number, "a"), paging_state=b"x")


async def test_a_paging_state_continues_in_another_session(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    select = "SELECT c FROM wide WHERE p = 0"
    seen: list[int] = []
    state: bytes | None = None
    async with api_and_loop.connect(points, keyspace=keyspace, page_size=200) as client:
        first = await client.execute(select)
        seen += [row.c for row in first.rows.page()]
        state = first.rows.paging_state
    assert isinstance(state, bytes)
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        second = await client.execute(f"{select} AND c >= ?", (0,), page_size=200)
        third = await client.execute(select, page_size=200, paging_state=state)
        assert [row.c for row in second.rows.page()] == seen
        seen += [row.c for row in third.rows.page()]
        state = third.rows.paging_state
        assert state is not None
    program = (
        "import sys, turbocql\n"
        f"with turbocql.connect({points!r}, keyspace={keyspace!r}, page_size=150) as session:\n"
        f"    rows = session.execute({select!r}, paging_state=bytes.fromhex(sys.argv[1]))\n"
        "    print(*[row.c for row in rows])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, state.hex()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    seen += [int(number) for number in done.stdout.split()]
    assert seen == list(range(ROWS))


async def test_pages(api_and_loop: Api, points: list[str], keyspace: str) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace, page_size=100) as client:
        for statement in ("SELECT c FROM wide WHERE p = 0", None):
            if statement is None:
                prepared = await client.prepare("SELECT c FROM wide WHERE p = ?")
                result = await client.execute(prepared, (0,))
            else:
                result = await client.execute(statement)
            pages = await result.pages()
            assert [len(page) for page in pages] == [100] * (ROWS // 100) + [ROWS % 100]
            assert [row.c for page in pages for row in page] == list(range(ROWS))
            assert result.rows.paging_state is None
            with pytest.raises(errors.Error):
                await result.pages()
        nothing = await client.execute("SELECT c FROM wide WHERE p = 12345")
        assert await nothing.pages() == [[]]
        assert nothing.rows.paging_state is None
        assert nothing.rows.page() == []


async def test_lightweight_transactions(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    insert = "INSERT INTO kv (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS"
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        first = await client.execute(insert, (number, "a", 1))
        assert (first.rows.applied, first.rows.existing) == (True, None)
        again = await client.execute(insert, (number, "b", 2))
        assert again.rows.applied is False
        assert again.rows.existing == {"k": number, "v": "a", "w": 1}
        update = await client.execute("UPDATE kv SET w = 3 WHERE k = ? IF w = 2", (number,))
        assert (update.rows.applied, update.rows.existing) == (False, {"w": 1})
        batch = Batch()
        batch.add("UPDATE kv SET w = 4 WHERE k = ? IF w = 1", (number,))
        assert (await client.execute(batch)).rows.applied is True
        other = await client.execute("SELECT w FROM kv WHERE k = ?", (number,))
        assert (other.rows.applied, other.rows.existing) == (None, None)
        assert (await client.execute(INSERT, (number, "c"))).rows.applied is None
        for rows in ("tuple", "dict"):
            again = await client.execute(insert, (number, "b", 2), rows=rows)
            assert again.rows.applied is False


async def test_profiles(api_and_loop: Api, points: list[str], keyspace: str, number: int) -> None:
    profiles = {
        "impatient": ExecutionProfile(timeout_s=0.2),
        "all": ExecutionProfile(consistency="all", retry="fallthrough"),
        "three": ExecutionProfile(consistency="THREE", retry="downgrading"),
    }
    with Tap(points[0]) as tap:
        async with api_and_loop.connect(
            tap.contact_point, keyspace=keyspace, profiles=profiles
        ) as client:
            tap.hold()
            with pytest.raises(errors.RequestTimeout):
                await client.execute("SELECT v FROM kv WHERE k = 1", profile="impatient")
            tap.release()
    async with api_and_loop.connect(points, keyspace=keyspace, profiles=profiles) as client:
        await client.execute(INSERT, (number, "a"))
        select = "SELECT v FROM kv WHERE k = ?"
        traced = await client.execute(select, (number,), profile="all", tracing=True)
        assert (await traced.trace()).parameters["consistency_level"] == "ALL"
        both = await client.execute(
            select, (number,), profile="all", consistency="ONE", tracing=True
        )
        assert (await both.trace()).parameters["consistency_level"] == "ONE"
        # The table has one replica, so reads at THREE fail and reads at ONE succeed.
        with pytest.raises(errors.Unavailable):
            await client.execute(select, (number,), consistency="THREE")
        lowered = await client.execute(select, (number,), profile="three")
        assert lowered.one().v == "a"
        text = f"SELECT v FROM kv WHERE k = {number}"
        assert (await client.execute(text, profile="three")).one().v == "a"
        # The policy "downgrading" lowers the consistency only of writes that are idempotent.
        batch = Batch(profile="three", idempotent=True)
        batch.add(INSERT, (number, "b"))
        await client.execute(batch)
        report = await client.execute_many(
            INSERT, [(number, "c")], profile="three", idempotent=True
        )
        assert report.succeeded == 1


async def test_results_of_many_rows(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        keys = [number * 1000 + i for i in range(300)]
        await client.execute_many(INSERT, [(key, f"v{key}") for key in keys])
        select = "SELECT v FROM kv WHERE k = ?"
        rows = [(key,) for key in keys]
        rows[7] = ("seven",)  # type: ignore[assignment]
        report = await client.execute_many(select, rows, results=True, raise_failures=False)
        assert report.results is not None
        assert len(report.results) == 300
        assert report.results[7] is None
        del keys[7], report.results[7]
        assert [result.one().v for result in report.results] == [f"v{key}" for key in keys]
        assert (await client.execute_many(select, rows[:3])).results is None
        insert = INSERT + " IF NOT EXISTS"
        report = await client.execute_many(insert, [(keys[0], "x"), (-number, "y")], results=True)
        assert report.results is not None
        assert [result.applied for result in report.results] == [False, True]


async def test_max_failures_of_0_ends_at_the_first_failure(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        rows: list[Any] = [(number, "a"), (number, 5), (number, "b")] + [(number, "c")] * 5000
        report = await client.execute_many(INSERT, rows, max_failures=0, raise_failures=False)
        assert report.stopped
        assert [failure.row for failure in report.failures] == [1]
        assert report.rows < 5000


async def test_the_cache_of_prepared_statements(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace, prepared_cache_size=2) as client:
        texts = [f"SELECT v FROM kv WHERE k = ? AND w > {i} ALLOW FILTERING" for i in range(3)]
        for text in texts:
            await client.execute(text, (number,))
        assert [prepared.text for prepared in client.session.prepared] == texts[:0:-1]
        client.session.forget_prepared()
        assert client.session.prepared == ()
        await client.execute(texts[0], (number,))
        assert len(client.session.prepared) == 1


async def test_closing_with_a_timeout_of_0(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    client = await api_and_loop.open(points, keyspace=keyspace)
    begun = time.monotonic()
    await client.close(timeout_s=0)
    assert time.monotonic() - begun < 5
    with pytest.raises(errors.ClosedError):
        await client.execute("SELECT v FROM kv WHERE k = 1")


def test_a_configuration_can_be_pickled(points: list[str]) -> None:
    config = turbocql.Config(
        contact_points=points,
        profiles={"a": ExecutionProfile(consistency="one")},
        addresses={"10.0.0.1": "127.0.0.1"},
    )
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(pickle.loads(pickle.dumps(config)))


async def test_a_statement_that_the_server_evicted_is_prepared_again(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    table = f"forgotten_{number}"
    create = f"CREATE TABLE {table} (k int PRIMARY KEY, v text)"
    with Tap(points[0]) as tap:
        async with (
            api_and_loop.connect(tap.contact_point, keyspace=keyspace) as client,
            api_and_loop.connect(points, keyspace=keyspace) as other,
        ):
            await other.execute(create)
            insert = await client.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
            select = await client.prepare(f"SELECT * FROM {table} WHERE k = ?")
            await client.execute(insert, (1, "a"))
            assert (await client.execute(select, (1,))).one() == (1, "a")
            for change in (f"ALTER TABLE {table} ADD w int", f"DROP TABLE {table}", create):
                await other.execute(change)
            before = tap.count("PREPARE", f"INSERT INTO {table}")
            await client.execute(insert, (1, "b"))
            assert (await client.execute(select, (1,))).one() == (1, "b")
            many = await client.execute_many(insert, [(i, "c") for i in range(100)])
            assert many.succeeded == 100
            assert tap.count("PREPARE", f"INSERT INTO {table}") > before
            await other.execute(f"ALTER TABLE {table} ADD x int")
            row = (await client.execute(select, (1,))).one()
            assert (row.k, row.v, row.x) == (1, "c", None)
