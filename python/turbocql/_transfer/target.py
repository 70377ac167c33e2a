"""The columns of a loaded table that need special care, such as lists that are not frozen.

At each INSERT, a server assigns new ids to the elements of a list that is not frozen. So a list
that is written twice with the same write time has its elements twice. A list that is written with a
later write time replaces the earlier list.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from .._cql.names import qualified, quoted
from ..errors import ConfigError, RequestError
from ..statements import Prepared

__all__ = ["INDEXES", "NOW", "Care", "JobTime"]

INDEXES = (
    "SELECT index_name, options FROM system_schema.indexes"
    " WHERE keyspace_name = ? AND table_name = ?"
)
NOW = "SELECT toUnixTimestamp(now()) FROM system.local"
_MAX_OFFSET_US = 1_000_000
_SAI_CLASSES = ("StorageAttachedIndex", "sai")


class JobTime(int):
    """The write time of a job whose tasks may run again.

    If the job writes lists that are not frozen, no two runs of a task use the same write times. The
    write times of a run begin shortly after the cluster's time at the start of the run, or shortly
    after the job's write time if it is later. So the lists of one run replace the lists of another,
    and no element is stored twice.
    """

    __slots__ = ()


class Care:
    """The columns that a load writes, by kind: unfrozen lists, static columns, vectors, the key."""

    def __init__(
        self,
        keyspace_and_table: tuple[str, str],
        table: Sequence[tuple[str, str, str]],
        written_columns: Sequence[str],
    ) -> None:
        """`table` has the name, the kind and the CQL type of each column of the table.
        `written_columns` are the names of the columns that the load writes.
        """
        kinds = {name: kind for name, kind, _ in table}
        types = {name: cql_type for name, _, cql_type in table}
        self._keyspace_and_table = keyspace_and_table
        self._lists = [name for name in written_columns if types[name].startswith("list<")]
        self._statics = [name for name in written_columns if kinds[name] == "static"]
        self._vectors = [name for name in written_columns if types[name].startswith("vector<float")]
        self._partition_key = [name for name in written_columns if kinds[name] == "partition_key"]
        clustering = [name for name in written_columns if kinds[name] == "clustering"]
        self._key = [*self._partition_key, *clustering]
        row_lists = [name for name in self._lists if name not in self._statics]
        static_lists = [name for name in self._lists if name in self._statics]
        self._reads = [(self._key, row_lists), (self._partition_key, static_lists)]
        self._reads = [(key, lists) for key, lists in self._reads if lists]

    @property
    def has_lists(self) -> bool:
        """Whether the load writes lists that are not frozen."""
        return bool(self._lists)

    @property
    def has_vectors(self) -> bool:
        """Whether the load writes vectors, which may have an index."""
        return bool(self._vectors)

    def list_read_statements(self, timestamp: int | str | None) -> list[str]:
        """The statements that read stored lists and their write times; empty if none is needed."""
        if timestamp is None or isinstance(timestamp, JobTime):
            return []
        return [
            f"SELECT {', '.join(f'{quoted(name)}, WRITETIME({quoted(name)})' for name in lists)}"
            f" FROM {qualified(*self._keyspace_and_table)} WHERE {_key_condition(key)} LIMIT 1"
            for key, lists in self._reads
        ]

    def write_time_error(self, error: RequestError) -> ConfigError:
        """Makes the error for a server that does not return the write times of lists."""
        names = ", ".join(f'"{name}"' for name in self._lists)
        are = "is a list that is" if len(self._lists) == 1 else "are lists that are"
        return ConfigError(
            f"timestamp: column {names} {are} not frozen. A list that is written twice with one"
            " write time has its elements twice, and this server does not tell the write times of"
            " lists, as Cassandra from 5.0 does. Leave the column out by columns=; load into a"
            " table where it is a frozen list; or load without timestamp, which replaces what"
            f" others write meanwhile. The server says: {error}"
        )

    def native(
        self,
        timestamp: int | str | None,
        now_ms: int | None,
        reads: Sequence[Prepared],
        indexes: Sequence[tuple[str, Mapping[str, str]]],
    ) -> _core.Care:
        """The native `Care`. `reads` are the prepared `list_read_statements`, `indexes` are the
        rows that `INDEXES` returns, and `now_ms` is the time that `NOW` returns.
        """
        first_write_time, list_reads = None, None
        if isinstance(timestamp, JobTime):
            cluster_time = 1000 * (now_ms or 0)
            # Random offsets keep write times apart if two runs begin in the same millisecond, or
            # if the job's clock is ahead of the cluster's.
            if cluster_time > timestamp:
                first_write_time = cluster_time + secrets.randbelow(1000)
            else:
                first_write_time = int(timestamp) + secrets.randbelow(_MAX_OFFSET_US)
        elif reads:
            constant_timestamp = None if isinstance(timestamp, str) else timestamp
            statements = zip(reads, self._reads, strict=True)
            reads_with_columns = [(read, key, lists) for read, (key, lists) in statements]
            list_reads = (constant_timestamp, reads_with_columns)
        table_name = qualified(*self._keyspace_and_table)
        return _core.Care(
            self._lists,
            self._statics,
            self._partition_key if self._statics else self._key,
            self.has_lists,
            first_write_time if self._lists else None,
            list_reads,
            [index for index in map(self._indexed, indexes) if index is not None],
            (
                f"SELECT {quoted(self._partition_key[0])} FROM {table_name}"
                f" WHERE {_key_condition(self._partition_key)} LIMIT 1",
                self._partition_key,
            ),
        )

    def _indexed(self, index: tuple[str, Mapping[str, str]]) -> tuple[str, str, bool] | None:
        """Returns the column and the name of a vector index, and whether it compares by cosine.

        Returns `None` for an index that is not a vector index.
        """
        name, options = index
        target = options.get("target", "").strip('"')
        index_class = options.get("class_name", "").split(".")[-1]
        if target not in self._vectors or index_class not in _SAI_CLASSES:
            return None
        similarity: Any = options.get("similarity_function", "cosine")
        return target, name, similarity.lower() == "cosine"


def _key_condition(key: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name in key)
