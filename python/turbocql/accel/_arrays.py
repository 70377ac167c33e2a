"""Makes NumPy arrays from columns, equal to the arrays that the driver's own parser makes."""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any

from ._origin import NotReplaced
from ._readers import Entry

__all__ = ["Arrays"]

_PAGE = bytes.fromhex(
    "00000001 00000001 0001 6b 0001 74 0001 63 0009 00000002 00000004 00000007 ffffffff"
)
"""The body of a RESULT after its kind: a page with one int column and two rows, 7 and null."""


class Arrays:
    """Makes arrays from columns, with the installed NumPy.

    Before the first page is read, a sample array is compared with the array that the driver makes.
    It is not compared earlier, because the comparison imports `numpy.ma`, and a program that reads
    no arrays does not need that module.

    Raises: NotReplaced, if NumPy or the driver's parser for NumPy is missing.
    """

    def __init__(self, original: Any, owner: Any) -> None:
        try:
            self._numpy = importlib.import_module("numpy")
            self._parser = importlib.import_module("cassandra.numpy_parser")
            self._dtypes = self._parser._cqltype_to_numpy
        except (ImportError, AttributeError) as error:
            raise NotReplaced(f"it needs NumPy: {error}") from None
        self._original, self._owner = original, owner
        self._is_compared = False
        self.problem = ""
        """Why the driver's own parser reads all pages; empty if native code reads pages."""

    def are_the_drivers(self) -> bool:
        """Whether native arrays equal the driver's arrays. The first call compares the two."""
        if not self._is_compared:
            try:
                self.problem = self._difference()
            except Exception as error:  # an unknown driver may fail in any way
                self.problem = f"it could not be inspected: {error!r}"
            self._is_compared = True
        return not self.problem

    def _difference(self) -> str:
        message = self._owner(2)
        self._original(message, io.BytesIO(_PAGE), 4, {}, None, None)
        rows = getattr(message, "parsed_rows", None)
        if not rows:
            return f"with NumPy {self._numpy.__version__}, the driver's own gives no rows"
        column = rows["c"]
        numbers = bytearray((7).to_bytes(4, sys.byteorder) + bytes(4))
        our_column = self.finish(["c"], [self._int_type], [(numbers, bytearray(b"\0\1"))])["c"]
        if (
            type(our_column) is not type(column)
            or (our_column.dtype, our_column.dtype.byteorder)
            != (column.dtype, column.dtype.byteorder)
            or our_column.tolist() != column.tolist()
        ):
            return "its arrays differ from those of turbocql"
        return ""

    @property
    def _int_type(self) -> Any:
        return next(cls for cls in self._dtypes if cls.__name__ == "Int32Type")

    def width(self, cls: Any, entries: list[Entry]) -> int | None:
        """Returns a number's size in bytes, if columns of type `cls` become arrays of numbers.

        Returns None if they become arrays of objects.

        The driver's dict `_cqltype_to_numpy` decides which arrays the columns become. So two items
        are added to `entries`: one for this dict, and one for its value for `cls`.
        """
        entries.append((vars(self._parser), "_cqltype_to_numpy", self._dtypes))
        dtype = self._dtypes.get(cls)
        entries.append((self._dtypes, cls, dtype))
        return None if dtype is None else int(dtype.itemsize)

    def finish(
        self, names: list[str], classes: list[Any], native_columns: list[Any]
    ) -> dict[str, Any]:
        """Returns the arrays by column name, made from the columns that native code parsed."""
        columns = [
            self._numbers(self._dtypes[cls], *column)
            if isinstance(column, tuple)
            else self._objects(column)
            for cls, column in zip(classes, native_columns, strict=True)
        ]
        return dict(zip(names, columns, strict=True))

    def _numbers(self, dtype: Any, numbers: bytearray, nulls: bytearray) -> Any:
        numpy = self._numpy
        values = numpy.ndarray((len(nulls),), dtype.newbyteorder(), numbers)
        mask = numpy.ndarray((len(nulls),), bool, nulls)
        return numpy.ma.MaskedArray(values, mask).unshare_mask()

    def _objects(self, values: list[Any]) -> Any:
        array = self._numpy.empty((len(values),), object)
        for index, value in enumerate(values):
            array[index] = value
        return array
