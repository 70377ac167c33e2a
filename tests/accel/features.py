"""Sets of ScyllaDB's protocol extensions, and the message bodies that a driver writes with them."""

from __future__ import annotations

import importlib
import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any

from cassandra import protocol
from tests.accel.answers import answer

TAKES_FEATURES = (
    "protocol_features" in inspect.signature(protocol.QueryMessage.send_body).parameters
)
"""Whether `send_body` of this driver takes the connection's features: its protocol extensions."""


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
    """Yields the ways to pass features to `send_body`. Each way has a name and a tuple of
    arguments.

    In a call of `send_body`, these arguments come after the protocol version.
    """
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
    """Returns the driver's class for a connection's features."""
    cls: type[Any] = importlib.import_module("cassandra.protocol_features").ProtocolFeatures
    return cls


def body(message: Any, *rest: Any) -> Any:
    """Calls a message's `send_body`. Returns its result or error, and the bytes that it wrote."""
    out = io.BytesIO()
    return answer(message.send_body, out, *rest), out.getvalue()
