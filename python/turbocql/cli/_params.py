"""Converts texts of the command line to values of CQL types."""

from __future__ import annotations

import datetime
import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import click

from .._checks import with_nearest
from .._cql.durations import read_duration
from .._cql.names import parse_table_name, qualified, quoted
from .._files.json_values import reject_duplicate_keys
from .._files.times import days_of, milliseconds_of
from ..codec import CqlType
from ..rows import Column
from ..statements import Prepared
from ..types import Date, Time, Timestamp

__all__ = [
    "Types",
    "keyspaces_of",
    "name_of",
    "names_of",
    "number_or_name",
    "pairs_of",
    "typed_pairs_of",
    "values_of",
]


_QUOTED_NAME = r'"((?:[^"]|"")*)"'
_QUOTED_PAIR = re.compile(rf"{_QUOTED_NAME}=(.*)", re.DOTALL)
_LISTED_NAME = re.compile(rf'\s*(?:{_QUOTED_NAME}|([^\s",](?:[^,]*[^\s,])?))\s*(,|\Z)')


def pairs_of(options: Sequence[str], option: str = "--param") -> dict[str, str | None]:
    """Returns the values of options `NAME=VALUE` by name. `--param` may omit `=VALUE` for a null.

    A name may be in quotes, as in CSV.
    """
    values_by_name: dict[str, str | None] = {}
    for text in options:
        name, equals, value = text.partition("=")
        match = _QUOTED_PAIR.fullmatch(text)
        if match is not None:
            name, value = match[1].replace('""', '"'), match[2]
        if (
            (not name and match is None)
            or name in values_by_name
            or (not equals and option != "--param")
        ):
            reason = "expected NAME=VALUE"
            if name in values_by_name:
                reason = f"the name {name!r} is given twice"
                if option == "--param":
                    reason += "; give the markers different names, such as :a and :b"
            raise click.UsageError(f"{option} {text!r}: {reason}")
        values_by_name[name] = value if equals else None
    return values_by_name


def name_of(text: str) -> str:
    """Returns the name in a text. If the text is in quotes, as in CSV, the quotes are removed."""
    match = re.fullmatch(_QUOTED_NAME, text)
    return text if match is None else match[1].replace('""', '"')


def number_or_name(text: str | None) -> int | str | None:
    """Converts the text of an option to an int if it has only digits, else to a name; `None` if the
    option is not set.
    """
    if text is None or re.fullmatch("[0-9]+", text):
        return None if text is None else int(text)
    return name_of(text)


def names_of(text: str | None) -> list[str]:
    """Returns the names of a list that is separated by commas. A name may be in quotes, as in CSV.

    Spaces around names are dropped, but not spaces within quotes. If the text is a single name
    without quotes, the name keeps its spaces.

    Raises: `click.UsageError` if the text is not a list of names.
    """
    if not text:
        return []
    if "," not in text and not text.lstrip().startswith('"') and not text.isspace():
        return [text]
    names, position, separator = [], 0, ","
    while separator:
        match = _LISTED_NAME.match(text, position)
        if match is None:
            raise click.UsageError(
                f"expected names separated by commas, got {text!r}. A name with a comma, a quote at"
                ' its beginning or spaces around it is in quotes, as in CSV: " id","a,b"'
            )
        names.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position, separator = match.end(), match[3]
    return names


class Types(Mapping[str, str]):
    """The user-defined types of a cluster by qualified name, read from the schema on first use.
    Types of `keyspaces` can also be looked up by their unqualified names.
    """

    def __init__(self, session: Any, keyspaces: Iterable[str] = ()) -> None:
        self._session, self._keyspaces = session, set(keyspaces)
        self._definitions: dict[str, str] | None = None

    def _types(self) -> dict[str, str]:
        if self._definitions is None:
            self._definitions = {}
            for name, keyspace in self._session.schema().keyspaces.items():
                for udt in keyspace.types.values():
                    parts = (f"{quoted(key)} {kind}" for key, kind in udt.fields.items())
                    text = f"{quoted(name)}.{quoted(udt.name)}{{{', '.join(parts)}}}"
                    # Types of bind markers are looked up as `keyspace.type`, and types of fields
                    # of user-defined types as `type`.
                    self._definitions[f"{name}.{udt.name}"] = text
                    if name in self._keyspaces:
                        self._definitions[udt.name] = text
        return self._definitions

    def __getitem__(self, name: str) -> str:
        return self._types()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types())

    def __len__(self) -> int:
        return len(self._types())


def keyspaces_of(prepared: Prepared) -> set[str]:
    """The keyspaces of the columns to which the bind markers of a statement belong."""
    return {Column(*marker).keyspace for marker in prepared.markers}


def typed_pairs_of(
    session: Any, table: str, where: str | None, params_by_name: Mapping[str, str | None]
) -> tuple[Any, ...]:
    """The values of a condition on a table, in the order of its bind markers."""
    if where is None:
        if params_by_name:
            raise click.UsageError("--param is for --where")
        return ()
    if not params_by_name:
        return ()
    table_name = qualified(*parse_table_name(table, session.keyspace))
    prepared = session.prepare(f"SELECT * FROM {table_name} WHERE {where} ALLOW FILTERING")
    values = values_of(prepared, params_by_name, Types(session, keyspaces_of(prepared)))
    return tuple(values[Column(*marker).name] for marker in prepared.markers)


