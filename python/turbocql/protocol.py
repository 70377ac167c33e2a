"""Encodes and decodes frame bodies, for programs that send and read frames themselves.

A message holds the contents of a QUERY, EXECUTE or BATCH request. `encode` returns the body of the
request, without the frame's header, for version 3, 4 or 5 of the native protocol. Values are bytes
without their length, as [`turbocql.codec`][turbocql.codec] serializes them. A message that a
protocol version cannot express causes an `EncodeError`.

[`RowsDecoder`][turbocql.protocol.RowsDecoder] reads the body of a RESULT: the description of the
columns, which is cached, and the rows.

Example:
    >>> from turbocql import UNSET
    >>> from turbocql.protocol import ExecuteMessage
    >>> row = [(7).to_bytes(4, "big"), None, UNSET]
    >>> ExecuteMessage(b"id", row, consistency="QUORUM").encode(4).hex(" ", -4)
    '00026964 00040100 03000000 04000000 07ffffff ffffffff fe'
"""

from __future__ import annotations

# The core looks up classes in these modules. They are imported now, because the process may have no
# file descriptor left, or may be exiting, when the core needs them.
from . import policies, rows  # noqa: F401
from ._core import BatchMessage, ExecuteMessage, QueryMessage, ResultRows, RowsDecoder
from ._native import preload  # noqa: F401

__all__ = ["BatchMessage", "ExecuteMessage", "QueryMessage", "ResultRows", "RowsDecoder"]
