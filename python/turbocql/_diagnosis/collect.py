"""Defines the contents of a diagnosis, and collects them in steps that synchronous and asyncio
sessions share.
"""

from __future__ import annotations

import os
import sys
import typing
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .. import _core
from .._session.base import SessionBase
from ..cluster import Node
from ..config import Config
from ..errors import Error, InvalidQuery
from .text import page

__all__ = [
    "TIMEOUT_S",
    "Diagnosis",
    "NodeDiagnosis",
    "QuickPath",
    "SessionDiagnosis",
    "Steps",
    "steps",
]

TIMEOUT_S = 10.0
"""The limit for one query to a server, in seconds."""

_ROUNDS = 8
"""The maximum number of times that `_nodes` sends its two queries. It stops earlier when the
answers cover all nodes."""

Answer: TypeAlias = "tuple[list[dict[str, Any]], str | None] | Error"
"""The caller's answer to a statement: either the rows and the address of the node that sent them,
or the error."""


@dataclass(frozen=True)
class NodeDiagnosis:
    """A node, as the system tables and the session's connections to it describe it."""

    address: str
    """The address for clients, as `address:port`; without a port if the server reports none."""
    datacenter: str | None
    rack: str | None
    version: str | None
    host_id: str | None
    schema_version: str | None
    """The version of the node's schema, equal for nodes that agree on the schema."""
    shards: int | None = None
    """The same as `shards` of the session's [`Node`][turbocql.cluster.Node]."""
    extensions: tuple[str, ...] = ()
    """The same as `extensions` of the session's [`Node`][turbocql.cluster.Node]."""


@dataclass(frozen=True)
class SessionDiagnosis:
    """A session and its cluster."""

    closed: bool
    contact_points: tuple[str, ...]
    keyspace: str | None
    user_given: bool
    """Whether a user and password are configured. The diagnosis does not contain them."""
    compression: str | None
    in_flight: int
    """The number of requests in flight when the diagnosis began."""
    prepared: int
    """The number of prepared statements in the session's cache."""
    cluster_name: str | None
    server_version: str | None
    partitioner: str | None
    nodes: tuple[NodeDiagnosis, ...]
    """The cluster's nodes, sorted by address. It is empty when no server could be queried."""
    notes: tuple[str, ...]
    """The information that could not be collected, with reasons."""


@dataclass(frozen=True)
class QuickPath:
    """A part of the native core that depends on the memory layouts of the interpreter's objects.

    A quick path is on if it was tested with the running version of CPython and has passed a probe.
    When a quick path is off, values and results do not change, but the work takes longer.
    """

    name: str
    on: bool
    reason: str | None
    """Why the quick path is off; `None` if it is on, or if a test has switched it off."""


@dataclass(frozen=True)
class Diagnosis:
    """A description of this installation and, on request, of a session. `str()` is a page of text.

    It contains no secrets: neither passwords nor values of environment variables. Unknown values
    are `None`.
    """

    turbocql: str
    """The version of turbocql."""
    folder: str
    """The folder of the package."""
    core: str
    """The file name of the native core, which names the platform that it was built for."""
    core_version: str
    core_profile: str
    """The build profile of the native core, such as `release`."""
    core_allocator: str
    """The memory allocator of the native core."""
    quick_paths: tuple[QuickPath, ...]
    """The parts of the native core that read and make this interpreter's objects directly.
    `arrays` and `handles` are probed at first use, and are reported as on until then."""
    engine: str
    """The name and version of the network engine, the ScyllaDB Rust driver."""
    engine_edits: tuple[str, ...]
    """The names of turbocql's changes to the network engine in this build; empty for a build
    without them. The folder `edits` of the sources describes each change."""
    tls_backend: str
    """The TLS library."""
    compressions: tuple[str, ...]
    """The values that the setting `compression` accepts."""
    python: str
    """The implementation and version of Python."""
    python_build: str
    """The compiler that built the interpreter, and build options such as PGO."""
    python_pgo: bool | None
    """Whether the interpreter was built with profile-guided optimization."""
    platform: str
    libc: str | None
    """The name and version of the C library."""
    cpus: int
    """The number of processors that this process may use."""
    event_loop: str | None
    """The event loop that runs in this thread, if any."""
    woken_by: str | None
    """How the native core wakes the event loop: `eventfd`, `sockets` (systems without eventfd) or
    `thread`. `None` unless `turbocql.aio.diagnosis` has queried a session on that loop."""
    numpy: str | None
    """The installed version of NumPy."""
    uvloop: str | None
    """The installed version of uvloop."""
    accelerate: str
    """The state of `turbocql.accelerate()` in this process."""
    session: SessionDiagnosis | None
    """The session and its cluster, if a session was passed."""

    def __str__(self) -> str:
        return page(self)


