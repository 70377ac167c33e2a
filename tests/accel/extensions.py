"""Bodies of requests on connections with ScyllaDB's protocol extensions.

    PYTHONPATH=python:. .venv-scylla-driver/bin/python -m tests.accel.extensions

Run in the environment of either driver, each with the features that it knows. Prints how many
checks have passed; the first that fails is an AssertionError.
"""

from __future__ import annotations

import importlib
import inspect
import io
import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest import mock

from cassandra import protocol
from cassandra.query import BatchType
from tests.accel.answers import answer, run

from turbocql import accel

BODIES = ("QueryMessage", "ExecuteMessage", "BatchMessage")
TAKES_FEATURES = (
    "protocol_features" in inspect.signature(protocol.QueryMessage.send_body).parameters
)
"""Whether this driver's messages are told the features of their connection."""


def _lwt_mark() -> Any:
    return importlib.import_module("cassandra.lwt_info")._LwtInfo(1 << 31)


FEATURE_SETS: dict[str, dict[str, Callable[[], Any]]] = {
    "plain": {},
    "metadata ids": {"use_metadata_id": lambda: True},
    "tablets v1": {"tablets_routing_v1": lambda: True},
    "tablets v2": {"tablets_routing_v2": lambda: True},
    "rate limit and LWT mark": {"rate_limit_error": lambda: 0xF000, "lwt_info": _lwt_mark},
    "all": {
        "use_metadata_id": lambda: True,
        "tablets_routing_v1": lambda: True,
        "tablets_routing_v2": lambda: True,
        "rate_limit_error": lambda: 0xF000,
        "lwt_info": _lwt_mark,
        "shard_id": lambda: 3,
        "sharding_info": lambda: object(),
    },
}


def connections() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Feature sets that this driver knows: a name, and the last arguments of `send_body`."""
    yield "not told", ()
    if not TAKES_FEATURES:
        return
    yield "None", (None,)
    for name, features in FEATURE_SETS.items():
        connection = feature_class()()
        if all(hasattr(connection, feature) for feature in features):
            for feature, value in features.items():
                setattr(connection, feature, value())
            yield name, (connection,)


def feature_class() -> type[Any]:
    """The driver's class of a connection's features."""
    cls: type[Any] = importlib.import_module("cassandra.protocol_features").ProtocolFeatures
    return cls


def messages(version: int) -> Iterator[tuple[str, Any]]:
    """Messages that native code writes in this version: the kind and the message."""
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
        # In version 5, releases that write no empty id need an id.
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


def body(message: Any, *rest: Any) -> Any:
    """The body of a message, or the error, and what was written before it."""
    out = io.BytesIO()
    return answer(message.send_body, out, *rest), out.getvalue()


def seams() -> dict[str, accel.Seam]:
    """What the status says of each kind of message."""
    every = {seam.name: seam for seam in accel.status().seams}
    return {name: every[f"protocol.{name}.send_body"] for name in BODIES}


def every_kind_is_native_under_every_set_of_features() -> None:
    told = list(connections())
    expected = 1 if not TAKES_FEATURES else 5 + hasattr(feature_class(), "use_metadata_id") * 3
    assert len(told) == expected, [name for name, _ in told]
    for (name, features), version in itertools.product(told, (3, 4, 5)):
        plain = [body(message, version, *features) for _, message in messages(version)]
        assert all(error is None for error, _ in plain), name
        with accel.accelerated():
            counts = dict.fromkeys(BODIES, 0)
            accelerated = []
            before = {kind: seam.native for kind, seam in seams().items()}
            for kind, message in messages(version):
                accelerated.append(body(message, version, *features))
                counts[kind] += 1
            assert accelerated == plain, (name, version)
            for kind, seam in seams().items():
                said = (name, version, kind, seam.reasons)
                assert (seam.native - before[kind], seam.fallback) == (counts[kind], 0), said


def the_bytes_are_those_of_the_extensions() -> None:
    """Not only those of this driver: here they are by hand."""
    if not hasattr(protocol, "_metadata_id_negotiated"):
        return
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
        assert seams()["ExecuteMessage"].native == 4


def fallbacks(messages_and_rest: list[tuple[Any, tuple[Any, ...]]]) -> tuple[tuple[str, int], ...]:
    """Why the driver wrote these bodies; the driver's own must be the same."""
    plain = [body(message, *rest) for message, rest in messages_and_rest]
    with accel.accelerated():
        assert [body(message, *rest) for message, rest in messages_and_rest] == plain
        reasons = [reason for seam in seams().values() for reason in seam.reasons]
        assert sum(count for _, count in reasons) == sum(s.fallback for s in seams().values())
        assert all(f"by the driver {count}: {why}" in str(accel.status()) for why, count in reasons)
    return tuple(sorted(reasons))


