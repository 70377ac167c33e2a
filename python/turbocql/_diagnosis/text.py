"""A diagnosis as a page of text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .collect import Diagnosis, NodeDiagnosis, QuickPath, SessionDiagnosis

__all__ = ["page"]


def page(of: Diagnosis) -> str:
    """The lines of a diagnosis, at most 100 characters wide."""
    lines = _table(_about(of))
    if of.session is not None:
        lines += ["", *_table(_about_session(of.session))]
    return "\n".join(lines)


def _about(of: Diagnosis) -> list[tuple[str, str]]:
    core = f"{of.core}, {of.core_profile}, {of.core_allocator} allocator"
    loop = of.event_loop or "none runs here"
    return [
        ("turbocql", f"{of.turbocql} in {of.folder}"),
        ("native core", core),
        ("quick paths", _quick(of.quick_paths)),
        ("engine", of.engine or "unknown"),
        ("engine edits", ", ".join(of.engine_edits) or "none: see edits/README.md of the sources"),
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
    lines += [("node", _about_node(node)) for node in of.nodes]
    return [*lines, *(("note", note) for note in of.notes)]


def _about_node(of: NodeDiagnosis) -> str:
    place = f"{of.datacenter or '?'}/{of.rack or '?'}"
    parts = [of.address, place, of.version or "?", f"host {of.host_id or '?'}"]
    parts.append(f"schema {of.schema_version or '?'}")
    if of.shards is not None:
        parts.append(f"{of.shards} shards")
    if of.extensions:
        parts.append(f"extensions {' '.join(of.extensions)}")
    return ", ".join(parts)


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
