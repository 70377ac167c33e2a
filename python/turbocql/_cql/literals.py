"""Writes Python values as CQL literals."""

from __future__ import annotations

import array
import datetime
import math
import numbers
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .._checks import class_name
from .._native.row_classes import field_names
from ..errors import EncodeError
from ..types import Date, Duration, Time, Timestamp
from .names import quoted, text

if TYPE_CHECKING:
    from .._core import CqlType

__all__ = ["literal", "scalar"]

_LARGEST_FLOAT = 3.4028234663852886e38
"""The largest float of 32 bits."""
_FIRST_YEAR_AS_TEXT = 1600
"""The first year whose instants are written as text. Servers read the text of an earlier instant by
the Julian calendar, so earlier instants are written as numbers."""

_SCALARS = (
    *(type(None), str, bytes, bytearray, bool, numbers.Number, Decimal, UUID),
    *(datetime.date, datetime.time, datetime.timedelta, Date, Time, Timestamp, Duration),
)
"""The classes of the values that `scalar` writes. Some of these classes are dataclasses. So
`literal` looks for these classes first, because it writes objects of other dataclasses field by
field."""

WriteScalar = Callable[[Any, "CqlType | None"], str]


def literal(
    value: Any, cql_type: CqlType | None = None, write_scalar: WriteScalar | None = None
) -> str:
    """Returns a value as a CQL literal. `write_scalar`, by default `scalar`, writes values that are
    neither collections, tuples nor objects with fields.

    Raises: `EncodeError` for a value that has no literal.
    """
    while cql_type is not None and cql_type.kind == "frozen":
        cql_type = cql_type.subtypes[0]
    if isinstance(value, _SCALARS):
        return (write_scalar or scalar)(value, cql_type)

    def nested(part: Any, part_type: CqlType | None) -> str:
        return literal(part, part_type, write_scalar)

    if isinstance(value, Mapping) and (cql_type is None or cql_type.kind != "udt"):
        key, item = _subtypes(cql_type, 2)
        entries = (f"{nested(k, key)}: {nested(v, item)}" for k, v in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, AbstractSet):
        (part,) = _subtypes(cql_type, 1)
        return "{" + ", ".join(sorted(nested(element, part) for element in value)) + "}"
    is_tuple = isinstance(value, tuple)
    if (udt_fields := _udt_fields(value, cql_type)) is not None:
        fields = (
            f"{quoted(name)}: {nested(field, field_type)}" for name, field, field_type in udt_fields
        )
        return "{" + ", ".join(fields) + "}"
    if is_tuple and (cql_type is None or cql_type.kind == "tuple"):
        if not value:
            raise EncodeError("a CQL tuple has at least one value, got ()")
        components = zip(value, _subtypes(cql_type, len(value)), strict=False)
        return "(" + ", ".join(nested(element, part) for element, part in components) + ")"
    elements = value if is_tuple else _elements(value)
    if elements is not None:
        (part,) = _subtypes(cql_type, 1)
        return "[" + ", ".join(nested(element, part) for element in elements) + "]"
    return (write_scalar or scalar)(value, cql_type)


def _subtypes(cql_type: CqlType | None, count: int) -> Sequence[CqlType | None]:
    return cql_type.subtypes if cql_type is not None and cql_type.subtypes else [None] * count


def _udt_fields(
    value: Any, cql_type: CqlType | None
) -> list[tuple[str, Any, CqlType | None]] | None:
    """The names, values and types of the fields of a value of a user-defined type.

    Returns `None` for any other value. With a CQL type, the fields are in the order of the type.
    Without it, the fields of a named tuple keep their order, and the fields of another object are
    sorted by name.
    """
    if cql_type is not None and cql_type.kind != "udt":
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        # The names of a named tuple's fields are Python identifiers. So they may differ from those
        # of the CQL type, whose fields have the same order.
        names = value._fields if cql_type is None else cql_type.field_names
        return list(zip(names, value, _subtypes(cql_type, len(value)), strict=False))
    names_of_class = field_names(type(value))
    if names_of_class is None:
        return None
    if cql_type is None:
        return [(name, getattr(value, name), None) for name in sorted(names_of_class)]
    return [
        (name, getattr(value, name), field_type)
        for name, field_type in zip(cql_type.field_names, cql_type.subtypes, strict=True)
        if name in names_of_class
    ]


