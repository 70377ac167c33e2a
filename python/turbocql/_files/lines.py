"""Readers of CSV and of JSON lines, block by block."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from .._core import CqlType
from ..errors import ConfigError, EncodeError
from .json_values import column_of, guessed_of
from .literals import nested_of
from .number_lists import numbers_of
from .quotes import Checked, unescaped
from .reader import ROWS, Guarded, Reader, Skip, Unit, Unread
from .text import Number, from_texts, guessed, has_kind, is_nested, library, read_all

__all__ = ["CsvFile", "JsonLines"]

_BLOCK = 512 << 10
"""pyarrow reads up to 32 blocks ahead."""
_PLACED = 10
"""The line of so many rows is looked for, in a reading of its own each."""
_LARGEST_BLOCK = 1 << 30
"""A row of CSV that is longer cannot be read."""


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has two values for {doubled!r}")
    return made


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) < 4000 else Number(digits)


def _is_exact(types: Sequence[CqlType | None]) -> bool:
    """Whether one of the types has more digits than numbers of Python's."""
    return any(it is not None and has_kind(it, {"decimal", "varint"}) for it in types)


def _decoder(*, exact: bool) -> json.JSONDecoder:
    """What reads JSON; `exact`: without a change of numbers."""
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
            file, plain = self.bytes()
            with plain:
                tail = Checked(self, file)
                try:
                    with Guarded(self):
                        names = self._open(tail, [], block).schema.names
                except EncodeError as error:
                    block = self._larger(block, error)
                else:
                    return self.checked(list(names))

    def _larger(self, block: int, error: EncodeError) -> int:
        """The next size of blocks, after an error for a row that is longer than one."""
        if "straddl" not in str(error.__cause__) or block >= _LARGEST_BLOCK:
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
        decoder, begin = _decoder(exact=_is_exact(types)), 0
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
            file, plain = self.bytes()
            with plain:
                tail, seen, held, blocks = Checked(self, file), 0, None, 0
                try:
                    opened = self._open(tail, names, block)
                    while True:
                        with Guarded(self):
                            batch = next(opened, None)
                        # pyarrow reads blocks ahead, and makes a batch of each.
                        ahead = tail.given / (block * max(1, blocks))
                        self.at = int(plain.tell() / max(1.0, ahead))
                        if batch is None:
                            self.at = plain.tell()
                            break
                        blocks += 1
                        if held is not None and seen > done:
                            yield self._part(tail, held, seen - done)
                            done = seen
                        held, seen = batch, seen + batch.num_rows
                except EncodeError as error:
                    block = self._larger(block, error)
                    continue
            if tail.is_open:
                # pyarrow takes such a file.
                raise self.wrong("the file ends within quotes: it may have been cut off")
            if held is not None and seen > done:
                yield self._part(tail, held, seen - done)
            return

    def _part(self, file: Checked, batch: Any, count: int) -> Any:
        """The last rows of a batch, with the characters that were escaped."""
        part = batch.slice(batch.num_rows - min(batch.num_rows, count))
        escape = self.what.csv.escape
        if escape is None or not file.has_escapes:
            return part
        columns = [unescaped(column, escape) for column in part.columns]
        return library().RecordBatch.from_arrays(columns, part.schema.names)

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
                    [None if it is None else nested_of(cql_type, it, decoder) for it in values],
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
        file, plain = self.bytes()
        with plain:
            checked = io.BufferedReader(Checked(self, file))
            text = io.TextIOWrapper(checked, "utf-8", "replace", newline="")
            rows, number, line = csv.reader(text, delimiter=options.delimiter), -1, 0
            try:
                for cells in rows:
                    if cells or is_single:
                        number += 1
                    if number == row + options.header:
                        return f"line {line + 1}"
                    line = rows.line_num
            except (csv.Error, EncodeError):
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
        rows = self._rows(lines, _decoder(exact=False), lambda _, error, __: bad.append(error))
        names = dict.fromkeys(name for row in rows for name in row)
        if bad and not names:
            raise bad[0]
        return list(names)

    def objects(self) -> Iterator[list[dict[str, Any]]]:
        """The objects, with the digits of their numbers. One that cannot be read has no names."""
        decoder, known = _decoder(exact=True), set(self.names())
        for lines in self._lines():
            rows = self._rows(lines, decoder, lambda row, error, raw: None)
            self._check_names(lines, rows, known)
            yield rows

    def _lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """The lines that are not empty, with their numbers, in blocks."""
        file, plain = self.bytes()
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
                        raise self.wrong(
                            "expected an object in each line, got an array: write each of its"
                            " objects in one line, as jq -c '.[]' does"
                        )
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
                said = "" if isinstance(error, RecursionError) else ", one object in each line"
                wrong = self.wrong(f"line {number}: expected JSON{said}: {error}")
                wrong.__cause__ = error
                unread(place, wrong, line.decode("utf-8", "replace").rstrip("\r\n"))
                row = {}
            rows.append(row)
        return rows

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        names = self.names()
        types = [self.what.typed(name) for name in names]
        decoder, known = _decoder(exact=_is_exact(types)), set(names)
        for lines in self._lines():
            count = len(lines)
            if skip(first, count):
                yield count, None
            else:

                def bad(place: int, error: EncodeError, raw: Any, first: int = first) -> None:
                    self.unread(first + place, error, raw)

                rows = self._rows(lines, decoder, bad)
                self._check_names(lines, rows, known)
                yield count, self._typed(lines, rows, names, types, first)
            first += count

    def _check_names(self, lines: Sequence[tuple[int, bytes]], rows: Any, known: set[str]) -> None:
        if known.issuperset(set().union(*rows)):
            return
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
