"""The steps of `scan`, which reads a table by token ranges, and of `splits`, which cuts it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from .._checks import check_int, check_seconds, did_you_mean, shown, with_nearest
from .._cql.names import parse_table_name, qualified, quoted
from .._options import ExecuteOptions, ScanOptions
from ..cluster import Node
from ..errors import ConfigError
from ..tables import Split

__all__ = [
    "DEFAULTS",
    "ESTIMATES",
    "KEYSPACES",
    "PARTITIONER",
    "TABLE",
    "TABLES",
    "Scan",
    "Weights",
    "check_partitioner",
    "missing_table",
    "partition_key",
    "query_options",
    "split_table",
]

FIRST, LAST = -(2**63), 2**63 - 1
"""The bounds of the ring, which is the range of all tokens. No row has the token `FIRST`: the
partitioner returns `LAST` instead. A token range excludes its first bound and includes its last."""
TABLE = (
    "SELECT column_name, kind, type, position FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)
TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?"
KEYSPACES = "SELECT keyspace_name FROM system_schema.keyspaces"
PARTITIONER = "SELECT partitioner FROM system.local"
ESTIMATES = (
    "SELECT range_start, range_end, partitions_count, mean_partition_size"
    " FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?"
)
_MAX_RANGES = 4096
_MAX_TABLES_SHOWN = 20
DEFAULTS: dict[str, Any] = {
    **{"columns": None, "where": None, "values": (), "split": None, "concurrency": None},
    "retry_for_s": 60.0,
}
"""The default values of the options of a scan. The options that are not here are `None` by default.
"""

Owners = Callable[[int], tuple[str, ...]]
"""A function that returns the addresses of the replicas of a token."""
TableColumns = Sequence[tuple[str, str, str, int]]
"""The rows that `TABLE` returns: the name, the kind, the type and the position of each column."""


def missing_table(
    keyspace_and_table: tuple[str, str], tables: Iterable[str], keyspaces: Iterable[str]
) -> ConfigError:
    """Makes the error for a table that does not exist. The error names the table of the keyspace,
    or the keyspace, whose name is most similar. `tables` and `keyspaces` are the existing names.
    """
    keyspace, table = keyspace_and_table
    problem, names = f"there is no table {qualified(*keyspace_and_table)}", sorted(tables)
    if keyspace not in keyspaces:
        hint = did_you_mean(keyspace, keyspaces, quoted)
        advice = hint or (
            f"; for a single node, create it: CREATE KEYSPACE {quoted(keyspace)} WITH replication ="
            " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
        )
        return ConfigError(f"{problem}: there is no keyspace {quoted(keyspace)}{advice}")
    if hint := did_you_mean(table, names, lambda name: qualified(keyspace, name)):
        return ConfigError(f"{problem}{hint}")
    shown_names = [*map(quoted, names[:_MAX_TABLES_SHOWN])]
    more = ["..."] if len(names) > _MAX_TABLES_SHOWN else []
    table_list = ", ".join([*shown_names, *more]) or "no tables"
    return ConfigError(f"{problem}; the keyspace has {table_list}")


def partition_key(table_columns: TableColumns) -> list[str]:
    """The columns of the partition key, in the order of the key."""
    kind_of_key = "partition_key"
    keys = [(position, name) for name, kind, _, position in table_columns if kind == kind_of_key]
    return [name for _, name in sorted(keys)]


def ring(nodes: Iterable[Node]) -> list[int]:
    """The tokens at which the nodes' ranges end, in order. The last range ends at `LAST`."""
    tokens = {token for node in nodes for token in node.tokens if FIRST < token < LAST}
    return [*sorted(tokens), LAST]