Steps: TypeAlias = Generator[str, Answer, Diagnosis]
"""A generator that yields statements, receives their answers and returns the diagnosis."""


def steps(session: SessionBase | None, asynchronous: bool) -> Steps:
    """Collects the diagnosis. The caller executes the statements that this generator yields."""
    session_diagnosis = None if session is None else (yield from _session_steps(session))
    loop = _running_loop()
    has_nodes = session_diagnosis is not None and bool(session_diagnosis.nodes)
    from importlib.metadata import PackageNotFoundError, version

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    uvloop, pgo = installed("uvloop"), _pgo()
    return Diagnosis(
        turbocql=_core.VERSION,
        folder=os.path.dirname(os.path.dirname(__file__)),
        core=os.path.basename(_core.__file__ or ""),
        core_version=_core.VERSION,
        core_profile=_core.BUILD_PROFILE,
        core_allocator=_core.ALLOCATOR,
        quick_paths=tuple(QuickPath(*path) for path in _core.quick_paths()),
        engine=f"scylla {_core.ENGINE_VERSION}",
        engine_edits=tuple(filter(None, _core.ENGINE_EDITS.split(","))),
        tls_backend=_core.TLS_BACKEND,
        compressions=_compressions(),
        python=f"{sys.implementation.name} {sys.version.split()[0]}",
        python_build=_python_build(pgo),
        python_pgo=pgo,
        platform=_platform(),
        libc=_libc(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cpus(),
        event_loop=None if loop is None else _loop_name(loop, uvloop),
        # Without nodes, no query has completed, so nothing has woken the event loop yet.
        woken_by=_woken_by(loop) if asynchronous and has_nodes else None,
        numpy=installed("numpy"),
        uvloop=uvloop,
        accelerate=_accelerate(),
        session=session_diagnosis,
    )


# The session


def _session_steps(session: SessionBase) -> Generator[str, Answer, SessionDiagnosis]:
    config, in_flight = session.config, session.in_flight
    notes: list[str] = []
    local = yield from _first_local(notes)
    nodes = (yield from _nodes(notes)) if local else ()
    # The system tables lack shards and extensions. The session has them from its connections.
    connected = {} if session.closed else {str(node.host_id): node for node in session.nodes}
    nodes = tuple(_with_connections(node, connected.get(node.host_id or "")) for node in nodes)
    return SessionDiagnosis(
        closed=session.closed,
        contact_points=tuple(config.contact_points),
        keyspace=session.keyspace,
        user_given=config.user is not None,
        compression=config.compression,
        in_flight=in_flight,
        prepared=len(session.prepared),
        cluster_name=local.get("cluster_name"),
        server_version=local.get("release_version"),
        partitioner=local.get("partitioner"),
        nodes=nodes,
        notes=tuple(notes),
    )


def _with_connections(node: NodeDiagnosis, connected: Node | None) -> NodeDiagnosis:
    if connected is None:
        return node
    return replace(node, shards=connected.shards, extensions=connected.extensions)


def _first_local(notes: list[str]) -> Generator[str, Answer, dict[str, Any]]:
    answer = yield "SELECT cluster_name, release_version, partitioner FROM system.local"
    if isinstance(answer, Error):
        notes.append(f"system.local: {answer}")
        return {}
    return answer[0][0] if answer[0] else {}


def _nodes(notes: list[str]) -> Generator[str, Answer, tuple[NodeDiagnosis, ...]]:
    """Collects all nodes.

    A node describes itself in `system.local`, and the other nodes in a table of peers. The two
    queries may go to different nodes, so they are repeated until the answers cover every node.
    """
    nodes: dict[str, NodeDiagnosis] = {}
    self_describing: set[str | None] = set()
    peer_describing: set[str | None] = set()
    peers = "system.peers_v2"
    for _ in range(_ROUNDS):
        answer = yield "SELECT * FROM system.local"
        if isinstance(answer, Error):
            notes.append(f"system.local: {answer}")
            break
        self_describing.add(_add_nodes(nodes, answer))
        answer = yield f"SELECT * FROM {peers}"
        if isinstance(answer, InvalidQuery) and peers == "system.peers_v2":
            # ScyllaDB and Cassandra before 4.0 have only the older table.
            peers = "system.peers"
            answer = yield f"SELECT * FROM {peers}"
        if isinstance(answer, Error):
            notes.append(f"{peers}: {answer}")
            break
        peer_describing.add(_add_nodes(nodes, answer))
        # The table of peers of a node has all nodes except this node. The list is complete if it
        # also has `system.local` of the same node, or the table of peers of a second node.
        if len(peer_describing) > 1 or self_describing & peer_describing:
            break
    else:
        notes.append("different nodes have answered each time: one node may be missing")
    return tuple(sorted(nodes.values(), key=lambda node: node.address))


def _add_nodes(
    nodes: dict[str, NodeDiagnosis], answer: tuple[list[dict[str, Any]], str | None]
) -> str | None:
    """Adds the nodes of an answer, and returns the address of the node that sent it."""
    rows, coordinator = answer
    for row in rows:
        node = _node(row, coordinator)
        nodes[node.host_id or node.address] = node
    return coordinator


def _node(row: dict[str, Any], coordinator: str | None) -> NodeDiagnosis:
    def text(name: str) -> str | None:
        return None if row.get(name) is None else str(row[name])

    address = text("native_address") or text("rpc_address") or text("peer")
    port = text("native_port")
    if row.get("key") == "local" and coordinator:
        # `system.local` may have no port. But `coordinator` is the address and port at which this
        # node has answered.
        client_address = coordinator
    elif port and address:
        client_address = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    else:
        client_address = address or "unknown"
    return NodeDiagnosis(
        address=client_address,
        datacenter=text("data_center"),
        rack=text("rack"),
        version=text("release_version"),
        host_id=text("host_id"),
        schema_version=text("schema_version"),
    )


# The installation


def _compressions() -> tuple[str, ...]:
    hint = typing.get_type_hints(Config)["compression"]
    members = typing.get_args(hint)
    literals = [member for member in members if typing.get_origin(member) is typing.Literal]
    return tuple(name for literal in literals for name in typing.get_args(literal))


def _pgo() -> bool | None:
    import sysconfig

    options = sysconfig.get_config_var("CONFIG_ARGS")
    return None if not options else "--enable-optimizations" in options


def _python_build(pgo: bool | None) -> str:
    import platform

    pgo_texts = {None: "PGO unknown", True: "PGO", False: "no PGO"}
    parts = [platform.python_compiler(), pgo_texts[pgo]]
    if hasattr(sys, "gettotalrefcount"):
        parts.append("debug build")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        parts.append("without GIL")
    return ", ".join(parts)


def _platform() -> str:
    import platform

    return platform.platform()


def _libc() -> str | None:
    import platform
    import sysconfig

    name, version = platform.libc_ver()
    if name:
        return f"{name} {version}".strip()
    return "musl" if "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")) else None


def _cpus() -> int:
    return os.cpu_count() or 1


def _running_loop() -> Any:
    """The event loop that runs in this thread. If asyncio was not imported, none runs."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop_name(loop: Any, uvloop: str | None) -> str:
    loop_class = type(loop)
    name = f"{loop_class.__module__}.{loop_class.__qualname__}"
    return f"{name} (uvloop {uvloop})" if name.startswith("uvloop.") and uvloop else name


def _woken_by(loop: Any) -> str | None:
    from .._native import wake

    return None if loop is None else "thread" if wake.has_thread(loop) else _core.waker()


def _accelerate() -> str:
    # The accelerator is loaded only when it is requested.
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return "off"
    status = accel.status()
    calls = f"{status.native:,} calls native, {status.fallback:,} by the driver"
    return f"{'on' if status.on else 'off'}: {status.driver}; {calls}"
