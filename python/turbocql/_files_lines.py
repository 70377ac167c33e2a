"""Readers of CSV and of JSON lines, block by block."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from ._core import CqlType
from ._files_json import column_of, guessed_of
from ._files_numbers import numbers_of
from ._files_read import ROWS, Guarded, Reader, Skip, Unit, Unread
from ._files_text import (
    Number,
    from_texts,
    guessed,
    has_kind,
    is_nested,
    library,
    read_all,
)
from .errors import ConfigError, EncodeError

__all__ = ["CsvFile", "JsonLines"]

_BLOCK = 512 << 10
"""pyarrow reads up to 32 blocks ahead."""
_PLACED = 10
"""The line of so many rows is looked for, in a reading of its own each."""
_LARGEST_BLOCK = 1 << 30
"""A row of CSV that is longer cannot be read."""


def _bytes_of(reader: Reader) -> tuple[BinaryIO, BinaryIO]:
    """The bytes of a file, decompressed; and the file itself."""
    plain = open(reader.path, "rb")  # noqa: SIM115
    if plain.peek(2)[:2] != b"\x1f\x8b":
        return plain, plain
    return gzip.GzipFile(fileobj=plain), plain  # type: ignore[return-value]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has two values for {doubled!r}")
    return made


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) < 4000 else Number(digits)


def _decoder(types: Sequence[CqlType | None]) -> json.JSONDecoder:
    """What reads JSON without a change of numbers."""
    exact = any(it is not None and has_kind(it, {"decimal", "varint"}) for it in types)
    return json.JSONDecoder(
        parse_float=Number if exact else None,
        parse_int=_whole if exact else None,
        # They are read as the texts "NaN", "Infinity" and "-Infinity" are.
        parse_constant=str,
        object_pairs_hook=_without_doubles,
    )


def _shown(cell: object) -> str:
    text = repr(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell)
    return text if len(text) <= 60 else f"{text[:60]}..."


class _Tail:
    """A file for pyarrow whose last bytes are kept, to see whether it ends within quotes."""

    closed = False

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most = file, most
        self.kept = self._before = b""

    def read(self, size: int = -1) -> bytes:
        """No part of the file ends with a CR that an LF follows: pyarrow drops the LF, in quotes
        too.
        """
        found = self._before + self._file.read(size - len(self._before))
        self._before = b""
        if len(found) > 1 and found.endswith(b"\r"):
            found, self._before = found[:-1], b"\r"
        elif found == b"\r":
            found += self._file.read(1)
        self.kept = (self.kept + found)[-self._most :]
        return found


class CsvFile(Reader):
    """Rows of texts, which are converted column by column.

    Empty lines are skipped, but in a file of one column they are nulls.
    """

    placed = 0

    def names(self) -> list[str]:
        options = self.what.csv
        if not options.header:
            known = options.names or self.what.names
            if known is None:
                raise ConfigError(f"{self.path}: a CSV file without a header needs names=")
            return self.checked(list(known))
        block = _BLOCK
        while True:
            file, plain = _bytes_of(self)
            with plain:
                try:
                    names = self._open(file, [], block).schema.names
                except EncodeError as error:
                    block = self._larger(block, error)
                else:
                    return self.checked(list(names))

    def _larger(self, block: int, error: EncodeError) -> int:
        """The next size of blocks, after an error for a row that is longer than one."""
        if "straddl" not in str(error) or block >= _LARGEST_BLOCK:
            raise error
        return block * 8

    def _open(self, file: Any, names: list[str], block: int) -> Any:
        pa = library()
        import pyarrow.csv as library_csv

        options = self.what.csv
        with Guarded(self):
            return library_csv.open_csv(
                file,
                library_csv.ReadOptions(
                    use_threads=False,
                    block_size=block,
                    column_names=None if options.header else names,
                ),
                library_csv.ParseOptions(
                    delimiter=options.delimiter,
                    newlines_in_values=True,
                    # In a file of one column an empty line is a null.
                    ignore_empty_lines=len(names) != 1,
                ),
                library_csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(names, pa.binary()),
                    null_values=[options.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        names = self.names()
        types = [self.what.typed(name) for name in names]
        decoder, begin = _decoder(types), 0
        for texts in self._texts(names):
            for count, part in self.cut(texts, first + begin, skip):
                yield (
                    count,
                    None if part is None else self._typed(part, types, decoder, first, begin),
                )
                begin += count

    def _texts(self, names: list[str]) -> Iterator[Any]:
        """The cells as bytes. A batch is yielded when the next is read: the last may be cut off."""
        block, done = _BLOCK, 0
        while True:
            file, plain = _bytes_of(self)
            with plain:
                # The cell may have a quote for each of its bytes.
                tail, seen, held = _Tail(file, 2 * block + 8), 0, None
                try:
                    opened = self._open(tail, names, block)
                    while True:
                        with Guarded(self):
                            batch = next(opened, None)
                        self.at = plain.tell()
                        if batch is None:
                            break
                        if held is not None and seen > done:
                            yield held.slice(held.num_rows - min(held.num_rows, seen - done))
                            done = seen
                        held, seen = batch, seen + batch.num_rows
                except EncodeError as error:
                    block = self._larger(block, error)
                    continue
            if held is not None and held.num_rows:
                self._check_end(held, tail.kept)
                if seen > done:
                    yield held.slice(held.num_rows - min(held.num_rows, seen - done))
            return

    def _check_end(self, batch: Any, end: bytes) -> None:
        """Checks the end of the file, because pyarrow takes a file that ends within quotes."""
        last = batch.column(batch.num_columns - 1)[-1].as_py()
        if last is None:
            return
        written = b'"' + last.replace(b'"', b'""')
        before = (self.what.csv.delimiter.encode(), b"\n", b"\r")
        if any(end.endswith(it + written) for it in before) or end == written:
            raise self.wrong("the file ends within quotes: it may have been cut off")

    def _typed(
        self,
        batch: Any,
        types: Sequence[CqlType | None],
        decoder: json.JSONDecoder,
        first: int,
        begin: int,
    ) -> Any:
        """`first` is the number of the file's first row, `begin` the place of the batch in it."""
        pa = library()
        columns = []
        for cql_type, name, cells in zip(types, batch.schema.names, batch.columns, strict=True):

            def read(cells: Any, cql_type: CqlType | None = cql_type) -> Any:
                texts = cells.cast(pa.string())
                if cql_type is None:
                    return guessed(texts)
                if not is_nested(cql_type):
                    return from_texts(cql_type, texts)
                numbers = numbers_of(cql_type, texts)
                if numbers is not None:
                    return numbers
                values = texts.to_pylist()
                return column_of(
                    cql_type,
                    [None if it is None else decoder.decode(it) for it in values],
                )

            def bad(place: int, error: Exception, name: str = name, cells: Any = cells) -> None:
                self.placed += 1
                is_known = self.placed <= _PLACED
                where = self._place(begin + place) if is_known else f"row {begin + place + 1}"
                got = _shown(cells[place].as_py())
                wrong = self.wrong(f'{where}, column "{name}": {error}; got {got}')
                wrong.__cause__ = error
                row = batch.slice(place, 1).to_pylist()[0]
                raw = {
                    key: cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
                    for key, cell in row.items()
                }
                self.unread(first + begin + place, wrong, raw)

            columns.append(read_all(read, cells, bad))
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _place(self, row: int) -> str:
        """Where a row is, found by a second reading."""
        options = self.what.csv
        is_single = len(self.names()) == 1
        file, plain = _bytes_of(self)
        with plain:
            text = io.TextIOWrapper(file, "utf-8", "replace", newline="")
            rows, number, line = csv.reader(text, delimiter=options.delimiter), -1, 0
            try:
                for cells in rows:
                    if cells or is_single:
                        number += 1
                    if number == row + options.header:
                        return f"line {line + 1}"
                    line = rows.line_num
            except csv.Error:
                pass
        return f"row {row + 1}"


