"""Helpers that the tests of engines share: tables with the generated rows, and faults."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from tests.engines.rows import TABLE, Sums, expected, sums_of_arrow, total

import turbocql
from turbocql.testing import Cassandra

VICTIMS = ("worker", "node")

Result = TypeVar("Result")


class Tables:
    """Tables for the generated rows, in the keyspace `engines`."""

    def __init__(self, config: turbocql.Config, count: int) -> None:
        self.config, self.count = config, count

    @cached_property
    def expected(self) -> Sums:
        """The sums of the generated rows."""
        return expected(self.count)

    def make_keyspace(self) -> None:
        with turbocql.connect(config=self.config) as session:
            session.execute(
                "CREATE KEYSPACE IF NOT EXISTS engines WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 3}"
            )

    def new(self, name: str) -> str:
        """Creates an empty table and returns its name with the keyspace."""
        with turbocql.connect(config=self.config) as session:
            session.execute(f"DROP TABLE IF EXISTS engines.{name}")
            session.execute(TABLE.format(f"engines.{name}"))
        return f"engines.{name}"

    def check(self, table: str) -> None:
        """Asserts that a table has the generated rows, all with one write time."""
        assert self.sums(table) == self.expected
        assert len(self.write_times(table)) == 1

    def sums(self, table: str) -> Sums:
        """Returns the sums of a table, read by a session of this process."""
        with turbocql.connect(config=self.config) as session:
            batches = session.scan(table).batches()
            return total(sums_of_arrow(pa.record_batch(batch)) for batch in batches)

    def write_times(self, table: str) -> set[int]:
        """Returns the write times of the cells in three columns: `bucket`, `name` and `emb`."""
        times: set[int] = set()
        query = f"SELECT writetime(bucket), writetime(name), writetime(emb) FROM {table}"
        with turbocql.connect(config=self.config) as session:
            for page in session.execute(query, rows="tuple").pages():
                for row in page:
                    times.update(row)
        return times


class Faults:
    """Kills workers or nodes, and starts the killed nodes again."""

    def __init__(self, nodes: Cassandra) -> None:
        self._nodes = nodes
        self._port = int(nodes.contact_points[0].rpartition(":")[2])
        self._killed: list[int] = []

    def of(self, victim: str, worker: str, after_s: float) -> Callable[[], None]:
        """Returns a function that makes a fault.

        If `victim` is "node", the function kills a node. Otherwise, it kills all workers that have
        connections to nodes. Workers are the processes whose command line contains the text
        `worker`. The function first waits until a worker has a connection to a node, and then for
        another `after_s` seconds.
        """
        assert victim in VICTIMS

        def fault() -> None:
            until = time.time() + 120
            while not self._workers(worker):
                assert time.time() < until, f"no process {worker} has connections"
                time.sleep(0.02)
            time.sleep(after_s)
            if victim == "node":
                self.kill_node()
            else:
                self._kill_workers(worker)

        return fault

    def kill_node(self, number: int = 1) -> None:
        """Kills a node. The fixture `faults` starts the node again after the test."""
        self._killed.append(number)
        self._nodes.nodes[number].kill()

    def start_killed_nodes(self) -> None:
        while self._killed:
            self._nodes.nodes[self._killed.pop()].start()

    def _kill_workers(self, worker: str) -> None:
        # A single worker may be idle, so that killing it would have no effect. So all workers with
        # connections are killed.
        victims = self._workers(worker)
        assert victims, "the workers have ended"
        for victim in victims:
            os.kill(victim, signal.SIGKILL)

    def _workers(self, worker: str) -> list[int]:
        """Returns the ids of the workers that have a connection to a node."""
        sockets, processes = self._sockets(), []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if worker not in command or int(process.name) == os.getpid():
                    continue
                links = [os.readlink(link) for link in (process / "fd").iterdir()]
            except OSError:
                continue
            if any(link.startswith("socket:[") and link[8:-1] in sockets for link in links):
                processes.append(int(process.name))
        return processes

    def _sockets(self) -> set[str]:
        """Returns the inodes of the sockets on this machine that are connected to the nodes."""
        inodes = set()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[2].rpartition(":")[2], 16) == self._port and fields[3] == "01":
                inodes.add(fields[9])
        return inodes


def during(fault: Callable[[], None], work: Callable[[], Result]) -> Result:
    """Runs `fault` in a thread while `work` runs, and returns the result of `work`.

    If `fault` raises an error, this function raises the same error. If `work` ends before `fault`,
    it raises AssertionError.
    """
    ended = threading.Event()
    failures: list[BaseException] = []

    def beside() -> None:
        try:
            fault()
            assert not ended.is_set(), "the work had ended before the fault"
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        result = work()
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
    return result
