"""Patches the driver's functions that write the bodies of requests."""

from __future__ import annotations

import importlib
import io
import itertools
from _io import BytesIO  # a program may have replaced `io.BytesIO`
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from .. import _core
from ._origin import (
    NotReplaced,
    expect_own,
    expect_parameters,
    expect_versions,
    is_function_of,
)
from ._patch import Driver, Group, Patch

__all__ = ["Bodies"]

_FEATURES = "cassandra.protocol_features"
_KNOWN_FEATURES = {
    "rate_limit_error",
    "shard_id",
    "sharding_info",
    "tablets_routing_v1",
    "tablets_routing_v2",
    "lwt_info",
    "use_metadata_id",
}
"""Attributes of `ProtocolFeatures`, the features that a connection has negotiated. turbocql knows
how each of these changes the bodies of requests: `use_metadata_id` and `tablets_routing_v2` change
EXECUTE, the others change no body. An attribute that a later release of the driver adds may change
any body."""


class Bodies(Group):
    """Patches the functions that write the bodies of requests."""

    part = "bodies"
    names = (
        "protocol.QueryMessage.send_body",
        "protocol.ExecuteMessage.send_body",
        "protocol.BatchMessage.send_body",
    )

    def patches(self, driver: Driver) -> list[Patch]:
        protocol = driver.protocol
        patches: list[Patch] = []
        versions, problem = expect_versions(protocol)
        for cls in (protocol._QueryMessage, protocol.ExecuteMessage):
            for name in ("_write_query_params", "_should_skip_metadata"):
                if name in vars(cls):
                    expect_own(protocol, cls, name)
        negotiated = vars(protocol).get("_metadata_id_negotiated")
        if negotiated is not None and not is_function_of(protocol, negotiated):
            raise NotReplaced("cassandra.protocol._metadata_id_negotiated has been replaced")
        for kind, function_name in zip(("query", "execute", "batch"), self.names, strict=True):
            owner: Any = getattr(protocol, function_name.split(".")[1], None)
            original = expect_own(protocol, owner, "send_body")
            parameters = expect_parameters(
                original,
                ("self", "f", "protocol_version"),
                ("self", "f", "protocol_version", "protocol_features"),
            )
            features = _features() if len(parameters) == 4 else None
            empty_id = kind == "execute" and _is_empty_id_written(protocol)
            stand_in = _core.BodyStandIn(
                original,
                owner,
                protocol._UNSET_VALUE,
                kind,
                empty_id,
                BytesIO,
                (versions, lambda: not problem()),
                features,
            )
            replacement = stand_in.function()
            for message, arguments in _samples(driver, kind, features):
                if _body(replacement, message, *arguments) != _body(original, message, *arguments):
                    raise NotReplaced(
                        f"{function_name} differs from turbocql in version {arguments[0]}"
                    )
            patches.append(
                Patch(
                    owner,
                    "send_body",
                    function_name,
                    replacement,
                    stand_in.counts,
                    reasons=stand_in.reasons,
                    problem=problem,
                )
            )
            patches[-1].count_from_here()
        return patches


def _features() -> tuple[type[Any], list[str]] | None:
    """Returns the class `ProtocolFeatures`, and its attributes that are not in `_KNOWN_FEATURES`.

    Returns None if the driver has no module `cassandra.protocol_features`.

    Raises: NotReplaced, if the class was replaced or computes its attributes.
    """
    try:
        module = importlib.import_module(_FEATURES)
    except ModuleNotFoundError:
        return None
    cls = vars(module).get("ProtocolFeatures")
    if not isinstance(cls, type) or cls.__mro__ != (cls, object) or cls.__module__ != _FEATURES:
        raise NotReplaced(f"{_FEATURES}.ProtocolFeatures has been replaced")
    if {"__getattr__", "__getattribute__"} & set(vars(cls)):
        raise NotReplaced(f"{_FEATURES}.ProtocolFeatures computes its attributes")
    init = vars(cls).get("__init__")
    if not isinstance(init, FunctionType) or not is_function_of(module, init):
        raise NotReplaced(f"{_FEATURES}.ProtocolFeatures.__init__ has been replaced")
    code = init.__code__
    names = set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
    # `co_names` contains the attributes that `__init__` sets. It also contains other names, such as
    # globals; they do no harm, because no instance has attributes with these names.
    names |= set(code.co_names) | set(vars(cls).get("__annotations__", ()))
    names |= {
        name
        for name, value in vars(cls).items()
        if not name.startswith("__") and not callable(getattr(value, "__func__", value))
    }
    return cls, sorted(names - _KNOWN_FEATURES)


