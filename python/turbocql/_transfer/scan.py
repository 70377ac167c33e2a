"""Whole tables by token ranges: what `Session.scan`, `Session.splits` and their twins share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from .._checks import check_int, check_seconds, shown
from .._cql.names import place_of, qualified, quoted
from .._options import ExecuteOptions, ScanOptions
from ..cluster import Node
from ..errors import ConfigError
from ..tables import Split

__all__ = [
    "ESTIMATES",
    "PARTITIONER",
    "TABLE",
    "Scan",
    "Weights",
    "check_partitioner",
    "partition_key",
    "question",
    "split_table",
]

FIRST, LAST = -(2**63), 2**63 - 1
"""No row has the first of these tokens: the partitioner gives the last one in its place."""
TABLE = (
    "SELECT column_name, kind, type, position FROM system_schema.columns"
    " WHERE keyspace_name = ? AND table_name = ?"
)
PARTITIONER = "SELECT partitioner FROM system.local"
ESTIMATES = (
    "SELECT range_start, range_end, partitions_count, mean_partition_size"
    " FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?"
)
_MOST_RANGES = 4096
_DEFAULTS: dict[str, Any] = {
    **{"columns": None, "where": None, "values": (), "split": None, "concurrency": None},
    "retry_for_s": 60.0,
}

Owners = Callable[[int], tuple[str, ...]]
"""The addresses of the replicas of a token."""
Known = Sequence[tuple[str, str, str, int]]
"""The answer to `TABLE`."""


def partition_key(known: Known, place: tuple[str, str]) -> list[str]:
    """The columns of the partition key, in their order.

    Raises: `ConfigError` if there is no such table.
    """
    if not known:
        raise ConfigError(f"there is no table {qualified(*place)}")
    keys = [(position, name) for name, kind, _, position in known if kind == "partition_key"]
    return [name for _, name in sorted(keys)]


def ring(nodes: Iterable[Node]) -> list[int]:
    """The tokens at which the ranges of the nodes end, in order; the last range ends at `LAST`."""
    tokens = {token for node in nodes for token in node.tokens if FIRST < token < LAST}
    return [*sorted(tokens), LAST]


def _ranges(ends: Sequence[int], within: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Token ranges, cut where the ring's ranges end."""
    made = []
    for before, last in within:
        place = bisect_left(ends, before + 1)
        while before < last:
            end = min(ends[place], last)
            made.append((before, end))
            before, place = end, place + 1
    return made


