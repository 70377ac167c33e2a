"""The base class of the readers of files, and their settings. A reader reads one file, of Parquet,
Arrow IPC, CSV or JSON lines, in bounded memory.
"""

from __future__ import annotations

import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError, EncodeError
from .from_text import INTEGERS, library
from .reasons import HIDDEN, format_reason, shown, utf_8_reason

__all__ = [
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "CsvOptions",
    "FileErrors",
    "OnUnreadable",
    "ReadContext",
    "Reader",
    "Selection",
    "Skip",
    "Unit",
    "inner_fields",
]

_WITHOUT_POINT = (
    ': write it without a point, in pandas after astype("Int64"), or make the column a double'
)
MAX_BATCH_ROWS = 65_536
MAX_BATCH_BYTES = 4 << 20
"""The largest size of a batch. A single row may be larger."""

Skip = Callable[[int, int], bool]
"""A function that returns whether a range of rows is skipped. Its arguments are the number of the
first row, and the number of rows in the range."""
Unit = tuple[int, Any]
"""A number of rows, and the record batch with these rows. If the rows are skipped, the record batch
is `None`."""


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are written: what separates cells, and how nulls and quotes are written."""

    delimiter: str = ","
    header: bool = True
    """Whether the first line has the names of the columns."""
    null: str = ""
    """The text of a null cell. A cell with this text in quotes is not null."""
    names: tuple[str, ...] | None = None
    """The names of the columns, if the files have no header."""
    escape: str | None = None
    """The character that escapes a quote within a cell: a backslash in files of cqlsh and dsbulk;
    `None` if a quote within a cell is written twice."""

    def __post_init__(self) -> None:
        is_character = isinstance(self.delimiter, str) and len(self.delimiter) == 1
        if not is_character or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ConfigError(f"delimiter must be one ASCII character, got {self.delimiter!r}")
        if self.escape == '"':
            object.__setattr__(self, "escape", None)
        if self.escape is not None:
            is_character = isinstance(self.escape, str) and len(self.escape) == 1
            if (
                not is_character
                or not self.escape.isascii()
                or self.escape in f"{self.delimiter}\r\n"
            ):
                raise ConfigError(
                    "escape must be one ASCII character, and not the delimiter, got"
                    f" {self.escape!r}"
                )
        if not isinstance(self.header, bool):
            raise ConfigError(f"header must be a bool, got {self.header!r}")
        if not isinstance(self.null, str):
            raise ConfigError(f"null must be a str, got {self.null!r}")
        if self.names is not None:
            is_list = isinstance(self.names, Iterable) and not isinstance(self.names, str)
            if not is_list or not all(isinstance(name, str) for name in self.names):
                raise ConfigError(f"names must be a list of str, got {self.names!r}")
            object.__setattr__(self, "names", tuple(self.names))


def _all_wanted(name: str) -> bool:
    return True


class Selection(NamedTuple):
    """Which columns of the data are read."""

    is_wanted: Callable[[str], bool] = _all_wanted
    """Returns whether a column is read. The content of any other column does not matter."""
    ttl: str | None = None
    """The column of the data that has the TTL of each row; `None` if there is no such column. It is
    also `None` if the load writes this column to the table too, because its values then have the
    type of the table's column."""
    write_time: str | None = None
    """Like `ttl`, for the write time of each row."""


OnUnreadable = Callable[[int, EncodeError, Any], None]
"""A function for a row that cannot be read. Its arguments are the row's number, the error, and the
row's content in the file."""


@dataclass
class ReadContext:
    """The settings that the readers of all files share."""

    type_of_column: Callable[[str], CqlType | None]
    """Returns the type of a column of the data; `None` for write times, for a column that is not
    wanted, and for a column that the table lacks."""
    csv: CsvOptions
    selection: Selection
    shows_values: bool = True
    """Whether errors may quote values."""
    reads_all: bool = False
    """Whether columns that are not wanted are read too. In files without types (CSV and JSON
    lines), all columns are always read."""
    names: list[str] | None = None
    """The names of the columns, which are the same in all files. Before the first file is opened,
    this is the caller's list of names, or `None`."""
    on_unreadable: OnUnreadable | None = None
    """The function to call for a row that cannot be read. If it is `None`, the error of such a row
    is raised."""


def inner_fields(arrow_type: Any) -> list[Any]:
    """The child fields of an Arrow type, such as the fields of a struct."""
    pa = library()
    if isinstance(arrow_type, pa.BaseExtensionType):
        return [pa.field("", arrow_type.storage_type)]
    if pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
        return [pa.field("", arrow_type.value_type)]
    return [arrow_type.field(number) for number in range(arrow_type.num_fields)]


