"""Tests of the TLS server name, with a proxy that routes each connection by its server name."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support.apis import Api
from tests.support.certificates import certificate_for
from tests.support.starting_server import pump

from turbocql import Tls, errors
from turbocql.testing import Cassandra

VERSION = "SELECT release_version FROM system.local"


class Router:
    """A TLS proxy that forwards a connection to the node that `routes` has for its server name.

    It refuses a connection whose server name is not in `routes`.
    """

    def __init__(self, chain: Path, routes: dict[str | None, str]) -> None:
        self.names: list[str | None] = []
        self._routes = routes
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(chain)
        self._context.sni_callback = self._route
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _route(self, connection: Any, name: str | None, _: ssl.SSLContext) -> int | None:
        self.names.append(name)
        connection.server_name = name
        return None if name in self._routes else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                raw, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with suppress(OSError), self._context.wrap_socket(raw, server_side=True) as front:
            host, port = self._routes[self.names[-1]].rsplit(":", 1)
            with socket.create_connection((host, int(port))) as back:
                threading.Thread(target=pump, args=(front, back), daemon=True).start()
                pump(back, front)


@contextmanager
def router(folder: Path, names: str, routes: dict[str | None, str]) -> Iterator[tuple[Router, Tls]]:
    """Yields a router whose certificate is valid for `names`, and TLS settings that trust it."""
    ca, chain = certificate_for(folder, names)
    (folder / "chain").write_bytes(chain)
    opened = Router(folder / "chain", routes)
    try:
        yield opened, Tls(ca=ca)
    finally:
        opened.close()


def behind(router: Router, cassandra: Cassandra) -> dict[str, Any]:
    """Returns settings with which a session connects to the node through the router."""
    address = cassandra.contact_points[0].rsplit(":", 1)[0]
    return {"addresses": {address: f"127.0.0.1:{router.port}"}, "connect_timeout_s": 30}


async def test_the_contact_points_name_is_sent_to_the_nodes(
    api_and_loop: Api, cassandra: Cassandra, tmp_path: Path
) -> None:
    routes: dict[str | None, str] = {"localhost": cassandra.contact_points[0]}
    with router(tmp_path, "DNS:localhost", routes) as (front, tls):
        settings = behind(front, cassandra)
        async with api_and_loop.connect(f"localhost:{front.port}", tls=tls, **settings) as client:
            assert (await client.execute(VERSION)).one() is not None
    # The node announces an address, and `addresses` maps it to another address, so only the contact
    # point has a name. All connections send this name.
    assert len(front.names) > 2
    assert set(front.names) == {"localhost"}


async def test_the_certificate_may_have_the_address_and_not_the_name(
    api_and_loop: Api, cassandra: Cassandra, tmp_path: Path
) -> None:
    routes: dict[str | None, str] = {"localhost": cassandra.contact_points[0]}
    with router(tmp_path, "IP:127.0.0.1", routes) as (front, tls):
        settings = behind(front, cassandra)
        async with api_and_loop.connect(f"localhost:{front.port}", tls=tls, **settings) as client:
            assert (await client.execute(VERSION)).one() is not None
    assert set(front.names) == {"localhost"}


@pytest.mark.parametrize(
    ("host", "names", "server_name", "expected"),
    [
        ("127.0.0.1", ["node.test"], None, "node.test"),
        ("127.0.0.1", [], "node.test", "node.test"),
        ("localhost", ["other.test"], "node.test", "node.test"),
        ("localhost", ["node.test"], False, None),
        ("127.0.0.1", [], None, None),
    ],
)
async def test_the_settings_name_the_server(
    api_and_loop: Api,
    cassandra: Cassandra,
    tmp_path: Path,
    host: str,
    names: list[str],
    server_name: str | Literal[False] | None,
    expected: str | None,
) -> None:
    routes: dict[str | None, str] = {expected: cassandra.contact_points[0]}
    with router(tmp_path, "DNS:node.test, IP:127.0.0.1", routes) as (front, trusting):
        tls = Tls(ca=trusting.ca, names=names, server_name=server_name)
        settings = behind(front, cassandra)
        async with api_and_loop.connect(f"{host}:{front.port}", tls=tls, **settings) as client:
            assert (await client.execute(VERSION)).one() is not None
    assert set(front.names) == {expected}


async def test_a_name_that_the_server_does_not_know(
    api_and_loop: Api, cassandra: Cassandra, tmp_path: Path
) -> None:
    routes: dict[str | None, str] = {"node.test": cassandra.contact_points[0]}
    with router(tmp_path, "DNS:node.test", routes) as (front, tls):
        settings = behind(front, cassandra)
        for host in ("localhost", "127.0.0.1"):
            with pytest.raises(errors.ConnectError, match=r"Tls\(server_name=\.\.\.\)"):
                await api_and_loop.open(f"{host}:{front.port}", tls=tls, **settings)


async def test_a_certificate_for_another_name_is_refused(
    api_and_loop: Api, cassandra: Cassandra, tmp_path: Path
) -> None:
    routes: dict[str | None, str] = {"localhost": cassandra.contact_points[0]}
    with router(tmp_path, "DNS:other.test", routes) as (front, tls):
        settings = behind(front, cassandra)
        with pytest.raises(errors.ConnectError, match=r"other\.test"):
            await api_and_loop.open(f"localhost:{front.port}", tls=tls, **settings)


@pytest.mark.parametrize("server_name", ["", True, 5, ["node.test"], b"node.test"])
def test_server_name_must_be_a_host_name(server_name: Any) -> None:
    with pytest.raises(errors.ConfigError, match="tls: server_name must be a host name"):
        Tls(server_name=server_name)


@pytest.mark.parametrize("server_name", ["127.0.0.1", "::1", "not a name"])
async def test_an_address_as_server_name_is_refused(
    api_and_loop: Api, points: list[str], server_name: str
) -> None:
    with pytest.raises(errors.ConfigError, match=r"tls: .*(is an address|is no name)"):
        await api_and_loop.open(points, tls=Tls(verify=False, server_name=server_name))
