"""Chooses the cases of requests and of columns that patterns name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bench.harness.selection import chosen
from bench.suites.columns.cases import column_cases
from bench.suites.requests.cases import (
    CLIENTS,
    COUNTERPARTS,
    FRAMES,
    LOADED,
    RAW,
    Case,
    request_cases,
)

__all__ = ["every_case", "named"]


def every_case() -> list[Case]:
    """Returns all cases of requests, then those of columns."""
    return [*request_cases(), *column_cases()]


_COMPARED_WITH = {
    **dict.fromkeys(
        ("tuples", "raw", "kept", "blobs", "ready", "byteswap", "copyto"),
        ("arrow", "stream", "numpy"),
    ),
    "numpy": FRAMES,
    "pandas": ("numpy", "polars"),
}
"""Maps a shape of scylla-driver or of a floor to the shapes of turbocql to compare with."""
_BESIDE = {**COUNTERPARTS, **{ours: theirs for theirs, ours in COUNTERPARTS.items()}}


def named(patterns: Iterable[str]) -> list[Case]:
    """Returns the cases that the patterns choose. A pattern without a client chooses all clients.

    A shape also chooses the shape that it is compared with. A client's full name chooses only that
    client: `turbocql` does not choose `turbocql-numpy`.
    """
    patterns = [pattern for pattern in patterns if pattern.strip()]
    return [
        case
        for case in every_case()
        if not patterns or any(_is_named(case, pattern) for pattern in patterns)
    ]


def _is_named(case: Case, pattern: str) -> bool:
    clients = [word for word in pattern.lower().split() if word in CLIENTS]
    if clients and case.client not in clients:
        return False
    shapes = [case.shape, _BESIDE.get(case.shape, case.shape)]
    if case.client in (RAW, "scylla-driver"):
        shapes += _COMPARED_WITH.get(case.shape, ())
    if case.client == RAW:
        shapes += FRAMES
    suites = ["requests", "end_to_end"]
    is_compared = case.client == "scylla-driver" and case.shape in _COMPARED_WITH
    if case.has_columns or case.scenario in LOADED or is_compared:
        suites.append("columns")
    return any(chosen(str(replace(case, shape=s)), [pattern], *suites) for s in shapes)
