"""Generates tables and values, formats the values for files, and predicts a table's contents."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from tests.columns.generated import SCALARS as RANDOM
from tests.support.cql_types import (
    SCALARS,
    Kind,
    ListOf,
    MapOf,
    Scalar,
    SetOf,
    TupleOf,
    Udt,
    VectorOf,
)

__all__ = [
    "BIGINT",
    "UDTS",
    "Column",
    "Model",
    "Row",
    "Shape",
    "Write",
    "arrow_array",
    "csv_cell",
    "generated_shape",
    "json_cell",
    "value_of",
]

Role = Literal["partition", "clustering", "static", "regular"]
Row = dict[str, Any]
Cell = tuple[Any, int]
"""A pair of a value and its write time. The value has the form that `Kind.canonical` returns, or is
`None`."""
Cells = dict[str, Cell]

_BY_NAME = {kind.name: kind for kind in SCALARS}
BIGINT = _BY_NAME["bigint"]
PAIR = Udt("model_pair", (("n", _BY_NAME["int"]), ("t", _BY_NAME["text"])))
DEEP = Udt("model_deep", (("inner", PAIR), ("numbers", ListOf(_BY_NAME["double"]))))
UDTS = (PAIR, DEEP)
_PARTITIONS = ("int", "bigint", "text", "uuid", "timeuuid", "inet", "blob", "timestamp", "varint")
_CLUSTERINGS = ("int", "bigint", "text", "uuid", "timeuuid", "inet", "date", "time", "timestamp")
# The types of set elements and map keys. The server refuses sets of durations. Floats and decimals
# are left out too, because these tests do not check how the server compares NaNs, the two zeros of
# floats, and decimals that are equal but have different scales.
_ELEMENTS = sorted(_BY_NAME.keys() - {"duration", "float", "double", "decimal"})


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    role: Role
    is_open: bool
    """Whether the type is a collection or a UDT without `frozen`, with a cell for each part."""

    @property
    def cql(self) -> str:
        end = " static" if self.role == "static" else ""
        return f"{self.name} {self.kind.column if self.is_open else self.kind.cql}{end}"

    @property
    def is_open_list(self) -> bool:
        return self.is_open and isinstance(self.kind, ListOf)

    def cell(self, value: Any) -> Any:
        """Returns the canonical form in which the table holds a value."""
        made = self.kind.cell(value)
        if not self.is_open or made is None:
            return made
        # If the type is not frozen, a read returns null for a collection without elements, and for
        # a UDT with only null fields.
        parts = made.values() if isinstance(made, dict) else made
        return made if any(part is not None for part in parts) else None


class Write(NamedTuple):
    """One written row. Its keys and cells are in canonical form. Unset cells are not in `cells`."""

    partition: str
    row: str | None
    """The clustering key; `None` if only static columns are written."""
    cells: dict[str, Any]
    time: int | None
    """The write time; `None` stands for the server's time."""


@dataclass(frozen=True)
class Shape:
    """The columns of a table."""

    columns: tuple[Column, ...]

    def of(self, *roles: Role) -> list[Column]:
        return [column for column in self.columns if column.role in roles]

    @property
    def cql(self) -> str:
        partition = ", ".join(column.name for column in self.of("partition"))
        key = ", ".join([f"({partition})", *(column.name for column in self.of("clustering"))])
        return f"{', '.join(column.cql for column in self.columns)}, PRIMARY KEY ({key})"

    def key(self, row: Row, role: Role) -> str:
        """Returns the partition key or the clustering key of a row as text.

        Equal keys have equal texts.
        """
        return json.dumps([column.kind.canonical(row[column.name]) for column in self.of(role)])

    def write(self, row: Row, names: Sequence[str], nulls: str, time: int | None) -> Write:
        """Returns what a load that writes the columns `names` writes for a row."""
        cells: dict[str, Any] = {}
        for column in self.of("static", "regular"):
            if column.name not in names or (row[column.name] is None and nulls == "unset"):
                continue
            cells[column.name] = column.cell(row[column.name])
        has_row = all(column.name in names for column in self.of("clustering"))
        clustering = self.key(row, "clustering") if has_row else None
        return Write(self.key(row, "partition"), clustering, cells, time)

    def keys(self, rng: random.Random, partitions: int, rows: int) -> list[list[Row]]:
        """Returns distinct primary keys: a list for each partition."""
        if not self.of("clustering"):
            return [[key] for key in self._parts(rng, "partition", partitions * rows)]
        firsts = self._parts(rng, "partition", partitions)
        seconds = self._parts(rng, "clustering", rows)
        return [[{**first, **second} for second in seconds] for first in firsts]

    def _parts(self, rng: random.Random, role: Role, count: int) -> list[Row]:
        found: dict[str, Row] = {}
        while len(found) < count:
            part = {it.name: value_of(rng, it.kind) for it in self.of(role)}
            # The server refuses empty partition keys, so no partition key column is empty.
            if role == "clustering" or all(value not in ("", b"") for value in part.values()):
                found[self.key(part, role)] = part
        return list(found.values())


