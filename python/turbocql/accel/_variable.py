"""The environment variable that accelerates every process that inherits it."""

from __future__ import annotations

__all__ = ["VARIABLE", "parts_of"]

VARIABLE = "TURBOCQL_ACCELERATE"
_ON = ("1", "on", "true", "yes")
_OFF = ("", "0", "off", "false", "no")


def parts_of(value: str) -> list[str] | None:
    """Returns the parts to leave out. Returns None if the variable's value turns acceleration off.

    Raises: ValueError, for an unknown value.
    """
    if value.lower() in _ON:
        return []
    if value.lower() in _OFF:
        return None
    name, equals, parts = value.partition("=")
    if name != "without" or not equals:
        raise ValueError(f"{VARIABLE}: expected 1, 0 or without=PART,..., got {value!r}")
    return [part.strip() for part in parts.split(",") if part.strip()]
