"""Columns of a program's data, which `pieces.py` splits into pieces.

A column's `row_bytes` is the number of bytes that one of its rows adds to a piece: 0 for Arrow
columns, which are not copied. The sum of all columns' `row_bytes` limits how many rows a piece has.
A column's `run` returns how many rows a piece that begins at row `begin` may have, and `part`
returns the column's values in these rows for the native core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core, errors
from .packages import needed

__all__ = ["MAX_PIECE_BYTES", "Arrow", "Numbers", "Objects", "numpy", "refused"]

MAX_PIECE_BYTES = 4 << 20
"""The maximum size of a piece. Arrays are copied piece by piece, so that no whole array is in
memory twice."""

_UNITS = ("D", "s", "ms", "us", "ns")


def refused(reason: str) -> errors.EncodeError:
    """Returns an `EncodeError` for columns that cannot be read or written. The caller raises it."""
    error: errors.EncodeError = errors.from_codec("encode", reason, "", "columns")  # type: ignore[assignment]
    return error


def numpy() -> Any:
    """Imports NumPy, and returns the module."""
    return needed("numpy", "an array")


class Arrow:
    """A column from an Arrow producer. It is not copied."""

    row_bytes = 0

    def __init__(self, column: _core.ArrowColumn) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def run(self, begin: int, max_rows: int) -> int:
        return self._column.run(begin)

    def part(self, begin: int, count: int) -> tuple[_core.ArrowColumn, int]:
        return self._column, begin


class Objects:
    """A column of Python objects, which are encoded as `execute` encodes its values."""

    row_bytes = MAX_PIECE_BYTES // 512
    """This value limits a piece to 512 rows. The GIL is held while a piece of objects is encoded,
    so a longer piece would block an event loop for too long."""

    def __init__(self, values: Any, is_missing: Callable[[Any], bool] | None = None) -> None:
        self._values, self._is_missing = values, is_missing

    def __len__(self) -> int:
        return len(self._values)

    def run(self, begin: int, max_rows: int) -> int:
        count = max(0, min(max_rows, len(self) - begin))
        # The lengths of texts, bytes and lists in a piece add up to at most `MAX_PIECE_BYTES`.
        while count > 1:
            try:
                size = sum(map(len, self._values[begin : begin + count]))
            except TypeError:
                break
            if size <= MAX_PIECE_BYTES:
                break
            count //= 2
        return count

    def part(self, begin: int, count: int) -> list[Any]:
        part = self._values[begin : begin + count]
        values = part.tolist() if hasattr(part, "tolist") else list(part)
        if self._is_missing is None:
            return values
        return [None if self._is_missing(value) else value for value in values]


class Numbers:
    """An array of numbers, times or texts of fixed width. A row is a single value or a vector."""

    def __init__(self, name: str, array: Any) -> None:
        np = numpy()
        self._name = name
        self._mask = None
        if isinstance(array, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(array)
            self._mask = mask if mask.any() else None
            array = np.ma.getdata(array)
        self._kind, self._array = self._typed_array(array)
        self.row_bytes = self._array.dtype.itemsize * max(1, int(np.prod(array.shape[1:])))

    def _typed_array(self, array: Any) -> tuple[str, Any]:
        """Returns the core's name for the array's type, and the array converted to this type.

        Raises: `EncodeError` for a dtype that no CQL type takes.
        """
        dtype = array.dtype
        if dtype.kind in "mM":
            unit, count = numpy().datetime_data(dtype)
            if unit in ("h", "m") or (unit in ("s", "ms", "us", "ns") and count != 1):
                array = self._rescaled(array, unit, count)
                unit = "s" if unit in "hm" else unit
            elif unit not in _UNITS or count != 1 or (dtype.kind, unit) == ("m", "D"):
                raise self._unsupported_dtype(dtype)
            return f"{dtype.kind}8[{unit}]", array
        if dtype.kind in "US":
            return f"{dtype.kind}{dtype.itemsize // (4 if dtype.kind == 'U' else 1)}", array
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise self._unsupported_dtype(dtype)
        return f"{dtype.kind}{dtype.itemsize}", array

    def _rescaled(self, array: Any, unit: str, count: int) -> Any:
        """Converts hours and minutes to seconds, and a unit such as 10 ms to ms.

        Raises: `EncodeError` if a converted time has more than 64 bits.
        """
        np = numpy()
        factor = count * {"h": 3600, "m": 60}.get(unit, 1)
        numbers = array.astype(array.dtype.newbyteorder("="), copy=False).view("i8")
        max_count = (2**63 - 1) // factor
        # NumPy's multiplication would overflow silently. The smallest int64 is NaT.
        out_of_range_mask = (numbers > max_count) | ((numbers < -max_count) & (numbers != -(2**63)))
        if out_of_range_mask.any():
            row = int(np.argwhere(out_of_range_mask)[0][0])
            raise refused(f'column "{self._name}", row {row}: a time beyond 64 bits of seconds')
        return array.astype(f"{array.dtype.kind}8[{'s' if unit in 'hm' else unit}]")

    def _unsupported_dtype(self, dtype: Any) -> errors.EncodeError:
        return refused(f'column "{self._name}": no CQL type takes arrays of {dtype}')

    def __len__(self) -> int:
        return len(self._array)

    def run(self, begin: int, max_rows: int) -> int:
        return max(0, len(self) - begin)

    def part(self, begin: int, count: int) -> tuple[str, list[int], Any, list[bool] | None]:
        np = numpy()
        part = self._array[begin : begin + count]
        # NumPy copies the part only if it is not contiguous or not little-endian.
        part = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
        data = part.reshape(-1).view("u1")
        return self._kind, list(self._array.shape[1:]), data, self._valid(begin, count)

    def _valid(self, begin: int, count: int) -> list[bool] | None:
        if self._mask is None:
            return None
        mask = self._mask[begin : begin + count].reshape(count, -1)
        any_masked, all_masked = mask.any(axis=1), mask.all(axis=1)
        partly_masked_rows = numpy().flatnonzero(any_masked & ~all_masked)
        if len(partly_masked_rows):
            row = begin + partly_masked_rows[0]
            raise refused(f'column "{self._name}", row {row}: a part of the vector is masked')
        valid: list[bool] = (~any_masked).tolist()
        return valid
