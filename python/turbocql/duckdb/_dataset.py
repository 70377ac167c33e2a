"""A table as a data set of pyarrow: duckdb scans it with a list of columns and a filter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from .._checks import shown, with_nearest
from .._cql.names import qualified
from .._engines.parts import RELATION_OPTIONS, check_columns, schema_of
from .._options import ScanOptions
from .._transfer.scan import Scan
from ..columns import ColumnTypes
from ..errors import ConfigError
from ..session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["TableDataset"]

_BATCH_ROWS = 2048
"""The number of rows in a vector of duckdb."""


class TableDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A table as a data set of pyarrow. It implements only `schema` and `scanner`, because duckdb
    uses no other members of a data set. duckdb calls `scanner` with columns and a filter.

    The options are those of `turbocql.duckdb.scan`.
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
        # pyarrow's class has no constructor, so there is no C++ object behind a `TableDataset`.
        # `schema` and `scanner` replace pyarrow's, which read the C++ object.
        if not isinstance(session, Session):
            raise TypeError(f"session must be a Session, got {shown(session)}")
        for name in options:
            if name not in RELATION_OPTIONS:
                problem = f"a relation has no option {name!r}"
                raise TypeError(with_nearest(problem, name, RELATION_OPTIONS))
        check_columns(options.get("columns"))
        qualified_name = Scan(table, session.keyspace, options).keyspace_and_table
        self._session, self._qualified_name = session, qualified_name
        self._types = types or ColumnTypes()
        self._options: dict[str, Any] = {**options}
        self._own_schema = schema_of(session, qualified_name, options, self._types)

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
        """A scan that returns `columns` of the rows that pass `filter`, a pyarrow expression."""
        names = self._own_schema.names
        result_columns = names if columns is None else list(columns)
        for name in result_columns:
            if name not in names:
                raise ConfigError(f"there is no column {name!r}; there are {', '.join(names)}")
        scanned_columns = [name for name in names if name in result_columns] or names[:1]
        if filter is not None:
            # An expression cannot list the columns that it uses. So a column is also read if the
            # expression's text contains the column's name. If the name has characters other than
            # letters, digits and `_`, the text may contain it in quotes and in another form. So
            # such a column is always read.
            filter_text = str(filter)
            scanned_columns = [
                name
                for name in names
                if name in scanned_columns or name in filter_text or not _is_plain(name)
            ]
        rows = self._session.scan(
            qualified(*self._qualified_name), **{**self._options, "columns": scanned_columns}
        )
        batches = rows.batches(rows_per_batch=_BATCH_ROWS, types=self._types)
        reader = pa.RecordBatchReader.from_stream(batches)
        scanner_options = {
            name: value for name, value in options.items() if name in _SCANNER_OPTIONS
        }
        # With a longer readahead, a query with a limit would read batches that it does not use.
        scanner_options.setdefault("batch_readahead", 1)
        return pyarrow.dataset.Scanner.from_batches(
            reader, columns=result_columns, filter=filter, **scanner_options
        )

    def __reduce__(self) -> Any:
        raise TypeError("a TableDataset has an open session: it cannot be pickled")

    def __repr__(self) -> str:
        return f"<TableDataset {'.'.join(self._qualified_name)}>"


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"\w+", name, re.ASCII) is not None


_SCANNER_OPTIONS = ("batch_size", "batch_readahead", "use_threads", "memory_pool")
