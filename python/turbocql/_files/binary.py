"""Readers of Parquet and of Arrow IPC files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from .from_text import library
from .int96 import exact_times, int96_columns
from .reader import MAX_BATCH_BYTES, MAX_BATCH_ROWS, FileErrors, Reader, Skip, Unit, inner_fields

__all__ = ["ArrowFile", "ParquetFile"]


def _validate(batch: Any) -> None:
    """Checks lengths, offsets and UTF-8.

    Raises: `pyarrow.ArrowInvalid` for a damaged batch.
    """
    for column in batch.columns:
        # A full validation refuses times outside a day, but servers store such times.
        column.validate(full="time64" not in str(column.type))


def _has_union(arrow_type: Any) -> bool:
    is_union: bool = library().types.is_union(arrow_type)
    return is_union or any(_has_union(field.type) for field in inner_fields(arrow_type))


def _without_unions(batch: Any) -> Any:
    """A batch in which columns with unions are null texts: pyarrow crashes for some unions."""
    pa = library()
    for position, field in enumerate(batch.schema):
        if _has_union(field.type):
            nulls = pa.nulls(batch.num_rows, pa.string())
            batch = batch.set_column(position, pa.field(field.name, pa.string()), nulls)
    return batch


class ParquetFile(Reader):
    """A Parquet file, read by row groups in batches. A row group that is skipped is not read."""

    def _open(self, int96_unit: str | None = None) -> Any:
        library()
        import pyarrow.parquet

        with FileErrors(self):
            return pyarrow.parquet.ParquetFile(
                self.path,
                coerce_int96_timestamp_unit=int96_unit,
                memory_map=False,
                pre_buffer=False,
                # Without a buffer, a column of a row group would be read into memory at once.
                buffer_size=1 << 20,
                page_checksum_verification=True,
            )

    def names(self) -> list[str]:
        return self.checked_names(list(self.schema().names))

    def schema(self) -> Any:
        with self._open() as file, FileErrors(self):
            self.row_count = file.metadata.num_rows
            return file.schema_arrow

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with ExitStack() as stack:
            file = stack.enter_context(self._open())
            with FileErrors(self):
                time_columns = int96_columns(file)
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
                batches = file.iter_batches(max_rows, row_groups=[group])
                coarse_batches = coarse_file and coarse_file.iter_batches(
                    max_rows, row_groups=[group], columns=time_columns
                )
                remaining_rows = group_rows
                while True:
                    with FileErrors(self):
                        batch = next(batches, None)
                        if batch is None:
                            break
                        if coarse_batches is not None:
                            batch = self._with_exact_int96(
                                batch, next(coarse_batches), time_columns
                            )
                        _validate(batch)
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

    def _with_exact_int96(self, batch: Any, coarse_batch: Any, names: list[str]) -> Any:
        """A batch with exact INT96 times. `coarse_batch` has its times in milliseconds."""
        for name in names:
            column, position = batch.column(name), batch.schema.get_field_index(name)
            try:
                times = exact_times(column, coarse_batch.column(name))
            except ValueError as error:
                raise self.file_error(f'column "{name}": {error}') from error
            field = batch.schema.field(position).with_type(times.type)
            batch = batch.set_column(position, field, times)
        return batch


class ArrowFile(Reader):
    """The batches of an Arrow IPC file or stream."""

    def _open(self, file: BinaryIO) -> tuple[bool, Any]:
        pa = library()
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        with FileErrors(self):
            reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            return is_file, reader

    def names(self) -> list[str]:
        schema = self.schema()
        for field in schema:
            # A column that the table lacks is not loaded, so its type does not matter.
            if _has_union(field.type) and self.context.type_of_column(field.name) is not None:
                raise self.file_error(
                    f'column "{field.name}": there is no CQL type for {field.type}, a union'
                )
        return self.checked_names(list(schema.names))

    def schema(self) -> Any:
        with open(self.path, "rb") as file:
            return self._open(file)[1].schema

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with open(self.path, "rb") as file:
            is_file, reader = self._open(file)
            number = 0
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
                with FileErrors(self):
                    _validate(batch)
                for count, part in self.split_batch(batch, first, skip):
                    yield count, part
                    first += count
            if not is_file:
                self._check_end(file)

    def _check_end(self, file: BinaryIO) -> None:
        """Raises `EncodeError` for a stream without an end mark: it was cut off between batches."""
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 8))
        if file.read() != b"\xff\xff\xff\xff\0\0\0\0":
            raise self.file_error("the stream has no end: the file was cut off")