def values_of(
    prepared: Prepared, params_by_name: Mapping[str, str | None], udts: Mapping[str, str]
) -> dict[str, Any]:
    """Converts parameters to the types of the bind markers of a statement.

    Raises: `click.UsageError` for a parameter that is missing, unknown or of a wrong type.
    """
    columns = [Column(*marker) for marker in prepared.markers]
    markers = {column.name: column.cql_type for column in columns}
    for name in params_by_name:
        if name not in markers:
            problem = f"the statement has no parameter {name!r}"
            names = with_nearest(problem, name, markers)
            advice = f": --param {next(iter(markers))}=VALUE" if markers else ""
            raise click.UsageError(f"{names}{advice}")
    values_by_name: dict[str, Any] = {}
    for name, cql_type in markers.items():
        if name not in params_by_name:
            raise click.UsageError(
                f"parameter {name!r} ({cql_type}) has no value: --param {name}=VALUE"
            )
        text = params_by_name[name]
        try:
            values_by_name[name] = (
                None if text is None else _value(CqlType(cql_type, udts=udts), text)
            )
        except ArithmeticError:
            raise click.UsageError(f"--param {name}={text}: expected {cql_type}") from None
        except (ValueError, TypeError) as error:
            reason = f": {error}" if str(error) else ""
            raise click.UsageError(f"--param {name}={text}: expected {cql_type}{reason}") from error
    return values_by_name


def _boolean(text: str) -> bool:
    truth_values = {"true": True, "false": False}
    if text.lower() not in truth_values:
        raise ValueError("expected true or false")
    return truth_values[text.lower()]


def _integer(text: str) -> int:
    if not re.fullmatch(r"[-+]?[0-9]+", text):
        raise ValueError("expected digits")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("expected a number") from None
    if math.isinf(number) and "inf" not in text.lower():
        raise ValueError("the number is too large")
    return number


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ValueError("expected 32 hexadecimal digits, with or without hyphens") from None


def _blob(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError("expected 0x and hexadecimal digits")
    return bytes.fromhex(text[2:])


def _date(text: str) -> datetime.date | Date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return Date(days_of(text))


def _timestamp(text: str) -> datetime.datetime | Timestamp:
    if re.fullmatch(r"-?[0-9]+", text):
        return Timestamp(int(text))
    text = re.sub(r"[zZ]$", "+00:00", text)
    text = re.sub(r"([+-][0-9]{2})([0-9]{2})$", r"\1:\2", text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        # The time may be outside of the years 1 to 9999.
        return Timestamp(milliseconds_of(text))
    if moment.microsecond % 1000:
        raise ValueError("a timestamp has no part below a millisecond")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.timezone.utc)


def _time(text: str) -> Time:
    match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?", text)
    if match is None:
        raise ValueError("expected HH:MM:SS.nnnnnnnnn")
    hour, minute, second, fraction = match.groups(default="0")
    return Time.of(int(hour), int(minute), int(second), int(fraction.ljust(9, "0")))


_SCALARS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("ascii", "text", "varchar"), str),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "varint", "counter"), _integer),
    **dict.fromkeys(("float", "double"), _number),
    **dict.fromkeys(("uuid", "timeuuid"), _uuid),
    "decimal": Decimal,
    "boolean": _boolean,
    "blob": _blob,
    "inet": ipaddress.ip_address,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "duration": read_duration,
}


def _value(cql_type: CqlType, text: str) -> Any:
    while cql_type.kind == "frozen":
        cql_type = cql_type.subtypes[0]
    read = _SCALARS.get(cql_type.kind)
    if read is not None:
        return read(text)
    try:
        parsed = json.loads(
            text,
            parse_float=str,
            parse_int=str,
            parse_constant=str,
            object_pairs_hook=reject_duplicate_keys,
        )
    except ValueError as error:
        raise ValueError(f"expected JSON: {error}") from None
    except RecursionError:
        raise ValueError("expected JSON: it is nested too deeply") from None
    return _nested(cql_type, parsed)


def _nested(cql_type: CqlType, value: Any) -> Any:
    """Converts a value that was parsed from JSON. In such a value, numbers are texts."""
    while cql_type.kind == "frozen":
        cql_type = cql_type.subtypes[0]
    kind, parts = cql_type.kind, cql_type.subtypes
    if value is None:
        return None
    if kind in _SCALARS:
        if isinstance(value, (list, dict)):
            raise ValueError(f"expected {kind}, got {json.dumps(value)}")
        return _SCALARS[kind](str(value).lower() if isinstance(value, bool) else value)
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        if not isinstance(value, dict) and not (
            isinstance(value, list)
            and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        ):
            raise ValueError("expected an object, or a list of [key, value]")
        return {_nested(parts[0], key): _nested(parts[1], element) for key, element in pairs}
    if kind == "udt":
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object with field names as keys")
        types = dict(zip(cql_type.field_names, parts, strict=True))
        unknown = value.keys() - types.keys()
        if unknown:
            raise ValueError(f"there is no field {sorted(unknown)[0]!r}")
        return {name: _nested(types[name], element) for name, element in value.items()}
    if kind == "tuple" and isinstance(value, dict):
        # `turbocql query` writes a tuple in JSON lines as an object whose keys are positions. So
        # this form is accepted here.
        positions = [str(position) for position in range(len(parts))]
        if value.keys() - set(positions):
            raise ValueError(f"expected the positions {', '.join(positions)}")
        value = [value.get(position) for position in positions]
    if not isinstance(value, list):
        raise ValueError("expected a list")
    if kind == "tuple":
        if len(value) > len(parts):
            raise ValueError(f"expected {len(parts)} values, got {len(value)}")
        return tuple(_nested(part, element) for part, element in zip(parts, value, strict=False))
    converted_elements = [_nested(parts[0], element) for element in value]
    return (
        set(converted_elements)
        if kind == "set" and all(map(_is_hashable, converted_elements))
        else converted_elements
    )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
