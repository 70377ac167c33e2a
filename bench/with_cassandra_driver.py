"""INSERT (int, text) by cassandra-driver.

`with_cassandra_driver.py KIND IN_FLIGHT CONTACT_POINT`
"""

from __future__ import annotations

import sys

import cassandra
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args
from measure import INSERT, ROWS, Measured, report, value


def main() -> None:
    """Measures once and reports."""
    kind, in_flight, contact_point = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    host, _, port = contact_point.rpartition(":")
    cluster = Cluster([host], port=int(port))
    session = cluster.connect()
    prepared = session.prepare(INSERT)
    rows = ((i, value(i)) for i in range(ROWS))
    with Measured() as measured:
        execute_concurrent_with_args(session, prepared, rows, concurrency=in_flight)
    report(f"cassandra-driver {kind}", cassandra.__version__, in_flight, measured)
    cluster.shutdown()


if __name__ == "__main__":
    main()
