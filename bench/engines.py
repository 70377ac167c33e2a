"""A table read by Ray, Spark and Dask, beside `session.scan` and scylla-driver within Ray.

    .venv/bin/python bench/engines.py [CLIENT...] [--rows N] [--rounds N] [--keep]

The clients take turns on three nodes of the embedded Cassandra. Each sample is a process of its
own, in the environment of its engine, which reads the whole table twice to warm up and then once
more. The rows, and the sum of their ids, are checked. Samples go to `build/bench/engines.jsonl`.
With `--keep` they also replace those of the same clients in `bench/samples`, and the section of
`docs/engines.md` is written from there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from typing import Any

import report_engines
from codec_environments import BUILD, HERE, ROOT, read_samples, write_samples
from engines_cases import CLIENTS, TABLE
from timing import provenance

import turbocql
from turbocql.testing import Cassandra

__all__ = ["main"]

SAMPLES = BUILD / "engines.jsonl"
SERVER = {"num_tokens": 16}
ROWS_PER_LOAD = 100_000
Sample = dict[str, Any]


def fill(points: list[str], rows: int) -> None:
    """Makes the table of the engines' tests, with its rows."""
    program = (
        "import sys; from tests.engines.rows import TABLE, table_of; import turbocql\n"
        "points, table, rows = sys.argv[1].split(','), sys.argv[2], int(sys.argv[3])\n"
        "with turbocql.connect(points, timeout_s=60) as session:\n"
        '    session.execute("CREATE KEYSPACE engines WITH replication = "\n'
        "        \"{'class': 'SimpleStrategy', 'replication_factor': 3}\")\n"
        "    session.execute(TABLE.format(table))\n"
        f"    for at in range(0, rows, {ROWS_PER_LOAD}):\n"
        f"        ids = range(at, min(at + {ROWS_PER_LOAD}, rows))\n"
        "        session.load(table, table_of(ids))\n"
    )
    run("ray", ["-c", program, ",".join(points), TABLE, str(rows)])


def run(engine: str, arguments: list[str]) -> str:
    """What a program prints in the environment of an engine."""
    python = ROOT / f".venv-{engine}" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"no environment for {engine}: make bench-engines")
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT), str(HERE)))
    done = subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "PYSPARK_PYTHON": str(python),
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise SystemExit(f"{engine} failed: {done.stderr[-4000:]}")
    return done.stdout


def sample(name: str, points: list[str], rows: int) -> Sample:
    """Runs a client."""
    client = CLIENTS[name]
    script = str(HERE / "engines_acts.py")
    said = run(client.engine, [script, name, ",".join(points), str(rows)])
    version = turbocql.__version__
    if name.startswith("driver"):
        asked = "from importlib.metadata import version; print(version('scylla-driver'))"
        version = run(client.engine, ["-c", asked]).strip()
    made = json.loads(said.strip().splitlines()[-1])
    return {**provenance(name, version), "rows": rows, **made}


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", help=" ".join(CLIENTS))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep samples, write docs/engines.md")
    given = parser.parse_args()
    names = given.clients or list(CLIENTS)
    taken: list[Sample] = []
    with Cassandra(nodes=3, heap_mb=1024, config=SERVER) as cluster:
        fill(cluster.contact_points, given.rows)
        # The nodes compile their code while they work: the first reads are slow.
        sample("scan", cluster.contact_points, given.rows)
        for number in range(given.rounds):
            # And back every second time: nobody always comes after the same one.
            for name in names if number % 2 == 0 else reversed(names):
                taken.append(sample(name, cluster.contact_points, given.rows))
                write_samples(SAMPLES, taken)
                print("  ".join(report_engines.row(name, taken)), flush=True)
    if given.keep:
        # Those of clients that were not measured stay.
        others = [it for it in read_samples(report_engines.SAMPLES) if it["client"] not in names]
        write_samples(report_engines.SAMPLES, [*others, *taken])
        report_engines.write()


if __name__ == "__main__":
    main()
