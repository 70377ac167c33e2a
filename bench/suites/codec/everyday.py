"""Inputs of the accelerator's benchmark cases with everyday values.

Programs often bind such values, although their classes are not the usual ones for the CQL type.
"""

from __future__ import annotations

import array
import collections
import datetime
import enum
import importlib
import ipaddress
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = ["CASES", "EVERYDAY", "value_of"]

_numbers = np.linspace(-1, 1, 1536, dtype="float32")
_berlin = zoneinfo.ZoneInfo("Europe/Berlin")
_start = datetime.datetime(2026, 3, 1, 12, 34, 56, 789_000)


class Level(enum.IntEnum):
    """An enumeration whose members a program binds as integers."""

    HIGH = 300


class Key(uuid.UUID):
    """A subclass of `UUID`, as some libraries define one."""


class Amount(Decimal):
    """A subclass of `Decimal`."""


def _timestamp(**zone: Any) -> Any:
    return importlib.import_module("pandas").Timestamp(_start, **zone)


def _times(zone: Any) -> list[datetime.datetime]:
    return [(_start + datetime.timedelta(hours=n)).replace(tzinfo=zone) for n in range(100)]


def _localized() -> Any:
    return importlib.import_module("pytz").timezone("Europe/Berlin").localize(_start)


def _series() -> Any:
    return importlib.import_module("pandas").Series(np.linspace(-1, 1, 100))


EVERYDAY: dict[str, tuple[str, Callable[[], Any]]] = {
    "vector<float, 1536>, list(float32 ndarray)": ("vector<float, 1536>", lambda: list(_numbers)),
    "vector<float, 1536>, list(float64 ndarray)": (
        "vector<float, 1536>",
        lambda: list(_numbers.astype("float64")),
    ),
    "vector<float, 1536>, object ndarray": (
        "vector<float, 1536>",
        lambda: np.array(_numbers.tolist(), object),
    ),
    "vector<float, 4>, list(float32 ndarray)": ("vector<float, 4>", lambda: list(_numbers[:4])),
    "list<float> of 100, float32 ndarray": ("list<float>", lambda: _numbers[:100].copy()),
    "list<float> of 100, NumPy's float32": ("list<float>", lambda: list(_numbers[:100])),
    "list<float> of 3, NumPy's float32": ("list<float>", lambda: list(_numbers[:3])),
    "list<int> of 100, NumPy's int64": ("list<int>", lambda: list(np.arange(100))),
    "list<int> of 100, array.array": ("list<int>", lambda: array.array("i", range(100))),
    "list<int> of 100, deque": ("list<int>", lambda: collections.deque(range(100))),
    "list<int> of 100, IntEnum": ("list<int>", lambda: [Level.HIGH] * 100),
    "list<double> of 100, pandas Series": ("list<double>", _series),
    "list<timestamp> of 100, pandas Timestamp": ("list<timestamp>", lambda: [_timestamp()] * 100),
    "list<timestamp> of 100, zoneinfo": ("list<timestamp>", lambda: _times(_berlin)),
    "list<timestamp> of 100, date": (
        "list<timestamp>",
        lambda: [time.date() for time in _times(None)],
    ),
    "list<timestamp> of 100, int": ("list<timestamp>", lambda: list(range(10**12, 10**12 + 100))),
    "list<date> of 100, datetime": ("list<date>", lambda: _times(None)),
    "list<date> of 100, str": ("list<date>", lambda: ["2026-02-28"] * 100),
    "list<time> of 100, datetime.time": ("list<time>", lambda: [t.time() for t in _times(None)]),
    "list<inet> of 100, str": ("list<inet>", lambda: [f"10.0.0.{n}" for n in range(100)]),
    "list<inet> of 100, ipaddress": (
        "list<inet>",
        lambda: [ipaddress.ip_address(f"::{n + 1}") for n in range(100)],
    ),
    "list<text> of 100, NumPy's str_": ("list<text>", lambda: list(np.array(["text"] * 100))),
    "list<uuid> of 100, a subclass of UUID": (
        "list<uuid>",
        lambda: [Key(int=n) for n in range(100)],
    ),
    "list<decimal> of 100, a subclass of Decimal": (
        "list<decimal>",
        lambda: [Amount(n).scaleb(-2) for n in range(100)],
    ),
    "list<decimal> of 100, float": ("list<decimal>", lambda: [n / 4 for n in range(100)]),
    "list<blob> of 100, bytearray": ("list<blob>", lambda: [bytearray(16)] * 100),
    "map<text, int> of 100, defaultdict": (
        "map<text, int>",
        lambda: collections.defaultdict(int, {str(n): n for n in range(100)}),
    ),
    "timestamp, pandas Timestamp": ("timestamp", _timestamp),
    "timestamp, aware pandas Timestamp": ("timestamp", lambda: _timestamp(tz="Europe/Berlin")),
    "timestamp, zoneinfo": ("timestamp", lambda: _start.replace(tzinfo=_berlin)),
    "timestamp, pytz": ("timestamp", _localized),
    "timestamp, date": ("timestamp", _start.date),
    "timestamp, int": ("timestamp", lambda: 1_700_000_000_000),
    "date, datetime": ("date", lambda: _start),
    "varint, IntEnum": ("varint", lambda: Level.HIGH),
    "decimal, float": ("decimal", lambda: 0.25),
}
"""For each case, a CQL type and a function that makes the value. Some functions import pandas or
pytz."""


CASES = [
    *(f"everyday: {name}" for name in EVERYDAY),
    *(f"everyday row: int, text, {name}" for name in EVERYDAY),
]
"""The names of the cases: each value alone, and in a row with an int and a text."""


def value_of(name: str) -> Any:
    """Makes the value of a case."""
    return EVERYDAY[name][1]()
