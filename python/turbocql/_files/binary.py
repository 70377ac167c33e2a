"""Readers of Parquet and of Arrow IPC files and streams."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from ..errors import EncodeError
from .from_text import library
from .int96 import exact_times, int96_columns
from .reader import MAX_BATCH_BYTES, MAX_BATCH_ROWS, FileErrors, Reader, Skip, Unit, inner_fields

__all__ = ["ArrowFile", "ParquetFile"]


def _is_valid(column: Any) -> bool:
    try:
        # A full validation would refuse times outside a day. Servers store such times, so columns
        # of times are not fully validated.
        column.validate(full="time64" not in str(column.type))
    except library().ArrowInvalid:
        return False
    return True


def _first_invalid_row(column: Any) -> int:
    begin, count = 0, len(column)
    while count > 1:
        half = count // 2
        if _is_valid(column.slice(begin, half)):
            begin, count = begin + half, count - half
        else:
            count = half
    return begin


class _BinaryFile(Reader):
    """A reader of a file that stores the types of its columns. It can read individual columns."""

    _schema: Any = None

    def schema(self) -> Any:
        """The Arrow schema of the file."""
        if self._schema is None:
            self._schema = self._read_schema()
        return self._schema

    def wanted_schema(self) -> Any:
        schema = self.schema()
        names = filter(self.context.selection.is_wanted, schema.names)
        fields = [schema.field(schema.names.index(name)) for name in names]
        return library().schema(fields, schema.metadata)

    @abstractmethod
    def _read_schema(self) -> Any:
        """The Arrow schema of the file."""

    def names_to_read(self) -> list[str] | None:
        """The wanted columns; `None` if all columns are read."""
        names = list(self.schema().names)
        wanted_names = list(filter(self.context.selection.is_wanted, names))
        reads_all = self.context.reads_all or len(wanted_names) in (0, len(names))
        return None if reads_all else wanted_names

    def validate(self, batch: Any, first_row: int) -> None:
        """Checks lengths, offsets, UTF-8 and ranges of values. `first_row` is the number of the
        batch's first row, counted from the start of the file.

        Raises: `EncodeError`, with the column and the row, for a damaged batch.
        """
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                with FileErrors(self):
                    column.validate(full="time64" not in str(column.type))
            except EncodeError as error:
                row = first_row + _first_invalid_row(column)
                shows_values = self.context.shows_values
                reason = f": {error.__cause__}" if shows_values else ""
                raise self.file_error(
                    f'column "{name}", row {row} (the first is 0): expected valid data of'
                    f" Arrow{reason}"
                ) from (error if shows_values else None)


def _has_union(arrow_type: Any) -> bool:
    is_union: bool = library().types.is_union(arrow_type)
    return is_union or any(_has_union(field.type) for field in inner_fields(arrow_type))


def _without_unions(batch: Any) -> Any:
    """Replaces columns that contain unions by columns of nulls: pyarrow crashes for some unions."""
    pa = library()
    for position, field in enumerate(batch.schema):
        if _has_union(field.type):
            nulls = pa.nulls(batch.num_rows, pa.string())
            batch = batch.set_column(position, pa.field(field.name, pa.string()), nulls)
    return batch


class ParquetFile(_BinaryFile):
    """A Parquet file, whose row groups are read one after another, in batches. A row group that is
    skipped is not read.
    """

    description = "a Parquet file"

    def _open(self, int96_unit: str | None = None) -> Any:
        library()
        import pyarrow.parquet

        with FileErrors(self):
            return pyarrow.parquet.ParquetFile(
                self.path,
                coerce_int96_timestamp_unit=int96_unit,
                memory_map=False,
                pre_buffer=False,
                # Without a buffer, pyarrow would read the whole column of a row group at once.
                buffer_size=1 << 20,
                page_checksum_verification=True,
            )

    def names(self) -> list[str]:
        return self.checked_names(list(self.schema().names))

    def _read_schema(self) -> Any:
        with self._open() as file, FileErrors(self):
            self.row_count = file.metadata.num_rows
            return file.schema_arrow

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with ExitStack() as stack:
            file = stack.enter_context(self._open())
            with FileErrors(self):
                names = self.names_to_read()
                time_columns = int96_columns(file)
                if names is not None:
                    time_columns = [name for name in time_columns if name in names]
            coarse_file = stack.enter_context(self._open("ms")) if time_columns else None
            total_rows, rows_before = max(1, file.metadata.num_rows), 0
            size_on_disk = self.path.stat().st_size
            for group in range(file.metadata.num_row_groups):
                group_metadata = file.metadata.row_group(group)
                group_rows, group_bytes = group_metadata.num_rows, group_metadata.total_byte_size
                rows_after = rows_before + group_rows
                if group_rows and skip(first, group_rows):
                    yield group_rows, None
                    first, rows_before = first + group_rows, rows_after
                    continue
                rows_that_fit = MAX_BATCH_BYTES * group_rows // max(1, group_bytes)
                max_rows = max(1, min(MAX_BATCH_ROWS, rows_that_fit))
                batches = file.iter_batches(max_rows, row_groups=[group], columns=names)
                coarse_batches = coarse_file and coarse_file.iter_batches(
                    max_rows, row_groups=[group], columns=time_columns
                )
                remaining_rows = group_rows
                while True:
                    try:
                        with FileErrors(self):
                            batch = next(batches, None)
                            if batch is not None and coarse_batches is not None:
                                batch = self._with_exact_int96(
                                    batch, next(coarse_batches), time_columns
                                )
                    except EncodeError as error:
                        raise self._damage(file, group, rows_before, error) from error
                    if batch is None:
                        break
                    self.validate(batch, rows_after - remaining_rows)
                    remaining_rows -= batch.num_rows
                    for count, part in self.split_batch(batch, first, skip):
                        yield count, part
                        first += count
                if remaining_rows:
                    raise self.file_error(
                        f"row group {group} has not {group_rows} rows, as its footer says"
                    )
                rows_before = rows_after
                self.bytes_read = size_on_disk * rows_before // total_rows

    def _damage(self, file: Any, group: int, first_row: int, error: EncodeError) -> EncodeError:
        """The error for a row group that cannot be read, with the first damaged column."""
        if error.__cause__ is None:
            return error
        last_row = first_row + file.metadata.row_group(group).num_rows - 1
        for name in self.names_to_read() or self.schema().names:
            try:
                with FileErrors(self):
                    for _ in file.iter_batches(row_groups=[group], columns=[name]):
                        pass
            except EncodeError as damage:
                return self.file_error(
                    f'column "{name}", rows {first_row} to {last_row} (the first row is 0):'
                    f" cannot be read: {damage.__cause__}"
                )
        return error

    def _with_exact_int96(self, batch: Any, coarse_batch: Any, names: list[str]) -> Any:
        """Returns the batch with exact INT96 times. `coarse_batch` has the same times in
        milliseconds.
        """
        for name in names:
            column, position = batch.column(name), batch.schema.get_field_index(name)
            try:
                times = exact_times(column, coarse_batch.column(name))
            except ValueError as error:
                raise self.file_error(f'column "{name}": {error}') from error
            field = batch.schema.field(position).with_type(times.type)
            batch = batch.set_column(position, field, times)
        return batch


class ArrowFile(_BinaryFile):
    """An Arrow IPC file or stream, read batch by batch."""

    description = "an Arrow IPC file or stream"

    def _open(self, file: BinaryIO, positions: list[int] | None = None) -> tuple[bool, Any]:
        pa = library()
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        with FileErrors(self):
            options = pa.ipc.IpcReadOptions(included_fields=positions)
            if is_file:
                return True, pa.ipc.open_file(file, options=options)
            return False, pa.ipc.open_stream(file, options=options)

    def names(self) -> list[str]:
        schema = self.schema()
        for position, name in enumerate(schema.names):
            # A column that is not loaded may have any type.
            if not self.context.selection.is_wanted(name):
                continue
            arrow_type = schema.field(position).type
            if not _is_readable(arrow_type):
                raise self.file_error(
                    f'column "{name}" has a type that pyarrow does not read, {arrow_type}: leave it'
                    " out with columns="
                )
            if _has_union(arrow_type) and self.context.type_of_column(name) is not None:
                raise self.file_error(
                    f'column "{name}": there is no CQL type for {arrow_type}, a union'
                )
        return self.checked_names(list(schema.names))

    def _read_schema(self) -> Any:
        with open(self.path, "rb") as file:
            return self._open(file)[1].schema

    def _positions_to_read(self) -> list[int] | None:
        """The positions of the columns to read; `None` if all columns are read.

        A column whose type pyarrow cannot read is left out, even if all columns are wanted.
        """
        names = self.names_to_read()
        schema = self.schema()
        if names is None:
            readable = [number for number, field in enumerate(schema) if _is_readable(field.type)]
            return None if len(readable) == len(schema.names) else readable
        return list(map(schema.names.index, names))

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        positions = self._positions_to_read()
        with open(self.path, "rb") as file:
            is_file, reader = self._open(file, positions)
            number, first_of_file = 0, first
            while True:
                with FileErrors(self):
                    if is_file:
                        at_end = number == reader.num_record_batches
                        batch = None if at_end else reader.get_batch(number)
                    else:
                        batch = next(reader, None)
                    if batch is None:
                        break
                number += 1
                batch = _without_unions(batch)
                self.bytes_read = file.tell()
                if skip(first, batch.num_rows):
                    yield batch.num_rows, None
                    first += batch.num_rows
                    continue
                self.validate(batch, first - first_of_file)
                for count, part in self.split_batch(batch, first, skip):
                    yield count, part
                    first += count
            if not is_file:
                self._check_end(file)

    def _check_end(self, file: BinaryIO) -> None:
        """Raises `EncodeError` if the stream has no end mark: it was cut off between batches."""
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 8))
        if file.read() != b"\xff\xff\xff\xff\0\0\0\0":
            raise self.file_error("the stream has no end: the file was cut off")


def _is_readable(arrow_type: Any) -> bool:
    """Whether pyarrow has classes for a type and its parts."""
    pa = library()
    parts = inner_fields(arrow_type)
    if parts or pa.types.is_nested(arrow_type):
        return all(_is_readable(part.type) for part in parts)
    try:
        pa.nulls(0, arrow_type)
    except KeyError:
        return False
    return True
