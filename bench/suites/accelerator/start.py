"""Cases of a program's start: the processor time to import a driver, plain and accelerated."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness import processes
from bench.harness.environments import python_of
from bench.harness.samples import Sample
from bench.harness.selection import chosen

__all__ = ["CASES", "names", "samples"]

CASES = {
    "start: cluster": "import cassandra.cluster",
    "start: cluster and cqlengine": "import cassandra.cluster, cassandra.cqlengine.models",
}
"""The programs, by the names of their cases."""


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return [name for name in CASES if chosen(name, patterns, "accelerator")]


def samples(client: str, patterns: Sequence[str]) -> list[Sample]:
    """Measures the chosen cases with a client, and prints the times of each."""
    program = "bench.clients.cassandra.start"
    measured = processes.samples(python_of(client), program, client, *patterns)
    for sample in measured:
        plain_ms, accelerated_ms = (
            sample[field] * 1000 for field in ("plain_cpu_s", "accelerated_cpu_s")
        )
        print(
            f"{sample['case']}, {client}: {plain_ms:.0f} ms plain,"
            f" {accelerated_ms - plain_ms:+.0f} ms accelerated",
            flush=True,
        )
    return measured
