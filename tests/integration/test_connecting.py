"""Tests of opening and closing synchronous and asynchronous sessions."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.apis import Api
from tests.support.children import run_python
from tests.support.nodes import eventually, paused
from tests.support.tables import KEYSPACE

import turbocql
from turbocql import Batch, Consistency, errors
from turbocql.testing import Cassandra


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cassandra]:
    """A node that requires a user and a password."""
    with Cassandra(authentication=True, heap_mb=512) as cluster:
        yield cluster


# Connecting


async def test_leaving_the_block_closes(api_and_loop: Api, points: list[str]) -> None:
    async with api_and_loop.connect(points) as client:
        assert not client.session.closed
        row = (await client.execute("SELECT cluster_name FROM system.local")).one()
        assert row.cluster_name
        assert "open" in repr(client.session)
    assert client.session.closed
    assert "closed" in repr(client.session)
    with pytest.raises(errors.ClosedError, match="the session is closed"):
        await client.execute("SELECT cluster_name FROM system.local")


async def test_an_exception_leaves_the_block_and_closes(
    api_and_loop: Api, points: list[str]
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with api_and_loop.connect(points) as client:
            assert 1 // 0
    assert client.session.closed


async def test_a_contact_point_as_text(api_and_loop: Api, points: list[str]) -> None:
    host, _, port = points[0].rpartition(":")
    for given in (points[0], f" {points[0]} ", tuple(points)):
        async with api_and_loop.connect(given) as client:
            assert client.session.config.contact_points == (points[0],)
    async with api_and_loop.connect(host, port=int(port)) as client:
        assert client.session.config.contact_points == (points[0],)


async def test_a_config_has_the_effect_of_its_settings(
    api_and_loop: Api, points: list[str]
) -> None:
    config = turbocql.Config(contact_points=points, rows="tuple")
    async with api_and_loop.connect(config=config) as client:
        assert client.session.config is config
        assert isinstance((await client.execute("SELECT key FROM system.local")).one(), tuple)
    with pytest.raises(errors.ConfigError, match="not both"):
        await api_and_loop.open(points, config=config)


async def test_unreachable_contact_points_are_skipped(api_and_loop: Api, points: list[str]) -> None:
    dead = ["127.0.0.1:1", "nobody.invalid:9042"]
    async with api_and_loop.connect([*dead, *points], connect_timeout_s=10) as client:
        assert (await client.execute("SELECT key FROM system.local")).one().key == "local"


async def test_no_contact_point_can_be_reached(api_and_loop: Api, points: list[str]) -> None:
    host = points[0].rpartition(":")[0]
    dead = [f"{host}:9043", "127.0.0.1:1"]
    with pytest.raises(errors.ConnectError) as caught:
        await api_and_loop.open(dead)
    for point in dead:
        assert point in str(caught.value)
    assert "refused" in str(caught.value)
    assert isinstance(caught.value, ConnectionError)
    assert not isinstance(caught.value, errors.AuthenticationError)


async def test_a_server_that_never_answers(api_and_loop: Api) -> None:
    """The server accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        point = f"127.0.0.1:{server.getsockname()[1]}"
        before = time.monotonic()
        with pytest.raises(errors.ConnectError, match=point):
            await api_and_loop.open(point, connect_timeout_s=0.3)
        assert time.monotonic() - before < 5


