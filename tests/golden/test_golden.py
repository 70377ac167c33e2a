"""Decodes the bytes that a real Cassandra stored, and encodes the values again.

Most expected values come from the server's `toJson` text. This text lacks or changes some values:
NaN, infinities, and timestamps of numeric literals. For tuples that were stored without their last
fields, `toJson` fails. In these cases the expected value comes from the CQL literal that was
inserted.
"""

from __future__ import annotations

import json
import re
import struct
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from turbocql import Date, Duration, FrozenMap, Time, Timestamp
from turbocql.codec import decode, encode

FOLDER = Path(__file__).parent
STEMS = {
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "empty",
    "float",
    "inet",
    "int",
    "list",
    "map",
    "set",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "tuple",
    "udt",
    "uuid",
    "varint",
    "vector",
}
INTEGERS = {"tinyint", "smallint", "int", "bigint", "counter", "varint"}
NANOSECONDS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1000,
    "ns": 1,
}


def _lines() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.jsonl")):
        # splitlines() would also split at the line separators that JSON strings may contain.
        for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if text:
                yield f"{path.stem}-{number}", json.loads(text)


LINES = dict(_lines())
UDTS: dict[str, list[list[str]]] = {
    line["udt"]["name"]: line["udt"]["fields"] for line in LINES.values() if "udt" in line
}
CELLS = {place: line for place, line in LINES.items() if line["hex"] is not None}


@dataclass
class Type:
    name: str
    parts: list[Type] = field(default_factory=list)


def parse(text: str) -> Type:
    tokens = re.findall(r'"[^"]*"|\w+|[<>]', text)

    def one() -> Type:
        parsed = Type(tokens.pop(0).strip('"'))
        if tokens and tokens[0] == "<":
            tokens.pop(0)
            while tokens[0] != ">":
                parsed.parts.append(one())
            tokens.pop(0)
        return parsed.parts[0] if parsed.name == "frozen" else parsed

    return one()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def with_fields(text: str) -> str:
    """Returns the type in the codec's syntax, in which a UDT's fields follow its name."""

    def expand(found: re.Match[str]) -> str:
        fields = UDTS.get(found[0].strip('"'))
        if fields is None:
            return found[0]
        inside = ", ".join(f"{quoted(name)} {with_fields(text)}" for name, text in fields)
        return f"{found[0]}{{{inside}}}"

    return re.sub(r'"[^"]*"|\w+', expand, text)


