"""Runs the audit: starts nodes, proxies and the workload, injects faults, and judges the calls.

The workload, called "the load", runs in its own process (`load.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.audit import (
    Audit,
    Line,
    Recovery,
    judge_effects,
    judge_samples,
    judge_serial,
)
from tests.faults.calls import CONNECT_S, SESSION_S
from tests.faults.child import Child, ChildError
from tests.faults.faults import REHEARSAL, Injector, Step
from tests.faults.records import Sample, Window, read_calls, sample_of
from tests.faults.sessions import judge_logged
from tests.faults.state import State, read_state
from tests.faults.stored import (
    ASIDE_TABLE,
    KEYSPACE,
    TABLES,
    WIDE,
    WIDE_ROWS,
    aside,
    value_of,
)
from tests.faults.table import LEGEND, Table, lines_table

import turbocql
from turbocql.testing import Cassandra

__all__ = ["CLUSTER", "JVM", "Report", "Times", "run"]

CLUSTER: dict[str, Any] = {
    # A node acknowledges a write only after the write is in the commit log on disk. With the
    # default, "periodic", a killed node loses acknowledged writes and Paxos promises of the last
    # 100 ms.
    "commitlog_sync": "batch",
    "commitlog_sync_period": "0ms",
    "concurrent_reads": 32,
    "concurrent_writes": 64,
    "concurrent_counter_writes": 32,
    # Some of these limits are 1 s or 2 s. They are shorter than the time limits of the calls, so
    # that calls also end with timeouts of the server.
    "read_request_timeout": "2s",
    "range_request_timeout": "4s",
    "write_request_timeout": "2s",
    "counter_write_request_timeout": "2s",
    "cas_contention_timeout": "1s",
    # Version 2 of Paxos needs fewer round trips, and its reads do not compete with updates.
    "paxos_variant": "v2",
    "request_timeout": "4s",
    "prepared_statements_cache_size": "1MiB",
}
"""The node settings that differ from the defaults of `turbocql.testing`."""

_KEYSPACE = "faults"
_IN_FLIGHT = 200
_HEAP_MB = 512
JVM = (
    # With this setting, a node that was paused during a schema change requests the schema after
    # 0.5 s and not after a minute, which is the default.
    "-Dcassandra.migration_delay_ms=500",
    # Nodes need not flush schema changes to disk, because the commit log has them.
    "-Dcassandra.flush_local_schema_changes=false",
)
_POLL_S = 0.2
_NAMED = 20
"""The maximum number of calls that the report shows."""
_STEADY = 5
"""The resources are steady when a sample equals this many samples before it, except for
`rss_mib`."""


@dataclass(frozen=True)
class Times:
    """How long the parts of a run take, in seconds."""

    warm_up_s: float
    """The time until the load has allocated what it keeps: thread stacks, allocator pages and
    prepared statements."""
    before_s: float
    after_s: float
    """The time after the end of all faults. Nearly all calls that begin in this time must be
    answered."""
    recover_s: float
    """The limit for the sessions to reconnect to all nodes, and for their resources to return to
    the values of the first sample."""


@dataclass(frozen=True)
class Report:
    """The result of a run."""

    table: str
    lines: list[Line]
    named: list[str]
    """The records of calls whose numbers are in the texts of violations: at most `_NAMED`
    records."""

    @property
    def violations(self) -> int:
        """The number of violations in all lines."""
        return sum(len(line.violations) for line in self.lines)

    def markdown(self, seed: str) -> str:
        """Returns the seed, the table, the lines of the audit, and `named` as Markdown."""
        parts = [f"Seed: {seed}", self.table, LEGEND, lines_table(self.lines)]
        return "\n\n".join([*parts, *(f"- {call}" for call in self.named)]) + "\n"


def run(
    seed: str,
    steps: Iterable[Step],
    times: Times,
    folder: Path,
    say: Callable[[str], None],
) -> Report:
    """Runs the load, and injects the faults of `steps` at the same time. Then audits the calls.

    The records of the calls are written into `folder`.
    """
    with Cassandra(nodes=3, heap_mb=_HEAP_MB, config=CLUSTER, jvm_options=JVM) as cluster:
        points = cluster.contact_points
        with Child("tests.faults.proxy", folder, seed, *points) as proxies:
            ports = proxies.ask("ports")["ports"]
            proxied = {
                node.address: f"{node.address}:{port}"
                for node, port in zip(cluster.nodes, ports, strict=True)
            }
            _make_tables(points)
            return _Run(seed, times, folder, say, cluster, proxies, proxied).all(steps)


class _Run:
    def __init__(
        self,
        seed: str,
        times: Times,
        folder: Path,
        say: Callable[[str], None],
        cluster: Cassandra,
        proxies: Child,
        proxied: dict[str, str],
    ) -> None:
        self._times = times
        self._folder = folder
        self._say = say
        self._cluster = cluster
        self._log = folder / "calls.jsonl"
        self._seed = seed
        self._proxies = proxies
        self._settings = {
            "seed": seed,
            "keyspace": _KEYSPACE,
            "in_flight": _IN_FLIGHT,
            "connect_timeout_s": CONNECT_S,
            "log": str(self._log),
            "session": {
                "contact_points": list(proxied.values()),
                "addresses": proxied,
                "consistency": "QUORUM",
                "serial_consistency": "SERIAL",
                "timeout_s": SESSION_S,
                "prepared_cache_size": 64,
                "keepalive_interval_s": 4.0,
                "keepalive_timeout_s": 4.0,
            },
        }
        self._lines: list[Line] = []

    def all(self, steps: Iterable[Step]) -> Report:
        with Child("tests.faults.load", self._folder, json.dumps(self._settings)) as load:
            injector = Injector(self._cluster, self._proxies, load, _KEYSPACE, self._seed)
            windows = injector.windows
            try:
                before, after = self._under_load(load, injector, steps)
            except ChildError:
                load.abort()
                self._say(load.complaints())
                raise
            complaints = load.complaints() + self._proxies.complaints()
        # The injector makes some faults, such as schema changes, through calls of the load. If such
        # a call hangs, or a statement fails in all its tries, `injector.failures` says so.
        self._none("faults that are calls, such as schema changes, are made", injector.failures)
        silent = "the processes of load and proxies report no failure"
        self._none(silent, [complaints] if complaints else [])
        self._lines += [*judge_samples(before, after)]
        return self._audited(windows)

    def _under_load(
        self, load: Child, injector: Injector, steps: Iterable[Step]
    ) -> tuple[Sample, Sample]:
        load.ask("begin", within_s=60)
        load.ask("go")
        begun = time.monotonic()
        time.sleep(self._times.warm_up_s / 2)
        # After the first errors, the allocators keep memory. The rehearsal causes errors before the
        # first sample, so that the first sample already includes this memory.
        injector.run(REHEARSAL)
        self._recovered(load, "before the faults")
        time.sleep(self._times.warm_up_s / 2)
        self._quiet(load, "every call ends when the load pauses before the faults")
        before = self._steady_sample(load)
        load.ask("go")
        again = time.monotonic()
        time.sleep(self._times.before_s)
        injector.windows.append(Window("none, before", "", again, time.monotonic()))
        for step in steps:
            look = load.ask("look")
            self._say(
                f"{time.monotonic() - begun:7.1f} s  {look['answered']:9,} answered"
                f" {look['failed']:9,} failed {look['rss_mib']:4.0f} MiB "
                f" {' and '.join(map(str, step.faults))}"
            )
            injector.run(step)
        load.ask("pace", seconds=0)
        injector.heal()
        self._say(f"{time.monotonic() - begun:7.1f} s  healed")
        self._recovered(load, "after the faults")
        healthy = time.monotonic()
        time.sleep(self._times.after_s)
        injector.windows.append(Window("none, after", "", healthy, time.monotonic()))
        self._quiet(load, "every call ends when the load pauses after the faults")
        after = self._settled_sample(load, before)
        report = load.ask("report")
        self._none("the figures of the sessions add up", report["wrong"])
        self._lines.append(judge_logged(injector.windows, report["logged"]))
        ended = load.ask("stop", within_s=60)
        self._none("every call ends when the load ends", ended["hung"])
        self._none("no caller of the load fails", ended["failures"])
        return before, after

    def _quiet(self, load: Child, name: str) -> None:
        self._none(name, load.ask("pause", within_s=60)["open"])

    def _none(self, name: str, failures: list[str]) -> None:
        """Adds a line to the report for one case, which must have no failures."""
        self._lines.append(Line(name, 1, failures))

    def _steady_sample(self, load: Child) -> Sample:
        """Takes samples until one equals the `_STEADY` samples before it, and returns this sample.

        The comparison ignores `rss_mib`. If no sample meets the condition within `recover_s`, the
        method returns the latest sample.
        """
        deadline, equal, last = time.monotonic() + self._times.recover_s, 0, None
        while True:
            sample = sample_of(load.ask("sample"))
            equal = equal + 1 if last == replace(sample, rss_mib=0) else 0
            last = replace(sample, rss_mib=0)
            if equal == _STEADY or time.monotonic() > deadline:
                return sample
            time.sleep(_POLL_S)

    def _settled_sample(self, load: Child, expected: Sample) -> Sample:
        """Takes samples until `judge_samples` finds no violation against the sample `expected`.

        Returns the sample without a violation. If there is none within `recover_s`, the method
        returns the latest sample.
        """
        deadline = time.monotonic() + self._times.recover_s
        while True:
            sample = sample_of(load.ask("sample"))
            good = not any(line.violations for line in judge_samples(expected, sample))
            if good or time.monotonic() > deadline:
                return sample
            time.sleep(_POLL_S)

    def _recovered(self, load: Child, when: str) -> None:
        line = Line(f"the sessions are connected to all nodes {when}")
        begun = time.monotonic()
        while True:
            connected = load.ask("look")["connected"]
            waited = time.monotonic() - begun
            if connected == [3, 3] or waited > self._times.recover_s:
                break
            time.sleep(_POLL_S)
        self._say(f"connected to all nodes {when}, after {waited:.1f} s")
        for api, count in zip(("sync", "async"), connected, strict=True):
            line.check(
                None
                if count == 3
                else f"after {waited:.0f} s, the {api} session is connected to {count} of 3 nodes"
            )
        self._lines.append(line)

    def _audited(self, windows: list[Window]) -> Report:
        audit, table, recovery = Audit(windows), Table(windows), Recovery(windows)
        for call in read_calls(self._log):
            for part in (audit, table, recovery):
                part.take(call)
        begun = time.monotonic()
        told = self._read_serial(audit)
        state = read_state(self._cluster, _KEYSPACE, aside(_KEYSPACE), audit.rows)
        read = time.monotonic()
        lines = audit.judge(state)
        lines += [judge_serial(state, told), self._scan(audit, state)]
        self._say(
            f"{len(state.writes):,} rows read in {read - begun:.1f} s without the driver, and in"
            f" {time.monotonic() - read:.1f} s by the driver"
        )
        lines += [*recovery.judge(), judge_effects(windows), *self._lines]
        named = set(audit.named[:_NAMED])
        calls = [str(call) for call in read_calls(self._log) if named and call.number in named]
        return Report(table.markdown(), lines, calls)

    def _read_serial(self, audit: Audit) -> dict[int, int | None]:
        """Reads claims and chains (see `calls.py`) at SERIAL. Returns the winners of the claims.

        The reads also complete Paxos rounds that are in progress.
        """
        claims, chains = audit.condition_keys()
        with turbocql.connect(self._cluster.contact_points, timeout_s=30) as session:
            for table, column, keys in (
                ("chains", "version", chains),
                ("claims", "winner", claims),
            ):
                report = session.execute_many(
                    f"SELECT {column} FROM {_KEYSPACE}.{table} WHERE key = ?",
                    [(key,) for key in keys],
                    concurrency=32,
                    consistency="SERIAL",
                    results=True,
                    # The nodes share few processors, so some Paxos rounds take long. Reads that
                    # time out are repeated.
                    retry_for_s=60,
                )
        assert report.results is not None
        rows = (result.one() for result in report.results)
        winners = (None if row is None else row.winner for row in rows)
        return dict(zip(claims, winners, strict=True))

    def _scan(self, audit: Audit, state: State) -> Line:
        """Reads all rows of `writes` page by page with turbocql, and judges the rows."""
        with turbocql.connect(self._cluster.contact_points, timeout_s=30) as session:
            rows = session.execute(
                f"SELECT id, value, note FROM {_KEYSPACE}.writes",
                consistency="QUORUM",
                page_size=1000,
                rows="tuple",
            )
            return audit.judge_scan(state, rows)


def _make_tables(points: list[str]) -> None:
    with turbocql.connect(points, timeout_s=30) as session:
        for name, tables in ((_KEYSPACE, TABLES), (aside(_KEYSPACE), (ASIDE_TABLE,))):
            session.execute(KEYSPACE.format(name))
            for table in tables:
                session.execute(f"CREATE TABLE {name}.{table}")
        session.execute_many(
            f"INSERT INTO {_KEYSPACE}.wide (part, place, value) VALUES (?, ?, ?)",
            ((part, place, value_of(place)) for part in range(WIDE) for place in range(WIDE_ROWS)),
            consistency="ALL",
        )
