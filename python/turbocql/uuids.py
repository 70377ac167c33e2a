"""Makes time UUIDs (version 1) from instants, and reads the instant of a time UUID.

For the present instant, `uuid.uuid1()` and CQL's `now()` also make a time UUID.
"""

from __future__ import annotations

import datetime
import os
from uuid import UUID

from .errors import RangeError
from .types import Timestamp

__all__ = ["datetime_from_uuid", "max_uuid_from_time", "min_uuid_from_time", "uuid_from_time"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_TICKS_PER_US = 10
_EPOCH_TICKS = 0x01B21DD213814000
"""The time of 1970-01-01 in a UUID: units of 100 ns since 1582-10-15."""
_END_TICKS = 1 << 60
# Servers order UUIDs of one instant by their last 8 bytes, as signed bytes. The first of these
# bytes always begins with the bits 1 and 0.
_LOWEST_END, _HIGHEST_END = 0x8080808080808080, 0xBF7F7F7F7F7F7F7F
_MULTICAST = 1 << 40
"""The multicast bit of the field `node` of a UUID. A random `node` has this bit. Addresses of
network cards do not have it, so a random `node` is never such an address."""


def uuid_from_time(
    instant: datetime.datetime | Timestamp,
    *,
    node: int | None = None,
    clock_seq: int | None = None,
) -> UUID:
    """A time UUID of an instant, exact to the microsecond.

    By default, the last 8 bytes are random, so that each call returns another UUID. `node` sets 48
    bits of these bytes, and `clock_seq` sets 14. A naive `datetime` is taken as UTC.

    Raises: `RangeError` for an instant that a UUID cannot hold: before 1582-10-15 or after 5236;
        `ValueError` for a `node` or `clock_seq` out of range.

    Example:
        >>> moment = datetime.datetime(2026, 1, 31, 8, 30)
        >>> turbocql.uuid_from_time(moment, node=1, clock_seq=2)
        UUID('082db400-fe7f-11f0-8002-000000000001')
    """
    for name, value, bits in (("node", node, 48), ("clock_seq", clock_seq, 14)):
        if value is not None and not 0 <= value < 1 << bits:
            raise ValueError(f"{name} must be an int of {bits} bits, got {value}")
    if node is None:
        node = int.from_bytes(os.urandom(6), "big") | _MULTICAST
    if clock_seq is None:
        clock_seq = int.from_bytes(os.urandom(2), "big") & 0x3FFF
    return _uuid(_ticks(instant), (0x8000 | clock_seq) << 48 | node)


def min_uuid_from_time(instant: datetime.datetime | Timestamp) -> UUID:
    """The lowest time UUID of an instant, as servers order them.

    `id >= min_uuid_from_time(t)` selects the UUIDs of `t` and of later instants; `id <
    min_uuid_from_time(t)` selects the UUIDs of earlier instants. Unlike CQL's `minTimeuuid`, this
    function is exact to the microsecond.

    Raises: `RangeError` for an instant that a UUID cannot hold.
    """
    return _uuid(_ticks(instant), _LOWEST_END)


def max_uuid_from_time(instant: datetime.datetime | Timestamp) -> UUID:
    """The highest time UUID of an instant, as servers order them.

    `id <= max_uuid_from_time(t)` selects the UUIDs of the microsecond `t` and of earlier instants;
    `id > max_uuid_from_time(t)` selects the UUIDs of later instants. For a
    [`Timestamp`][turbocql.types.Timestamp], the result is the highest UUID of a whole millisecond,
    as with CQL's `maxTimeuuid`.

    Raises: `RangeError` for an instant that a UUID cannot hold.
    """
    width = 1000 * _TICKS_PER_US if isinstance(instant, Timestamp) else _TICKS_PER_US
    return _uuid(min(_ticks(instant) + width, _END_TICKS) - 1, _HIGHEST_END)


def datetime_from_uuid(time_uuid: UUID) -> datetime.datetime:
    """The instant of a time UUID as an aware `datetime` in UTC, rounded down to the microsecond.

    Raises: `ValueError` for a UUID of another version than 1.

    Example:
        >>> turbocql.datetime_from_uuid(UUID("082db400-fe7f-11f0-8002-000000000001"))
        datetime.datetime(2026, 1, 31, 8, 30, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(time_uuid, UUID):
        raise TypeError(f"expected a UUID, got {type(time_uuid).__name__}")
    if time_uuid.time_hi_version >> 12 != 1:
        raise ValueError(
            f"{time_uuid} has no time: only UUIDs of version 1 have a time (CQL's timeuuid)"
        )
    since_epoch_us = (time_uuid.time - _EPOCH_TICKS) // _TICKS_PER_US
    return _EPOCH + datetime.timedelta(microseconds=since_epoch_us)


def _ticks(instant: datetime.datetime | Timestamp) -> int:
    """The number of units of 100 ns from 1582-10-15 to an instant."""
    if isinstance(instant, Timestamp):
        since_epoch_us = instant.milliseconds * 1000
    elif isinstance(instant, datetime.datetime):
        if instant.utcoffset() is None:
            instant = instant.replace(tzinfo=datetime.timezone.utc)
        since_epoch_us = (instant - _EPOCH) // datetime.timedelta(microseconds=1)
    else:
        raise TypeError(
            f"an instant must be a datetime or a Timestamp, got {type(instant).__name__}"
        )
    ticks = since_epoch_us * _TICKS_PER_US + _EPOCH_TICKS
    if not 0 <= ticks < _END_TICKS:
        raise RangeError(
            f"a time UUID holds instants from 1582-10-15 to the year 5236, got {instant}"
        )
    return ticks


def _uuid(ticks: int, end: int) -> UUID:
    """Makes a UUID of version 1. `end` is the number that its last 8 bytes encode."""
    low, middle, high = ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, ticks >> 48
    return UUID(int=low << 96 | middle << 80 | (0x1000 | high) << 64 | end)
