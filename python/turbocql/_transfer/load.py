"""Loads of columns into a table: what `Session.load` and its twin share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import _core
from .._checks import check_choice, check_flag, check_int, check_seconds, shown
from .._columns.pieces import Columns, columns_of, first_missing, refused
from .._cql.names import place_of, qualified, quoted
from .._options import LoadOptions, StatementOptions
from ..bulk import BulkFailure, BulkReport
from ..errors import BulkError, ConfigError
from ..statements import Prepared
from .load_files import Files, is_files
from .monitor import Stopped, Watch
from .target import Care, JobTime

__all__ = ["QUERY", "UDTS", "Load", "Pace", "rows_or_columns"]

_LONGEST_TTL_S = 630_720_000
_DEFAULTS: dict[str, Any] = {
    **{"rename": None, "columns": None, "nulls": "unset", "ttl": None, "timestamp": None},
    **{"truncate_time": False, "concurrency": 256, "max_failures": 1000, "raise_failures": True},
    **{"format": None, "csv": None, "adaptive": True, "rate_limit": None, "retry_for_s": 60.0},
    **{"batches": "auto", "batch_bytes": 16384, "limit": None, "dry_run": False},
    **{"max_errors": None, "rejects": None, "checkpoint": None, "resume": None, "progress": None},
    **{"consistency": None, "timeout_s": None, "idempotent": True, "profile": None},
}
QUERY = (
    "SELECT column_name, kind, type FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)


class Pace(NamedTuple):
    """How the requests of a bulk are sent."""

    adaptive: bool
    """Whether the number of requests in flight follows what the cluster bears."""
    rows_per_s: float | None
    bytes_per_s: float | None
    retry_for_s: float


UDTS = "SELECT type_name, field_names, field_types FROM system_schema.types WHERE keyspace_name = ?"


def rows_or_columns(rows: Any, columns: Any, apart: bool) -> Any:
    """The rows of an `execute_many`, or its columns, whose names are those of the bind markers.

    `apart`: the columns are read on a thread of their own.
    """
    if (rows is None) == (columns is None):
        raise TypeError("execute_many takes either rows or columns")
    if columns is None:
        is_own = type(rows).__module__.startswith("turbocql.")
        if hasattr(rows, "__arrow_c_stream__") and not is_own:
            raise TypeError(
                f"pass a {type(rows).__name__} as columns=: as rows it is no iterable of rows"
            )
        return rows
    found = columns_of(columns)
    if found is None:
        return []
    return _core.Columns(found.pieces, None, [], False, False, apart, False, None, None)


class Load:
    """A load: first its arguments, then the table's columns, at last the statement."""

    def __init__(self, table: str, keyspace: str | None, options: LoadOptions) -> None:
        given = {**_DEFAULTS, **options}
        unknown = given.keys() - LoadOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(LoadOptions.__annotations__)
            raise TypeError(f"load has no option {sorted(unknown)[0]!r}; it has {known}")
        self.place = place_of(table, keyspace)
        self.concurrency: int = given["concurrency"]
        self.max_failures, most_share = _most(given["max_failures"], given["max_errors"])
        self.raise_failures: bool = given["raise_failures"]
        check_flag("raise_failures", self.raise_failures)
        self._rename = _checked_rename(given["rename"])
        columns = given["columns"]
        self._columns = None if columns is None else _checked_names("columns", columns)
        check_choice("nulls", given["nulls"], ("unset", "null"))
        check_flag("truncate_time", given["truncate_time"])
        self._leaves_nulls = given["nulls"] == "unset"
        self._truncates: bool = given["truncate_time"]
        self._ttl, self._timestamp = given["ttl"], given["timestamp"]
        _check_setting("ttl", self._ttl, _LONGEST_TTL_S)
        _check_setting("timestamp", self._timestamp, 2**63 - 1)
        constant = None if isinstance(self._timestamp, str) else self._timestamp
        if isinstance(constant, JobTime):
            constant = int(constant)
        self.request = StatementOptions(
            consistency=given["consistency"],
            timeout_s=given["timeout_s"],
            timestamp=constant,
            idempotent=given["idempotent"],
            profile=given["profile"],
        )
        self.question: Any = {"timeout_s": given["timeout_s"], "profile": given["profile"]}
        self.question |= {"rows": "tuple", "idempotent": True}
        check_flag("adaptive", given["adaptive"])
        patience = given["retry_for_s"]
        if patience != 0:
            check_seconds("retry_for_s, if not 0,", patience)
        self.pace = Pace(given["adaptive"], *_rates(given["rate_limit"]), float(patience))
        """How requests are sent: see the native `execute_many`."""
        check_flag("dry_run", given["dry_run"])
        self.is_tried: bool = given["dry_run"]
        """Whether nothing is sent."""
        self._batches = _checked_batches(given["batches"], given["batch_bytes"])
        self._files = Files({**given, "most": self.max_failures}, self._truncates, most_share)
        self.statement = ""
        self._fields: list[str] = []
        self._pairs_of_key: dict[str, str] = {}
        self.care: Care | None = None
        """What is special about the columns that are written, once they are known."""
        self.pairs: Mapping[str, str] = {}
        """The table's columns, and the data's column for each."""

    def open(
        self,
        data: Any,
        table: Sequence[tuple[str, str, str]],
        udts: Sequence[tuple[str, Sequence[str], Sequence[str]]],
    ) -> Columns | None:
        """The columns of the data, which may be files; `None` for no data at all. `table` is the
        answer to `QUERY`, `udts` that to `UDTS`.
        """
        if not is_files(data):
            self._files.check_unused()
            found = columns_of(data)
            self._files.expect(None if found is None else found.rows)
            return found
        types = {name: cql_type for name, _, cql_type in table}
        return self._files.open(data, types, {it[0]: _definition(*it) for it in udts}, self._rename)

    def watched(self) -> Watch:
        """What goes on beside the load."""
        return self._files.watch

    def ended(self, report: BulkReport) -> BulkReport:
        """The report of this run, whose rejected rows are written.

        Raises: `BulkError` when a row failed, unless the call wants the report.
        """
        report = self._files.ended(report)
        if self.raise_failures:
            report.raise_for_failures()
        return report

    @property
    def unread(self) -> int:
        """The number of rows of files that could not be read."""
        return self._files.unread

    def tried(
        self, session: _core.Session, found: Columns, insert: Prepared, known: _core.Care | None
    ) -> BulkReport:
        """Reads and encodes all rows, and sends none: the report of a load that would write all."""
        columns = self.columns(found, apart=False, known=known)
        encoded = _core.EncodedColumns(session, columns, insert)
        rows, failures = 0, list[BulkFailure]()
        try:
            while (taken := encoded.take()) is not None and len(failures) <= self.max_failures:
                rows += len(taken[0]) + len(taken[1])
                failures += [BulkFailure(row, error) for row, error in taken[1]]
        except Stopped as stopped:
            error = BulkError(f"the data is not read on: {stopped}")
            report = BulkReport(rows, rows - len(failures), failures, stopped=True)
            error.report = self._files.tried(report)
            raise error from stopped
        is_too_much = len(failures) > self.max_failures
        report = self._files.tried(BulkReport(rows, rows - len(failures), failures, is_too_much))
        if self.raise_failures:
            report.raise_for_failures()
        return report

    def match(self, names: Sequence[str], table: Sequence[tuple[str, str, str]]) -> None:
        """Finds a column of the table for each of the data's, and writes the statement. `table` is
        the answer to `QUERY`.
        """
        kinds = {name: kind for name, kind, _ in table}
        counters = [name for name, _, cql_type in table if cql_type == "counter"]
        where = qualified(*self.place)
        if not kinds:
            raise ConfigError(f"there is no table {where}")
        if counters:
            raise ConfigError(
                f"{where} has counters, which no INSERT sets: use"
                ' execute_many("UPDATE ... SET c = c + ?", columns=data)'
            )
        pairs = self._pairs(names, kinds, where)
        self._check_keys(pairs, kinds, where)
        markers, using = ", ".join("?" for _ in pairs), []
        fields = list(pairs.values())
        for option, setting in (("TTL", self._ttl), ("TIMESTAMP", self._timestamp)):
            if isinstance(setting, str):
                if setting not in names:
                    raise refused(f"{option.lower()}: the data has no column {setting!r}")
                using.append(f"{option} ?")
                fields.append(setting)
            elif setting is not None and option == "TTL":
                using.append(f"{option} {setting}")
        end = f" USING {' AND '.join(using)}" if using else ""
        into = ", ".join(map(quoted, pairs))
        self.statement = f"INSERT INTO {where} ({into}) VALUES ({markers}){end}"
        self._fields, self.pairs = fields, pairs
        keys = ("partition_key", "clustering")
        self._pairs_of_key = {name: field for name, field in pairs.items() if kinds[name] in keys}
        types = {name: cql_type for name, _, cql_type in table if name in pairs}
        self.care = Care(self.place, table, list(pairs))
        self._files.begin(self.statement, types, pairs)

    def _pairs(self, names: Sequence[str], kinds: Mapping[str, str], where: str) -> dict[str, str]:
        """The table's columns, and the data's column for each."""
        for name in self._rename:
            if name not in names:
                raise refused(f"rename: the data has no column {name!r}; it has {_listed(names)}")
        own = {setting for setting in (self._ttl, self._timestamp) if isinstance(setting, str)}
        pairs: dict[str, str] = {}
        for name in names:
            target = self._rename.get(name, name)
            wanted = name not in own if self._columns is None else target in self._columns
            if not wanted:
                continue
            if target not in kinds:
                raise refused(
                    f"{where} has no column {target!r}; it has {_listed(kinds)}. Pass rename= or"
                    " columns="
                )
            if target in pairs:
                raise refused(f"two columns of the data are for {target!r}")
            pairs[target] = name
        for target in self._columns or ():
            if target not in pairs:
                raise refused(f"columns: the data has no column for {target!r}")
        return pairs

    def _check_keys(self, pairs: Mapping[str, str], kinds: Mapping[str, str], where: str) -> None:
        values = {kinds[name] for name in pairs if kinds[name] != "partition_key"}
        # Static columns belong to the partition, not to one of its rows.
        needed = ("partition_key",) if values == {"static"} else ("partition_key", "clustering")
        lacking = [name for name, kind in kinds.items() if kind in needed and name not in pairs]
        if lacking:
            raise refused(f"the data has no column for {_listed(lacking)} of the key of {where}")

    def questions(self) -> list[str]:
        """What is to be prepared before the load: what reads lists that are there."""
        return [] if self.care is None else self.care.questions(self._timestamp)

    @property
    def needs_now(self) -> bool:
        """Whether the cluster's time must be known."""
        return bool(self.care and self.care.has_lists) and isinstance(self._timestamp, JobTime)

    def known(
        self,
        now_ms: int | None = None,
        reads: Sequence[Prepared] = (),
        indexes: Sequence[tuple[str, Mapping[str, str]]] = (),
    ) -> _core.Care | None:
        """What is known of the table: its time, the statements of `questions`, its indexes."""
        if self.care is None:
            return None
        return self.care.native(self._timestamp, now_ms, reads, indexes)

    def check(self, data: Any) -> None:
        """Raises `EncodeError` if data that can be read twice lacks a value of a key."""
        targets = {field: key for key, field in self._pairs_of_key.items()}
        missing = first_missing(data, list(targets))
        if missing is not None:
            raise refused(
                f'row {missing[0]}, column "{targets[missing[1]]}": a column of the primary key'
                " needs a value, got null"
            )

    def columns(
        self, found: Columns, *, apart: bool, known: _core.Care | None = None
    ) -> _core.Columns:
        """The columns for the statement. `known` is what is known of the table."""
        return _core.Columns(
            found.pieces,
            self._fields,
            list(self._pairs_of_key),
            self._leaves_nulls,
            self._truncates,
            apart,
            # A row of a file without a key is one that fails, and those after it are loaded.
            not self._files.are_read,
            self._batches,
            self.known() if known is None else known,
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _checked_rename(rename: Mapping[str, str] | None) -> dict[str, str]:
    made = {} if rename is None else dict(rename)
    for name, target in made.items():
        if not isinstance(name, str) or not isinstance(target, str):
            raise TypeError(f"rename must map str to str, got {shown(name)}: {shown(target)}")
    return made


def _checked_names(option: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{option} must be a list of names, got the str {names!r}")
    made = list(names)
    for name in made:
        if not isinstance(name, str):
            raise TypeError(f"{option} must be a list of names, got one with {shown(name)}")
    return made


def _check_setting(option: str, setting: object, most: int) -> None:
    if setting is None or isinstance(setting, str):
        return
    if not isinstance(setting, int) or isinstance(setting, bool) or not 0 <= setting <= most:
        raise ConfigError(
            f"{option} must be an int from 0 to {most}, or the name of a column, got"
            f" {shown(setting)}"
        )


def _definition(name: str, fields: Sequence[str], types: Sequence[str]) -> str:
    """A user-defined type with its fields, as the codec reads it."""
    parts = (f"{quoted(field)} {kind}" for field, kind in zip(fields, types, strict=True))
    return f"{quoted(name)}{{{', '.join(parts)}}}"


def _most(max_failures: Any, max_errors: Any) -> tuple[int, float | None]:
    """The most rows that may fail, and their greatest share."""
    if max_errors is None:
        return max_failures, None
    if isinstance(max_errors, float) and 0 <= max_errors < 1:
        return 2**31 - 1, max_errors
    check_int("max_errors (or a share as a float below 1)", max_errors, 0, 2**31 - 1)
    return max_errors, None


def _checked_batches(batches: Any, most_bytes: Any) -> tuple[int, bool] | None:
    """The greatest size of a batch, and whether batches are made unmeasured."""
    if not isinstance(batches, bool) and batches != "auto":
        raise ConfigError(f'batches must be True, False or "auto", got {shown(batches)}')
    check_int("batch_bytes", most_bytes, 1, 2**30)
    return None if batches is False else (most_bytes, batches is True)


_UNITS = {"rows": 0, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20}


def _rates(limit: Any) -> tuple[float | None, float | None]:
    """Rows and bytes a second."""
    if limit is None:
        return None, None
    number, unit = limit, "rows"
    if isinstance(limit, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)(?:/s)?", limit.strip())
        number, unit = (float(found[1]), found[2]) if found else (0, "")
    known = isinstance(number, (int, float)) and not isinstance(number, bool) and unit in _UNITS
    if not known or not 0 < number < float("inf"):
        raise ConfigError(
            f"rate_limit must be rows a second, or bytes a second such as '20 MB', got"
            f" {shown(limit)}"
        )
    if unit == "rows":
        return float(number), None
    return None, number * _UNITS[unit]
