"""CQL values to bytes and back, without a server.

Types are given as CQL text; a user-defined type brings its fields in braces:
`frozen<address{street text, zip int}>`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from . import _core

__all__ = ["decode", "encode"]


@lru_cache(maxsize=1024)
def _codec(cql_type: str) -> _core.Codec:
    return _core.Codec(cql_type)


def encode(cql_type: str, value: Any) -> bytes:
    """The bytes of a value that is not `None`, as they stand on the wire.

    Raises: `EncodeError` for a value that the type cannot take; `ValueError` for text that is
        no CQL type.

    Example:
        >>> encode("list<smallint>", [1, None]).hex(" ", -4)
        '00000002 00000002 0001ffff ffff'
    """
    return _codec(cql_type).encode(value)


def decode(
    cql_type: str, data: bytes, *, naive_timestamps: bool = False, numpy_vectors: bool = False
) -> Any:
    """The value of these bytes.

    Nulls: zero bytes are `None` for types of which no value has zero bytes.

    Raises: `DecodeError` for bytes that are no value of the type; `ValueError` for text that is
        no CQL type.

    Example:
        >>> decode("map<text, int>", bytes.fromhex("00000001 00000001 61 00000004 00000007"))
        {'a': 7}
    """
    return _codec(cql_type).decode(data, naive_timestamps, numpy_vectors)
