"""The errors for arguments that are not columns, such as rows and single values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._checks import class_name

__all__ = ["no_column", "no_columns", "rows_instead"]

_EXAMPLE = 'columns, such as {"id": [1, 2]}'
_FOR_ROWS = "rows are for execute_many(statement, rows)"
_FIELDS = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__", "__pydantic_fields__")
"""Attributes of dataclasses, and of the classes of attrs, msgspec and pydantic. An object of such a
class has the values of one row."""


def rows_instead(row: Any) -> TypeError:
    """The error for an iterable of rows in place of columns."""
    return TypeError(
        f"expected {_EXAMPLE}, or an iterable of record batches, got one of {class_name(row)}:"
        f" {_FOR_ROWS}"
    )


def no_columns(data: Any) -> TypeError:
    """The error for an object that was passed as columns, but contains no columns."""
    hint = f": {_FOR_ROWS}" if any(hasattr(type(data), name) for name in _FIELDS) else ""
    if type(data).__module__ == "numpy":
        hint = ': name the columns, as in {"id": array[:, 0]}'
    return TypeError(
        "data must have the Arrow PyCapsule interface, or be a dict of arrays, a pandas frame or an"
        f" iterable of record batches, got {class_name(data)}{hint}"
    )


def no_column(name: str, values: Any) -> TypeError:
    """The error for an object that was passed as a column, but is not one."""
    problem = (
        f'column "{name}" must be an array of NumPy, an Arrow array, an object with __dlpack__ or a'
        f" list, got {class_name(values)}"
    )
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray)):
        return TypeError(f"{problem}: pass a list of its values")
    return TypeError(f"{problem}, a single value: pass {_EXAMPLE}; {_FOR_ROWS}")
