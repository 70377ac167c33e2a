"""Tests that the edits of the network engine (the crate scylla, edits/*.patch) correct its faults.

test_cluster.py (PREPARE while a node hangs) and test_hostile_servers.py test other edits.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections import Counter

import pytest
from tests.support.apis import Api
from tests.support.changing_proxy import ERROR, EXECUTE, QUERY, Answer, ChangingProxy, ending_when
from tests.support.loops import Loop
from tests.support.nodes import eventually, paused

import turbocql
import turbocql.aio
from turbocql import Batch, errors
from turbocql.testing import Cassandra

MB = 1_000_000
SELECT = "SELECT key FROM system.local WHERE key = ?"


@pytest.fixture(scope="module")
def table(cassandra: Cassandra) -> str:
    """Creates a table of blobs and returns its name."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE engine_edits WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE engine_edits.t (k int PRIMARY KEY, v blob)")
    return "engine_edits.t"


def test_a_connection_that_is_receiving_is_not_closed(cassandra: Cassandra, table: str) -> None:
    """The keepalive does not close a connection that receives a large page slowly.

    A page of 8 MB arrives at 2 MB/s. The keepalive closes a connection that is silent for 1 s.
    """
    with turbocql.connect(cassandra.contact_points) as session:
        for k in range(8):
            session.execute(f"INSERT INTO {table} (k, v) VALUES (?, ?)", (k, b"x" * MB))
    with (
        ChangingProxy(cassandra.contact_points[0], Answer.frame, bytes_per_s=2 * MB) as slow,
        turbocql.connect(
            slow.contact_point,
            keepalive_interval_s=0.5,
            keepalive_timeout_s=0.5,
            retry="fallthrough",
        ) as session,
    ):
        began = time.monotonic()
        rows = session.execute(f"SELECT v FROM {table}", timeout_s=60).all()
        assert time.monotonic() - began > 3, "it was not slow"
        assert len(rows) == 8


def test_a_connection_that_is_sending_is_not_closed(cassandra: Cassandra, table: str) -> None:
    """The keepalive does not close a connection that sends slowly.

    Eight rows of 1 MB are sent concurrently through a proxy that forwards only 2 MB/s.
    """
    with (
        ChangingProxy(cassandra.contact_points[0], Answer.frame, bytes_per_s=2 * MB) as slow,
        turbocql.connect(
            slow.contact_point, keepalive_interval_s=1, keepalive_timeout_s=1, retry="fallthrough"
        ) as session,
    ):
        insert = session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        rows = [(100 + k, b"x" * MB) for k in range(8)]
        session.execute_many(insert, rows)


def test_a_silent_connection_is_closed(cassandra: Cassandra) -> None:
    """The server accepts requests but does not answer."""
    silent = False

    def change(answer: Answer) -> bytes:
        return b"" if silent else answer.frame()

    with (
        ChangingProxy(cassandra.contact_points[0], change) as mute,
        turbocql.connect(
            mute.contact_point,
            keepalive_interval_s=0.5,
            keepalive_timeout_s=0.5,
            retry="fallthrough",
        ) as session,
    ):
        assert session.execute("SELECT key FROM system.local").one()
        silent = True
        began = time.monotonic()
        with pytest.raises(errors.ConnectionLost):
            session.execute("SELECT key FROM system.local", timeout_s=20)
        assert time.monotonic() - began < 10


async def test_abandoned_requests_harm_no_others(loop: Loop, cassandra: Cassandra) -> None:
    """1,500 reads time out while a node is paused. 100 writes with a longer time limit succeed."""
    async with turbocql.aio.connect(cassandra.contact_points, retry="fallthrough") as session:
        read = await session.prepare(SELECT)
        written = "UPDATE engine_edits.t SET v = 0x00 WHERE k = ?"
        write = await session.prepare(written)

        async def abandoned() -> None:
            with pytest.raises(errors.RequestTimeout):
                await session.execute(read, ("local",), timeout_s=0.5)

        with paused(cassandra.nodes[0]):
            writes = [
                asyncio.create_task(session.execute(write, (k,), timeout_s=30)) for k in range(100)
            ]
            await asyncio.gather(*(abandoned() for _ in range(1_500)))
            await asyncio.sleep(2)
        await asyncio.gather(*writes)
        reads = [session.execute(read, ("local",)) for _ in range(100)]
        assert all(rows.one() for rows in await asyncio.gather(*reads))


async def test_more_requests_at_once_than_streams(loop: Loop, cassandra: Cassandra) -> None:
    """100,000 requests at once succeed, although a connection has 32,768 streams."""
    async with turbocql.aio.connect(cassandra.contact_points) as session:
        read = await session.prepare(SELECT)
        calls = [session.execute(read, ("local",), timeout_s=120) for _ in range(100_000)]
        answers = await asyncio.gather(*calls)
        assert all(rows.one() for rows in answers)


def test_a_node_is_reached_soon_after_it_is_back(cassandra: Cassandra) -> None:
    """The session reaches a node that was down for 7.5 s within 3 s after its return.

    Without the edit, the pauses between attempts would double, beginning with 50 ms. The next
    attempt would then come more than 5 s after the return.
    """
    down = threading.Event()

    with (
        ChangingProxy(cassandra.contact_points[0], ending_when(down)) as proxy,
        turbocql.connect(proxy.contact_point) as session,
    ):

        def works() -> bool:
            try:
                return session.execute(SELECT, ("local",), timeout_s=1).one() is not None
            except errors.RequestError:
                return False

        assert works()
        down.set()
        # Without the edit, the engine would try again 6.35 s and 12.75 s after the first failure.
        ended = time.monotonic()
        assert eventually(lambda: not works(), 5)
        time.sleep(ended + 7.5 - time.monotonic())
        down.clear()
        assert eventually(works, 3)


