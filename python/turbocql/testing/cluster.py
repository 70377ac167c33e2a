"""A cluster of one to three nodes on its own loopback addresses."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from . import java
from .addresses import Claim
from .config import cassandra_yaml, locations, write_config
from .errors import CassandraError
from .jars import ensure_jars
from .node import Access, Node, NodeFiles
from .probe import Connection, ProbeError
from .scylla import Scylla, Shards
from .tls import Certificates, make_certificates

if TYPE_CHECKING:
    from typing_extensions import Self  # for the type checker only: typing has it from 3.11

__all__ = ["Cassandra"]

_MAX_NODES = 3
_FRONT_ADDRESS_OFFSET = 100
"""The simulator in front of a node has an address too. Its last number is the last number of the
node's own address plus this offset."""
_POLL_S = 0.1
_MAX_ROUNDS = 20
"""The maximum number of rounds in which `wait_until_settled` checks all nodes. The checks of two
consecutive rounds must find nothing missing."""
_HEAP_ALONE_MB, _HEAP_AMONG_OTHERS_MB = 1024, 640
# Cassandra's `ring_delay_ms`: how long a starting node waits for the state of the other nodes. The
# first node has no other nodes, so its delay is short. Every other node must hear from the first
# node within the longer delay.
_RING_DELAY_FIRST_MS, _RING_DELAY_OTHERS_MS = 100, 5000
# This statement is executed at consistency ALL. A coordinator that sees a replica as down refuses
# it, so its success shows that the coordinator sees all nodes as up.
_READ_AT_ALL = (
    "SELECT session_id FROM system_traces.sessions "
    "WHERE session_id = 00000000-0000-1000-8000-000000000000"
)


