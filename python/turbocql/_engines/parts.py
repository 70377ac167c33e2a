"""Tables as parts, for engines that run tasks in many processes: what the adapters share.

What is here is sent to workers, so it is plain data. Sessions are those of `workers`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._cql.names import place_of, qualified, quoted
from .._options import LoadOptions, ScanOptions
from .._transfer.scan import LAST, TABLE, Scan, partition_key
from .._transfer.target import JobTime
from ..bulk import BulkReport
from ..columns import ColumnTypes
from ..config import Config
from ..errors import ConfigError
from ..session import Session
from ..tables import Split
from ..workers import Environment, Profile, _sendable, session

__all__ = [
    "Reading",
    "Writing",
    "check_columns",
    "checked_count",
    "needed",
    "reading",
    "schema_of",
    "up_to",
    "writing",
]

_NOT_IN_TASKS = frozenset(
    {"format", "csv", "limit", "dry_run", "rejects", "checkpoint", "resume", "progress"}
    | {"raise_failures"}
)
_QUERY = ("consistency", "timeout_s", "page_size", "profile")
_TABLE_ROWS, _TABLE_BYTES = 65_536, 8 << 20
RANGES = 2
"""The token ranges that a task reads at a time, unless it is told otherwise. The tasks of an engine
read beside each other already."""


def _pyarrow() -> Any:
    return importlib.import_module("pyarrow")


@dataclass(frozen=True)
class Reading:
    """A table that is read in parts."""

    settings: Config | Environment | Profile
    place: tuple[str, str]
    """Keyspace and table."""
    options: Mapping[str, Any] = field(hash=False)
    """Options of `Session.scan`."""
    types: ColumnTypes

    @property
    def table(self) -> str:
        """The table in CQL."""
        return qualified(*self.place)

    def selecting(self, columns: Sequence[str]) -> Reading:
        """The same with these columns only."""
        return replace(self, options={**self.options, "columns": list(columns)})

    def schema(self) -> Any:
        """The `pyarrow.Schema` of what is read.

        Raises: `ConfigError` when there is no such table or column.
        """
        with session(self.settings) as opened:
            return schema_of(opened, self.place, self.options, self.types)

    def splits(self, parts: int) -> list[Split]:
        """The table in so many parts, or fewer."""
        with session(self.settings) as opened:
            return opened.splits(self.table, parts)

    def columns(self) -> list[tuple[str, str, str, int]]:
        """The columns of the table: name, kind, CQL type, and position in the key."""
        with session(self.settings) as opened:
            known = opened.execute(TABLE, self.place, rows="tuple", idempotent=True).all()
            partition_key(known, self.place)
            return known

    def row_bytes(self) -> int | None:
        """The size of a row in Arrow, by some rows; `None` without any."""
        with session(self.settings) as opened:
            given = self.options.get("columns")
            names = "*" if given is None else ", ".join(map(quoted, given))
            options: Any = {name: self.options[name] for name in _QUERY if name in self.options}
            asked = f"SELECT {names} FROM {self.table} LIMIT 100"
            rows = opened.execute(asked, idempotent=True, **options)
            for batch in rows.batches(types=self.types):
                made = _pyarrow().record_batch(batch)
                if made.num_rows:
                    return max(1, int(made.nbytes) // int(made.num_rows))
        return None

    def in_order(self, split: Split, unit: int, limit: int | None = None) -> Iterator[Any]:
        """The rows of a part as `pyarrow.Table`s, which are the same each time while the table's
        rows are: in the order of tokens, and cut by their contents, not by pages. `unit` is a
        number of rows that are kept together.
        """
        options = {**self.options, "concurrency": 1}
        if limit is not None:
            options["page_size"] = min(limit, options.get("page_size") or limit, 5000) or 1
        with session(self.settings) as opened:
            rows = opened.scan(split=split, **options)
            made = rows.batches(rows_per_batch=unit, types=self.types)
            yield from _gathered(up_to(limit, made))

    def batches(self, split: Split) -> Iterator[Any]:
        """The rows of a part as `pyarrow.RecordBatch`es, in no order."""
        with session(self.settings) as opened:
            rows = opened.scan(split=split, **self.options)
            yield from up_to(None, rows.batches(types=self.types))

    def query(self, where: str, values: Sequence[Any]) -> Iterator[Any]:
        """The rows that a condition on the key selects, as `pyarrow.RecordBatch`es."""
        given = self.options.get("columns")
        names = [name for name, *_ in self.columns()] if given is None else given
        asked = f"SELECT {', '.join(map(quoted, names))} FROM {self.table} WHERE {where}"
        options: Any = {name: self.options[name] for name in _QUERY if name in self.options}
        with session(self.settings) as opened:
            rows = opened.execute(f"{asked} ALLOW FILTERING", values, idempotent=True, **options)
            yield from up_to(None, rows.batches(types=self.types))


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Small batches as tables of some size."""
    table, kept, rows, size = _pyarrow().Table, [], 0, 0
    for batch in batches:
        kept.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _TABLE_ROWS or size >= _TABLE_BYTES:
            yield table.from_batches(kept)
            kept, rows, size = [], 0, 0
    if kept:
        yield table.from_batches(kept)


