"""The contents of the module `cassandra.serializers`, for drivers that have no such module.

The module has an interface that was proposed for the driver: for each type, an object with the
method `serialize(value, protocol_version)`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from ..codec import find_serializer
from ..errors import CodecError
from ._serializers_state import call_counts as counts
from ._serializers_state import original_serialize, vector_types

__all__ = [
    "GenericSerializer",
    "SerDoubleType",
    "SerFloatType",
    "SerInt32Type",
    "SerVectorType",
    "Serializer",
    "of_type",
    "of_types",
]


class Serializer:
    """Serializes values of one type of the driver."""

    def __init__(self, cqltype: Any) -> None:
        self.cqltype = cqltype

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """Returns the bytes of a value.

        Raises: OverflowError or struct.error, for a number out of range; TypeError, for a value of
            the wrong type; ValueError, for a vector of the wrong size.
        """
        raise NotImplementedError("each type has a serializer of its own class")


class GenericSerializer(Serializer):
    """Serializes with the `serialize` of the driver's type."""

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """Returns the bytes of a value. Raises the errors of the type's `serialize`."""
        counts[1] += 1
        data: bytes = self.cqltype.serialize(value, protocol_version)
        return data


class _Native(Serializer):
    """Serializes with turbocql's codec. For a value that the codec refuses, calls the `serialize`
    of the driver's type.
    """

    def __init__(self, cqltype: Any) -> None:
        super().__init__(cqltype)
        self._native: Callable[[Any], bytes] = find_serializer(cqltype).serialize

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """Returns the bytes of a value.

        Raises: OverflowError or struct.error, for a number out of range; TypeError, for a value of
            the wrong type; ValueError, for a vector of the wrong size.
        """
        try:
            data = self._native(value)
        except CodecError:
            return self._serialize_by_type(value, protocol_version)
        counts[0] += 1
        return data

    def _serialize_by_type(self, value: Any, protocol_version: int) -> bytes:
        counts[1] += 1
        try:
            data: bytes = self.cqltype.serialize(value, protocol_version)
        except struct.error as error:
            # `struct` raises this error both for a wrong type and for a number out of range.
            if "required argument" in str(error):
                raise TypeError(str(error)) from None
            raise
        return data


class SerFloatType(_Native):
    """Writes a float as 4 bytes, IEEE 754."""


class SerDoubleType(_Native):
    """Writes a double as 8 bytes, IEEE 754."""


class SerInt32Type(_Native):
    """Writes an int as 4 bytes, signed."""


class SerVectorType(_Native):
    """Writes vectors of float, double and int with turbocql's codec.

    Writes vectors of other types with the `serialize` of the driver's vector type.
    """

    def __init__(self, cqltype: Any) -> None:
        if cqltype.subtype in original_serialize:
            super().__init__(cqltype)
        else:
            Serializer.__init__(self, cqltype)
            self._native = _refuse


def _refuse(value: Any) -> bytes:
    raise CodecError


_SCALARS: dict[str, type[_Native]] = {
    "FloatType": SerFloatType,
    "DoubleType": SerDoubleType,
    "Int32Type": SerInt32Type,
}


def of_type(cqltype: Any) -> Serializer:
    """Makes the serializer of a type of the driver."""
    if cqltype in original_serialize and _is_own(cqltype):
        return _SCALARS[cqltype.__name__](cqltype)
    is_vector = isinstance(cqltype, type) and any(
        issubclass(cqltype, vector_class) for vector_class in vector_types
    )
    if is_vector and _inherited(cqltype) is _inherited(vector_types[0]):
        subtype = getattr(cqltype, "subtype", None)
        if subtype is not None and (subtype not in original_serialize or _is_own(subtype)):
            return SerVectorType(cqltype)
    return GenericSerializer(cqltype)


def _is_own(cqltype: Any) -> bool:
    """Whether the type's `serialize` is still the driver's."""
    return vars(cqltype).get("serialize") is original_serialize.get(cqltype)


def _inherited(cqltype: type[Any]) -> Any:
    return next(vars(base)["serialize"] for base in cqltype.__mro__ if "serialize" in vars(base))


def of_types(cqltypes: Iterable[Any]) -> list[Serializer]:
    """Makes the serializers of types of the driver."""
    return [of_type(cqltype) for cqltype in cqltypes]
