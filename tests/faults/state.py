"""Reads the stored rows from the nodes, at consistency ALL and without a session of turbocql."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from turbocql.testing import Cassandra
from turbocql.testing.errors import CassandraError

__all__ = ["Chain", "State", "read_state"]

_FIRST, _LAST = -(2**63), 2**63 - 1
_TRIES = 20
_PER_PART = 2_000

Cells = list[bytes | None]


@dataclass
class Chain:
    """A row of `chains`.

    `winners` has, for each version, the id that the compare-and-set of this version wrote.
    """

    version: int
    winners: dict[int, int]


@dataclass
class State:
    """The rows of the tables of `stored.py`, except `wide`."""

    writes: dict[int, tuple[int | None, str | None]] = field(default_factory=dict)
    """The value and note of each row, by id."""
    aside: dict[int, int | None] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    chains: dict[int, Chain] = field(default_factory=dict)


def read_state(cluster: Cassandra, keyspace: str, aside: str, rows: int) -> State:
    """Reads all tables except `wide`. `rows` is the approximate number of rows in `writes`."""
    state = State()
    parts = max(8, rows // _PER_PART)
    for id_, value, note in _read(cluster, f"{keyspace}.writes", "id, value, note", parts):
        number, text = _int(id_), None if note is None else note.decode()
        state.writes[number] = (None if value is None else _int(value), text)
    for id_, value in _read(cluster, f"{aside}.aside", "id, value", max(4, parts // 8)):
        state.aside[_int(id_)] = None if value is None else _int(value)
    for key, n in _read(cluster, f"{keyspace}.counters", "key, n", 1):
        state.counters[_int(key)] = 0 if n is None else _int(n)
    for key, winner in _read(cluster, f"{keyspace}.claims", "key, winner", max(4, parts // 8)):
        state.claims[_int(key)] = _int(winner)
    for key, version, winners in _read(cluster, f"{keyspace}.chains", "key, version, winners", 8):
        state.chains[_int(key)] = Chain(_int(version), _map(winners))
    return state


def _int(cell: bytes | None) -> int:
    assert cell is not None, "a cell of the table is null"
    return int.from_bytes(cell, "big", signed=True)


def _map(cell: bytes | None) -> dict[int, int]:
    """Decodes a map<int, bigint> of protocol version 4."""
    found: dict[int, int] = {}
    if cell is None:
        return found
    at = 4
    for _ in range(int.from_bytes(cell[:4], "big")):
        numbers = []
        for _ in range(2):
            size = int.from_bytes(cell[at : at + 4], "big")
            numbers.append(_int(cell[at + 4 : at + 4 + size]))
            at += 4 + size
        found[numbers[0]] = numbers[1]
    return found


def _read(cluster: Cassandra, table: str, columns: str, parts: int) -> Iterator[Cells]:
    """Yields all rows of a table, read by token ranges."""
    step = 2**64 // parts
    key = columns.partition(",")[0]
    for part in range(parts):
        first = _FIRST + part * step
        last = _LAST if part == parts - 1 else first + step - 1
        text = f"SELECT {columns} FROM {table} WHERE token({key}) >= {first} AND token({key}) <= "
        yield from _patiently(lambda text=f"{text}{last}": _query(cluster, text))  # type: ignore[misc]


def _query(cluster: Cassandra, text: str) -> list[Cells]:
    with cluster.nodes[0].probe(timeout_s=60) as connection:
        return connection.query(text, "ALL").rows


def _patiently(read: Callable[[], list[Cells]]) -> list[Cells]:
    """Calls `read` until it succeeds, at most `_TRIES` times. A busy replica can cause errors."""
    for left in reversed(range(_TRIES)):
        try:
            return read()
        except (OSError, CassandraError):
            if not left:
                raise
            time.sleep(0.5)
    raise AssertionError