def _is_empty_id_written(protocol: ModuleType) -> bool:
    message = protocol.ExecuteMessage(b"id", [], 1)
    try:
        return bool(_body(protocol.ExecuteMessage.send_body, message, 5)[2:6] == b"id\0\0")
    except TypeError:
        return False


def _body(send_body: Callable[..., None], message: Any, *arguments: Any) -> bytes:
    buffer = io.BytesIO()
    # `__get__` binds a function or native method to the message, as an attribute lookup would.
    bind = getattr(send_body, "__get__", None)
    (bind(message) if bind else send_body)(buffer, *arguments)
    return buffer.getvalue()


def _samples(
    driver: Driver, kind: str, features: tuple[type[Any], list[str]] | None
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yields messages, each with the arguments that `send_body` takes after the buffer."""
    for message, version in _messages(driver, kind):
        yield message, (version,)
    if features is None:
        return
    cls, _ = features
    feature_names, messages = set(vars(cls)), _messages(driver, kind, (8,))
    sets: tuple[Iterable[str], ...] = ((), _KNOWN_FEATURES)
    if kind == "execute":
        sets += (("use_metadata_id",), ("tablets_routing_v2",))
    for names in sets:
        connection = cls()
        for name in feature_names.intersection(names):
            # A body depends on whether a feature is set, not on its value, so True is enough.
            setattr(connection, name, True)
        for message, version in messages:
            if kind == "execute":
                message.skip_meta = version == 4
                message.result_metadata_id = b"metadata" if version > 3 else None
                message.tablet_version_block = None if version == 3 else 0xA7
            yield message, (version, connection)


def _messages(
    driver: Driver, kind: str, serials: tuple[int | None, ...] = (None, 8)
) -> list[tuple[Any, int]]:
    """Returns sample messages, each with a protocol version.

    Some fields have several sample values. For any two of these fields, each pair of sample values
    is in one of the messages.
    """
    protocol, unset = driver.protocol, driver.protocol._UNSET_VALUE
    messages: list[tuple[Any, int]] = []
    for version, serial, (row, column) in itertools.product((3, 4, 5), serials, _SQUARE):
        values = [b"value", None, b""] + ([unset] if version > 3 else [])
        common = {"serial_consistency_level": serial, "timestamp": (None, 0, 1 << 50)[row]}
        if kind == "batch":
            kinds = driver.query.BatchType
            queries: list[Any] = [
                (True, b"id", values),
                (False, "text \u20ac", ()),
                (False, "q", [b"1"]),
            ]
            batch_type = (kinds.LOGGED, kinds.UNLOGGED, kinds.COUNTER)[column]
            for batch_queries in ([], queries) if row == column else (queries,):
                message = protocol.BatchMessage(batch_type, batch_queries, 6, **common)
                message.keyspace = "ks" if version == 5 and serial else None
                messages.append((message, version))
            continue
        paging = {
            "fetch_size": (None, 0, 5000)[column],
            "paging_state": (None, b"", b"state")[(row + column) % 3],
            **common,
        }
        if kind == "query":
            messages.append((protocol.QueryMessage("text \u20ac", 1, **paging), version))
            continue
        values_or_none = ([], values, None)[(row + 2 * column) % 3]
        message = protocol.ExecuteMessage(b"id", values_or_none, 10, **paging)
        if version == 5:
            message.result_metadata_id = b"metadata"
            message.keyspace = "ks" if serial else None
        messages.append((message, version))
    return messages


_SQUARE = tuple(itertools.product(range(3), range(3)))
"""The cells of a 3 by 3 square, as pairs (row, column); each cell makes one message. Up to four
fields are varied, with three values each. The value of each field is selected by a number: the row,
the column, row + column, or row + 2 * column, all modulo 3. So for any two fields, each pair of
their values is in one of the 9 messages."""
