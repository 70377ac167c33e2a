"""Tests of TLS, passwords and custom authenticators."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support.apis import Api
from tests.support.certificates import certificate_for
from tests.support.refusals import in_clear

from turbocql import Config, ConstantSpeculation, Secret, Tls, errors
from turbocql.testing import Cassandra

VERSION = "SELECT release_version FROM system.local"


@pytest.fixture(scope="module")
def demanding() -> Iterator[Cassandra]:
    """A node that requires a client certificate and no password."""
    with Cassandra(tls=True, require_client_certificate=True) as cluster:
        yield cluster


def login(cluster: Cassandra) -> dict[str, Any]:
    return {"user": cluster.user, "password": cluster.password}


async def test_a_private_authority(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    cluster = cassandra_secure
    assert cluster.ca_certificate is not None
    for ca in (cluster.ca_certificate, str(cluster.ca_certificate)):
        async with api_and_loop.connect(
            cluster.contact_points, tls=Tls(ca=ca), **login(cluster)
        ) as client:
            assert (await client.execute(VERSION)).one() is not None
    content = cluster.ca_certificate.read_bytes()
    async with api_and_loop.connect(
        cluster.contact_points, tls=Tls(ca=content), compression="lz4", **login(cluster)
    ) as client:
        prepared = await client.prepare("SELECT key FROM system.local WHERE key = ?")
        assert (await client.execute(prepared, ("local",))).one().key == "local"


async def test_untrusted_certificates_are_refused(
    api_and_loop: Api, cassandra_secure: Cassandra
) -> None:
    cluster = cassandra_secure
    # The system's trust store does not have the authority that signed the node's certificate.
    with pytest.raises(errors.ConnectError, match="certificate"):
        await api_and_loop.open(cluster.contact_points, tls=True, **login(cluster))
    async with api_and_loop.connect(
        cluster.contact_points, tls=Tls(verify=False), **login(cluster)
    ) as client:
        assert (await client.execute(VERSION)).one() is not None


async def test_without_encryption(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    cluster = cassandra_secure
    with pytest.raises(errors.ConnectError, match=r"does it want TLS\?"):
        await api_and_loop.open(cluster.contact_points, connect_timeout_s=10, **login(cluster))


async def test_encryption_that_the_server_lacks(api_and_loop: Api, points: list[str]) -> None:
    with pytest.raises(errors.ConnectError, match="not in TLS"):
        await api_and_loop.open(points, tls=Tls(verify=False), connect_timeout_s=10)


async def test_a_wrong_password(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    cluster = cassandra_secure
    tls = Tls(ca=cluster.ca_certificate)
    with pytest.raises(errors.AuthenticationError) as caught:
        await api_and_loop.open(
            cluster.contact_points, tls=tls, user=cluster.user, password="s3cret-no"
        )
    assert "s3cret" not in str(caught.value)


async def test_the_server_gets_the_password(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    """The user and password can come from a Config, a copy of it, a URL, or keyword arguments."""
    cluster = cassandra_secure
    tls = Tls(ca=cluster.ca_certificate)
    config = Config(contact_points=cluster.contact_points, tls=tls, **login(cluster))
    whole = dataclasses.replace(config, pickle_secrets=True)
    user, password = cluster.user or "", cluster.password or ""
    # Every byte of the password is percent-encoded.
    encoded = "".join(f"%{byte:02x}" for byte in password.encode())
    ways: list[tuple[Any, dict[str, Any]]] = [
        (None, {"config": config}),
        (None, {"config": copy.deepcopy(config)}),
        (None, {"config": pickle.loads(pickle.dumps(whole))}),
        (f"cql://{user}:{encoded}@{','.join(cluster.contact_points)}", {"tls": tls}),
        (cluster.contact_points, {"tls": tls, "user": user, "password": Secret(password)}),
    ]
    for points, settings in ways:
        async with api_and_loop.connect(points, **settings) as client:
            assert (await client.execute(VERSION)).one() is not None
            assert client.session.config.password == Secret(password)


async def test_the_frames_of_a_refusal_show_no_password(
    api_and_loop: Api, cassandra_secure: Cassandra
) -> None:
    cluster = cassandra_secure
    tls = Tls(ca=cluster.ca_certificate)
    url = f"cql://{cluster.user}:hunter2@{','.join(cluster.contact_points)}"
    given: list[tuple[Any, dict[str, Any]]] = [
        (url, {"tls": tls}),
        (cluster.contact_points, {"tls": tls, "user": cluster.user, "password": "hunter2"}),
        (None, {"config": Config.from_url(url, tls=tls)}),
    ]
    for points, settings in given:
        with pytest.raises(errors.AuthenticationError) as caught:
            await api_and_loop.open(points, **settings)
        assert in_clear(caught.value) == []


async def test_client_certificates(api_and_loop: Api, demanding: Cassandra) -> None:
    ca, certificate, key = (
        demanding.ca_certificate,
        demanding.client_certificate,
        demanding.client_key,
    )
    with pytest.raises(errors.ConnectError):
        await api_and_loop.open(demanding.contact_points, tls=Tls(ca=ca), connect_timeout_s=10)
    tls = Tls(ca=ca, certificate=certificate, key=key)
    async with api_and_loop.connect(demanding.contact_points, tls=tls) as client:
        assert (await client.execute(VERSION)).one() is not None
    assert key is not None
    for same in (str(key), key.read_bytes(), Secret(key.read_bytes())):
        tls = Tls(ca=ca, certificate=certificate, key=same)
        async with api_and_loop.connect(demanding.contact_points, tls=tls) as client:
            assert (await client.execute(VERSION)).one() is not None
    with pytest.raises(errors.ConfigError, match="tls"):
        # The key does not belong to the certificate.
        await api_and_loop.open(demanding.contact_points, tls=Tls(ca=ca, certificate=ca, key=key))
    with pytest.raises(errors.ConfigError, match="No such file"):
        await api_and_loop.open(demanding.contact_points, tls=Tls(ca="/nowhere/ca.pem"))
    with pytest.raises(errors.ConfigError, match="expected certificates in PEM"):
        await api_and_loop.open(demanding.contact_points, tls=Tls(ca=b"nothing"))


class Front:
    """A TLS proxy in front of a node, with its own certificate."""

    def __init__(self, chain: Path, behind: str) -> None:
        import socket
        import ssl

        self._behind = behind.rsplit(":", 1)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(chain)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._ended = False
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ended = True
        self._listening.close()

    def _serve(self) -> None:
        while not self._ended:
            try:
                raw, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(raw,), daemon=True).start()

    def _pass_on(self, raw: Any) -> None:
        import selectors
        import socket

        try:
            with (
                self._context.wrap_socket(raw, server_side=True) as front,
                socket.create_connection((self._behind[0], int(self._behind[1]))) as back,
                selectors.DefaultSelector() as selector,
            ):
                selector.register(front, selectors.EVENT_READ)
                selector.register(back, selectors.EVENT_READ)
                while True:
                    ready = {key.fileobj for key, _ in selector.select()}
                    if front in ready:
                        while True:
                            data = front.recv(65536)
                            if not data:
                                return
                            back.sendall(data)
                            if not front.pending():
                                break
                    if back in ready:
                        data = back.recv(65536)
                        if not data:
                            return
                        front.sendall(data)
        except OSError:
            return


async def test_which_names_a_certificate_is_valid_for(
    api: Api, points: list[str], tmp_path: Path
) -> None:
    ca, chain = certificate_for(tmp_path, "DNS:db.example")
    (tmp_path / "chain.pem").write_bytes(chain)
    front = Front(tmp_path / "chain.pem", points[0])
    # The node announces its own address, which `addresses` maps to the proxy.
    settings: dict[str, Any] = {
        "addresses": {points[0].rsplit(":", 1)[0]: f"127.0.0.1:{front.port}"},
        "connect_timeout_s": 20,
    }
    try:
        at = f"127.0.0.1:{front.port}"
        with pytest.raises(errors.ConnectError, match=r"not valid for name"):
            await api.open(at, tls=Tls(ca=ca), **settings)
        with pytest.raises(errors.ConnectError, match=r"not valid for name"):
            await api.open(at, tls=Tls(ca=ca, names=["other.example"]), **settings)
        for tls in (
            Tls(ca=ca, names=["db.example"]),
            Tls(ca=ca, verify="authority"),
            Tls(verify=False),
        ):
            async with api.connect(at, tls=tls, **settings) as client:
                assert (await client.execute(VERSION)).one() is not None
        other_ca, _ = certificate_for(tmp_path, "DNS:db.example")
        with pytest.raises(errors.ConnectError, match=r"certificate"):
            await api.open(at, tls=Tls(ca=other_ca, verify="authority"), **settings)
    finally:
        front.close()


class Plain:
    """An authenticator that sends user and password in its first message."""

    mechanisms: ClassVar[list[str]] = []

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.mechanisms.append(mechanism)
        self._said = f"\0{user}\0{password}".encode()

    def first(self) -> bytes | None:
        return self._said

    def answer(self, challenge: bytes | None) -> bytes | None:
        raise AssertionError("the server was told everything already")

    def accepted(self, token: bytes | None) -> None:
        assert token in (None, b"")


async def test_a_custom_authenticator(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    cluster = cassandra_secure
    user, password = cluster.user or "", cluster.password or ""
    tls = Tls(ca=cluster.ca_certificate)
    Plain.mechanisms.clear()
    async with api_and_loop.connect(
        cluster.contact_points,
        tls=tls,
        authenticator=lambda mechanism: Plain(mechanism, user, password),
    ) as client:
        assert (await client.execute(VERSION)).one() is not None
    assert set(Plain.mechanisms) == {"org.apache.cassandra.auth.PasswordAuthenticator"}

    with pytest.raises(errors.AuthenticationError):
        await api_and_loop.open(
            cluster.contact_points,
            tls=tls,
            authenticator=lambda mechanism: Plain(mechanism, user, "wrong"),
        )


async def refused(
    api_and_loop: Api, cluster: Cassandra, make: Callable[[str], Any], match: str
) -> None:
    with pytest.raises(errors.AuthenticationError, match=match):
        await api_and_loop.open(
            cluster.contact_points, tls=Tls(ca=cluster.ca_certificate), authenticator=make
        )


async def test_an_authenticator_that_blocks(api: Api, cassandra_secure: Cassandra) -> None:
    """While an authenticator blocks, `connect` can still be cancelled and can still time out."""
    release = threading.Event()

    class Stuck(Plain):
        def first(self) -> bytes | None:
            release.wait(20)
            return None

    settings: dict[str, Any] = {
        "tls": Tls(ca=cassandra_secure.ca_certificate),
        "authenticator": lambda _: Stuck("", "", ""),
    }
    if not api.sync:
        opening = asyncio.ensure_future(api.open(cassandra_secure.contact_points, **settings))
        await asyncio.sleep(0.5)
        begun = time.monotonic()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert time.monotonic() - begun < 0.5
    with pytest.raises(errors.ConnectError):
        await api.open(cassandra_secure.contact_points, connect_timeout_s=1, **settings)
    release.set()


async def test_authenticators_that_fail(api_and_loop: Api, cassandra_secure: Cassandra) -> None:
    def raises(mechanism: str) -> Any:
        raise LookupError("no ticket")

    class Text(Plain):
        def first(self) -> Any:
            return "text"

    await refused(api_and_loop, cassandra_secure, raises, "LookupError: no ticket")
    await refused(
        api_and_loop, cassandra_secure, lambda _: Text("", "", ""), "expected bytes or None"
    )
    await refused(api_and_loop, cassandra_secure, lambda _: object(), "AttributeError")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tls": "yes"}, "tls must be a Tls"),
        ({"authenticator": 5}, "authenticator must be callable"),
        ({"authenticator": Plain, "user": "a", "password": "b"}, "not both"),
        ({"retry": "often"}, "retry must be one of"),
        ({"speculation": 5}, "speculation must be"),
        ({"balancing": "dc1"}, "balancing must be a Balancing"),
        ({"profiles": {"a": 5}}, "profile 'a' must be an ExecutionProfile"),
        ({"addresses": {"db": "10.0.0.1"}}, "expected an IP address"),
        ({"local_address": "10.0.0.1:5"}, "without a port"),
        ({"connections_per_node": 1, "connections_per_shard": 1}, "not both"),
        ({"tcp_keepalive_s": 0.1}, "at least 1 second"),
        ({"shard_aware_port": 1}, "must be a bool"),
    ],
)
async def test_invalid_settings_are_refused(
    api: Api, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        await api.open("127.0.0.1:1", **settings)


def test_secrets_are_not_shown() -> None:
    tls = Tls(certificate=b"-----BEGIN CERT", key=b"-----BEGIN hunter2")
    assert "hunter2" not in repr(tls)
    assert "BEGIN" not in repr(tls)
    with pytest.raises(errors.ConfigError, match="give it as bytes") as caught:
        Tls(certificate=b"c", key="-----BEGIN PRIVATE KEY-----hunter2")._native()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(errors.ConfigError, match="verify must be"):
        Tls(verify="perhaps")  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError, match="go together"):
        Tls(certificate=b"x")
    with pytest.raises(errors.ConfigError, match="delay_s"):
        ConstantSpeculation(delay_s=0)
