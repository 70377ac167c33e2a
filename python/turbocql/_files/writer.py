"""Writes Parquet, Arrow IPC, CSV and JSON lines.

The files of a sink have temporary names until all are complete.
"""

from __future__ import annotations

import errno
import glob
import gzip
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from .._checks import did_you_mean, shown
from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError
from .atomic import drop_temporary, forget_temporary, sync_directory, temporary_path
from .from_text import library, parsed
from .suffixes import format_of
from .to_text import cells_of, csv_column, csv_type

__all__ = ["Sink", "open_sink"]

_SUFFIX = {"parquet": ".parquet", "arrow": ".arrow", "csv": ".csv", "jsonl": ".jsonl"}
_COMPRESSIONS: dict[str, tuple[str | None, ...]] = {
    "parquet": (None, "zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "arrow": (None, "zstd", "lz4", "none"),
    "csv": (None, "gzip", "none"),
    "jsonl": (None, "gzip", "none"),
}
_GROUP_BYTES = 24 << 20
"""The pending rows are written as a row group when they have at least this many bytes in memory."""
_TEXT_BYTES = 1 << 20
"""How many bytes of Arrow data are converted to text at a time. There is a limit, because the
conversion makes Python objects and texts that take many times as much memory as the data."""


class _FileSettings(NamedTuple):
    """The settings that all files of a sink share."""

    format: str
    schema: Any
    types: Mapping[str, CqlType]
    compression: str | None
    rows_per_group: int


class _OutputFile:
    """A file that is being written, under a temporary name."""

    def __init__(self, final_path: Path, settings: _FileSettings) -> None:
        self.final_path, self.rows = final_path, 0
        self._settings = settings
        self.temporary = temporary_path(final_path)
        self._pending: list[Any] = []
        self._pending_rows = self._pending_bytes = 0
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode
        self._raw_file: BinaryIO = open(self.temporary, "xb")  # noqa: SIM115
        self._out: Any = self._raw_file
        try:
            if settings.format in ("csv", "jsonl") and settings.compression == "gzip":
                # The gzip header gets no file name and no time, so that files with equal data are
                # equal.
                self._out = gzip.GzipFile("", "wb", 6, self._raw_file, mtime=0)
            self._writer = self._open_writer()
        except BaseException:
            self.abort()
            raise

    def _open_writer(self) -> Any:
        pa, (format, schema, types, compression, _) = library(), self._settings
        if format == "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.ParquetWriter(
                self._out,
                schema,
                compression="none" if compression == "none" else compression or "zstd",
                write_page_checksum=True,
            )
        if format == "arrow":
            arrow_compression = None if compression == "none" else compression
            options = pa.ipc.IpcWriteOptions(compression=arrow_compression)
            return pa.ipc.new_file(self._out, schema, options=options)
        if format == "csv":
            import pyarrow.csv

            fields = [(field.name, csv_type(field, types.get(field.name))) for field in schema]
            return pyarrow.csv.CSVWriter(self._out, pa.schema(fields))
        return None

    def write(self, batch: Any) -> None:
        """Writes a batch, or keeps it in memory until there are enough rows for a row group."""
        self.rows += batch.num_rows
        if self._settings.format in ("csv", "jsonl"):
            # The batch is written in parts to limit memory, because the text of a part is made as a
            # whole.
            row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
            rows_per_part = max(1, min(16_384, _TEXT_BYTES // row_bytes))
            for begin in range(0, batch.num_rows, rows_per_part):
                self._write_text(batch.slice(begin, rows_per_part))
            return
        while batch.num_rows:
            part = batch.slice(0, self._settings.rows_per_group - self._pending_rows)
            batch = batch.slice(part.num_rows)
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if (
                self._pending_rows >= self._settings.rows_per_group
                or self._pending_bytes >= _GROUP_BYTES
            ):
                self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        pending_batches, rows = self._pending, self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        table = library().Table.from_batches(pending_batches, self._settings.schema)
        if self._settings.format == "parquet":
            self._writer.write_table(table, row_group_size=rows)
        else:
            # `combine_chunks` leaves a column above 2 GiB in several chunks, so there may be
            # several batches.
            for batch in table.combine_chunks().to_batches():
                self._writer.write_batch(batch)

    def _write_text(self, batch: Any) -> None:
        names, types = batch.schema.names, self._settings.types
        fields_and_columns = list(zip(batch.schema, batch.columns, strict=True))
        if self._settings.format == "csv":
            pa = library()
            columns = [
                csv_column(column, field, types.get(field.name))
                for field, column in fields_and_columns
            ]
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, names))
            return
        cells = [
            cells_of(column, field, types.get(field.name)) for field, column in fields_and_columns
        ]
        encode = self._encode
        lines = [encode(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]
        self._out.write(("\n".join(lines) + "\n").encode() if lines else b"")

    def finish(self) -> None:
        """Writes the pending rows, and waits until the file is on the disk."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        if self._out is not self._raw_file:
            self._out.close()
        self._raw_file.flush()
        os.fsync(self._raw_file.fileno())
        self._raw_file.close()

    def abort(self) -> None:
        """Removes the file."""
        self._pending = []
        # Errors of `close` are ignored, because the file is removed.
        for file_object in (getattr(self, "_writer", None), self._out, self._raw_file):
            with suppress(Exception):
                if file_object is not None:
                    file_object.close()
        drop_temporary(self.temporary)


class Sink:
    """Writes record batches to a file, or to several files in a directory.

    `close` gives the files their names, once all are complete. A `with` block calls `close`, or
    `abort` after an exception.
    """

    def __init__(
        self,
        path: Path,
        suffix: str,
        settings: _FileSettings,
        files: int,
        max_file_rows: int | None,
        overwrite: bool,
    ) -> None:
        """`path` is a directory, or the path of the only file if `suffix` is empty."""
        self._path, self._suffix, self._settings = path, suffix, settings
        self._max_file_rows, self._overwrites = max_file_rows, overwrite
        self._open: list[_OutputFile | None] = [None] * files
        self._files: list[_OutputFile] = []
        self._next = 0
        self._is_closed = False
        self.rows = 0
        """The number of rows that were passed to `write`."""

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, error_class: object, error: object, trace: object) -> None:
        if error_class is None:
            self.close()
        else:
            self.abort()

    def _open_file(self) -> _OutputFile:
        final_path = self._path
        if self._suffix:
            final_path = self._path / f"part-{len(self._files):05d}{self._suffix}"
        file = _OutputFile(final_path, self._settings)
        self._files.append(file)
        return file

    def write(self, batch: Any) -> None:
        """Writes a record batch with the columns of the schema.

        Raises: `OSError` if the file cannot be written; `EncodeError` for another schema, or for a
            value that the format cannot express. After any error, the sink is aborted.
        """
        if self._is_closed:
            raise ValueError("the sink is closed")
        try:
            self._write(batch)
        except BaseException as error:
            self.abort()
            self._raise(error)

    def _write(self, batch: Any) -> None:
        pa = library()
        if not isinstance(batch, pa.RecordBatch):
            batch = pa.record_batch(batch)
        if not batch.schema.equals(self._settings.schema):
            raise refused(f"a batch has the schema {batch.schema}, not {self._settings.schema}")
        self.rows += batch.num_rows
        while batch.num_rows:
            file = self._open[self._next]
            if file is None:
                file = self._open[self._next] = self._open_file()
            free_rows = batch.num_rows
            if self._max_file_rows is not None:
                free_rows = self._max_file_rows - file.rows
            file.write(batch.slice(0, free_rows))
            batch = batch.slice(min(free_rows, batch.num_rows))
            if file.rows == self._max_file_rows:
                file.finish()
                self._open[self._next] = None
        self._next = (self._next + 1) % len(self._open)

    def _raise(self, error: BaseException) -> NoReturn:
        """Raises an error again, with the path. An error of Arrow becomes an `EncodeError`."""
        arrow_error = library().ArrowException
        if isinstance(error, OSError):
            if error.filename is None and error.errno is None:
                raise OSError(f"{self._path}: {error}") from error
            # The error names the temporary file, which the caller does not know. So it gets the
            # caller's path.
            error.filename = str(self._path)
        elif isinstance(error, arrow_error):
            raise refused(f"{self._path}: {error}") from error
        raise error

    def close(self) -> list[Path]:
        """Completes the files, gives them their names, and returns their paths."""
        if self._is_closed:
            return [file.final_path for file in self._files]
        try:
            if not self._files:
                self._open[0] = self._open_file()
            for file in self._open:
                if file is not None:
                    file.finish()
            self._publish()
        except BaseException as error:
            self.abort()
            self._raise(error)
        self._is_closed = True
        return [file.final_path for file in self._files]

    def _publish(self) -> None:
        published: list[Path] = []
        try:
            for file in self._files:
                if self._overwrites:
                    os.replace(file.temporary, file.final_path)
                    forget_temporary(file.temporary)
                    continue
                _move(file.temporary, file.final_path)
                forget_temporary(file.temporary)
                published.append(file.final_path)
        except BaseException:
            for path in published:
                os.unlink(path)
            raise
        directory = self._path if self._suffix else self._path.parent
        if self._suffix and self._overwrites:
            final_paths = {file.final_path for file in self._files}
            for path in _part_files(directory):
                if path not in final_paths:
                    path.unlink()
        sync_directory(directory)

    def abort(self) -> None:
        """Removes the files."""
        if not self._is_closed:
            self._is_closed = True
            for file in self._files:
                file.abort()


def _move(temporary: Path, final_path: Path) -> None:
    """Renames a file.

    Raises: `ConfigError` if a file has the new name already.
    """
    try:
        os.link(temporary, final_path)
    except FileExistsError:
        raise ConfigError(f"{final_path} exists already: pass overwrite=True") from None
    except OSError:
        # The file system has no hard links.
        if final_path.exists():
            raise ConfigError(f"{final_path} exists already: pass overwrite=True") from None
        os.rename(temporary, final_path)
    else:
        os.unlink(temporary)


def _part_files(directory: Path) -> list[Path]:
    return [Path(path) for path in glob.glob(f"{glob.escape(str(directory))}/part-[0-9]*.*")]


def open_sink(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    schema: Any,
    types: Mapping[str, str | CqlType] | None = None,
    compression: str | None = None,
    rows_per_group: int = 131_072,
    files: int = 1,
    max_file_rows: int | None = None,
    overwrite: bool = False,
) -> Sink:
    """A sink for record batches of a schema.

    Arguments: without `format`, the suffix of the path names the format. The path means a
        directory if it ends with a slash or is a directory, if `files` is above 1, or if
        `max_file_rows` is set. Then the sink writes files in the directory, with names such as
        `part-00000.parquet`. It writes `files` files at a time, and batches go to them in turn.
        `types` are CQL types of columns. If the Arrow field of a column has the CQL type as
        metadata, the column need not be in `types`. By default, Parquet is compressed by zstd, a
        single file with the suffix `.gz` by gzip, and other files are not compressed.

    Raises: `ConfigError` for invalid options, and for a file that exists already; `OSError` for a
        directory that cannot be written.
    """
    pa = library()
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a Path, got {shown(path)}")
    if "\0" in text:
        raise ConfigError(f"no path has the character NUL, got {text!r}")
    target = Path(text)
    is_directory = text.endswith(("/", os.sep)) or target.is_dir() or files > 1
    is_directory = is_directory or max_file_rows is not None
    file_format = format or format_of(target)
    if file_format not in _SUFFIX:
        raise ConfigError(f"{text}: pass format=, one of {', '.join(_SUFFIX)}")
    if compression not in _COMPRESSIONS[file_format]:
        compressions = _COMPRESSIONS[file_format]
        hint = did_you_mean(compression, filter(None, compressions), repr)
        raise ConfigError(
            f"compression of {file_format} must be one of {compressions}, got {compression!r}{hint}"
        )
    for name, number in (("rows_per_group", rows_per_group), ("files", files)):
        if type(number) is not int or number < 1:
            raise ConfigError(f"{name} must be an int of at least 1, got {number!r}")
    if max_file_rows is not None and (type(max_file_rows) is not int or max_file_rows < 1):
        raise ConfigError(f"max_file_rows must be an int of at least 1, got {max_file_rows!r}")
    if target.suffix == ".gz" and not is_directory and compression is None:
        compression = "gzip"
    schema = pa.schema(schema)
    if len(set(schema.names)) != len(schema.names):
        raise refused("two columns have the same name")
    parsed_types = {}
    for name, cql_type in (types or {}).items():
        # `parsed` raises an error for a user-defined type, because its text does not name its
        # fields. Such a column is left out here: the metadata of its Arrow field has the type with
        # its fields.
        with suppress(ConfigError):
            parsed_types[name] = parsed(name, cql_type, None)
    settings = _FileSettings(file_format, schema, parsed_types, compression, rows_per_group)
    suffix = ""
    if is_directory:
        suffix = _SUFFIX[file_format]
        if compression == "gzip" and file_format != "parquet":
            suffix += ".gz"
        target.mkdir(parents=True, exist_ok=True)
        if _part_files(target) and not overwrite:
            raise ConfigError(f"{target} has files already: pass overwrite=True")
    elif not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))
    elif target.exists() and not target.is_file():
        raise ConfigError(f"{target} is no regular file: pass another name")
    elif target.exists() and not overwrite:
        raise ConfigError(f"{target} exists already: pass overwrite=True")
    return Sink(target, suffix, settings, files, max_file_rows, overwrite)
