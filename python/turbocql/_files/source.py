"""Reads the rows of files of any format, one file after another."""

from __future__ import annotations

import glob
import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from .._checks import with_nearest
from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError, EncodeError
from .binary import ArrowFile, ParquetFile
from .from_text import library, parsed
from .lines import CsvFile, JsonLines
from .reader import CsvOptions, OnUnreadable, ReadContext, Reader, Selection
from .suffixes import format_of, suffix_reason

__all__ = [
    "CsvOptions",
    "FileInfo",
    "Source",
    "open_source",
]

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

READERS: dict[str, type[Reader]] = {
    **{"parquet": ParquetFile, "arrow": ArrowFile, "csv": CsvFile, "jsonl": JsonLines},
}
_DIGEST_EDGE = 64 << 10
_MAX_QUICK_BYTES = 256 << 20
_ALL = Selection()


@dataclass(frozen=True)
class FileInfo:
    """The properties of a file by which a checkpoint identifies it."""

    path: Path
    size: int
    modified_ns: int
    digest: str
    """The SHA-256 of the file's size and of its first and last 64 KiB."""

    @classmethod
    def of(cls, path: Path) -> FileInfo:
        """Returns the properties of the file at a path.

        Raises: `OSError` if the file cannot be read.
        """
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256(str(status.st_size).encode() + b"\0")
            digest.update(file.read(_DIGEST_EDGE))
            file.seek(max(0, status.st_size - _DIGEST_EDGE))
            digest.update(file.read(_DIGEST_EDGE))
        return cls(path, status.st_size, status.st_mtime_ns, digest.hexdigest())


_MAX_PATH_LENGTH, _MAX_NAME_LENGTH = 4096, 255
"""If a text is longer, the caller has probably passed a file's content in place of its path."""


def _find_files(source: str | os.PathLike[str], format: str | None) -> list[Path]:
    """The paths of the files that a path, a pattern or a directory names.

    Raises: `ConfigError` for a pattern or a directory without files; `FileNotFoundError` for a path
        that does not exist.
    """
    text = os.fspath(source)
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a Path, got {type(text).__name__}")
    if not text:
        raise ConfigError("a path must not be empty; '.' is the current directory")
    path = Path(text)
    if not os.path.exists(text) and (
        len(text) > _MAX_PATH_LENGTH or "\n" in text or len(path.name) > _MAX_NAME_LENGTH
    ):
        raise ConfigError(
            f"a str is the path of a file, and there is no file for this one of {len(text):,}"
            " characters: to load a text, write it to a file first, or pass a DataFrame"
        )
    if path.is_dir():
        return _in_directory(path, format)
    if path.exists() or not glob.has_magic(text):
        if "://" in text:
            raise ConfigError(
                "files are read from this machine only, got a URL: pass a dataset of"
                " pyarrow.dataset, or download the file"
            )
        if not path.exists():
            raise FileNotFoundError(2, "No such file", text)
        return [path]
    matches = map(Path, sorted(glob.glob(text, recursive=True)))
    paths = [match for match in matches if match.is_file()]
    if not paths:
        raise ConfigError(f"no file matches {text!r}")
    return paths


def _in_directory(path: Path, format: str | None) -> list[Path]:
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.name[0] not in "._"]
    formats_by_file = {file: format_of(file) for file in files}
    formats = {file_format for file_format in formats_by_file.values() if file_format is not None}
    if format is None and len(formats) > 1:
        raise ConfigError(f"{path} has files of several formats, {sorted(formats)}: pass format=")
    if format is None:
        return _not_empty([file for file in files if formats_by_file[file] is not None], path)
    # If no file has a suffix of `format`, the files without a known suffix are read.
    suffix_format = format if format in formats else None
    return _not_empty([file for file in files if formats_by_file[file] == suffix_format], path)


def _not_empty(files: list[Path], path: Path) -> list[Path]:
    if not files:
        raise ConfigError(f"there are no files of data in {path}")
    return files


