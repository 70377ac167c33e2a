"""cassandra-driver and scylla-driver, accelerated: the same program after one line."""

from __future__ import annotations

import sys
from pathlib import Path

# turbocql is not installed in their environments; its module fits interpreters of one version.
sys.path.append(str(Path(__file__).parents[2] / "python"))

import turbocql

turbocql.accelerate()

from clients.job import main  # noqa: E402
from clients.with_cassandra import Cassandra  # noqa: E402

if __name__ == "__main__":
    main(Cassandra)
