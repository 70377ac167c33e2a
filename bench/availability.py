"""Requests while one of three nodes hangs or is killed: turbocql beside other drivers.

    .venv/bin/python bench/availability.py [PATTERN...] [--rounds N] [--keep]

A pattern is words of "fault client", such as "stopped turbocql"; `--list` lists the cases. Three
nodes of the embedded Cassandra hold every row. A client, in a process and an environment of its
own, gets 60 requests per second for 40 s. After 5 s one node is stopped (SIGSTOP) or killed
(SIGKILL), and stays so until the last request has ended. Then the cluster is made whole, and every
acknowledged write is looked for. A case takes about a minute and a half.

Samples go to `build/bench/availability.jsonl`, the outcome of each request to
`build/bench/availability/`, and the page to `build/bench/availability.md`. With `--keep`, the
samples also replace those of the same faults in `bench/samples/`, and the page in `docs/` is
written from there. Another round has another node fail.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import IO, Any

import report_availability
from availability_cases import (
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
from availability_figures import figures
from codec_environments import BUILD, HERE, ROOT, keep_samples
from end_to_end_cases import CLIENTS as ENVIRONMENTS

import turbocql
from turbocql.testing import Cassandra, CassandraError
from turbocql.testing.node import Node

__all__ = ["main"]

ROUNDS = 1
SAMPLES = BUILD / "availability.jsonl"
OUTCOMES = BUILD / "availability"
SPECULATION_S = 0.1
HEAP_MB = 512
BUSY = 0.5
"""The share of the machine's processor time beyond which something else ran, too."""
QUIET_S = 5.0
"""Seconds between a cluster that is whole again and the next client."""
_ATTEMPTS = 3
"""How often a case is measured until the machine is not busy meanwhile."""
_IDLE_S, _IDLE_TIMEOUT_S = 5.0, 300.0
_CONNECT_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 30.0
# Cassandra's defaults; the embedded cluster's own are longer, for tests on slow machines.
_SERVER = {
    "read_request_timeout": "5s",
    "range_request_timeout": "10s",
    "write_request_timeout": "2s",
    "request_timeout": "10s",
}

Sample = dict[str, Any]


class Failed(Exception):
    """A client did not do what was asked of it."""


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", help="words of cases' names")
    parser.add_argument("--list", action="store_true", help="print the names, measure nothing")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--keep", action="store_true", help="keep samples, write docs/")
    given = parser.parse_args()
    cases = named(given.patterns)
    if not cases:
        raise SystemExit(f"no case has all the words of {given.patterns}; --list lists all")
    if given.list:
        print("\n".join(map(str, cases)))
        return
    missing = {case.client for case in cases if not _python(case.client).exists()}
    if missing:
        raise SystemExit(
            f"no environment for {', '.join(sorted(missing))}: make bench-availability"
        )
    samples, failures = measure(cases, given.rounds)
    if samples:
        report_availability.write(SAMPLES, BUILD / "availability.md")
        if given.keep:
            keep_samples(report_availability.SAMPLES, samples)
            report_availability.write()
    print("\n".join(report_availability.tables(samples)))
    for failure in failures:
        print(f"FAILED {failure}")
    sys.exit(bool(failures))


def measure(cases: list[Case], rounds: int) -> tuple[list[Sample], list[str]]:
    """A sample of each case and round, and what went wrong."""
    samples: list[Sample] = []
    failures: list[str] = []
    runs = count(1)
    with Cassandra(nodes=3, heap_mb=HEAP_MB, config=_SERVER) as cluster:
        _fill(cluster)
        for number in range(rounds):
            # The last node first: the first node is the cluster's seed.
            node = cluster.nodes[-1 - number % len(cluster.nodes)]
            # And back every second time: nobody always comes after the same one.
            for case in cases if number % 2 == 0 else reversed(cases):
                try:
                    sample = _in_quiet(cluster, node, case, runs)
                except (Failed, CassandraError) as error:
                    failures.append(f"{case}: {error}")
                    _say(f"FAILED {failures[-1]}")
                    if isinstance(error, CassandraError):
                        return samples, failures
                    continue
                samples.append({**sample, "round": number + 1})
                keep_samples(SAMPLES, samples)  # now, so that a run that is ended leaves them
                if sample["lost_writes"]:
                    failures.append(f"{case}: {sample['lost_writes']} acknowledged writes are lost")
    return samples, failures


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _python(client: str) -> Any:
    return ROOT / ENVIRONMENTS[client][0] / "bin" / "python"