class Source:
    """The rows of files, one file after another."""

    def __init__(
        self, files: Sequence[FileInfo], readers: Sequence[Reader], context: ReadContext
    ) -> None:
        self.files = list(files)
        self._readers, self._context = list(readers), context
        self._file_index = 0
        self._first_rows: list[int] = []
        """For each file that was read, the number of its first row among the rows of all files."""
        names = self._readers[0].names()
        if not names:
            raise ConfigError(
                f"{self.files[0].path} has no columns: expected {self._readers[0].description} with"
                " at least one"
            )
        context.names = names
        self.names: list[str] = names
        """The names of the columns in the files."""
        for file, reader in zip(self.files[1:], self._readers[1:], strict=True):
            if reader.declares_columns:
                self._check_unchanged(file, reader)

    @property
    def is_csv(self) -> bool:
        """Whether the files are CSV."""
        return isinstance(self._readers[0], CsvFile)

    def schemas(self) -> Iterator[tuple[Path, Any]]:
        """Yields the path of each Parquet or Arrow file, with the Arrow schema of its wanted
        columns.
        """
        for file, reader in zip(self.files, self._readers, strict=True):
            schema = reader.wanted_schema()
            if schema is not None:
                yield file.path, schema

    def objects(self) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """The objects of each file of JSON lines, in lists. Numeric values keep all digits."""
        return (reader.objects() for reader in self._readers if isinstance(reader, JsonLines))

    @property
    def rows(self) -> int | None:
        """The number of rows; `None` if the metadata of a file lacks it."""
        counts = [reader.row_count for reader in self._readers]
        known_counts = [count for count in counts if count is not None]
        return sum(known_counts) if len(known_counts) == len(counts) else None

    def position(self) -> tuple[int, int]:
        """The number of bytes that were read so far, and the number of bytes of all files."""
        total = sum(file.size for file in self.files)
        bytes_before = sum(file.size for file in self.files[: self._file_index])
        is_at_end = self._file_index >= len(self._readers)
        bytes_in_file = 0 if is_at_end else self._readers[self._file_index].bytes_read
        return min(total, bytes_before + bytes_in_file), total

    def batches(
        self,
        skip: Callable[[int, int], bool] | None = None,
        on_unreadable: OnUnreadable | None = None,
        *,
        reads_all: bool = False,
    ) -> Iterator[tuple[int, Any]]:
        """Record batches, each with the number of its first row among the rows of all files.

        The number of a row is the same in each call. `on_unreadable` is called for each unreadable
        row of a text file, before the row's batch is yielded. The cells that cannot be read are
        null in the batch. `skip` is called for each row group and each batch, with the number of
        its first row and how many rows it has. If `skip` returns true, these rows are not yielded.
        Batches of Parquet and Arrow files lack columns that are not wanted, unless `reads_all` is
        true.

        Raises: `EncodeError`, with path and line, for content that cannot be read; `OSError` for a
            file that cannot be opened.
        """
        skip_rows = skip or (lambda first, count: False)
        self._context.on_unreadable, self._context.reads_all = on_unreadable, reads_all
        first = 0
        for number, (file, reader) in enumerate(zip(self.files, self._readers, strict=True)):
            self._file_index = number
            self._first_rows[number : number + 1] = [first]
            reader.bytes_read = 0
            self._check_unchanged(file, reader)
            units = reader.units(first, skip_rows)
            for count, batch in units:
                if batch is not None and count:
                    names = batch.schema.names
                    yield first, batch.select([name for name in self.names if name in names])
                first += count
            reader.bytes_read = file.size
        self._file_index = len(self._readers)

    @property
    def is_quick_to_read_again(self) -> bool:
        """Whether a row can be read again quickly: if all files are Parquet, or are small."""
        is_parquet = all(isinstance(reader, ParquetFile) for reader in self._readers)
        return is_parquet or sum(file.size for file in self.files) <= _MAX_QUICK_BYTES

    def location(self, row: int, *, finds_line: bool) -> tuple[str, str] | None:
        """The file of a row, and the row's line or number in the file; `None` if the row was not
        read.

        `finds_line` says whether a text file is read again to find the line.
        """
        number = bisect_right(self._first_rows, row) - 1
        if number < 0:
            return None
        reader, row_of_file = self._readers[number], row - self._first_rows[number]
        try:
            location = reader.location(row_of_file, finds_line=finds_line)
        except (EncodeError, OSError):
            location = f"row {row_of_file + 1}"
        return str(self.files[number].path), location

    def _check_unchanged(self, file: FileInfo, reader: Reader) -> None:
        """Raises `EncodeError` if a file has changed, or if its columns are not those of the first
        file.
        """
        status = os.stat(file.path)
        if (status.st_size, status.st_mtime_ns) != (file.size, file.modified_ns):
            raise refused(f"{file.path} has changed since it was first read")
        names, first_file_clause = reader.names(), f"and {self.files[0].path} has"
        for name in names:
            if name not in self.names:
                raise refused(f"{file.path} has the column {name!r}, {first_file_clause} not")
        for name in self.names:
            if name not in names:
                raise refused(f"{file.path} has no column {name!r}, {first_file_clause} it")


