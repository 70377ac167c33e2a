"""How to connect: every setting of a session, checked as soon as it is given."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import IPv6Address
from typing import Any, Literal, TypedDict

from ._options import check_int
from .errors import ConfigError
from .policies import Consistency

__all__ = ["Config", "RowsAs", "Settings"]

RowsAs = Literal["named", "tuple", "dict"]
"""In what shape rows come: named tuples, plain tuples, or dicts by column name."""

_SERIAL = (Consistency.SERIAL, Consistency.LOCAL_SERIAL)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A session's settings.

    Raises: `ConfigError` for a value that cannot be, before anything is connected.
    """

    contact_points: str | Sequence[str] = ("127.0.0.1",)
    """Nodes to ask first: `host`, `host:port`, `[ipv6]:port`, one or several. One that is down
    does no harm while another answers."""
    port: int = 9042
    """The port of contact points that name none."""
    keyspace: str | None = None
    """The keyspace of unqualified table names; letter case matters."""
    user: str | None = None
    """User name, for servers that ask for one. Goes with `password`."""
    password: str | None = field(default=None, repr=False)
    """Never shown."""
    consistency: Consistency | str = Consistency.LOCAL_QUORUM
    """Of requests that say nothing else."""
    serial_consistency: Consistency | str | None = Consistency.LOCAL_SERIAL
    """Of the Paxos phase of lightweight transactions: `SERIAL` or `LOCAL_SERIAL`."""
    timeout_s: float | None = 30.0
    """Seconds after which a request, with all its retries, is given up; `None` for never."""
    connect_timeout_s: float = 30.0
    """Seconds after which connecting is given up."""
    compression: Literal["lz4", "snappy"] | None = None
    """Of frames, both ways."""
    page_size: int = 5000
    """Rows per page of a result."""
    rows: RowsAs = "named"
    """In what shape rows come."""
    timestamps: Literal["aware", "naive"] = "aware"
    """`timestamp` values as `datetime` with the time zone UTC, or without any."""
    vectors: Literal["list", "numpy"] = "list"
    """Vectors of float, double, int and bigint as lists, or as NumPy arrays."""
    prepared_cache_size: int = 1000
    """Statements kept prepared for texts that are executed with values."""
    application_name: str | None = None
    """Told to the server."""
    io_threads: int = 1
    """Threads of the network engine. One is right for most programs."""

    def __post_init__(self) -> None:
        points = self.contact_points
        points = (points,) if isinstance(points, str) else points
        if not isinstance(points, Sequence) or not points:
            raise ConfigError("contact_points must be a host or a sequence of hosts")
        check_int("port", self.port, 1, 65_535)
        object.__setattr__(self, "contact_points", tuple(_point(p, self.port) for p in points))
        for name in ("keyspace", "user", "password", "application_name"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(f"{name} must be a non-empty str")
        if self.keyspace is not None and not re.fullmatch(r"\w{1,48}", self.keyspace, re.ASCII):
            raise ConfigError(
                f"keyspace must be 1 to 48 letters, digits and underscores, got {self.keyspace!r}"
            )
        if (self.user is None) != (self.password is None):
            raise ConfigError("user and password go together: give both or neither")
        object.__setattr__(self, "consistency", _consistency("consistency", self.consistency))
        if self.consistency in _SERIAL:
            # Reads may be serial; a default that every write fails with may not.
            raise ConfigError("a session's consistency cannot be serial; give it with the request")
        if self.serial_consistency is not None:
            serial = _consistency("serial_consistency", self.serial_consistency)
            if serial not in _SERIAL:
                raise ConfigError(
                    f"serial_consistency must be SERIAL or LOCAL_SERIAL, not {serial}"
                )
            object.__setattr__(self, "serial_consistency", serial)
        if self.timeout_s is not None:
            _check_seconds("timeout_s", self.timeout_s)
        _check_seconds("connect_timeout_s", self.connect_timeout_s)
        _check_choice("compression", self.compression, (None, "lz4", "snappy"))
        _check_choice("rows", self.rows, ("named", "tuple", "dict"))
        _check_choice("timestamps", self.timestamps, ("aware", "naive"))
        _check_choice("vectors", self.vectors, ("list", "numpy"))
        if self.vectors == "numpy" and find_spec("numpy") is None:
            raise ConfigError("vectors='numpy' needs NumPy: install the package numpy")
        check_int("page_size", self.page_size, 1, 2**31 - 1)
        check_int("prepared_cache_size", self.prepared_cache_size, 1, 2**31 - 1)
        check_int("io_threads", self.io_threads, 1, 256)

    def _native(self) -> dict[str, Any]:
        """What the native core takes."""
        return {
            "contact_points": list(self.contact_points),
            "keyspace": self.keyspace,
            "user": self.user,
            "password": self.password,
            "consistency": self.consistency,
            "serial_consistency": self.serial_consistency,
            "timeout_s": math.inf if self.timeout_s is None else self.timeout_s,
            "connect_timeout_s": min(self.connect_timeout_s, 1e9),
            "compression": self.compression,
            "page_size": self.page_size,
            "application_name": self.application_name,
            "io_threads": self.io_threads,
            "prepared_cache_size": self.prepared_cache_size,
            "rows": self.rows,
            "naive_timestamps": self.timestamps == "naive",
            "numpy_vectors": self.vectors == "numpy",
        }


class Settings(TypedDict, total=False):
    """The fields of [`Config`][turbocql.config.Config] that follow the contact points, as keyword
    arguments.
    """

    port: int
    keyspace: str | None
    user: str | None
    password: str | None
    consistency: Consistency | str
    serial_consistency: Consistency | str | None
    timeout_s: float | None
    connect_timeout_s: float
    compression: Literal["lz4", "snappy"] | None
    page_size: int
    rows: RowsAs
    timestamps: Literal["aware", "naive"]
    vectors: Literal["list", "numpy"]
    prepared_cache_size: int
    application_name: str | None
    io_threads: int


def _point(point: object, port: int) -> str:
    """`host:port`, in brackets where the host is an IPv6 address."""
    if not isinstance(point, str) or not point.strip():
        raise ConfigError(f"a contact point must be a str like 'host:9042', got {point!r}")
    text = point.strip()
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and (not rest.startswith(":") or rest == ":")):
            raise ConfigError(f"contact point {point!r}: expected '[address]:port'")
        host, own_port = f"[{_ipv6(point, host)}]", rest[1:]
    elif text.count(":") > 1:
        host, own_port = f"[{_ipv6(point, text)}]", ""
    else:
        host, colon, own_port = text.partition(":")
        if colon and not own_port:
            raise ConfigError(f"contact point {point!r}: the port is missing")
        if re.search(r"[\s,;/\[\]]", host):
            raise ConfigError(f"contact point {point!r}: {host!r} is no host name")
    if not own_port:
        return f"{host}:{port}"
    if not own_port.isascii() or not own_port.isdigit() or not 1 <= int(own_port) <= 65_535:
        raise ConfigError(f"contact point {point!r}: {own_port!r} is no port from 1 to 65535")
    if not host:
        raise ConfigError(f"contact point {point!r}: the host is missing")
    return f"{host}:{own_port}"


def _ipv6(point: str, address: str) -> str:
    try:
        return str(IPv6Address(address))
    except ValueError:
        raise ConfigError(f"contact point {point!r}: {address!r} is no IPv6 address") from None


def _consistency(name: str, value: Consistency | str) -> Consistency:
    try:
        return Consistency(value.upper() if isinstance(value, str) else value)
    except ValueError:
        known = ", ".join(level.value for level in Consistency)
        raise ConfigError(f"{name} must be one of {known}, got {value!r}") from None


def _check_seconds(name: str, value: object) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value > 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a number of seconds above 0, got {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be one of {choices}, got {value!r}")
