"""CQL values to bytes and back, without a server.

A type is CQL text, a [`CqlType`][turbocql.codec.CqlType], or a class of `cassandra.cqltypes`. In
text, a user-defined type brings its fields in braces: `frozen<address{street text, zip int}>`.

Source: native_protocol_v5.spec, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard

from ._core import (
    CqlType,
    Deserializer,
    EncodedRow,
    EncodedRows,
    RowEncoder,
    Serializer,
    routing_key,
    token,
)

__all__ = [
    "CqlType",
    "Deserializer",
    "EncodedRow",
    "EncodedRows",
    "RowEncoder",
    "Serializer",
    "TypeLike",
    "decode",
    "encode",
    "find_deserializer",
    "find_serializer",
    "make_deserializers",
    "make_serializers",
    "routing_key",
    "token",
]

TypeLike: TypeAlias = str | CqlType | type[Any]
"""What stands for a CQL type: CQL text, a `CqlType`, a class of `cassandra.cqltypes`."""


_KEPT = 4096
"""Characters of a type's text from which on what is made of it is not kept: memory."""


def _is_kept(cql_type: object) -> TypeGuard[str | CqlType]:
    # No subclass of str, which may have an equality of its own.
    return type(cql_type) is str and len(cql_type) < _KEPT


@lru_cache(maxsize=1024)
def _serializer(cql_type: str | CqlType) -> Serializer:
    return Serializer(cql_type)


@lru_cache(maxsize=1024)
def _deserializer(
    cql_type: str | CqlType, naive_timestamps: bool, numpy_vectors: bool
) -> Deserializer:
    return Deserializer(cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors)


def find_serializer(cql_type: TypeLike) -> Serializer:
    """The serializer of a type; for text and `CqlType`, the one made before.

    Raises: `ValueError` for text that is no CQL type; `TypeError` for what is no type, and for a
        class of `cassandra.cqltypes` without the parameters that it needs.

    Example:
        >>> find_serializer("vector<float, 2>").serialize([1.0, -2.0]).hex(" ", 4)
        '3f800000 c0000000'
    """
    if _is_kept(cql_type):
        return _serializer(cql_type)
    return Serializer(cql_type)


def make_serializers(cql_types: Iterable[TypeLike]) -> list[Serializer]:
    r"""A serializer for each type.

    Example:
        >>> [s.serialize(7) for s in make_serializers(["tinyint", "smallint"])]
        [b'\x07', b'\x00\x07']
    """
    return [find_serializer(cql_type) for cql_type in cql_types]


def find_deserializer(
    cql_type: TypeLike, *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> Deserializer:
    r"""The deserializer of a type; for text and `CqlType`, the one made before.

    With `naive_timestamps`, a `timestamp` has no time zone, and means UTC. With `numpy_vectors`,
    vectors of float, double, int and bigint are NumPy arrays.

    Raises: `ValueError` for text that is no CQL type; `TypeError` for what is no type, and for a
        class of `cassandra.cqltypes` without the parameters that it needs.

    Example:
        >>> find_deserializer("varint").deserialize(b"\x01\x00")
        256
    """
    if _is_kept(cql_type):
        return _deserializer(cql_type, naive_timestamps, numpy_vectors)
    return Deserializer(cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors)


def make_deserializers(
    cql_types: Iterable[TypeLike], *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> list[Deserializer]:
    """A deserializer for each type.

    Example:
        >>> text, number = make_deserializers(["text", "int"])
        >>> text.deserialize(b"ab"), number.deserialize(b"")
        ('ab', None)
    """
    return [
        find_deserializer(cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors)
        for cql_type in cql_types
    ]


def encode(cql_type: TypeLike, value: Any) -> bytes:
    """The bytes of a value that is not `None`, as they stand on the wire.

    Raises: `EncodeError` for a value that the type cannot take; `ValueError` for text that is
        no CQL type.

    Example:
        >>> encode("list<smallint>", [1, None]).hex(" ", -4)
        '00000002 00000002 0001ffff ffff'
    """
    return find_serializer(cql_type).serialize(value)


def decode(
    cql_type: TypeLike, data: Any, *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> Any:
    """The value of these bytes.

    Nulls: `None` is `None`, and so are zero bytes for types of which no value has zero bytes.

    Raises: `DecodeError` for bytes that are no value of the type; `ValueError` for text that is
        no CQL type.

    Example:
        >>> decode("map<text, int>", bytes.fromhex("00000001 00000001 61 00000004 00000007"))
        {'a': 7}
    """
    deserializer = find_deserializer(
        cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors
    )
    return deserializer.deserialize(data)
