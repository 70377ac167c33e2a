"""The rows of files, one file after another, whatever their formats."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError
from .binary import ArrowFile, ParquetFile
from .formats import format_of
from .lines import CsvFile, JsonLines
from .reader import CsvOptions, Reader, Unread, What
from .text import library, parsed

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
_EDGE = 64 << 10


@dataclass(frozen=True)
class FileInfo:
    """A file, as checkpoints know it."""

    path: Path
    size: int
    modified_ns: int
    digest: str
    """The SHA-256 of its size and of its first and last 64 KiB."""

    @classmethod
    def of(cls, path: Path) -> FileInfo:
        """The file at a path.

        Raises: `OSError` if it cannot be read.
        """
        with open(path, "rb") as file:
            known = os.fstat(file.fileno())
            made = hashlib.sha256(str(known.st_size).encode() + b"\0")
            made.update(file.read(_EDGE))
            file.seek(max(0, known.st_size - _EDGE))
            made.update(file.read(_EDGE))
        return cls(path, known.st_size, known.st_mtime_ns, made.hexdigest())


def _found(given: str | os.PathLike[str], wanted: str | None) -> list[Path]:
    """The files of a path, of a pattern or of a directory."""
    text = os.fspath(given)
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str or a Path, got {type(text).__name__}")
    path = Path(text)
    if path.is_dir():
        return _in_directory(path, wanted)
    if path.exists() or not glob.has_magic(text):
        if not path.exists():
            raise FileNotFoundError(2, "No such file", text)
        return [path]
    found = [Path(it) for it in sorted(glob.glob(text, recursive=True))]
    found = [it for it in found if it.is_file()]
    if not found:
        raise ConfigError(f"no file matches {text!r}")
    return found


def _in_directory(path: Path, wanted: str | None) -> list[Path]:
    files = [it for it in sorted(path.iterdir()) if it.is_file() and it.name[0] not in "._"]
    known = {it: format_of(it) for it in files}
    formats = {it for it in known.values() if it is not None}
    if wanted is None and len(formats) > 1:
        raise ConfigError(f"{path} has files of several formats, {sorted(formats)}: pass format=")
    if wanted is not None and wanted not in formats:
        # Files with any other suffix are read as the format that is passed.
        return _not_empty([it for it, its in known.items() if its is None], path)
    return _not_empty([it for it, its in known.items() if its in formats & {wanted or its}], path)


def _not_empty(files: list[Path], path: Path) -> list[Path]:
    if not files:
        raise ConfigError(f"there are no files of data in {path}")
    return files


class Source:
    """The rows of files, one file after another."""

    def __init__(self, files: Sequence[FileInfo], readers: Sequence[Reader], what: What) -> None:
        self.files = list(files)
        self._readers, self._what = list(readers), what
        self._at = 0
        names = self._readers[0].names()
        if not names:
            raise ConfigError(f"{self.files[0].path} has no columns")
        what.names = names
        self.names: list[str] = names
        """The columns, with the names that they have in the files."""
        for file, reader in zip(self.files[1:], self._readers[1:], strict=True):
            if reader.has_head:
                self._check(file, reader)

    def schemas(self) -> Iterator[tuple[Path, Any]]:
        """The Arrow schema of each file that has one: of Parquet and of Arrow."""
        for file, reader in zip(self.files, self._readers, strict=True):
            schema = reader.schema()
            if schema is not None:
                yield file.path, schema

    def objects(self) -> Iterator[Iterator[list[dict[str, Any]]]]:
        """The objects of each file of JSON lines, in lists, with the digits of their numbers."""
        return (reader.objects() for reader in self._readers if isinstance(reader, JsonLines))

    @property
    def rows(self) -> int | None:
        """The number of rows, if all files tell it before they are read."""
        counts = [reader.count for reader in self._readers]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def position(self) -> tuple[int, int]:
        """How many bytes of the files are read, and how many they have."""
        total = sum(file.size for file in self.files)
        done = sum(file.size for file in self.files[: self._at])
        now = self._readers[self._at].at if self._at < len(self._readers) else 0
        return min(total, done + now), total

    def batches(
        self, skip: Callable[[int, int], bool] | None = None, unread: Unread | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Record batches, each with the number of its first row among those of all files.

        `unread` takes the rows of text files that cannot be read, before the batch that they are
        in, where their cells are null. Rows have the same numbers in each reading. `skip` is asked
        with the number of the first row and the number of rows, for units of files and for batches
        of them.

        Raises: `EncodeError` for what cannot be read, with path and line; `OSError`.
        """
        asked = skip or (lambda first, count: False)
        self._what.unread = unread
        first = 0
        for number, (file, reader) in enumerate(zip(self.files, self._readers, strict=True)):
            self._at = number
            reader.at = 0
            self._check(file, reader)
            units = reader.units(first, asked)
            for count, batch in units:
                if batch is not None and count:
                    yield first, batch.select(self.names)
                first += count
            reader.at = file.size
        self._at = len(self._readers)

    def _check(self, file: FileInfo, reader: Reader) -> None:
        """Raises `EncodeError` if a file has changed, or has not the columns of the first."""
        known = os.stat(file.path)
        if (known.st_size, known.st_mtime_ns) != (file.size, file.modified_ns):
            raise refused(f"{file.path} has changed since it was first read")
        names, where = reader.names(), f"and {self.files[0].path} has"
        for name in names:
            if name not in self.names:
                raise refused(f"{file.path} has the column {name!r}, {where} not")
        for name in self.names:
            if name not in names:
                raise refused(f"{file.path} has no column {name!r}, {where} it")