def _fill(cluster: Cassandra) -> None:
    """The tables, and the rows that are read."""
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


def _in_quiet(cluster: Cassandra, node: Node, case: Case, runs: Iterator[int]) -> Sample:
    """As `_once`, and again while something else runs on the machine, a few times.

    Raises: Failed.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        _wait_until_idle()
        sample = _once(cluster, node, case, next(runs))
        _say(f"{case}: {sample['in_time_all']:.2%} in time, machine {sample['busy']:.0%} busy")
        if sample["busy"] <= BUSY or not attempts_left:
            break
    return sample


def _wait_until_idle() -> None:
    """Waits, for a limited time, until the processors have little else to do."""
    deadline = time.monotonic() + _IDLE_TIMEOUT_S
    busy, in_all = 1, 1
    while busy > in_all * BUSY and time.monotonic() < deadline:
        before = _processor_ticks()
        time.sleep(_IDLE_S)
        busy, in_all = (b - a for a, b in zip(before, _processor_ticks(), strict=True))


def _once(cluster: Cassandra, node: Node, case: Case, run: int) -> Sample:
    """One client under one fault; the cluster is whole before and after.

    Raises: Failed.
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
            used = _processor_ticks()
            fault_s = time.monotonic() - begins
            node.kill() if fault.kills else node.pause()
            told = _line(process, errors, load.seconds + load.patience_s + _CLOSE_TIMEOUT_S)
            busy, in_all = (b - a for a, b in zip(used, _processor_ticks(), strict=True))
            _heal(node)
    finally:
        _heal(node)
        cluster.wait_until_settled()
    outcomes = told.pop("outcomes")
    lost = _lost_writes(cluster, load, outcomes)
    time.sleep(QUIET_S)
    number = cluster.nodes.index(node) + 1
    about = {"suite": "availability", "case": case.fault, **told, "node": number}
    about |= {"fault_s": round(fault_s, 3), "timeout_s": load.timeout_s, "rate": load.rate}
    about["busy"] = round(busy / in_all, 3)
    _keep_outcomes(case, run, fault_s, outcomes)
    return {**about, **figures(outcomes, fault_s), "lost_writes": lost}


def _processor_ticks() -> tuple[int, int]:
    """Busy and all ticks of the machine's processors since it was started."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _heal(node: Node) -> None:
    node.resume()
    node.start()


@contextmanager
def _client(load: Load) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """The client's process, and the file of its standard error. It has ended after the block."""
    command = [str(_python(load.client)), CLIENTS[load.client], json.dumps(asdict(load))]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=HERE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield process, errors
            process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _say(f"{load.client} did not disconnect within {_CLOSE_TIMEOUT_S:g} s: ended")
        finally:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str], errors: IO[str], timeout_s: float) -> Any:
    """The next line of JSON that the client prints.

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
        said = errors.read().strip().splitlines() or ["nothing"]
        raise Failed(f"no answer within {timeout_s:g} s, or ended; last said: {said[-1]}")
    return json.loads(line)


def _lost_writes(cluster: Cassandra, load: Load, outcomes: list[Any]) -> int:
    """How many acknowledged writes a read at QUORUM does not find."""
    with cluster.nodes[0].probe(timeout_s=60) as connection:
        rows = connection.query("SELECT id FROM availability.written", "QUORUM").rows
    found = {int.from_bytes(key or b"", "big", signed=True) for (key,) in rows}
    return sum(
        load.row_of(number)[0] not in found
        for number, (_, _, error, _) in enumerate(outcomes)
        if load.writes(number) and not error
    )


def _keep_outcomes(case: Case, run: int, fault_s: float, outcomes: list[Any]) -> None:
    """The outcome of each request, for who looks for the cause of a figure."""
    OUTCOMES.mkdir(parents=True, exist_ok=True)
    path = OUTCOMES / f"{case.fault}-{case.client}-{run}.json"
    columns = ["due_s", "ended_s", "error", "is_connection_error"]
    told = {"fault_s": fault_s, "columns": columns, "requests": outcomes}
    path.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
