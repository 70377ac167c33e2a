"""Defines the text of each CQL type in CSV and JSON lines, and converts it to Arrow columns.

| CQL | text |
|---|---|
| blob | `0x` and hexadecimal digits |
| date, timestamp | ISO 8601; years beyond 0000 to 9999 have a sign: `+12345-01-01` |
| time | `08:30:00.000000000`; a time outside a day as `-5ns` |
| duration | `1mo2d1h30m`; an object of its parts if their signs differ; ISO 8601 is read too |
| decimal, uuid, inet | text |
| varint | a JSON number; text if it has more than 4,000 digits |
| float, double | a JSON number; `NaN`, `Infinity` and `-Infinity` are text |
| list, set, vector | a JSON array |
| map | a JSON object if its keys are ascii or text, else an array of `[key, value]` |
| tuple | a JSON object with the names `0`, `1`, …; arrays are read too |
| user-defined type | a JSON object |

Readers and writers convert column by column, also within nested values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from .._core import CqlType
from ..errors import ConfigError
from .times import ZONE_PATTERN, days_of, duration_of, milliseconds_of, nanoseconds_of

__all__ = [
    "INTEGERS",
    "UNREADABLE",
    "Number",
    "expected_integer",
    "expected_number",
    "from_texts",
    "has_kind",
    "instants_of",
    "is_nested",
    "kind_of",
    "library",
    "names_of",
    "parsed",
    "read_all",
    "thawed",
    "type_of",
]

UNREADABLE = (ValueError, TypeError, OverflowError, NotImplementedError)
"""The exceptions that this module's functions raise for a value that is not of the type. pyarrow
raises `NotImplementedError` for a conversion that it lacks."""

INTEGERS = {
    **{"tinyint": "int8", "smallint": "int16", "int": "int32"},
    **{"bigint": "int64", "counter": "int64"},
}
_TEXTS = {"ascii", "text", "varint", "decimal", "inet"}
"""Types whose values stay texts here. The native core parses these texts during the load."""
_PATTERNS = {
    "varint": ("^[-+]?[0-9]+$", "an integer"),
    "decimal": (r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$", "a decimal number"),
    "inet": ("^[0-9a-fA-F:.]+$", "an IP address"),
    "ascii": ("^[\\x00-\\x7f]*$", "ASCII characters"),
}
"""For some of `_TEXTS`, the pattern of the texts, and its description in words. Texts are checked
here, so that an error names the line of the file."""
_BLOBS = {"blob", "custom", "composite"}
_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


class Number(str):
    """The digits of a JSON number, for types whose values a Python float or int would change."""

    __slots__ = ()


def library() -> Any:
    """The module `pyarrow`.

    Raises: `ConfigError` if it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise ConfigError("files are read and written by pyarrow: pip install pyarrow") from error
    return pyarrow


def parsed(column: str, cql_type: Any, udts: Mapping[str, Any] | None) -> CqlType:
    """Returns the type of a column as a `CqlType`.

    Raises: `ConfigError` for text that is not a CQL type, such as a user-defined type without
        its fields.
    """
    if isinstance(cql_type, CqlType):
        return cql_type
    try:
        return CqlType(cql_type, udts=udts)
    except (ValueError, TypeError) as error:
        raise ConfigError(f'column "{column}": {error}') from None


def thawed(cql_type: CqlType) -> CqlType:
    """Returns the type without the `frozen` around it, if it is frozen."""
    while cql_type.kind == "frozen":
        cql_type = cql_type.subtypes[0]
    return cql_type


def kind_of(cql_type: CqlType | None) -> str:
    """The kind of a type without `frozen`; empty if the type is not known."""
    return "" if cql_type is None else thawed(cql_type).kind


def has_kind(cql_type: CqlType, kinds: set[str]) -> bool:
    """Whether a type or a part of it has one of the kinds."""
    return cql_type.kind in kinds or any(has_kind(part, kinds) for part in cql_type.subtypes)


