"""Compares a table with data, for `Session.verify` and `AsyncSession.verify`."""

from __future__ import annotations

import hashlib
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from .. import _core
from .._checks import shown, with_nearest
from .._columns.pieces import Columns
from .._cql.names import qualified, quoted
from .._files.reader import CsvOptions
from .._options import VerifyOptions
from ..bulk import BulkFailure, Difference, VerifyReport
from ..errors import ConfigError
from .load import Load
from .load_options import DEFAULTS as LOAD_DEFAULTS
from .stops import MAX_FAILURES

__all__ = ["DEFAULTS", "Verification"]

DEFAULTS: dict[str, Any] = {**LOAD_DEFAULTS, "sample": None, "seed": 0}
"""The default values of the options of a comparison."""

_MAX_LISTED_DIFFERENCES = 1000
"""A report lists at most 1,000 differences, 1,000 duplicates and 1,000 failures. Further ones are
only counted."""

Cells = tuple[Any, ...]
"""The encoded values of a row. A value is `None` for null, and `...` if a load leaves it out."""
Rows = list[tuple[int, Cells]]
"""The number and the cells of each row."""


class Verification:
    """A comparison. `__init__` checks its options, `match` writes its statement, and each call of
    `compare` compares some rows.
    """

    def __init__(
        self,
        table: str,
        keyspace: str | None,
        options: VerifyOptions,
        *,
        shows_values: bool,
    ) -> None:
        """`shows_values` says whether errors may quote values."""
        settings: dict[str, Any] = dict(options)
        sample = settings.pop("sample", DEFAULTS["sample"])
        seed = settings.pop("seed", DEFAULTS["seed"])
        self._progress: Callable[[int], object] | None = settings.pop("progress", None)
        if self._progress is not None and not callable(self._progress):
            raise TypeError(f"progress must be a callable, got {shown(self._progress)}")
        unknown_names = settings.keys() - VerifyOptions.__annotations__.keys()
        if unknown_names:
            name = sorted(unknown_names)[0]
            problem = f"verify has no option {name!r}"
            if name in CsvOptions.__dataclass_fields__:
                raise TypeError(f"{problem}: pass csv={{{name!r}: ...}}")
            raise TypeError(with_nearest(problem, name, VerifyOptions.__annotations__))
        if sample is not None and not (isinstance(sample, (int, float)) and 0 < sample <= 1):
            raise ConfigError(f"sample must be a share above 0 and up to 1, got {shown(sample)}")
        # Rows that cannot be encoded are counted, and never end the comparison.
        settings["max_failures"] = MAX_FAILURES
        checked: Any = settings
        self.load = Load(table, keyspace, checked, shows_values=shows_values)
        self._share, self._random = sample, random.Random(seed)
        self._duplicates = _Duplicates()
        self.rows = self.checked = self._missing = self._different = 0
        self._unfit = 0
        self._failures: list[BulkFailure] = []
        self._differences: list[Difference] = []
        self._names: list[str] = []
        self._key: list[int] = []
        self._values: Callable[[list[bytes | None]], Cells] = tuple
        self._markers = 0
        self._types: list[str] = []
        self.statement = ""

    def match(self, table_columns: Sequence[tuple[str, str, str]]) -> None:
        """Writes the statement that reads a row by its key. `table_columns` are the rows that the
        query `QUERY` of the module `load` returns.
        """
        kinds = {name: kind for name, kind, _ in table_columns}
        types = {name: cql_type for name, _, cql_type in table_columns}
        self._names = list(self.load.pairs)
        key_kinds = ("partition_key", "clustering")
        is_key = [kinds[name] in key_kinds for name in self._names]
        self._key = [position for position, in_key in enumerate(is_key) if in_key]
        self._types = [types[name] for name in self._names]
        value_columns = [quoted(name) for name in self._names if kinds[name] not in key_kinds]
        key_columns = [quoted(self._names[position]) for position in self._key]
        # A server refuses a condition on the clustering key if only static columns are selected. So
        # the columns of the clustering key are selected too.
        value_columns += [quoted(name) for name in self._names if kinds[name] == "clustering"]
        condition = " AND ".join(f"{key} = ?" for key in key_columns)
        selected = ", ".join(value_columns or key_columns)
        table_name = qualified(*self.load.keyspace_and_table)
        self.statement = f"SELECT {selected} FROM {table_name} WHERE {condition} LIMIT 1"

    def chosen_rows(self, rows: Rows, unfit: Sequence[Any]) -> Rows:
        """Counts rows, records keys, and returns the rows to look up: all, or a sample.

        `unfit` are the numbers and errors of rows that cannot be encoded.
        """
        self.rows += len(rows) + len(unfit)
        self._unfit += len(unfit)
        room = _MAX_LISTED_DIFFERENCES - len(self._failures)
        self._failures += [BulkFailure(row, error) for row, error in unfit[:room]]
        for number, cells in rows:
            self._duplicates.add(number, [cells[position] for position in self._key])
        if self._share is None:
            return rows
        return [row for row in rows if self._random.random() < self._share]

    def encoded(
        self, session: _core.Session, input_columns: Columns, insert: Any
    ) -> _core.EncodedColumns:
        """The rows of the data, encoded as a load would send them."""
        columns = self.load.columns(input_columns, on_thread=False)
        encoded = _core.EncodedColumns(session, columns, insert)
        self._values, self._markers = encoded.values, len(insert.markers)
        return encoded

    def key_values(self, rows: Rows) -> list[Cells]:
        """The values of the primary keys of rows."""
        return [self._decoded_key(cells) for _, cells in rows]

    def _decoded_key(self, cells: Cells) -> Cells:
        row = [cell if position in self._key else None for position, cell in enumerate(cells)]
        values = self._values(row)
        return tuple(values[position] for position in self._key)

    def _value(self, position: int, cell: bytes) -> Any:
        row: list[bytes | None] = [None] * self._markers
        row[position] = cell
        return self._values(row)[position]

    def compare(self, rows: Rows, results: Sequence[Any]) -> None:
        """Compares rows with the results of reading them from the table."""
        for (number, cells), result in zip(rows, results, strict=True):
            self.checked += 1
            stored_rows: list[list[bytes | None]] = result._raw().cells()
            if not stored_rows:
                self._missing += 1
                self._list_if_room(Difference(number, None, None, None))
                continue
            positions = range(len(self._names))
            value_positions = [position for position in positions if position not in self._key]
            differs = False
            for position, cell in zip(value_positions, stored_rows[0], strict=False):
                expected = cells[position]
                if expected is ... or expected == cell or self._are_equal(position, expected, cell):
                    continue
                differs = True
                expected_value = None if expected is None else self._value(position, expected)
                actual_value = None if cell is None else self._value(position, cell)
                name = self._names[position]
                self._list_if_room(Difference(number, name, expected_value, actual_value))
            self._different += differs
        if self._progress is not None:
            self._progress(self.rows)

    def _are_equal(self, position: int, expected: bytes | None, cell: bytes | None) -> bool:
        """Whether two cells with different bytes have equal values. The server sorts sets and maps,
        so the bytes of two equal sets or maps may differ.
        """
        if expected is None:
            return False
        value = self._value(position, expected)
        if cell is None:
            # The server stores an empty collection as null if the collection is not frozen.
            is_unfrozen = self._types[position].startswith(("list<", "set<", "map<"))
            return is_unfrozen and not value
        return bool(_comparable(value) == _comparable(self._value(position, cell)))

    def _list_if_room(self, difference: Difference) -> None:
        if len(self._differences) < _MAX_LISTED_DIFFERENCES:
            self._differences.append(difference)

    def report(self) -> VerifyReport:
        """The report of the comparison."""
        duplicate_rows, duplicates = self._duplicates.find()
        unreadable_rows = self.load.unreadable_rows
        return VerifyReport(
            rows=self.rows + unreadable_rows,
            checked=self.checked,
            missing=self._missing,
            different=self._different,
            unfit=self._unfit + unreadable_rows,
            differences=self._differences,
            duplicates=duplicates,
            duplicate_rows=duplicate_rows,
            failures=self.load.listed_failures(self._failures)[:_MAX_LISTED_DIFFERENCES],
        )


