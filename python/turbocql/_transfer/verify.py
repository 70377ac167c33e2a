"""Comparing a table with data that was loaded: what `Session.verify` and its twin share."""

from __future__ import annotations

import hashlib
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from .. import _core
from .._checks import shown
from .._columns.pieces import Columns
from .._cql.names import qualified, quoted
from .._options import LoadOptions, VerifyOptions
from ..bulk import Difference, VerifyReport
from ..errors import ConfigError
from .load import Load

__all__ = ["Verification"]

_KEPT = 1000
"""So many differences are kept, one by one; the others are counted."""

Cells = tuple[Any, ...]
Rows = list[tuple[int, Cells]]


class Verification:
    """A comparison: first its arguments, then the statements, then the rows, part by part."""

    def __init__(self, table: str, keyspace: str | None, options: VerifyOptions) -> None:
        own: dict[str, Any] = dict(options)
        sample, seed = own.pop("sample", None), own.pop("seed", 0)
        self._progress: Callable[[int], object] | None = own.pop("progress", None)
        if self._progress is not None and not callable(self._progress):
            raise TypeError(f"progress must be a callable, got {shown(self._progress)}")
        unknown = own.keys() - VerifyOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(VerifyOptions.__annotations__)
            raise TypeError(f"verify has no option {sorted(unknown)[0]!r}; it has {known}")
        if sample is not None and not (isinstance(sample, (int, float)) and 0 < sample <= 1):
            raise ConfigError(f"sample must be a share above 0 and up to 1, got {shown(sample)}")
        # Rows that could not be loaded are counted.
        own["max_failures"] = 2**31 - 1
        self.load = Load(table, keyspace, LoadOptions(**own))  # type: ignore[typeddict-item]
        self._share, self._chosen = sample, random.Random(seed)
        self._duplicates = _Duplicates()
        self.rows = self.checked = self._missing = self._different = 0
        self._unfit = 0
        self._differences: list[Difference] = []
        self._names: list[str] = []
        self._key: list[int] = []
        self._values: Callable[[list[bytes | None]], Cells] = tuple
        self._markers = 0
        self._types: list[str] = []
        self.question = ""

    def match(self, known: Sequence[tuple[str, str, str]]) -> None:
        """Writes the statement that reads a row by its key. `known` is the answer to `QUERY`."""
        kinds = {name: kind for name, kind, _ in known}
        types = {name: cql_type for name, _, cql_type in known}
        self._names = list(self.load.pairs)
        is_key = ("partition_key", "clustering")
        self._key = [place for place, name in enumerate(self._names) if kinds[name] in is_key]
        self._types = [types[name] for name in self._names]
        others = [quoted(name) for name in self._names if kinds[name] not in is_key]
        keys = [quoted(self._names[place]) for place in self._key]
        # Static columns alone could not be asked for by a clustering key.
        others += [quoted(name) for name in self._names if kinds[name] == "clustering"]
        where = " AND ".join(f"{key} = ?" for key in keys)
        self.question = (
            f"SELECT {', '.join(others or keys)} FROM {qualified(*self.load.place)} WHERE {where}"
            " LIMIT 1"
        )

    def choose(self, rows: Rows, unfit: Sequence[Any]) -> Rows:
        """The rows to be looked up."""
        self.rows += len(rows) + len(unfit)
        self._unfit += len(unfit)
        for number, cells in rows:
            self._duplicates.add(number, [cells[place] for place in self._key])
        if self._share is None:
            return rows
        return [row for row in rows if self._chosen.random() < self._share]

    def encoded(self, session: _core.Session, found: Columns, insert: Any) -> _core.EncodedColumns:
        """The rows of the data, as a load would send them."""
        columns = self.load.columns(found, apart=False)
        encoded = _core.EncodedColumns(session, columns, insert)
        self._values, self._markers = encoded.values, len(insert.markers)
        return encoded

    def keys(self, rows: Rows) -> list[Cells]:
        """The values of the keys of rows."""
        return [self._keys_of(cells) for _, cells in rows]

    def _keys_of(self, cells: Cells) -> Cells:
        row = [cell if place in self._key else None for place, cell in enumerate(cells)]
        values = self._values(row)
        return tuple(values[place] for place in self._key)

    def _value(self, place: int, cell: bytes) -> Any:
        row: list[bytes | None] = [None] * self._markers
        row[place] = cell
        return self._values(row)[place]

    def compare(self, rows: Rows, found: Sequence[Any]) -> None:
        """Compares rows with what the table has for their keys: a result each."""
        for (number, cells), result in zip(rows, found, strict=True):
            self.checked += 1
            there: list[list[bytes | None]] = result._raw().cells()
            if not there:
                self._missing += 1
                self._note(Difference(number, None, None, None))
                continue
            others = [place for place in range(len(self._names)) if place not in self._key]
            differs = False
            for place, cell in zip(others, there[0], strict=False):
                expected = cells[place]
                if expected is ... or expected == cell or self._are_equal(place, expected, cell):
                    continue
                differs = True
                values = [None if it is None else self._value(place, it) for it in (expected, cell)]
                self._note(Difference(number, self._names[place], *values))
            self._different += differs
        if self._progress is not None:
            self._progress(self.rows)

    def _are_equal(self, place: int, expected: bytes | None, cell: bytes | None) -> bool:
        """Whether cells of different bytes are one value: the server sorts sets and maps."""
        if expected is None:
            return False
        value = self._value(place, expected)
        if cell is None:
            # The server keeps no empty collection, unless it is frozen.
            is_open = self._types[place].startswith(("list<", "set<", "map<"))
            return is_open and not value
        return bool(_comparable(value) == _comparable(self._value(place, cell)))

    def _note(self, difference: Difference) -> None:
        if len(self._differences) < _KEPT:
            self._differences.append(difference)

    def report(self) -> VerifyReport:
        """What was found."""
        pairs, duplicates = self._duplicates.found()
        unread = self.load.unread
        return VerifyReport(
            rows=self.rows + unread,
            checked=self.checked,
            missing=self._missing,
            different=self._different,
            unfit=self._unfit + unread,
            differences=self._differences,
            duplicates=duplicates,
            duplicate_rows=pairs,
        )


