"""Tests of accelerated drivers with simulated ScyllaDB protocol extensions."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.accel.environments import DRIVERS
from tests.integration.test_accelerated_faults import compared

import turbocql
from turbocql.testing import Cassandra, Scylla

from .conftest import REPLICATION

ROOT = Path(__file__).resolve().parents[3]


DRIVER = """
import json, sys
import turbocql
from turbocql import accel
if sys.argv[2] == "accelerated":
    accel.accelerate()
from cassandra.cluster import Cluster
from cassandra.query import BatchStatement
cluster = Cluster([sys.argv[1]])
session = cluster.connect()
rows = []
for keyspace in ("vnodes", "tablets"):
    insert = session.prepare(f"INSERT INTO {keyspace}.t (id, a) VALUES (?, ?)")
    select = session.prepare(f"SELECT * FROM {keyspace}.t WHERE id = ?")
    update = session.prepare(f"UPDATE {keyspace}.t SET a = ? WHERE id = ? IF a = ?")
    for number in range(60):
        session.execute(insert, (number, str(number)))
    batch = BatchStatement()
    for number in range(10):
        batch.add(insert, (number, str(number)))
    session.execute(batch)
    session.execute(update, ("0", 0, "0"))
    rows += [tuple(session.execute(select, (number,)).one()) for number in range(60)]
    rows.append(len(list(session.execute(f"SELECT * FROM {keyspace}.t"))))
seams = {
    seam.name: [seam.native, seam.fallback, seam.learned, list(seam.reasons)]
    for seam in accel.status().seams
    if seam.part in ("bodies", "bind", "rows") and not seam.is_idle and seam.patched
}
print(json.dumps([rows, seams]))
cluster.shutdown()
"""


@pytest.mark.parametrize("driver", ["scylla-driver", "scylla-driver-previous", "cassandra-driver"])
def test_accelerated_drivers_stay_native(cluster: Cassandra, scylla: Scylla, driver: str) -> None:
    def run(mode: str) -> tuple[list[object], dict[str, list[int]]]:
        done = subprocess.run(
            [
                str(ROOT / f".venv-{driver}" / "bin" / "python"),
                *("-W", "ignore", "-c", DRIVER),
                *(cluster.nodes[0].address, mode),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        rows, seams = json.loads(done.stdout)
        return rows, seams

    assert cluster.scylla is not None
    plain, nothing = run("plain")
    assert nothing == {}
    scylla.reset()
    accelerated, seams = run("accelerated")
    assert accelerated == plain
    requests = scylla.requests()
    for name, count in (("Execute", 242), ("Batch", 2), ("Query", 2)):
        native, fallback, _, reasons = seams[f"protocol.{name}Message.send_body"]
        assert native >= count
        assert fallback == 0, reasons
    assert seams["query.BoundStatement.bind"][:2] == [262, 0]
    # For each statement, the driver's own function, and not the accelerator, reads the first result
    # without metadata.
    reader = [count for name, count in seams.items() if "recv_results_rows" in name]
    assert sum(count[1] for count in reader) <= 4
    assert sum(count[0] for count in reader) >= 100
    if driver == "scylla-driver":
        executes = [request for request in requests if request.opcode == "EXECUTE"]
        with_ids = {request.node for request in executes if request.metadata_id is not None}
        assert with_ids == {0, 1}
        assert any(request.skips_metadata for request in executes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_program_of_three_nodes(cluster: Cassandra, tmp_path: Path, driver: str) -> None:
    names = [f"{driver.partition('-')[0]}_{variable}" for variable in "01"]
    with turbocql.connect(cluster.contact_points) as session:
        for name in names:
            session.execute(f"CREATE KEYSPACE {name} WITH replication = {REPLICATION % 3}")
        # The simulated nodes cannot read custom payloads. So the program uses version 3 of the
        # protocol, which has no payloads.
        plain = compared(cluster, names, tmp_path, driver, "3", "usual", "endings")
        endings = [line for line in plain if line.startswith("all ended")]
        assert endings == ["all ended: True"] * 4
        for name in names:
            session.execute(f"DROP KEYSPACE {name}")
