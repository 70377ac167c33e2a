"""The base class of both kinds of session. Its methods turn calls into native operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from .. import _core
from .._checks import address, advise, check_int, check_seconds, nearest, unknown_setting
from .._columns.pieces import Columns
from .._native import preload  # noqa: F401
from .._options import ExecuteOptions, StatementOptions, checks_names
from .._schema.read import PAGE_SIZE
from .._telemetry.logs import Logs
from .._transfer.load import Load
from .._transfer.load_options import Pace
from .._transfer.monitor import Monitor
from .._transfer.scan import ESTIMATES, Scan, Weights, split_table
from ..cluster import Node, Replica, _node
from ..config import Config
from ..errors import _SESSIONS, ClosedError, ConfigError, Error
from ..policies import Balancing, Consistency
from ..schema import Schema
from ..security import Tls, _without_traceback_frames
from ..statements import Bound, Prepared, Query, Values
from ..tables import Split
from ..telemetry import Metrics, _metrics
from .hooks import OPENING, Hooks

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    R = TypeVarWithDefault("R", default=Any)
else:
    # Before Python 3.13, a type variable with a default needs typing_extensions.
    R = TypeVar("R")

__all__ = ["R", "SessionBase", "configure"]

_MAX_STATEMENTS_FOR_NAMES = 200
"""When an error gives advice, column names are looked up in at most this many prepared statements.
The most recently used statements come first."""


class SessionBase(Hooks, Generic[R]):
    """The members that both kinds of session share. The methods `_start_...` start native
    operations: `Session` blocks until they end, and `AsyncSession` awaits them.
    """

    __slots__ = (
        "__weakref__",
        "_addresses",
        "_config",
        "_last_nodes",
        "_logs",
        "_schema",
    )

    _reads_on_thread = False
    """Whether columns are read on another thread, so that reading does not block an event loop."""

    def __init__(self, core: _core.Session, config: Config | None = None) -> None:
        if config is None:
            raise TypeError(
                "sessions are opened by turbocql.connect(...) or turbocql.aio.connect(...)"
            )
        self._core = core
        self._config = config
        self._addresses = {
            address("addresses", announced)[0]: address("addresses", reached)
            for announced, reached in config.addresses.items()
        }
        """Maps the address that a node announces to the address at which it is reached."""
        self._schema: Schema | None = None
        """The schema that `schema()` read last. The object is never changed, only replaced by
        another object, so it needs no lock."""
        self._logs = Logs(core.events(), self)
        self._streams = None
        self._ranking = None
        self._last_nodes: tuple[Node, ...] = ()
        """The nodes at the time when the session was closed; empty before that."""
        _SESSIONS.add(self)

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
        """The number of requests in flight; each `execute_many` counts as one."""
        return self._core.in_flight

    @property
    def prepared(self) -> tuple[Prepared, ...]:
        """The cached prepared statements, the most recently used first. The cache holds at most
        `Config.prepared_cache_size` statements.
        """
        return tuple(self._core.prepared)

    def forget_prepared(self) -> None:
        """Empties the cache of prepared statements, so each is prepared again at its next use.

        The session itself empties the cache when it changes the schema. The server reports
        statements that it has forgotten, so no call of this method is needed for them.
        """
        self._core.forget_prepared()

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self._core.cluster_name

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the cluster that the session knows now, sorted by address."""
        nodes = [_node(entry, self._addresses) for entry in self._core.nodes()]
        return tuple(
            sorted(nodes, key=lambda node: (node.address.version, node.address, node.port))
        )

    def replicas(self, bound: Bound) -> tuple[Replica, ...]:
        """Returns the replicas of the partition that a bound statement is for.

        Raises: `ConfigError` when the statement does not bind the whole partition key.
        """
        if not isinstance(bound, Bound):
            got = type(bound).__name__
            raise TypeError(f"replicas are those of a Bound, from Prepared.bind(values); got {got}")
        token, columns = bound.token, bound.prepared.markers
        if token is None or not columns:
            raise ConfigError(f"{bound!r} does not bind the whole partition key")
        nodes = {node.host_id: node for node in self.nodes}
        hosts = self._core.replicas(columns[0][0], columns[0][1], token)
        # A node may have left the cluster since `self.nodes` was read.
        replicas = [(nodes.get(UUID(bytes=host_id)), shard) for host_id, shard in hosts]
        return tuple(
            Replica(node, None if node.shards is None else shard)
            for node, shard in replicas
            if node is not None
        )

    def metrics(self) -> Metrics:
        """Returns what the session has counted since it was opened: see
        [`Metrics`][turbocql.telemetry.Metrics].
        """
        with suppress(ClosedError):
            return _metrics(self._core.metrics(), self.nodes)
        nodes = tuple(replace(node, connected=False, silent=False) for node in self._last_nodes)
        return _metrics(self._core.metrics(), nodes)

    def _keep_nodes(self) -> None:
        """Stores the nodes, because `metrics` needs them after the session is closed."""
        with suppress(Error):
            self._last_nodes = self.nodes

    def _end_telemetry(self) -> None:
        """Ends the logs and the streams. The logs still deliver events that are already queued."""
        self._logs.end()
        with OPENING:
            if self._streams is not None:
                self._streams.end()
            else:
                self._core.cluster_events().close()

    @checks_names(
        "register_type takes a name and a class by position: register_type(name, cls, keyspace=...)"
    )
    def register_type(
        self, name: str, made: Callable[..., Any] | None, *, keyspace: str | None = None
    ) -> None:
        """Makes results contain objects of a class in place of values of a user-defined type.

        `name` is the name of the type, as in the schema. Dataclasses, named tuples and classes of
        attrs, msgspec and pydantic get the fields by name; any other callable gets them as keyword
        arguments. `made=None` restores named tuples. Values in sets and keys of maps must be
        hashable: if an object is not, the set or map has the named tuple in its place. To write
        objects of such classes, no registration is needed.

        Raises: `ConfigError` when neither the call nor the session has a keyspace.
        """
        keyspace = self.keyspace if keyspace is None else keyspace
        if keyspace is None:
            raise ConfigError(f"the type {name!r} needs a keyspace: the session uses none")
        if made is not None and not callable(made):
            raise TypeError(f"expected a class or another callable, got {made!r}")
        self._core.register_type(keyspace, name, made)

    def __repr__(self) -> str:
        points = ", ".join(self._config.contact_points)
        state = "closed" if self.closed else "open"
        return f"<{type(self).__module__}.{type(self).__name__} {points} {state}>"

    def _known_columns(self, coordinator: str) -> Iterator[tuple[str, str, str]]:
        """Yields keyspace, table and name of the columns in the session's caches, for advice in
        errors. Yields none if the session's cluster has no node with the address `coordinator`.
        """
        try:
            is_of_cluster = coordinator in [node.at for node in self.nodes]
        except Error:
            return
        if not is_of_cluster:
            return
        if self._schema is not None:
            for keyspace in self._schema.keyspaces.values():
                for table in keyspace.tables.values():
                    yield from ((keyspace.name, table.name, name) for name in table.columns)
        for prepared in self.prepared[:_MAX_STATEMENTS_FOR_NAMES]:
            # A marker `?` has the name of its column. A marker `:name` has a name that the program
            # chose, so statements with such markers are left out.
            columns = [] if ":" in prepared.text else prepared.markers
            # The result columns of other SELECT statements may have aliases as names.
            if re.match(r"\s*SELECT\s+\*", prepared.text, re.IGNORECASE):
                columns = columns + prepared.result_columns
            # A name that contains a bracket or a parenthesis is not the name of a column: it stands
            # for an option, such as `[ttl]`, or for a call of a function.
            yield from (
                (column[0], column[1], column[2])
                for column in columns
                if re.fullmatch(r"\w+", column[2])
            )

    def _start_many(
        self,
        statement: str | Query | Prepared,
        rows: Iterable[Values] | _core.Columns,
        concurrency: int,
        max_failures: int,
        results: bool,
        retry_for_s: float,
        options: StatementOptions,
    ) -> _core.Op:
        self._check_many(concurrency, max_failures, retry_for_s)
        return self._core.execute_many(
            statement,
            rows,
            concurrency,
            max_failures,
            bool(results),
            None,
            Pace(retry_for_s > 0, None, None, float(retry_for_s)),
            options,
        )

    def _start_look_up(self, load: Load, read: Prepared, keys: list[tuple[Any, ...]]) -> _core.Op:
        """Starts to read the rows that have these primary keys."""
        request: Any = {**load.request, "timestamp": None}
        return self._core.execute_many(
            read, keys, load.concurrency, 0, True, None, load.pace._replace(adaptive=False), request
        )

    def _start_load(
        self, load: Load, data: Columns, care: _core.Care | None, monitor: Monitor
    ) -> _core.Op:
        return self._core.execute_many(
            load.statement,
            load.columns(data, on_thread=self._reads_on_thread, care=care),
            load.concurrency,
            load.max_failures,
            False,
            monitor.native,
            load.pace,
            load.request,
        )

    @staticmethod
    def _check_many(concurrency: int, max_failures: int, retry_for_s: float) -> None:
        check_int("concurrency", concurrency, 1, 32_768)
        check_int("max_failures", max_failures, 0, 2**31 - 1)
        if retry_for_s != 0:
            check_seconds("retry_for_s, if not 0,", retry_for_s)

    def _start_scan(self, scan: Scan) -> _core.Op:
        nodes = self.nodes
        return self._core.scan(
            scan.statement,
            scan.keyspace_and_table,
            scan.ranges(nodes),
            scan.values,
            None,
            scan.concurrency(nodes),
            scan.retry_for_s,
            scan.options,
        )

    def _start_estimates(self, table: tuple[str, str]) -> list[_core.Op]:
        """Starts to read estimates of a table's size from all connected nodes, except nodes that
        have stopped answering.
        """
        options = ExecuteOptions(
            consistency=Consistency.LOCAL_ONE, rows="tuple", idempotent=True, timeout_s=5.0
        )
        connected = [node for node in self.nodes if node.connected and not node.silent]
        return [
            self._core.scan(ESTIMATES, table, [], table, node.host_id.bytes, 1, 0.0, options)
            for node in connected
        ]

    def _split(
        self, table: tuple[str, str], parts: int, estimates: Iterable[tuple[str, str, int, int]]
    ) -> list[Split]:
        nodes = self.nodes
        addresses = {node.host_id.bytes: node.at for node in nodes}

        def owners(token: int) -> tuple[str, ...]:
            hosts = [host for host, _ in self._core.replicas(*table, token)]
            return tuple(addresses[host] for host in hosts if host in addresses)

        return split_table(table, parts, Weights(estimates), nodes, owners)

    def _start_query(self, text: str, values: Values | None, options: ExecuteOptions) -> _core.Op:
        """Starts a query of system tables."""
        return _core.execute(self._core, text, values, options)

    def _start_schema_query(self, query: str, timeout_s: float) -> _core.Op:
        """Starts a query of the schema, which any node may answer. The rows of its result are
        dicts. If the session's own `timeout_s` is shorter than the argument `timeout_s`, it applies
        instead.
        """
        limit_s = self._config.timeout_s
        options = ExecuteOptions(
            consistency=Consistency.LOCAL_ONE,
            page_size=PAGE_SIZE,
            idempotent=True,
            rows="dict",
            timeout_s=timeout_s if limit_s is None else min(limit_s, timeout_s),
        )
        # With `waits=True`, this query waits while the session has as many requests in flight as it
        # may have. It waits even with `when_full="raise"`, because the program did not send it.
        return _core.execute(self._core, query, None, options, waits=True)