class Reader(ABC):
    """A reader of one file.

    `bytes_read` is the number of the file's bytes up to the last row that was yielded. `row_count`
    is the number of the file's rows, if the file's metadata has it.
    """

    description: str
    """The format's name, for errors."""
    declares_columns = True
    """Whether the file names its columns before its rows."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self.path, self.context = path, context
        self.bytes_read = 0
        self.row_count: int | None = None

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns."""

    def wanted_schema(self) -> Any:
        """The Arrow schema of the wanted columns; `None` for formats without types."""
        return None

    @abstractmethod
    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        """The rows of the file. `first` is the number of the file's first row among the rows of all
        files.
        """

    def location(self, row: int, *, finds_line: bool) -> str:
        """Where a row of the file is, in words. `row` is counted from 0. `finds_line` says whether
        a text file is read again to find the line.
        """
        return f"row {row} (the first is 0)"

    def open_bytes(self) -> tuple[BinaryIO, BinaryIO]:
        """Opens a text file. Returns a stream of its decompressed bytes, and the file itself.

        Raises: `EncodeError` for a file of another format.
        """
        raw_file = open(self.path, "rb")  # noqa: SIM115
        file: Any = raw_file
        try:
            # A file that contains only the first byte of gzip's two magic bytes was cut off.
            if raw_file.peek(2)[:2] in (b"\x1f\x8b", b"\x1f"):
                file = gzip.GzipFile(fileobj=raw_file)
            with FileErrors(self):
                reason = format_reason(file.peek(8)[:8], self.description)
            if reason is not None:
                raise self.file_error(reason)
        except BaseException:
            raw_file.close()
            raise
        return file, raw_file

    def file_error(self, reason: object) -> EncodeError:
        """An `EncodeError` that names the file. The caller raises it."""
        one_line = " ".join(str(reason).split())
        return refused(f"{self.path}: {one_line}")

    def cell_error(
        self, location: str, name: str, cql_type: CqlType | None, error: Exception, cell: Any
    ) -> EncodeError:
        """The `EncodeError` for a cell that cannot be read. The caller raises it.

        `cql_type` is `None` for a write time.
        """
        shows_values = self.context.shows_values
        expected = "a write time" if cql_type is None else f"a value of {cql_type}"
        reason = f"expected {expected}, got one that is none ({HIDDEN})"
        if shows_values:
            is_integer = cql_type is not None and cql_type.kind in INTEGERS
            has_point = is_integer and re.fullmatch(r"'?[-+]?[0-9]+\.0*'?", shown(cell)) is not None
            reason = f"{error}; got {shown(cell)}{_WITHOUT_POINT if has_point else ''}"
        cell_error = self.file_error(f'{location}, column "{name}": {reason}')
        cell_error.__cause__ = error if shows_values else None
        return cell_error

    def report_unreadable(self, row: int, error: EncodeError, raw: Any) -> None:
        """Passes an unreadable row to the callback of the context.

        Raises: the error, if the context has no callback.
        """
        if self.context.on_unreadable is None:
            raise error
        self.context.on_unreadable(row, error, raw)

    def checked_names(self, names: list[str]) -> list[str]:
        """Returns `names`.

        Raises: `EncodeError` if two names are equal.
        """
        for name in names:
            if names.count(name) > 1:
                raise self.file_error(f"two columns are called {name!r}")
        return names

    def split_batch(self, batch: Any, first: int, skip: Skip) -> Iterator[Unit]:
        """Yields a batch in parts of limited size."""
        begin = 0
        if not batch.num_rows:
            # For some empty batches, pyarrow would crash when it counts their bytes.
            return
        row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
        max_rows = max(1, min(MAX_BATCH_ROWS, MAX_BATCH_BYTES // row_bytes))
        while begin < batch.num_rows:
            count = min(max_rows, batch.num_rows - begin)
            part = None if skip(first + begin, count) else batch.slice(begin, count)
            yield count, part
            begin += count


class FileErrors:
    """A context manager that converts errors of pyarrow to errors that name the file."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None or isinstance(error, EncodeError):
            return
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None:
                error.filename = str(self._reader.path)
            return
        arrow_error = library().ArrowException
        if isinstance(error, UnicodeError):
            raise self._reader.file_error(f"a name of a column: {utf_8_reason(error)}") from error
        if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
            raise self._reader.file_error(
                f"the compressed data was cut off, or is damaged: {error}"
            ) from error
        if isinstance(error, KeyError) and str(error).isdigit():
            reason = f"a column has a type that pyarrow does not read: the number {error} of Arrow"
            raise self._reader.file_error(reason) from error
        if isinstance(
            error,
            (arrow_error, OSError, ValueError, KeyError),
        ):
            raise self._reader.file_error(
                f"expected {self._reader.description}, complete and undamaged: {error}"
            ) from error
