"""Options of a request, packed for the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable

    from .config import RowsAs
    from .policies import Consistency


class StatementOptions(TypedDict, total=False):
    """What a statement may be sent under: see `Session.execute`."""

    consistency: Consistency | str | None
    serial_consistency: Consistency | str | None
    timeout_s: float | None
    page_size: int | None
    timestamp: int | None
    idempotent: bool | None
    tracing: bool | None
    profile: str | None


class CallOptions(StatementOptions, total=False):
    """What one call may be sent under."""

    paging_state: bytes | None


class ExecuteOptions(CallOptions, total=False):
    """The same, and what its rows are to be."""

    rows: RowsAs | None
    row: Callable[..., Any] | None


def pack(
    *,
    consistency: Consistency | str | None = None,
    serial_consistency: Consistency | str | None = None,
    timeout_s: float | None = None,
    page_size: int | None = None,
    timestamp: int | None = None,
    idempotent: bool | None = None,
    tracing: bool | None = None,
    profile: str | None = None,
    **unknown: object,
) -> dict[str, Any] | None:
    """`None` when every option is the session's."""
    if unknown:
        known = ", ".join(StatementOptions.__annotations__)
        raise TypeError(f"unknown option {next(iter(unknown))!r}; the options are {known}")
    packed = {
        "consistency": consistency,
        "serial_consistency": serial_consistency,
        "timeout_s": timeout_s,
        "page_size": page_size,
        "timestamp": timestamp,
        "idempotent": idempotent,
        "tracing": tracing,
        "profile": profile,
        "paging_state": None,
    }
    return None if all(value is None for value in packed.values()) else packed
