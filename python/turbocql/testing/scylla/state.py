"""The state that all connections of a cluster share: nodes, keyspaces, statements, faults, log."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ..frames import packed_address
from .records import Request
from .results import Rows
from .settings import Shards
from .statements import Analysis, KeyspaceChange
from .system_tables import Rewrite, Virtual, packed_map
from .tablets import DEFAULT_COUNT, TabletMap, place_tablets, power_of_two

__all__ = ["Faults", "Keyspace", "NodeState", "State", "Statement"]

LOG_ENTRIES = 200_000
"""The number of requests that the log holds. The oldest are removed first."""
_MAX_STATEMENTS = 100_000
_MAX_FAILURES = 1000


class Statement:
    """A prepared statement. `latest` is its latest result, without rows."""

    __slots__ = (
        "analysis",
        "bind_names",
        "is_system",
        "key_indexes",
        "latest",
        "plan",
        "table",
        "text",
    )

    def __init__(self, text: str, analysis: Analysis, plan: Rewrite | Virtual | None) -> None:
        self.text = text
        self.analysis = analysis
        self.plan = plan
        self.table: tuple[str, str] | None = None
        self.is_system = False
        self.key_indexes: tuple[int, ...] = ()
        self.bind_names: list[str] = []
        self.latest: Rows | None = None


@dataclass
class NodeState:
    """One node: its addresses, its shards, and the state of its rate limit.

    `dealt` is the number of connections that were assigned to the shards in turn.
    """

    index: int
    address: str
    upstream_address: str
    host_id: UUID
    shards: Shards | None
    dealt: int = 0
    allowance: float = 0.0
    refilled_at: float = 0.0

    @property
    def count(self) -> int:
        """The number of shards. A node without `shards` has one."""
        return self.shards.count if self.shards else 1

    def next_shard(self) -> int:
        """Returns the shard of the next connection whose source port does not select a shard."""
        shard = self.dealt % self.count
        self.dealt += 1
        return shard


@dataclass
class Keyspace:
    """The replication factor and the tablet options of a keyspace. The simulator keeps them,
    because Cassandra does not store tablet options.
    """

    replication_factor: int = 1
    has_tablets: bool = False
    initial: int | None = None


@dataclass
class Faults:
    """The faults that `limit`, `empty_pages` and `translate_ports` of `Scylla` switch on."""

    marked: str | None = None
    per_second: float | None = None
    empty_pages: int = 0
    is_nat: bool = False


@dataclass
class State:
    """The state of one cluster. Only the event loop of the simulator's process uses it."""

    nodes: Sequence[NodeState]
    keyspaces: dict[str, Keyspace] = field(default_factory=dict)
    maps: dict[tuple[str, str], TabletMap] = field(default_factory=dict)
    statements: dict[bytes, Statement] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    log: deque[Request] = field(default_factory=lambda: deque(maxlen=LOG_ENTRIES))
    failures: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_FAILURES))
    salt: bytes = b""
    logged: int = 0

    def __post_init__(self) -> None:
        self.client_addresses: Mapping[bytes, bytes] = {
            packed_address(node.upstream_address): packed_address(node.address)
            for node in self.nodes
        }
        """Maps the nodes' own addresses to the addresses that clients see."""
        self.upstream_addresses: Mapping[str, str] = {
            node.address: node.upstream_address for node in self.nodes
        }
        """Maps the addresses that clients see to the nodes' own addresses."""

    def remember(self, statement_id: bytes, statement: Statement) -> None:
        """Keeps a prepared statement. If 100,000 are kept already, the oldest is removed."""
        if len(self.statements) >= _MAX_STATEMENTS and statement_id not in self.statements:
            del self.statements[next(iter(self.statements))]
        self.statements[statement_id] = statement

    def renew_salt(self) -> None:
        """Changes all metadata ids, so that the ids that clients hold become stale."""
        self.salt = os.urandom(8)

    def apply_keyspace_ddl(self, change: KeyspaceChange) -> None:
        """Updates the state after Cassandra has created, altered or dropped a keyspace."""
        if change.action == "drop":
            self.keyspaces.pop(change.keyspace, None)
        elif change.action == "create":
            self.keyspaces[change.keyspace] = Keyspace(
                change.replication_factor or 1, bool(change.has_tablets), change.initial
            )
        else:
            keyspace = self.keyspaces.setdefault(change.keyspace, Keyspace())
            if change.replication_factor is not None:
                keyspace.replication_factor = change.replication_factor
            if change.has_tablets is not None:
                keyspace.has_tablets, keyspace.initial = change.has_tablets, change.initial
        if change.action != "alter" or change.has_tablets is not None:
            for name in [name for name in self.maps if name[0] == change.keyspace]:
                del self.maps[name]

    def tablets_of(self, table: tuple[str, str]) -> TabletMap | None:
        """Returns the tablets of a table, or `None` if its keyspace has no tablets."""
        tablets = self.maps.get(table)
        if tablets is None:
            keyspace = self.keyspaces.get(table[0])
            if keyspace is None or not keyspace.has_tablets:
                return None
            count = power_of_two(keyspace.initial or DEFAULT_COUNT)
            tablets = TabletMap(
                place_tablets(count, keyspace.replication_factor, self.host_ids_and_shard_counts())
            )
            self.maps[table] = tablets
        return tablets

    def host_ids_and_shard_counts(self) -> list[tuple[UUID, int]]:
        """The host id and the number of shards of each node."""
        return [(node.host_id, node.count) for node in self.nodes]

    def is_limited(self, node: NodeState, text: str | None) -> bool:
        """Whether the rate limit refuses a request on a user table.

        It refuses a statement that contains `faults.marked`, and a request above the node's rate,
        which is `faults.per_second`. A request that is not refused counts toward the rate.
        """
        faults = self.faults
        if node.shards is None:
            return False
        if faults.marked is not None and text is not None and faults.marked in text:
            return True
        if faults.per_second is None:
            return False
        now = time.monotonic()
        refill = (now - node.refilled_at) * faults.per_second
        node.allowance = min(node.allowance + refill, max(faults.per_second, 1.0))
        node.refilled_at = now
        if node.allowance < 1.0:
            return True
        node.allowance -= 1.0
        return False

    def set_limit(self, marked: str | None, per_second: float | None) -> None:
        """Replaces the rate limit. If both arguments are `None`, there is no limit."""
        self.faults.marked, self.faults.per_second = marked, per_second
        for node in self.nodes:
            node.allowance, node.refilled_at = max(per_second or 0.0, 1.0), time.monotonic()

    def stored_rows(self, node: NodeState, table: str) -> list[dict[str, bytes | None]]:
        """The rows of a system table whose queries the simulator answers itself."""
        if table == "versions":
            version = node.shards.version if node.shards else "5.1.0"
            return [
                {
                    "key": b"local",
                    "build_id": b"0" * 40,
                    "build_mode": b"release",
                    "version": version.encode(),
                }
            ]
        return list(self._scylla_keyspaces())

    def _scylla_keyspaces(self) -> Iterator[dict[str, bytes | None]]:
        for name, keyspace in sorted(self.keyspaces.items()):
            if keyspace.has_tablets:
                yield {
                    "keyspace_name": name.encode(),
                    "consistency": None,
                    "initial_tablets": (keyspace.initial or 0).to_bytes(4, "big"),
                    "storage_type": b"LOCAL",
                    "storage_options": packed_map({}),
                }