def open_source(
    paths: Paths,
    *,
    format: str | None = None,
    types: Mapping[str, str | CqlType],
    rename: Mapping[str, str] | None = None,
    csv: CsvOptions | Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    udts: Mapping[str, Any] | None = None,
) -> Source:
    """The rows of files, in the order of their paths.

    Arguments: `types` are those of the table's columns; `rename` maps names of the data to names of
        the table. User-defined types that CSV or JSON lines have need their fields, in `types` or
        from `udts`. `names` are the columns, for CSV files without a header and for JSON lines
        whose first lines lack some.

    Raises: `ConfigError` if there is no file, no known format or no pyarrow; `OSError` for a file
        that cannot be opened; `EncodeError` for one that is damaged.
    """
    library()
    if format is not None and format not in READERS:
        raise ConfigError(f"format must be one of {', '.join(READERS)}, got {format!r}")
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found = list(dict.fromkeys(path for one in given for path in _found(one, format)))
    if not found:
        raise ConfigError("there are no files to read")
    for path in found:
        if format is None and format_of(path) is None:
            raise ConfigError(f"{path}: the suffix names no format: pass format=")
    parsed_types: dict[str, CqlType] = {}

    def typed(name: str) -> CqlType | None:
        target = (rename or {}).get(name, name)
        if target not in types:
            return None
        if target not in parsed_types:
            parsed_types[target] = parsed(target, types[target], udts)
        return parsed_types[target]

    what = What(typed, _csv_options(csv), None if names is None else list(names))
    files = [FileInfo.of(path) for path in found]
    for file in files:
        if not file.size:
            raise ConfigError(f"{file.path} is empty")
    readers = [READERS[format or format_of(path) or ""](path, what) for path in found]
    return Source(files, readers, what)


def _csv_options(given: CsvOptions | Mapping[str, Any] | None) -> CsvOptions:
    if given is None or isinstance(given, CsvOptions):
        return given or CsvOptions()
    known = CsvOptions.__dataclass_fields__
    for name in given:
        if name not in known:
            raise ConfigError(f"csv has no option {name!r}; it has {', '.join(known)}")
    return CsvOptions(**given)