advise(
    SessionBase,
    {
        "add_execution_profile": "pass profiles= to connect",
        "cluster": "use session.schema(), session.nodes and session.metrics()",
        "commit": "CQL has no transactions: a Batch is applied as a unit",
        "count": "use the command turbocql count, or SELECT count(*) for a small table",
        "cursor": "turbocql.dbapi.connect(...) has cursors",
        "default_consistency_level": "pass consistency= to connect",
        "default_fetch_size": "pass page_size= to connect",
        "default_serial_consistency_level": "pass serial_consistency= to connect",
        "default_timeout": "pass timeout_s= to connect",
        "execute_async": "turbocql.aio.connect(...) has asynchronous sessions",
        "execute_concurrent": "for one statement, use session.execute_many(statement, rows); for"
        " several, concurrent.futures.ThreadPoolExecutor, with a session.execute(...) for each",
        "execute_concurrent_with_args": "use session.execute_many(statement, rows)",
        "execution_profile_clone_update": "pass the options to execute, or profiles= to connect",
        "get_execution_profile": "use session.config.profiles",
        "hosts": "use session.nodes",
        "is_shutdown": "use session.closed",
        "metadata": "use session.schema(), and session.nodes",
        "query": "use session.execute(statement, values)",
        "refresh_schema_metadata": "use session.schema(refresh=True)",
        "register_user_type": "use session.register_type(name, cls, keyspace=...)",
        "row_factory": 'pass rows="dict" to connect, or row= to execute',
        "set_keyspace": "use session.use_keyspace(name)",
        "shutdown": "use session.close()",
        "use_client_timestamp": "pass client_timestamps=True to connect",
    },
)


