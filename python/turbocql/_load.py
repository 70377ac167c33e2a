"""Loads of columns into a table: what `Session.load` and its twin share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core
from ._checks import check_choice, check_flag, shown
from ._given import Given, first_missing, given, refused
from ._options import LoadOptions, StatementOptions
from ._schema_cql import name as quoted
from ._schema_cql import qualified, split_qualified
from .errors import ConfigError

__all__ = ["QUERY", "Load", "rows_or_columns"]

_LONGEST_TTL_S = 630_720_000
_DEFAULTS: dict[str, Any] = {
    **{"rename": None, "columns": None, "nulls": "unset", "ttl": None, "timestamp": None},
    **{"truncate_time": False, "concurrency": 256, "max_failures": 1000, "raise_failures": True},
    **{"consistency": None, "timeout_s": None, "idempotent": True, "profile": None},
}
QUERY = (
    "SELECT column_name, kind, type FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)


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
    found = given(columns)
    return [] if found is None else _core.Columns(found.pieces, None, [], False, False, apart)


class Load:
    """A load: first its arguments, then the table's columns, at last the statement."""

    def __init__(self, table: str, keyspace: str | None, options: LoadOptions) -> None:
        given = {**_DEFAULTS, **options}
        unknown = given.keys() - LoadOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(LoadOptions.__annotations__)
            raise TypeError(f"load has no option {sorted(unknown)[0]!r}; it has {known}")
        if not isinstance(table, str):
            raise TypeError(f"a table is a str such as 'keyspace.table', got {shown(table)}")
        place = split_qualified(table)
        if place is None and keyspace is not None:
            place = split_qualified(f'"{keyspace}".{table}')
        if place is None:
            raise ConfigError(
                "expected a table as 'keyspace.table', or as 'table' in a session with a keyspace,"
                f" got {shown(table)}"
            )
        self.place = place
        self.concurrency: int = given["concurrency"]
        self.max_failures: int = given["max_failures"]
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
        self.request = StatementOptions(
            consistency=given["consistency"],
            timeout_s=given["timeout_s"],
            timestamp=constant,
            idempotent=given["idempotent"],
            profile=given["profile"],
        )
        self.question: Any = {"timeout_s": given["timeout_s"], "profile": given["profile"]}
        self.question |= {"rows": "tuple", "idempotent": True}
        self.statement = ""
        self._fields: list[str] = []
        self._pairs_of_key: dict[str, str] = {}

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
        self._fields = fields
        keys = ("partition_key", "clustering")
        self._pairs_of_key = {name: field for name, field in pairs.items() if kinds[name] in keys}

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

    def check(self, data: Any) -> None:
        """Raises `EncodeError` if data that can be read twice lacks a value of a key."""
        targets = {field: key for key, field in self._pairs_of_key.items()}
        missing = first_missing(data, list(targets))
        if missing is not None:
            raise refused(
                f'row {missing[0]}, column "{targets[missing[1]]}": a column of the primary key'
                " needs a value, got null"
            )

    def columns(self, found: Given, *, apart: bool) -> _core.Columns:
        """The columns for the statement."""
        return _core.Columns(
            found.pieces,
            self._fields,
            list(self._pairs_of_key),
            self._leaves_nulls,
            self._truncates,
            apart,
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
