"""`turbocql top`: a live view of the nodes, and of the latencies that this client sees."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

import click

from ..errors import Error
from ..telemetry import Metrics
from ._cluster import node_rows
from ._connect import connection_options, opened
from ._ends import counted, escaped

__all__ = ["top"]

_LATENCIES_PER_NODE = 60
_PROBE = "SELECT key FROM system.local"
_SPARK_CHARACTERS = "▁▂▃▄▅▆▇█"


@click.command()
@click.option(
    "--every",
    "interval_s",
    type=click.FloatRange(0.1, 86_400),
    default=1.0,
    help="Seconds between looks.",
)
@click.option("--times", "count", type=click.IntRange(1), help="End after so many looks.")
@connection_options
def top(interval_s: float, count: int | None, **connection: Any) -> None:
    """Watch the nodes: their state, and how long they take for a small read.

    Ctrl-C ends it.
    """
    with opened(**connection) as session:
        probes = _NodeProbes(session)
        if not sys.stdout.isatty():
            _print_snapshots(probes, interval_s, count or 1)
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                probed = 0
                while count is None or probed < count:
                    probes.probe_nodes()
                    live.update(_screen(probes, console.width), refresh=True)
                    probed += 1
                    time.sleep(interval_s)
        except KeyboardInterrupt:
            pass


class _NodeProbes:
    """Sends small reads and keeps the latencies of each node. Each call of `probe_nodes` is one
    round of reads, and adds each node's mean latency in this round.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.latencies: dict[str, deque[float]] = {}
        self.errors: dict[str, str] = {}
        self._prepared = session.prepare(_PROBE)
        self._metrics: Metrics = session.metrics()

    def probe_nodes(self) -> None:
        """Sends one small read for each node that the cluster has had since the start. The driver,
        and not this class, chooses the coordinator of each read. The latencies come from the
        session's metrics.
        """
        for node in self.session.nodes:
            self.latencies.setdefault(node.at, deque(maxlen=_LATENCIES_PER_NODE))
        for _ in self.latencies:
            try:
                self.session.execute(self._prepared, timeout_s=2)
            except Error as error:
                self.errors["last error"] = escaped(str(error))
        metrics = self.session.metrics()
        for at, node in (metrics - self._metrics).nodes.items():
            reads = node.latencies.get("read")
            if reads is not None and reads.mean_us is not None and at in self.latencies:
                self.latencies[at].append(reads.mean_us / 1e6)
        self._metrics = metrics

    def rows(self) -> list[list[str]]:
        """The cells of the screen's table, as texts: a row for each node."""
        node_cells = []
        for row in node_rows(self.session):
            about_node = row[:4]  # the address, the datacenter, the rack, the state
            latencies = list(self.latencies.get(row[0], ()))
            last = f"{latencies[-1] * 1e3:.2f}" if latencies else "-"
            mean = f"{sum(latencies) / len(latencies) * 1e3:.2f}" if latencies else "-"
            longest = f"{max(latencies) * 1e3:.2f}" if latencies else "-"
            node_cells.append([*about_node, last, mean, longest, _sparkline(latencies)])
        return node_cells

    def summary(self) -> str:
        """This client's counts, such as the number of requests, and its latencies."""
        metrics = self._metrics
        parts = [
            counted(metrics.requests, "request"),
            counted(metrics.failures, "failure"),
            f"{metrics.retries:,} {'retry' if metrics.retries == 1 else 'retries'}",
            counted(sum(metrics.timeouts.values()), "timeout"),
            counted(metrics.connections, "connection"),
        ]
        latency = metrics.latency
        p50_us, p99_us = latency.quantile_us(0.5), latency.quantile_us(0.99)
        if p50_us is not None and p99_us is not None:
            parts.append(f"p50 {p50_us / 1e3:.2f} ms, p99 {p99_us / 1e3:.2f} ms")
        return ", ".join(parts)


_HEAD = ["node", "datacenter", "rack", "state", "last ms", "mean ms", "max ms", "latency"]


def _sparkline(latencies: list[float]) -> str:
    recent = latencies[-20:]
    longest = max(recent, default=0.0)
    if not longest:
        return ""
    return "".join(_SPARK_CHARACTERS[min(7, int(8 * latency / longest))] for latency in recent)


def _print_snapshots(probes: _NodeProbes, interval_s: float, count: int) -> None:
    from ._show import print_rows

    for number in range(count):
        if number:
            time.sleep(interval_s)
        probes.probe_nodes()
        print_rows(_HEAD[:-1], [row[:-1] for row in probes.rows()])
        print(probes.summary(), flush=True)


def _screen(probes: _NodeProbes, width: int) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, expand=False)
    # A narrow screen drops columns in this order.
    dispensable_names = ["rack", "datacenter", "max ms", "latency", "mean ms"]
    names = list(_HEAD)
    rows = probes.rows()
    while (
        sum(_column_width(rows, _HEAD.index(name), name) + 2 for name in names) > width
        and dispensable_names
    ):
        names.remove(dispensable_names.pop(0))
    for name in names:
        table.add_column(name, justify="right" if name.endswith("ms") else "left", no_wrap=True)
    colors = {"up": "green", "down": "red", "silent": "yellow", "not used": "dim"}
    for row in rows:
        cells = [Text(row[_HEAD.index(name)]) for name in names]
        cells[names.index("state")].stylize(colors[row[3]])
        table.add_row(*cells)
    parts: list[Any] = [Text("turbocql top", style="bold"), Text(""), table, Text("")]
    parts.append(Text(probes.summary()))
    parts += [Text(f"{title}: {text}", style="red") for title, text in probes.errors.items()]
    parts += [Text(""), Text("Ctrl-C ends it.", style="dim")]
    return Group(*parts)


def _column_width(rows: list[list[str]], at: int, name: str) -> int:
    return max([len(name), *(len(row[at]) for row in rows)])