def generated_shape(seed: int, rng: random.Random) -> Shape:
    """Returns a random shape.

    The shapes of six successive seeds together have a regular column of each type.
    """
    columns = [
        Column(f"p{number}", _BY_NAME[rng.choice(_PARTITIONS)], "partition", False)
        for number in range(rng.choice([1, 1, 2]))
    ]
    if rng.random() < 0.75:
        columns += [
            Column(f"c{number}", _BY_NAME[rng.choice(_CLUSTERINGS)], "clustering", False)
            for number in range(rng.choice([1, 1, 2]))
        ]
        columns += [
            _column(rng, f"s{number}", "static", _static_kind(rng))
            for number in range(rng.choice([0, 1, 2, 3]))
        ]
    count = len(_OWN) + len(SCALARS)
    order = random.Random(7).sample(range(count), count)
    columns += [
        _column(rng, f"v{number}", "regular", order[(seed * 6 + number) % count])
        for number in range(6)
    ]
    return Shape(tuple(columns))


_OWN = (
    *("open list", "open list", "open set", "open map", "open pair", "open deep"),
    *("list", "set", "map", "nested", "tuple", "pair", "deep", "vector"),
)


def _static_kind(rng: random.Random) -> int:
    """Returns the number of a random type for a static column. About half of the types are open."""
    return rng.randrange(6 if rng.random() < 0.4 else len(_OWN) + len(SCALARS))


def _column(rng: random.Random, name: str, role: Role, number: int) -> Column:
    """Returns a column. `number` determines its type."""
    if number >= len(_OWN):
        return Column(name, SCALARS[number - len(_OWN)], role, False)
    chosen, element = _OWN[number], _BY_NAME[rng.choice(_ELEMENTS)]
    is_open, any_kind = chosen.startswith("open "), rng.choice([*SCALARS, PAIR, DEEP])
    kinds: dict[str, Kind] = {
        "list": ListOf(any_kind),
        "set": SetOf(element),
        "map": MapOf(element, any_kind),
        "nested": ListOf(MapOf(element, SetOf(_BY_NAME[rng.choice(_ELEMENTS)]))),
        "tuple": TupleOf((element, any_kind, ListOf(any_kind))),
        "pair": PAIR,
        "deep": DEEP,
        "vector": VectorOf(rng.choice([_BY_NAME["float"], element, PAIR]), rng.randint(1, 4)),
    }
    return Column(name, kinds[chosen.removeprefix("open ")], role, is_open)


def value_of(rng: random.Random, kind: Kind) -> Any:
    """Returns a random value of a type, with nulls in tuples and user-defined types."""
    if isinstance(kind, Scalar):
        return rng.choice(kind.samples) if rng.random() < 0.3 else RANDOM[kind.name](rng)
    if isinstance(kind, ListOf):
        return [value_of(rng, kind.element) for _ in range(rng.choice([0, 1, 3]))]
    if isinstance(kind, SetOf):
        return {value_of(rng, kind.element) for _ in range(rng.choice([0, 1, 3]))}
    if isinstance(kind, MapOf):
        count = rng.choice([0, 1, 3])
        return {value_of(rng, kind.key): value_of(rng, kind.value) for _ in range(count)}
    if isinstance(kind, VectorOf):
        return [value_of(rng, kind.element) for _ in range(kind.dimension)]
    return tuple(None if rng.random() < 0.3 else value_of(rng, it) for _, it in _fields(kind))


def _fields(kind: Kind) -> list[tuple[str, Kind]]:
    if isinstance(kind, Udt):
        return list(kind.fields)
    assert isinstance(kind, TupleOf)
    return [(str(number), part) for number, part in enumerate(kind.parts)]


