"""Converts those cells of text files that have no CQL type: write times, and the cells of columns
that are not loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from .from_text import UNREADABLE, Number, instants_of, library
from .json_values import shown_type

__all__ = ["guessed", "guessed_of", "untyped", "write_times", "write_times_of"]

_UNITS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_WRITE_TIME = (
    "expected a write time as whole microseconds since 1970, or as a timestamp such as"
    " 2026-01-31T08:30:00Z"
)


def guessed(texts: Any) -> Any:
    """Converts texts to integers or timestamps. If some texts are neither, returns the texts."""
    pa = library()
    try:
        return texts.cast(pa.int64())
    except UNREADABLE:
        pass
    try:
        return instants_of(texts)
    except UNREADABLE:
        return texts


def untyped(cells: Any) -> Any:
    """Converts the CSV cells of a column that is not loaded. Their bytes need not be UTF-8."""
    pa = library()
    try:
        return guessed(cells.cast(pa.string()))
    except UNREADABLE:
        values = cells.to_pylist()
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
        return pa.array(texts, pa.string())


def guessed_of(cells: Sequence[Any]) -> Any:
    """Converts the JSON values of a column that is not loaded to an Arrow type that holds all."""
    pa = library()
    classes = set(map(type, cells)) - {type(None)}
    try:
        if classes == {str}:
            return guessed(pa.array(cells, pa.string()))
        if classes <= {int} or classes <= {bool} or classes <= {int, float}:
            return pa.array(cells)
    except UNREADABLE:
        pass
    return pa.array([None if cell is None else json.dumps(cell) for cell in cells], pa.string())


def write_times(texts: Any) -> Any:
    """Converts the texts of write times, which are microseconds since 1970 or timestamps.

    Raises: `ValueError` if a text is neither.
    """
    pa = library()
    times = guessed(texts)
    if times.type != pa.string():
        return times
    ticks: list[tuple[int, str] | None] = []
    for text in texts.to_pylist():
        if text is None:
            ticks.append(None)
        elif re.fullmatch("[-+]?[0-9]{1,19}", text):
            ticks.append((int(text), "us"))
        else:
            time = guessed(pa.array([text], pa.string()))
            if not pa.types.is_timestamp(time.type):
                raise ValueError(_WRITE_TIME)
            ticks.append((time.cast(pa.int64())[0].as_py(), time.type.unit))
    unit = max((tick[1] for tick in ticks if tick), key=_UNITS.__getitem__)
    scaled = [tick and tick[0] * (_UNITS[unit] // _UNITS[tick[1]]) for tick in ticks]
    try:
        return pa.array(scaled, pa.int64()).cast(pa.timestamp(unit, "UTC"))
    except UNREADABLE:
        raise ValueError(f"{_WRITE_TIME}, within 64 bits of the column's finest unit") from None


def write_times_of(cells: Sequence[Any]) -> Any:
    """Converts write times in JSON: numbers, or texts that `write_times` takes.

    Raises: `ValueError` for another value.
    """
    for refused_class in set(map(type, cells)) - {type(None), int, str, Number}:
        raise ValueError(f"{_WRITE_TIME}, got {shown_type(refused_class)}")
    pa = library()
    try:
        texts = pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    except UNREADABLE:
        raise ValueError(_WRITE_TIME) from None
    return write_times(texts)