def test_a_table_made_again_with_other_types_takes_no_old_bytes(
    cassandra: Cassandra, table: str
) -> None:
    """A statement that was prepared for an old table must not write bytes of the old types.

    Another session drops the table and creates it again with other types.
    """
    insert = "INSERT INTO engine_edits.again (k, v, u) VALUES (?, ?, ?)"
    with (
        turbocql.connect(cassandra.contact_points) as session,
        turbocql.connect(cassandra.contact_points) as other,
    ):

        def make_again(kind: str) -> None:
            other.execute("DROP TABLE IF EXISTS engine_edits.again")
            other.execute(f"CREATE TABLE engine_edits.again (k int PRIMARY KEY, v {kind}, u udt)")

        other.execute("CREATE TYPE engine_edits.udt (a int)")
        make_again("int")
        kept = session.prepare(insert)
        session.execute(kept, (1, 1_633_771_873, {"a": 1}))
        other.execute("ALTER TYPE engine_edits.udt ADD b int")
        # A UDT to which a field was added still counts as the same type, so the write succeeds.
        session.execute(kept, (2, 1_633_771_873, {"a": 1}))
        make_again("text")
        # This int and the text "aaaa" have the same bytes, so the server itself would accept them.
        row = (3, 1_633_771_873, None)
        for _ in range(2):
            with pytest.raises(errors.ServerError, match="other types") as raised:
                session.execute(kept, row)
            assert not raised.value.may_have_applied
        # Executing the text prepares it again, so the server knows the id of the statement again.
        # The session must still refuse to execute `kept`.
        with pytest.raises(errors.EncodeError, match="expected text"):
            session.execute(insert, row)
        with pytest.raises(errors.ServerError, match="other types"):
            session.execute(kept, row)
        with pytest.raises(errors.BulkError, match="other types"):
            session.execute_many(kept, [row])
        batch = Batch()
        batch.add(kept, row)
        with pytest.raises(errors.ServerError, match="other types"):
            session.execute(batch)
        session.execute(insert, (4, "text", None))
        # In the rest of this test, the fields of a UDT change places.
        other.execute("CREATE TYPE engine_edits.pair (a int, b int)")
        other.execute("CREATE TABLE engine_edits.pairs (k int PRIMARY KEY, v frozen<pair>)")
        pairs = session.prepare("INSERT INTO engine_edits.pairs (k, v) VALUES (?, ?)")
        session.execute(pairs, (1, {"a": 1, "b": 2}))
        other.execute("DROP TABLE engine_edits.pairs")
        other.execute("DROP TYPE engine_edits.pair")
        other.execute("CREATE TYPE engine_edits.pair (b int, a int)")
        other.execute("CREATE TABLE engine_edits.pairs (k int PRIMARY KEY, v frozen<pair>)")
        with pytest.raises(errors.ServerError, match="other types"):
            session.execute(pairs, (1, {"a": 1, "b": 2}))
        session.execute(pairs.text, (1, {"a": 1, "b": 2}))
        (found,) = session.execute("SELECT v FROM engine_edits.pairs").all()
        assert (found.v.a, found.v.b) == (1, 2)
        assert session.execute("SELECT k, v FROM engine_edits.again").all() == [(4, "text")]


def test_the_diagnosis_names_the_edits() -> None:
    edits = turbocql.diagnosis().engine_edits
    assert {"keepalive", "prepare", "custom-types"} <= set(edits)
    assert ", ".join(edits) in " ".join(str(turbocql.diagnosis()).split())


def forgets(answer: Answer) -> bytes:
    """Replaces the answer to every EXECUTE by the error that the statement is not prepared."""
    if answer.request_opcode != EXECUTE:
        return answer.frame()
    (length,) = struct.unpack_from(">H", answer.request_body)
    reason = b"the cache is full"
    statement_id = answer.request_body[: 2 + length]
    body = struct.pack(">IH", 0x2500, len(reason)) + reason + statement_id
    return answer.with_body(body, opcode=ERROR).frame()


class Forgetful(ChangingProxy):
    """A server that does not keep any prepared statement. It counts requests by opcode."""

    def __init__(self, contact_point: str) -> None:
        super().__init__(contact_point, forgets)
        self.opcodes: Counter[int] = Counter()

    def requested(self, opcode: int, body: bytes) -> None:
        self.opcodes[opcode] += 1


async def test_a_statement_that_the_server_does_not_keep_is_sent_as_a_query(
    api: Api, cassandra: Cassandra, table: str
) -> None:
    with (server := Forgetful(cassandra.contact_points[0])):
        async with api.connect(server.contact_point) as client:
            insert = await client.prepare(f"INSERT INTO {table} (k, v) VALUES (:k, :v)")
            await client.execute(insert, {"k": 9001, "v": b"a"})
            await client.execute(f"INSERT INTO {table} (k, v) VALUES (?, ?)", (9002, None))
            select = f"SELECT k, v FROM {table} WHERE k IN (?, ?)"
            before = server.opcodes.copy()
            rows = await client.execute(select, (9001, 9002), page_size=1)
            assert [tuple(row) for row in await rows.all()] == [(9001, b"a"), (9002, None)]
            # For each page, the session sends an EXECUTE, a PREPARE, an EXECUTE again and a QUERY.
            sent = server.opcodes - before
            assert sent[QUERY] >= 2
            assert sent[EXECUTE] == 2 * sent[QUERY]
