"""The tables of the suite `availability`, in which a node fails: one for each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bench.harness.samples import Sample
from bench.harness.spread import Spread, number
from bench.report.markdown import about, table
from bench.suites.availability.cases import CLIENTS, FAULTS, IN_TIME_S, JUST_AFTER_S

__all__ = ["availability_about", "availability_section"]


def availability_section(samples: list[Sample]) -> list[str]:
    """Returns a table for each fault, as lines of Markdown."""
    lines: list[str] = []
    for name, fault in FAULTS.items():
        rows = []
        for client in CLIENTS:
            rounds = [s for s in samples if (s["case"], s["client"]) == (name, client)]
            if rounds:
                rows.append([client, *_cells(rounds)])
        if rows:
            lines += [f"## {fault.title}", "", *table(_HEAD, rows)]
    return lines


_HEAD = [
    "driver",
    f"within {IN_TIME_S:g} s, all",
    f"within {IN_TIME_S:g} s, in the first {JUST_AFTER_S:g} s after the fault",
    "errors",
    "lost connections",
    "slowest answer, s",
    "first answer, s",
    "longest silence, s",
    "last late request, s",
]


def _cells(rounds: list[Sample]) -> list[str]:
    """Returns one client's cells: medians and ranges of its rounds, and total counts of errors."""
    errors: Counter[str] = Counter()
    for sample in rounds:
        errors.update(sample["errors"])
    text = ", ".join(f"{times} {name}" for name, times in errors.most_common())
    return [
        _shares(sample["in_time_all"] for sample in rounds),
        _shares(sample["in_time_just_after"] for sample in rounds),
        text or "0",
        f"{sum(sample['connection_errors'] for sample in rounds):,}",
        _seconds(sample["slowest_s"] for sample in rounds),
        _seconds(sample["first_answer_s"] for sample in rounds),
        _seconds(sample["longest_silence_s"] for sample in rounds),
        _seconds(sample["last_late_s"] for sample in rounds),
    ]


def _shares(values: Iterable[float | None]) -> str:
    present = [value for value in values if value is not None]
    if not present:
        return "-"
    spread = Spread.of(present, 100)
    if spread.rounds == 1:
        return f"{spread.median:.2f} %"
    return f"{spread.median:.2f} % ({spread.low:.2f} to {spread.high:.2f})"


def _seconds(values: Iterable[float | None]) -> str:
    present = [value for value in values if value is not None]
    return str(Spread.of(present)) if present else number(None)


def availability_about(samples: list[Sample]) -> list[str]:
    """Returns lines with the number of lost writes, and with the circumstances of the measurement.

    The circumstances are versions, interpreters, machines, days, rounds, and processor load.
    """
    lost = sum(sample["lost_writes"] for sample in samples)
    rounds = max(sample["round"] for sample in samples)
    times = (
        "One round" if rounds == 1 else f"{rounds} rounds; the node that fails changes each time"
    )
    busy = max(sample["busy"] for sample in samples)
    more = f"{times}. The machine's processors were at most {busy:.0%} busy."
    return [
        f"Acknowledged writes that a read at `QUORUM` did not find afterwards: {lost:,}.",
        "",
        *about(samples, [f"{sample['client']} {sample['version']}" for sample in samples], more),
    ]
