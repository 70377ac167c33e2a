"""Tests custom payloads on a Cassandra whose query handler sends them back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.support.apis import Api, Client
from tests.support.changing_proxy import EXECUTE, Answer, ChangingProxy
from tests.support.nodes import eventually

import turbocql
from turbocql import telemetry
from turbocql.errors import ConfigError
from turbocql.testing import Cassandra

HANDLER = "org.apache.cassandra.cql3.CustomPayloadMirroringQueryHandler"
SELECT = "SELECT v FROM mirrored.t WHERE k = ?"
PAYLOAD = {"name": b"value", "": b"", "bytes\u00e9": bytes(range(256))}


@pytest.fixture(scope="module")
def mirror() -> Iterator[Cassandra]:
    """A Cassandra that answers each request with the request's custom payload."""
    options = [f"-Dcassandra.custom_query_handler_class={HANDLER}"]
    with Cassandra(jvm_options=options) as cassandra:
        with turbocql.connect(cassandra.contact_points) as session:
            session.execute(
                "CREATE KEYSPACE mirrored WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.execute("CREATE TABLE mirrored.t (k int PRIMARY KEY, v text)")
        yield cassandra


async def payload_of(client: Client, statement: Any, values: Any = None, **options: Any) -> Any:
    return (await client.execute(statement, values, **options)).rows.custom_payload


@pytest.mark.parametrize("compression", [None, "lz4", "snappy"])
async def test_every_kind_of_request_carries_the_payload(
    api: Api, mirror: Cassandra, compression: Any
) -> None:
    async with api.connect(mirror.contact_points, compression=compression) as client:
        text = "INSERT INTO mirrored.t (k, v) VALUES (1, 'a')"
        assert await payload_of(client, text, custom_payload=PAYLOAD) == PAYLOAD
        assert await payload_of(client, SELECT, (1,), custom_payload=PAYLOAD) == PAYLOAD
        result = await client.execute(SELECT, (1,), custom_payload=PAYLOAD)
        assert result.scalar() == "a"
        prepared = await client.prepare(SELECT)
        assert await payload_of(client, prepared.bind((1,)), custom_payload=PAYLOAD) == PAYLOAD
        batch = turbocql.Batch(custom_payload=PAYLOAD)
        batch.add(text)
        batch.add("INSERT INTO mirrored.t (k, v) VALUES (?, ?)", (2, "b"))
        assert await payload_of(client, batch) == PAYLOAD
        assert (await client.execute(SELECT, (2,))).scalar() == "b"


async def test_the_bytes_of_a_payload_count_as_in_flight(api: Api, mirror: Cassandra) -> None:
    held = threading.Event()

    def change(answer: Answer) -> bytes:
        if b"held" in answer.request_body:
            held.wait(20)
        return answer.frame()

    with ChangingProxy(mirror.contact_points[0], change) as proxy:
        async with api.connect(proxy.contact_point) as client:
            prepared = await client.prepare(SELECT)
            batch = turbocql.Batch("unlogged")
            batch.add("INSERT INTO mirrored.t (k) VALUES (3)")

            def bytes_in_flight() -> int:
                return client.session.metrics().in_flight_bytes

            for statement, values in [
                (prepared, (1,)),
                ("SELECT v FROM mirrored.t", None),
                (batch, None),
            ]:
                payload = {"held": bytes(12_345)}
                call = asyncio.ensure_future(
                    client.execute(statement, values, custom_payload=payload)
                )
                assert await asyncio.to_thread(eventually, lambda: bytes_in_flight() >= 12_345)
                held.set()
                await call
                held.clear()
                assert bytes_in_flight() == 0


async def test_other_requests_carry_no_payload(api: Api, mirror: Cassandra) -> None:
    async with api.connect(mirror.contact_points) as client:
        assert await payload_of(client, SELECT, (1,)) is None
        assert await payload_of(client, SELECT, (1,), custom_payload={}) is None
        assert await payload_of(client, SELECT, (1,), custom_payload=None) is None


async def test_the_payloads_of_a_call_and_of_its_statement_are_merged(
    api: Api, mirror: Cassandra
) -> None:
    async with api.connect(mirror.contact_points) as client:
        query = turbocql.Query(SELECT, custom_payload={"a": b"statement", "b": b"statement"})
        merged = await payload_of(client, query, (1,), custom_payload={"a": b"call"})
        assert merged == {"a": b"call", "b": b"statement"}


async def test_later_pages_carry_the_payload_too(api: Api, mirror: Cassandra) -> None:
    async with api.connect(mirror.contact_points) as client:
        for key in range(10, 16):
            await client.execute(
                "INSERT INTO mirrored.t (k, v) VALUES (?, 'page')", (key,), timeout_s=20
            )
        result = await client.execute(
            "SELECT k FROM mirrored.t", page_size=2, custom_payload={"p": b"1"}
        )
        payloads = [result.rows.custom_payload]
        while result.rows.paging_state is not None:
            result = await client.execute(
                "SELECT k FROM mirrored.t",
                page_size=2,
                paging_state=result.rows.paging_state,
                custom_payload={"p": b"2"},
            )
            payloads.append(result.rows.custom_payload)
        assert payloads[:3] == [{"p": b"1"}, {"p": b"2"}, {"p": b"2"}]
        whole = await client.execute(
            "SELECT k FROM mirrored.t", page_size=2, custom_payload={"p": b"3"}
        )
        assert len(await whole.all()) >= 6
        assert whole.rows.custom_payload == {"p": b"3"}


async def test_a_statement_that_is_prepared_again_keeps_the_payload(
    api: Api, mirror: Cassandra
) -> None:
    async with api.connect(mirror.contact_points) as client:
        await client.execute(SELECT, (1,), custom_payload=PAYLOAD)
        with turbocql.connect(mirror.contact_points) as other:
            # After a change of a table, the server forgets the prepared statements on this table.
            other.execute(f"ALTER TABLE mirrored.t ADD extra_{api.name} int")
        assert await payload_of(client, SELECT, (1,), custom_payload=PAYLOAD) == PAYLOAD


async def test_invalid_payloads_are_refused(api: Api, mirror: Cassandra) -> None:
    async with api.connect(mirror.contact_points) as client:
        for payload, error, message in [
            ([("a", b"")], TypeError, "custom_payload must be a mapping of str to bytes, got list"),
            ({1: b""}, TypeError, "custom_payload must be a mapping of str to bytes, got int"),
            ({"a": "secret"}, TypeError, 'the value of "a" must be bytes, got str'),
            ({"a": None}, TypeError, 'the value of "a" must be bytes, got NoneType'),
            ({"n" * 65536: b""}, ConfigError, "names of at most 65535 bytes, got 65536"),
            ({str(i): b"" for i in range(1001)}, ConfigError, "at most 1000 entries, got 1001"),
        ]:
            with pytest.raises(error) as refused:
                await client.execute(SELECT, (1,), custom_payload=payload)
            assert message in str(refused.value)
            assert "secret" not in str(refused.value)
        assert await payload_of(client, SELECT, (1,), custom_payload=PAYLOAD) == PAYLOAD


async def test_requests_carry_the_context_of_the_current_span(api: Api, mirror: Cassandra) -> None:
    provider = TracerProvider()
    tracer = provider.get_tracer("program")
    async with api.connect(mirror.contact_points) as client:
        session = client.session
        telemetry.instrument(session, tracer_provider=provider, traceparent=True)
        with tracer.start_as_current_span("program") as span:
            context = span.get_span_context()
            ids = f"{context.trace_id:032x}-{context.span_id:016x}"
            expected = f"00-{ids}-{context.trace_flags:02x}".encode()
            call = session.execute(SELECT, (1,), custom_payload={"own": b"x"})
            rows: Any = call if isinstance(call, turbocql.Rows) else await call
            assert rows.custom_payload == {"own": b"x", "traceparent": expected}
        assert await payload_of(client, SELECT, (1,), custom_payload={"own": b"x"}) == {"own": b"x"}
        telemetry.uninstrument(session)
        with tracer.start_as_current_span("program"):
            assert await payload_of(client, SELECT, (1,), custom_payload={}) is None


async def test_the_bytes_of_a_payload_in_a_frame(api: Api, cassandra: Cassandra) -> None:
    seen: list[Answer] = []

    def look(answer: Answer) -> bytes:
        if answer.request_opcode == EXECUTE:
            seen.append(answer)
        return answer.frame()

    with ChangingProxy(cassandra.contact_points[0], look) as proxy:
        async with api.connect(proxy.contact_point) as client:
            statement = "SELECT release_version FROM system.local WHERE key = ?"
            await client.execute(statement, ("local",), custom_payload={"k": b"vv"})
            await client.execute(statement, ("local",))
    with_payload, without = (answer.request_body for answer in seen[-2:])
    prefix = b"\0\x01\0\x01k\0\0\0\x02vv"
    assert with_payload.startswith(prefix)
    assert with_payload.removeprefix(prefix) == without
