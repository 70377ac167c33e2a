"""Readers of CSV and of JSON lines, block by block."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from .._core import CqlType
from ..errors import ConfigError, EncodeError
from .from_text import from_texts, is_nested, library, read_all
from .json_values import column_of, json_decoder, needs_exact_numbers
from .literals import parse_nested_cell
from .number_lists import numbers_of
from .quotes import CheckedQuotes, unescaped
from .reader import MAX_BATCH_ROWS, FileErrors, OnUnreadable, Reader, Skip, Unit
from .reasons import NOT_UTF_8, csv_reason, json_reason, shown, utf_8_reason
from .untyped import guessed_of, untyped, write_times, write_times_of

__all__ = ["CsvFile", "JsonLines"]

_BLOCK = 512 << 10
"""The initial size of a block in bytes. It is small because pyarrow reads up to 32 blocks ahead."""
_MAX_LINE_SEARCHES = 10
"""The maximum number of unreadable cells of a CSV file whose errors name the line. To find a line,
the file is read again. So the errors of further cells name the row instead."""
_MAX_BLOCK = 1 << 30
"""The largest size of a block in bytes, and so of a row of CSV."""


class CsvFile(Reader):
    """A CSV file, whose texts are converted column by column.

    Empty lines are skipped, except in a file of one column, where an empty line is an empty cell.
    """

    description = "CSV"

    line_searches = 0

    def names(self) -> list[str]:
        options = self.context.csv
        if not options.header:
            column_names = options.names or self.context.names
            if column_names is None:
                raise ConfigError(f"{self.path}: a CSV file without a header needs names=")
            return self.checked_names(list(column_names))
        block = _BLOCK
        while True:
            file, raw_file = self.open_bytes()
            with raw_file:
                checked_file = CheckedQuotes(self, file)
                try:
                    with FileErrors(self):
                        names = self._open(checked_file, [], block).schema.names
                except EncodeError as error:
                    block = self._next_block_size(block, error)
                else:
                    return self.checked_names(list(names))

    def _next_block_size(self, block: int, error: EncodeError) -> int:
        """Returns the block size to try next, when a row was longer than a block.

        Raises: `EncodeError` if `error` has another reason, or if the block has the maximum size.
        """
        message = str(error.__cause__)
        if "straddl" in message and block < _MAX_BLOCK:
            return min(block * 8, _MAX_BLOCK)
        if "straddl" in message:
            raise self.file_error(
                f"a row is longer than {_MAX_BLOCK >> 30} GiB, or a quote at its beginning is not"
                " closed"
            ) from error
        if "Empty CSV file" in message:
            raise self.file_error(
                "expected the names of the columns in the first line, got blank lines only"
            ) from error
        unequal = csv_reason(message, shows_values=self.context.shows_values)
        if unequal is None:
            raise error
        row, columns, reason = unequal
        location = ""
        if row is not None:
            location = f"{self._location(row - 1 - self.context.csv.header, columns == 1)}: "
        cause = error if self.context.shows_values else None
        raise self.file_error(f"{location}{reason}") from cause

    def _open(self, file: Any, names: list[str], block: int) -> Any:
        pa = library()
        import pyarrow.csv as pyarrow_csv

        options = self.context.csv
        with FileErrors(self):
            return pyarrow_csv.open_csv(
                file,
                pyarrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=block,
                    column_names=None if options.header else names,
                ),
                pyarrow_csv.ParseOptions(
                    delimiter=options.delimiter,
                    newlines_in_values=True,
                    # In a file of one column, an empty line is an empty cell.
                    ignore_empty_lines=len(names) != 1,
                ),
                pyarrow_csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(names, pa.binary()),
                    null_values=[options.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        names = self.names()
        types = [self.context.type_of_column(name) for name in names]
        decoder, begin = json_decoder(exact=needs_exact_numbers(types)), 0
        for texts in self._texts(names):
            for count, part in self.split_batch(texts, first + begin, skip):
                yield (
                    count,
                    None if part is None else self._typed(part, types, decoder, first, begin),
                )
                begin += count

    def _texts(self, names: list[str]) -> Iterator[Any]:
        """Yields the cells as bytes, in batches.

        A batch is yielded only after the next batch, or the end of the file, was read: if the file
        was cut off within quotes, the last batch is incomplete, and must not be yielded.
        """
        block, yielded_count = _BLOCK, 0
        while True:
            file, raw_file = self.open_bytes()
            with raw_file:
                checked_file, last_batch = CheckedQuotes(self, file), None
                read_count = batches_read = 0
                try:
                    csv_reader = self._open(checked_file, names, block)
                    while True:
                        with FileErrors(self):
                            batch = next(csv_reader, None)
                        # pyarrow yields one batch per block, but reads several blocks ahead. This
                        # is the ratio of the bytes read to the bytes of the yielded batches.
                        blocks_ahead = checked_file.bytes_returned / (block * max(1, batches_read))
                        self.bytes_read = int(raw_file.tell() / max(1.0, blocks_ahead))
                        if batch is None:
                            self.bytes_read = raw_file.tell()
                            break
                        batches_read += 1
                        if last_batch is not None and read_count > yielded_count:
                            yield self._unyielded_rows(
                                checked_file, last_batch, read_count - yielded_count
                            )
                            yielded_count = read_count
                        last_batch, read_count = batch, read_count + batch.num_rows
                except EncodeError as error:
                    block = self._next_block_size(block, error)
                    continue
            if checked_file.ends_in_quotes:
                # pyarrow itself raises no error if a file ends within quotes.
                raise self.file_error("the file ends within quotes: it may have been cut off")
            if last_batch is not None and read_count > yielded_count:
                yield self._unyielded_rows(checked_file, last_batch, read_count - yielded_count)
            return

    def _unyielded_rows(self, file: CheckedQuotes, batch: Any, count: int) -> Any:
        """The last `count` rows of a batch, with escapes replaced."""
        unyielded_rows = batch.slice(batch.num_rows - min(batch.num_rows, count))
        escape = self.context.csv.escape
        if escape is None or not file.has_escapes:
            return unyielded_rows
        columns = [unescaped(column, escape) for column in unyielded_rows.columns]
        return library().RecordBatch.from_arrays(columns, unyielded_rows.schema.names)

    def _typed(
        self,
        batch: Any,
        types: Sequence[CqlType | None],
        decoder: json.JSONDecoder,
        first: int,
        begin: int,
    ) -> Any:
        """Converts a batch of texts to the columns' types.

        `first` is the number of the file's first row among the rows of all files, and `begin` is
        the number of the batch's first row in this file.
        """
        pa = library()
        columns = []
        for cql_type, name, cells in zip(types, batch.schema.names, batch.columns, strict=True):
            is_write_time = name == self.context.selection.write_time

            def read(
                cells: Any,
                cql_type: CqlType | None = cql_type,
                is_write_time: bool = is_write_time,
            ) -> Any:
                if cql_type is None and not is_write_time:
                    return untyped(cells)
                try:
                    texts = cells.cast(pa.string())
                except pa.ArrowException as error:
                    raise ValueError(NOT_UTF_8) from error
                if cql_type is None:
                    return write_times(texts)
                if not is_nested(cql_type):
                    return from_texts(cql_type, texts)
                numbers = numbers_of(cql_type, texts)
                if numbers is not None:
                    return numbers
                values = [
                    None if text is None else parse_nested_cell(cql_type, text, decoder)
                    for text in texts.to_pylist()
                ]
                return column_of(cql_type, values)

            def report(
                position: int,
                error: Exception,
                name: str = name,
                cql_type: CqlType | None = cql_type,
                cells: Any = cells,
            ) -> None:
                self.line_searches += 1
                finds_line = self.line_searches <= _MAX_LINE_SEARCHES
                row = begin + position
                location = f"row {row + 1}"
                if finds_line:
                    location = self._location(row, len(types) == 1)
                cell = cells[position].as_py()
                row_error = self.cell_error(location, name, cql_type, error, cell)
                raw_row = {
                    key: cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
                    for key, cell in batch.slice(position, 1).to_pylist()[0].items()
                }
                self.report_unreadable(first + row, row_error, raw_row)

            columns.append(read_all(read, cells, report))
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def location(self, row: int, *, finds_line: bool) -> str:
        return self._location(row, len(self.names()) == 1) if finds_line else f"row {row + 1}"

    def _location(self, row: int, is_single: bool) -> str:
        """Reads the file again, and returns the line of a row in words; the row's number if the
        line is not found.

        `is_single` says whether the file has one column only: an empty line is then a row.
        """
        options = self.context.csv
        file, raw_file = self.open_bytes()
        with raw_file:
            checked_file = io.BufferedReader(CheckedQuotes(self, file))
            text = io.TextIOWrapper(checked_file, "utf-8-sig", "replace", newline="")
            rows, row_number, line = csv.reader(text, delimiter=options.delimiter), -1, 0
            try:
                for cells in rows:
                    if cells or is_single:
                        row_number += 1
                    if row_number == row + options.header:
                        return f"line {line + 1}"
                    line = rows.line_num
            except (csv.Error, EncodeError):
                pass
        return f"row {row + 1}"


class JsonLines(Reader):
    """A file of JSON lines, which has an object in each line."""

    description = "JSON lines"

    declares_columns = False

    def names(self) -> list[str]:
        if self.context.names is not None:
            return list(self.context.names)
        lines = next(self._lines(), [])
        errors: list[EncodeError] = []
        rows = self._rows(
            lines, json_decoder(exact=False), lambda _, error, __: errors.append(error)
        )
        names = dict.fromkeys(name for row in rows for name in row)
        if errors and not names:
            raise errors[0]
        return list(filter(self._is_usable_name, names))

    def _is_usable_name(self, name: str) -> bool:
        """Whether Arrow can have a column of this name. A column of any other name is left out.

        Raises: `EncodeError` if Arrow cannot have the column, and the column is wanted.
        """
        try:
            name.encode()
        except UnicodeError as error:
            if self.context.selection.is_wanted(name):
                reason = f"the name {name!r} has {utf_8_reason(error)}"
                raise self.file_error(reason) from error
            return False
        return True

    def location(self, row: int, *, finds_line: bool) -> str:
        rows_before = 0
        for lines in self._lines() if finds_line else ():
            if row < rows_before + len(lines):
                return f"line {lines[row - rows_before][0]}"
            rows_before += len(lines)
        return f"row {row + 1}"

    def objects(self) -> Iterator[list[dict[str, Any]]]:
        """The objects, with all digits of their numbers. A line that cannot be read is `{}`."""
        decoder, known_names = json_decoder(exact=True), set(self.names())
        for lines in self._lines():
            rows = self._rows(lines, decoder, lambda row, error, raw: None)
            self._check_names(lines, rows, known_names)
            yield rows

    def _lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """Yields lists of the lines that are not blank, each with its number."""
        file, raw_file = self.open_bytes()
        lines_read, has_rows = 0, False
        with raw_file:
            while True:
                with FileErrors(self):
                    block_lines = file.readlines(_BLOCK)
                self.bytes_read = raw_file.tell()
                if not block_lines:
                    return
                if not lines_read:
                    block_lines[0] = block_lines[0].removeprefix(b"\xef\xbb\xbf")
                numbered_lines = enumerate(block_lines, lines_read + 1)
                lines = [(number, line) for number, line in numbered_lines if not line.isspace()]
                if lines and not has_rows and lines[0][1].lstrip().startswith(b"["):
                    raise self.file_error(
                        f"line {lines[0][0]}: expected an object in each line, got an array: write"
                        " each of its objects in one line, as jq -c '.[]' does"
                    )
                has_rows = has_rows or bool(lines)
                lines_read += len(block_lines)
                for begin in range(0, len(lines), MAX_BATCH_ROWS):
                    yield lines[begin : begin + MAX_BATCH_ROWS]

    def _rows(
        self, lines: list[tuple[int, bytes]], decoder: json.JSONDecoder, on_unreadable: OnUnreadable
    ) -> list[Any]:
        """Parses lines to objects. For an unreadable line, the object is `{}`, and `on_unreadable`
        is called.
        """
        try:
            text = b",".join([line for _, line in lines]).decode()
            rows: list[Any] = decoder.decode(f"[{text}]")
            if len(rows) == len(lines) and set(map(type, rows)) <= {dict}:
                return rows
        except (ValueError, RecursionError):
            pass
        rows = []
        for position, (number, line) in enumerate(lines):
            try:
                row = decoder.decode(line.decode())
                if not isinstance(row, dict):
                    raise ValueError(f"got {shown(row)}")
            except (ValueError, RecursionError) as error:
                shows_values = self.context.shows_values
                reason = json_reason(error, line, shows_values=shows_values)
                row_error = self.file_error(f"line {number}: {reason}")
                row_error.__cause__ = error if shows_values else None
                on_unreadable(position, row_error, line.decode("utf-8", "replace").rstrip("\r\n"))
                row = {}
            rows.append(row)
        return rows

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        names = self.names()
        types = [self.context.type_of_column(name) for name in names]
        decoder, known_names = json_decoder(exact=needs_exact_numbers(types)), set(names)
        for lines in self._lines():
            count = len(lines)
            if skip(first, count):
                yield count, None
            else:

                def report(position: int, error: EncodeError, raw: Any, first: int = first) -> None:
                    self.report_unreadable(first + position, error, raw)

                rows = self._rows(lines, decoder, report)
                self._check_names(lines, rows, known_names)
                yield count, self._typed(lines, rows, names, types, first)
            first += count

    def _check_names(
        self, lines: Sequence[tuple[int, bytes]], rows: Any, known_names: set[str]
    ) -> None:
        """Raises `EncodeError` if an object has a wanted column that is not in `known_names`."""
        if known_names.issuperset(set().union(*rows)):
            return
        for (number, _), row in zip(lines, rows, strict=True):
            for name in row:
                if name not in known_names and self.context.selection.is_wanted(name):
                    raise self.file_error(
                        f"line {number}: the first lines have no column {name!r}; write it as null"
                        " in the first line"
                    )

    def _exact_cell(self, cell: Any, line: tuple[int, bytes], name: str) -> Any:
        """A cell of a line. A number too large for a double is parsed again, with all digits."""
        if not isinstance(cell, float) or math.isfinite(cell):
            return cell
        return json_decoder(exact=True).decode(line[1].decode())[name]

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
            read: Callable[[Any], Any]
            if cql_type is not None:
                read = partial(column_of, cql_type)
            elif name == self.context.selection.write_time:
                read = write_times_of
            else:
                read = guessed_of

            def report(
                position: int,
                error: Exception,
                name: str = name,
                cql_type: CqlType | None = cql_type,
            ) -> None:
                cell = self._exact_cell(rows[position].get(name), lines[position], name)
                location = f"line {lines[position][0]}"
                row_error = self.cell_error(location, name, cql_type, error, cell)
                self.report_unreadable(first + position, row_error, rows[position])

            columns.append(read_all(read, [row.get(name) for row in rows], report))
        return library().RecordBatch.from_arrays(columns, list(names))
