"""Encodes and decodes with either driver: turbocql, or scylla-driver, which is the reference.

Any error of the reference, and an `EncodeError` or `DecodeError` of turbocql, becomes a `Refusal`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from cassandra import protocol as driver_protocol
from cassandra.policies import ColDesc

from turbocql.codec import find_deserializer, find_serializer
from turbocql.errors import DecodeError, EncodeError

from .shapes import Shape

if IS_COMPILED := driver_protocol.HAVE_CYTHON:
    from cassandra.bytesio import BytesIOReader
    from cassandra.deserializers import make_deserializers
    from cassandra.obj_parser import ListParser
    from cassandra.parsing import ParseDesc


@dataclass(frozen=True)
class Refusal:
    """The error that a driver raised instead of returning a result."""

    error: str

    def __repr__(self) -> str:
        return f"refused: {self.error}"


def _attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        return Refusal(f"{type(error).__name__}: {error}"[:200])


@cache
def _serializer(shape: Shape) -> Any:
    return find_serializer(shape.reference)


@cache
def _deserializer(shape: Shape) -> Any:
    return find_deserializer(shape.reference)


def our_encode(shape: Shape, value: Any, protocol: int) -> Any:
    """Encodes with turbocql. Only `EncodeError` becomes a refusal; other errors are bugs."""
    try:
        return _serializer(shape).serialize(value, protocol)
    except EncodeError as error:
        return Refusal(str(error)[:200])


def our_decode(shape: Shape, data: bytes, protocol: int) -> Any:
    """Decodes with turbocql. Only `DecodeError` becomes a refusal; other errors are bugs."""
    try:
        return _deserializer(shape).deserialize(data, protocol)
    except DecodeError as error:
        return Refusal(str(error)[:200])


def their_encode(shape: Shape, value: Any, protocol: int) -> Any:
    """Encodes with the reference, as its `BoundStatement` does."""
    return _attempt(shape.reference.serialize, value, protocol)


def their_decode(shape: Shape, data: bytes, protocol: int) -> Any:
    """Decodes with the reference, by the methods of its types."""
    return _attempt(shape.reference.from_binary, data, protocol)


@cache
def _description(shape: Shape, protocol: int) -> Any:
    classes = [shape.reference]
    columns = [ColDesc("ks", "t", "c")]
    return ParseDesc(["c"], classes, None, columns, make_deserializers(classes), protocol)


def their_compiled_decode(shape: Shape, data: bytes, protocol: int) -> Any:
    """Decodes with the reference's compiled deserializers, which it uses for results by default.

    If the installed release does not have them, decodes with the methods of its types.
    """
    if not IS_COMPILED:
        return their_decode(shape, data, protocol)
    page = struct.pack(">ii", 1, len(data)) + data
    rows = _attempt(ListParser().parse_rows, BytesIOReader(page), _description(shape, protocol))
    return rows if isinstance(rows, Refusal) else rows[0][0]
