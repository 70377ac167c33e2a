"""What a diagnosis consists of, and how it is found out: what both faces have in common."""

from __future__ import annotations

import os
import sys
import textwrap
import typing
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from . import _core
from ._face import Face
from .config import Config
from .errors import Error, InvalidQuery

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
"""Seconds that one question to a server may take."""

_ROUNDS = 8
"""How often a cluster is asked for its nodes, until one and the same of them has told of all."""

Answer: TypeAlias = "tuple[list[dict[str, Any]], str | None] | Error"
"""Rows and who sent them, or why there are none."""


@dataclass(frozen=True)
class NodeDiagnosis:
    """A node, as the cluster tells of it."""

    address: str
    """`address:port` for clients; the port where the server tells it."""
    datacenter: str | None
    rack: str | None
    version: str | None
    host_id: str | None
    schema_version: str | None
    """Nodes that agree on the schema have the same."""


@dataclass(frozen=True)
class SessionDiagnosis:
    """A session, and the cluster that it is connected to."""

    closed: bool
    contact_points: tuple[str, ...]
    keyspace: str | None
    user_given: bool
    """Whether it has shown a user and password; they are not told."""
    compression: str | None
    in_flight: int
    """Requests on their way when the question was put."""
    prepared: int
    """Statements kept prepared for texts."""
    cluster_name: str | None
    server_version: str | None
    partitioner: str | None
    nodes: tuple[NodeDiagnosis, ...]
    """The cluster's nodes by their address. Empty when nobody could be asked."""
    notes: tuple[str, ...]
    """What could not be found out, and why."""


@dataclass(frozen=True)
class QuickPath:
    """A part of the native core that depends on the layouts of an interpreter's own objects.

    It is on for the interpreters that it was tested with, when it has passed a probe. Where it is
    off, values and results are the same and take longer.
    """

    name: str
    on: bool
    reason: str | None
    """Why it is off."""


@dataclass(frozen=True)
class Diagnosis:
    """What there is to know about this installation. `str()` of it is a page of text.

    It has no secrets: neither passwords nor values of environment variables. What cannot be told is
    `None`.
    """

    turbocql: str
    """Version."""
    folder: str
    """Where the package is."""
    core: str
    """File name of the native core, which says what it was built for."""
    core_version: str
    core_profile: str
    """How the native core was compiled, such as `release`."""
    core_allocator: str
    """Where its memory comes from."""
    quick_paths: tuple[QuickPath, ...]
    """Which parts of the native core read and make this interpreter's objects directly. `arrays`
    and `handles` are probed when they are first used, and count as on until then."""
    engine: str
    """Name and version of the network engine."""
    tls_backend: str
    """What encrypts connections."""
    compressions: tuple[str, ...]
    """What `compression` may be."""
    python: str
    """Implementation and version."""
    python_build: str
    """The compiler, and what is known about how the interpreter was optimized."""
    python_pgo: bool | None
    """Whether the interpreter was built with profile-guided optimization."""
    platform: str
    libc: str | None
    """Name and version."""
    cpus: int
    """Processors that this process may use."""
    event_loop: str | None
    """The loop that runs in this thread, if one does."""
    woken_by: str | None
    """How the native core wakes that loop, `eventfd` or `thread`; known once a request of the
    asynchronous face was awaited there."""
    numpy: str | None
    """Version that is installed."""
    uvloop: str | None
    """Version that is installed."""
    accelerate: str
    """What `turbocql.accelerate()` does in this process."""
    session: SessionDiagnosis | None

    def __str__(self) -> str:
        lines = [*_table(_about(self))]
        if self.session is not None:
            lines += ["", *_table(_about_session(self.session))]
        return "\n".join(lines)


Steps: TypeAlias = Generator[str, Answer, Diagnosis]
"""Yields statements, is sent answers, returns the diagnosis."""


