"""Tests bodies of requests on connections with ScyllaDB's protocol extensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

import pytest
from cassandra import protocol
from cassandra.query import BatchType
from tests.accel.features import TAKES_FEATURES, body, connections, feature_class
from tests.accel.statements import seams

from turbocql import accel

BODIES = ("QueryMessage", "ExecuteMessage", "BatchMessage")
CONNECTIONS = dict(connections())
takes_features = pytest.mark.needs(
    TAKES_FEATURES, reason="earlier releases do not pass a connection's features to send_body"
)
knows_extensions = pytest.mark.needs(
    "all" in CONNECTIONS, reason="earlier releases and cassandra-driver lack these extensions"
)


def messages(version: int) -> Iterator[tuple[str, Any]]:
    """Yields pairs of a class name and a message. In this version, native code writes the bodies of
    these messages.
    """
    values = [b"value", None, b""]
    keyspaces = (None, "ks") if version == 5 else (None,)
    for keyspace, serial, size in itertools.product(keyspaces, (None, 8), (None, 100)):
        common: dict[str, Any] = {"serial_consistency_level": serial, "timestamp": 5}
        paging = {"fetch_size": size, "paging_state": size and b"state"}
        query = protocol.QueryMessage("text \u20ac", 1, **common, **paging)
        queries = [(True, b"id", values), (False, "text \u20ac", [])]
        batch = protocol.BatchMessage(BatchType.LOGGED, queries, 6, **common)
        made = [("QueryMessage", query), ("BatchMessage", batch)]
        blocks = (None, 0, 1, 0xA7, 255)
        # If the metadata id is None in version 5, some releases of the drivers raise an error, and
        # others write b"". So None is not used in version 5.
        ids = (b"", b"metadata") if version == 5 else (None, b"", b"metadata")
        for skip, known, block in itertools.product((False, True, None), ids, blocks):
            execute = protocol.ExecuteMessage(b"id", values, 1, **common, **paging)
            execute.skip_meta = skip
            execute.result_metadata_id = known
            execute.tablet_version_block = block
            made.append(("ExecuteMessage", execute))
        for kind, message in made:
            message.keyspace = keyspace
            yield kind, message


def body_seams() -> dict[str, accel.Seam]:
    """Maps each message class to the seam of its `send_body`, which counts its calls."""
    every = seams()
    return {name: every[f"protocol.{name}.send_body"] for name in BODIES}


def test_the_connections_that_this_release_knows() -> None:
    expected = 1 if not TAKES_FEATURES else 5 + hasattr(feature_class(), "use_metadata_id") * 3
    assert len(CONNECTIONS) == expected, list(CONNECTIONS)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("connection", CONNECTIONS)
def test_every_kind_is_native(connection: str, version: int) -> None:
    features = CONNECTIONS[connection]
    plain = [body(message, version, *features) for _, message in messages(version)]
    assert all(error is None for error, _ in plain)
    with accel.accelerated():
        counts = dict.fromkeys(BODIES, 0)
        accelerated = []
        before = {kind: seam.native for kind, seam in body_seams().items()}
        for kind, message in messages(version):
            accelerated.append(body(message, version, *features))
            counts[kind] += 1
        assert accelerated == plain
        for kind, seam in body_seams().items():
            calls = (seam.native - before[kind], seam.fallback)
            assert calls == (counts[kind], 0), (kind, seam.reasons)


@knows_extensions
def test_the_bytes_are_those_of_the_extensions() -> None:
    """The expected bytes are literals here, and not bytes of the driver as in the other tests."""
    message = protocol.ExecuteMessage(b"id", [b"v"], 1)
    message.skip_meta, message.result_metadata_id = True, b"rm"
    message.tablet_version_block = 0xA7
    value = b"\0\x01\0\0\0\x01v"
    with accel.accelerated():
        features = feature_class()()
        assert body(message, 4, features)[1] == b"\0\x02id\0\x01\x01" + value
        features.use_metadata_id = True
        assert body(message, 4, features)[1] == b"\0\x02id\0\x02rm\0\x01\x03" + value
        features.tablets_routing_v2 = True
        assert body(message, 4, features)[1] == b"\0\x02id\0\x02rm\0\x01\x03" + value + b"\xa7"
        message.result_metadata_id = message.tablet_version_block = None
        assert body(message, 3, features)[1] == b"\0\x02id\0\0\0\x01\x03" + value + b"\0"
        assert body_seams()["ExecuteMessage"].native == 4


def fallbacks(messages_and_rest: list[tuple[Any, tuple[Any, ...]]]) -> tuple[tuple[str, int], ...]:
    """Writes the bodies of these messages. Returns the reasons why bodies fell back to the driver,
    and how often each reason occurred.

    Asserts that the bodies equal those of the plain driver.
    """
    plain = [body(message, *rest) for message, rest in messages_and_rest]
    with accel.accelerated():
        assert [body(message, *rest) for message, rest in messages_and_rest] == plain
        reasons = [reason for seam in body_seams().values() for reason in seam.reasons]
        assert sum(count for _, count in reasons) == sum(s.fallback for s in body_seams().values())
        assert all(f"by the driver {count}: {why}" in str(accel.status()) for why, count in reasons)
    return tuple(sorted(reasons))


def one_of_each() -> list[Any]:
    """Returns a message of each class."""
    return list(dict(messages(4)).values())


@takes_features
@pytest.mark.parametrize(
    ("value", "is_on"),
    [(None, False), (False, False), (True, True), ("zstd", True), (0, True)],
    ids=repr,
)
def test_features_of_later_releases_are_left_to_the_driver(value: Any, is_on: bool) -> None:
    cls = feature_class()
    with mock.patch.object(cls, "new_compression", None, create=True):
        features = cls()
        features.new_compression = value
        reasons = fallbacks([(message, (4, features)) for message in one_of_each()])
    why = "the connection had the feature new_compression, which turbocql does not know"
    assert reasons == (((why, 1),) * 3 if is_on else ())


@takes_features
@pytest.mark.parametrize("kind", ["derived", "mock"])
def test_features_of_another_class_are_left_to_the_driver(kind: str) -> None:
    cls = feature_class()
    features = type("Derived", (cls,), {})() if kind == "derived" else mock.Mock(spec=cls)
    reasons = fallbacks([(message, (4, features)) for message in one_of_each()])
    assert reasons == (("the connection's features were of another class", 1),) * 3


@takes_features
def test_features_that_compute_their_attributes_are_not_inspected() -> None:
    computed = mock.Mock(return_value=None)
    patch = mock.patch.object(feature_class(), "__getattr__", computed, create=True)
    with patch, accel.accelerated():
        assert "computes its attributes" in body_seams()["QueryMessage"].why


@knows_extensions
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tablet_version_block", 256),
        ("tablet_version_block", -1),
        ("tablet_version_block", "7"),
        ("result_metadata_id", "text"),
        ("result_metadata_id", bytearray(b"id")),
        ("skip_meta", 1),
        ("skip_meta", "yes"),
    ],
    ids=repr,
)
def test_odd_fields_are_left_to_the_driver(name: str, value: Any) -> None:
    message = protocol.ExecuteMessage(b"id", [b"v"], 1)
    message.result_metadata_id = b"metadata"
    setattr(message, name, value)
    reasons = fallbacks([(message, (4, *CONNECTIONS["all"]))])
    assert reasons == ((f"{name} had an unusual value", 1),)


@knows_extensions
@pytest.mark.parametrize("value", [1, "yes"])
@pytest.mark.parametrize("name", ["use_metadata_id", "tablets_routing_v2"])
def test_odd_features_are_left_to_the_driver(name: str, value: Any) -> None:
    features = feature_class()()
    message = protocol.ExecuteMessage(b"id", [b"v"], 1)
    with mock.patch.object(features, name, value):
        reasons = fallbacks([(message, (4, features))])
    assert reasons == ((f"{name} had an unusual value", 1),)


def test_random_messages_equal_those_of_the_driver() -> None:
    rng = Random(5)
    features = list(CONNECTIONS.values())
    cases = []
    for _ in range(3000):
        version = rng.choice((3, 4, 4, 5, 2, 6))
        message = rng.choice(list(messages(4)))[1]
        for name, values in (
            ("result_metadata_id", (None, b"", b"metadata", "text", 5)),
            ("tablet_version_block", (None, 0, 255, 256, -1, True, 1.5)),
            ("skip_meta", (False, True, None, 0, 1, "yes")),
            ("keyspace", (None, None, "ks", "", 5)),
        ):
            if rng.random() < 0.3:
                setattr(message, name, rng.choice(values))
        cases.append((message, (version, *rng.choice(features))))
    plain = [body(message, *rest) for message, rest in cases]
    with accel.accelerated():
        assert [body(message, *rest) for message, rest in cases] == plain
