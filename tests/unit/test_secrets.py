"""Tests that no output shows a `Secret`, and that pickling a secret needs `pickle_secrets`."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import json
import logging
import pickle
import pprint
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.refusals import SECRET, chain, in_clear, refused

import turbocql
from turbocql import Config, Secret, Tls, dbapi
from turbocql.errors import ConfigError, ConnectError

SHOWN = "Secret('***')"
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
NOWHERE = "127.0.0.1:1"

# No test of this module connects to a server, so turbocql never calls these authenticators.


class Named:
    """An authenticator that is a module-level class."""

    def __init__(self, mechanism: str) -> None:
        raise AssertionError(mechanism)

    def first(self) -> bytes | None:
        return None

    def answer(self, challenge: bytes | None) -> bytes | None:
        return challenge

    def accepted(self, token: bytes | None) -> None:
        return


def named(mechanism: str) -> Any:
    """An authenticator that is a module-level function."""
    raise AssertionError(mechanism)


def with_password(password: str, mechanism: str) -> Any:
    """An authenticator that gets its password from `functools.partial`."""
    raise AssertionError(password + mechanism)


@dataclass
class Holding:
    """An authenticator that keeps the password in an attribute."""

    password: str

    def __call__(self, mechanism: str) -> Any:
        return mechanism

    def method(self, mechanism: str) -> Any:
        return mechanism


# The class `Secret`


@pytest.mark.parametrize("value", [SECRET, SECRET.encode()])
def test_a_secret_is_shown_nowhere(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(value)
    for text in (
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r}",
        f"{secret!s}",
        format(secret),
        string.Template("$x").substitute(x=secret),
        "%s" % secret,  # noqa: UP031
        "%r" % (secret,),  # noqa: UP031
        ascii(secret),
    ):
        assert text == SHOWN
    assert f"{secret:>20}" == SHOWN.rjust(20)
    held = {"a": [secret], "b": (secret, {secret: secret})}
    assert SECRET not in f"{held} {pprint.pformat(held)} {vars(Secret)} {dir(secret)}"
    logging.getLogger("t").warning("%s %r %s", secret, secret, held)
    assert SHOWN in caplog.text
    assert SECRET not in caplog.text
    # No attribute except `reveal` exposes the value.
    for name in dir(secret):
        if name != "reveal":
            assert SECRET not in repr(getattr(secret, name, None))
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(secret)
    assert secret.reveal() == value
    assert type(secret.reveal()) is type(value)


def test_a_secret_is_compared_by_value_and_cannot_be_changed() -> None:
    secret: Any = Secret(SECRET)
    assert secret == Secret(SECRET)
    assert secret == Secret(Secret(SECRET))
    assert len({secret, Secret(SECRET), Secret("a")}) == 2
    for other in (SECRET, SECRET.encode(), Secret(SECRET.encode()), Secret("hunter3"), Secret("")):
        assert secret != other
    assert Secret("\ud800") == Secret("\ud800") != Secret("\ud801")
    assert Secret("ü") == Secret("ü") != Secret("u")
    assert bool(Secret(""))
    for use in (len, iter, list, lambda it: it[0], lambda it: "h" in it, lambda it: it + ""):
        with pytest.raises(TypeError) as caught:
            use(secret)
        assert SECRET not in str(caught.value)
    for name in ("value", "_value"):
        with pytest.raises(AttributeError):
            setattr(secret, name, "x")
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (Secret,), {})


def test_values_that_a_secret_accepts() -> None:
    class Text(str):
        def __str__(self) -> str:
            return "other"

        def encode(self, *args: Any) -> bytes:
            return b"other"

    made = Secret(Text(SECRET)).reveal()
    assert (type(made), made) == (str, SECRET)
    for wrong in (None, 5, [SECRET], bytearray(SECRET.encode()), memoryview(SECRET.encode())):
        given: Any = wrong
        with pytest.raises(TypeError, match="a secret is a str or bytes, got ") as caught:
            Secret(given)
        assert SECRET not in str(caught.value)


def test_a_secret_is_not_pickled() -> None:
    for protocol in PROTOCOLS:
        for value in (Secret(SECRET), [Secret(SECRET.encode())]):
            said = refused(lambda: pickle.dumps(value, protocol))  # noqa: B023
            assert "a Secret is not pickled" in said


# Settings


def login(**settings: Any) -> Config:
    return Config(**{"user": "ann", "password": SECRET, **settings})


def test_a_password_becomes_a_secret() -> None:
    config = login()
    assert config.password == Secret(SECRET)
    assert login(password=Secret(SECRET)) == config
    assert hash(login(password=Secret(SECRET))) == hash(config)
    assert login(password="hunter3") != config
    assert Config.from_url(f"cql://ann:{SECRET}@127.0.0.1") == config
    data = dataclasses.asdict(config)
    assert data["password"] == Secret(SECRET)
    for shown in (data, dataclasses.astuple(config), vars(config), [config], {"a": {"b": config}}):
        assert SECRET not in f"{shown}{pprint.pformat(shown)}"
    assert Config(**{**data, "balancing": config.balancing}) == config


def test_settings_with_secrets_are_copied() -> None:
    config = login(tls=Tls(certificate=b"c", key=SECRET.encode()))
    copies = [copy.copy(config), copy.deepcopy(config), dataclasses.replace(config)]
    copies += [copy.deepcopy([config, config])[1]]
    for same in copies:
        assert same == config
        assert same is not config
        assert isinstance(same.password, Secret)
        assert isinstance(same.tls, Tls)
        assert isinstance(same.tls.key, Secret)
        assert SECRET not in f"{vars(same)}{dataclasses.asdict(same)}"
    twice = copy.deepcopy([config, config])
    assert twice[0] is twice[1]
    other = dataclasses.replace(config, password="x", tls=None)
    assert other.password == Secret("x")
    assert copy.deepcopy(config.tls) == copy.copy(config.tls) == config.tls


def test_the_settings_of_a_subclass_have_secrets_too() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Own(Config):
        token: str = "t"

    config = Own(user="ann", password=SECRET, token="x")
    assert config.password == Secret(SECRET)
    assert copy.deepcopy(config) == config
    assert copy.copy(config).token == "x"
    assert "a password" in refused(lambda: pickle.dumps(config))


def test_a_private_key_becomes_a_secret(tmp_path: Path) -> None:
    there = tmp_path / "there.key"
    there.write_bytes(SECRET.encode())
    keys: list[Any] = [SECRET, SECRET.encode(), f"-----BEGIN {SECRET}", str(there)]
    for key in keys:
        tls = Tls(certificate=b"c", key=key)
        assert tls.key == Secret(key)
        assert Tls(certificate=b"c", key=Secret(key)) == tls
        assert SECRET not in f"{tls}{vars(tls)}{dataclasses.asdict(Config(tls=tls))}"
    for source in (there, str(there), SECRET.encode()):
        native = Tls(certificate=b"c", key=source)._native()
        assert native["key"] == Secret(SECRET.encode())
        assert SECRET not in repr(native)
    assert Tls(certificate=b"c", key=there).key == there
    for wrong in (5, [SECRET]):
        unfit: Any = wrong
        refused(lambda: Tls(certificate=b"c", key=unfit))  # noqa: B023
    refused(lambda: Tls(certificate=Secret("a"), key="b"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "authenticator",
    [functools.partial(with_password, SECRET), Holding(SECRET), Holding(SECRET).method],
)
def test_an_authenticator_that_keeps_a_password_does_not_show_it(authenticator: Any) -> None:
    config = Config(authenticator=authenticator)
    assert SECRET in repr(authenticator)
    assert SECRET not in f"{vars(config)}{dataclasses.asdict(config)}{[config.authenticator]}"
    assert config.authenticator == authenticator
    assert config._native()["authenticator"] is authenticator
    assert (
        dataclasses.replace(config)
        == config
        == copy.copy(config)
        == Config(**{"authenticator": authenticator})
    )
    assert copy.deepcopy(Config(authenticator=Holding(SECRET))) == Config(
        authenticator=Holding(SECRET)
    )
    called: Any = Config(authenticator=Holding(SECRET)).authenticator
    assert called("mechanism") == "mechanism"
    assert Config(authenticator=named).authenticator is named
    assert "an authenticator is not pickled" in refused(lambda: pickle.dumps(config))
    assert "not pickled" in refused(lambda: pickle.dumps(config.authenticator))


@dataclass
class Vault:
    """Credentials that keep the password in an attribute."""

    password: str

    def __call__(self) -> tuple[str, str]:
        return "ann", self.password


def logged_in() -> tuple[str, str]:
    """Credentials that are a module-level function."""
    return "ann", SECRET


async def awaited() -> tuple[str, str]:
    return "ann", SECRET


class AwaitedVault:
    async def __call__(self) -> tuple[str, str]:
        return "ann", SECRET


@pytest.mark.parametrize("credentials", [Vault(SECRET), functools.partial(Vault(SECRET))])
def test_credentials_do_not_show_a_password(credentials: Any) -> None:
    config = Config(credentials=credentials)
    assert SECRET in repr(credentials)
    shown = f"{config}{vars(config)}{dataclasses.asdict(config)}{[config.credentials]}"
    assert SECRET not in shown
    assert config.credentials == credentials
    assert dataclasses.replace(config) == config == copy.copy(config)
    assert "a Config with credentials is not pickled" in refused(lambda: pickle.dumps(config))
    # A module-level function can be pickled, because its pickle has only its name.
    by_name = pickle.loads(pickle.dumps(Config(credentials=logged_in)))
    assert by_name.credentials is logged_in
    pickled = pickle.dumps(Config(credentials=Vault(SECRET), pickle_secrets=True))
    restored = pickle.loads(pickled)
    assert SECRET not in f"{vars(restored)}{dataclasses.asdict(restored)}"
    assert restored.credentials() == ("ann", SECRET)


@pytest.mark.parametrize("settings", [{"user": "a", "password": "b"}, {"authenticator": named}])
def test_credentials_beside_other_settings(settings: Any) -> None:
    assert "one of the three" in refused(lambda: Config(credentials=logged_in, **settings))


@pytest.mark.parametrize("credentials", [awaited, AwaitedVault()])
def test_credentials_are_plain_functions(credentials: Any) -> None:
    assert "a plain function, not a coroutine" in refused(lambda: Config(credentials=credentials))


def test_credentials_are_callable() -> None:
    pair: Any = ("ann", SECRET)
    assert "must be a callable" in refused(lambda: Config(credentials=pair))


# Pickles


def test_settings_with_a_secret_are_not_pickled(tmp_path: Path) -> None:
    held = {
        "a password": login(),
        "a private key": Config(tls=Tls(certificate=b"c", key=SECRET.encode())),
        "an authenticator": Config(authenticator=functools.partial(with_password, SECRET)),
    }
    for what, config in held.items():
        for protocol in PROTOCOLS:
            said = refused(lambda: pickle.dumps([config], protocol))  # noqa: B023
            assert f"a Config with {what} is not pickled" in said
            for way in ("Config.from_toml", "Config.from_env", "profile", "pickle_secrets=True"):
                assert way in said
    closure: Any = lambda mechanism: with_password(SECRET, mechanism)  # noqa: E731
    refused(lambda: pickle.dumps(Config(authenticator=closure)))
    # If a string is not the path of an existing file, it may be the key itself, so it is a secret.
    refused(lambda: pickle.dumps(Config(tls=Tls(certificate=b"c", key=str(tmp_path / "none")))))
    assert "give the path" in refused(
        lambda: pickle.dumps(Tls(certificate=b"c", key=SECRET.encode()))
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pickle_secrets_pickles_settings_with_their_secrets(protocol: int) -> None:
    for settings in (
        {"user": "ann", "password": SECRET},
        {"tls": Tls(certificate=b"c", key=SECRET.encode(), names=["a"])},
        {"tls": Tls(certificate=b"c", key=SECRET)},
        {"authenticator": functools.partial(with_password, SECRET)},
        {"authenticator": Holding(SECRET)},
    ):
        config = Config(**settings, pickle_secrets=True)
        same = pickle.loads(pickle.dumps(config, protocol))
        assert SECRET not in f"{vars(same)}{dataclasses.asdict(same)}"
        if not isinstance(config.authenticator, type(None)) and "authenticator" in settings:
            before, after = config._native(), same._native()
            assert repr(before["authenticator"]) == repr(after["authenticator"])
            continue
        assert same == config
        assert hash(same) == hash(config)
        assert repr(same) == repr(config)
        assert same.pickle_secrets
        assert pickle.loads(pickle.dumps(same, protocol)) == config
    # `replace` keeps `pickle_secrets` unless the call passes another value.
    config = login(pickle_secrets=True)
    assert pickle.loads(pickle.dumps(dataclasses.replace(config, port=1), protocol)).port == 1
    refused(lambda: pickle.dumps(dataclasses.replace(config, pickle_secrets=False), protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_settings_without_a_secret_are_pickled(protocol: int, tmp_path: Path) -> None:
    there = tmp_path / "client.key"
    there.write_bytes(b"key")
    for config in (
        Config(keyspace="app", profiles={"slow": turbocql.ExecutionProfile(timeout_s=5)}),
        Config(authenticator=named),
        Config(authenticator=Named),
        Config(tls=True),
        Config(tls=Tls(ca=b"ca")),
        # The path of a key's file is not a secret.
        Config(tls=Tls(certificate=there, key=there)),
        Config(tls=Tls(certificate=str(there), key=str(there), verify="authority")),
    ):
        same = pickle.loads(pickle.dumps(config, protocol))
        assert same == config
        assert repr(same) == repr(config)
        if isinstance(config.tls, Tls):
            assert pickle.loads(pickle.dumps(config.tls, protocol)) == config.tls


def test_pickles_from_before_secrets_existed_are_loaded() -> None:
    config = Config.__new__(Config)
    state = {**vars(login()), "password": SECRET}
    config.__setstate__(state)
    assert config == login()


# Tracebacks with local variables


def raised(call: Callable[[], object]) -> BaseException:
    with pytest.raises((ConfigError, ConnectError, TypeError, dbapi.Error)) as caught:
        call()
    error: BaseException = caught.value
    return error


async def opened(*points: Any, **settings: Any) -> Any:
    return await turbocql.aio.connect(*points, **settings)


CONNECTS: dict[str, Callable[..., Any]] = {
    "sync": turbocql.connect,
    "aio": lambda *points, **settings: asyncio.run(opened(*points, **settings)),
    "dbapi": dbapi.connect,
}
FAST: dict[str, Any] = {"connect_timeout_s": 1}
URL = f"cql://ann:{SECRET}@{NOWHERE}/app?connect_timeout_s=1"


@pytest.mark.parametrize("connect", CONNECTS.values(), ids=CONNECTS)
@pytest.mark.parametrize(
    ("points", "settings"),
    [
        # No server listens at this address.
        ((NOWHERE,), {"user": "ann", "password": SECRET, **FAST}),
        ((NOWHERE,), {"user": "ann", "password": Secret(SECRET), **FAST}),
        ((), {"config": login(contact_points=NOWHERE, **FAST)}),
        ((URL,), {}),
        ((f"cql://ann@{NOWHERE}",), {"password": SECRET, **FAST}),
        ((NOWHERE,), {"authenticator": functools.partial(with_password, SECRET), **FAST}),
        ((NOWHERE,), {"user": "ann", "password": SECRET, "wait_s": 0.2, **FAST}),
        ((NOWHERE,), {"authenticator": functools.partial(with_password, SECRET), "wait_s": 0.2}),
        # These settings are invalid.
        ((NOWHERE,), {"user": "ann", "password": SECRET, "page_size": 0}),
        ((NOWHERE,), {"user": "ann", "password": SECRET, "keyspace": "a b"}),
        ((NOWHERE,), {"password": SECRET}),
        ((NOWHERE,), {"user": "ann", "password": SECRET + "\ud800"}),
        ((NOWHERE,), {"user": "ann", "password": SECRET * 10_000}),
        ((NOWHERE,), {"user": "ann", "password": SECRET.encode()}),
        ((NOWHERE,), {"user": "ann", "password": [SECRET]}),
        ((NOWHERE,), {"user": "ann", "pasword": SECRET}),
        ((NOWHERE,), {"tls": Tls(certificate=b"c", key=SECRET)}),
        ((NOWHERE,), {"tls": Tls(certificate=b"c", key=SECRET.encode())}),
        (([f"cql://ann:{SECRET}@db1"],), {}),
        ((f"ann:{SECRET}@db1",), {}),
        ((URL,), {"page_size": 0}),
        ((URL,), {"no_such": 5}),
        ((URL + "&no_such=5",), {}),
        ((f"cql://ann:{SECRET}@{NOWHERE}:x",), {}),
        ((f"cql://ann:%{SECRET}@{NOWHERE}",), {}),
        ((f"cql://ann:a/{SECRET}@{NOWHERE}",), {}),
        ((), {"config": URL}),
        ((URL,), {"config": login()}),
    ],
)
def test_the_frames_of_a_failed_connect_show_nothing(
    connect: Any, points: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    error = raised(lambda: connect(*points, **settings))
    assert in_clear(error) == []
    # The traceback is not removed, so it still has the frames of the user's own code.
    assert error.__traceback__ is not None
    for one in chain(error):
        assert SECRET not in f"{one}{one.args}"


def test_the_frames_of_settings_from_elsewhere_show_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "db.toml"
    file.write_text(f"[default]\nuser = 'ann'\npassword = '{SECRET}'\npage_size = 'x'\n")
    assert "page_size" in refused(lambda: Config.from_toml(file))
    assert "page_size" in refused(lambda: Config.from_toml(file, password=SECRET))
    refused(lambda: Config.from_toml(f"cql://ann:{SECRET}@db1"))
    file.write_text(f"[default]\nuser = 'ann'\npassword = '{SECRET}\n")
    assert "is not valid TOML" in refused(lambda: Config.from_toml(file))
    monkeypatch.setenv("TURBOCQL_URL", f"cql://ann:{SECRET}@db1")
    monkeypatch.setenv("TURBOCQL_PASSWORD", SECRET)
    monkeypatch.setenv("TURBOCQL_PAGE_SIZE", "x")
    assert "TURBOCQL_PAGE_SIZE" in refused(Config.from_env)
    monkeypatch.setenv("TURBOCQL_PAGE_SIZE", "0")
    assert "page_size" in refused(Config.from_env)
    assert "page_size" in refused(lambda: Config.from_env(password=SECRET))
    for url in (f"cql://ann:{SECRET}@", f"ann:{SECRET}", f"cql://ann:{SECRET}@db1?x=1"):
        refused(lambda: Config.from_url(url))  # noqa: B023
    assert "page_size" in refused(lambda: Config.from_url(URL, page_size=0, password=SECRET))


def test_a_file_that_is_missing_is_still_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml") as caught:
        Config.from_toml(tmp_path / "none.toml")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_private_key_beside_a_certificate_is_not_kept() -> None:
    certificate = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
    key = b"-----BEGIN PRIVATE KEY-----\n" + SECRET.encode() + b"\n-----END PRIVATE KEY-----"
    together = b"\n".join((certificate, key, certificate, b""))
    tls = Tls(certificate=together, key=together, ca=together)
    assert tls.certificate == tls.ca == certificate + b"\n" + certificate + b"\n"
    assert isinstance(tls.key, Secret)
    assert tls.key.reveal() == together
    assert SECRET not in str(vars(tls))
    kept = Tls(certificate=together, key=Path("key.pem"))
    assert SECRET.encode() not in pickle.dumps(kept)
    # A certificate without a private key is kept unchanged.
    assert Tls(ca=b"anything").ca == b"anything"
