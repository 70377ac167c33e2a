"""The events of a session: the level, the logger and the message of each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .errors import class_name

__all__ = ["KINDS", "LOGGERS", "Kind", "describe"]

LOGGERS = ("turbocql.connection", "turbocql.cluster", "turbocql.request")
"""The names of the loggers."""

_CONNECTION, _CLUSTER, _REQUEST = LOGGERS

Fields = Mapping[str, Any]


class Kind(NamedTuple):
    """How events of one name are logged."""

    logger: str
    level: Callable[[Fields], int] | int
    message: Callable[[str, Fields], str]
    """Makes the message from the node's address and the event's fields."""


def _unless(flag: str, level: int) -> Callable[[Fields], int]:
    return lambda fields: logging.DEBUG if fields.get(flag) else level


def _failure_level(fields: Fields) -> int:
    if fields["repeated"]:
        return logging.DEBUG
    return logging.ERROR if fields["authentication"] else logging.WARNING


def _connection(fields: Fields) -> str:
    return "control connection" if fields["control"] else "connection"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _request(_node: str, fields: Fields) -> str:
    attempts = fields["attempts"]
    how = f"{fields['kind']} request took {_seconds(fields['duration_s'])}"
    if len(attempts) != 1:
        how += f", {len(attempts)} attempts"
    if "error" in fields:
        how += f", failed: {fields['error']}"
    nodes = ", ".join(
        f"{at} ({error or ('answered' if ended else 'no answer')})"
        for at, _, ended, error in attempts
    )
    statement = fields.get("statement")
    about = "" if statement is None else f": {statement}"
    count = fields.get("statements", 1)
    if fields["kind"] == "batch" and count > 1:
        about += f" and {count - 1} more"
    return f"{how}{f', {nodes}' if nodes else ''}{about}"


def _slow_request(node: str, fields: Fields) -> str:
    left_out = fields["left_out"]
    more = f" ({left_out} more were not reported)" if left_out else ""
    return f"slow {_request(node, fields)}{more}"


def _schema_changed(node: str, fields: Fields) -> str:
    name = fields["keyspace"] + (f".{fields['object']}" if "object" in fields else "")
    return f"{fields['target']} {name} {fields['change']}, reported by {node}"


KINDS = {
    "connection opened": Kind(
        _CONNECTION,
        lambda fields: logging.INFO if fields["again"] else logging.DEBUG,
        lambda node, f: f"{_connection(f)} to {node} opened{' again' if f['again'] else ''}",
    ),
    "connection failed": Kind(
        _CONNECTION,
        _failure_level,
        lambda node, f: f"{_connection(f)} to {node} could not be opened: {f['reason']}",
    ),
    "connection lost": Kind(
        _CONNECTION,
        _unless("repeated", logging.WARNING),
        lambda node, f: f"{_connection(f)} to {node} was lost: {f['reason']}",
    ),
    "connection closed": Kind(
        _CONNECTION, logging.DEBUG, lambda node, f: f"{_connection(f)} to {node} closed"
    ),
    "node added": Kind(
        _CLUSTER, _unless("first", logging.INFO), lambda node, _: f"node {node} added"
    ),
    "node removed": Kind(_CLUSTER, logging.WARNING, lambda node, _: f"node {node} removed"),
    "node moved": Kind(
        _CLUSTER, logging.INFO, lambda node, f: f"node {f['was']} has moved to {node}"
    ),
    "node up": Kind(_CLUSTER, _unless("first", logging.INFO), lambda node, _: f"node {node} is up"),
    "node down": Kind(
        _CLUSTER,
        logging.WARNING,
        lambda node, _: f"node {node} is down: this session has no connection to it",
    ),
    "node silent": Kind(
        _CLUSTER,
        logging.WARNING,
        lambda node, f: (
            f"node {node} is silent: no answer within {_seconds(f['waited_s'])};"
            " requests go to other nodes first"
        ),
    ),
    "node answers again": Kind(
        _CLUSTER, logging.INFO, lambda node, _: f"node {node} answers again"
    ),
    "node reported up": Kind(
        _CLUSTER, logging.DEBUG, lambda node, _: f"the cluster reports that {node} is up"
    ),
    "node reported down": Kind(
        _CLUSTER, logging.DEBUG, lambda node, _: f"the cluster reports that {node} is down"
    ),
    "schema changed": Kind(_CLUSTER, logging.INFO, _schema_changed),
    "prepared again": Kind(
        _REQUEST,
        logging.INFO,
        lambda node, f: f"prepared again at {node}, which did not know it: {f['statement']}",
    ),
    "slow request": Kind(_REQUEST, logging.WARNING, _slow_request),
    "request": Kind(_REQUEST, logging.DEBUG, _request),
}
"""The events by name."""


def describe(fields: dict[str, Any]) -> None:
    """Replaces the field `error_kind`, which the native core sets, by the field `error`: the name
    of the exception class.
    """
    kind = fields.pop("error_kind", None)
    if kind is not None:
        fields["error"] = class_name(kind, fields.get("error_code"))