def _ranges(ends: Sequence[int], ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Cuts token ranges at `ends`, the tokens at which the nodes' ranges end."""
    cut_ranges = []
    for start, end in ranges:
        index = bisect_left(ends, start + 1)
        while start < end:
            cut = min(ends[index], end)
            cut_ranges.append((start, cut))
            start, index = cut, index + 1
    return cut_ranges


def _divided(ranges: list[tuple[int, int]], min_count: int) -> list[tuple[int, int]]:
    """Cuts wide ranges into parts of about equal width, to get about `min_count` ranges."""
    total_width = sum(last - before for before, last in ranges)
    divided = []
    for before, last in ranges:
        parts = max(1, min(last - before, min_count * (last - before) // max(1, total_width)))
        bounds = [before + (last - before) * part // parts for part in range(parts + 1)]
        divided += list(pairwise(bounds))
    return divided


class Scan:
    """A scan. `__init__` checks its options, `match` writes its statement."""

    def __init__(self, table: str | None, keyspace: str | None, options: ScanOptions) -> None:
        settings = {**DEFAULTS, **options}
        unknown_names = settings.keys() - ScanOptions.__annotations__.keys()
        if unknown_names:
            name = sorted(unknown_names)[0]
            problem = f"scan has no option {name!r}"
            raise TypeError(with_nearest(problem, name, ScanOptions.__annotations__))
        split = settings.pop("split")
        if split is not None and not isinstance(split, Split):
            raise TypeError(f"split must be one of session.splits(), got {shown(split)}")
        if table is None:
            if split is None:
                raise TypeError("scan takes a table, or a split of one")
            self.keyspace_and_table = (split.keyspace, split.table)
        else:
            self.keyspace_and_table = parse_table_name(table, keyspace)
        if split is not None and self.keyspace_and_table != (split.keyspace, split.table):
            split_table_name = qualified(split.keyspace, split.table)
            raise ConfigError(
                f"the split is of {split_table_name}, not of {qualified(*self.keyspace_and_table)}"
            )
        self._within = ((FIRST, LAST),) if split is None else split.ranges
        self._is_part = split is not None
        if not self._within:
            raise ConfigError("the split has no ranges")
        for before, last in self._within:
            if not FIRST <= before < last <= LAST:
                raise ConfigError(f"the split has a range from {before} to {last}")
        self._columns = _checked_columns(settings.pop("columns"))
        self._where = settings.pop("where")
        if self._where is not None and not isinstance(self._where, str):
            raise TypeError(f"where must be a str such as 'kind = ?', got {shown(self._where)}")
        if self._where is not None and re.match(r"\s*WHERE\b", self._where, re.IGNORECASE):
            raise ConfigError("where is a condition such as 'kind = ?', without the word WHERE")
        values = settings.pop("values")
        if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
            of = "; pass the values of a dict in the order of the ?" if type(values) is dict else ""
            raise TypeError(f"values must be a tuple or a list, got {type(values).__name__}{of}")
        self.values = tuple(values)
        if self.values and not self._where:
            raise TypeError("values are those of where, which is not given")
        self._concurrency = settings.pop("concurrency")
        if self._concurrency is not None:
            check_int("concurrency", self._concurrency, 1, 1024)
        retry_for_s = settings.pop("retry_for_s")
        if retry_for_s != 0:
            check_seconds("retry_for_s, if not 0,", retry_for_s)
        self.retry_for_s = float(retry_for_s)
        self.options: Any = settings
        self.statement = ""

    @property
    def query_options(self) -> ExecuteOptions:
        """The options of queries about the table."""
        return query_options(self.options)

    def match(self, table_columns: TableColumns, partitioner: tuple[str] | None) -> None:
        """Writes the statement. `table_columns` are the rows that `TABLE` returns, and
        `partitioner` is the row that `PARTITIONER` returns.

        Raises: `ConfigError` if the table does not have a column of the option `columns`, or if the
            partitioner is not `Murmur3Partitioner`.
        """
        keys = partition_key(table_columns)
        check_partitioner(partitioner)
        names = [name for name, *_ in table_columns]
        table_name = qualified(*self.keyspace_and_table)
        selected = _names_in_select_order(table_columns) if self._columns is None else self._columns
        for name in selected:
            if name not in names:
                problem = f"{table_name} has no column {name!r}"
                raise ConfigError(with_nearest(problem, name, names, show=repr))
        token = f"token({', '.join(map(quoted, keys))})"
        condition = f" AND {self._where} ALLOW FILTERING" if self._where else ""
        self.statement = (
            f"SELECT {', '.join(map(quoted, selected))} FROM {table_name}"
            f" WHERE {token} > ? AND {token} <= ?{condition}"
        )

    def concurrency(self, nodes: Sequence[Node]) -> int:
        """The number of ranges to read at a time."""
        if self._concurrency is not None:
            return int(self._concurrency)
        return max(4, min(32, 2 * sum(node.connected for node in nodes)))

    def ranges(self, nodes: Sequence[Node]) -> list[tuple[int, int]]:
        """The token ranges to read: the ranges of the ring, or parts of them."""
        ranges = _ranges(ring(nodes), self._within)
        if len(ranges) > _MAX_RANGES:
            # There are too many ranges to send a request for each. So larger ranges are read. Each
            # covers ranges of several nodes, and the coordinator reads from all of these nodes.
            ranges = list(self._within)
        # Ranges differ in size. Four ranges for each concurrent reader keep all readers busy to the
        # end. Splits are read by many processes at a time, so one range for each reader is enough,
        # and saves requests.
        ranges_per_reader = 1 if self._is_part else 4
        return _divided(ranges, ranges_per_reader * self.concurrency(nodes))


def query_options(options: Any) -> ExecuteOptions:
    """Returns the options of the queries that read a table's schema. `options` are the call's."""
    execute_options = ExecuteOptions(rows="tuple", idempotent=True)
    if "timeout_s" in options:
        execute_options["timeout_s"] = options["timeout_s"]
    if "profile" in options:
        execute_options["profile"] = options["profile"]
    return execute_options


def check_partitioner(partitioner: tuple[str] | None) -> None:
    """Raises `ConfigError` if the cluster's partitioner is not `Murmur3Partitioner`."""
    if partitioner is not None and not partitioner[0].endswith("Murmur3Partitioner"):
        raise ConfigError(f"token ranges need a Murmur3Partitioner, not {partitioner[0]}")


def _names_in_select_order(table_columns: TableColumns) -> list[str]:
    """The columns in the order of `SELECT *`."""
    kinds = ("partition_key", "clustering", "static", "regular")
    return [
        name
        for name, *_ in sorted(
            table_columns, key=lambda column: (kinds.index(column[1]), column[3], column[0])
        )
    ]


def _checked_columns(columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the str {columns!r}")
    names = list(columns)
    if not names:
        raise ConfigError("columns must name at least one column")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns must be a list of names, got one with {shown(name)}")
    return names


def split_table(
    keyspace_and_table: tuple[str, str],
    parts: int,
    weights: Weights,
    nodes: Sequence[Node],
    owners: Owners,
) -> list[Split]:
    """Cuts a table into parts of about equal size."""
    ends, cuts, splits = ring(nodes), weights.cuts(parts), []
    for before, last in pairwise(cuts):
        # `Split.replicas` are the replicas of the split's largest range. Only the first 256 ranges
        # are examined, because the replicas are only a hint.
        ranges = _ranges(ends, [(before, last)])[:256]
        heaviest = max(ranges, key=lambda range_: weights.share(*range_))
        table_bytes = weights.known_bytes
        split_bytes = None
        if table_bytes is not None:
            split_bytes = round(table_bytes * weights.share(before, last))
        splits.append(
            Split(*keyspace_and_table, ((before, last),), split_bytes, owners(heaviest[1]))
        )
    return splits


class Weights:
    """The distribution of a table's bytes over the ring, computed from the nodes' estimates.

    Estimates may be missing or stale, and may overlap. Tokens without an estimate get a small
    weight. So a table without any estimates is cut into splits with equal numbers of tokens.
    """

    def __init__(self, estimates: Iterable[tuple[str, str, int, int]]) -> None:
        """`estimates` are the rows that `ESTIMATES` returns."""
        steps: dict[int, float] = {FIRST: 0.0, LAST: 0.0}
        total_bytes = 0
        for before, last, partitions, mean_bytes in estimates:
            range_bytes = max(0, partitions) * max(0, mean_bytes)
            density = range_bytes / _width(int(before), int(last))
            for begin, end in _unwrapped(int(before), int(last)):
                steps[begin] = steps.get(begin, 0.0) + density
                steps[end] = steps.get(end, 0.0) - density
            total_bytes += range_bytes
        self.known_bytes: int | None = total_bytes or None
        min_density = (total_bytes or 1) / (LAST - FIRST) / 1000
        self._tokens = sorted(steps)
        self._weights = [0.0]
        """For each of `_tokens`, the total weight of the tokens before it."""
        density = 0.0
        for begin, end in pairwise(self._tokens):
            density += steps[begin]
            weight = (max(0.0, density) + min_density) * (end - begin)
            self._weights.append(self._weights[-1] + weight)

    def cuts(self, parts: int) -> list[int]:
        """Tokens that cut the ring into `parts` parts of about equal weight, or fewer parts."""
        total_weight = self._weights[-1]
        tokens = [FIRST]
        for part in range(1, parts):
            target_weight = total_weight * part / parts
            index = min(bisect_left(self._weights, target_weight), len(self._weights) - 1)
            begin, end = self._tokens[index - 1], self._tokens[index]
            begin_weight, end_weight = self._weights[index - 1], self._weights[index]
            share = 1.0
            if end_weight > begin_weight:
                share = (target_weight - begin_weight) / (end_weight - begin_weight)
            cut = min(end, begin + int((end - begin) * share))
            if tokens[-1] < cut < LAST:
                tokens.append(cut)
        return [*tokens, LAST]

    def share(self, before: int, last: int) -> float:
        """The weight between two tokens, as a share of the weight of the ring."""
        return (self._weight_up_to(last) - self._weight_up_to(before)) / self._weights[-1]

    def _weight_up_to(self, token: int) -> float:
        index = bisect_left(self._tokens, token)
        if self._tokens[index] == token:
            return self._weights[index]
        begin, end = self._tokens[index - 1], self._tokens[index]
        begin_weight, end_weight = self._weights[index - 1], self._weights[index]
        return begin_weight + (end_weight - begin_weight) * (token - begin) / (end - begin)


def _width(before: int, last: int) -> int:
    width = last - before if last > before else last - before + 2**64
    return max(1, width)


def _unwrapped(before: int, last: int) -> list[tuple[int, int]]:
    """Returns a range of the ring as one or two ranges that do not wrap around.

    A range with equal bounds is the whole ring.
    """
    if last > before:
        return [(before, last)]
    return [(begin, end) for begin, end in ((before, LAST), (FIRST, last)) if begin < end]