def open_source(
    paths: Paths,
    *,
    format: str | None = None,
    types: Mapping[str, str | CqlType],
    rename: Mapping[str, str] | None = None,
    csv: CsvOptions | Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    udts: Mapping[str, Any] | None = None,
    selection: Selection = _ALL,
    shows_values: bool = True,
) -> Source:
    """Opens files. They are read in the order of `paths`.

    Arguments: `types` are the types of the table's columns. `rename` maps names of the data to
        names of the table. To read a user-defined type from CSV or JSON lines, its fields must be
        known: from a `CqlType` in `types`, or from `udts`. `names` are the columns of CSV files
        without a header, or of JSON lines whose first lines lack some columns. `selection` says
        which columns are read. `shows_values` says whether errors may quote values.

    Raises: `ConfigError` if there is no file, no known format or no pyarrow; `OSError` for a file
        that cannot be opened; `EncodeError` for a damaged file.
    """
    library()
    if format is not None and format not in READERS:
        raise ConfigError(f"format must be one of {', '.join(READERS)}, got {format!r}")
    sources = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    matches = (path for source in sources for path in _find_files(source, format))
    # A file is read once, even if several of the paths, patterns and directories lead to it.
    file_paths = list(dict.fromkeys(matches))
    if not file_paths:
        raise ConfigError("there are no files to read")
    for path in file_paths:
        if format is None and format_of(path) is None:
            raise ConfigError(f"{path}: {suffix_reason(path)}")
        if not path.is_file():
            raise ConfigError(
                f"{path} is no regular file, and files are read more than once: write its"
                " content to a file first"
            )
    parsed_types: dict[str, CqlType] = {}

    def type_of_column(name: str) -> CqlType | None:
        if name == selection.ttl:
            return CqlType("int")
        if name == selection.write_time or not selection.is_wanted(name):
            return None
        target = (rename or {}).get(name, name)
        if target not in types:
            return None
        if target not in parsed_types:
            parsed_types[target] = parsed(target, types[target], udts)
        return parsed_types[target]

    context = ReadContext(type_of_column, _csv_options(csv), selection, shows_values)
    context.names = None if names is None else list(names)
    files = [FileInfo.of(path) for path in file_paths]
    for file in files:
        if not file.size:
            raise ConfigError(f"{file.path} is empty")
    readers = [READERS[format or format_of(path) or ""](path, context) for path in file_paths]
    return Source(files, readers, context)


def _csv_options(options: CsvOptions | Mapping[str, Any] | None) -> CsvOptions:
    if options is None or isinstance(options, CsvOptions):
        return options or CsvOptions()
    option_names = CsvOptions.__dataclass_fields__
    if not isinstance(options, Mapping):
        raise ConfigError(f"csv must be a dict of {', '.join(option_names)}, got {options!r}")
    for name in options:
        if name not in option_names:
            raise ConfigError(with_nearest(f"csv has no option {name!r}", name, option_names))
    return CsvOptions(**options)