def steps(session: Face | None, asynchronous: bool) -> Steps:
    """Finds out everything; whoever runs it asks the server."""
    asked = None if session is None else (yield from _session_steps(session))
    loop = _running_loop()
    told = asynchronous and asked is not None and bool(asked.nodes)
    from importlib.metadata import PackageNotFoundError, version

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    uvloop, pgo = installed("uvloop"), _pgo()
    return Diagnosis(
        turbocql=_core.VERSION,
        folder=os.path.dirname(__file__),
        core=os.path.basename(_core.__file__ or ""),
        core_version=_core.VERSION,
        core_profile=_core.BUILD_PROFILE,
        core_allocator=_core.ALLOCATOR,
        quick_paths=tuple(QuickPath(*path) for path in _core.quick_paths()),
        engine=f"scylla {_core.ENGINE_VERSION}",
        tls_backend=_core.TLS_BACKEND,
        compressions=_compressions(),
        python=f"{sys.implementation.name} {sys.version.split()[0]}",
        python_build=_python_build(pgo),
        python_pgo=pgo,
        platform=_platform(),
        libc=_libc(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cpus(),
        event_loop=None if loop is None else _loop_name(loop, uvloop),
        woken_by=_woken_by(loop) if told else None,
        numpy=installed("numpy"),
        uvloop=uvloop,
        accelerate=_accelerate(),
        session=asked,
    )


# The session


def _session_steps(session: Face) -> Generator[str, Answer, SessionDiagnosis]:
    config, in_flight = session.config, session.in_flight
    notes: list[str] = []
    local = yield from _first_local(notes)
    nodes = (yield from _nodes(notes)) if local else ()
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


def _first_local(notes: list[str]) -> Generator[str, Answer, dict[str, Any]]:
    answer = yield "SELECT cluster_name, release_version, partitioner FROM system.local"
    if isinstance(answer, Error):
        notes.append(f"system.local: {answer}")
        return {}
    return answer[0][0] if answer[0] else {}


def _nodes(notes: list[str]) -> Generator[str, Answer, tuple[NodeDiagnosis, ...]]:
    """All nodes. Each tells of itself in one table and of the others in another one, and the two
    questions may go to different nodes: so they are put until the answers make a whole.
    """
    nodes: dict[str, NodeDiagnosis] = {}
    told_itself: set[str | None] = set()
    told_others: set[str | None] = set()
    peers = "system.peers_v2"
    for _ in range(_ROUNDS):
        answer = yield "SELECT * FROM system.local"
        if isinstance(answer, Error):
            notes.append(f"system.local: {answer}")
            break
        told_itself.add(_keep(nodes, answer))
        answer = yield f"SELECT * FROM {peers}"
        if isinstance(answer, InvalidQuery) and peers == "system.peers_v2":
            # ScyllaDB, and Cassandra before 4.0, have only the older one.
            peers = "system.peers"
            answer = yield f"SELECT * FROM {peers}"
        if isinstance(answer, Error):
            notes.append(f"{peers}: {answer}")
            break
        told_others.add(_keep(nodes, answer))
        # Whoever tells of all others leaves out itself only, and so does another one.
        if len(told_others) > 1 or told_itself & told_others:
            break
    else:
        notes.append("different nodes have answered each time: one node may be missing")
    return tuple(sorted(nodes.values(), key=lambda node: node.address))


def _keep(
    nodes: dict[str, NodeDiagnosis], answer: tuple[list[dict[str, Any]], str | None]
) -> str | None:
    """Adds the nodes of an answer, and says who has given it."""
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
        # It does not tell its port; but it has answered there.
        where = coordinator
    elif port and address:
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    else:
        where = address or "unknown"
    return NodeDiagnosis(
        address=where,
        datacenter=text("data_center"),
        rack=text("rack"),
        version=text("release_version"),
        host_id=text("host_id"),
        schema_version=text("schema_version"),
    )


# The installation


def _compressions() -> tuple[str, ...]:
    hint = typing.get_type_hints(Config)["compression"]
    literals = [one for one in typing.get_args(hint) if typing.get_origin(one) is typing.Literal]
    return tuple(name for literal in literals for name in typing.get_args(literal))


def _pgo() -> bool | None:
    import sysconfig

    options = sysconfig.get_config_var("CONFIG_ARGS")
    return None if not options else "--enable-optimizations" in options


def _python_build(pgo: bool | None) -> str:
    import platform

    known = {None: "PGO unknown", True: "PGO", False: "no PGO"}
    parts = [platform.python_compiler(), known[pgo]]
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
    """The loop that runs in this thread. Where asyncio was not imported none does."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop_name(loop: Any, uvloop: str | None) -> str:
    kind = type(loop)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} (uvloop {uvloop})" if name.startswith("uvloop.") and uvloop else name


def _woken_by(loop: Any) -> str | None:
    from . import _notify

    return None if loop is None else "thread" if _notify.has_thread(loop) else "eventfd"


def _accelerate() -> str:
    # Whoever has not asked for it has not loaded it either.
    accel = sys.modules.get("turbocql.accel")
    if accel is None:
        return "off"
    status = accel.status()
    calls = f"{status.native:,} calls native, {status.fallback:,} by the driver"
    return f"{'on' if status.on else 'off'}: {status.driver}; {calls}"


# As text


def _about(of: Diagnosis) -> list[tuple[str, str]]:
    core = f"{of.core}, {of.core_profile}, {of.core_allocator} allocator"
    loop = of.event_loop or "none runs here"
    return [
        ("turbocql", f"{of.turbocql} in {of.folder}"),
        ("native core", core),
        ("quick paths", _quick(of.quick_paths)),
        ("engine", of.engine or "unknown"),
        ("TLS", of.tls_backend or "none"),
        ("compressions", ", ".join(of.compressions)),
        ("Python", f"{of.python}, {of.python_build}"),
        ("platform", f"{of.platform}, {of.libc or 'libc unknown'}, {of.cpus} processors"),
        ("event loop", f"{loop}, woken by {of.woken_by}" if of.woken_by else loop),
        ("numpy", of.numpy or "not installed"),
        ("uvloop", of.uvloop or "not installed"),
        ("accelerate()", of.accelerate),
    ]


def _quick(paths: tuple[QuickPath, ...]) -> str:
    off: dict[str, list[str]] = {}
    for path in paths:
        if not path.on:
            off.setdefault(path.reason or "switched off", []).append(path.name)
    if not off:
        return "all on"
    said = [f"{', '.join(names)} ({reason})" for reason, names in off.items()]
    whole = sum(map(len, off.values())) == len(paths)
    if whole and len(off) == 1:
        return f"all off ({next(iter(off))})"
    return f"off: {'; '.join(said)}; the others are on"


def _about_session(of: SessionDiagnosis) -> list[tuple[str, str]]:
    lines = [
        ("session", "closed" if of.closed else "open"),
        ("contact points", ", ".join(of.contact_points)),
        ("keyspace", of.keyspace or "none"),
        ("user", "given" if of.user_given else "none"),
        ("compression", of.compression or "none"),
        ("in flight", str(of.in_flight)),
        ("prepared", str(of.prepared)),
        ("cluster", of.cluster_name or "unknown"),
        ("server", of.server_version or "unknown"),
        ("partitioner", of.partitioner or "unknown"),
    ]
    for node in of.nodes:
        place = f"{node.datacenter or '?'}/{node.rack or '?'}"
        lines.append(
            (
                "node",
                f"{node.address}, {place}, {node.version or '?'}, host {node.host_id or '?'},"
                f" schema {node.schema_version or '?'}",
            )
        )
    return [*lines, *(("note", note) for note in of.notes)]


def _table(lines: list[tuple[str, str]]) -> list[str]:
    width = 16
    return [
        line
        for name, said in lines
        for line in textwrap.wrap(
            f"{name:{width}}{said}",
            100,
            subsequent_indent=" " * width,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
