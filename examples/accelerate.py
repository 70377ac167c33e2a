"""Demonstrates the accelerator: runs one cassandra-driver program without and with it.

Starts a Cassandra and runs `plain_cassandra_driver.py` three times plain and three times
accelerated, in turn, in an environment that has cassandra-driver. Prints the shortest times without
and with the accelerator side by side. Run this program with `make demo-accelerate`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from turbocql.testing import Cassandra

HERE = Path(__file__).parent
PROGRAM = HERE / "plain_cassandra_driver.py"
RUNS = 3
OPTIMIZED = ("-XX:TieredStopAtLevel=4",)
"""With this option of the JVM, the programs wait less for the server."""


def run(python: str, how: list[str], contact_point: str, file: str) -> dict[str, float]:
    """Runs the program. Returns the processor time of each part, in microseconds per row."""
    host, _, port = contact_point.rpartition(":")
    done = subprocess.run(
        [python, *how, str(PROGRAM), host, port, file],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    parts = [line.partition(": ") for line in done.stdout.splitlines()]
    return {name: float(took.partition(",")[0]) * 1e6 for name, _, took in parts}


def main(python: str) -> None:
    """Runs the program plain and accelerated in turn, and prints the shortest times in a table."""
    plain: list[dict[str, float]] = []
    accelerated: list[dict[str, float]] = []
    with Cassandra(jvm_options=OPTIMIZED) as cluster, tempfile.TemporaryDirectory() as folder:
        where = cluster.contact_points[0], f"{folder}/embeddings.parquet"
        for number in range(1, RUNS + 1):
            print(f"run {number} of {RUNS}, plain and accelerated", flush=True)
            plain.append(run(python, [], *where))
            accelerated.append(run(python, ["-m", "turbocql.accel"], *where))
    print(f"processor time of the program, microseconds per row, least of {RUNS} runs")
    print(f"{'':32}{'plain':>10}{'accelerated':>14}{'ratio':>8}")
    for name in plain[0]:
        before, after = (min(times[name] for times in runs) for runs in (plain, accelerated))
        print(f"{name:32}{before:10.1f}{after:14.1f}{before / after:7.1f}x")


if __name__ == "__main__":
    main(sys.argv[1])
