"""Demonstrates the accelerator: runs one cassandra-driver program without and with it.

Starts a Cassandra, runs `plain_cassandra_driver.py` twice in an environment that has
cassandra-driver, and prints the times of both runs side by side. Run this program with
`make demo-accelerate`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from turbocql.testing import Cassandra

HERE = Path(__file__).parent
PROGRAM = HERE / "plain_cassandra_driver.py"


def run(python: str, how: list[str], contact_point: str) -> dict[str, float]:
    """Runs the program. Maps each part to its microseconds of processor time per row."""
    host, _, port = contact_point.rpartition(":")
    done = subprocess.run(
        [python, *how, str(PROGRAM), host, port],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "python")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    parts = [line.partition(": ") for line in done.stdout.splitlines()]
    return {name: float(took.partition(",")[0]) * 1e6 for name, _, took in parts}


def main(python: str) -> None:
    """Runs the program plain and accelerated, and prints a table of both."""
    with Cassandra() as cluster:
        plain = run(python, [], cluster.contact_points[0])
        accelerated = run(python, ["-m", "turbocql.accel"], cluster.contact_points[0])
    print("processor time of the program, microseconds per row")
    print(f"{'':30}{'plain':>10}{'accelerated':>14}{'ratio':>8}")
    for name, before in plain.items():
        after = accelerated[name]
        print(f"{name:30}{before:10.1f}{after:14.1f}{before / after:7.1f}x")
    print(
        "Short rows gain little when they are written: the driver's own work is nearly all of it."
        "\nOne run of each: a fifth more or less is the machine's noise."
    )


if __name__ == "__main__":
    main(sys.argv[1])