class Expected:
    """The expected value of one line."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.literal: str = line["literal"]
        # The JSON has a null in place of each of these parts of the literal. The list has the parts
        # in their order in the literal.
        self.hidden = re.findall(r"-?NaN|-?Infinity|null|3\.4028236e38", self.literal)
        self.value = self.read(parse(line["type"]), self.tree(line["json"]))

    def tree(self, text: str | None) -> Any:
        if text is None:
            text = "[" + self.literal[1:-1].replace("'", '"') + "]"
        return json.loads(text, parse_float=Decimal)

    def read(self, kind: Type, tree: Any, hashable: bool = False) -> Any:
        name = kind.name
        if name in ("float", "double"):
            return self.number(name, tree)
        if tree is None:
            return None
        if name in INTEGERS:
            assert type(tree) is int
            return tree
        if name == "decimal":
            return Decimal(tree)
        if name in ("text", "varchar", "ascii", "boolean"):
            return tree
        if name in UDTS:
            return self.record(name, tree, hashable)
        if kind.parts:
            return self.container(kind, tree, hashable)
        return getattr(self, name)(tree)

    def number(self, name: str, tree: Any) -> float | None:
        if tree is None:
            hidden = self.hidden.pop(0) if self.hidden else "null"
            if hidden == "null":
                return None
            # Java's NaN has no sign, and a float that is too large becomes infinite.
            return float({"-NaN": "nan", "3.4028236e38": "inf"}.get(hidden, hidden))
        if name == "double":
            return float(tree)
        narrowed: float = struct.unpack(">f", struct.pack(">f", float(tree)))[0]
        return narrowed

    def container(self, kind: Type, tree: Any, hashable: bool) -> Any:
        parts = kind.parts
        if kind.name == "map":
            entries = {
                self.read(parts[0], self.key(parts[0], key), True): self.read(
                    parts[1], value, hashable
                )
                for key, value in tree.items()
            }
            return FrozenMap(entries) if hashable else entries
        if kind.name == "tuple":
            tree = tree + [None] * (len(parts) - len(tree))
            return tuple(self.read(p, t, hashable) for p, t in zip(parts, tree, strict=True))
        if kind.name == "set":
            elements = [self.read(parts[0], t, True) for t in tree]
            return frozenset(elements) if hashable else set(elements)
        assert kind.name in ("list", "vector")
        elements = [self.read(parts[0], t, hashable) for t in tree]
        return tuple(elements) if hashable else elements

    def key(self, kind: Type, text: str) -> Any:
        """Parses a key of a JSON object. In JSON, the keys of maps of every type are strings."""
        if kind.name in INTEGERS or kind.name in UDTS or kind.parts:
            return json.loads(text, parse_float=Decimal)
        return text

    def record(self, name: str, tree: dict[str, Any], hashable: bool) -> Any:
        values = []
        for field_name, text in UDTS[name]:
            shown = field_name if field_name == field_name.lower() else f'"{field_name}"'
            values.append(self.read(parse(text), tree.get(shown), hashable))
        names = [re.sub(r"\W", "_", field_name) for field_name, _ in UDTS[name]]
        cls: Any = namedtuple(name.replace(" ", "_"), names)  # type: ignore[misc] # noqa: PYI024
        return cls(*values)

    def blob(self, tree: str) -> bytes:
        return bytes.fromhex(tree.removeprefix("0x"))

    def uuid(self, tree: str) -> UUID:
        return UUID(tree)

    timeuuid = uuid

    def inet(self, tree: str) -> Any:
        return ip_address(tree)

    def date(self, tree: str) -> date | Date:
        found = re.fullmatch(r"([+-]?\d+)-(\d\d)-(\d\d)", tree)
        assert found
        year, month, day = map(int, found.groups())
        if 1 <= year <= 9999:
            return date(year, month, day)
        # The Gregorian calendar repeats every 400 years, or 146,097 days.
        cycles, in_cycle = divmod(year - 1, 400)
        ordinal = date(in_cycle + 1, month, day).toordinal() + cycles * 146_097
        return Date(ordinal - date(1970, 1, 1).toordinal())

    def time(self, tree: str) -> Time:
        hour, minute, second = tree.split(":")
        whole, fraction = second.split(".")
        assert len(fraction) == 9
        return Time.of(int(hour), int(minute), int(whole), int(fraction))

    def timestamp(self, tree: str) -> datetime | Timestamp:
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        if not re.fullmatch(r"-?\d+", self.literal):
            return datetime.strptime(tree + "+0000", "%Y-%m-%d %H:%M:%S.%fZ%z")
        milliseconds = int(self.literal)
        try:
            return epoch + timedelta(milliseconds=milliseconds)
        except OverflowError:
            return Timestamp(milliseconds)

    def duration(self, tree: str) -> Duration:
        sign = -1 if tree.startswith("-") else 1
        months = days = nanoseconds = 0
        for count, unit in re.findall(r"(\d+)([a-z]+)", tree):
            if unit in ("y", "mo"):
                months += int(count) * (12 if unit == "y" else 1)
            elif unit == "d":
                days += int(count)
            else:
                nanoseconds += int(count) * NANOSECONDS[unit]
        return Duration(sign * months, sign * days, sign * nanoseconds)


def exact(value: Any) -> Any:
    """Converts a value to a form for strict comparison.

    Two forms are equal only if the values have the same type and the same bits. So a comparison of
    forms also compares the signs of zeros, the bits of NaNs, and the scales of decimals.
    """
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, Decimal):
        return "Decimal", value.as_tuple()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value).__name__, value._fields, [exact(part) for part in value]
    if isinstance(value, (list, tuple)):
        return type(value), [exact(part) for part in value]
    if isinstance(value, (dict, FrozenMap)):
        return type(value), sorted(((exact(k), exact(v)) for k, v in value.items()), key=repr)
    if isinstance(value, (set, frozenset)):
        return type(value), sorted((exact(part) for part in value), key=repr)
    return type(value), value


def test_every_file_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.jsonl")} == STEMS
    assert {place.rpartition("-")[0] for place in CELLS} == STEMS


def test_only_one_cell_is_null() -> None:
    (null,) = [line for line in LINES.values() if line["hex"] is None]
    assert (null["type"], null["json"]) == ("address", "null")


@pytest.mark.parametrize("line", CELLS.values(), ids=CELLS)
def test_bytes_decode_to_the_values_that_the_server_shows(line: dict[str, Any]) -> None:
    decoded = decode(with_fields(line["type"]), bytes.fromhex(line["hex"]))
    assert exact(decoded) == exact(Expected(line).value)


@pytest.mark.parametrize("line", CELLS.values(), ids=CELLS)
def test_values_encode_to_the_same_bytes(line: dict[str, Any]) -> None:
    cql_type, data = with_fields(line["type"]), bytes.fromhex(line["hex"])
    value = decode(cql_type, data)
    if line["literal"].endswith("(0x)"):
        # An empty cell decodes to None. The server's JSON also shows it as null.
        assert (value, data) == (None, b"")
        return
    again = encode(cql_type, value)
    if line["json"] is None or line["type"] == "frozen<grown>":
        # The server stored the value without its last fields. The codec encodes each missing field
        # as a null.
        missing, rest = divmod(len(again) - len(data), 4)
        assert missing > 0
        assert rest == 0
        assert again == data + b"\xff\xff\xff\xff" * missing
    elif "set<" in cql_type:
        # The server sorts the elements of a set, but a Python set has no order. So only the sorted
        # bytes are compared.
        assert sorted(again) == sorted(data)
        assert exact(decode(cql_type, again)) == exact(value)
    else:
        assert again == data
