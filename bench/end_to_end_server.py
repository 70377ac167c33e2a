"""The server of the end-to-end benchmark: a Cassandra, its tables, and a reader that is no rival.

What a client says that it wrote is read back with the probe of `turbocql.testing`, which shares no
code with any driver.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from clients import data

import turbocql
from turbocql.testing import Cassandra
from turbocql.testing.probe import Connection

__all__ = ["Server", "Wrong"]

_TABLES = [
    *(
        f"CREATE TABLE bench.{kind}_{use} (k int PRIMARY KEY, v {cql_type})"
        for kind, cql_type in (("text", "text"), ("vector", f"vector<float, {data.DIMENSIONS}>"))
        for use in ("written", "stored")
    ),
    "CREATE TABLE bench.scanned (id int PRIMARY KEY, name text, ratio double, big bigint,"
    " active boolean, at timestamp)",
]
_ROWS_AT_A_TIME = {"text": 10_000, "vector": 1000, "scanned": 10_000}
_LEAST_TOKEN = -(2**63)


class Wrong(Exception):
    """What is in a table is not what should be."""


class Server:
    """One node with the tables, those that are only read from filled and looked at."""

    def __enter__(self) -> Server:
        with ExitStack() as opened:
            cluster = opened.enter_context(Cassandra(heap_mb=1024))
            self.contact_point = cluster.contact_points[0]
            host, _, port = self.contact_point.rpartition(":")
            with turbocql.connect(self.contact_point) as session:
                _fill(session)
            self._probe = opened.enter_context(Connection(host, int(port), timeout_s=60))
            for kind, count in data.STORED.items():
                self._expect_rows(f"{kind}_stored", kind, count, 0)
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

    def check_written(self, kind: str, count: int, salt: int) -> None:
        """Every row of a sample is there, with the value of this sample.

        Raises: Wrong.
        """
        self._expect_rows(f"{kind}_written", kind, count, salt)

    def _expect_rows(self, table: str, kind: str, count: int, salt: int) -> None:
        found: dict[int, Any] = {}
        for key, value in self._all(table, "k, v", "k", _ROWS_AT_A_TIME[kind]):
            number = int.from_bytes(key or b"", "big", signed=True)
            if number < count:
                found[number] = value
        if len(found) != count:
            raise Wrong(f"{len(found)} of {count} rows are in {table}")
        for number, value in found.items():
            if kind == "text":
                expected = data.text(number, salt).encode()
            else:
                expected = data.vector_bytes()[data.number_of(number, salt)]
            if value != expected:
                raise Wrong(f"row {number} of {table} has {value!r:.60}, not {expected!r:.60}")

    def _expect_scanned(self) -> None:
        columns = "id, name, ratio, big, active, at"
        count = 0
        for cells in self._all("scanned", columns, "id", _ROWS_AT_A_TIME["scanned"]):
            number, ratio, big, active, at = (
                struct.unpack(f">{letter}", cells[i] or b"")[0]
                for letter, i in (("i", 0), ("d", 2), ("q", 3), ("?", 4), ("q", 5))
            )
            time = data.EPOCH + datetime.timedelta(milliseconds=at - _milliseconds(data.EPOCH))
            found = (number, (cells[1] or b"").decode(), ratio, big, active, time)
            if found != data.scan_row(number):
                raise Wrong(f"row {number} of scanned is {found!r}")
            count += 1
        if count != data.SCAN_ROWS:
            raise Wrong(f"{count} of {data.SCAN_ROWS} rows are in scanned")

    def _all(self, table: str, columns: str, key: str, at_a_time: int) -> Iterator[Any]:
        """All rows of a table, in the order of their tokens, a part at a time."""
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


def _milliseconds(time: datetime.datetime) -> int:
    return int(time.replace(tzinfo=datetime.timezone.utc).timestamp()) * 1000


def _fill(session: turbocql.Session) -> None:
    session.execute(
        "CREATE KEYSPACE bench WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    for statement in _TABLES:
        session.execute(statement)
    for kind, count in data.STORED.items():
        values: dict[str, Any] = {
            "text": lambda key: data.text(key, 0),
            "vector": lambda key: data.vectors()[data.number_of(key, 0)],
        }
        session.execute_many(
            f"INSERT INTO bench.{kind}_stored (k, v) VALUES (?, ?)",
            ((key, values[kind](key)) for key in range(count)),
        )
    session.execute_many(
        "INSERT INTO bench.scanned (id, name, ratio, big, active, at) VALUES (?, ?, ?, ?, ?, ?)",
        (data.scan_row(number) for number in range(data.SCAN_ROWS)),
    )
