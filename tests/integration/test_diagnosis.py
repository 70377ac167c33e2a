"""Tests of diagnoses, and of settings from URLs, the environment and files, on real nodes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.apis import Api, Client

import turbocql
from turbocql import Config, Diagnosis, Session, errors
from turbocql.testing import Cassandra


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cassandra]:
    """A node that requires a user and a password."""
    with Cassandra(authentication=True, heap_mb=512) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes turbocql's environment variables, except the one for the cache of jars."""
    for name in [name for name in os.environ if name.startswith("TURBOCQL_")]:
        if name != "TURBOCQL_CACHE_DIR":
            monkeypatch.delenv(name)


async def diagnosis(client: Client) -> Diagnosis:
    if isinstance(client.session, Session):
        return turbocql.diagnosis(client.session)
    return await turbocql.aio.diagnosis(client.session)


async def printed(client: Client) -> str:
    file = io.StringIO()
    if isinstance(client.session, Session):
        turbocql.diagnose(client.session, file=file)
    else:
        await turbocql.aio.diagnose(client.session, file=file)
    return file.getvalue()


# Connecting by a URL


@pytest.mark.parametrize("query", ["", "?compression=lz4;rows=dict&consistency=ONE"])
async def test_a_url(api_and_loop: Api, points: list[str], query: str) -> None:
    async with api_and_loop.connect(f"cql://{','.join(points)}/system{query}") as client:
        assert client.session.keyspace == "system"
        assert client.session.config.contact_points == tuple(points)
        assert client.session.config.compression == ("lz4" if query else None)
        row = (await client.execute("SELECT key FROM local")).one()
        assert row == {"key": "local"} if query else row.key == "local"


async def test_settings_override_the_url(api: Api, points: list[str]) -> None:
    async with api.connect(f"cql://{points[0]}?rows=dict", rows="tuple") as client:
        assert (await client.execute("SELECT key FROM system.local")).one() == ("local",)


async def test_user_and_password_in_a_url(api: Api, guarded: Cassandra) -> None:
    point = guarded.contact_points[0]
    async with api.connect(f"cql://c%61ssandra:cassandr%61@{point}") as client:
        assert (await client.execute("SELECT key FROM system.local")).one().key == "local"
        found = await diagnosis(client)
        assert found.session
        assert found.session.user_given
        assert "user            given" in str(found)
    with pytest.raises(errors.AuthenticationError) as caught:
        await api.open(f"cql://cassandra:hunter2@{point}")
    assert "hunter2" not in str(caught.value)


async def test_settings_of_the_environment_and_of_a_file(
    api: Api, points: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TURBOCQL_URL", "cql://127.0.0.1:1/system")
    monkeypatch.setenv("TURBOCQL_CONTACT_POINTS", ",".join(points))
    async with api.connect(config=Config.from_env()) as client:
        assert client.session.keyspace == "system"
    file = tmp_path / "db.toml"
    file.write_text(f'[test]\ncontact_points = "{points[0]}"\nkeyspace = "system"\n')
    async with api.connect(config=Config.from_toml(file, "test")) as client:
        assert client.session.keyspace == "system"


# A session's diagnosis


async def test_a_session(api_and_loop: Api, points: list[str]) -> None:
    async with api_and_loop.connect(points, keyspace="system", compression="lz4") as client:
        await client.execute("SELECT key FROM local WHERE key = ?", ("local",))
        found = await diagnosis(client)
        deadline = time.monotonic() + 10
        # A request still counts as in flight for a short time after its result was returned.
        while found.session and found.session.in_flight and time.monotonic() < deadline:
            found = await diagnosis(client)
        row: Any = (await client.execute("SELECT * FROM local")).one()
        about = found.session
        assert about
        assert not about.closed
        assert about.contact_points == tuple(points)
        assert (about.keyspace, about.compression, about.user_given) == ("system", "lz4", False)
        assert (about.in_flight, about.prepared) == (0, 1)
        assert about.cluster_name == row.cluster_name
        assert about.server_version == row.release_version
        assert about.partitioner == row.partitioner == "org.apache.cassandra.dht.Murmur3Partitioner"
        assert about.notes == ()
        (node,) = about.nodes
        assert (node.address, node.host_id) == (points[0], str(row.host_id))
        assert (node.datacenter, node.rack) == (row.data_center, row.rack)
        text = await printed(client)
        for said in (
            node.address,
            str(row.host_id),
            row.cluster_name,
            "lz4",
            "session         open",
        ):
            assert said in text


async def test_the_wake_mechanism_of_the_loop(api_and_loop: Api, points: list[str]) -> None:
    async with api_and_loop.connect(points) as client:
        found = await diagnosis(client)
    # Tests of the synchronous API also run inside an event loop, but turbocql does not wake it.
    by_loop = {"asyncio": "eventfd", "notifier": "thread", "uvloop": "eventfd"}
    expected = None if api_and_loop.sync else by_loop[api_and_loop.loop.name]
    assert found.woken_by == expected
    assert found.event_loop
    assert ("uvloop" in found.event_loop) == (api_and_loop.loop.name == "uvloop")


async def test_a_closed_session_can_be_diagnosed(api: Api, points: list[str]) -> None:
    client = await api.open(points)
    await client.close()
    about = (await diagnosis(client)).session
    assert about
    assert (about.closed, about.nodes, about.server_version) == (True, (), None)
    assert len(about.notes) == 1
    assert "closed" in about.notes[0]
    assert "session         closed" in await printed(client)


async def test_a_session_of_the_other_api_is_refused(points: list[str]) -> None:
    with turbocql.connect(points) as session:
        given: Any = session
        with pytest.raises(TypeError, match=r"turbocql\.diagnose\(session\)"):
            await turbocql.aio.diagnosis(given)
    async with turbocql.aio.connect(points) as asynchronous:
        given = asynchronous
        with pytest.raises(TypeError, match=r"await turbocql\.aio\.diagnose\(session\)"):
            turbocql.diagnosis(given)


async def test_all_nodes_of_a_cluster(api: Api, cassandra_three: Cassandra) -> None:
    async with api.connect(cassandra_three.contact_points) as client:
        for _ in range(5):
            about = (await diagnosis(client)).session
            assert about
            assert [node.address for node in about.nodes] == sorted(cassandra_three.contact_points)
            assert len({node.host_id for node in about.nodes}) == 3
            assert len({node.schema_version for node in about.nodes}) == 1
            assert about.notes == ()


def test_the_command_line(points: list[str]) -> None:
    settings = {"TURBOCQL_URL": f"cql://{points[0]}/system"}
    for arguments, more in ([points[0]], {}), ([f"cql://{points[0]}"], {}), (["--env"], settings):
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "turbocql.diagnose", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **more},
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert f"contact points  {points[0]}" in ran.stdout
        assert f"node            {points[0]}" in ran.stdout