def type_of(cql_type: CqlType) -> Any:
    """The Arrow type into which texts of a CQL type are read."""
    pa, cql_type = library(), thawed(cql_type)
    kind, parts = cql_type.kind, cql_type.subtypes
    if kind in INTEGERS:
        return getattr(pa, INTEGERS[kind])()
    if kind in ("list", "set"):
        return pa.list_(type_of(parts[0]))
    if kind == "vector":
        return pa.list_(type_of(parts[0]), cql_type.dimension)
    if kind == "map":
        return pa.map_(type_of(parts[0]), type_of(parts[1]))
    if kind in ("tuple", "udt"):
        named_types = zip(names_of(cql_type), parts, strict=True)
        return pa.struct([(name, type_of(part)) for name, part in named_types])
    if kind == "duration":
        part_types = [
            ("months", pa.int32()),
            ("days", pa.int32()),
            ("nanoseconds", pa.int64()),
        ]
        fields = [pa.field(name, part_type, nullable=False) for name, part_type in part_types]
        return pa.struct(fields)
    if kind in _BLOBS:
        return pa.binary()
    constructors: dict[str, Callable[[], Any]] = {
        **{"float": pa.float32, "double": pa.float64, "boolean": pa.bool_},
        **{"uuid": pa.uuid, "timeuuid": pa.uuid, "date": pa.date32},
        **{
            "time": lambda: pa.time64("ns"),
            "timestamp": lambda: pa.timestamp("ms", "UTC"),
        },
    }
    return constructors.get(kind, pa.string)()


def names_of(cql_type: CqlType) -> Sequence[str]:
    if cql_type.kind == "udt":
        return cql_type.field_names
    return [str(number) for number in range(len(cql_type.subtypes))]


def is_nested(cql_type: CqlType | None) -> bool:
    """Whether values of the type are JSON in a cell of CSV."""
    return kind_of(cql_type) in ("list", "set", "vector", "map", "tuple", "udt")


def read_all(
    read: Callable[[Any], Any], cells: Any, report: Callable[[int, Exception], None]
) -> Any:
    """Returns `read(cells)`, but first replaces the cells that cannot be read by null.

    `report` is called with the position and the error of each of these cells.
    """
    try:
        return read(cells)
    except UNREADABLE:
        pass
    unreadable: set[int] = set()

    def record(position: int, error: Exception) -> None:
        unreadable.add(position)
        # If many cells are unreadable, the search takes long. `report` can end the search by
        # raising an exception.
        report(position, error)

    _find_unreadable(read, cells, 0, record)
    try:
        return read(_without(cells, unreadable))
    except UNREADABLE as error:
        # Each remaining cell can be read by itself, but the cells have no common type. So all of
        # them are reported.
        all_cells = cells if isinstance(cells, list) else cells.to_pylist()
        for position, cell in enumerate(all_cells):
            if cell is not None and position not in unreadable:
                record(position, error)
    return read(_without(cells, unreadable))


def _without(cells: Any, positions: Container[int]) -> Any:
    """Returns the cells, with null at `positions`."""
    if isinstance(cells, list):
        return [None if position in positions else cell for position, cell in enumerate(cells)]
    pa = library()
    is_kept = pa.array([position not in positions for position in range(len(cells))])
    return pa.compute.if_else(is_kept, cells, pa.scalar(None, cells.type))


def _find_unreadable(
    read: Callable[[Any], Any],
    cells: Any,
    first_position: int,
    record: Callable[[int, Exception], None],
) -> None:
    """Calls `record` with the position and the error of each unreadable cell, in order."""
    try:
        read(cells)
    except UNREADABLE as error:
        if len(cells) == 1:
            record(first_position, error)
            return
        middle = len(cells) // 2
        _find_unreadable(read, cells[:middle], first_position, record)
        _find_unreadable(read, cells[middle:], first_position + middle, record)


def expected_integer(kind: str) -> str:
    """Describes in words the values that an integer type takes."""
    bits = int(INTEGERS[kind].removeprefix("int"))
    return f"a whole number from {-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1} for {kind}"


def expected_number(kind: str) -> str:
    """Describes in words the values that a floating-point type takes."""
    largest = "3.4e38" if kind == "float" else "1.8e308"
    return f"a number from -{largest} to {largest} for {kind}"