def _comparable(value: Any) -> Any:
    """A value that is equal to another if both are the same: NaN to NaN, and 0.0 not to -0.0.

    The bits of a NaN do not matter: processors set its sign, and text does not keep it.
    """
    if isinstance(value, float):
        return (float, "NaN") if value != value else (float, value, math.copysign(1, value))
    if isinstance(value, Mapping):
        return frozenset((_comparable(key), _comparable(it)) for key, it in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_comparable, value))
    return tuple(map(_comparable, value)) if isinstance(value, (list, tuple)) else value


class _Duplicates:
    """Finds keys that come twice. Digests go to files, so that memory does not grow with rows."""

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
        made = digest.digest()
        part = made[0] % self._PARTS
        buffer = self._buffers[part]
        buffer += made
        buffer += number.to_bytes(8, "big")
        if len(buffer) >= self._BUFFER:
            file = self._files[part]
            if file is None:
                file = self._files[part] = tempfile.TemporaryFile()  # noqa: SIM115
            file.write(buffer)
            buffer.clear()

    def _entries(self, part: int) -> Iterator[tuple[bytes, int]]:
        whole = bytes(self._buffers[part])
        file = self._files[part]
        if file is not None:
            file.seek(0)
            whole = file.read() + whole
        step = self._SIZE + 8
        for at in range(0, len(whole), step):
            yield (
                whole[at : at + self._SIZE],
                int.from_bytes(whole[at + self._SIZE : at + step], "big"),
            )

    def found(self) -> tuple[list[tuple[int, int]], int]:
        """Rows with one key, the first of them and a later one, and how many there are."""
        pairs: list[tuple[int, int]] = []
        count = 0
        for part in range(self._PARTS):
            first: dict[bytes, int] = {}
            for digest, number in self._entries(part):
                earlier = first.setdefault(digest, number)
                if earlier != number:
                    count += 1
                    if len(pairs) < _KEPT:
                        pairs.append((earlier, number))
            file = self._files[part]
            if file is not None:
                file.close()
        return sorted(pairs), count
