"""The server of the end-to-end benchmark: a Cassandra node, its tables, and checks of their rows.

The checks read rows with the probe of `turbocql.testing`, a small client of the protocol. It shares
no code with any driver.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import turbocql
from bench.harness.servers import JVM_OPTIONS
from bench.suites.requests import data
from turbocql.testing import Cassandra, Shards
from turbocql.testing.probe import Connection

__all__ = ["Server", "Wrong"]

_TABLES = [
    *(
        f"CREATE TABLE bench.{kind}_{use} (k int PRIMARY KEY, v {cql_type})"
        for kind, cql_type in (("text", "text"), ("vector", f"vector<float, {data.DIMENSIONS}>"))
        for use in ("written", "stored")
    ),
    f"CREATE TABLE bench.vector_scanned (k int PRIMARY KEY, v vector<float, {data.DIMENSIONS}>)",
    f"CREATE TABLE bench.vector_loaded (k int PRIMARY KEY, v vector<float, {data.DIMENSIONS}>)",
    "CREATE TABLE bench.mixed_loaded (k bigint PRIMARY KEY, name text, ratio double, at timestamp)",
    # The floors write to the next two tables. Their blobs are encoded cells of `vector_loaded` and
    # `mixed_loaded`.
    "CREATE TABLE bench.vector_ready (k blob PRIMARY KEY, v blob)",
    "CREATE TABLE bench.mixed_ready (k blob PRIMARY KEY, name blob, ratio blob, at blob)",
    "CREATE TABLE bench.scanned (id int PRIMARY KEY, name text, ratio double, big bigint,"
    " active boolean, at timestamp)",
]
_ROWS_AT_A_TIME = {"text": 10_000, "vector": 1000, "mixed": 10_000, "scanned": 10_000}
_LEAST_TOKEN = -(2**63)


class Wrong(Exception):
    """A table does not have the expected rows."""


class Server:
    """One node with the tables. Its `__enter__` fills and checks the tables that are only read.

    The table `vector_scanned` is filled and checked only if `scans_vectors` is true. With
    `simulates_scylla`, a simulator of ScyllaDB with two shards is in front of the node.
    """

    def __init__(self, *, scans_vectors: bool = False, simulates_scylla: bool = False) -> None:
        self._shards = Shards(2) if simulates_scylla else None
        self._stored = {f"{kind}_stored": (kind, count) for kind, count in data.STORED.items()}
        if scans_vectors:
            self._stored["vector_scanned"] = ("vector", data.SCANNED["scan_vector"][1])

    def __enter__(self) -> Server:
        with ExitStack() as opened:
            cluster = opened.enter_context(
                Cassandra(heap_mb=1024, jvm_options=JVM_OPTIONS, scylla=self._shards)
            )
            self.contact_point = cluster.contact_points[0]
            host, _, port = self.contact_point.rpartition(":")
            with turbocql.connect(self.contact_point) as session:
                _fill(session, self._stored)
            self._probe = opened.enter_context(Connection(host, int(port), timeout_s=60))
            for table, (kind, count) in self._stored.items():
                self._expect_rows(table, kind, count, 0)
            self._expect_scanned()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.close()

    def check_written(self, table: str, kind: str, count: int, salt: int) -> None:
        """Checks that a table has every row of a sample, with the values of this sample.

        Raises: Wrong, if a row is missing or has other values.
        """
        self._expect_rows(table, kind, count, salt)

    def _expect_rows(self, table: str, kind: str, count: int, salt: int) -> None:
        by_key: dict[int, Any] = {}
        columns = ", ".join(data.COLUMNS[kind])
        for cells in self._all(table, columns, "k", _ROWS_AT_A_TIME[kind]):
            number = int.from_bytes(cells[0] or b"", "big", signed=True)
            if number < count:
                by_key[number] = tuple(cells)
        if len(by_key) != count:
            raise Wrong(f"{len(by_key)} of {count} rows are in {table}")
        for number, cells in by_key.items():
            expected = data.cells(kind, number, salt)
            if cells != expected:
                raise Wrong(f"row {number} of {table} has {cells!r:.90}, not {expected!r:.90}")

    def _expect_scanned(self) -> None:
        columns = "id, name, ratio, big, active, at"
        count = 0
        for cells in self._all("scanned", columns, "id", _ROWS_AT_A_TIME["scanned"]):
            number, ratio, big, active, at = (
                struct.unpack(f">{letter}", cells[i] or b"")[0]
                for letter, i in (("i", 0), ("d", 2), ("q", 3), ("?", 4), ("q", 5))
            )
            since = at - data.milliseconds(data.EPOCH)
            time = data.EPOCH + datetime.timedelta(milliseconds=since)
            values = (number, (cells[1] or b"").decode(), ratio, big, active, time)
            if values != data.scan_row(number):
                raise Wrong(f"row {number} of scanned is {values!r}")
            count += 1
        if count != data.SCAN_ROWS:
            raise Wrong(f"{count} of {data.SCAN_ROWS} rows are in scanned")

    def _all(self, table: str, columns: str, key: str, at_a_time: int) -> Iterator[Any]:
        """Yields all rows of a table in token order. Each query reads at most `at_a_time` rows."""
        last = _LEAST_TOKEN
        while True:
            rows = self._probe.query(
                f"SELECT {columns}, token({key}) FROM bench.{table}"
                f" WHERE token({key}) > {last} LIMIT {at_a_time}"
            ).rows
            for *cells, token in rows:
                yield cells
                last = int.from_bytes(token or b"", "big", signed=True)
            if len(rows) < at_a_time:
                return


def _fill(session: turbocql.Session, stored: dict[str, tuple[str, int]]) -> None:
    session.execute(
        "CREATE KEYSPACE bench WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for statement in _TABLES:
        session.execute(statement)
    for table, (kind, count) in stored.items():
        values: dict[str, Any] = {
            "text": lambda key: data.text(key, 0),
            "vector": lambda key: data.vectors()[data.number_of(key, 0)],
        }
        session.execute_many(
            data.insert(table, kind),
            ((key, values[kind](key)) for key in range(count)),
        )
    session.execute_many(
        "INSERT INTO bench.scanned (id, name, ratio, big, active, at) VALUES (?, ?, ?, ?, ?, ?)",
        (data.scan_row(number) for number in range(data.SCAN_ROWS)),
    )
