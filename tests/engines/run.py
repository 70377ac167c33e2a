"""Ray, Spark, duckdb and Dask on tables of three real nodes, each engine in its own environment.

    python -m tests.engines.run [--rows N] [ENGINE...]

Writes and reads generated rows, also while workers and nodes are killed. Prints what passed; ends
with 1 if something failed. `make check-engines` runs it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("ray", "spark", "duckdb", "dask")
# All three nodes have each row, and a killed one loses the last tenth of a second at most.
CLUSTER = {"commitlog_sync_period": "100ms", "num_tokens": 16}


def run(engine: str, rows: int, cluster: Cassandra) -> bool:
    """The checks of an engine, which asks for nodes to be killed and started."""
    python = ROOT / f".venv-{engine}" / "bin" / "python"
    assert python.exists(), f"make -C {ROOT} .venv-{engine}/.installed"
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT)))
    log = ROOT / "build" / f"engines-{engine}.log"
    log.parent.mkdir(exist_ok=True)
    module = f"tests.engines.{engine}_checks"
    with log.open("w") as errors:
        child = subprocess.Popen(
            [str(python), "-m", module, ",".join(cluster.contact_points), str(rows)],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": paths,
                "PYSPARK_PYTHON": str(python),
                "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            serve(child, cluster)
            status = child.wait(timeout=60)
        finally:
            child.kill()
            child.wait()
    if status:
        print(f"{engine} failed with {status}; the end of {log}:")
        print("\n".join(log.read_text().splitlines()[-40:]), flush=True)
    return status == 0


def serve(child: subprocess.Popen[str], cluster: Cassandra) -> None:
    """Passes on what the child says, and does what it asks for, until it ends."""
    assert child.stdin is not None
    assert child.stdout is not None
    for line in child.stdout:
        if not line.startswith("! "):
            print(line, end="", flush=True)
            continue
        what, number = line[2:].split()
        node: Any = cluster.nodes[int(number)]
        if what == "kill":
            node.kill()
        else:
            node.start()
        print(f"node {number}: {what}", flush=True)
        child.stdin.write("done\n")
        child.stdin.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("engines", nargs="*", help=" ".join(ENGINES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    began, failed = time.time(), []
    with Cassandra(nodes=3, heap_mb=1024, config=CLUSTER) as cluster:
        for engine in given.engines or ENGINES:
            if not run(engine, given.rows, cluster):
                failed.append(engine)
    print(f"{time.time() - began:.0f} s; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
