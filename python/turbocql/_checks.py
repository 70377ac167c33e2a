"""Settings and options, checked as soon as they are given."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

from .errors import ConfigError

__all__ = ["address", "check_choice", "check_flag", "check_int", "check_keyspace", "check_seconds"]


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raises `ConfigError` unless `value` is an int from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} must be an int from {low} to {high}, got {value!r}")


def check_seconds(name: str, value: object) -> None:
    """Raises `ConfigError` unless `value` is a number of seconds above zero."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value > 0:  # type: ignore[operator]
        raise ConfigError(f"{name} must be a number of seconds above 0, got {value!r}")


def check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raises `ConfigError` unless `value` is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name} must be one of {choices}, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Raises `ConfigError` unless `value` is a bool."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be a bool, got {value!r}")


def address(name: str, place: object) -> tuple[str, int | None]:
    """An IP address and perhaps a port, of `1.2.3.4`, `1.2.3.4:9042`, `::1` or `[::1]:9042`."""
    refused = ConfigError(
        f"{name}: expected an IP address like '10.0.0.1', '10.0.0.1:9042' or '[::1]:9042', got"
        f" {place!r}"
    )
    if not isinstance(place, str):
        raise refused
    split = re.fullmatch(r"\[(?P<v6>[^\]]+)\](:(?P<p6>\d+))?|(?P<v4>[^:]+)(:(?P<p4>\d+))?", place)
    try:
        if split is None:
            return str(IPv6Address(place)), None
        host = str(ip_address(split["v6"] or split["v4"]))
    except ValueError:
        raise refused from None
    port = split["p6"] or split["p4"]
    if port is not None and not 1 <= int(port) <= 65_535:
        raise refused
    return host, None if port is None else int(port)


def check_keyspace(name: object) -> None:
    """Raises `ConfigError` unless `name` can be a keyspace's."""
    if not isinstance(name, str) or not name:
        raise ConfigError("keyspace must be a non-empty str")
    if not re.fullmatch(r"\w{1,48}", name, re.ASCII):
        raise ConfigError(f"keyspace must be 1 to 48 letters, digits and underscores, got {name!r}")