def one_of_each() -> list[Any]:
    """A message of each kind."""
    return list(dict(messages(4)).values())


def features_of_later_releases_are_left_to_the_driver() -> None:
    if not TAKES_FEATURES:
        return
    cls = feature_class()
    for value, is_on in ((None, False), (False, False), (True, True), ("zstd", True), (0, True)):
        with mock.patch.object(cls, "new_compression", None, create=True):
            features = cls()
            features.new_compression = value
            reasons = fallbacks([(message, (4, features)) for message in one_of_each()])
        why = "the connection had the feature new_compression, which turbocql does not know"
        assert reasons == (((why, 1),) * 3 if is_on else ()), (value, reasons)


def features_of_another_class_are_left_to_the_driver() -> None:
    if not TAKES_FEATURES:
        return
    cls = feature_class()
    derived = type("Derived", (cls,), {})()
    why = "the connection's features were of another class"
    for features in (derived, mock.Mock(spec=cls)):
        reasons = fallbacks([(message, (4, features)) for message in one_of_each()])
        assert reasons == ((why, 1),) * 3
    # No class can be inspected that computes its attributes.
    computed = mock.Mock(return_value=None)
    with mock.patch.object(cls, "__getattr__", computed, create=True), accel.accelerated():
        assert "computes its attributes" in seams()["QueryMessage"].why


def odd_fields_are_left_to_the_driver() -> None:
    known = dict(connections())
    if "all" not in known:
        return
    rest = (4, *known["all"])
    for name, value in (
        ("tablet_version_block", 256),
        ("tablet_version_block", -1),
        ("tablet_version_block", "7"),
        ("result_metadata_id", "text"),
        ("result_metadata_id", bytearray(b"id")),
        ("skip_meta", 1),
        ("skip_meta", "yes"),
    ):
        message = protocol.ExecuteMessage(b"id", [b"v"], 1)
        message.result_metadata_id = b"metadata"
        setattr(message, name, value)
        assert fallbacks([(message, rest)]) == ((f"{name} had an unusual value", 1),)
    features = feature_class()()
    for name in ("use_metadata_id", "tablets_routing_v2"):
        for odd in (1, "yes"):
            message = protocol.ExecuteMessage(b"id", [b"v"], 1)
            with mock.patch.object(features, name, odd):
                reasons = fallbacks([(message, (4, features))])
            assert reasons == ((f"{name} had an unusual value", 1),)


def random_messages_are_the_drivers() -> None:
    rng = Random(5)
    told = [features for _, features in connections()]
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
        cases.append((message, (version, *rng.choice(told))))
    plain = [body(message, *rest) for message, rest in cases]
    with accel.accelerated():
        assert [body(message, *rest) for message, rest in cases] == plain


def main() -> None:
    run(
        [
            every_kind_is_native_under_every_set_of_features,
            the_bytes_are_those_of_the_extensions,
            features_of_later_releases_are_left_to_the_driver,
            features_of_another_class_are_left_to_the_driver,
            odd_fields_are_left_to_the_driver,
            random_messages_are_the_drivers,
        ]
    )


if __name__ == "__main__":
    main()
