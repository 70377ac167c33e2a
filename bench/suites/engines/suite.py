"""Measures reads of a table by Ray, Spark, Dask, `session.scan`, and scylla-driver within Ray.

The clients take turns on three nodes of the embedded Cassandra. Each sample comes from a new
process in the environment of the engine. The process reads the whole table twice to warm up, and
then once to measure. The number of rows and the sum of their ids are checked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import turbocql
from bench.harness import processes
from bench.harness.environments import python_in
from bench.harness.provenance import provenance
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.servers import JVM_OPTIONS
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite, say
from bench.suites.engines.cases import CLIENTS
from turbocql.testing import Cassandra

__all__ = ["SUITE"]

SERVER = {"num_tokens": 16}
ROWS, ROUNDS = 1_000_000, 3
TIMEOUT_S = 900
WORKER = "bench.suites.engines.worker"


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the clients that the patterns choose."""
    return [name for name in CLIENTS if chosen(name, patterns, "engines")]


def _printed(engine: str, *arguments: str) -> str:
    """Runs a program in the environment of an engine, and returns what it prints."""
    python = python_in(f".venv-{engine}")
    variables = processes.environment(
        PYSPARK_PYTHON=str(python), RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"
    )
    command = [str(python), *arguments]
    return processes.output(command, variables=variables, timeout_s=TIMEOUT_S)


def _sampled(name: str, points: str, rows: int) -> list[Sample]:
    client = CLIENTS[name]
    text = _printed(client.engine, "-m", WORKER, name, points, str(rows))
    version = turbocql.__version__
    if name.startswith("driver"):
        program = "from importlib.metadata import version; print(version('scylla-driver'))"
        version = _printed(client.engine, "-c", program).strip()
    figures = json.loads(text.strip().splitlines()[-1])
    return [{**provenance(name, version), "rows": rows, **figures}]


def run(options: Options) -> Run:
    """Measures the chosen clients, which take turns."""
    current = Run(SUITE.file, SUITE.subject)
    rows = options.rows or ROWS
    with Cassandra(nodes=3, heap_mb=1024, jvm_options=JVM_OPTIONS, config=SERVER) as cluster:
        points = ",".join(cluster.contact_points)
        _printed("ray", "-m", WORKER, "fill", points, str(rows))
        # This sample is dropped: the nodes' JVMs still compile their code, so first reads are slow.
        _sampled("scan", points, rows)
        for _, name in turns(names(options.patterns), options.rounds or ROUNDS):
            for sample in current.measure(name, partial(_sampled, name, points, rows)):
                say(f"{name}: {sample['worker_cpu_s'] / rows * 1e6:.3g} us of a worker's CPU a row")
    return current


SUITE = Suite(
    "engines",
    "a table read by Ray, Spark and Dask, beside session.scan and scylla-driver",
    names,
    run,
    "engines.jsonl",
    # New samples replace only those of the same client.
    ("client",),
)
