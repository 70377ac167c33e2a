"""Measures requests while one of three nodes hangs or is killed, with turbocql and its rivals.

A case is named by its fault and its client, such as "stopped turbocql". Three nodes of the embedded
Cassandra hold every row. A client, in a process and an environment of its own, sends 60 requests
per second for 40 s. After 5 s one node is stopped (SIGSTOP) or killed (SIGKILL). When the last
request has ended, the node continues or is started again, and the suite reads every acknowledged
write back. A case takes about a minute and a half. In each round a different node fails.

The outcome of each request goes to `build/bench/availability/`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from typing import IO, Any

import turbocql
from bench.harness import processes
from bench.harness.environments import BUILD, python_in
from bench.harness.processes import Failed
from bench.harness.samples import Sample
from bench.harness.servers import JVM_OPTIONS
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite, say
from bench.harness.usage import machine_ticks
from bench.suites.availability.cases import (
    CLIENTS,
    FAULT_AT_S,
    FAULTS,
    STORED,
    TABLES,
    Case,
    Load,
    named,
    value_of,
)
from bench.suites.availability.figures import figures
from bench.suites.requests.cases import CLIENTS as ENVIRONMENTS
from turbocql.testing import Cassandra, CassandraError
from turbocql.testing.node import Node

__all__ = ["SUITE"]

ROUNDS = 1
OUTCOMES = BUILD / "availability"
SPECULATION_S = 0.1
HEAP_MB = 512
BUSY = 0.5
"""If the share of busy processor time is above this, another program has probably run too."""
QUIET_S = 5.0
"""Seconds to wait after the failed node is back, before the next client."""
_ATTEMPTS = 3
"""The highest number of times that a case is measured, if the machine is busy each time."""
_IDLE_S, _IDLE_TIMEOUT_S = 5.0, 300.0
_CONNECT_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 30.0
# Cassandra's default timeouts. By default, the embedded cluster has longer ones, for slow machines.
_SERVER = {
    "read_request_timeout": "5s",
    "range_request_timeout": "10s",
    "write_request_timeout": "2s",
    "request_timeout": "10s",
}


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return list(map(str, named(patterns)))


def run(options: Options) -> Run:
    """Takes a sample of each case in each round."""
    current = Run(SUITE.file)
    cases = named(options.patterns)
    for case in cases:
        python_in(ENVIRONMENTS[case.client][0])  # A missing environment fails now, not later.
    runs = count(1)
    with Cassandra(nodes=3, heap_mb=HEAP_MB, jvm_options=JVM_OPTIONS, config=_SERVER) as cluster:
        _fill(cluster)
        for number, case in turns(cases, options.rounds or ROUNDS):
            # The last node fails first, because the first node is the cluster's seed.
            node = cluster.nodes[-1 - (number - 1) % len(cluster.nodes)]

            def sampled(number: int = number, case: Case = case, node: Node = node) -> list[Sample]:
                return [{**s, "round": number} for s in _in_quiet(cluster, node, case, runs)]

            try:
                new = current.measure(case, sampled)
            except CassandraError as error:
                current.fail(case, error)
                break
            for sample in new:
                if sample["lost_writes"]:
                    current.fail(case, f"{sample['lost_writes']} acknowledged writes are lost")
    return current


def _fill(cluster: Cassandra) -> None:
    """Creates the tables, and inserts the rows that are read."""
    with turbocql.connect(cluster.contact_points, consistency="ALL") as session:
        session.execute(
            "CREATE KEYSPACE availability WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 3}"
        )
        for statement in TABLES.values():
            session.execute(statement)
        session.execute_many(
            "INSERT INTO availability.stored (id, v) VALUES (?, ?)",
            ((key, value_of(key)) for key in range(STORED)),
        )


def _in_quiet(cluster: Cassandra, node: Node, case: Case, runs: Iterator[int]) -> list[Sample]:
    """Calls `_once`, and repeats this up to two times if the machine was busy.

    Raises: Failed if the client fails.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        _wait_until_idle()
        sample = _once(cluster, node, case, next(runs))
        say(f"{case}: {sample['in_time_all']:.2%} in time, machine {sample['busy']:.0%} busy")
        if sample["busy"] <= BUSY or not attempts_left:
            break
    return [sample]


