"""Readers of Parquet and of Arrow IPC files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

from .int96 import columns_of, whole
from .reader import BYTES, ROWS, Guarded, Reader, Skip, Unit, inner_fields
from .text import library

__all__ = ["ArrowFile", "ParquetFile"]


def _validate(batch: Any) -> None:
    """Checks lengths, offsets and texts."""
    for column in batch.columns:
        # Servers have times outside a day, which a full validation refuses.
        column.validate(full="time64" not in str(column.type))


def _has_union(kind: Any) -> bool:
    is_union: bool = library().types.is_union(kind)
    return is_union or any(_has_union(field.type) for field in inner_fields(kind))


def _without_unions(batch: Any) -> Any:
    """A batch whose columns with unions are null texts: pyarrow crashes for some of them."""
    pa = library()
    for number, field in enumerate(batch.schema):
        if _has_union(field.type):
            nulls = pa.nulls(batch.num_rows, pa.string())
            batch = batch.set_column(number, pa.field(field.name, pa.string()), nulls)
    return batch


class ParquetFile(Reader):
    """Row groups, each in batches. Those that are skipped are not read."""

    def _open(self, int96_unit: str | None = None) -> Any:
        library()
        import pyarrow.parquet

        with Guarded(self):
            return pyarrow.parquet.ParquetFile(
                self.path,
                coerce_int96_timestamp_unit=int96_unit,
                memory_map=False,
                pre_buffer=False,
                # Else a column of a row group would be in memory as a whole.
                buffer_size=1 << 20,
                page_checksum_verification=True,
            )

    def names(self) -> list[str]:
        return self.checked(list(self.schema().names))

    def schema(self) -> Any:
        with self._open() as file, Guarded(self):
            self.count = file.metadata.num_rows
            return file.schema_arrow

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with ExitStack() as opened:
            file = opened.enter_context(self._open())
            with Guarded(self):
                times = columns_of(file)
            coarse = opened.enter_context(self._open("ms")) if times else None
            total, before = max(1, file.metadata.num_rows), 0
            size_on_disk = self.path.stat().st_size
            for group in range(file.metadata.num_row_groups):
                known = file.metadata.row_group(group)
                rows, size = known.num_rows, known.total_byte_size
                end = before + rows
                if rows and skip(first, rows):
                    yield rows, None
                    first, before = first + rows, end
                    continue
                most = max(1, min(ROWS, BYTES * rows // max(1, size)))
                batches, left = file.iter_batches(most, row_groups=[group]), rows
                others = coarse and coarse.iter_batches(most, row_groups=[group], columns=times)
                while True:
                    with Guarded(self):
                        batch = next(batches, None)
                        if batch is None:
                            break
                        if others is not None:
                            batch = self._with_times(batch, next(others), times)
                        _validate(batch)
                    left -= batch.num_rows
                    for count, part in self.cut(batch, first, skip):
                        yield count, part
                        first += count
                if left:
                    raise self.wrong(f"row group {group} has not {rows} rows, as its footer says")
                before = end
                self.at = size_on_disk * before // total

    def _with_times(self, batch: Any, coarse: Any, names: list[str]) -> Any:
        """A batch whose INT96 times are those of the file."""
        for name in names:
            column, number = batch.column(name), batch.schema.get_field_index(name)
            try:
                made = whole(column, coarse.column(name))
            except ValueError as error:
                raise self.wrong(f'column "{name}": {error}') from error
            batch = batch.set_column(number, batch.schema.field(number).with_type(made.type), made)
        return batch


class ArrowFile(Reader):
    """The batches of a file, or of a stream."""

    def _open(self, file: BinaryIO) -> tuple[bool, Any]:
        pa = library()
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        with Guarded(self):
            opened = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            return is_file, opened

    def names(self) -> list[str]:
        schema = self.schema()
        for field in schema:
            # Those that the table lacks are not loaded.
            if _has_union(field.type) and self.what.typed(field.name) is not None:
                raise self.wrong(
                    f'column "{field.name}": there is no CQL type for {field.type}, a union'
                )
        return self.checked(list(schema.names))

    def schema(self) -> Any:
        with open(self.path, "rb") as file:
            return self._open(file)[1].schema

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with open(self.path, "rb") as file:
            is_file, opened = self._open(file)
            number = 0
            while True:
                with Guarded(self):
                    if is_file:
                        at_end = number == opened.num_record_batches
                        batch = None if at_end else opened.get_batch(number)
                    else:
                        batch = next(opened, None)
                    if batch is None:
                        break
                number += 1
                batch = _without_unions(batch)
                self.at = file.tell()
                if skip(first, batch.num_rows):
                    yield batch.num_rows, None
                    first += batch.num_rows
                    continue
                with Guarded(self):
                    _validate(batch)
                for count, part in self.cut(batch, first, skip):
                    yield count, part
                    first += count
            if not is_file:
                self._check_end(file)

    def _check_end(self, file: BinaryIO) -> None:
        """A stream that was cut off between two batches lacks its end."""
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 8))
        if file.read() != b"\xff\xff\xff\xff\0\0\0\0":
            raise self.wrong("the stream has no end: the file was cut off")
