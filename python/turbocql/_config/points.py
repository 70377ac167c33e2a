"""Parses contact points, which are hosts with their ports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address

from .._checks import holds_url, shown, shown_address
from ..errors import ConfigError

__all__ = ["contact_point", "with_ports"]


def with_ports(points: Sequence[object], port: int) -> tuple[str, ...]:
    """The contact points as `host:port`. A contact point without a port gets `port`."""
    # This check precedes all errors that show a contact point: if a program has split a URL at its
    # commas, and the password has a comma, one of the "contact points" is a part of the password.
    if any(isinstance(point, str) and holds_url(point) for point in points):
        raise ConfigError(
            "a contact point must be a str like 'host:9042', without user and password; pass a"
            " URL to connect(url) or Config.from_url(url)"
        )
    return tuple(contact_point(point, port, number) for number, point in enumerate(points, 1))


def contact_point(point: object, port: int, number: int = 1) -> str:
    """Formats a contact point as `host:port`, with the host in brackets if it is an IPv6 address.

    An error shows the contact point or, if it may contain a password, only its `number`.
    """
    if not isinstance(point, str) or not point.strip():
        raise ConfigError(
            f"contact point {number} must be a str like 'host:9042', got {shown(point)}"
        )
    text = point.strip()
    label = f"contact point {shown_address(text) or number}"
    if text.startswith("["):
        host, bracket, port_suffix = text[1:].partition("]")
        if not bracket or (port_suffix and (not port_suffix.startswith(":") or port_suffix == ":")):
            raise ConfigError(f"{label}: expected '[address]:port'")
        host, point_port = f"[{_ipv6(label, host)}]", port_suffix[1:]
    elif text.count(":") > 1:
        host, point_port = f"[{_ipv6(label, text)}]", ""
    else:
        host, colon, point_port = text.partition(":")
        if colon and not point_port:
            raise ConfigError(f"{label}: the port is missing")
        if re.search(r"[\s,;/\[\]@]", host):
            raise ConfigError(f"{label}: expected a host name, optionally with a port")
    if not point_port:
        return f"{host}:{port}"
    if not re.fullmatch("[0-9]{1,5}", point_port) or not 1 <= int(point_port) <= 65_535:
        raise ConfigError(f"{label}: the port must be a number from 1 to 65535")
    if not host:
        raise ConfigError(f"{label}: the host is missing")
    return f"{host}:{point_port}"


def _ipv6(label: str, address: str) -> str:
    with suppress(ValueError):
        return str(IPv6Address(address))
    # Not raised in an `except` block, where the error's `__context__` would show the text.
    colons = f"a text with {address.count(':')} of them, which is not shown"
    raise ConfigError(
        f"{label}: expected an IPv6 address, or host:port with one colon, got {colons}"
    )
