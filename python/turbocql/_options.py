"""The types of a call's options. The native core reads the options: `src/options.rs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from .bulk import Progress
    from .config import RowsAs
    from .policies import Consistency, ConsistencyName, SerialConsistencyName
    from .tables import Split


class BatchOptions(TypedDict, total=False):
    """The options of a batch: see `Session.execute`."""

    consistency: Consistency | ConsistencyName | None
    serial_consistency: Consistency | SerialConsistencyName | None
    timeout_s: float | None
    timestamp: int | None
    idempotent: bool | None
    tracing: bool | None
    profile: str | None


class StatementOptions(BatchOptions, total=False):
    """The options of a statement: see `Session.execute`."""

    page_size: int | None


class CallOptions(StatementOptions, total=False):
    """The options of a statement, and the options that only a single call has."""

    paging_state: bytes | None


class ExecuteOptions(CallOptions, total=False):
    """The options of a call, and the form of its rows."""

    rows: RowsAs | None
    row: Callable[..., Any] | None


class LoadOptions(TypedDict, total=False):
    """The options of a load."""

    rename: Mapping[str, str] | None
    columns: Sequence[str] | None
    nulls: Literal["unset", "null"]
    ttl: int | str | None
    timestamp: int | str | None
    truncate_time: bool
    format: Literal["parquet", "csv", "jsonl", "arrow"] | None
    csv: Mapping[str, Any] | None
    concurrency: int
    adaptive: bool
    rate_limit: float | str | None
    retry_for_s: float
    batches: Literal["auto"] | bool
    batch_bytes: int
    max_failures: int
    max_errors: float | None
    raise_failures: bool
    limit: int | None
    dry_run: bool
    rejects: str | os.PathLike[str] | None
    checkpoint: str | os.PathLike[str] | None
    resume: str | os.PathLike[str] | None
    progress: Callable[[Progress], object] | bool | None
    consistency: Consistency | ConsistencyName | None
    timeout_s: float | None
    idempotent: bool | None
    profile: str | None


class ScanCallOptions(TypedDict, total=False):
    """The options of a scan, except the form of its rows."""

    columns: Sequence[str] | None
    where: str | None
    values: Sequence[Any]
    split: Split | None
    concurrency: int | None
    retry_for_s: float
    consistency: Consistency | ConsistencyName | None
    timeout_s: float | None
    page_size: int | None
    profile: str | None


class ScanOptions(ScanCallOptions, total=False):
    """The options of a scan."""

    rows: RowsAs | None
    row: Callable[..., Any] | None


class VerifyOptions(TypedDict, total=False):
    """The options of a comparison."""

    rename: Mapping[str, str] | None
    columns: Sequence[str] | None
    nulls: Literal["unset", "null"]
    truncate_time: bool
    format: Literal["parquet", "csv", "jsonl", "arrow"] | None
    csv: Mapping[str, Any] | None
    limit: int | None
    sample: float | None
    seed: int
    progress: Callable[[int], object] | None
    concurrency: int
    retry_for_s: float
    consistency: Consistency | ConsistencyName | None
    timeout_s: float | None
    profile: str | None


class UnloadOptions(TypedDict, total=False):
    """The options of an unload."""

    columns: Sequence[str] | None
    where: str | None
    values: Sequence[Any]
    split: Split | None
    format: Literal["parquet", "csv", "jsonl", "arrow"] | None
    compression: Literal["zstd", "snappy", "gzip", "lz4", "brotli", "none"] | None
    files: int
    limit: int | None
    overwrite: bool
    concurrency: int | None
    retry_for_s: float
    consistency: Consistency | ConsistencyName | None
    timeout_s: float | None
    page_size: int | None
    profile: str | None
    progress: Callable[[Progress], object] | bool | None
