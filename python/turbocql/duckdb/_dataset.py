"""A table as a data set of pyarrow, of which duckdb asks columns and filters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from .._checks import shown
from .._cql.names import qualified
from .._engines.parts import check_columns, schema_of
from .._options import ScanOptions
from .._transfer.scan import Scan
from ..columns import ColumnTypes
from ..errors import ConfigError
from ..session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["TableDataset"]

_BATCH_ROWS = 2048
"""Those of duckdb's own."""
_FORMS = ("rows", "row", "split")


class TableDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A table as a data set of pyarrow: what has `schema` and `scanner`, for consumers that ask for
    columns and filters, such as duckdb.

    The options are those of `scan`.
    """

    def __init__(
        self,
        session: Session,
        table: str,
        /,
        *,
        types: ColumnTypes | None = None,
        **options: Unpack[ScanOptions],
    ) -> None:
        # The class of pyarrow has no constructor. Whoever derives from it overrides what would read
        # its C++ object, which is not there.
        if not isinstance(session, Session):
            raise TypeError(f"session must be a Session, got {shown(session)}")
        for name in _FORMS:
            if name in options:
                raise TypeError(f"a relation has no option {name!r}")
        check_columns(options.get("columns"))
        place = Scan(table, session.keyspace, options).place
        self._session, self._place, self._types = session, place, types or ColumnTypes()
        self._options: dict[str, Any] = {**options}
        self._own_schema = schema_of(session, place, options, self._types)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._own_schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        **options: Any,
    ) -> pyarrow.dataset.Scanner:
        """A scan of these columns, with the rows that pass a filter of pyarrow."""
        names = self._own_schema.names
        wanted = names if columns is None else list(columns)
        for name in wanted:
            if name not in names:
                raise ConfigError(f"there is no column {name!r}; there are {', '.join(names)}")
        read = [name for name in names if name in wanted] or names[:1]
        if filter is not None:
            # An expression does not tell its columns, but its text has their names, plain ones as
            # they are.
            said = str(filter)
            read = [it for it in names if it in read or it in said or not _is_plain(it)]
        rows = self._session.scan(qualified(*self._place), **{**self._options, "columns": read})
        batches = rows.batches(rows_per_batch=_BATCH_ROWS, types=self._types)
        reader = pa.RecordBatchReader.from_stream(batches)
        known = {name: value for name, value in options.items() if name in _SCANNER_OPTIONS}
        # A query with a limit would read so many batches in vain.
        known.setdefault("batch_readahead", 1)
        return pyarrow.dataset.Scanner.from_batches(reader, columns=wanted, filter=filter, **known)

    def __reduce__(self) -> Any:
        raise TypeError("a TableDataset has an open session: it cannot be pickled")

    def __repr__(self) -> str:
        return f"<TableDataset {'.'.join(self._place)}>"


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"\w+", name, re.ASCII) is not None


_SCANNER_OPTIONS = ("batch_size", "batch_readahead", "use_threads", "memory_pool")
