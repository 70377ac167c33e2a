"""`turbocql top`: a live view of the nodes, and of the latencies that this client sees."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

import click

from ..errors import Error
from ._cluster import node_rows
from ._connect import connection_options, opened
from ._ends import counted, plain

__all__ = ["top"]

_KEPT = 60
_PROBE = "SELECT key FROM system.local"
_MARKS = "▁▂▃▄▅▆▇█"


@click.command()
@click.option(
    "--every", type=click.FloatRange(0.1, 86_400), default=1.0, help="Seconds between looks."
)
@click.option("--times", type=click.IntRange(1), help="End after so many looks.")
@connection_options
def top(every: float, times: int | None, **connection: Any) -> None:
    """Watch the nodes: their state, and how long they take for a small read.

    Ctrl-C ends it.
    """
    with opened(**connection) as session:
        looks = _Looks(session)
        if not sys.stdout.isatty():
            _lines(looks, every, times or 1)
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        try:
            with Live(console=console, screen=True, auto_refresh=False) as live:
                seen = 0
                while times is None or seen < times:
                    looks.look()
                    live.update(_screen(looks, console.width), refresh=True)
                    seen += 1
                    time.sleep(every)
        except KeyboardInterrupt:
            pass


class _Looks:
    """What was seen of the cluster so far."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.latencies: dict[str, deque[float | None]] = {}
        self.errors: dict[str, str] = {}
        self._prepared = session.prepare(_PROBE)
        self._began = time.monotonic()

    def look(self) -> None:
        """Asks a node for each node that is known."""
        for node in self.session.nodes:
            host = f"[{node.address}]" if ":" in str(node.address) else str(node.address)
            self.latencies.setdefault(f"{host}:{node.port}", deque(maxlen=_KEPT))
        for _ in self.latencies:
            began = time.perf_counter()
            try:
                rows = self.session.execute(self._prepared, timeout_s=2)
            except Error as error:
                self.errors["last error"] = plain(str(error))
                continue
            took = time.perf_counter() - began
            kept = self.latencies.get(rows.coordinator or "")
            if kept is not None:
                kept.append(took)

    def rows(self) -> list[list[str]]:
        """A row of text for each node."""
        made = []
        for address, datacenter, rack, state, _, _, _ in node_rows(self.session):
            kept = [it for it in self.latencies.get(address, ()) if it is not None]
            last = f"{kept[-1] * 1e3:.2f}" if kept else "-"
            mean = f"{sum(kept) / len(kept) * 1e3:.2f}" if kept else "-"
            most = f"{max(kept) * 1e3:.2f}" if kept else "-"
            made.append([address, datacenter, rack, state, last, mean, most, _sparks(kept)])
        return made

    def summary(self) -> str:
        """The counts of this client."""
        now = self.session.metrics()
        parts = [
            counted(now.requests, "request"),
            counted(now.failures, "failure"),
            f"{now.retries:,} {'retry' if now.retries == 1 else 'retries'}",
            counted(now.timeouts, "timeout"),
            counted(now.connections, "connection"),
        ]
        if now.latency is not None:
            parts.append(f"p50 {now.latency.p50_ms} ms, p99 {now.latency.p99_ms} ms")
        return ", ".join(parts)


_HEAD = ["node", "datacenter", "rack", "state", "last ms", "mean ms", "max ms", "latency"]


def _sparks(kept: list[float]) -> str:
    recent = kept[-20:]
    most = max(recent, default=0.0)
    if not most:
        return ""
    return "".join(_MARKS[min(7, int(8 * it / most))] for it in recent)


def _lines(looks: _Looks, every: float, times: int) -> None:
    from ._show import printed

    for nth in range(times):
        if nth:
            time.sleep(every)
        looks.look()
        printed(_HEAD[:-1], [row[:-1] for row in looks.rows()])
        print(looks.summary(), flush=True)


def _screen(looks: _Looks, width: int) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, expand=False)
    # On a narrow screen, what can be missed first goes first.
    left = ["rack", "datacenter", "max ms", "latency", "mean ms"]
    names = list(_HEAD)
    rows = looks.rows()
    while sum(_wide(rows, _HEAD.index(name), name) + 2 for name in names) > width and left:
        names.remove(left.pop(0))
    for name in names:
        table.add_column(name, justify="right" if name.endswith("ms") else "left", no_wrap=True)
    colors = {"up": "green", "down": "red", "silent": "yellow", "not used": "dim"}
    for row in rows:
        cells = [Text(row[_HEAD.index(name)]) for name in names]
        cells[names.index("state")].stylize(colors[row[3]])
        table.add_row(*cells)
    parts: list[Any] = [Text("turbocql top", style="bold"), Text(""), table, Text("")]
    parts.append(Text(looks.summary()))
    parts += [Text(f"{what}: {text}", style="red") for what, text in looks.errors.items()]
    parts += [Text(""), Text("Ctrl-C ends it.", style="dim")]
    return Group(*parts)


def _wide(rows: list[list[str]], at: int, name: str) -> int:
    return max([len(name), *(len(row[at]) for row in rows)])
