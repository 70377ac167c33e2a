"""The requests of cassandra-driver and scylla-driver, accelerated by one line of code."""

from __future__ import annotations

import turbocql

turbocql.accelerate()

from bench.clients.cassandra.requests import Cassandra  # noqa: E402
from bench.suites.requests.job import main  # noqa: E402

if __name__ == "__main__":
    main(Cassandra)
