"""What a load knows of its table: how it writes nothing twice, and whose fault an error is.

A server gives each element of a list that is not frozen an id of its own, at each INSERT. So a list
that is written twice with one write time has its elements twice. One that is written later replaces
the earlier.
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
_SPREAD = 1_000_000
_SAI = ("StorageAttachedIndex", "sai")


class JobTime(int):
    """The write time of a job whose tasks may run again. Where lists are written that are not
    frozen, each run of a task has later times of its own.
    """

    __slots__ = ()


class Care:
    """The columns that a load writes, by what is special about them."""

    def __init__(
        self, place: tuple[str, str], table: Sequence[tuple[str, str, str]], written: Sequence[str]
    ) -> None:
        """`table` has name, kind and CQL type of the table's columns, `written` the names of those
        that are written.
        """
        kinds = {name: kind for name, kind, _ in table}
        types = {name: cql_type for name, _, cql_type in table}
        self._place = place
        self._lists = [name for name in written if types[name].startswith("list<")]
        self._statics = [name for name in written if kinds[name] == "static"]
        self._vectors = [name for name in written if types[name].startswith("vector<float")]
        self._partition_key = [name for name in written if kinds[name] == "partition_key"]
        clustering = [name for name in written if kinds[name] == "clustering"]
        self._key = [*self._partition_key, *clustering]
        own = [name for name in self._lists if name not in self._statics]
        shared = [name for name in self._lists if name in self._statics]
        self._reads = [(self._key, own), (self._partition_key, shared)]
        self._reads = [(key, lists) for key, lists in self._reads if lists]

    @property
    def has_lists(self) -> bool:
        """Whether lists are written that are not frozen."""
        return bool(self._lists)

    @property
    def has_vectors(self) -> bool:
        """Whether vectors are written that may have an index."""
        return bool(self._vectors)

    def questions(self, timestamp: int | str | None) -> list[str]:
        """The statements that read the lists and their write times, where these must be known."""
        if timestamp is None or isinstance(timestamp, JobTime):
            return []
        return [
            f"SELECT {', '.join(f'{quoted(it)}, WRITETIME({quoted(it)})' for it in lists)}"
            f" FROM {qualified(*self._place)} WHERE {_where(key)} LIMIT 1"
            for key, lists in self._reads
        ]

    def cannot_tell(self, error: RequestError) -> ConfigError:
        """The error for a server that does not know the write times of lists."""
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
        """The same for the core. `reads` are the statements of `questions`, `indexes` the answer to
        `INDEXES`, `now_ms` that to `NOW`.
        """
        counted, chosen = None, None
        if isinstance(timestamp, JobTime):
            now = 1000 * (now_ms or 0)
            # Where two runs begin in one millisecond, or the job's clock is ahead of the cluster's.
            later = now + secrets.randbelow(1000) if now > timestamp else None
            counted = later or int(timestamp) + secrets.randbelow(_SPREAD)
        elif reads:
            pairs = zip(reads, self._reads, strict=True)
            constant = None if isinstance(timestamp, str) else timestamp
            chosen = (constant, [(read, key, lists) for read, (key, lists) in pairs])
        return _core.Care(
            self._lists,
            self._statics,
            self._partition_key if self._statics else self._key,
            self.has_lists,
            counted if self._lists else None,
            chosen,
            [it for it in map(self._indexed, indexes) if it is not None],
            (
                f"SELECT {quoted(self._partition_key[0])} FROM {qualified(*self._place)}"
                f" WHERE {_where(self._partition_key)} LIMIT 1",
                self._partition_key,
            ),
        )

    def _indexed(self, index: tuple[str, Mapping[str, str]]) -> tuple[str, str, bool] | None:
        """The column of an index of vectors, its name, and whether it compares by angles."""
        name, options = index
        target = options.get("target", "").strip('"')
        if target not in self._vectors or options.get("class_name", "").split(".")[-1] not in _SAI:
            return None
        function: Any = options.get("similarity_function", "cosine")
        return target, name, function.lower() == "cosine"


def _where(key: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name in key)
