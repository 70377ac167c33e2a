"""The cases of the availability suite: faults, clients, and the load that each client gets.

This module imports no driver, because the processes of all clients import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.selection import chosen

__all__ = [
    "CLIENTS",
    "FAULTS",
    "FAULT_AT_S",
    "IN_TIME_S",
    "JUST_AFTER_S",
    "STORED",
    "TABLES",
    "Case",
    "Fault",
    "Load",
    "named",
    "value_of",
]

FAULT_AT_S = 5.0
"""How many seconds of load come before the fault."""
IN_TIME_S = 1.0
"""A request is in time if it is answered within this many seconds after it is due."""
JUST_AFTER_S = 11.0
"""A separate figure covers the requests that are due within this many seconds after the fault."""

STORED = 1000
"""How many rows the table `stored` has. It is only read from."""
TABLES = {
    name: f"CREATE TABLE availability.{name} (id bigint PRIMARY KEY, v text)"
    for name in ("written", "stored")
}
_KEYS_OF_A_RUN = 1_000_000

CLIENTS = {
    "turbocql": "bench.clients.turbocql.availability",
    "scylla-driver": "bench.clients.cassandra.availability",
    "cassandra-driver": "bench.clients.cassandra.availability",
    "acsylla": "bench.clients.acsylla.availability",
}
"""The program of each client."""


@dataclass(frozen=True)
class Fault:
    """How one of the three nodes fails, and whether the client speculates."""

    kills: bool
    speculates: bool
    title: str


FAULTS = {
    "stopped": Fault(False, False, "A node hangs (SIGSTOP)"),
    "killed": Fault(True, False, "A node is killed (SIGKILL)"),
    "speculation": Fault(
        False, True, "A node hangs (SIGSTOP), speculative execution of idempotent statements"
    ),
}


@dataclass(frozen=True)
class Case:
    """One fault and one client."""

    fault: str
    client: str

    def __str__(self) -> str:
        return f"{self.fault} {self.client}"


@dataclass(frozen=True)
class Load:
    """The requests of one client process. They are due at fixed times, regardless of answers."""

    client: str
    run: int
    """The number of the run. It makes the keys of written rows unique among the cluster's runs."""
    contact_points: list[str]
    speculation_s: float | None
    """The delay before an idempotent request is sent to one more node; None for never."""
    rate: int = 60
    """Requests per second: writes and reads in turn."""
    seconds: int = 40
    timeout_s: float = 10.0
    """The client's own limit for a request."""
    patience_s: float = 15.0
    """The process stops waiting for outcomes this many seconds after the last request is due."""
    warm_up: int = 200

    @property
    def requests(self) -> int:
        return self.rate * self.seconds

    @property
    def hosts(self) -> list[str]:
        return [point.rpartition(":")[0] for point in self.contact_points]

    @property
    def port(self) -> int:
        return int(self.contact_points[0].rpartition(":")[2])

    @property
    def insert(self) -> str:
        return "INSERT INTO availability.written (id, v) VALUES (?, ?)"

    @property
    def select(self) -> str:
        return "SELECT v FROM availability.stored WHERE id = ?"

    def due_s(self, number: int) -> float:
        """Returns the seconds from the beginning of the load until a request is due."""
        return number / self.rate

    def writes(self, number: int) -> bool:
        """Returns whether the request is a write."""
        return number % 2 == 0

    def row_of(self, number: int) -> tuple[int, str]:
        """Returns the row that a request writes, or the row that it reads."""
        if self.writes(number):
            key = self.run * _KEYS_OF_A_RUN + number
            return key, value_of(key)
        key = number * 7919 % STORED
        return key, value_of(key)

    def warming_row_of(self, number: int) -> tuple[int, str]:
        """Returns the row of a warm-up request, whose key the load never writes."""
        key, value = self.row_of(number)
        return (key + _KEYS_OF_A_RUN // 2, value) if self.writes(number) else (key, value)


def value_of(key: int) -> str:
    """Returns the text in the row with this key."""
    return f"value {key}"


def named(patterns: Sequence[str]) -> list[Case]:
    """Returns the cases whose names have all the words of one of the patterns."""
    every = [Case(fault, client) for fault in FAULTS for client in CLIENTS]
    return [case for case in every if chosen(str(case), patterns, "availability")]