def from_texts(cql_type: CqlType, texts: Any) -> Any:
    """Converts texts to an Arrow column of a type that is not nested.

    Raises: `ValueError` if a text is not a value of the type.
    """
    pa, kind = library(), kind_of(cql_type)
    try:
        return _from_texts(cql_type, texts)
    except (pa.ArrowException, OverflowError) as error:
        words = {"boolean": "true or false", **dict.fromkeys(("date", "timestamp", "time"), kind)}
        if kind in INTEGERS:
            expected = expected_integer(kind)
        elif kind in ("float", "double"):
            expected = expected_number(kind)
        else:
            expected = words.get(kind, kind)
            expected = f"a {expected} within its range" if expected == kind else expected
        raise ValueError(f"expected {expected}") from error


def _from_texts(cql_type: CqlType, texts: Any) -> Any:
    pa, kind = library(), kind_of(cql_type)
    pc = pa.compute
    if kind in _TEXTS:
        if kind in _PATTERNS:
            _require_all_match(texts, *_PATTERNS[kind])
        return texts
    target = type_of(cql_type)
    if kind in INTEGERS:
        # Arrow would accept hexadecimal digits, and would refuse a plus sign.
        _require_all_match(texts, r"^[-+]?[0-9]+$", expected_integer(kind))
        if pc.any(pc.starts_with(texts, "+")).as_py():
            texts = pc.replace_substring_regex(texts, r"^\+", "")
        return texts.cast(target)
    if kind in ("float", "double"):
        floats = texts.cast(target)
        is_infinite = pc.is_inf(floats)
        if pc.any(is_infinite).as_py():
            _require_all_match(
                texts.filter(is_infinite),
                "(?i)^[+-]?inf(inity)?$",
                expected_number(kind),
            )
        return floats
    if kind in _BLOBS:
        return _blobs(texts)
    if kind in ("uuid", "timeuuid"):
        return _uuids(texts)
    if kind == "date":
        try:
            return texts.cast(target)
        except pa.ArrowInvalid:
            return pa.array(_converted(texts, days_of), pa.int32()).cast(target)
    if kind == "time":
        # Arrow parses a time of day only as part of a timestamp.
        instants = pc.binary_join_element_wise("1970-01-01 ", texts, "")
        try:
            return instants.cast(pa.timestamp("ns")).cast(pa.int64()).cast(target)
        except pa.ArrowInvalid:
            return pa.array(_converted(texts, nanoseconds_of), pa.int64()).cast(target)
    if kind == "timestamp":
        return instants_of(texts)
    if kind == "duration":
        return pa.array(_converted(texts, duration_of), target)
    return texts.cast(target)


def _require_all_match(texts: Any, pattern: str, expected: str) -> None:
    pc = library().compute
    matches = pc.match_substring_regex(texts, pattern)
    if pc.all(matches).as_py() is False:
        raise ValueError(f"expected {expected}")


def _converted(texts: Any, read: Callable[[str], Any]) -> list[Any]:
    return [None if text is None else read(text) for text in texts.to_pylist()]


def _blobs(texts: Any) -> Any:
    pa = library()
    _require_all_match(texts, "^0x([0-9a-fA-F]{2})*$", "a blob as 0x and hexadecimal digits")
    values = texts.to_pylist()
    blobs = [None if text is None else bytes.fromhex(text[2:]) for text in values]
    return pa.array(blobs, pa.binary())


def _uuids(texts: Any) -> Any:
    pa = library()
    _require_all_match(texts, _UUID, "a UUID of 36 characters")
    values = texts.to_pylist()
    blobs = [None if text is None else bytes.fromhex(text.replace("-", "")) for text in values]
    storage = pa.array(blobs, pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def instants_of(texts: Any) -> Any:
    """Converts texts to timestamps in milliseconds, or in a finer unit if some texts need it.

    Raises: `ValueError` for a text that is not a timestamp.
    """
    pa = library()
    pc = pa.compute
    has_zone = pc.match_substring_regex(texts, rf"[T ].*{ZONE_PATTERN}$")
    if pc.all(has_zone).as_py() is False:
        # A time without a zone is in UTC.
        is_date = pc.match_substring_regex(texts, "^[+-]?[0-9]{4,9}-[0-9]{2}-[0-9]{2}$")
        suffix = pc.if_else(is_date, " 00:00Z", pc.if_else(has_zone, "", "Z"))
        texts = pc.binary_join_element_wise(texts, suffix, "")
    for unit in ("ms", "us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, "UTC"))
        except pa.ArrowInvalid:
            continue
    return pa.array(_converted(texts, milliseconds_of), pa.int64()).cast(pa.timestamp("ms", "UTC"))