@pytest.mark.parametrize("connect", [turbocql.connect, turbocql.aio.connect])
@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"contact_point": "x"}, TypeError, "unknown setting 'contact_point'; did you mean"),
        ({"port": 0}, errors.ConfigError, "port must be an int from 1 to 65535, got 0"),
        ({"contact_points": "h:"}, errors.ConfigError, "the port is missing"),
        ({"contact_points": []}, errors.ConfigError, "contact_points"),
        ({"contact_points": [9042]}, errors.ConfigError, "9042"),
        ({"consistency": "MOST"}, errors.ConfigError, "consistency must be one of ANY, ONE"),
        ({"consistency": "SERIAL"}, errors.ConfigError, "cannot be serial"),
        ({"serial_consistency": "ONE"}, errors.ConfigError, "SERIAL or LOCAL_SERIAL, not ONE"),
        ({"timeout_s": 0}, errors.ConfigError, "timeout_s must be a number of seconds above 0"),
        ({"connect_timeout_s": "1"}, errors.ConfigError, "connect_timeout_s must be a number"),
        ({"user": "u"}, errors.ConfigError, "user and password go together"),
        ({"compression": "zip"}, errors.ConfigError, "compression must be one of"),
        ({"page_size": 0}, errors.ConfigError, "page_size must be an int from 1"),
        ({"rows": "object"}, errors.ConfigError, "rows must be one of"),
        ({"timestamps": "utc"}, errors.ConfigError, "timestamps must be one of"),
        ({"vectors": "array"}, errors.ConfigError, "vectors must be one of"),
        ({"keyspace": ""}, errors.ConfigError, "keyspace must be a non-empty str"),
        ({"prepared_cache_size": True}, errors.ConfigError, "prepared_cache_size must be an int"),
        ({"io_threads": 0}, errors.ConfigError, "io_threads must be an int from 1 to 256"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_settings_are_checked_at_once(
    connect: Any, settings: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        connect(**settings)  # `turbocql.aio.connect` also raises at once, before an `await`


async def test_the_keyspace_of_a_session(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    async with api_and_loop.connect(points, keyspace=keyspace) as client:
        assert client.session.keyspace == keyspace
        assert (await client.execute("SELECT v FROM wide WHERE p = 0 AND c = 7")).one().v == "v7"
    async with api_and_loop.connect(points) as client:
        assert client.session.keyspace is None
        with pytest.raises(errors.InvalidQuery, match=r"[Nn]o keyspace"):
            await client.execute("SELECT v FROM wide")


async def test_a_keyspace_that_does_not_exist(api_and_loop: Api, points: list[str]) -> None:
    with pytest.raises(errors.ConnectError, match="no_such_keyspace") as caught:
        await api_and_loop.open(points, keyspace="no_such_keyspace")
    assert isinstance(caught.value.__cause__, errors.InvalidQuery)
    assert str(caught.value).startswith("connecting: using keyspace ")
    with pytest.raises(errors.ConfigError, match="letters, digits and underscores"):
        await api_and_loop.open(points, keyspace='x"; DROP')


async def test_the_consistency_of_a_session_and_of_a_request(
    api_and_loop: Api, points: list[str], keyspace: str
) -> None:
    select = "SELECT v FROM wide WHERE p = 0 AND c = 1"
    async with api_and_loop.connect(points, keyspace=keyspace, consistency="two") as client:
        assert client.session.config.consistency is Consistency.TWO
        with pytest.raises(errors.Unavailable) as caught:
            await client.execute(select)
        assert caught.value.code == 0x1000
        assert caught.value.details == {"consistency": "TWO", "required": 2, "alive": 1}
        assert not caught.value.may_have_applied
        for level in ("ONE", "local_quorum", Consistency.QUORUM, Consistency.SERIAL):
            assert (await client.execute(select, consistency=level)).one().v == "v1"
        with pytest.raises(errors.ConfigError, match="MOST"):
            await client.execute(select, consistency="MOST")


@pytest.mark.parametrize("compression", [None, "lz4", "snappy"])
async def test_compression(
    api_and_loop: Api, points: list[str], keyspace: str, number: int, compression: str | None
) -> None:
    text = "turbo " * 20_000
    async with api_and_loop.connect(
        points, keyspace=keyspace, compression=compression, application_name="the tests"
    ) as client:
        await client.execute("INSERT INTO kv (k, v) VALUES (?, ?)", (number, text))
        assert (await client.execute(f"SELECT v FROM kv WHERE k = {number}")).one().v == text
        options = [
            row.client_options
            for row in await (
                await client.execute("SELECT client_options FROM system_views.clients")
            ).all()
        ]
        ours = [option for option in options if option.get("APPLICATION_NAME") == "the tests"]
        assert ours
        assert {option.get("COMPRESSION") for option in ours} >= {compression}


async def test_a_user_and_a_password(api_and_loop: Api, guarded: Cassandra) -> None:
    points = guarded.contact_points
    async with api_and_loop.connect(points, user=guarded.user, password=guarded.password) as client:
        assert (await client.execute("SELECT key FROM system.local")).one().key == "local"
        assert "cassandra'" not in repr(client.session.config).replace("user='cassandra'", "")
    with pytest.raises(errors.AuthenticationError, match=f"{points[0]}.*password are incorrect"):
        await api_and_loop.open(points, user="cassandra", password="wrong")
    with pytest.raises(errors.AuthenticationError, match="wants a user and a password"):
        await api_and_loop.open(points)


async def test_a_statement_that_the_user_may_not_execute(
    api_and_loop: Api, guarded: Cassandra, number: int
) -> None:
    points, role = guarded.contact_points, f"guest{number}"
    async with api_and_loop.connect(points, user="cassandra", password="cassandra") as admin:
        await admin.execute(f"CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = 'p'")
    async with api_and_loop.connect(points, user=role, password="p") as client:
        with pytest.raises(errors.Unauthorized, match=role) as caught:
            await client.execute(KEYSPACE.format(f"of_{role}"))
        assert caught.value.code == 0x2100
        assert caught.value.coordinator == points[0]


# Closing


async def test_closing_twice(api_and_loop: Api, points: list[str]) -> None:
    client = await api_and_loop.open(points)
    for _ in range(3):
        await client.close()
        assert client.session.closed
    with pytest.raises(errors.ClosedError):
        await client.prepare("SELECT key FROM system.local")
    with pytest.raises(errors.ClosedError):
        await client.execute_many("SELECT key FROM system.local", [])
    with pytest.raises(errors.ClosedError):
        await client.execute(Batch())


async def test_closing_concurrently(api_and_loop: Api, points: list[str]) -> None:
    client = await api_and_loop.open(points)
    await asyncio.gather(*(client.close() for _ in range(10)))
    assert client.session.closed


async def test_closing_waits_for_requests_in_flight(
    api_and_loop: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    client = await api_and_loop.open(cassandra.contact_points, keyspace=keyspace)
    insert = await client.prepare("INSERT INTO wide (p, c) VALUES (?, ?)")
    with paused(cassandra.nodes[0]):
        work = [asyncio.ensure_future(client.execute(insert, (number, c))) for c in range(10)]
        await client.until(work[0], 10)
        closing = asyncio.ensure_future(client.close(timeout_s=30))
        while not client.session.closed:
            await asyncio.sleep(0.005)
        with pytest.raises(errors.ClosedError):
            await client.execute(insert, (number, 99))
        assert not closing.done()
    await closing
    for result in await asyncio.gather(*work):
        assert result.one() is None
    assert client.session.in_flight == 0


async def test_closing_does_not_wait_for_ever(
    api_and_loop: Api, cassandra: Cassandra, keyspace: str, number: int
) -> None:
    client = await api_and_loop.open(cassandra.contact_points, keyspace=keyspace)
    insert = await client.prepare("INSERT INTO wide (p, c) VALUES (?, ?)")
    with paused(cassandra.nodes[0]):
        work = [asyncio.ensure_future(client.execute(insert, (number, c))) for c in range(10)]
        await client.until(work[0], 10)
        before = time.monotonic()
        await client.close(timeout_s=0.2)
        assert time.monotonic() - before < 2
        for result in await asyncio.gather(*work, return_exceptions=True):
            assert isinstance(result, errors.ClosedError)
    assert client.session.in_flight == 0


async def test_closing_in_the_middle_of_pages_and_rows(
    api_and_loop: Api, points: list[str], keyspace: str, number: int
) -> None:
    client = await api_and_loop.open(points, keyspace=keyspace)
    rows = await client.execute("SELECT c FROM wide WHERE p = 0", page_size=10)
    read = 0

    def endless() -> Iterator[tuple[int, int]]:
        nonlocal read
        while True:
            yield number, read % 100
            read += 1

    bulk = asyncio.ensure_future(
        client.execute_many("INSERT INTO wide (p, c) VALUES (?, ?)", endless())
    )
    while read < 2_000 and not bulk.done():
        await asyncio.sleep(0.005)

    async def iterate() -> None:
        async for _ in rows:
            if not client.session.closed:
                await client.close(timeout_s=0.2)

    with pytest.raises(errors.ClosedError):
        await iterate()
    # If the rows in flight ended within the close timeout, the error is a BulkError with a report.
    # Otherwise, it is a ClosedError.
    with pytest.raises((errors.ClosedError, errors.BulkError)):
        await bulk


def test_a_session_does_not_survive_a_fork(points: list[str]) -> None:
    """A forked child cannot use its parent's session, but it can open its own session.

    The parent's session keeps working.
    """
    done = run_python(
        """
        import asyncio, os, sys, warnings
        import turbocql
        from turbocql import errors

        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
        points = sys.argv[1]
        select = "SELECT key FROM system.local"

        async def asynchronous():
            async with turbocql.aio.connect(points) as session:
                return (await session.execute(select)).one().key

        with turbocql.connect(points) as session:
            prepared = session.prepare(select)
            rows = session.execute("SELECT * FROM system_schema.columns", page_size=10)
            child = os.fork()
            if child == 0:
                for use in (
                    lambda: session.execute(select),
                    lambda: session.execute(prepared),
                    lambda: session.prepare(select),
                    lambda: session.execute_many(select, [()]),
                    lambda: list(rows),
                ):
                    try:
                        use()
                    except errors.ClosedError as error:
                        assert "forked" in str(error), error
                    else:
                        raise AssertionError("it was usable")
                session.close()
                with turbocql.connect(points) as own:
                    assert own.execute(select).one().key == "local"
                assert asyncio.run(asynchronous()) == "local"
                sys.stdout.write("child ")
                sys.stdout.flush()
                sys.exit(0)
            status = os.waitpid(child, 0)[1]
            assert os.waitstatus_to_exitcode(status) == 0, status
            assert len(list(rows)) > 10
            assert session.execute(prepared).one().key == "local"
            assert asyncio.run(asynchronous()) == "local"
        print("parent")
        """,
        points[0],
    )
    assert done == "child parent\n"


def test_closed_sessions_leave_no_threads_or_file_descriptors(points: list[str]) -> None:
    """A session that was opened and closed leaves no thread and no file descriptor behind."""

    def state() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    with turbocql.connect(points):
        pass
    before = state()
    for _ in range(5):
        with turbocql.connect(points) as session:
            session.execute("SELECT key FROM system.local")
            session.execute("SELECT key FROM system.local WHERE key = ?", ("local",))
            session.execute_many("SELECT key FROM system.local WHERE key = ?", [("local",)] * 9)
    # The numbers may also be lower than before, because a thread of an earlier test may have ended
    # in the meantime.
    assert eventually(lambda: all(now <= then for now, then in zip(state(), before, strict=True)))


def test_threads_that_cannot_be_started(points: list[str]) -> None:
    """If `connect` cannot start its threads, it raises an error that names io_threads.

    It does not wait for the missing threads.
    """
    done = run_python(
        """
        import resource, sys
        import turbocql
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        room = pages * resource.getpagesize() + 30 * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        try:
            turbocql.connect(sys.argv[1], io_threads=64, connect_timeout_s=5)
        except turbocql.errors.ConnectError as error:
            assert "io_threads=64" in str(error), error
            print("refused")
        """,
        points[0],
    )
    assert done == "refused\n"


def test_a_large_cache_allocates_no_memory_in_advance(points: list[str]) -> None:
    before = resident()
    with turbocql.connect(points, prepared_cache_size=2**31 - 1) as session:
        session.execute("SELECT key FROM system.local WHERE key = ?", ("local",))
        assert resident() - before < 100 << 20


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
