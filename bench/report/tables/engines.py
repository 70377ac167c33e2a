"""The table of the suite `engines`: a row with the results of each client."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.samples import Sample
from bench.harness.spread import Spread, number
from bench.report.markdown import about, table
from bench.suites.engines.cases import CLIENTS, PARTS

__all__ = ["engines_section"]

_HEAD = [
    "client",
    "rows/s",
    "CPU of the workers, us/row",
    "CPU of all client processes, us/row",
    "requests",
]


def _row(name: str, samples: Sequence[Sample]) -> list[str]:
    """Returns a client's row of the table."""
    of = [sample for sample in samples if sample["client"] == name]

    def micros(field: str) -> str:
        return str(Spread.of([sample[field] / sample["rows"] for sample in of], 1e6))

    requests = Spread.of([float(sample["requests"]) for sample in of])
    each = Spread.of([sample["requests"] / sample["ranges"] for sample in of])
    return [
        CLIENTS[name].title,
        str(Spread.of([sample["rows"] / sample["wall_s"] for sample in of])),
        micros("worker_cpu_s"),
        micros("cpu_s"),
        f"{number(requests.median)}, {number(each.median)} a range",
    ]


def engines_section(samples: Sequence[Sample]) -> list[str]:
    """Returns the table, then a paragraph with versions, machines, days, sizes and rounds."""
    if not samples:
        return []
    names = [name for name in CLIENTS if any(s["client"] == name for s in samples)]
    rounds = max(sum(s["client"] == name for s in samples) for name in names)
    first = samples[0]
    sizes = (
        f"{first['rows']:,} rows; {PARTS} tasks; {first['ranges']} token ranges; {rounds} rounds."
    )
    versions = [
        f"scylla-driver {s['version']}"
        if s["client"].startswith("driver")
        else f"turbocql {s['version']}"
        for s in samples
    ]
    rows = [_row(name, samples) for name in names]
    return [*table(_HEAD, rows), *about(samples, versions, sizes)]