def schema_of(
    opened: Session, place: tuple[str, str], options: Mapping[str, Any], types: ColumnTypes
) -> Any:
    """The `pyarrow.Schema` of a scan with these options."""
    # The last token alone: a page has the types of its columns, and this one has no rows.
    nothing = Split(*place, ((LAST - 1, LAST),), None, ())
    rows = opened.scan(split=nothing, **options)
    return _pyarrow().schema(rows.batches(types=types))


def up_to(limit: int | None, batches: Iterable[Any]) -> Iterator[Any]:
    """At most so many rows of Arrow batches, as `pyarrow.RecordBatch`es."""
    pa = _pyarrow()
    if limit == 0:
        return
    for batch in batches:
        made = pa.record_batch(batch)
        if limit is not None:
            made = made.slice(0, limit)
            limit -= made.num_rows
        if made.num_rows:
            yield made
        if limit == 0:
            return


def reading(
    table: str,
    config: Config | Environment | Profile | str | None,
    types: ColumnTypes | None,
    options: Mapping[str, Any],
) -> Reading:
    """A table to be read; `options` are those of `Session.scan`.

    Raises: `ConfigError` or `TypeError` for what cannot be, before anything is connected.
    """
    settings = _sendable(config)
    given = {name: value for name, value in options.items() if value is not None}
    check_columns(given.get("columns"))
    given.setdefault("concurrency", RANGES)
    scan = Scan(table, _keyspace(settings, table), ScanOptions(**given))  # type: ignore[typeddict-item]
    if types is not None and not isinstance(types, ColumnTypes):
        raise TypeError(f"types must be a ColumnTypes, got {type(types).__name__}")
    return Reading(settings, scan.place, given, types or ColumnTypes())


def check_columns(columns: Any) -> None:
    """Raises `ConfigError` for a column that is named twice: data sets have names once."""
    names = [] if columns is None or isinstance(columns, str) else list(columns)
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ConfigError(f"columns name {doubled!r} twice")


def _keyspace(settings: Config | Environment | Profile, table: object) -> str | None:
    """The keyspace of an unqualified table, which the settings name."""
    if isinstance(table, str) and "." not in table:
        made = settings if isinstance(settings, Config) else settings.read()
        return made.keyspace
    return None


@dataclass(frozen=True)
class Writing:
    """A table that rows are written to in tasks."""

    settings: Config | Environment | Profile
    place: tuple[str, str]
    options: Mapping[str, Any] = field(hash=False)
    """Options of `Session.load`. Once it has begun, they have a write time, so that a task that is
    run again writes what it wrote before, and changes nothing. Where lists are written that are not
    frozen, a task that is run again replaces what it wrote before."""
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The CQL type of each column of the table, once it has begun."""

    @property
    def table(self) -> str:
        """The table in CQL."""
        return qualified(*self.place)

    def begun(self, none: Any = None) -> Writing:
        """The same with its write time, which is now. `none` is a `pyarrow.Table` with the columns
        of the data and no rows, if they are known.

        Raises: `ConfigError` when there is no such table; `EncodeError` when a column or its type
            does not fit.
        """
        options = {**self.options}
        with session(self.settings) as opened:
            known = opened.execute(TABLE, self.place, rows="tuple", idempotent=True).all()
            partition_key(known, self.place)
            if none is not None:
                opened.load(self.table, none, **options)
            if options.get("timestamp") is None:
                asked = "SELECT toUnixTimestamp(now()) FROM system.local"
                (there,) = opened.execute(asked, rows="tuple", idempotent=True).one() or (0,)
                now = max(time.time_ns() // 1000, int(there) * 1000)
                options["timestamp"] = JobTime(now)
        types = {name: cql_type for name, _, cql_type, _ in known}
        return replace(self, options=options, types=types)

    def load(self, data: Iterable[Any]) -> BulkReport:
        """Writes Arrow data: an iterable of tables or record batches.

        Raises: `BulkError` when a row failed.
        """
        with session(self.settings) as opened:
            return opened.load(self.table, data, **self.options)


def writing(
    table: str,
    config: Config | Environment | Profile | str | None,
    options: Mapping[str, Any],
) -> Writing:
    """A table to be written to; `options` are those of `Session.load`.

    Raises: `ConfigError` or `TypeError` for what cannot be, before anything is connected.
    """
    settings = _sendable(config)
    known = [name for name in LoadOptions.__annotations__ if name not in _NOT_IN_TASKS]
    for name in options:
        if name not in known:
            raise TypeError(f"a sink has no option {name!r}; it has {', '.join(known)}")
    given = {name: value for name, value in options.items() if value is not None}
    place = place_of(table, _keyspace(settings, table))
    return Writing(settings, place, given)


def needed(extra: str, *modules: str) -> None:
    """Raises `ModuleNotFoundError`, with what to install, unless all these modules are there."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"turbocql.{extra} needs the package {error.name}: pip install 'turbocql[{extra}]'",
                name=error.name,
            ) from error


def checked_count(name: str, value: Any, most: int) -> int | None:
    """A number of parts, or `None`."""
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise ConfigError(f"{name} must be from 1 to {most:,}, got {value!r}")
    return value