def _elements(value: Any) -> Iterable[Any] | None:
    """The elements of a list, an array or another sequence; `None` for any other value."""
    if isinstance(value, memoryview):
        return None if value.format in ("B", "b", "c") else value.tolist()
    if isinstance(value, array.array):
        return value
    if hasattr(value, "tolist") and getattr(value, "ndim", 0) >= 1:
        if hasattr(value, "mask"):
            raise EncodeError("a masked array has no CQL literal: pass a list")
        elements: list[Any] = value.tolist()
        return elements
    return value if isinstance(value, Sequence) else None


def scalar(value: Any, cql_type: CqlType | None = None) -> str:
    """Returns the CQL literal of a value that is neither a collection, a tuple nor an object with
    fields.

    Raises: `EncodeError` for a value that has no literal.
    """
    if value is None:
        return "null"
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise EncodeError("a text with half a surrogate pair cannot be sent as UTF-8")
        return text(value)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "0x" + bytes(value).hex()
    if isinstance(value, numbers.Integral):
        return _integer(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise EncodeError(f"a CQL decimal is finite, got Decimal({str(value)!r})")
        return Decimal.__str__(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if cql_type is not None and cql_type.kind == "float":
            number = _shortest_double(number)
        return float.__repr__(number).replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, UUID):
        return UUID.__str__(value)
    instant_or_time = _instant_or_time(value)
    if instant_or_time is not None:
        return instant_or_time
    if isinstance(value, (IPv4Address, IPv6Address)):
        if getattr(value, "scope_id", None) is not None:
            raise EncodeError("a CQL inet is an address without a scope")
        mapped = getattr(value, "ipv4_mapped", None)
        if mapped is not None:
            raise EncodeError(
                f"servers read the text of {value.compressed} as {mapped}: bind the address as a"
                " value, or write its `ipv4_mapped`"
            )
        return text(value.compressed)
    raise EncodeError(f"a value of class {class_name(value)} has no CQL literal")


def _integer(value: Any) -> str:
    try:
        return int.__repr__(int(operator.index(value)))
    except ValueError:
        raise EncodeError(
            "an int of so many digits is not written as text by Python: bind it as a value"
        ) from None


def _instant_or_time(value: Any) -> str | None:
    """The CQL literal of a date, time, timestamp or duration; `None` for any other value."""
    if isinstance(value, datetime.datetime):
        if value != value:
            raise EncodeError("a time that is missing (NaT) has no CQL literal: pass None")
        return _instant(Timestamp.from_datetime(value))
    if isinstance(value, Timestamp):
        return _instant(value)
    if isinstance(value, datetime.date):
        return text(datetime.date.isoformat(value))
    if isinstance(value, Date):
        # Servers do not read years of more than four digits in text, so a `Date` is written as a
        # number of days. The number of 1970-01-01 is 2**31.
        return f"{value.days + 2**31}"
    if isinstance(value, datetime.time):
        if value.tzinfo is not None:
            raise EncodeError("a CQL time has no time zone")
        value = Time.from_time(value)
    if isinstance(value, Time):
        if not value.within_day:
            raise EncodeError(f"a CQL time is within a day, got {value}")
        return text(str(value))
    if isinstance(value, datetime.timedelta):
        value = Duration.from_timedelta(value)
    if isinstance(value, Duration):
        parts = (value.months, value.days, value.nanoseconds)
        if min(parts) < 0 < max(parts):
            raise EncodeError("the parts of a CQL duration have one sign")
        return str(value)
    return None


def _instant(instant: Timestamp) -> str:
    """Returns a timestamp as text if all servers read the text as this instant, else as its
    milliseconds.
    """
    try:
        moment = instant.to_datetime()
    except OverflowError:
        return str(instant.milliseconds)
    if moment.year < _FIRST_YEAR_AS_TEXT:
        return str(instant.milliseconds)
    return text(moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z")


def _shortest_double(value: float) -> float:
    """The double with the fewest digits that rounds to this float of 32 bits."""
    # A decimal of at most six digits survives the conversion to a normal float of 32 bits and back.
    # So if a decimal of fewer digits exists, formatting with six digits finds it too, and the
    # search can begin at six digits. Subnormal floats are less precise, so for them the search
    # begins at one digit.
    for digits in range(1 if abs(value) < 1.2e-38 else 6, 9):
        shortened = float(f"{value:.{digits}g}")
        if (
            abs(shortened) <= _LARGEST_FLOAT
            and struct.unpack("f", struct.pack("f", shortened))[0] == value
        ):
            return shortened
    return float(f"{value:.9g}") if math.isfinite(value) else value
