"""Tests that a `Config` checks its settings when it is created."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

import turbocql
from turbocql import Config, Consistency, ExecutionProfile, Secret
from turbocql.config import Settings
from turbocql.errors import ConfigError


def make(**settings: Any) -> Config:
    return Config(**settings)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ("db1", ["db1:9042"]),
        (" db1 ", ["db1:9042"]),
        ("db1:9043", ["db1:9043"]),
        ("10.0.0.1:1", ["10.0.0.1:1"]),
        ("::1", ["[::1]:9042"]),
        ("[::1]", ["[::1]:9042"]),
        ("[2001:db8::1]:65535", ["[2001:db8::1]:65535"]),
        (["db1", "db2:9043", "::1"], ["db1:9042", "db2:9043", "[::1]:9042"]),
        (("db1",), ["db1:9042"]),
    ],
)
def test_contact_points(points: Any, expected: list[str]) -> None:
    assert list(make(contact_points=points).contact_points) == expected


def test_port_applies_to_contact_points_without_a_port() -> None:
    points = make(contact_points=["db1", "db2:1", "::1"], port=19042).contact_points
    assert list(points) == ["db1:19042", "db2:1", "[::1]:19042"]


@pytest.mark.parametrize(
    "points",
    [
        *(
            "",
            " ",
            "db1:",
            ":9042",
            "db1:0",
            "db1:65536",
            "db1:x",
            "db1:-1",
            "db1:٣",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[]:9042",
            "[zzz]:1",
            "a,b",
            "a b:1",
            "a::b::c",
        ),
        *([], (), ["db1", ""], [5], 5, None, b"db1", {"db1"}, iter(["db1"]), [None]),
    ],
    ids=repr,
)
def test_invalid_contact_points_are_refused(points: Any) -> None:
    with pytest.raises(ConfigError, match=r"contact.point"):
        make(contact_points=points)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("port", [0, 65_536, -1, "9042", 9042.0, None, True]),
        ("keyspace", ["", 5, b"app"]),
        ("consistency", ["", "quorums", 5, None, "SERIAL", Consistency.LOCAL_SERIAL]),
        ("serial_consistency", ["QUORUM", Consistency.ONE, "x", 5]),
        ("timeout_s", [0, -1, float("nan"), "1", True]),
        ("connect_timeout_s", [1e-10, 0, -1, float("nan"), "1", None, True]),
        ("compression", ["gzip", "", True, []]),
        ("page_size", [0, -1, 2**31, 1.5, "5", None, True]),
        ("rows", ["list", None, ["named"]]),
        ("timestamps", ["utc", None, True]),
        ("vectors", ["array", None]),
        ("prepared_cache_size", [0, -1, 2**31, None]),
        ("application_name", ["", 5, "x" * 65_536, "é" * 32_768]),
        ("application_version", ["x" * 65_536]),
        ("keepalive_interval_s", [1e-10, 0.0009]),
        ("keepalive_timeout_s", [1e-10, 0.0009]),
        ("schema_agreement_timeout_s", [1e-10, 0.0009]),
        ("io_threads", [0, 257, 1.0, None]),
        ("max_frame_bytes", [0, 65_535, 2**31, 1e9, None]),
    ],
)
def test_errors_for_invalid_values_name_the_setting(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=name.partition("_")[0]) as caught:
            make(**{name: value})
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "settings",
    [
        {"consistency": Consistency.ONE},
        {"serial_consistency": None, "timeout_s": None},
        {"serial_consistency": "serial"},
        {"timeout_s": 0.5, "connect_timeout_s": 5},
        {"compression": "lz4"},
        {"compression": "snappy", "page_size": 1},
        {"rows": "dict", "timestamps": "naive", "vectors": "numpy"},
        {"keyspace": "App", "application_name": "demo", "io_threads": 256},
        {"user": "ann", "password": Secret("secret")},
        {"pickle_secrets": True},
        {"application_name": "x" * 65_535, "keepalive_interval_s": 0.001},
    ],
    ids=repr,
)
def test_valid_values_are_accepted(settings: dict[str, Any]) -> None:
    config = make(**settings)
    for name, value in settings.items():
        shown = value.upper() if "consistency" in name and isinstance(value, str) else value
        assert getattr(config, name) == shown


def test_consistency_names_are_accepted_in_any_case() -> None:
    for text in ("local_quorum", "LOCAL_QUORUM", Consistency.LOCAL_QUORUM):
        consistency = make(consistency=text).consistency
        assert consistency is Consistency.LOCAL_QUORUM
    assert str(Consistency.LOCAL_QUORUM) == f"{Consistency.LOCAL_QUORUM}" == "LOCAL_QUORUM"


def test_user_and_password_need_each_other() -> None:
    for settings in ({"user": "ann"}, {"password": "secret"}):
        with pytest.raises(ConfigError, match="go together"):
            make(**settings)


def test_a_password_is_never_shown() -> None:
    config = make(user="ann", password="hunter2")
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config)
    assert "hunter2" not in f"{[config]}"
    assert "ann" in repr(config)
    for wrong in ({"user": "ann", "password": b"hunter2"}, {"password": "hunter2"}):
        with pytest.raises(ConfigError) as caught:
            make(**wrong)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("connect", [turbocql.connect, turbocql.aio.connect, make])
def test_unknown_settings_are_refused(connect: Any) -> None:
    with pytest.raises(TypeError, match="time_out"):
        connect(contact_points="127.0.0.1", time_out=5)
    with pytest.raises(TypeError):
        make(**{"db1": 1})


@pytest.mark.parametrize("connect", [turbocql.connect, turbocql.aio.connect])
def test_wrong_settings_are_refused_before_anything_is_connected(connect: Any) -> None:
    with pytest.raises(ConfigError, match="page_size"):
        connect("127.0.0.1:1", page_size=0)


def test_settings_are_the_fields_except_the_contact_points() -> None:
    fields = {field.name for field in dataclasses.fields(Config)} - {"contact_points"}
    assert set(Settings.__annotations__) == fields
    config_types = typing.get_type_hints(Config)
    for name, hint in typing.get_type_hints(Settings).items():
        assert hint == config_types[name], name


def test_a_config_is_immutable_comparable_copied_and_pickled() -> None:
    config = make(contact_points="db1", keyspace="app", user="ann", password="secret")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.port = 1  # type: ignore[misc]
    assert dataclasses.replace(config) == config
    whole = dataclasses.replace(config, pickle_secrets=True)
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert hash(dataclasses.replace(config)) == hash(config)
    assert dataclasses.replace(config, keyspace="b") != config


def test_the_mappings_of_a_config_are_immutable_too() -> None:
    profiles = {"slow": ExecutionProfile(timeout_s=120)}
    addresses = {"10.0.0.1": "127.0.0.1"}
    config = make(profiles=profiles, addresses=addresses)
    fields: list[tuple[Any, dict[str, Any]]] = [
        (config.profiles, dict(profiles)),
        (config.addresses, dict(addresses)),
    ]
    for own, given in fields:
        changes: list[Callable[[], object]] = [
            lambda: own.__setitem__("a", 1),  # noqa: B023
            lambda: own.__delitem__(next(iter(given))),  # noqa: B023
            lambda: own.update(a=1),  # noqa: B023
            lambda: own.pop(next(iter(given))),  # noqa: B023
            lambda: own.setdefault("a", 1),  # noqa: B023
            lambda: own.__ior__({"a": 1}),  # noqa: B023
            *(own.clear, own.popitem),
        ]
        for change in changes:
            with pytest.raises(TypeError, match="cannot be changed"):
                change()
        assert own == given
        assert repr(own) == repr(given)
    profiles.clear()
    addresses.clear()
    assert (len(config.profiles), len(config.addresses)) == (1, 1)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copies = [pickle.loads(pickle.dumps(config, protocol)), dataclasses.replace(config)]
        for same in (*copies, copy.copy(config), copy.deepcopy(config)):
            assert same == config
            assert hash(same) == hash(config)
            assert repr(same) == repr(config)
            with pytest.raises(TypeError):
                same.addresses["a"] = "b"
    data = dataclasses.asdict(config)
    assert data["profiles"]["slow"]["timeout_s"] == 120
    assert data["addresses"] == {"10.0.0.1": "127.0.0.1"}


def test_the_settings_that_the_native_core_receives() -> None:
    native = make(
        contact_points="db1", timeout_s=None, timestamps="naive", vectors="numpy"
    )._native()
    assert native["contact_points"] == ["db1:9042"]
    assert native["profile"]["timeout_s"] == float("inf")
    assert (native["naive_timestamps"], native["numpy_vectors"]) == (True, True)
    plain = make()._native()
    assert (plain["naive_timestamps"], plain["numpy_vectors"]) == (False, False)
    assert plain["profile"]["timeout_s"] == 30.0