def _divided(ranges: list[tuple[int, int]], least: int) -> list[tuple[int, int]]:
    """Ranges, the widest cut until there are so many."""
    whole = sum(last - before for before, last in ranges)
    made = []
    for before, last in ranges:
        parts = max(1, min(last - before, least * (last - before) // max(1, whole)))
        cuts = [before + (last - before) * part // parts for part in range(parts + 1)]
        made += list(pairwise(cuts))
    return made


class Scan:
    """A scan: first its arguments, then the table, at last the statement and its ranges."""

    def __init__(self, table: str | None, keyspace: str | None, options: ScanOptions) -> None:
        given = {**_DEFAULTS, **options}
        unknown = given.keys() - ScanOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(ScanOptions.__annotations__)
            raise TypeError(f"scan has no option {sorted(unknown)[0]!r}; it has {known}")
        split = given.pop("split")
        if split is not None and not isinstance(split, Split):
            raise TypeError(f"split must be one of session.splits(), got {shown(split)}")
        if table is None:
            if split is None:
                raise TypeError("scan takes a table, or a split of one")
            self.place = (split.keyspace, split.table)
        else:
            self.place = place_of(table, keyspace)
        if split is not None and self.place != (split.keyspace, split.table):
            there, here = qualified(split.keyspace, split.table), qualified(*self.place)
            raise ConfigError(f"the split is of {there}, not of {here}")
        self._within = ((FIRST, LAST),) if split is None else split.ranges
        self._is_part = split is not None
        if not self._within:
            raise ConfigError("the split has no ranges")
        for before, last in self._within:
            if not FIRST <= before < last <= LAST:
                raise ConfigError(f"the split has a range from {before} to {last}")
        self._columns = _checked_columns(given.pop("columns"))
        self._where = given.pop("where")
        if self._where is not None and not isinstance(self._where, str):
            raise TypeError(f"where must be a str such as 'kind = ?', got {shown(self._where)}")
        values = given.pop("values")
        if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
            raise TypeError(f"values must be a tuple or a list, got {type(values).__name__}")
        self.values = tuple(values)
        if self.values and not self._where:
            raise TypeError("values are those of where, which is not given")
        self._concurrency = given.pop("concurrency")
        if self._concurrency is not None:
            check_int("concurrency", self._concurrency, 1, 1024)
        patience = given.pop("retry_for_s")
        if patience != 0:
            check_seconds("retry_for_s, if not 0,", patience)
        self.retry_for_s = float(patience)
        self.options: Any = given
        self.statement = ""

    @property
    def question(self) -> ExecuteOptions:
        """The options of queries about the table."""
        return question(self.options)

    def match(self, known: Known, partitioner: tuple[str] | None) -> None:
        """Writes the statement. `known` is the answer to `TABLE`, `partitioner` that of
        `PARTITIONER`.
        """
        keys = partition_key(known, self.place)
        check_partitioner(partitioner)
        names = [name for name, *_ in known]
        wanted = _in_order(known) if self._columns is None else self._columns
        for name in wanted:
            if name not in names:
                has = ", ".join(map(repr, names))
                raise ConfigError(f"{qualified(*self.place)} has no column {name!r}; it has {has}")
        token = f"token({', '.join(map(quoted, keys))})"
        where = f" AND {self._where} ALLOW FILTERING" if self._where else ""
        self.statement = (
            f"SELECT {', '.join(map(quoted, wanted))} FROM {qualified(*self.place)}"
            f" WHERE {token} > ? AND {token} <= ?{where}"
        )

    def concurrency(self, nodes: Sequence[Node]) -> int:
        """The number of ranges to read at a time."""
        if self._concurrency is not None:
            return int(self._concurrency)
        return max(4, min(32, 2 * sum(node.connected for node in nodes)))

    def ranges(self, nodes: Sequence[Node]) -> list[tuple[int, int]]:
        """The ranges to read: those of the ring, or parts of them."""
        found = _ranges(ring(nodes), self._within)
        if len(found) > _MOST_RANGES:
            # A request of a range reads the ranges of all nodes that lie in it.
            found = list(self._within)
        # Ranges differ in size, so a few more than are read at a time keep all readers busy to the
        # end. The readers of splits work beside others, and each range costs a request.
        each = 1 if self._is_part else 4
        return _divided(found, each * self.concurrency(nodes))


def question(options: Any) -> ExecuteOptions:
    """The options of queries about a table, for a call with these options."""
    asked = ExecuteOptions(rows="tuple", idempotent=True)
    if "timeout_s" in options:
        asked["timeout_s"] = options["timeout_s"]
    if "profile" in options:
        asked["profile"] = options["profile"]
    return asked


def check_partitioner(partitioner: tuple[str] | None) -> None:
    """Raises `ConfigError` if tokens are not those of `Murmur3Partitioner`."""
    if partitioner is not None and not partitioner[0].endswith("Murmur3Partitioner"):
        raise ConfigError(f"token ranges need a Murmur3Partitioner, not {partitioner[0]}")


def _in_order(known: Known) -> list[str]:
    """The columns in the order of `SELECT *`."""
    kinds = ("partition_key", "clustering", "static", "regular")
    return [
        name
        for name, *_ in sorted(
            known, key=lambda column: (kinds.index(column[1]), column[3], column[0])
        )
    ]


def _checked_columns(columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, got the str {columns!r}")
    made = list(columns)
    if not made:
        raise ConfigError("columns must name at least one column")
    for name in made:
        if not isinstance(name, str):
            raise TypeError(f"columns must be a list of names, got one with {shown(name)}")
    return made


def split_table(
    place: tuple[str, str], parts: int, weights: Weights, nodes: Sequence[Node], owners: Owners
) -> list[Split]:
    """Parts of a table of about one size."""
    ends, cuts, made = ring(nodes), weights.cuts(parts), []
    for before, last in pairwise(cuts):
        # The nodes of the range in it that weighs most. So many ranges are enough for a hint.
        ranges = _ranges(ends, [(before, last)])[:256]
        heaviest = max(ranges, key=lambda range_: weights.share(*range_))
        whole = weights.known_bytes
        size = None if whole is None else round(whole * weights.share(before, last))
        made.append(Split(*place, ((before, last),), size, owners(heaviest[1])))
    return made


class Weights:
    """How much of a table lies between tokens, by the nodes' estimates.

    Estimates may be missing, stale, or overlap. Tokens of which none tells have little weight, so
    that every token lies in a split.
    """

    def __init__(self, estimates: Iterable[tuple[str, str, int, int]]) -> None:
        """`estimates` are answers to `ESTIMATES`."""
        steps: dict[int, float] = {FIRST: 0.0, LAST: 0.0}
        sizes = 0
        for before, last, partitions, mean_bytes in estimates:
            bytes_ = max(0, partitions) * max(0, mean_bytes)
            density = bytes_ / _width(int(before), int(last))
            for begin, end in _unwrapped(int(before), int(last)):
                steps[begin] = steps.get(begin, 0.0) + density
                steps[end] = steps.get(end, 0.0) - density
            sizes += bytes_
        self.known_bytes: int | None = sizes or None
        least = (sizes or 1) / (LAST - FIRST) / 1000
        self._tokens = sorted(steps)
        self._before = [0.0]
        """The weight before each token."""
        density = 0.0
        for begin, end in pairwise(self._tokens):
            density += steps[begin]
            weight = (max(0.0, density) + least) * (end - begin)
            self._before.append(self._before[-1] + weight)

    def cuts(self, parts: int) -> list[int]:
        """Tokens that cut the ring into so many parts of about one weight, or into fewer."""
        whole = self._before[-1]
        made = [FIRST]
        for part in range(1, parts):
            wanted = whole * part / parts
            place = min(bisect_left(self._before, wanted), len(self._before) - 1)
            begin, end = self._tokens[place - 1], self._tokens[place]
            low, high = self._before[place - 1], self._before[place]
            share = (wanted - low) / (high - low) if high > low else 1.0
            cut = min(end, begin + int((end - begin) * share))
            if made[-1] < cut < LAST:
                made.append(cut)
        return [*made, LAST]

    def share(self, before: int, last: int) -> float:
        """The weight between two tokens, of 1 for the whole ring."""
        return (self._at(last) - self._at(before)) / self._before[-1]

    def _at(self, token: int) -> float:
        place = bisect_left(self._tokens, token)
        if self._tokens[place] == token:
            return self._before[place]
        begin, end = self._tokens[place - 1], self._tokens[place]
        low, high = self._before[place - 1], self._before[place]
        return low + (high - low) * (token - begin) / (end - begin)


def _width(before: int, last: int) -> int:
    width = last - before if last > before else last - before + 2**64
    return max(1, width)


def _unwrapped(before: int, last: int) -> list[tuple[int, int]]:
    """A range of the ring, which may go on at its beginning; the whole ring if both are one."""
    if last > before:
        return [(before, last)]
    return [(begin, end) for begin, end in ((before, LAST), (FIRST, last)) if begin < end]
