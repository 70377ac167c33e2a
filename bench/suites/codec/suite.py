"""Times the codec's cases with turbocql, other drivers and the floors.

Each client runs in one process per round. Before anything is timed, the drivers' results are
compared. Run the suite on a quiet machine; only ratios within one run are meaningful.
"""

from __future__ import annotations

import json
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
from bench.suites.codec.cases import BINDS, KEYS, NAMES, VALUES, WORDS
from turbocql.codec import CqlType

__all__ = ["SUITE", "check", "class_names", "names", "print_table"]

ROUNDS = 5
DRIVERS = ("turbocql", *RIVALS)
CLIENTS = (*DRIVERS, "floor")
PROGRAMS = {
    "turbocql": "bench.clients.turbocql.codec",
    "floor": "bench.clients.floors",
    **dict.fromkeys(RIVALS, "bench.clients.cassandra.codec"),
}


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return [name for name in NAMES if chosen(name, patterns, "codec")]


def class_names(more: set[str] | None = None) -> str:
    """Returns JSON that maps each CQL type to its Java class name, which the other drivers read."""
    types = {cql for cql, _ in VALUES.values()} | {"vector<float, 1536>"} | (more or set())
    for columns in [columns for columns, _ in BINDS.values()] + [k[0] for k in KEYS.values()]:
        types |= {cql for _, cql in columns}
    return json.dumps({cql: CqlType(cql).class_name for cql in types})


def _samples(client: str, *arguments: str, interpreter: Path | None) -> list[Sample]:
    first = [client] if client in RIVALS else []
    python = python_of(client, interpreter)
    return processes.samples(python, PROGRAMS[client], *first, *arguments, stdin=class_names())


def check(patterns: Sequence[str], interpreter: Path | None = None) -> set[str]:
    """Compares the drivers' results with turbocql's.

    Returns the cases in which cassandra-driver's results differ. `run` drops cassandra-driver's
    times in these cases.

    Raises: SystemExit if a result of scylla-driver differs from turbocql's.
    """
    outcomes: dict[str, Sample] = {}
    for client in DRIVERS:
        for sample in _samples(client, "--outcomes", *patterns, interpreter=interpreter):
            if sample["done"]:
                outcomes.setdefault(sample["case"], {})[client] = sample["outcome"]
    differing = set()
    for case, by_client in outcomes.items():
        ours = by_client.pop("turbocql", None)
        for rival, theirs in by_client.items():
            if ours is None or ours == theirs:
                continue
            if rival == "scylla-driver":
                raise SystemExit(f"{case}: {rival} gives {theirs!r:.300}, turbocql {ours!r:.300}")
            differing.add(case)
    return differing


def run(options: Options) -> Run:
    """Compares the drivers' results, then times the cases."""
    current = Run(SUITE.file)
    differing = check(options.patterns, options.interpreter)

    def sampled(client: str) -> list[Sample]:
        samples = _samples(client, *options.patterns, interpreter=options.interpreter)
        for sample in samples:
            if client == "cassandra-driver" and sample["case"] in differing:
                note = "gives something else than scylla-driver and turbocql"
                sample |= {"ns": None, "note": note}
        return samples

    for number, client in turns(CLIENTS, options.rounds or ROUNDS):
        current.measure(f"{client}, round {number}", partial(sampled, client))
    if current.samples:
        print_table(current.samples)
    return current


def print_table(samples: list[Sample]) -> None:
    """Prints the medians in microseconds. If a case has several floors, prints the fastest."""
    times: dict[str, dict[tuple[str, str], list[float]]] = {}
    for sample in samples:
        by_client = times.setdefault(sample["case"], {})
        if sample["ns"] is not None:
            by_client.setdefault((sample["client"], sample["note"]), []).append(sample["ns"])
    print("\n".join(WORDS))
    print(f"{'median, us':48}" + "".join(f"{client:>17}" for client in CLIENTS))
    for case, by_client in times.items():
        line = f"{case:48}"
        for client in CLIENTS:
            medians = [statistics.median(ns) for key, ns in by_client.items() if key[0] == client]
            line += f"{min(medians) / 1000:17.3f}" if medians else f"{'-':>17}"
        print(line)
    print(samples[0]["interpreter"], "|", samples[0]["machine"])


SUITE = Suite(
    "codec",
    "values, rows, messages and pages, without a server",
    names,
    run,
    "codec.jsonl",
    by_default=True,
    any_interpreter=True,
)
