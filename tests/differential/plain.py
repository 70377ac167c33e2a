"""Draws ordinary random values of every scalar type."""

from __future__ import annotations

import datetime
import ipaddress
import struct
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from cassandra.util import Duration

UTC = datetime.timezone.utc


def integer(bits: int) -> Callable[[Random], int]:
    """Returns a function that draws signed integers of `bits` bits. Many of them are small."""

    def made(rng: Random) -> int:
        number = rng.getrandbits(bits - 1) >> rng.randrange(bits)
        return ~number if rng.random() < 0.5 else number

    return made


def single(rng: Random) -> float:
    """Returns a binary32 number with a random bit pattern, or a double with at most 3 decimals."""
    if rng.random() < 0.5:
        number: float = struct.unpack(">f", struct.pack(">I", rng.getrandbits(32)))[0]
        return number
    return round(rng.uniform(-1000, 1000), rng.randrange(4))


def double(rng: Random) -> float:
    """Returns a double with a random bit pattern."""
    number: float = struct.unpack(">d", struct.pack(">Q", rng.getrandbits(64)))[0]
    return number


def text(rng: Random) -> str:
    """Returns text of characters from all Unicode planes, without surrogates."""
    ends = (0x80, 0x80, 0x800, 0xD800, 0x110000)
    characters = (rng.randrange(rng.choice(ends)) for _ in range(rng.randrange(8)))
    return "".join(chr(c) for c in characters if not 0xD800 <= c < 0xE000)


def ascii_text(rng: Random) -> str:
    """Returns text of ASCII characters."""
    return "".join(chr(rng.randrange(128)) for _ in range(rng.randrange(8)))


def decimal(rng: Random) -> Decimal:
    """Returns a decimal of at most 59 digits, with a small or large exponent."""
    digits = tuple(rng.randrange(10) for _ in range(rng.randrange(1, rng.choice((4, 20, 60)))))
    exponent = rng.choice((0, -2, rng.randrange(-50, 50), rng.randrange(-(2**31) + 1, 2**31)))
    return Decimal((rng.randrange(2), digits, exponent))


def inet(rng: Random) -> Any:
    """Returns an IPv4 or IPv6 address, as an object or as text."""
    address: Any = (
        ipaddress.IPv4Address(rng.getrandbits(32))
        if rng.random() < 0.5
        else ipaddress.IPv6Address(rng.getrandbits(rng.choice((8, 32, 64, 128))))
    )
    return address if rng.random() < 0.5 else str(address)


def time_uuid(rng: Random) -> UUID:
    """Returns a UUID of version 1."""
    return UUID(int=rng.getrandbits(128) & ~(0xF << 76) | 1 << 76)


def date(rng: Random) -> datetime.date:
    """Returns a random day in the range of `datetime.date`."""
    return datetime.date.fromordinal(rng.randrange(1, datetime.date.max.toordinal() + 1))


def time(rng: Random) -> Any:
    """Returns a random time of day, as a number of nanoseconds or as a `datetime.time`."""
    nanoseconds = rng.randrange(86_400_000_000_000)
    if rng.random() < 0.5:
        return nanoseconds
    midnight = datetime.datetime(2000, 1, 1)
    return (midnight + datetime.timedelta(microseconds=nanoseconds // 1000)).time()


def timestamp(rng: Random) -> Any:
    """Returns a `datetime` with microseconds. It is naive or has a random time zone."""
    days, seconds = rng.randrange(-719_000, 2_932_000), rng.randrange(86_400)
    since = datetime.timedelta(days=days, seconds=seconds, microseconds=rng.randrange(10**6))
    instant = datetime.datetime(1970, 1, 1) + since
    zones = [None, UTC, datetime.timezone(datetime.timedelta(minutes=rng.randrange(-800, 800)))]
    return instant.replace(tzinfo=rng.choice(zones))


def duration(rng: Random) -> Duration:
    """Returns a duration whose parts all have the same sign, or are 0."""
    sign = rng.choice((1, -1))
    parts = (rng.getrandbits(bits) >> rng.randrange(bits) for bits in (31, 31, 63))
    return Duration(*(sign * part for part in parts))


PLAIN: dict[str, Callable[[Random], Any]] = {
    "ascii": ascii_text,
    "text": text,
    "tinyint": integer(8),
    "smallint": integer(16),
    "int": integer(32),
    "bigint": integer(64),
    "counter": integer(64),
    "varint": lambda rng: integer(rng.choice((8, 32, 64, 128, 1000)))(rng),
    "float": single,
    "double": double,
    "decimal": decimal,
    "boolean": lambda rng: rng.random() < 0.5,
    "blob": lambda rng: rng.randbytes(rng.randrange(8)),
    "uuid": lambda rng: UUID(int=rng.getrandbits(128)),
    "timeuuid": time_uuid,
    "inet": inet,
    "date": date,
    "time": time,
    "timestamp": timestamp,
    "duration": duration,
}
