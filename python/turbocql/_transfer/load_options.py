"""The default values of the options of a load, and functions that check the options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._checks import check_int, shown
from ..errors import ConfigError
from .stops import MAX_FAILURES

__all__ = [
    "DEFAULTS",
    "Pace",
    "check_setting",
    "checked_batches",
    "checked_names",
    "checked_rename",
    "failure_limits",
    "rates_of",
]

DEFAULTS: dict[str, Any] = {
    **{"rename": None, "columns": None, "nulls": "unset", "ttl": None, "timestamp": None},
    **{"truncate_time": False, "concurrency": 256, "max_failures": 1000, "raise_failures": True},
    **{"format": None, "csv": None, "adaptive": True, "rate_limit": None, "retry_for_s": 60.0},
    **{"batches": "auto", "batch_bytes": 16384, "limit": None, "dry_run": False},
    **{"max_errors": None, "rejects": None, "checkpoint": None, "resume": None, "progress": None},
    **{"consistency": None, "timeout_s": None, "idempotent": True, "profile": None},
}
"""The default values of the options of a load."""


class Pace(NamedTuple):
    """The pace at which an `execute_many` or a load sends its requests."""

    adaptive: bool
    """Whether the number of requests in flight adapts to the cluster."""
    rows_per_s: float | None
    bytes_per_s: float | None
    retry_for_s: float


def checked_rename(rename: Mapping[str, str] | None) -> dict[str, str]:
    targets = {} if rename is None else dict(rename)
    for name, target in targets.items():
        if not isinstance(name, str) or not isinstance(target, str):
            raise TypeError(f"rename must map str to str, got {shown(name)}: {shown(target)}")
    return targets


def checked_names(option: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{option} must be a list of names, got the str {names!r}")
    name_list = list(names)
    for name in name_list:
        if not isinstance(name, str):
            raise TypeError(f"{option} must be a list of names, got one with {shown(name)}")
    return name_list


def check_setting(option: str, setting: object, maximum: int) -> None:
    if setting is None or isinstance(setting, str):
        return
    if not isinstance(setting, int) or isinstance(setting, bool) or not 0 <= setting <= maximum:
        raise ConfigError(
            f"{option} must be an int from 0 to {maximum}, or the name of a column, got"
            f" {shown(setting)}"
        )


def failure_limits(max_failures: Any, max_errors: Any) -> tuple[int, float | None]:
    """Returns the number and the share of rows that may fail.

    If the limit is a number, the share is `None`. If `max_errors` is a share, the number is
    `MAX_FAILURES`, so that only the share limits failures.
    """
    if max_errors is None:
        return max_failures, None
    if isinstance(max_errors, float) and 0 <= max_errors < 1:
        return MAX_FAILURES, max_errors
    check_int("max_errors (or a share as a float below 1)", max_errors, 0, MAX_FAILURES)
    return max_errors, None


def checked_batches(batches: Any, max_bytes: Any) -> tuple[int, bool] | None:
    """Returns the maximal size of a batch in bytes, and whether rows are always batched, without
    measuring the speed of batches. Returns `None` if rows are never batched.
    """
    if not isinstance(batches, bool) and batches != "auto":
        raise ConfigError(f'batches must be True, False or "auto", got {shown(batches)}')
    check_int("batch_bytes", max_bytes, 1, 2**30)
    return None if batches is False else (max_bytes, batches is True)


_UNITS = {"rows": 0, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20}


def rates_of(limit: Any) -> tuple[float | None, float | None]:
    """Returns the limits in rows and in bytes per second, or `None` for no limit."""
    if limit is None:
        return None, None
    number, unit = limit, "rows"
    if isinstance(limit, str):
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)(?:/s)?", limit.strip())
        number, unit = (float(match[1]), match[2]) if match else (0, "")
    is_valid = isinstance(number, (int, float)) and not isinstance(number, bool) and unit in _UNITS
    if not is_valid or not 0 < number < float("inf"):
        raise ConfigError(
            f"rate_limit must be rows a second, or bytes a second such as '20 MB', got"
            f" {shown(limit)}"
        )
    if unit == "rows":
        return float(number), None
    return None, number * _UNITS[unit]
