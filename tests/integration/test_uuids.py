"""Tests of time UUIDs against a server, which orders them."""

from __future__ import annotations

import datetime

import pytest

import turbocql
from turbocql import Session, Timestamp

MOMENT = datetime.datetime(2026, 1, 31, 8, 30, 0, 123_000, tzinfo=datetime.timezone.utc)


@pytest.fixture(autouse=True)
def instants(cassandra_session: Session) -> None:
    """Creates the table `instants` if the shared keyspace does not have it yet."""
    table = "instants (k int, id timeuuid, PRIMARY KEY (k, id))"
    cassandra_session.execute(f"CREATE TABLE IF NOT EXISTS {table}")


def test_ranges(cassandra_session: Session) -> None:
    session = cassandra_session
    extremes = [(0, 0), (2**14 - 1, 2**48 - 1), (0x3F7F, 0x7F7F7F7F7F7F), (128, 0x808080808080)]
    inside = [turbocql.uuid_from_time(MOMENT) for _ in range(50)]
    inside += [turbocql.uuid_from_time(MOMENT, node=n, clock_seq=seq) for seq, n in extremes]
    step = datetime.timedelta(microseconds=1)
    outside = [turbocql.uuid_from_time(moment) for moment in (MOMENT - step, MOMENT + step)]
    insert = "INSERT INTO instants (k, id) VALUES (1, ?)"
    session.execute_many(insert, [(time_uuid,) for time_uuid in inside + outside])

    def selected(where: str, *values: object) -> set[object]:
        rows = session.execute(f"SELECT id FROM instants WHERE k = 1 AND {where}", values)
        return {row.id for row in rows}

    low, high = turbocql.min_uuid_from_time(MOMENT), turbocql.max_uuid_from_time(MOMENT)
    assert selected("id >= ? AND id <= ?", low, high) == set(inside)
    assert selected("id < ?", low) == {outside[0]}
    assert selected("id > ?", high) == {outside[1]}
    # A `Timestamp` has the precision of a millisecond, like the arguments of the server's
    # functions. So the bounds include all UUIDs of this millisecond.
    millisecond = Timestamp.from_datetime(MOMENT)
    low, high = turbocql.min_uuid_from_time(millisecond), turbocql.max_uuid_from_time(millisecond)
    assert selected("id >= ? AND id <= ?", low, high) == {*inside, outside[1]}
    server = selected("id >= minTimeuuid(?) AND id <= maxTimeuuid(?)", MOMENT, MOMENT)
    assert server == {*inside, outside[1]}


def test_the_server_reads_the_instant(cassandra_session: Session) -> None:
    time_uuid = turbocql.uuid_from_time(MOMENT)
    cassandra_session.execute("INSERT INTO instants (k, id) VALUES (2, ?)", (time_uuid,))
    stored = cassandra_session.execute("SELECT toTimestamp(id) FROM instants").scalar()
    assert stored == MOMENT == turbocql.datetime_from_uuid(time_uuid)
