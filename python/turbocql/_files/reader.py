"""Readers of one file each: Parquet, Arrow IPC, CSV and JSON lines, in bounded memory."""

from __future__ import annotations

import gzip
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .._columns.pieces import refused
from .._core import CqlType
from ..errors import ConfigError, EncodeError
from .text import library

__all__ = [
    "BYTES",
    "ROWS",
    "CsvOptions",
    "Guarded",
    "Reader",
    "Skip",
    "Unit",
    "Unread",
    "What",
    "inner_fields",
]

ROWS = 65_536
BYTES = 4 << 20
"""No batch is larger, unless a row is."""

Skip = Callable[[int, int], bool]
Unit = tuple[int, Any]
"""A number of rows, and the record batch of them; `None` for those that were skipped."""


@dataclass(frozen=True)
class CsvOptions:
    """How files of CSV are written."""

    delimiter: str = ","
    header: bool = True
    """Whether the first line has the names of the columns."""
    null: str = ""
    """The text of a cell that is null, unless it is in quotes."""
    names: tuple[str, ...] | None = None
    """The columns of files without a header."""
    escape: str | None = None
    """The character before a quote within a cell, a backslash in files of cqlsh and dsbulk. Without
    it, such a quote is written twice."""

    def __post_init__(self) -> None:
        is_one = isinstance(self.delimiter, str) and len(self.delimiter) == 1
        if not is_one or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ConfigError(f"delimiter must be one ASCII character, got {self.delimiter!r}")
        if self.escape == '"':
            object.__setattr__(self, "escape", None)
        if self.escape is not None:
            is_one = isinstance(self.escape, str) and len(self.escape) == 1
            if not is_one or not self.escape.isascii() or self.escape in f"{self.delimiter}\r\n":
                raise ConfigError(
                    "escape must be one ASCII character, and not the delimiter, got"
                    f" {self.escape!r}"
                )
        if not isinstance(self.header, bool):
            raise ConfigError(f"header must be a bool, got {self.header!r}")
        if not isinstance(self.null, str):
            raise ConfigError(f"null must be a str, got {self.null!r}")
        if self.names is not None:
            if isinstance(self.names, str) or not all(isinstance(it, str) for it in self.names):
                raise ConfigError("names must be a list of str")
            object.__setattr__(self, "names", tuple(self.names))


Unread = Callable[[int, EncodeError, Any], None]
"""Takes a row that cannot be read: its number, the error, and what the file has of it."""


@dataclass
class What:
    """What the readers of all files share."""

    typed: Callable[[str], CqlType | None]
    """The type of a column of the data; `None` if the table has no such column."""
    csv: CsvOptions
    names: list[str] | None = None
    """The columns of all files, once they are known."""
    unread: Unread | None = None
    """Without it, a row that cannot be read is an error of the file."""


def inner_fields(kind: Any) -> list[Any]:
    """The fields within an Arrow type."""
    pa = library()
    if isinstance(kind, pa.BaseExtensionType):
        return [pa.field("", kind.storage_type)]
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return [pa.field("", kind.value_type)]
    return [kind.field(number) for number in range(kind.num_fields)]


class Reader(ABC):
    """A file. `at` is how many of its bytes have the rows that were handed on, `count` the number
    of its rows, if the file tells it.
    """

    has_head = True
    """Whether the file tells its columns before its rows."""

    def __init__(self, path: Path, what: What) -> None:
        self.path, self.what = path, what
        self.at = 0
        self.count: int | None = None

    @abstractmethod
    def names(self) -> list[str]:
        """The columns."""

    def schema(self) -> Any:
        """The Arrow schema; `None` for formats without types."""
        return None

    @abstractmethod
    def units(self, first: int, skip: Skip) -> Iterator[Unit]:
        """The rows, of which the first has the number `first` among those of all files."""

    def bytes(self) -> tuple[BinaryIO, BinaryIO]:
        """The bytes of the file, decompressed; and the file itself."""
        plain = open(self.path, "rb")  # noqa: SIM115
        # One byte of the two is a file that was cut off.
        if plain.peek(2)[:2] not in (b"\x1f\x8b", b"\x1f"):
            return plain, plain
        return gzip.GzipFile(fileobj=plain), plain  # type: ignore[return-value]

    def wrong(self, reason: object) -> EncodeError:
        """The error for a file that cannot be read."""
        said = " ".join(str(reason).split())
        return refused(f"{self.path}: {said}")

    def unread(self, row: int, error: EncodeError, raw: Any) -> None:
        """Tells of a row that cannot be read.

        Raises: the error, if nobody wants to know of single rows.
        """
        if self.what.unread is None:
            raise error
        self.what.unread(row, error, raw)

    def checked(self, names: list[str]) -> list[str]:
        for name in names:
            if names.count(name) > 1:
                raise self.wrong(f"two columns are called {name!r}")
        return names

    def cut(self, batch: Any, first: int, skip: Skip) -> Iterator[Unit]:
        """A batch in pieces of limited size."""
        begin = 0
        if not batch.num_rows:
            # pyarrow crashes when it counts the bytes of some.
            return
        width = max(1, batch.nbytes // max(1, batch.num_rows))
        most = max(1, min(ROWS, BYTES // width))
        while begin < batch.num_rows:
            count = min(most, batch.num_rows - begin)
            part = None if skip(first + begin, count) else batch.slice(begin, count)
            yield count, part
            begin += count


class Guarded:
    """Turns errors of pyarrow into those that name the file."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None or isinstance(error, EncodeError):
            return
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None:
                error.filename = str(self._reader.path)
            return
        arrow = library().ArrowException
        if isinstance(error, KeyError) and str(error).isdigit():
            reason = f"a column has a type that pyarrow does not read: the number {error} of Arrow"
            raise self._reader.wrong(reason) from error
        if isinstance(
            error, (arrow, OSError, EOFError, UnicodeError, ValueError, KeyError, zlib.error)
        ):
            raise self._reader.wrong(error) from error
