"""Live tables in duckdb: a relation whose rows are read from the cluster when a query runs.

This module needs duckdb and pyarrow: `pip install 'turbocql[duckdb]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engines.parts import RELATION_OPTIONS, needed
from .._options import MEANINGS, spelled_out
from .._transfer.scan import DEFAULTS
from ..columns import ColumnTypes
from ..session import Session

if TYPE_CHECKING:
    import duckdb
    from typing_extensions import Unpack

    from .._options import ScanOptions

__all__ = ["scan"]


@spelled_out(RELATION_OPTIONS, MEANINGS["scan"], DEFAULTS)
def scan(
    connection: duckdb.DuckDBPyConnection,
    session: Session,
    table: str,
    /,
    *,
    types: ColumnTypes | None = None,
    **options: Unpack[ScanOptions],
) -> duckdb.DuckDBPyRelation:
    """A table as a relation of duckdb. Each query that uses it reads the table anew.

    A query reads only the columns that it needs. `columns` limits the columns of the relation.
    `where` is a condition in CQL that the server evaluates, with `values` for its bind markers.
    A `WHERE` in duckdb's SQL does not change which rows are read: Arrow evaluates it on this
    machine, for all rows of the scan. The other options are those of
    [`Session.scan`][turbocql.session.Session.scan]. The session must stay open while the relation
    is used.

    Raises: `ConfigError` when there is no such table or column; `RequestError` when the schema
        cannot be read. If reading fails during a query, duckdb raises an error of its own class,
        with the message of turbocql's error.
    """
    needed("duckdb", "duckdb", "pyarrow.dataset")
    from ._dataset import TableDataset

    data = TableDataset(session, table, types=types, **options)
    return connection.from_arrow(data)
