"""Reads and writes tables in parts, for the adapters to Ray, Spark and duckdb.

`Reading` and `Writing` are plain data, because they are sent to worker processes. A worker gets its
session from `turbocql.workers`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._checks import with_nearest
from .._cql.names import parse_table_name, qualified, quoted
from .._options import LoadOptions, ScanOptions
from .._transfer.scan import LAST, TABLE, Scan, query_options
from .._transfer.target import NOW, JobTime
from ..bulk import BulkReport
from ..columns import ColumnTypes
from ..config import Config
from ..errors import ConfigError
from ..session import Session
from ..tables import Split
from ..workers import Environment, Profile, _sendable, session
from .traces import current_trace, within_trace

__all__ = [
    "RELATION_OPTIONS",
    "SINK_OPTIONS",
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

_REFUSED_OPTIONS = frozenset(
    {"format", "csv", "limit", "dry_run", "rejects", "checkpoint", "resume", "progress"}
    | {"raise_failures"}
)
SINK_OPTIONS = tuple(name for name in LoadOptions.__annotations__ if name not in _REFUSED_OPTIONS)
"""The options of `load` that a sink takes. A sink writes a data set of Ray or Spark to a table."""
_ROW_OPTIONS = ("rows", "row", "split")
RELATION_OPTIONS = tuple(name for name in ScanOptions.__annotations__ if name not in _ROW_OPTIONS)
"""The options of `scan` that a relation of duckdb takes."""
_QUERY_OPTIONS = ("consistency", "timeout_s", "page_size", "profile")
_TABLE_ROWS, _TABLE_BYTES = 65_536, 8 << 20
RANGES = 2
"""The default number of token ranges that a task reads at a time. It is small, because Ray, Spark
and duckdb run many tasks at a time."""


def _pyarrow() -> Any:
    return importlib.import_module("pyarrow")


@dataclass(frozen=True)
class Reading:
    """A table to read in parts."""

    settings: Config | Environment | Profile
    keyspace_and_table: tuple[str, str]
    """The keyspace and the name of the table."""
    options: Mapping[str, Any] = field(hash=False)
    """Options of `Session.scan`."""
    types: ColumnTypes
    trace: Mapping[str, str] = field(default_factory=current_trace, compare=False)
    """The trace context of the program where the job begins, for the spans of the workers."""

    @property
    def table(self) -> str:
        """The table's qualified name in CQL."""
        return qualified(*self.keyspace_and_table)

    def selecting(self, columns: Sequence[str]) -> Reading:
        """Returns a copy of this `Reading` that reads only these columns."""
        return replace(self, options={**self.options, "columns": list(columns)})

    def schema(self) -> Any:
        """The `pyarrow.Schema` of the columns that are read.

        Raises: `ConfigError` when there is no such table or column.
        """
        with session(self.settings) as open_session:
            return schema_of(open_session, self.keyspace_and_table, self.options, self.types)

    def splits(self, parts: int) -> list[Split]:
        """Returns splits that together are the whole table: `parts` of them, or fewer."""
        with session(self.settings) as open_session:
            return open_session.splits(self.table, parts)

    def columns(self) -> list[tuple[str, str, str, int]]:
        """The columns of the table: name, kind, CQL type, and position in the key."""
        with session(self.settings) as open_session:
            return _table_columns(open_session, self.keyspace_and_table)

    def row_bytes(self) -> int | None:
        """The average size of a row in Arrow, in bytes, from at most 100 rows. It is `None` for an
        empty table.
        """
        with session(self.settings) as open_session:
            selected = self.options.get("columns")
            names = "*" if selected is None else ", ".join(map(quoted, selected))
            options: Any = {
                name: self.options[name] for name in _QUERY_OPTIONS if name in self.options
            }
            query = f"SELECT {names} FROM {self.table} LIMIT 100"
            rows = open_session.execute(query, idempotent=True, **options)
            for batch in rows.batches(types=self.types):
                record_batch = _pyarrow().record_batch(batch)
                if record_batch.num_rows:
                    return max(1, int(record_batch.nbytes) // int(record_batch.num_rows))
        return None

    def in_order(self, split: Split, unit: int, limit: int | None = None) -> Iterator[Any]:
        """The rows of a split as `pyarrow.Table`s, in the order of tokens.

        The sizes of these `pyarrow.Table`s depend on the rows, not on pages. So they are the same
        at each call, as long as the rows do not change. The number of rows of each `pyarrow.Table`,
        except the last, is a multiple of `unit`.
        """
        options = {**self.options, "concurrency": 1}
        if limit is not None:
            options["page_size"] = min(limit, options.get("page_size") or limit, 5000) or 1
        with session(self.settings) as open_session:
            with within_trace(open_session, self.trace):
                rows = open_session.scan(split=split, **options)
            batches = rows.batches(rows_per_batch=unit, types=self.types)
            yield from _gathered_tables(up_to(limit, batches))

    def batches(self, split: Split) -> Iterator[Any]:
        """The rows of a split as `pyarrow.RecordBatch`es, in any order."""
        with session(self.settings) as open_session:
            with within_trace(open_session, self.trace):
                rows = open_session.scan(split=split, **self.options)
            yield from up_to(None, rows.batches(types=self.types))

    def query(self, where: str, values: Sequence[Any]) -> Iterator[Any]:
        """The rows that a condition on the key selects, as `pyarrow.RecordBatch`es."""
        selected = self.options.get("columns")
        names = [name for name, *_ in self.columns()] if selected is None else selected
        query = f"SELECT {', '.join(map(quoted, names))} FROM {self.table} WHERE {where}"
        options: Any = {name: self.options[name] for name in _QUERY_OPTIONS if name in self.options}
        with session(self.settings) as open_session:
            with within_trace(open_session, self.trace):
                rows = open_session.execute(
                    f"{query} ALLOW FILTERING", values, idempotent=True, **options
                )
            yield from up_to(None, rows.batches(types=self.types))


def _gathered_tables(batches: Iterable[Any]) -> Iterator[Any]:
    """Joins batches to tables of at least 65,536 rows or 8 MiB. The last table may be smaller."""
    table_class, pending_batches, pending_rows, pending_bytes = _pyarrow().Table, [], 0, 0
    for batch in batches:
        pending_batches.append(batch)
        pending_rows, pending_bytes = pending_rows + batch.num_rows, pending_bytes + batch.nbytes
        if pending_rows >= _TABLE_ROWS or pending_bytes >= _TABLE_BYTES:
            yield table_class.from_batches(pending_batches)
            pending_batches, pending_rows, pending_bytes = [], 0, 0
    if pending_batches:
        yield table_class.from_batches(pending_batches)


def _table_columns(
    open_session: Session, keyspace_and_table: tuple[str, str]
) -> list[tuple[str, str, str, int]]:
    """The columns of a table.

    Raises: `ConfigError` when there is no such table.
    """
    table_columns: list[Any] = open_session._table(TABLE, keyspace_and_table, query_options({}))
    return table_columns


def schema_of(
    open_session: Session,
    keyspace_and_table: tuple[str, str],
    options: Mapping[str, Any],
    types: ColumnTypes,
) -> Any:
    """The `pyarrow.Schema` of a scan with these options."""
    # Even a page without rows has the types of its columns, so scanning a split of one token is
    # enough.
    empty_split = Split(*keyspace_and_table, ((LAST - 1, LAST),), None, ())
    rows = open_session.scan(split=empty_split, **options)
    return _pyarrow().schema(rows.batches(types=types))


def up_to(limit: int | None, batches: Iterable[Any]) -> Iterator[Any]:
    """The first `limit` rows of Arrow batches, as `pyarrow.RecordBatch`es that are not empty."""
    pa = _pyarrow()
    if limit == 0:
        return
    for batch in batches:
        record_batch = pa.record_batch(batch)
        if limit is not None:
            record_batch = record_batch.slice(0, limit)
            limit -= record_batch.num_rows
        if record_batch.num_rows:
            yield record_batch
        if limit == 0:
            return


def reading(
    table: str,
    config: Config | Environment | Profile | str | None,
    types: ColumnTypes | None,
    options: Mapping[str, Any],
) -> Reading:
    """Returns the `Reading` of a table. `options` are the options of `Session.scan`.

    Raises: `ConfigError` or `TypeError` for invalid arguments. No connection is opened.
    """
    settings = _sendable(config)
    scan_options = {name: value for name, value in options.items() if value is not None}
    check_columns(scan_options.get("columns"))
    scan_options.setdefault("concurrency", RANGES)
    scan = Scan(table, _keyspace(settings, table), ScanOptions(**scan_options))  # type: ignore[typeddict-item]
    if types is not None and not isinstance(types, ColumnTypes):
        raise TypeError(f"types must be a ColumnTypes, got {type(types).__name__}")
    return Reading(settings, scan.keyspace_and_table, scan_options, types or ColumnTypes())


def check_columns(columns: Any) -> None:
    """Raises `ConfigError` if a column is named twice, because data sets need unique names."""
    names = [] if columns is None or isinstance(columns, str) else list(columns)
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise ConfigError(f"columns name {duplicate!r} twice")


def _keyspace(settings: Config | Environment | Profile, table: object) -> str | None:
    """If the table's name is unqualified, returns the keyspace of the settings; else `None`."""
    if isinstance(table, str) and "." not in table:
        config = settings if isinstance(settings, Config) else settings.read()
        return config.keyspace
    return None


@dataclass(frozen=True)
class Writing:
    """A table to which tasks write rows."""

    settings: Config | Environment | Profile
    keyspace_and_table: tuple[str, str]
    options: Mapping[str, Any] = field(hash=False)
    """Options of `Session.load`. `begun` adds a write time, so a task that runs again writes the
    same cells with the same write times, and changes nothing. Lists that are not frozen are an
    exception: a task that runs again replaces the list that its earlier run has written."""
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The CQL type of each column of the table; empty before `begun`."""
    trace: Mapping[str, str] = field(default_factory=current_trace, compare=False)
    """The trace context of the program where the job begins, for the spans of the workers."""

    @property
    def table(self) -> str:
        """The table's qualified name in CQL."""
        return qualified(*self.keyspace_and_table)

    def begun(self, empty_table: Any = None) -> Writing:
        """Returns a copy of this `Writing` with the types of the table's columns. If `timestamp` is
        not set, the current time becomes the write time.

        `empty_table` is a `pyarrow.Table` with the columns of the data and no rows; `None` if the
        columns of the data are not known.

        Raises: `ConfigError` when there is no such table; `EncodeError` when a column of
            `empty_table` or its type does not fit the table.
        """
        options = {**self.options}
        with session(self.settings) as open_session:
            table_columns = _table_columns(open_session, self.keyspace_and_table)
            if empty_table is not None:
                open_session.load(self.table, empty_table, **options)
            if options.get("timestamp") is None:
                times = open_session.execute(NOW, rows="tuple", idempotent=True)
                (cluster_ms,) = times.one() or (0,)
                write_time = max(time.time_ns() // 1000, int(cluster_ms) * 1000)
                options["timestamp"] = JobTime(write_time)
        types = {name: cql_type for name, _, cql_type, _ in table_columns}
        return replace(self, options=options, types=types)

    def load(self, data: Iterable[Any]) -> BulkReport:
        """Writes Arrow data: an iterable of tables or record batches.

        Raises: `BulkError` when a row failed.
        """
        with (
            session(self.settings) as open_session,
            within_trace(open_session, self.trace),
        ):
            return open_session.load(self.table, data, **self.options)


def writing(
    table: str,
    config: Config | Environment | Profile | str | None,
    options: Mapping[str, Any],
) -> Writing:
    """Returns the `Writing` to a table. `options` are the options of `Session.load`.

    Raises: `ConfigError` or `TypeError` for invalid arguments. No connection is opened.
    """
    settings = _sendable(config)
    for name in options:
        if name not in SINK_OPTIONS:
            raise TypeError(with_nearest(f"a sink has no option {name!r}", name, SINK_OPTIONS))
    load_options = {name: value for name, value in options.items() if value is not None}
    keyspace_and_table = parse_table_name(table, _keyspace(settings, table))
    return Writing(settings, keyspace_and_table, load_options)


def needed(extra: str, *modules: str) -> None:
    """Raises `ModuleNotFoundError`, with the package to install, if a module is missing."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"turbocql.{extra} needs the package {error.name}: pip install 'turbocql[{extra}]'",
                name=error.name,
            ) from error


def checked_count(name: str, value: Any, maximum: int) -> int | None:
    """Returns `value`.

    Raises: `ConfigError` unless `value` is `None` or an int from 1 to `maximum`.
    """
    if value is not None and (type(value) is not int or not 1 <= value <= maximum):
        raise ConfigError(f"{name} must be from 1 to {maximum:,}, got {value!r}")
    return value