def _comparable(value: Any) -> Any:
    """Converts a value for a comparison in which NaN equals NaN, and 0.0 does not equal -0.0.

    All NaNs are equal here: the sign of a NaN may differ between processors, and the text of a NaN
    has no sign.
    """
    if isinstance(value, float):
        return (float, "NaN") if value != value else (float, value, math.copysign(1, value))
    if isinstance(value, Mapping):
        return frozenset((_comparable(key), _comparable(entry)) for key, entry in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_comparable, value))
    return tuple(map(_comparable, value)) if isinstance(value, (list, tuple)) else value


class _Duplicates:
    """Finds keys that occur more than once. Digests of keys are kept in files, to bound memory."""

    _PARTS = 64
    _BUFFER = 1 << 16
    _SIZE = 16

    def __init__(self) -> None:
        self._buffers = [bytearray() for _ in range(self._PARTS)]
        self._files: list[BinaryIO | None] = [None] * self._PARTS

    def add(self, number: int, key: Sequence[bytes]) -> None:
        digest = hashlib.blake2b(digest_size=self._SIZE)
        for cell in key:
            digest.update(len(cell).to_bytes(4, "big"))
            digest.update(cell)
        key_digest = digest.digest()
        part = key_digest[0] % self._PARTS
        buffer = self._buffers[part]
        buffer += key_digest
        buffer += number.to_bytes(8, "big")
        if len(buffer) >= self._BUFFER:
            try:
                file = self._files[part]
                if file is None:
                    file = self._files[part] = tempfile.TemporaryFile()  # noqa: SIM115
                file.write(buffer)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"verify cannot write the keys of the data to {tempfile.gettempdir()}:"
                    f" {error.strerror}; TMPDIR names another directory",
                ) from error
            buffer.clear()

    def _entries(self, part: int) -> Iterator[tuple[bytes, int]]:
        entries = bytes(self._buffers[part])
        file = self._files[part]
        if file is not None:
            file.seek(0)
            entries = file.read() + entries
        entry_size = self._SIZE + 8
        for offset in range(0, len(entries), entry_size):
            yield (
                entries[offset : offset + self._SIZE],
                int.from_bytes(entries[offset + self._SIZE : offset + entry_size], "big"),
            )

    def find(self) -> tuple[list[tuple[int, int]], int]:
        """Returns at most 1,000 pairs of rows with equal keys, and the number of all such pairs.

        A pair consists of the first row with a key, and a later row with the same key.
        """
        duplicate_rows: list[tuple[int, int]] = []
        count = 0
        for part in range(self._PARTS):
            first_rows: dict[bytes, int] = {}
            for digest, number in self._entries(part):
                earlier = first_rows.setdefault(digest, number)
                if earlier != number:
                    count += 1
                    if len(duplicate_rows) < _MAX_LISTED_DIFFERENCES:
                        duplicate_rows.append((earlier, number))
            file = self._files[part]
            if file is not None:
                file.close()
        return sorted(duplicate_rows), count
