"""Options of a request, packed for the native core."""

from __future__ import annotations

from typing import Any

from .errors import ConfigError
from .policies import Consistency


def pack(
    consistency: Consistency | str | None,
    serial_consistency: Consistency | str | None,
    timeout_s: float | None,
    page_size: int | None,
    timestamp: int | None,
    idempotent: bool | None,
) -> dict[str, Any] | None:
    """`None` when every option is the session's."""
    if (
        consistency is None
        and serial_consistency is None
        and timeout_s is None
        and page_size is None
        and timestamp is None
        and idempotent is None
    ):
        return None
    return {
        "consistency": consistency,
        "serial_consistency": serial_consistency,
        "timeout_s": timeout_s,
        "page_size": page_size,
        "timestamp": timestamp,
        "idempotent": idempotent,
    }


def check_int(name: str, value: object, low: int, high: int) -> None:
    """Raises `ConfigError` unless `value` is an int from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} must be an int from {low} to {high}, got {value!r}")
