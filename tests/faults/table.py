"""Writes the table of the faults and the lines of the audit as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.faults.audit import Line
from tests.faults.records import Call, Window

__all__ = ["LEGEND", "Table", "lines_table"]

LEGEND = """\
A call that was in flight during several faults is counted at each. An `execute_many` with a failed
row does not count as answered, and each failed row counts as an error. The effect is the number of
connections, frames, bytes, nodes or statements that the faults hit. The column "in flight" has the
mean number of calls in flight during faults of this kind."""

_SHOWN = 12
"""The maximum number of violations that are shown for one line of the audit."""


@dataclass
class _Row:
    calls: int = 0
    answered: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    slowest: Call | None = None
    slowest_s: float = 0.0
    in_flight_s: float = 0.0
    """The sum of the times, in seconds, for which calls were in flight during faults of this
    kind."""


class Table:
    """Counts, for each kind of fault, the calls that were in flight during such a fault."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self._windows = sorted(windows, key=lambda window: window.begun)
        self._rows: dict[str, _Row] = {}
        for window in self._windows:
            self._rows.setdefault(window.kind, _Row())
        self._total = _Row()

    def take(self, call: Call) -> None:
        """Counts a call."""
        self._count(self._total, call)
        met = [window for window in self._windows if window.covers(call)]
        for kind in {window.kind for window in met}:
            self._count(self._rows[kind], call)
        for window in met:
            ended = window.ended if call.ended is None else min(call.ended, window.ended)
            self._rows[window.kind].in_flight_s += ended - max(call.begun, window.begun)

    def markdown(self) -> str:
        """Returns the table as Markdown. `LEGEND` explains the table."""
        names = "fault, times, seconds, effect, in flight, calls, answered, errors, slowest"
        lines = [f"| {names.replace(', ', ' | ')} |", "|---|--:|--:|--:|--:|--:|--:|---|---|"]
        for kind, row in self._rows.items():
            windows = [window for window in self._windows if window.kind == kind]
            seconds = sum(window.ended - window.begun for window in windows)
            effects = [int(window.effect) for window in windows if window.effect.isdigit()]
            effect = f"{sum(effects):,}" if effects else ""
            in_flight = f"{row.in_flight_s / seconds:.0f}" if seconds else ""
            lines.append(_line([kind, f"{len(windows)}", f"{seconds:.0f}", effect, in_flight], row))
        lines.append(_line(["all", "", "", "", ""], self._total))
        return "\n".join(lines)

    def _count(self, row: _Row, call: Call) -> None:
        row.calls += 1
        if call.answered and not call.about.get("failed"):
            row.answered += 1
        for _, error, _, _ in call.about.get("failed", []):
            row.errors[error] += 1
        if call.error is not None or call.ended is None:
            row.errors[call.error or "never ended"] += 1
        took = float("inf") if call.ended is None else call.ended - call.begun
        if took > row.slowest_s:
            row.slowest_s, row.slowest = took, call


def _line(first: list[str], row: _Row) -> str:
    share = f"{row.answered / row.calls:.2%}" if row.calls else ""
    errors = ", ".join(f"{name} {count:,}" for name, count in row.errors.most_common())
    slowest = ""
    if row.slowest is not None:
        slowest = f"{row.slowest_s:.2f} s of {row.slowest.timeout_s:g} s ({row.slowest.kind})"
    cells = [*first, f"{row.calls:,}", share, errors, slowest]
    return "| " + " | ".join(cells) + " |"


def lines_table(lines: Iterable[Line]) -> str:
    """Returns a table of the audit's lines with their counts. The violations follow the table."""
    rows, details = ["| audited | cases | violations |", "|---|--:|--:|"], []
    for line in lines:
        rows.append(f"| {line.name} | {line.checked:,} | {len(line.violations):,} |")
        if line.violations:
            left = len(line.violations) - _SHOWN
            details += ["", f"**{line.name}**: {len(line.violations):,} violations", ""]
            details += [f"- {violation}" for violation in line.violations[:_SHOWN]]
            if left > 0:
                details.append(f"- and {left:,} more")
    return "\n".join([*rows, *details])
