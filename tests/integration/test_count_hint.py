"""Tests that the error of a count that fails on a large table advises `turbocql count`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.test_command_line import Line
from tests.support.tables import KEYSPACE

import turbocql
from turbocql.cli._console import Console
from turbocql.testing import Cassandra

COUNT = "SELECT count(*) FROM t"


def test_a_count_that_fails_in_the_shell_and_in_a_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"tombstone_failure_threshold": 1000}
    with (
        Cassandra(heap_mb=512, config=limits) as cluster,
        turbocql.connect(cluster.contact_points) as session,
    ):
        session.execute(KEYSPACE.format("counted"))
        session.execute("CREATE TABLE counted.t (p int, c int, PRIMARY KEY (p, c))")
        deletions = "DELETE FROM counted.t WHERE p = 1 AND c = ?"
        session.execute_many(deletions, ((number,) for number in range(1500)))
        session.use_keyspace("counted")
        capsys.readouterr()
        assert not Console(session).run(f"{COUNT};")
        message = capsys.readouterr().err
        assert "read failure" in message
        assert "; to count the rows of a large table: turbocql count counted.t" in message
        line = Line(cluster, tmp_path)
        message = line.fails(1, "query", "--keyspace", "counted", COUNT)
        assert "; to count the rows of a large table: turbocql count counted.t" in message
