"""Readers of Parquet and of Arrow IPC files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ._files_read import BYTES, ROWS, Guarded, Reader, Skip, Unit
from ._files_text import library

__all__ = ["ArrowFile", "ParquetFile"]


def _validate(batch: Any) -> None:
    """Checks lengths, offsets and texts."""
    for column in batch.columns:
        # Servers have times outside a day, which a full validation refuses.
        column.validate(full="time64" not in str(column.type))


class ParquetFile(Reader):
    """Row groups, each in batches. Those that are skipped are not read."""

    def _open(self) -> Any:
        library()
        import pyarrow.parquet

        with Guarded(self):
            return pyarrow.parquet.ParquetFile(
                self.path,
                memory_map=False,
                pre_buffer=False,
                # Else a column of a row group would be in memory as a whole.
                buffer_size=1 << 20,
                page_checksum_verification=True,
            )

    def names(self) -> list[str]:
        with self._open() as file, Guarded(self):
            return self.checked(list(file.schema_arrow.names))

    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        with self._open() as file:
            total, before = max(1, file.metadata.num_rows), 0
            whole = self.path.stat().st_size
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
                while True:
                    with Guarded(self):
                        batch = next(batches, None)
                        if batch is None:
                            break
                        _validate(batch)
                    left -= batch.num_rows
                    for count, part in self.cut(batch, first, skip):
                        yield count, part
                        first += count
                if left:
                    raise self.wrong(f"row group {group} has not {rows} rows, as its footer says")
                before = end
                self.at = whole * before // total


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
        with open(self.path, "rb") as file:
            return self.checked(list(self._open(file)[1].schema.names))

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