def _wait_until_idle() -> None:
    """Waits until the processors are at most half busy, but no longer than five minutes."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    busy, in_all = 1, 1
    while busy > in_all * BUSY and time.monotonic() < deadline:
        before = machine_ticks()
        time.sleep(_IDLE_S)
        busy, in_all = (b - a for a, b in zip(before, machine_ticks(), strict=True))


def _once(cluster: Cassandra, node: Node, case: Case, run: int) -> Sample:
    """Runs one client under one fault. All nodes are up before and afterwards.

    Raises: Failed if the client fails.
    """
    fault = FAULTS[case.fault]
    load = Load(
        client=case.client,
        run=run,
        contact_points=cluster.contact_points,
        speculation_s=SPECULATION_S if fault.speculates else None,
    )
    try:
        with _client(load) as (process, errors):
            begins = _line(process, errors, _CONNECT_TIMEOUT_S)["begins"]
            time.sleep(max(0.0, begins + FAULT_AT_S - time.monotonic()))
            used = machine_ticks()
            fault_s = time.monotonic() - begins
            node.kill() if fault.kills else node.pause()
            sample = _line(process, errors, load.seconds + load.patience_s + _CLOSE_TIMEOUT_S)
            busy, in_all = (b - a for a, b in zip(used, machine_ticks(), strict=True))
            _heal(node)
    finally:
        _heal(node)
        cluster.wait_until_settled()
    outcomes = sample.pop("outcomes")
    lost = _lost_writes(cluster, load, outcomes)
    time.sleep(QUIET_S)
    number = cluster.nodes.index(node) + 1
    about = {"suite": "availability", "case": case.fault, **sample, "node": number}
    about |= {"fault_s": round(fault_s, 3), "timeout_s": load.timeout_s, "rate": load.rate}
    about["busy"] = round(busy / in_all, 3)
    _keep_outcomes(case, run, fault_s, outcomes)
    return {**about, **figures(outcomes, fault_s), "lost_writes": lost}


def _heal(node: Node) -> None:
    node.resume()
    node.start()


@contextmanager
def _client(load: Load) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Yields the client's process and its standard error. The process ends with the block."""
    python = python_in(ENVIRONMENTS[load.client][0])
    command = processes.command(python, CLIENTS[load.client], json.dumps(asdict(load)))
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            env=processes.environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield process, errors
            process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            say(f"{load.client} did not disconnect within {_CLOSE_TIMEOUT_S:g} s: ended")
        finally:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str], errors: IO[str], timeout_s: float) -> Any:
    """Returns the next line of JSON that the client prints.

    Raises: Failed if there is none in time.
    """
    assert process.stdout is not None
    alarm = threading.Timer(timeout_s, process.kill)
    alarm.start()
    try:
        line = process.stdout.readline()
    finally:
        alarm.cancel()
    if not line:
        errors.seek(0)
        lines = errors.read().strip().splitlines() or ["nothing was printed"]
        raise Failed(f"no answer within {timeout_s:g} s, or ended: {lines[-1]}")
    return json.loads(line)


def _lost_writes(cluster: Cassandra, load: Load, outcomes: list[Any]) -> int:
    """Returns how many acknowledged writes a read at QUORUM does not find."""
    with cluster.nodes[0].probe(timeout_s=60) as connection:
        rows = connection.query("SELECT id FROM availability.written", "QUORUM").rows
    keys = {int.from_bytes(key or b"", "big", signed=True) for (key,) in rows}
    return sum(
        load.row_of(number)[0] not in keys
        for number, (_, _, error, _) in enumerate(outcomes)
        if load.writes(number) and not error
    )


def _keep_outcomes(case: Case, run: int, fault_s: float, outcomes: list[Any]) -> None:
    """Writes each request's outcome to a file, which helps to find the cause of a figure."""
    OUTCOMES.mkdir(parents=True, exist_ok=True)
    path = OUTCOMES / f"{case.fault}-{case.client}-{run}.json"
    columns = ["due_s", "ended_s", "error", "is_connection_error"]
    content = {"fault_s": fault_s, "columns": columns, "requests": outcomes}
    path.write_text(json.dumps(content), encoding="utf-8")


SUITE = Suite(
    "availability",
    "requests while a node hangs or is killed: twenty minutes",
    names,
    run,
    "availability.jsonl",
)
