"""Writers of files: Parquet, Arrow IPC, CSV and JSON lines, complete or not there at all."""

from __future__ import annotations

import glob
import gzip
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError
from .atomic import drop_temporary, forget_temporary, sync_directory, temporary_path
from .cells import cells_of, csv_column, csv_type
from .formats import format_of
from .text import library, parsed

__all__ = ["Sink", "open_sink"]

_SUFFIX = {"parquet": ".parquet", "arrow": ".arrow", "csv": ".csv", "jsonl": ".jsonl"}
_COMPRESSIONS: dict[str, tuple[str | None, ...]] = {
    "parquet": (None, "zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "arrow": (None, "zstd", "lz4", "none"),
    "csv": (None, "gzip", "none"),
    "jsonl": (None, "gzip", "none"),
}
_GROUP_BYTES = 24 << 20
"""Rows are held in memory until a group of them is written: never more than this, and a batch."""
_TEXT_BYTES = 1 << 20
"""So much is made text at a time: as objects and as text it takes many times the room."""


class _Plan(NamedTuple):
    """What all files of a sink share."""

    format: str
    schema: Any
    types: Mapping[str, CqlType]
    compression: str | None
    rows_per_group: int


class _File:
    """A file that is being written, under a temporary name."""

    def __init__(self, final: Path, plan: _Plan) -> None:
        self.final, self.rows = final, 0
        self._plan = plan
        self.temporary = temporary_path(final)
        self._held: list[Any] = []
        self._held_rows = self._held_bytes = 0
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode
        self._plain: BinaryIO = open(self.temporary, "xb")  # noqa: SIM115
        self._out: Any = self._plain
        try:
            if plan.format in ("csv", "jsonl") and plan.compression == "gzip":
                # Without a name and a time within it, equal data makes equal files.
                self._out = gzip.GzipFile("", "wb", 6, self._plain, mtime=0)
            self._writer = self._made()
        except BaseException:
            self.abort()
            raise

    def _made(self) -> Any:
        pa, (kind, schema, types, compression, _) = library(), self._plan
        if kind == "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.ParquetWriter(
                self._out,
                schema,
                compression="none" if compression == "none" else compression or "zstd",
                write_page_checksum=True,
            )
        if kind == "arrow":
            codec = None if compression == "none" else compression
            options = pa.ipc.IpcWriteOptions(compression=codec)
            return pa.ipc.new_file(self._out, schema, options=options)
        if kind == "csv":
            import pyarrow.csv

            fields = [(it.name, csv_type(it, types.get(it.name))) for it in schema]
            return pyarrow.csv.CSVWriter(self._out, pa.schema(fields))
        return None

    def write(self, batch: Any) -> None:
        """Writes a batch, or holds it until there are enough rows."""
        self.rows += batch.num_rows
        if self._plan.format in ("csv", "jsonl"):
            # Pieces, because the text of each is made as a whole.
            width = max(1, batch.nbytes // max(1, batch.num_rows))
            step = max(1, min(16_384, _TEXT_BYTES // width))
            for begin in range(0, batch.num_rows, step):
                self._write_text(batch.slice(begin, step))
            return
        while batch.num_rows:
            part = batch.slice(0, self._plan.rows_per_group - self._held_rows)
            batch = batch.slice(part.num_rows)
            self._held.append(part)
            self._held_rows += part.num_rows
            self._held_bytes += part.nbytes
            if self._held_rows >= self._plan.rows_per_group or self._held_bytes >= _GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        held, rows = self._held, self._held_rows
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        table = library().Table.from_batches(held, self._plan.schema)
        if self._plan.format == "parquet":
            self._writer.write_table(table, row_group_size=rows)
        else:
            # A column beyond 2 GiB stays in several batches.
            for batch in table.combine_chunks().to_batches():
                self._writer.write_batch(batch)

    def _write_text(self, batch: Any) -> None:
        names, types = batch.schema.names, self._plan.types
        pairs = list(zip(batch.schema, batch.columns, strict=True))
        if self._plan.format == "csv":
            pa = library()
            columns = [csv_column(column, it, types.get(it.name)) for it, column in pairs]
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, names))
            return
        cells = [cells_of(column, it, types.get(it.name)) for it, column in pairs]
        encode = self._encode
        lines = [encode(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]
        self._out.write(("\n".join(lines) + "\n").encode() if lines else b"")

    def finish(self) -> None:
        """Writes what is left, to the disk."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        if self._out is not self._plain:
            self._out.close()
        self._plain.flush()
        os.fsync(self._plain.fileno())
        self._plain.close()

    def abort(self) -> None:
        """Removes the file."""
        self._held = []
        # What cannot be closed cannot be written, which is not wanted any more.
        for one in (getattr(self, "_writer", None), self._out, self._plain):
            with suppress(Exception):
                if one is not None:
                    one.close()
        drop_temporary(self.temporary)


class Sink:
    """Writes record batches to a file, or to several in a directory.

    The files have their names only after `close`, when all are whole. A `with` block calls `close`,
    or `abort` after an exception.
    """

    def __init__(
        self,
        path: Path,
        suffix: str,
        plan: _Plan,
        files: int,
        most: int | None,
        overwrite: bool,
    ) -> None:
        """Without a suffix the path is that of the only file."""
        self._path, self._suffix, self._plan = path, suffix, plan
        self._most, self._overwrites = most, overwrite
        self._open: list[_File | None] = [None] * files
        self._files: list[_File] = []
        self._next = 0
        self._is_closed = False
        self.rows = 0
        """How many rows are written."""

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _new(self) -> _File:
        final = self._path
        if self._suffix:
            final = self._path / f"part-{len(self._files):05d}{self._suffix}"
        made = _File(final, self._plan)
        self._files.append(made)
        return made

    def write(self, batch: Any) -> None:
        """Writes a record batch with the columns of the schema.

        Raises: `OSError` if it cannot be written; `EncodeError` if the format has no form for it.
            The sink is aborted then.
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
        if not batch.schema.equals(self._plan.schema):
            raise refused(f"a batch has the schema {batch.schema}, not {self._plan.schema}")
        self.rows += batch.num_rows
        while batch.num_rows:
            file = self._open[self._next]
            if file is None:
                file = self._open[self._next] = self._new()
            room = batch.num_rows if self._most is None else self._most - file.rows
            file.write(batch.slice(0, room))
            batch = batch.slice(min(room, batch.num_rows))
            if file.rows == self._most:
                file.finish()
                self._open[self._next] = None
        self._next = (self._next + 1) % len(self._open)

    def _raise(self, error: BaseException) -> NoReturn:
        """Raises an error again; one of the system with the name of the file."""
        arrow = library().ArrowException
        if isinstance(error, OSError) and error.filename is None:
            if error.errno is None:
                raise OSError(f"{self._path}: {error}") from error
            error.filename = str(self._path)
        elif isinstance(error, arrow):
            raise refused(f"{self._path}: {error}") from error
        raise error

    def close(self) -> list[Path]:
        """Completes the files and gives them their names, which it returns."""
        if self._is_closed:
            return [file.final for file in self._files]
        try:
            if not self._files:
                self._open[0] = self._new()
            for file in self._open:
                if file is not None:
                    file.finish()
            self._publish()
        except BaseException as error:
            self.abort()
            self._raise(error)
        self._is_closed = True
        return [file.final for file in self._files]

    def _publish(self) -> None:
        moved: list[Path] = []
        try:
            for file in self._files:
                if self._overwrites:
                    os.replace(file.temporary, file.final)
                    forget_temporary(file.temporary)
                    continue
                _move(file.temporary, file.final)
                forget_temporary(file.temporary)
                moved.append(file.final)
        except BaseException:
            for path in moved:
                os.unlink(path)
            raise
        directory = self._path if self._suffix else self._path.parent
        if self._suffix and self._overwrites:
            kept = {file.final for file in self._files}
            for path in _parts(directory):
                if path not in kept:
                    path.unlink()
        sync_directory(directory)

    def abort(self) -> None:
        """Removes what was written."""
        if not self._is_closed:
            self._is_closed = True
            for file in self._files:
                file.abort()


def _move(temporary: Path, final: Path) -> None:
    """Renames a file, but not over another."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise ConfigError(f"{final} exists already: pass overwrite=True") from None
    except OSError:
        # A file system without links.
        if final.exists():
            raise ConfigError(f"{final} exists already: pass overwrite=True") from None
        os.rename(temporary, final)
    else:
        os.unlink(temporary)


def _parts(directory: Path) -> list[Path]:
    return [Path(it) for it in glob.glob(f"{glob.escape(str(directory))}/part-[0-9]*.*")]


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

    Arguments: the format is that of the path's suffix, unless it is passed. A path with a slash at
        its end, that of a directory, `files` above 1 or `max_file_rows` give files
        `part-00000.parquet` and so on; batches go to the `files` in turn. `types` are the CQL types
        of columns whose fields do not have them as metadata. Parquet is compressed by zstd, other
        formats are not.

    Raises: `ConfigError` for options that do not fit, and for a file that exists already;
        `OSError` for a directory that cannot be written.
    """
    pa = library()
    text = os.fspath(path)
    target = Path(text)
    several = text.endswith(("/", os.sep)) or target.is_dir() or files > 1
    several = several or max_file_rows is not None
    kind = format or format_of(target)
    if kind not in _SUFFIX:
        raise ConfigError(f"{text}: pass format=, one of {', '.join(_SUFFIX)}")
    if compression not in _COMPRESSIONS[kind]:
        raise ConfigError(
            f"compression of {kind} must be one of {_COMPRESSIONS[kind]}, got {compression!r}"
        )
    for name, number in (("rows_per_group", rows_per_group), ("files", files)):
        if type(number) is not int or number < 1:
            raise ConfigError(f"{name} must be an int of at least 1, got {number!r}")
    if max_file_rows is not None and (type(max_file_rows) is not int or max_file_rows < 1):
        raise ConfigError(f"max_file_rows must be an int of at least 1, got {max_file_rows!r}")
    if target.suffix == ".gz" and not several and compression is None:
        compression = "gzip"
    schema = pa.schema(schema)
    if len(set(schema.names)) != len(schema.names):
        raise refused("two columns have the same name")
    known = {}
    for name, cql_type in (types or {}).items():
        # A user-defined type without its fields is described by the metadata of the columns.
        with suppress(ConfigError):
            known[name] = parsed(name, cql_type, None)
    plan = _Plan(kind, schema, known, compression, rows_per_group)
    suffix = ""
    if several:
        suffix = _SUFFIX[kind] + (".gz" if compression == "gzip" and kind != "parquet" else "")
        target.mkdir(parents=True, exist_ok=True)
        if _parts(target) and not overwrite:
            raise ConfigError(f"{target} has files already: pass overwrite=True")
    elif target.exists() and not overwrite:
        raise ConfigError(f"{target} exists already: pass overwrite=True")
    return Sink(target, suffix, plan, files, max_file_rows, overwrite)
