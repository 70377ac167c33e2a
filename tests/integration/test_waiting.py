"""Tests that `connect` waits for a real database that starts (`wait_s`)."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.integration.test_command_line import PYTHON, environment
from tests.support.apis import Api
from tests.support.starting_server import Phase, StartingServer

import turbocql
from turbocql import errors
from turbocql.config import Settings
from turbocql.testing import Cassandra

PHASES: list[Phase] = ["refused", "reset", (0x1002, "joining")]
SELECT = "SELECT key FROM system.local"


async def test_a_node_that_becomes_ready(
    api_and_loop: Api, points: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    with (
        caplog.at_level(logging.INFO, "turbocql"),
        StartingServer(PHASES, points[0], phase_s=1.1) as server,
    ):
        async with api_and_loop.connect(server.contact_point, wait_s=60) as client:
            assert 3 <= time.monotonic() - began < 15
            assert (await client.execute(SELECT)).one().key == "local"
            assert client.session.config.connect_timeout_s == 30
    text = caplog.text
    assert "waiting up to 60 s for the database" in text
    assert "refused" in text
    assert "bootstrapping: joining" in text


async def test_a_keyspace_that_is_created_meanwhile(
    api_and_loop: Api, points: list[str], number: int
) -> None:
    keyspace = f"later{number}"
    async with api_and_loop.connect(points) as admin:
        opening = asyncio.ensure_future(api_and_loop.open(points, keyspace=keyspace, wait_s=60))
        await asyncio.sleep(1)
        assert not opening.done()
        await admin.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        client = await opening
        assert client.session.keyspace == keyspace
        await client.close()
        await admin.execute(f"DROP KEYSPACE {keyspace}")


async def test_a_keyspace_that_is_never_created(api_and_loop: Api, points: list[str]) -> None:
    with pytest.raises(
        errors.ConnectError, match=r"'never'.*does not exist.*of [0-9]+ attempts in 1\.[0-9] s"
    ) as caught:
        await api_and_loop.open(points, keyspace="never", wait_s=1)
    assert isinstance(caught.value.__cause__, errors.InvalidQuery)


async def test_wrong_settings_do_not_wait(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    points, ca = cassandra_secure.contact_points, cassandra_secure.ca_certificate
    began = time.monotonic()
    login = {"user": cassandra_secure.user, "password": cassandra_secure.password}
    with pytest.raises(errors.AuthenticationError, match="are incorrect"):
        await api_and_loop.open(points, tls=turbocql.Tls(ca=ca), user="x", password="y", wait_s=60)
    with pytest.raises(errors.AuthenticationError, match="wants a user and a password"):
        await api_and_loop.open(points, tls=turbocql.Tls(ca=ca), wait_s=60)
    with pytest.raises(errors.ConnectError, match="not trusted"):
        await api_and_loop.open(points, tls=True, wait_s=60, **login)
    # The certificate is valid for the node's own address, not for the address of `front`.
    with (
        StartingServer(["refused"], points[0], phase_s=0.1, host="127.0.0.1") as front,
        pytest.raises(errors.ConnectError, match="not valid for name"),
    ):
        await api_and_loop.open(front.contact_point, tls=turbocql.Tls(ca=ca), wait_s=60, **login)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_a_cassandra_that_starts(sync: bool, caplog: pytest.LogCaptureFixture) -> None:
    """`connect` waits for a node that does not listen yet and has no role in its first 5 s."""
    late_role = "-Dcassandra.superuser_setup_delay_ms=5000"
    cluster = Cassandra(authentication=True, heap_mb=512, jvm_options=[late_role])
    starter = threading.Thread(target=cluster.start)
    caplog.set_level(logging.INFO, "turbocql")
    starter.start()
    try:
        while not cluster.nodes:
            assert starter.is_alive()
            time.sleep(0.01)
        settings: Settings = {"user": "cassandra", "password": "cassandra", "wait_s": 120}
        if sync:
            with turbocql.connect(cluster.contact_points, **settings) as session:
                assert session.execute(SELECT, rows="tuple").one() == ("local",)
        else:

            async def main() -> None:
                async with turbocql.aio.connect(cluster.contact_points, **settings) as opened:
                    assert (await opened.execute(SELECT, rows="tuple")).one() == ("local",)

            asyncio.run(main())
    finally:
        starter.join()
        cluster.stop()
    assert re.search(r"waiting up to 120 s for the database: .*Connection refused", caplog.text)
    assert re.search(r"still waiting, .* s left: .*authentication failed", caplog.text)


def test_the_command_line_waits(points: list[str], tmp_path: Path) -> None:
    with StartingServer(["refused", (0x1001, "busy")], points[0], phase_s=1.5) as server:
        arguments = ["--url", server.contact_point, "--wait", "60", "--format", "csv"]
        ended = subprocess.run(
            [str(PYTHON), "-m", "turbocql.cli", "query", *arguments, SELECT],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, '"key"\n"local"\n'), ended.stderr
    first, second = ended.stderr.splitlines()
    assert re.fullmatch("waiting up to 60 s for the database: .*Connection refused.*", first)
    assert re.fullmatch("still waiting, [0-9]+ s left: .*overloaded: busy.*", second)


def test_ctrl_c_ends_the_wait_of_the_command_line(tmp_path: Path) -> None:
    with StartingServer(["refused"]) as server:
        arguments = ["--url", server.contact_point, "--wait", "60"]
        process = subprocess.Popen(
            [str(PYTHON), "-m", "turbocql.cli", "nodes", *arguments],
            env=environment(tmp_path),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert process.stderr.readline().startswith("waiting up to 60 s")
        time.sleep(1)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - began < 2
        assert process.stderr.read().strip() == "interrupted"
        process.stderr.close()


def test_the_command_line_gives_up(tmp_path: Path) -> None:
    with StartingServer(["refused"]) as server:
        ended = subprocess.run(
            [str(PYTHON), "-m", "turbocql.cli", "describe"],
            env=environment(tmp_path, TURBOCQL_URL=f"cql://{server.contact_point}?wait_s=1"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 3
    waiting, failure = ended.stderr.splitlines()
    assert waiting.startswith("waiting up to 1 s")
    assert re.search(r"refused.*; the last of [0-9]+ attempts in 1\.[0-9] s", failure)
