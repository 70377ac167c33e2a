"""What the sync and the async session have in common: how calls become native operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from . import _core
from ._checks import check_int
from ._options import ExecuteOptions, StatementOptions, pack
from ._schema_read import PAGE_SIZE
from .cluster import Metrics, Node, Replica, _metrics, _node
from .config import Config
from .errors import ConfigError
from .policies import Consistency
from .schema import Schema
from .security import _unseen
from .statements import Bound, Prepared, Query, Values

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Face:
    """Starts operations; the faces say how to end them."""

    __slots__ = ("_config", "_core", "_schema")

    def __init__(self, core: _core.Session, config: Config) -> None:
        self._core = core
        self._config = config
        self._schema: Schema | None = None
        """As it was read last. Whole schemas take each other's place, so it needs no lock."""

    @property
    def config(self) -> Config:
        """The session's settings."""
        return self._config

    @property
    def keyspace(self) -> str | None:
        """The keyspace of unqualified table names."""
        return self._core.keyspace

    @property
    def closed(self) -> bool:
        """Whether the session has been closed."""
        return self._core.closed

    @property
    def in_flight(self) -> int:
        """What is on its way: requests, and each `execute_many` as one."""
        return self._core.in_flight

    @property
    def prepared(self) -> tuple[Prepared, ...]:
        """The statements kept prepared, the most recently used first: at most
        `Config.prepared_cache_size`.
        """
        return tuple(self._core.prepared)

    def forget_prepared(self) -> None:
        """Forgets the statements kept prepared: each is prepared anew when it is next used.

        The session does so by itself when it changes the schema, and the server says when it has
        forgotten one.
        """
        self._core.forget_prepared()

    @property
    def cluster_name(self) -> str:
        """What the cluster calls itself."""
        return self._core.cluster_name

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the cluster, by address, as the session knows them now."""
        return tuple(_node(entry) for entry in self._core.nodes())

    def replicas(self, bound: Bound) -> tuple[Replica, ...]:
        """Where the rows are that a bound statement is about.

        Raises: `ConfigError` when the statement does not bind the whole partition key.
        """
        if not isinstance(bound, Bound):
            got = type(bound).__name__
            raise TypeError(f"replicas are those of a Bound, of Prepared.bind(values); got {got}")
        token, columns = bound.token, bound.prepared.markers
        if token is None or not columns:
            raise ConfigError(f"{bound!r} does not bind the whole partition key")
        nodes = {node.host_id: node for node in self.nodes}
        found = self._core.replicas(columns[0][0], columns[0][1], token)
        # A node may have left between the two looks.
        places = [(nodes.get(UUID(bytes=host_id)), shard) for host_id, shard in found]
        return tuple(
            Replica(node, None if node.shards is None else shard)
            for node, shard in places
            if node is not None
        )

    def metrics(self) -> Metrics:
        """What the engine has counted since the session was opened."""
        return _metrics(self._core.metrics())

    def register_type(
        self, name: str, made: Callable[..., Any] | None, *, keyspace: str | None = None
    ) -> None:
        """Has values of a user-defined type made into objects of a class when they are read.

        `name` is the type's, as the schema has it. Dataclasses, named tuples and classes of attrs,
        msgspec and pydantic get the fields by their names, any other callable as keyword
        arguments; `None` goes back to named tuples. Where a value has to be hashable, in a set or
        as a key of a map, and the object is not, the named tuple stays. Objects of such classes
        are written without being registered.

        Raises: `ConfigError` without a keyspace when the session uses none.
        """
        keyspace = self.keyspace if keyspace is None else keyspace
        if keyspace is None:
            raise ConfigError(f"the type {name!r}: give its keyspace, for the session uses none")
        if made is not None and not callable(made):
            raise TypeError(f"expected a class or another callable, got {made!r}")
        self._core.register_type(keyspace, name, made)

    def __repr__(self) -> str:
        points = ", ".join(self._config.contact_points)
        state = "closed" if self.closed else "open"
        return f"<{type(self).__module__}.{type(self).__name__} {points} {state}>"

    def _execute_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values],
        concurrency: int,
        max_failures: int,
        results: bool,
        **options: Unpack[StatementOptions],
    ) -> _core.Op:
        self._check_many(concurrency, max_failures)
        packed = pack(**options)
        return self._core.execute_many(
            statement, rows, concurrency, max_failures, bool(results), packed
        )

    @staticmethod
    def _check_many(concurrency: int, max_failures: int) -> None:
        check_int("concurrency", concurrency, 1, 32_768)
        check_int("max_failures", max_failures, 0, 2**31 - 1)

    def _look(self, query: str) -> _core.Op:
        """Begins a query of the system's tables: rows as dicts, from whichever node is asked."""
        options = ExecuteOptions(
            consistency=Consistency.LOCAL_ONE, page_size=PAGE_SIZE, idempotent=True, rows="dict"
        )
        return self._core.execute(query, None, options)


@_unseen
def configure(contact_points: Any, config: Config | None, settings: dict[str, Any]) -> Config:
    """The configuration that `connect` was given, in either form."""
    if config is not None and not isinstance(config, Config):
        # Not shown: a URL in its place has a password in it, most likely.
        raise ConfigError(
            f"config must be a Config, got {type(config).__name__}; a URL is the first argument, or"
            " for Config.from_url(url)"
        )
    if config is not None:
        if contact_points is not None or settings:
            raise ConfigError("give a Config or single settings, not both")
        return config
    is_url = isinstance(contact_points, str) and "://" in contact_points
    if contact_points is not None and not is_url:
        settings["contact_points"] = contact_points
    unknown = settings.keys() - Config.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(Config.__dataclass_fields__)
        raise TypeError(f"unknown setting {sorted(unknown)[0]!r}; the settings are {known}")
    return Config.from_url(contact_points, **settings) if is_url else Config(**settings)
