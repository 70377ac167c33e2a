"""The steps of a load of columns into a table, for `Session.load` and `AsyncSession.load`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from .. import _core
from .._checks import check_choice, check_flag, check_seconds, with_nearest
from .._columns.frames import check_collected
from .._columns.pieces import Columns, columns_of, first_missing, refused
from .._cql.names import parse_table_name, qualified, quoted
from .._files.reader import CsvOptions, Selection
from .._options import LoadOptions, StatementOptions
from ..bulk import BulkFailure, BulkReport
from ..errors import ConfigError, EncodeError
from ..statements import Prepared
from .load_files import Files, is_files
from .load_options import (
    DEFAULTS,
    Pace,
    check_setting,
    checked_batches,
    checked_names,
    checked_rename,
    failure_limits,
    rates_of,
)
from .locating import name_setting, naming_settings, show_values
from .monitor import Monitor, Stopped
from .stops import FIRST_BLOCK_ROWS, first_block, have_one_error
from .target import Care, JobTime

__all__ = ["QUERY", "UDTS", "Load", "rows_or_columns"]

_MAX_TTL_S = 630_720_000
QUERY = (
    "SELECT column_name, kind, type FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)
UDTS = "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = ?"


def rows_or_columns(rows: Any, columns: Any, on_thread: bool) -> Any:
    """Returns the argument `rows` of `execute_many`, or its argument `columns` in the form that the
    native core takes. Each bind marker gets the values of the column of the same name.

    If `on_thread` is true, the columns are read on another thread.

    Raises: `TypeError` if both or neither of rows and columns are passed, or if columns are passed
        as rows.
    """
    if (rows is None) == (columns is None):
        raise TypeError("execute_many takes either rows or columns")
    if columns is None:
        if isinstance(rows, Mapping) and any(isinstance(key, str) for key in rows):
            raise TypeError(
                "execute_many takes an iterable of rows, got a mapping: pass one row as [row], and"
                " columns as columns="
            )
        if hasattr(rows, "__aiter__") and not hasattr(rows, "__iter__"):
            raise TypeError("rows of an asynchronous iterable need a session of turbocql.aio")
        check_collected(rows)
        is_of_turbocql = type(rows).__module__.startswith("turbocql.")
        if hasattr(rows, "__arrow_c_stream__") and not is_of_turbocql:
            raise TypeError(
                f"pass a {type(rows).__name__} as columns=: as rows it is no iterable of rows"
            )
        return rows
    input_columns = columns_of(columns)
    if input_columns is None:
        return []
    return _core.Columns(input_columns.pieces, None, [], False, False, on_thread, False, None, None)


class Load:
    """A load. `__init__` checks options, `open` opens the data, and `match` writes the INSERT."""

    def __init__(
        self,
        table: str,
        keyspace: str | None,
        options: LoadOptions,
        *,
        shows_values: bool,
    ) -> None:
        """`shows_values` says whether errors may quote values."""
        settings = {**DEFAULTS, **options}
        unknown_names = settings.keys() - LoadOptions.__annotations__.keys()
        if unknown_names:
            name = sorted(unknown_names)[0]
            problem = f"load has no option {name!r}"
            if name in CsvOptions.__dataclass_fields__:
                raise TypeError(f"{problem}: pass csv={{{name!r}: ...}}")
            raise TypeError(with_nearest(problem, name, LoadOptions.__annotations__))
        self.keyspace_and_table = parse_table_name(table, keyspace)
        self.concurrency: int = settings["concurrency"]
        self.max_failures, max_failure_share = failure_limits(
            settings["max_failures"], settings["max_errors"]
        )
        self.raise_failures: bool = settings["raise_failures"]
        check_flag("raise_failures", self.raise_failures)
        self._rename = checked_rename(settings["rename"])
        columns = settings["columns"]
        self._columns = None if columns is None else checked_names("columns", columns)
        check_choice("nulls", settings["nulls"], ("unset", "null"))
        check_flag("truncate_time", settings["truncate_time"])
        self._leaves_nulls = settings["nulls"] == "unset"
        self._truncates: bool = settings["truncate_time"]
        self._ttl, self._timestamp = settings["ttl"], settings["timestamp"]
        self._settings = {"[ttl]": self._ttl, "[timestamp]": self._timestamp}
        check_setting("ttl", self._ttl, _MAX_TTL_S)
        check_setting("timestamp", self._timestamp, 2**63 - 1)
        constant_timestamp = None if isinstance(self._timestamp, str) else self._timestamp
        if isinstance(constant_timestamp, JobTime):
            constant_timestamp = int(constant_timestamp)
        self.request = StatementOptions(
            consistency=settings["consistency"],
            timeout_s=settings["timeout_s"],
            timestamp=constant_timestamp,
            idempotent=settings["idempotent"],
            profile=settings["profile"],
        )
        self.query_options: Any = {name: settings[name] for name in ("timeout_s", "profile")}
        self.query_options |= {"rows": "tuple", "idempotent": True}
        check_flag("adaptive", settings["adaptive"])
        retry_for_s = settings["retry_for_s"]
        if retry_for_s != 0:
            check_seconds("retry_for_s, if not 0,", retry_for_s)
        self.pace = Pace(
            settings["adaptive"], *rates_of(settings["rate_limit"]), float(retry_for_s)
        )
        """The pace to pass to the native `execute_many`."""
        check_flag("dry_run", settings["dry_run"])
        self.is_dry_run: bool = settings["dry_run"]
        """Whether the load is a dry run, which sends no row."""
        self._batches = checked_batches(settings["batches"], settings["batch_bytes"])
        self._files = Files(
            {**settings, "max_failures": self.max_failures}, self._truncates, max_failure_share
        )
        self.statement = ""
        self._fields: list[str] = []
        self._shows_values = shows_values
        self._data: Any = None
        """The data that was passed to `open`; `None` if the data is files."""
        self._pairs_of_key: dict[str, str] = {}
        self.care: Care | None = None
        """The columns that need special care (see `target.py`); `None` before `match`."""
        self.pairs: Mapping[str, str] = {}
        """Maps each column of the table that the load writes to the name of the data's column."""

    def open(
        self,
        data: Any,
        table: Sequence[tuple[str, str, str]],
        udts: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    ) -> Columns | None:
        """Opens the data, which may be files, and returns its columns. Returns `None` for an
        iterable without items. `table` are the rows of `QUERY`, and `udts` the rows of `UDTS`.
        """
        if not is_files(data):
            self._data = data
            self._files.check_unused()
            input_columns = columns_of(data, self._is_wanted)
            self._files.expect(None if input_columns is None else input_columns.rows)
            return input_columns
        types = {name: cql_type for name, _, cql_type in table}
        definitions = {udt[0]: _definition(*udt) for udt in udts}
        ttl, write_time = (
            setting if isinstance(setting, str) and not self._is_written(setting) else None
            for setting in (self._ttl, self._timestamp)
        )
        selection = Selection(self._is_wanted, ttl, write_time)
        return self._files.open(
            data, types, definitions, self._rename, selection, shows_values=self._shows_values
        )

    def _is_written(self, name: str) -> bool:
        """Whether a column of the data is written to a column of the table."""
        if self._columns is None:
            return name not in (self._ttl, self._timestamp)
        return self._rename.get(name, name) in self._columns

    def _is_wanted(self, name: str) -> bool:
        """Whether a column of the data is written, or is the TTL or the write time of its row."""
        return name in (self._ttl, self._timestamp) or self._is_written(name)

    def monitor(self) -> Monitor:
        """The monitor, whose thread runs while the rows are loaded."""
        return self._files.monitor

    def finished_report(self, report: BulkReport) -> BulkReport:
        """Writes the failed rows to the file `rejects`, and returns the report of this run.

        Raises: `BulkError` when a row failed, unless `raise_failures` is false.
        """
        report = self._files.monitor.stopped_report or report
        self._complete_errors(report.failures)
        report = self._files.finished_report(report)
        if self.raise_failures:
            report.raise_for_failures()
        return report

    def _complete_errors(self, failures: Sequence[BulkFailure]) -> None:
        for failure in failures:
            name_setting(failure.error, self._settings)
        if self._shows_values and not self._files.are_read:
            show_values(self._data, failures, self.pairs)

    def naming_settings(self) -> AbstractContextManager[None]:
        """Returns a context manager for a `with` block. If the block raises an error about the TTL
        or the write time, the name of the data's column is added to the error.
        """
        return naming_settings(self._settings)

    @property
    def has_file_types(self) -> bool:
        """Whether the data is files of a format that has types."""
        return self._files.has_types

    def check_file_types(
        self, session: _core.Session, insert: Prepared, care: _core.Care | None
    ) -> None:
        """Raises `EncodeError`, with the file's path, if a column's type does not fit the table."""
        for path, piece in self._files.empty_pieces():
            data = Columns(piece.names, iter([piece]))
            columns = self.columns(data, on_thread=False, care=care)
            try:
                # The constructor raises the error if the first piece does not fit the statement.
                _core.EncodedColumns(session, columns, insert)
            except EncodeError as error:
                name_setting(error, self._settings)
                error.args = (f"{path}: {error}",)
                raise

    @property
    def unreadable_rows(self) -> int:
        """The number of rows of files that could not be read."""
        return self._files.unreadable_rows

    def listed_failures(self, failures: list[BulkFailure]) -> list[BulkFailure]:
        """Adds file and line to `failures`. Returns them and the failures of unreadable rows."""
        self._complete_errors(failures)
        return self._files.listed_failures(failures)

    def dry_run_report(
        self,
        session: _core.Session,
        input_columns: Columns,
        insert: Prepared,
        care: _core.Care | None,
    ) -> BulkReport:
        """Reads and encodes all rows, sends none, and returns the report."""
        columns = self.columns(input_columns, on_thread=False, care=care)
        rows, failures = 0, list[BulkFailure]()
        is_stopped = False
        try:
            encoded = _core.EncodedColumns(session, columns, insert)
            while (piece := encoded.take()) is not None and len(failures) <= self.max_failures:
                encoded_rows, errors = piece
                rows += len(encoded_rows) + len(errors)
                failures += [BulkFailure(row, error) for row, error in errors]
        except Stopped:
            is_stopped = True
        is_stopped |= len(failures) > self.max_failures
        report = BulkReport(rows, rows - len(failures), failures, stopped=is_stopped)
        self._complete_errors(report.failures)
        report = self._files.dry_run_report(report)
        if self.raise_failures:
            report.raise_for_failures()
        return report

    @property
    def checks_first_block(self) -> bool:
        """Whether the caller must call `checked_block` before the load."""
        return self._files.checks_first_block

    def checked_block(
        self, session: _core.Session, input_columns: Columns, insert: Prepared
    ) -> Columns | BulkReport:
        """Encodes the first block of 1,000 rows, and returns the data's columns.

        If each row of the block fails with the same error and further rows follow, the load must
        stop: then returns the report of a load that has sent nothing.
        """
        try:
            block, pieces = first_block(input_columns.pieces)
        except Stopped:
            return self.finished_report(BulkReport(0, 0, stopped=True))
        if not block:
            return input_columns._replace(pieces=pieces)
        columns = self.columns(input_columns._replace(pieces=iter(block)), on_thread=False)
        encoded = _core.EncodedColumns(session, columns, insert)
        failures: list[BulkFailure] = []
        # `take` returns after some milliseconds, so it may return the block in several parts.
        while len(failures) < FIRST_BLOCK_ROWS:
            rows, errors = encoded.take() or ([], [])
            failures += [BulkFailure(row, error) for row, error in errors]
            del failures[FIRST_BLOCK_ROWS:]
            # A row that was encoded may follow the block in the same part.
            is_full = len(failures) == FIRST_BLOCK_ROWS
            is_in_block = bool(rows) and not (is_full and rows[0][0] > failures[-1].row)
            is_one_error = have_one_error(failure.error for failure in failures)
            if is_in_block or not errors or not is_one_error:
                return input_columns._replace(pieces=pieces)
        self._files.stop_after_block(len(failures))
        return self.finished_report(BulkReport(failures[-1].row + 1, 0, failures, stopped=True))

    def match(self, names: Sequence[str], table: Sequence[tuple[str, str, str]]) -> None:
        """Finds the table's column for each column of the data, and writes the INSERT statement.
        `table` are the rows that `QUERY` returns.

        Raises: `ConfigError` if the table has counters; `EncodeError` if columns of data and table
            do not match.
        """
        kinds = {name: kind for name, kind, _ in table}
        counters = [name for name, _, cql_type in table if cql_type == "counter"]
        table_name = qualified(*self.keyspace_and_table)
        if counters:
            raise ConfigError(
                f"{table_name} has counters, which no INSERT sets: use"
                ' execute_many("UPDATE ... SET c = c + ?", columns=data)'
            )
        pairs = self._pairs(names, kinds, table_name)
        self._check_keys(pairs, kinds, table_name)
        markers, using_options = ", ".join("?" for _ in pairs), []
        fields = list(pairs.values())
        for option, setting in (("TTL", self._ttl), ("TIMESTAMP", self._timestamp)):
            if isinstance(setting, str):
                if setting not in names:
                    problem = f"{option.lower()}: the data has no column {setting!r}"
                    raise refused(with_nearest(problem, setting, names, show=repr))
                using_options.append(f"{option} ?")
                fields.append(setting)
            elif setting is not None and option == "TTL":
                using_options.append(f"{option} {setting}")
        using_clause = f" USING {' AND '.join(using_options)}" if using_options else ""
        column_list = ", ".join(map(quoted, pairs))
        insert = f"INSERT INTO {table_name} ({column_list}) VALUES ({markers})"
        self.statement = insert + using_clause
        self._fields, self.pairs = fields, pairs
        keys = ("partition_key", "clustering")
        self._pairs_of_key = {name: field for name, field in pairs.items() if kinds[name] in keys}
        types = {name: cql_type for name, _, cql_type in table if name in pairs}
        self.care = Care(self.keyspace_and_table, table, list(pairs))
        self._files.begin(self.statement, types, pairs)

    def _pairs(
        self, names: Sequence[str], kinds: Mapping[str, str], table_name: str
    ) -> dict[str, str]:
        """Returns the name of the data's column for each column of the table that the load writes.

        Raises: `EncodeError` if columns of data and table do not match.
        """
        for name in self._rename:
            if name not in names:
                problem = f"rename: the data has no column {name!r}"
                message = with_nearest(problem, name, names, show=repr)
                raise refused(f"{message}. It maps names of the data to names of the table")
        pairs: dict[str, str] = {}
        for name in names:
            target = self._rename.get(name, name)
            if not self._is_written(name):
                continue
            if target not in kinds:
                problem = f"{table_name} has no column {target!r}"
                message = with_nearest(problem, target, kinds, show=repr)
                hint = self._files.header_hint(names, kinds)
                raise refused(f"{message}. Pass rename= or columns={hint}")
            if target in pairs:
                raise refused(f"two columns of the data are for {target!r}")
            pairs[target] = name
        for target in self._columns or ():
            if target not in pairs:
                problem = f"columns: the data has no column for {target!r}"
                raise refused(with_nearest(problem, target, names, show=repr))
        return pairs

    def _check_keys(
        self, pairs: Mapping[str, str], kinds: Mapping[str, str], table_name: str
    ) -> None:
        value_kinds = {kinds[name] for name in pairs if kinds[name] != "partition_key"}
        # Static columns belong to the partition, not to one of its rows.
        required = (
            {"partition_key"} if value_kinds == {"static"} else {"partition_key", "clustering"}
        )
        missing = [name for name, kind in kinds.items() if kind in required and name not in pairs]
        if missing:
            raise refused(
                f"the data has no column for {_listed(missing)} of the key of {table_name}; it has"
                f" columns for {_listed(pairs) or 'none'}"
            )

    def list_read_statements(self) -> list[str]:
        """The statements that read stored lists. They are prepared before the load."""
        return [] if self.care is None else self.care.list_read_statements(self._timestamp)

    @property
    def needs_cluster_time(self) -> bool:
        """Whether the load needs the cluster's time."""
        return bool(self.care and self.care.has_lists) and isinstance(self._timestamp, JobTime)

    def native_care(
        self,
        now_ms: int | None = None,
        reads: Sequence[Prepared] = (),
        indexes: Sequence[tuple[str, Mapping[str, str]]] = (),
    ) -> _core.Care | None:
        """Makes the native `Care` from the cluster's time, the prepared `list_read_statements` and
        the table's indexes.
        """
        if self.care is None:
            return None
        return self.care.native(self._timestamp, now_ms, reads, indexes)

    def check(self, data: Any) -> None:
        """Raises `EncodeError` if a row has a null in the primary key.

        Checks only data that can be read twice.
        """
        targets = {field: key for key, field in self._pairs_of_key.items()}
        row_and_field = first_missing(data, list(targets))
        if row_and_field is not None:
            row, field = row_and_field
            raise refused(
                f'row {row}, column "{targets[field]}": a column of the primary key needs a value,'
                " got null"
            )

    def columns(
        self, input_columns: Columns, *, on_thread: bool, care: _core.Care | None = None
    ) -> _core.Columns:
        """Returns the data's columns in the form in which the native core takes them."""
        return _core.Columns(
            input_columns.pieces,
            self._fields,
            list(self._pairs_of_key),
            self._leaves_nulls,
            self._truncates,
            on_thread,
            # If a row of a file has a null in its key, only this row fails, and later rows are
            # loaded.
            not self._files.are_read,
            self._batches,
            self.native_care() if care is None else care,
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _definition(name: str, fields: Sequence[str], types: Sequence[str]) -> str:
    """A user-defined type with its fields, in the syntax of `CqlType`."""
    parts = (
        f"{quoted(field)} {field_type}" for field, field_type in zip(fields, types, strict=True)
    )
    return f"{quoted(name)}{{{', '.join(parts)}}}"
