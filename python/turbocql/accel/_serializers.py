"""The module `cassandra.serializers`, for drivers that have none.

It has the interface that was proposed for the driver. For each type there is an object with the
method `serialize(value, protocol_version)`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..codec import find_serializer
from ..errors import CodecError
from ._origin import NotReplaced, expect_own, function
from ._patch import Driver, Group, Patch

__all__ = ["SERIALIZERS", "serializer_groups"]

SERIALIZERS = "cassandra.serializers"


class Serializer:
    """Serializes values of one type of the driver."""

    def __init__(self, cqltype: Any) -> None:
        self.cqltype = cqltype

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """The bytes of a value.

        Raises: OverflowError or struct.error, for a number out of range; TypeError, for a value of
            another kind; ValueError, for a vector of another size.
        """
        raise NotImplementedError("each type has a serializer of its own class")


class GenericSerializer(Serializer):
    """Calls `serialize` of the type."""

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """The bytes of a value; errors are the type's own."""
        counts[1] += 1
        data: bytes = self.cqltype.serialize(value, protocol_version)
        return data


class _Native(Serializer):
    """Serializes by turbocql's codec. A value that the codec refuses falls back to the type's own
    `serialize`, which raises its own errors.
    """

    def __init__(self, cqltype: Any) -> None:
        super().__init__(cqltype)
        self._native: Callable[[Any], bytes] = find_serializer(cqltype).serialize

    def serialize(self, value: Any, protocol_version: int) -> bytes:
        """The bytes of a value.

        Raises: OverflowError or struct.error, for a number out of range; TypeError, for a value of
            another kind; ValueError, for a vector of another size.
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
    """Writes vectors of float, double and int by turbocql's codec, others by the type itself."""

    def __init__(self, cqltype: Any) -> None:
        if cqltype.subtype in scalars:
            super().__init__(cqltype)
        else:
            Serializer.__init__(self, cqltype)
            self._native = _refuse


def _refuse(value: Any) -> bytes:
    raise CodecError


counts = [0, 0]
"""The number of native calls, and of calls that fell back to the type."""
scalars: dict[Any, type[_Native]] = {}
"""The serializers of the driver's own scalar types."""
vectors: list[Any] = []
"""The driver's own `VectorType`, and its `serialize`."""


def of_type(cqltype: Any) -> Serializer:
    """The serializer of a type of the driver."""
    if cqltype in scalars and _is_own(cqltype):
        return scalars[cqltype](cqltype)
    is_vector = isinstance(cqltype, type) and any(
        issubclass(cqltype, vector_class) for vector_class in vectors
    )
    if is_vector and _inherited(cqltype) is _inherited(vectors[0]):
        subtype = getattr(cqltype, "subtype", None)
        if subtype is not None and (subtype not in scalars or _is_own(subtype)):
            return SerVectorType(cqltype)
    return GenericSerializer(cqltype)


_original_serialize: dict[Any, Any] = {}


def _is_own(cqltype: Any) -> bool:
    """Whether the program has not replaced the type's `serialize`."""
    return vars(cqltype).get("serialize") is _original_serialize.get(cqltype)


def _inherited(cqltype: type[Any]) -> Any:
    return next(vars(base)["serialize"] for base in cqltype.__mro__ if "serialize" in vars(base))


def of_types(cqltypes: Iterable[Any]) -> list[Serializer]:
    """The serializers of types of the driver."""
    return [of_type(cqltype) for cqltype in cqltypes]


class _ReadyLoader(Loader):
    """A loader that returns a finished module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


@dataclass
class _ModulePatch(Patch):
    """Adds a module to the driver's package."""

    def apply(self) -> None:
        super().apply()
        sys.modules[SERIALIZERS] = self.replacement

    def undo(self) -> bool:
        if sys.modules.get(SERIALIZERS) is self.replacement:
            del sys.modules[SERIALIZERS]
        return super().undo()


class Serializers(Group):
    """The module `cassandra.serializers`."""

    part = "serializers"
    names = (SERIALIZERS,)

    def patches(self, driver: Driver) -> list[Patch]:
        package = sys.modules["cassandra"]
        if SERIALIZERS in sys.modules or _has_serializers(package):
            raise NotReplaced("the driver has its own")
        types = driver.cqltypes
        for owner in (types.FloatType, types.DoubleType, types.Int32Type):
            expect_own(types, owner, "serialize")
        vectors[:] = [types.VectorType] if hasattr(types, "VectorType") else []
        for owner in vectors:
            if function(vars(owner).get("serialize")) not in driver.plans.native_functions:
                expect_own(types, owner, "serialize")
        scalars.clear()
        scalars.update(
            {
                types.FloatType: SerFloatType,
                types.DoubleType: SerDoubleType,
                types.Int32Type: SerInt32Type,
            }
        )
        _original_serialize.clear()
        _original_serialize.update({cqltype: vars(cqltype)["serialize"] for cqltype in scalars})
        module = ModuleType(SERIALIZERS, "Serializers of the driver's types, by turbocql.")
        module.__spec__ = ModuleSpec(SERIALIZERS, _ReadyLoader(module))
        module.__package__ = "cassandra"
        vars(module).update(
            Serializer=Serializer,
            GenericSerializer=GenericSerializer,
            SerFloatType=SerFloatType,
            SerDoubleType=SerDoubleType,
            SerInt32Type=SerInt32Type,
            SerVectorType=SerVectorType,
            find_serializer=of_type,
            make_serializers=of_types,
        )
        patch = _ModulePatch(package, "serializers", SERIALIZERS, module, _counts)
        patch.count_from_here()
        return [patch]


def _counts() -> tuple[int, int]:
    return counts[0], counts[1]


def _has_serializers(package: ModuleType) -> bool:
    """Whether the driver has the module. Asks all finders except turbocql's."""
    for finder in sys.meta_path:
        if type(finder).__module__.startswith("turbocql."):
            continue
        find = getattr(finder, "find_spec", None)
        if find is not None and find(SERIALIZERS, package.__path__, None) is not None:
            return True
    return False


def serializer_groups() -> list[Group]:
    """The group of the module."""
    return [Serializers()]