_ARROW = {
    **{"ascii": pa.string(), "text": pa.string(), "varint": pa.string(), "decimal": pa.string()},
    **{"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()},
    **{"float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "blob": pa.binary()},
    **{"uuid": pa.binary(16), "timeuuid": pa.binary(16), "inet": pa.string()},
    **{"date": pa.date32(), "time": pa.time64("ns"), "timestamp": pa.timestamp("ms", "UTC")},
    "duration": pa.struct(
        [("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())]
    ),
}


def _arrow_type(kind: Kind) -> Any:
    if isinstance(kind, Scalar):
        return _ARROW[kind.name]
    if isinstance(kind, ListOf | SetOf):
        return pa.list_(_arrow_type(kind.element))
    if isinstance(kind, VectorOf):
        return pa.list_(_arrow_type(kind.element), kind.dimension)
    if isinstance(kind, MapOf):
        return pa.map_(_arrow_type(kind.key), _arrow_type(kind.value))
    return pa.struct([(name, _arrow_type(part)) for name, part in _fields(kind)])


def _arrow(kind: Kind, value: Any) -> Any:
    """Returns a value in the form that `pa.array` takes."""
    if value is None:
        return None
    if isinstance(kind, Scalar):
        if kind.name in ("varint", "decimal", "inet"):
            return str(value)
        if kind.name in ("uuid", "timeuuid"):
            return value.bytes
        if kind.name in ("date", "time", "timestamp"):
            return kind.canonical(value)
        if kind.name == "duration":
            names = ("months", "days", "nanoseconds")
            return dict(zip(names, kind.canonical(value), strict=True))
        return value
    if isinstance(kind, ListOf | SetOf | VectorOf):
        return [_arrow(kind.element, part) for part in value]
    if isinstance(kind, MapOf):
        return [(_arrow(kind.key, key), _arrow(kind.value, part)) for key, part in value.items()]
    parts = zip(_fields(kind), value, strict=True)
    return {name: _arrow(field_kind, part) for (name, field_kind), part in parts}


def json_cell(kind: Kind, value: Any) -> Any:
    """Converts a value to an object that `json.dumps` can write to a file of JSON lines."""
    if value is None:
        return None
    if isinstance(kind, Scalar):
        if kind.name in ("float", "double") and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if kind.name == "blob":
            return f"0x{value.hex()}"
        if kind.name == "timestamp":
            return value.isoformat()
        return value if isinstance(value, int | float | str) else str(value)
    if isinstance(kind, ListOf | SetOf | VectorOf):
        return [json_cell(kind.element, part) for part in value]
    if isinstance(kind, MapOf):
        pairs = [
            [json_cell(kind.key, key), json_cell(kind.value, part)] for key, part in value.items()
        ]
        is_text = isinstance(kind.key, Scalar) and kind.key.name in ("ascii", "text")
        return dict(pairs) if is_text else pairs
    parts = zip(_fields(kind), value, strict=True)
    return {name: json_cell(field_kind, part) for (name, field_kind), part in parts}


def csv_cell(kind: Kind, value: Any) -> str:
    """Returns the text of a value for a CSV file."""
    if value is None:
        return ""
    made = json_cell(kind, value)
    if isinstance(made, dict | list):
        made = json.dumps(made)
    if isinstance(made, str):
        # The quotes are needed for an empty text, because an empty cell without quotes is a null.
        return '"' + made.replace('"', '""') + '"'
    return json.dumps(made)


def arrow_array(kind: Kind, values: Sequence[Any]) -> Any:
    """Returns values of a type as an Arrow array."""
    return pa.array([_arrow(kind, value) for value in values], _arrow_type(kind))


@dataclass
class Model:
    """The contents of a table. It has rows and static cells. Each cell has a write time."""

    shape: Shape
    rows: dict[tuple[str, str], Cells] = field(default_factory=dict)
    statics: dict[str, Cells] = field(default_factory=dict)
    _possible: dict[tuple[str, str], list[Cells | None]] = field(default_factory=dict)
    """The possible cells of each row written since the last `settle`. `None` stands for no row."""
    _maybe: dict[str, dict[str, list[Cell]]] = field(default_factory=dict)
    """The possible static cells of each partition written since the last `settle`, by column."""

    def take(self, writes: Sequence[Write], now: int, *, begun: bool = False) -> None:
        """Records the contents to which the writes can lead, whatever their order.

        If `begun` is true, the server may not have applied all of the writes.
        """
        names = {column.name for column in self.shape.of("static")}
        of_rows: dict[tuple[str, str], list[tuple[Row, int]]] = {}
        of_statics: dict[str, list[tuple[Row, int]]] = {}
        for partition, row, cells, time in writes:
            at = now if time is None else time
            own = {name: value for name, value in cells.items() if name not in names}
            if row is not None:
                of_rows.setdefault((partition, row), []).append((own, at))
            rest = {name: value for name, value in cells.items() if name in names}
            of_statics.setdefault(partition, []).append((rest, at))
        for key, changes in of_rows.items():
            before = self.rows.get(key)
            # If `begun` is true, the server may have applied only some of the writes to this key.
            counts = range(1 if begun else len(changes), len(changes) + 1)
            some = [part for n in counts for part in itertools.permutations(changes, n)]
            possible = _outcomes(before or {}, some)
            self._possible[key] = [*possible, *([before] if begun else [])]
        for partition, changes in of_statics.items():
            known = self.statics.get(partition, {})
            self._maybe[partition] = {
                name: _candidates(known.get(name), name, changes, begun) for name in names
            }

    def settle(self, found: dict[tuple[str, str | None], Row]) -> list[str]:
        """Returns the differences between the rows `found` in a table and the model.

        If several contents are possible for a row or cell, the model keeps those that the table
        has.
        """
        differences: list[str] = []
        wanted = self.rows.keys() | self._possible.keys()
        for key in sorted(wanted):
            self._settle_row(key, found.get(key), differences)
        names = [column.name for column in self.shape.of("static")]
        for (partition, row), cells in found.items():
            lone = row is None and any(cells[name] is not None for name in names)
            if (partition, row or "") not in wanted and not lone:
                differences.append(f"{partition}{row}: not expected, found {cells}")
        in_partition: dict[str, list[Row]] = {}
        for (partition, _), cells in found.items():
            in_partition.setdefault(partition, []).append(cells)
        for partition in sorted(self.statics.keys() | self._maybe.keys() | in_partition.keys()):
            seen = in_partition.get(partition, [{}])
            for column in self.shape.of("static"):
                known = self.statics.get(partition, {}).get(column.name, (None, -1))
                may_be = self._maybe.get(partition, {}).get(column.name, [known])
                for value in (row.get(column.name) for row in seen):
                    fitting = [cell for cell in may_be if cell[0] == value]
                    if not fitting:
                        text = f"{_expected(may_be)}, found {value}"
                        differences.append(f"partition {partition}, {column.cql}: {text}")
                        break
                    self.statics.setdefault(partition, {})[column.name] = fitting[0]
        self._possible, self._maybe = {}, {}
        return differences

    def _settle_row(self, key: tuple[str, str], found: Row | None, differences: list[str]) -> None:
        possible = self._possible.get(key, [self.rows.get(key)])
        if found is None:
            if None not in possible:
                differences.append(f"row {key}: expected, not found")
            return
        columns = self.shape.of("regular")
        known = [cells for cells in possible if cells is not None]
        for cells in known:
            if all(cells.get(it.name, (None,))[0] == found[it.name] for it in columns):
                self.rows[key] = cells
                return
        before = len(differences)
        for it in columns:
            values = [cells.get(it.name, (None, -1)) for cells in known]
            if all(cell[0] != found[it.name] for cell in values):
                text = f"{_expected(values)}, found {found[it.name]}"
                differences.append(f"row {key}, {it.cql}: {text}")
        if len(differences) == before:
            differences.append(f"row {key}: cells of several rows, found {found}")

    def read(self) -> tuple[list[Write], int]:
        """Returns all rows, and the number of partitions that have only static values.

        Each row includes the static values of its partition.
        """
        writes = []
        for (partition, row), cells in self.rows.items():
            whole = {**self.statics.get(partition, {}), **cells}
            values = {name: value for name, (value, _) in whole.items() if value is not None}
            writes.append(Write(partition, row, values, None))
        partitions = {partition for partition, _ in self.rows}
        alone = sum(
            partition not in partitions and any(value is not None for value, _ in cells.values())
            for partition, cells in self.statics.items()
        )
        return writes, alone


def _expected(cells: Sequence[Cell]) -> str:
    values = dict.fromkeys(str(value) for value, _ in cells)
    return f"expected {' or '.join(values)}"


def _outcomes(before: Cells, orders: Iterable[Sequence[tuple[Row, int]]]) -> list[Cells]:
    """Returns the possible results of a row's writes, which depend on the order of the writes.

    If two writes of a cell have equal times, the later write in the order wins.
    """
    made: list[Cells] = []
    for order in orders:
        cells = dict(before)
        for change, time in order:
            for name, value in change.items():
                if name not in cells or time >= cells[name][1]:
                    cells[name] = (value, time)
        if cells not in made:
            made.append(cells)
    return made


def _candidates(
    before: Cell | None, name: str, changes: Sequence[tuple[Row, int]], begun: bool
) -> list[Cell]:
    """Returns the possible values of a static cell after the changes.

    If `begun` is true, the server may not have applied all of the changes.
    """
    cells = [(change[name], time) for change, time in changes if name in change]
    known = [before or (None, -1)]
    latest = max(time for _, time in [*known, *cells])
    last = [cell for cell in [*known, *cells] if cell[1] == latest]
    return [*known, *cells] if begun else last
