"""Results as columns, in an environment that has the consumers of Arrow streams."""

from __future__ import annotations

import pytest
from tests.accel.test_accel import run

from turbocql.testing import Cassandra


def test_each_type_through_each_consumer(cassandra: Cassandra) -> None:
    done = run("columns", "-m", "tests.columns.consume", cassandra.contact_points[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 17


def test_columns_go_into_tables_and_come_back(cassandra: Cassandra) -> None:
    done = run("columns", "-m", "tests.columns.give", cassandra.contact_points[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 15


def test_columns_of_asynchronous_sessions(cassandra: Cassandra) -> None:
    done = run("columns", "-m", "tests.columns.give_async", cassandra.contact_points[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("consumer", ["pyarrow", "duckdb"])
def test_a_program_ends_while_other_threads_read(cassandra: Cassandra, consumer: str) -> None:
    point = cassandra.contact_points[0]
    done = run("columns", "-m", "tests.columns.early", point, consumer, timeout_s=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "200\n"


def test_a_program_ends_while_another_thread_waits_for_the_gil(cassandra: Cassandra) -> None:
    # Whether the thread waits in the right place is chance, mostly it does.
    for _ in range(3):
        point = cassandra.contact_points[0]
        arguments = ("-m", "tests.columns.early", point, "pyarrow-waiting")
        done = run("columns", *arguments, timeout_s=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "2\n"


def test_hostile_producers_get_an_error() -> None:
    done = run("columns", "-m", "tests.columns.hostile")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all"


def test_files_of_each_format_and_type() -> None:
    done = run("columns", "-m", "tests.columns.files")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "all"


def test_whole_tables_from_files_and_to_files(cassandra: Cassandra) -> None:
    done = run("columns", "-m", "tests.columns.whole", cassandra.contact_points[0])
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 19


@pytest.mark.exhaustive
def test_whole_tables_while_nodes_are_killed_and_paused() -> None:
    done = run("columns", "-m", "tests.columns.whole_faults")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5


@pytest.mark.exhaustive
def test_twenty_loads_are_killed_and_completed(cassandra: Cassandra) -> None:
    point, check = cassandra.contact_points[0], "killed_loads_are_completed"
    done = run("columns", "-m", "tests.columns.whole", point, "20261123", "20", check)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [check]
