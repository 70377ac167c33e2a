"""Results as columns, in an environment that has the consumers of Arrow streams."""

from __future__ import annotations

from tests.accel.test_accel import run

from turbocql.testing import Cassandra


def test_each_type_through_each_consumer(cassandra: Cassandra) -> None:
    done = run("columns", "-m", "tests.columns.consume", cassandra.contact_points[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 15
