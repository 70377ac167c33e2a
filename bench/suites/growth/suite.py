"""Measures time and memory of a call as its input grows.

Each series, client and round has its own process, which checks the result at each size before it
times the call.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.harness import processes
from bench.harness.environments import RIVALS, python_of
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite
from bench.suites.codec.suite import class_names
from bench.suites.growth.cases import SERIES

__all__ = ["SUITE"]

ROUNDS = 3
CLIENTS = ("turbocql", *RIVALS)


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the series that the patterns choose."""
    return [name for name in SERIES if chosen(name, patterns, "growth")]


def _samples(name: str, client: str, interpreter: Path | None) -> list[Sample]:
    python = python_of(client, interpreter)
    if client == "turbocql":
        return processes.samples(python, "bench.clients.turbocql.growth", name)
    series = SERIES[name]
    types = {series.cql(size) for size in series.sizes} if series.shape != "rows" else set()
    program = "bench.clients.cassandra.growth"
    return processes.samples(python, program, name, client, stdin=class_names(types))


def run(options: Options) -> Run:
    """Measures the chosen series, and prints the time at the largest size of each."""
    current = Run(SUITE.file)
    for name in names(options.patterns):
        for _, client in turns(CLIENTS, options.rounds or ROUNDS):
            sampled = partial(_samples, name, client, options.interpreter)
            current.measure(f"{name}, {client}", sampled)
        print_series(name, [sample for sample in current.samples if sample["series"] == name])
    return current


def print_series(name: str, samples: list[Sample]) -> None:
    """Prints the nanoseconds per element or row at each client's largest size."""
    unit = "row" if SERIES[name].shape == "rows" else "element"
    line = f"{name:40}"
    for client in CLIENTS:
        timed = [s for s in samples if s["client"] == client and s["ns"] is not None]
        if timed:
            size = max(sample["n"] for sample in timed)
            ns = statistics.median(sample["ns"] for sample in timed if sample["n"] == size)
            line += f"  {client} {ns / size:.2f} ns per {unit} at n = {size}"
        else:
            line += f"  {client} -"
    print(line, flush=True)


SUITE = Suite(
    "growth",
    "time and memory of a call as its size grows",
    names,
    run,
    "growth.jsonl",
    by_default=True,
    any_interpreter=True,
)