@_without_traceback_frames
def configure(contact_points: Any, config: Config | None, settings: dict[str, Any]) -> Config:
    """Makes a `Config` from the arguments of `connect`, which are a `Config` or single settings."""
    if config is not None and not isinstance(config, Config):
        # The value is not shown: it may be a URL, which most likely contains a password.
        raise ConfigError(
            f"config must be a Config, got {type(config).__name__}; pass a URL as the first"
            " argument, or to Config.from_url(url)"
        )
    if config is not None:
        if contact_points is not None or settings:
            raise ConfigError("pass a Config or single settings, not both")
        return config
    if isinstance(contact_points, Config):
        raise ConfigError("pass a Config by its name: connect(config=config)")
    is_url = isinstance(contact_points, str) and "://" in contact_points
    if contact_points is not None and not is_url:
        settings["contact_points"] = contact_points
    unknown = settings.keys() - Config.__dataclass_fields__.keys()
    if unknown:
        name, names = sorted(unknown)[0], Config.__dataclass_fields__
        problem = f"unknown setting {name!r}"
        for setting, cls in (("balancing", Balancing), ("tls", Tls)):
            inner = nearest(name, cls.__dataclass_fields__)
            if inner is not None and nearest(name, names) is None:
                hint = f"{setting}=turbocql.{cls.__name__}({inner}=...)"
                raise TypeError(f"{problem}; did you mean {hint}?")
        raise TypeError(unknown_setting(Config, name, problem, "the settings are"))
    return Config.from_url(contact_points, **settings) if is_url else Config(**settings)
