"""Formats a diagnosis as a page of text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .collect import Diagnosis, NodeDiagnosis, QuickPath, SessionDiagnosis

__all__ = ["page", "quick_path_summary"]


def page(diagnosis: Diagnosis) -> str:
    """The text of a diagnosis. Lines are wrapped at 100 characters, but not within a word."""
    lines = _table(_about(diagnosis))
    if diagnosis.session is not None:
        lines += ["", *_table(_about_session(diagnosis.session))]
    return "\n".join(lines)


def _about(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    core = f"{diagnosis.core}, {diagnosis.core_profile}, {diagnosis.core_allocator} allocator"
    loop = diagnosis.event_loop or "none runs here"
    edits = ", ".join(diagnosis.engine_edits) or "none: see edits/README.md of the sources"
    libc = diagnosis.libc or "libc unknown"
    return [
        ("turbocql", f"{diagnosis.turbocql} in {diagnosis.folder}"),
        ("native core", core),
        ("quick paths", quick_path_summary(diagnosis.quick_paths)),
        ("engine", diagnosis.engine or "unknown"),
        ("engine edits", edits),
        ("TLS", diagnosis.tls_backend or "none"),
        ("compressions", ", ".join(diagnosis.compressions)),
        ("Python", f"{diagnosis.python}, {diagnosis.python_build}"),
        ("platform", f"{diagnosis.platform}, {libc}, {diagnosis.cpus} processors"),
        ("event loop", f"{loop}, woken by {diagnosis.woken_by}" if diagnosis.woken_by else loop),
        ("numpy", diagnosis.numpy or "not installed"),
        ("uvloop", diagnosis.uvloop or "not installed"),
        ("accelerate()", diagnosis.accelerate),
    ]


def quick_path_summary(paths: tuple[QuickPath, ...]) -> str:
    """Says which quick paths are off and why."""
    names_by_reason: dict[str, list[str]] = {}
    for path in paths:
        if not path.on:
            names_by_reason.setdefault(path.reason or "switched off", []).append(path.name)
    if not names_by_reason:
        return "all on"
    descriptions = [f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items()]
    are_all_off = sum(map(len, names_by_reason.values())) == len(paths)
    if are_all_off and len(names_by_reason) == 1:
        return f"all off ({next(iter(names_by_reason))})"
    return f"off: {'; '.join(descriptions)}; the others are on"


def _about_session(session: SessionDiagnosis) -> list[tuple[str, str]]:
    lines = [
        ("session", "closed" if session.closed else "open"),
        ("contact points", ", ".join(session.contact_points)),
        ("keyspace", session.keyspace or "none"),
        ("user", "given" if session.user_given else "none"),
        ("compression", session.compression or "none"),
        ("in flight", str(session.in_flight)),
        ("prepared", str(session.prepared)),
        ("cluster", session.cluster_name or "unknown"),
        ("server", session.server_version or "unknown"),
        ("partitioner", session.partitioner or "unknown"),
    ]
    lines += [("node", _about_node(node)) for node in session.nodes]
    return [*lines, *(("note", note) for note in session.notes)]


def _about_node(node: NodeDiagnosis) -> str:
    location = f"{node.datacenter or '?'}/{node.rack or '?'}"
    parts = [node.address, location, node.version or "?", f"host {node.host_id or '?'}"]
    parts.append(f"schema {node.schema_version or '?'}")
    if node.shards is not None:
        parts.append(f"{node.shards} shards")
    if node.extensions:
        parts.append(f"extensions {' '.join(node.extensions)}")
    return ", ".join(parts)


def _table(lines: list[tuple[str, str]]) -> list[str]:
    width = 16
    return [
        line
        for name, description in lines
        for line in textwrap.wrap(
            f"{name:{width}}{description}",
            100,
            subsequent_indent=" " * width,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
