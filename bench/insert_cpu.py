"""Client CPU per INSERT (int, text) on the embedded Cassandra, rivals interleaved.

Each sample is a process of its own in its own environment; before any is taken, each client has
written every row once and the rows were checked. Raw samples go to `build/insert_cpu.jsonl`, the
medians to standard output. Run it with `make bench`, on a quiet machine.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

from measure import ROWS, value

import turbocql
from turbocql.testing import Cassandra

HERE = Path(__file__).parent
ROOT = HERE.parent
REPEATS = 5
IN_FLIGHT = (64, 256)
CLIENTS = [
    (".venv", "with_turbocql.py", "asyncio"),
    (".venv", "with_turbocql.py", "execute_many"),
    (".venv-cassandra-driver", "with_cassandra_driver.py", "execute_concurrent"),
]


def sample(client: tuple[str, str, str], in_flight: int, contact_point: str) -> dict[str, Any]:
    """One run of one client."""
    environment, script, kind = client
    command = [ROOT / environment / "bin/python", HERE / script]
    line = subprocess.run(
        [*command, kind, str(in_flight), contact_point],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    ).stdout
    measured: dict[str, Any] = json.loads(line)
    return measured


def check(session: turbocql.Session) -> None:
    """Every row is there, and is what it should be."""
    stored = dict(session.execute("SELECT k, v FROM bench.pairs", rows="tuple"))
    assert stored == {i: value(i) for i in range(ROWS)}
    session.execute("TRUNCATE bench.pairs")


def main() -> None:
    """Checks every client, then measures them in turn."""
    samples = []
    with Cassandra() as cluster, turbocql.connect(cluster.contact_points) as session:
        session.execute(
            "CREATE KEYSPACE bench WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE bench.pairs (k int PRIMARY KEY, v text)")
        point = cluster.contact_points[0]
        for client in CLIENTS:
            sample(client, 64, point)
            check(session)
        for _ in range(REPEATS):
            for in_flight in IN_FLIGHT:
                samples += [sample(client, in_flight, point) for client in CLIENTS]
    (ROOT / "build").mkdir(exist_ok=True)
    raw = ROOT / "build/insert_cpu.jsonl"
    raw.write_text("".join(json.dumps(taken) + "\n" for taken in samples))
    print(f"client CPU per INSERT (int, text), us; median of {REPEATS} (lowest to highest)")
    for in_flight in IN_FLIGHT:
        for name in dict.fromkeys(taken["client"] for taken in samples):
            cpu = sorted(
                taken["cpu_us_per_row"]
                for taken in samples
                if taken["client"] == name and taken["in_flight"] == in_flight
            )
            median = statistics.median(cpu)
            print(
                f"{in_flight:4} in flight  {name:36} {median:6.1f} ({cpu[0]:.1f} to {cpu[-1]:.1f})"
            )


if __name__ == "__main__":
    main()
