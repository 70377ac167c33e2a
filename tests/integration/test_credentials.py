"""Tests of `credentials`: users and passwords that change while a session is open."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.apis import Api, Client

from turbocql import Secret, Tls, errors
from turbocql.testing import Cassandra

VERSION = "SELECT release_version FROM system.local"


def tls(cluster: Cassandra) -> Tls:
    return Tls(ca=cluster.ca_certificate)


class Provider:
    """A provider of credentials that counts its calls."""

    def __init__(self, user: str | None, password: Any) -> None:
        self.user, self.password, self.calls = user, password, 0
        self.threads: set[str] = set()

    def __call__(self) -> Any:
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        return self.user, self.password


async def test_user_and_password_of_a_callable(
    api_and_loop: Api, cassandra_secure: Cassandra
) -> None:
    cluster = cassandra_secure
    user, password = cluster.user, cluster.password or ""
    provider = Provider(user, password)
    hidden = Provider(user, Secret(password))
    for credentials in (provider, hidden, lambda: (user, password), lambda: [user, password]):
        async with api_and_loop.connect(
            cluster.contact_points, tls=tls(cluster), credentials=credentials
        ) as client:
            assert (await client.execute(VERSION)).one() is not None
            assert password not in repr(client.session.config.credentials)
    assert provider.calls >= 2, "once for each connection"
    assert threading.main_thread().name not in provider.threads


async def test_a_server_without_passwords_does_not_ask(
    api_and_loop: Api, points: list[str]
) -> None:
    provider = Provider("nobody", "nothing")
    async with api_and_loop.connect(points, credentials=provider) as client:
        assert (await client.execute(VERSION)).one() is not None
    assert provider.calls == 0


def raises() -> Any:
    raise LookupError("the vault is sealed")


async def coroutine() -> Any:
    return "user", "hunter2"


@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        (raises, "credentials raised LookupError: the vault is sealed"),
        (lambda: "hunter2", "expected a tuple of two str, got str"),
        (lambda: ("user", "hunter2", 3), "expected a tuple of two str, got tuple"),
        (lambda: ("user", b"hunter2"), "the password must be a str, got bytes"),
        (lambda: (None, "hunter2"), "the user must be a str, got NoneType"),
        (lambda: ("", "hunter2"), "the user must not be empty"),
        (lambda: ("user", "hunter2\0"), "the password must not be empty, and must not contain"),
        (lambda: ("user", "hunter2\ud800"), "the password has characters that UTF-8"),
        (lambda: coroutine(), "a coroutine was returned; expected a plain function"),
        (lambda: ("cassandra", "hunter2"), "incorrect"),
    ],
)
async def test_credentials_that_fail(
    api: Api, cassandra_secure: Cassandra, credentials: Callable[[], Any], message: str
) -> None:
    with pytest.raises(errors.AuthenticationError, match=message) as caught:
        await api.open(
            cassandra_secure.contact_points, tls=tls(cassandra_secure), credentials=credentials
        )
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__ or error.__context__


class Forwarder:
    """Passes bytes to a node. It listens on another port of the node's address."""

    def __init__(self, contact_point: str) -> None:
        host, port = contact_point.rsplit(":", 1)
        self._node = (host, int(port))
        self._listening = socket.create_server((host, 0))
        self.contact_point = f"{host}:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def break_connections(self) -> None:
        connections, self._open = self._open, []
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._listening:
            self._listening.shutdown(socket.SHUT_RDWR)
        self.break_connections()
        for thread in self._threads:
            thread.join(5)

    def _start(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                front, _ = self._listening.accept()
                back = socket.create_connection(self._node)
                self._open += [front, back]
                self._start(self._copy, front, back)
                self._start(self._copy, back, front)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        # Each thread closes the socket that it reads.
        with source, suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


async def answers(client: Client) -> bool:
    """Returns whether a query succeeds within 30 s."""
    for _ in range(300):
        try:
            return (await client.execute(VERSION, timeout_s=5)).one() is not None
        except errors.RequestError:
            await asyncio.sleep(0.1)
    return False


async def fails(client: Client) -> bool:
    """Returns whether a query fails within 10 s."""
    with suppress(errors.RequestError):
        for _ in range(100):
            await client.execute(VERSION, timeout_s=5)
            await asyncio.sleep(0.1)
        return False
    return True


async def test_a_password_that_changes(api: Api, cassandra_secure: Cassandra, number: int) -> None:
    """After a session has lost its connections, it connects again with the new password."""
    cluster, role = cassandra_secure, f"app_{number}"
    secure: dict[str, Any] = {"tls": tls(cluster), "user": cluster.user}
    async with api.connect(cluster.contact_points, password=cluster.password, **secure) as admin:
        await admin.execute(f"CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = 'first'")
        provider, forwarder = Provider(role, "first"), Forwarder(cluster.contact_points[0])
        try:
            async with api.connect(
                forwarder.contact_point, tls=tls(cluster), credentials=provider
            ) as client:
                assert await answers(client)
                await admin.execute(f"ALTER ROLE {role} WITH PASSWORD = 'second'")
                # The server caches roles for some seconds.
                await asyncio.sleep(3)
                assert (await client.execute(VERSION)).one(), "open connections stay open"
                forwarder.break_connections()
                assert await fails(client), "the old password is refused"
                calls, provider.password = provider.calls, "second"
                assert await answers(client)
                assert provider.calls > calls
        finally:
            forwarder.close()
