"""Reads the type classes of the package `cassandra` (scylla-driver, cassandra-driver).

Nothing here imports that package. If a caller passes one of its classes, the package has already
been imported.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from .. import _core

_SCALARS = {
    "AsciiType": "ascii",
    "BooleanType": "boolean",
    "ByteType": "tinyint",
    "BytesType": "blob",
    "CounterColumnType": "counter",
    "DateType": "timestamp",
    "DecimalType": "decimal",
    "DoubleType": "double",
    "DurationType": "duration",
    "FloatType": "float",
    "InetAddressType": "inet",
    "Int32Type": "int",
    "IntegerType": "varint",
    "LongType": "bigint",
    "ShortType": "smallint",
    "SimpleDateType": "date",
    "TimeType": "time",
    "TimeUUIDType": "timeuuid",
    "TimestampType": "timestamp",
    "UTF8Type": "text",
    "UUIDType": "uuid",
    "VarcharType": "text",
}
_GENERIC = {
    "ListType": "ListType.apply_parameters([Int32Type])",
    "SetType": "SetType.apply_parameters([Int32Type])",
    "MapType": "MapType.apply_parameters([UTF8Type, Int32Type])",
    "TupleType": "TupleType.apply_parameters([Int32Type, UTF8Type])",
    "UserType": 'UserType.make_udt_class("keyspace", "name", ("field",), (Int32Type,))',
    "VectorType": "VectorType.apply_parameters([FloatType, 3], None)",
    "CompositeType": "CompositeType.apply_parameters([Int32Type, UTF8Type])",
    "FrozenType": "FrozenType.apply_parameters([ListType.apply_parameters([Int32Type])])",
    "ReversedType": "ReversedType.apply_parameters([Int32Type])",
}
"""Classes with parameters, each with an example of a call that applies the parameters."""
OPAQUE = {"ColumnToCollectionType", "DynamicCompositeType", "_UnrecognizedType"}
"""Classes whose values are bytes, passed through unchanged."""


def scalar(kind: str) -> str | None:
    """Returns the CQL name of a scalar type. `kind` names its class in `cassandra.cqltypes`."""
    return _SCALARS.get(kind)


_SERIALIZING_METHODS = ("serialize", "serialize_safe", "to_binary")


class ColumnDescription(NamedTuple):
    """A column, as an encryption policy gets it. It equals scylla-driver's `ColDesc`."""

    ks: str
    table: str
    col: str


def stock_class(cls: type[Any]) -> type[Any] | None:
    """The first class in the MRO of `cls` that is in `cassandra.cqltypes`; `None` if none is."""
    module = sys.modules.get("cassandra.cqltypes")
    stock = (base for base in cls.__mro__ if getattr(module, base.__name__, None) is base)
    return next(stock, None)


def is_stock(cls: type[Any]) -> bool:
    """Whether `cls` serializes values in the same way as `stock_class(cls)`. This must also be true
    for each of its element or field types.
    """
    stock = stock_class(cls)
    if stock is None or stock.__name__ not in {*_SCALARS, *_GENERIC, *OPAQUE}:
        return False
    if any(_function(cls, name) is not _function(stock, name) for name in _SERIALIZING_METHODS):
        return False
    return stock.__name__ in OPAQUE or all(is_stock(part) for part in parts_of(cls))


def _function(cls: type[Any], name: str) -> Any:
    """Returns the function that the method `name` of `cls` calls. Functions can be compared with
    `is`, but method objects cannot: each access to a class method makes a new method object.
    """
    method = getattr(cls, name, None)
    return getattr(method, "__func__", method)


def parts_of(cls: Any) -> tuple[type[Any], ...]:
    """The element or field types of a class of `cassandra.cqltypes`."""
    if getattr(cls, "subtype", None) is not None:
        return (cls.subtype,)
    return tuple(getattr(cls, "subtypes", None) or ())


def _has_parameters(cls: Any, kind: str) -> bool:
    if kind == "UserType":
        return getattr(cls, "fieldnames", None) is not None
    return bool(parts_of(cls))


def is_bare_vector(cls: type[Any]) -> bool:
    """Whether a class is `VectorType` or derived from it, and has no parameters."""
    stock = stock_class(cls)
    return stock is not None and stock.__name__ == "VectorType" and not parts_of(cls)


def cql_type(cls: Any) -> _core.CqlType:
    """The CQL type of a class of `cassandra.cqltypes`.

    Raises: `TypeError` for a class that is not a CQL type, that lacks necessary parameters, or that
        serializes values by its own code.
    """
    stock = stock_class(cls)
    # `cassandra.cqltypes` also contains classes that are not CQL types, such as Decimal.
    if stock is None or not hasattr(cls, "cass_parameterized_type"):
        raise TypeError(
            f"a CQL type is CQL text, a CqlType or a class of cassandra.cqltypes, got {cls!r}"
        )
    kind = stock.__name__
    if kind in _GENERIC and not _has_parameters(cls, kind):
        raise TypeError(
            f"{cls!r} has no parameters, which define the types of its elements or fields: "
            f"give for example {_GENERIC[kind]}"
        )
    if not is_stock(cls):
        raise TypeError(f"{cls!r} serializes values by Python code of its own")
    if kind in _SCALARS:
        return _core.CqlType(_SCALARS[kind])
    if kind in OPAQUE:
        return _core.CqlType.from_class_name(cls.cass_parameterized_type(full=True))
    parts = [cql_type(part) for part in parts_of(cls)]
    if kind == "VectorType":
        return _core.CqlType.vector_of(parts[0], int(cls.vector_size))
    if kind == "UserType":
        fields = list(zip(cls.fieldnames, parts, strict=True))
        return _core.CqlType.udt(cls.typename, fields, keyspace=cls.keyspace or "")
    constructors: dict[str, Any] = {
        "ListType": _core.CqlType.list_of,
        "SetType": _core.CqlType.set_of,
        "MapType": _core.CqlType.map_of,
        "TupleType": _core.CqlType.tuple_of,
        "CompositeType": _core.CqlType.composite_of,
        "FrozenType": _core.CqlType.frozen,
        "ReversedType": lambda inner: inner,
    }
    converted: _core.CqlType = constructors[kind](*parts)
    return converted
