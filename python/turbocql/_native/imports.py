"""The Python objects that the native core looks up by name. Each is imported at its first use."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["IMPORTS", "load"]

IMPORTS = {
    "append_ready": "turbocql._native.wake:append_ready",
    "batch": "turbocql.statements:Batch",
    "bulk_report": "turbocql.bulk:_report",
    "bytes_io": "io:BytesIO",
    "c_task": "turbocql._native.wake:C_TASK",
    "call_origin": "turbocql._native.origin:CallOrigin",
    "cancelled_error": "asyncio:CancelledError",
    "column": "turbocql.rows:Column",
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
    "not_iterable": "turbocql._session.unawaited:not_iterable",
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
    "rows_of_awaitable": "turbocql.rows:_rows_of_awaitable",
    "safe_uuid_unknown": "uuid:SafeUUID.unknown",
    "start_notifying": "turbocql._native.wake:start",
    "trace": "turbocql.cluster:_trace",
    "unset": "turbocql.types:UNSET",
    "uuid": "uuid:UUID",
    "wait_in_hub": "turbocql._native.greenlets:wait_in_hub",
    "wake_remaining": "turbocql._native.wake:wake_remaining",
    "wake_tasks": "turbocql._native.wake:wake_tasks",
}
"""The module and attribute of each object. Each key is also the name of the Rust function that
returns the object. The function is in the file `python.rs` of one of the crates."""


def load(name: str) -> Any:
    """Imports the object for a name in `IMPORTS`. The core caches it until the process ends."""
    module, _, attribute = IMPORTS[name].partition(":")
    return attrgetter(attribute)(import_module(module))
