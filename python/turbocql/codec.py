"""Converts CQL values to bytes and back, without a server.

A type is CQL text, a [`CqlType`][turbocql.codec.CqlType], or a class of cassandra-driver's module
`cassandra.cqltypes`. In text, the fields of a user-defined type are in braces:
`frozen<address{street text, zip int}>`.

Source: native_protocol_v5.spec, section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias, TypeGuard, overload

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
from ._native.preload import cassandra_types

__all__ = [
    "CqlType",
    "Deserializer",
    "EncodedRow",
    "EncodedRows",
    "GenericSerializer",
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
"""A CQL type: CQL text, a `CqlType`, or a class of `cassandra.cqltypes`."""


_MAX_CACHED_LENGTH = 4096
"""Types whose text has this many characters or more are not cached, to limit memory."""


def _is_cacheable(cql_type: object) -> TypeGuard[str | CqlType]:
    # A subclass of str is not cacheable, because a subclass may define its own equality.
    return type(cql_type) is str and len(cql_type) < _MAX_CACHED_LENGTH


@lru_cache(maxsize=1024)
def _serializer(cql_type: str | CqlType) -> Serializer:
    return Serializer(cql_type)


@lru_cache(maxsize=1024)
def _deserializer(
    cql_type: str | CqlType, naive_timestamps: bool, numpy_vectors: bool
) -> Deserializer:
    return Deserializer(cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors)


class GenericSerializer:
    """The serializer of the class `cassandra.cqltypes.VectorType` without parameters. This class
    names no type of elements, so the serializer calls the class's own `serialize`.
    """

    def __init__(self, cqltype: type[Any]) -> None:
        self.cqltype = cqltype
        """The class whose `serialize` is called."""

    def serialize(self, value: Any, protocol_version: int = 4) -> bytes:
        """Returns the bytes of a value. Raises the same errors as the class's `serialize`."""
        data: bytes = self.cqltype.serialize(value, protocol_version)
        return data


@overload
def find_serializer(cql_type: str | CqlType) -> Serializer: ...
@overload
def find_serializer(cql_type: type[Any]) -> Serializer | GenericSerializer: ...
def find_serializer(cql_type: TypeLike) -> Serializer | GenericSerializer:
    """The serializer of a type. It is cached if the type is text of fewer than 4,096 characters.

    Raises: `ValueError` for text that is not a CQL type; `TypeError` for an object that is not a
        type, and for a class of `cassandra.cqltypes` without the parameters that it needs. But
        `VectorType` without parameters is no error: its serializer is a `GenericSerializer`.

    Example:
        >>> find_serializer("vector<float, 2>").serialize([1.0, -2.0]).hex(" ", 4)
        '3f800000 c0000000'
    """
    if _is_cacheable(cql_type):
        return _serializer(cql_type)
    if isinstance(cql_type, type) and cassandra_types.is_bare_vector(cql_type):
        return GenericSerializer(cql_type)
    return Serializer(cql_type)


@overload
def make_serializers(cql_types: Iterable[str | CqlType]) -> list[Serializer]: ...
@overload
def make_serializers(cql_types: Iterable[TypeLike]) -> list[Serializer | GenericSerializer]: ...
def make_serializers(cql_types: Iterable[TypeLike]) -> Any:
    r"""The serializers that `find_serializer` returns for several types.

    Example:
        >>> [s.serialize(7) for s in make_serializers(["tinyint", "smallint"])]
        [b'\x07', b'\x00\x07']
    """
    return [find_serializer(cql_type) for cql_type in cql_types]


def find_deserializer(
    cql_type: TypeLike, *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> Deserializer:
    r"""The deserializer of a type. It is cached if the type is text of fewer than 4,096 characters.

    With `naive_timestamps`, a `timestamp` becomes a naive `datetime` in UTC. With `numpy_vectors`,
    vectors of float, double, int and bigint become NumPy arrays.

    Raises: `ValueError` for text that is not a CQL type; `TypeError` for an object that is not a
        type, and for a class of `cassandra.cqltypes` without the parameters that it needs.

    Example:
        >>> find_deserializer("varint").deserialize(b"\x01\x00")
        256
    """
    if _is_cacheable(cql_type):
        return _deserializer(cql_type, naive_timestamps, numpy_vectors)
    return Deserializer(cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors)


def make_deserializers(
    cql_types: Iterable[TypeLike], *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> list[Deserializer]:
    """The deserializers that `find_deserializer` returns for several types.

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
    """Encodes a value that is not `None` to its bytes on the wire, without their length.

    Raises: `EncodeError` for a value that the type cannot take; `ValueError` for text that is
        not a CQL type.

    Example:
        >>> encode("list<smallint>", [1, None]).hex(" ", -4)
        '00000002 00000002 0001ffff ffff'
    """
    return find_serializer(cql_type).serialize(value)


def decode(
    cql_type: TypeLike, data: Any, *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> Any:
    """Decodes the bytes of a value, without their length.

    Nulls: `None` decodes to `None`. Empty `data` decodes to `None` if the type has no value whose
        length is 0.

    Raises: `DecodeError` for bytes that are not a value of the type; `ValueError` for text that is
        not a CQL type.

    Example:
        >>> decode("map<text, int>", bytes.fromhex("00000001 00000001 61 00000004 00000007"))
        {'a': 7}
    """
    deserializer = find_deserializer(
        cql_type, naive_timestamps=naive_timestamps, numpy_vectors=numpy_vectors
    )
    return deserializer.deserialize(data)
