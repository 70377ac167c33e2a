"""What the checks of all engines share: tables, faults, and the process that has the nodes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.engines.rows import TABLE, Sums, expected, sums_of_arrow, total

import turbocql

POINTS = sys.argv[1].split(",") if len(sys.argv) > 1 else []
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
CONFIG = turbocql.Config(contact_points=POINTS) if POINTS else turbocql.Config()
PORT = int(POINTS[0].rpartition(":")[2]) if POINTS else 9042
EXPECTED = expected(ROWS)


def said(name: str, began: float, more: str = "") -> None:
    """A line for who runs the checks."""
    print(f"{name}: {time.time() - began:.1f} s{more and f', {more}'}", flush=True)


def new_table(name: str) -> str:
    """An empty table for the rows."""
    with turbocql.connect(config=CONFIG) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS engines WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        session.execute(f"DROP TABLE IF EXISTS engines.{name}")
        session.execute(TABLE.format(f"engines.{name}"))
    return f"engines.{name}"


def sums_of_table(table: str) -> Sums:
    """What a table adds up to, read by a session of this process."""
    import pyarrow as pa

    with turbocql.connect(config=CONFIG) as session:
        return total(sums_of_arrow(pa.record_batch(it)) for it in session.scan(table).batches())


def write_times(table: str) -> set[int]:
    """The write times of all cells of a table."""
    times: set[int] = set()
    with turbocql.connect(config=CONFIG) as session:
        asked = f"SELECT writetime(bucket), writetime(name), writetime(emb) FROM {table}"
        for page in session.execute(asked, rows="tuple").pages():
            for row in page:
                times.update(row)
    return times


def check_table(table: str, *, has_one_time: bool = True) -> None:
    """The table has the generator's rows, written at one time."""
    assert sums_of_table(table) == EXPECTED, (sums_of_table(table), EXPECTED)
    if has_one_time:
        times = write_times(table)
        assert len(times) == 1, len(times)


def refused(work: Callable[[], Any], kind: type[Exception], what: str) -> str:
    """The error of something that must fail with these words."""
    try:
        work()
    except kind as error:
        said = str(error)
        assert what in said, said
        return said
    raise AssertionError(f"expected {kind.__name__}: {what}")


# Faults


def _sockets() -> set[str]:
    """The inodes of the connections of this machine to the nodes."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == PORT and fields[3] == "01":
            found.add(fields[9])
    return found


def workers(name: str) -> list[int]:
    """The processes with this in their command lines that have connections to the nodes."""
    there, made = _sockets(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if name not in command or int(process.name) == os.getpid():
                continue
            links = [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith("socket:[") and link[8:-1] in there for link in links):
            made.append(int(process.name))
    return made


def during(fault: Callable[[], None], work: Callable[[], Any]) -> Any:
    """Does something to workers or nodes while work goes on; the work must not end before it."""
    done = threading.Event()
    failed: list[BaseException] = []

    def beside() -> None:
        try:
            fault()
            assert not done.is_set(), "the work had ended before the fault"
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        made = work()
    finally:
        done.set()
        thread.join()
    if failed:
        raise failed[0]
    return made


def _when_working(name: str, after_s: float, act: Callable[[], None]) -> Callable[[], None]:
    """Does something when workers have worked for so long."""

    def fault() -> None:
        until = time.time() + 120
        while not workers(name):
            assert time.time() < until, f"no process {name} has connections"
            time.sleep(0.02)
        time.sleep(after_s)
        act()

    return fault


def worker_killed(name: str, after_s: float = 1.0) -> Callable[[], None]:
    """Kills the workers when they have worked for so long."""

    def kill() -> None:
        # All that have connections, because one of them may be waiting for work.
        victims = workers(name)
        assert victims, "the workers have ended"
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        print(f"killed {len(victims)} workers", flush=True)

    return _when_working(name, after_s, kill)


def node_killed(name: str, after_s: float = 1.0) -> Callable[[], None]:
    """Kills a node when workers have worked for so long."""
    return _when_working(name, after_s, lambda: ask("kill 1"))


def check_faults(
    engine: str,
    worker: str,
    table: str,
    read: Callable[[str], Sums],
    write: Callable[[str], None],
    write_s: float = 2.0,
) -> None:
    """Workers and a node are killed while an engine reads a table, and while it writes others."""

    def reads(fault: Callable[[], None]) -> None:
        made = during(fault, lambda: read(table))
        assert made == EXPECTED, made

    def writes(fault: Callable[[], None], name: str) -> None:
        other = new_table(name)
        during(fault, lambda: write(other))
        check_table(other)

    began = time.time()
    reads(worker_killed(worker, 0.5))
    said(f"{engine} reads, a worker is killed", began)
    began = time.time()
    writes(worker_killed(worker, write_s), f"{engine}_worker")
    said(f"{engine} writes, a worker is killed", began)
    began = time.time()
    with node_started():
        writes(node_killed(worker, write_s), f"{engine}_node")
        said(f"{engine} writes, a node is killed", began)
    began = time.time()
    with node_started():
        reads(node_killed(worker, 0.5))
        said(f"{engine} reads, a node is killed", began)


_asking = threading.Lock()


def ask(what: str) -> None:
    """Asks the process that has the nodes: `kill N`, `start N`."""
    with _asking:
        print(f"! {what}", flush=True)
        answer = sys.stdin.readline().strip()
        assert answer == "done", answer


@contextmanager
def node_started() -> Iterator[None]:
    """Starts the killed node again afterwards."""
    try:
        yield
    finally:
        ask("start 1")