class Cassandra:
    """A real Cassandra 5.0.5 that runs inside the `with` block and is removed after it.

    `nodes` is 1 to 3. `tls` encrypts client connections, with a certificate authority made for this
    cluster (`ca_certificate`). `require_client_certificate` also requires a certificate from
    clients. With `authentication`, clients log in with `user` and `password`. `scylla` puts a
    simulator of ScyllaDB's additions in front of the nodes. `racks` has the name of each node's
    rack, or its `(datacenter, rack)`. `config` replaces top-level settings of cassandra.yaml.
    `jvm_options` come last among the JVM's options. The JVM optimizes little, so that a node starts
    soon. With `jvm_options=["-XX:TieredStopAtLevel=4"]` a start takes twice as much processor time,
    and a node that has been busy for minutes about a third. With `keep_logs`, the nodes' logs
    (`Node.log`) are kept. Everything else is always removed.

    Blocks: `start`, which the `with` statement calls, takes about 10 s per node, and 40 s more if
        the server's jars must be fetched first. A node that does not answer within `timeout_s`
        seconds has failed.
    Raises: `MissingPrerequisite` if Java, Maven or openssl is needed and missing; `CassandraError`
        with the end of the node's log if a node does not start.

    Example:
        with Cassandra(nodes=3) as cluster:
            cluster.nodes[2].kill()
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        tls: bool = False,
        require_client_certificate: bool = False,
        authentication: bool = False,
        heap_mb: int | None = None,
        config: Mapping[str, Any] | None = None,
        jvm_options: Sequence[str] = (),
        keep_logs: bool = False,
        timeout_s: float = 180.0,
        scylla: Shards | Sequence[Shards | None] | None = None,
        racks: Sequence[str | tuple[str, str]] | None = None,
    ) -> None:
        if not isinstance(nodes, int) or not 1 <= nodes <= _MAX_NODES:
            raise ValueError(f"nodes: expected an int from 1 to {_MAX_NODES}, got {nodes!r}")
        if require_client_certificate and not tls:
            raise ValueError("require_client_certificate=True needs tls=True")
        if isinstance(jvm_options, str):
            raise TypeError("jvm_options: expected a list of options, got one str")
        if scylla is not None and tls:
            raise ValueError("scylla= reads the frames, so it cannot be used with tls=True")
        shards: list[Shards | None] = [None] * nodes
        if isinstance(scylla, Shards):
            shards = [scylla] * nodes
        elif scylla is not None:
            is_sequence = isinstance(scylla, Sequence)
            if not is_sequence or any(
                not isinstance(node, (Shards, type(None))) for node in scylla
            ):
                reason = "expected Shards(count), or a list of Shards and None for the nodes"
                raise TypeError(f"scylla: {reason}, got {scylla!r}")
            shards = list(scylla)
        if len(shards) != nodes:
            raise ValueError(f"scylla: expected settings of {nodes} nodes, got {len(shards)}")
        self._locations = None if racks is None else locations(racks, nodes)
        self.scylla: Scylla | None = None
        """With `scylla=`, the simulator in front of the nodes; otherwise `None`."""
        self._shards = None if scylla is None else shards
        self.user = "cassandra" if authentication else None
        self.password = "cassandra" if authentication else None
        self.nodes: list[Node] = []
        self._count = nodes
        self._tls = tls
        self._client_required = require_client_certificate
        self._heap_mb = heap_mb or (_HEAP_ALONE_MB if nodes == 1 else _HEAP_AMONG_OTHERS_MB)
        self._config = dict(config or {})
        self._jvm_options = list(jvm_options)
        self._keep_logs = keep_logs
        self._timeout_s = timeout_s
        self._certificates: Certificates | None = None
        self._starter = 0
        self._started = False
        self._undo = ExitStack()

    def __repr__(self) -> str:
        return f"<Cassandra {self.nodes!r}>"

    @property
    def contact_points(self) -> list[str]:
        """The `address:port` of every node, including nodes that do not run."""
        return [node.contact_point for node in self.nodes]

    @property
    def ca_certificate(self) -> Path | None:
        """With `tls`, the PEM file of the authority that clients must trust; otherwise `None`."""
        return self._certificates.ca if self._certificates else None

    @property
    def client_certificate(self) -> Path | None:
        """With `tls`, the PEM file of a client's certificate, signed by the same authority."""
        return self._certificates.client_certificate if self._certificates else None

    @property
    def client_key(self) -> Path | None:
        """With `tls`, the PEM file of `client_certificate`'s private key, not encrypted."""
        return self._certificates.client_key if self._certificates else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every node and waits until all answer. The `with` statement calls this method."""
        if self._started:
            raise CassandraError("this cluster is already started")
        installed, lib = java.find_java(), ensure_jars()
        self._starter = os.getpid()
        self._started = True
        try:
            claim = self._undo.enter_context(Claim(self._count))
            self._prepare(installed, lib, claim.addresses)
            self._start_nodes()
            self._replicate_roles()
            if self._shards is not None:
                self._start_simulator(self._shards)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every node and removes the files. The end of the `with` block calls this method.

        A second call does nothing. The nodes are killed, because their data is not kept and
        a clean shutdown is not needed. In a forked child of the process that called `start`, this
        method does nothing, because the cluster belongs to the parent.
        """
        if self._starter == os.getpid():
            self._undo.close()
            self._started = False

    def wait_until_settled(self) -> None:
        """Waits until each node sees every other node as up and all agree on the schema.

        Returns at once if there is one node, or if a node is stopped or paused. Call this method
        after a change of the schema through `Node.probe`, which, unlike drivers, does not wait for
        schema agreement.

        Raises: `CassandraError` with the end of a node's log if the nodes take too long.
        """
        if len(self.nodes) == 1 or not all(
            node.is_running and not node.is_paused for node in self.nodes
        ):
            return
        settled_rounds = 0
        for _ in range(_MAX_ROUNDS):
            has_waited = [
                self._wait_for(node, partial(self._missing_from, node)) for node in self.nodes
            ]
            # After a node was killed and restarted, the other nodes may still see it as up. When
            # they hear that it has restarted, they see it as down for a moment. So one round in
            # which nothing is missing is not enough.
            settled_rounds = 0 if any(has_waited) else settled_rounds + 1
            if settled_rounds == 2:
                return
        raise self.nodes[0].failure("and the other nodes do not keep seeing one another as up")

    def _prepare(self, installed: java.Java, lib: Path, addresses: Sequence[str]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="turbocql-cassandra-"))
        removed = [folder / name for name in ("nodes", "tls")] if self._keep_logs else [folder]
        for path in removed:
            self._undo.callback(shutil.rmtree, path, ignore_errors=True)
        (folder / "logs").mkdir()
        if self._tls:
            self._certificates = make_certificates(
                folder / "tls", addresses, client_required=self._client_required
            )
        context = self._certificates.client_context() if self._certificates else None
        access = Access(context, self.user, self.password)
        self.nodes = []
        for number, address in enumerate(addresses, start=1):
            home = folder / "nodes" / str(number)
            options = java.NodeOptions(
                lib=lib,
                conf=home / "conf",
                data=home,
                scratch=home / "tmp",
                heap_mb=self._heap_mb,
                nodes=self._count,
                ring_delay_ms=_RING_DELAY_FIRST_MS if number == 1 else _RING_DELAY_OTHERS_MS,
                extra=self._jvm_options,
            )
            options.scratch.mkdir(parents=True)
            settings = cassandra_yaml(
                name=folder.name,
                address=address,
                seed=addresses[0],
                data=home,
                authentication=self.user is not None,
                certificates=self._certificates,
            )
            location = None if self._locations is None else self._locations[number - 1]
            write_config(options.conf, settings, self._config, location)
            node = Node(
                address=address,
                command=java.command(installed, options),
                files=NodeFiles(
                    folder=home,
                    log=folder / "logs" / f"node{number}.log",
                    log_is_kept=self._keep_logs,
                    remove=removed,
                ),
                access=access,
                timeout_s=self._timeout_s,
                after_start=self.wait_until_settled,
            )
            self._undo.callback(node.kill)
            self.nodes.append(node)

    def _start_simulator(self, shards: Sequence[Shards | None]) -> None:
        described = []
        for node, settings in zip(self.nodes, shards, strict=True):
            with node.probe(timeout_s=self._timeout_s) as connection:
                (row,) = connection.query("SELECT host_id FROM system.local").rows
            block, _, last = node.upstream_address.rpartition(".")
            # No other cluster uses this block of addresses, so the simulator's address is free.
            node.stand_behind(f"{block}.{int(last) + _FRONT_ADDRESS_OFFSET}")
            described.append(
                {
                    "address": node.address,
                    "upstream_address": node.upstream_address,
                    "host_id": str(UUID(bytes=row[0] or b"")),
                    "shards": settings,
                }
            )
        self.scylla = Scylla(described)
        self._undo.callback(self.scylla.close)

    def _start_nodes(self) -> None:
        """Starts the first node alone, because it is the seed, and then the others together."""
        for started_nodes in (self.nodes[:1], self.nodes[1:]):
            for node in started_nodes:
                node.launch()
            for node in started_nodes:
                node.wait_until_answering()
        self.wait_until_settled()

    def _replicate_roles(self) -> None:
        """Replicates the roles to every node, so that logins work when any node is lost."""
        if self._count == 1 or self.user is None:
            return
        first = self.nodes[0]
        # This connection stays open until the new replicas have the roles. A new login before then
        # may read the roles from a replica that does not have them yet.
        with first.probe(timeout_s=self._timeout_s) as connection:
            connection.query(
                "ALTER KEYSPACE system_auth WITH replication = "
                f"{{'class': 'SimpleStrategy', 'replication_factor': {self._count}}}"
            )
            self._wait_for(first, lambda: self._missing(connection))
            # A read at consistency ALL first repairs replicas that differ, and then answers.
            connection.query("SELECT * FROM system_auth.roles", "ALL")
        for node in self.nodes:
            node.wait_until_answering()

    def _wait_for(self, node: Node, missing: Callable[[], str | None]) -> bool:
        """Waits until `missing` returns `None`, and returns whether it had to wait.

        Raises: `CassandraError` when the node has ended, or after `timeout_s` seconds. After a
            timeout, its message says what `missing` returned.
        """
        deadline, waited = time.monotonic() + self._timeout_s, False
        while (condition := missing()) is not None:
            if not node.is_running:
                raise node.failure("ended while the cluster was starting")
            if time.monotonic() > deadline:
                raise node.failure(
                    f"did not see the other nodes within {self._timeout_s:g} s ({condition})"
                )
            waited = True
            time.sleep(_POLL_S)
        return waited

    def _missing_from(self, node: Node) -> str | None:
        try:
            with node.probe() as connection:
                return self._missing(connection)
        except (OSError, ProbeError) as error:
            return str(error)

    def _missing(self, connection: Connection) -> str | None:
        """Returns a condition that the node of `connection` does not meet yet, or `None`.

        A node that meets all conditions can coordinate requests to all other nodes.
        """
        try:
            connection.query(_READ_AT_ALL, "ALL")
        except ProbeError as error:
            return str(error)
        # Drivers read the nodes' addresses from this table. The server fills a row in steps, so
        # only complete rows are counted.
        peers = connection.query(
            "SELECT schema_version, rpc_address, host_id, tokens FROM system.peers"
        )
        complete_peer_count = sum(None not in row for row in peers.rows)
        if complete_peer_count < self._count - 1:
            return f"it knows {complete_peer_count} of the other nodes"
        local = connection.query("SELECT schema_version FROM system.local")
        if any(row[0] != local.rows[0][0] for row in peers.rows):
            return "the nodes do not agree on a schema"
        return None