class JsonLines(Reader):
    """Lines with an object each."""

    has_head = False

    def names(self) -> list[str]:
        if self.what.names is not None:
            return list(self.what.names)
        lines = next(self._lines(), [])
        bad: list[EncodeError] = []
        rows = self._rows(lines, _decoder([]), lambda _, error, __: bad.append(error))
        names = dict.fromkeys(name for row in rows for name in row)
        if bad and not names:
            raise bad[0]
        return list(names)

    def _lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """The lines that are not empty, with their numbers, in blocks."""
        file, plain = _bytes_of(self)
        number = 0
        with plain:
            while True:
                with Guarded(self):
                    found = file.readlines(_BLOCK)
                self.at = plain.tell()
                if not found:
                    return
                if not number:
                    found[0] = found[0].removeprefix(b"\xef\xbb\xbf")
                    if found[0].lstrip().startswith(b"["):
                        raise self.wrong("expected an object in each line, got an array")
                lines = [(number + at, it) for at, it in enumerate(found, 1) if not it.isspace()]
                number += len(found)
                for begin in range(0, len(lines), ROWS):
                    yield lines[begin : begin + ROWS]

    def _rows(
        self, lines: list[tuple[int, bytes]], decoder: json.JSONDecoder, unread: Unread
    ) -> list[Any]:
        """The objects of lines. `unread` takes the places of those that cannot be read."""
        try:
            text = b",".join([line for _, line in lines]).decode()
            rows: list[Any] = decoder.decode(f"[{text}]")
            if len(rows) == len(lines) and set(map(type, rows)) <= {dict}:
                return rows
        except (ValueError, RecursionError):
            pass
        rows = []
        for place, (number, line) in enumerate(lines):
            try:
                row = decoder.decode(line.decode())
                if not isinstance(row, dict):
                    raise ValueError("expected an object")
            except (ValueError, RecursionError) as error:
                wrong = self.wrong(f"line {number}: {error}")
                wrong.__cause__ = error
                unread(place, wrong, line.decode("utf-8", "replace").rstrip("\r\n"))
                row = {}
            rows.append(row)
        return rows

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        names = self.names()
        types = [self.what.typed(name) for name in names]
        decoder, known = _decoder(types), set(names)
        for lines in self._lines():
            count = len(lines)
            if skip(first, count):
                yield count, None
            else:

                def bad(place: int, error: EncodeError, raw: Any, first: int = first) -> None:
                    self.unread(first + place, error, raw)

                rows = self._rows(lines, decoder, bad)
                if not known.issuperset(set().union(*rows)):
                    self._refuse_other(lines, rows, known)
                yield count, self._typed(lines, rows, names, types, first)
            first += count

    def _refuse_other(self, lines: Sequence[tuple[int, bytes]], rows: Any, known: set[str]) -> None:
        for (number, _), row in zip(lines, rows, strict=True):
            for name in row:
                if name not in known:
                    raise self.wrong(
                        f"line {number}: the first lines have no column {name!r}; write it as null"
                        " in the first line"
                    )

    def _typed(
        self,
        lines: Sequence[tuple[int, bytes]],
        rows: Sequence[dict[str, Any]],
        names: Sequence[str],
        types: Sequence[CqlType | None],
        first: int,
    ) -> Any:
        columns = []
        for cql_type, name in zip(types, names, strict=True):

            def read(cells: Any, cql_type: CqlType | None = cql_type) -> Any:
                return guessed_of(cells) if cql_type is None else column_of(cql_type, cells)

            def bad(place: int, error: Exception, name: str = name) -> None:
                got = _shown(rows[place].get(name))
                wrong = self.wrong(f'line {lines[place][0]}, column "{name}": {error}; got {got}')
                wrong.__cause__ = error
                self.unread(first + place, wrong, rows[place])

            columns.append(read_all(read, [row.get(name) for row in rows], bad))
        return library().RecordBatch.from_arrays(columns, list(names))
