"""Tests of time UUIDs without a server."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turbocql
from turbocql import Timestamp, datetime_from_uuid, max_uuid_from_time, min_uuid_from_time
from turbocql.codec import encode
from turbocql.errors import RangeError
from turbocql.uuids import uuid_from_time

UTC = datetime.timezone.utc
MOMENT = datetime.datetime(2026, 1, 31, 8, 30, 0, 123_456, tzinfo=UTC)
MOMENTS = st.datetimes(
    datetime.datetime(1582, 10, 15), datetime.datetime(5236, 1, 1), timezones=st.just(UTC)
)


def order(time_uuid: uuid.UUID) -> tuple[int, list[int]]:
    """Returns a sort key. Sorting by this key puts time UUIDs in the same order as servers do."""
    return time_uuid.time, [byte - 256 if byte > 127 else byte for byte in time_uuid.bytes[8:]]


@given(MOMENTS)
def test_datetime_from_uuid_returns_the_instant(moment: datetime.datetime) -> None:
    made = [uuid_from_time(moment), min_uuid_from_time(moment), max_uuid_from_time(moment)]
    for time_uuid in made:
        assert (time_uuid.version, time_uuid.variant) == (1, uuid.RFC_4122)
        assert datetime_from_uuid(time_uuid) == moment
        assert encode("timeuuid", time_uuid) == time_uuid.bytes
    assert order(made[1]) < order(made[0]) < order(made[2])


@given(MOMENTS, st.integers(0, 2**14 - 1), st.integers(0, 2**48 - 1))
def test_all_uuids_of_an_instant_are_between_the_bounds(
    moment: datetime.datetime, clock_seq: int, node: int
) -> None:
    time_uuid = uuid_from_time(moment, node=node, clock_seq=clock_seq)
    assert (time_uuid.node, time_uuid.clock_seq) == (node, clock_seq)
    assert order(min_uuid_from_time(moment)) <= order(time_uuid)
    assert order(time_uuid) <= order(max_uuid_from_time(moment))
    later = moment + datetime.timedelta(microseconds=1)
    assert order(max_uuid_from_time(moment)) < order(min_uuid_from_time(later))


def test_uuids_that_other_programs_created() -> None:
    before = datetime.datetime.now(UTC)
    instant = datetime_from_uuid(uuid.uuid1())
    assert abs(instant - before) < datetime.timedelta(seconds=60)
    assert datetime_from_uuid(uuid.UUID("082db400-fe7f-11f0-8002-000000000001")) == (
        datetime.datetime(2026, 1, 31, 8, 30, tzinfo=UTC)
    )
    # A time UUID counts tenths of a microsecond. The UUID in this test has the last tenth of its
    # microsecond, which `datetime_from_uuid` must cut off.
    assert datetime_from_uuid(max_uuid_from_time(MOMENT)) == MOMENT


def test_clock_sequences_and_nodes_are_random() -> None:
    made = {uuid_from_time(MOMENT) for _ in range(100)}
    assert len(made) == 100
    assert all(time_uuid.node >> 40 & 1 for time_uuid in made), "no network card has such a node"


def test_kinds_of_instants() -> None:
    east = MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
    naive = MOMENT.replace(tzinfo=None)
    assert min_uuid_from_time(east) == min_uuid_from_time(naive) == min_uuid_from_time(MOMENT)
    millisecond = Timestamp.from_datetime(MOMENT)
    first, last = min_uuid_from_time(millisecond), max_uuid_from_time(millisecond)
    assert datetime_from_uuid(first) == MOMENT.replace(microsecond=123_000)
    assert datetime_from_uuid(last) == MOMENT.replace(microsecond=123_999)
    assert last.time == first.time + 9_999


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: uuid_from_time(datetime.datetime(1582, 10, 14)), RangeError, "1582-10-15"),
        (lambda: min_uuid_from_time(Timestamp(2**62)), RangeError, "5236"),
        (lambda: max_uuid_from_time(datetime.datetime.max), RangeError, "5236"),
        (lambda: uuid_from_time(1.5), TypeError, "a datetime or a Timestamp, got float"),  # type: ignore[arg-type]
        (lambda: uuid_from_time(MOMENT, node=2**48), ValueError, "48 bits"),
        (lambda: uuid_from_time(MOMENT, clock_seq=-1), ValueError, "14 bits"),
        (lambda: datetime_from_uuid(uuid.uuid4()), ValueError, "has no time"),
        (lambda: datetime_from_uuid("x"), TypeError, "expected a UUID, got str"),  # type: ignore[arg-type]
    ],
)
def test_refused_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_last_instant() -> None:
    last = datetime_from_uuid(uuid.UUID(int=0xFFFFFFFF_FFFF_1FFF_8000_000000000000))
    assert max_uuid_from_time(last).version == 1
    assert turbocql.datetime_from_uuid(turbocql.max_uuid_from_time(last)) == last
