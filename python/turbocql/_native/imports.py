"""The Python objects that the native core looks up by name, each at its first use."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["IMPORTS", "PROVIDED", "load", "provide"]

IMPORTS = {
    "append_ready": "turbocql._native.wake:append_ready",
    "batch": "turbocql.statements:Batch",
    "bytes_io": "io:BytesIO",
    "c_task": "turbocql._native.wake:C_TASK",
    "call_origin": "turbocql._native.origin:CallOrigin",
    "cancelled_error": "asyncio:CancelledError",
    "column_description": "turbocql._native.cassandra_types:ColumnDescription",
    "config_error": "turbocql.errors:ConfigError",
    "context": "contextvars:Context",
    "cql_date": "turbocql.types:Date",
    "cql_duration": "turbocql.types:Duration",
    "cql_time": "turbocql.types:Time",
    "cql_timestamp": "turbocql.types:Timestamp",
    "dataclass_field": "dataclasses:_FIELD",
    "decimal": "decimal:Decimal",
    "did_you_mean": "turbocql._checks:did_you_mean",
    "done_future": "turbocql._native.wake:DONE",
    "encode_error": "turbocql.errors:EncodeError",
    "error": "turbocql.errors:Error",
    "error_from_codec": "turbocql.errors:from_codec",
    "error_from_engine": "turbocql.errors:from_engine",
    "error_in_batch": "turbocql.errors:in_batch",
    "field_names": "turbocql._native.row_classes:field_names",
    "from_cassandra": "turbocql._native.cassandra_types:cql_type",
    "frozen_map": "turbocql.types:FrozenMap",
    "ipv4_address": "ipaddress:IPv4Address",
    "ipv6_address": "ipaddress:IPv6Address",
    "is_stock": "turbocql._native.cassandra_types:is_stock",
    "mapping": "collections.abc:Mapping",
    "node": "turbocql.cluster:Node",
    "not_iterable": "turbocql._native.unawaited:not_iterable",
    "notice_gevent": "turbocql._native.greenlets:notice_gevent",
    "number": "numbers:Number",
    "numpy_dtype": "numpy:dtype",
    "numpy_empty": "numpy:empty",
    "piece_thread": "turbocql._native.threads:ThreadedPieces",
    "ready": "turbocql._native.wake:Ready",
    "real": "numbers:Real",
    "record_class": "turbocql._native.records:record_class",
    "release_held": "turbocql._core:release_held",
    "replica": "turbocql.cluster:Replica",
    "request_error": "turbocql.errors:RequestError",
    "row_maker": "turbocql._native.row_classes:row_maker",
    "safe_uuid_unknown": "uuid:SafeUUID.unknown",
    "start_notifying": "turbocql._native.wake:start",
    "trace": "turbocql.cluster:_trace",
    "unset": "turbocql.types:UNSET",
    "uuid": "uuid:UUID",
    "wait_in_hub": "turbocql._native.greenlets:wait_in_hub",
    "wake_remaining": "turbocql._native.wake:wake_remaining",
    "wake_tasks": "turbocql._native.wake:wake_tasks",
}
"""The module and attribute of each object that is imported. Each key is also the name of the Rust
function that returns the object. The function is in the file `python.rs` of one of the crates. The
modules use no folder above this one."""

PROVIDED: dict[str, Any] = {}
"""Objects of modules that use folders above this one, by the names of the Rust functions. So that
this folder does not import these modules, each module adds its objects when it is imported. The
core uses the objects only for sessions and for decoders of rows, whose modules import them."""


def provide(name: str, provided: Any) -> None:
    """Makes an object known to the core. `provided` is the object for the name."""
    PROVIDED[name] = provided


def load(name: str) -> Any:
    """Returns the object for a name, which may have to be imported.

    The core keeps the object until the process ends.

    Raises: KeyError, if the module that provides the object is not imported.
    """
    if name not in IMPORTS:
        return PROVIDED[name]
    module, _, attribute = IMPORTS[name].partition(":")
    return attrgetter(attribute)(import_module(module))
