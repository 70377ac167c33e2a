"""The types of the options of methods, and a line about each option for `help()`.

`src/options.rs`, in the native core, reads the options of a request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from ._checks import with_nearest

if TYPE_CHECKING:
    import os

    from .bulk import Progress
    from .cluster import Node, Replica
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
    custom_payload: Mapping[str, bytes] | None


class StatementOptions(BatchOptions, total=False):
    """The options of a statement: see `Session.execute`."""

    page_size: int | None


class CallOptions(StatementOptions, total=False):
    """The options of a statement, and the options that only `execute` has, not `execute_many`."""

    paging_state: bytes | None
    target: Node | Replica | None


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


_REQUEST = {
    "consistency": 'how many replicas must answer, as "ONE"; the session\'s by default',
    "timeout_s": "seconds until it times out, `math.inf` for never; the session's by default",
    "profile": "the name of an execution profile of the session",
}
_STATEMENT = {
    "serial_consistency": '"SERIAL" or "LOCAL_SERIAL", for conditions; the session\'s by default',
    **_REQUEST,
    "page_size": "rows per page of the result; the session's by default",
    "timestamp": "the write time, in microseconds since 1970",
    "idempotent": "whether the statement may be sent twice",
    "tracing": "whether the server records how it executes the request",
    "custom_payload": "names and bytes for a query handler of the server",
}
_ROWS = {
    "rows": 'the form of rows: "named", "tuple" or "dict"; the session\'s by default',
    "row": "a callable that makes an object of each row: a dataclass, for example",
}
_FILES = {
    "rename": "the names of columns of the table, by the names in the data",
    "columns": "the columns of the table that are used; all of the data by default",
    "nulls": 'whether a null leaves its column as it is ("unset") or deletes its value ("null")',
    "truncate_time": "whether a part of a time below the column's precision is dropped",
    "format": '"parquet", "csv", "jsonl" or "arrow"; by default from the suffix of the file',
    "csv": "a dict of the options of CSV files",
    "limit": "the number of rows of files that are read",
}
_READING = {
    "columns": "the columns that are read; all by default",
    "where": "a condition in CQL, by which the server filters",
    "values": "the values of the bind markers of `where`",
    "split": "a part of the table, from `splits`",
    "concurrency": "token ranges at a time; by default two for each node, from 4 to 32",
    "retry_for_s": "seconds to ask again for a page that cannot be read",
    "page_size": "rows per page, at most",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "execute": {
        **_STATEMENT,
        "paging_state": "continues a result: `Rows.paging_state` of an earlier page",
        "target": "the only node that gets the request: a `Node`, or a `Replica` with a shard",
        **_ROWS,
    },
    "load": {
        **_REQUEST,
        **_FILES,
        "ttl": "seconds until the values expire, or the name of a column of the data",
        "timestamp": "the write time in microseconds since 1970, or the name of a column",
        "concurrency": "requests in flight, at most",
        "adaptive": "whether the number of requests in flight follows the cluster",
        "rate_limit": 'rows per second, or bytes per second as in "20 MB"',
        "retry_for_s": "seconds to send a row again after a temporary error",
        "batches": 'whether rows of one partition share a batch; "auto" measures both ways',
        "batch_bytes": "bytes of the values of a batch, at most",
        "max_failures": "rows that may fail before the load ends",
        "max_errors": "in place of `max_failures`: rows, or a share of the rows below 1",
        "raise_failures": "whether a `BulkError` is raised if a row failed",
        "dry_run": "whether all rows are read and converted, and none is sent",
        "rejects": "the file that rows that failed are written to",
        "checkpoint": "the file that records which rows of files are written",
        "resume": 'the checkpoint to go on with; "auto": that of `checkpoint`, if it exists',
        "progress": "a callable that gets a `Progress` now and then; `True` shows a bar",
        "idempotent": "whether an INSERT may be sent twice",
    },
    "scan": {**_REQUEST, **_READING, **_ROWS},
    "unload": {
        **_REQUEST,
        **_READING,
        "format": _FILES["format"],
        "compression": "the compression of the files, if the format supports it",
        "files": "the number of files",
        "limit": "the number of rows, at most",
        "overwrite": "whether existing files are replaced",
        "progress": "a callable that gets a `Progress` now and then; `True` shows a bar",
    },
    "verify": {
        **_REQUEST,
        **_FILES,
        "sample": "the share of the rows that are looked up; all by default",
        "seed": "determines which rows are in the sample",
        "progress": "a callable that gets the number of rows read so far",
        "concurrency": "requests in flight, at most",
        "retry_for_s": "seconds to send a request again after a temporary error",
    },
}
"""Maps a method, and the name of one of its options, to a line about the option."""

F = TypeVar("F", bound=Callable[..., Any])


def spelled_out(
    options: Iterable[str], meanings: Mapping[str, str], defaults: Mapping[str, object]
) -> Callable[[F], F]:
    """Returns a decorator that makes `help()` show the options that `**options` stands for.

    The options with their defaults take the place of `**options` in the signature, and the
    docstring gets a list of `meanings`. Calls of the function are not changed. An option that
    `defaults` lacks is shown with the default `None`.
    """

    def spell_out(function: F) -> F:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()
        named = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name))
            for name in options
        ]
        function.__signature__ = signature.replace(parameters=parameters + named)  # type: ignore[attr-defined]
        with_meanings(function, {name: meanings[name] for name in options}, defaults)
        return function

    return spell_out


def checks_names(takes: str) -> Callable[[F], F]:
    """Returns a decorator that makes a method check the arguments of its calls.

    For an unknown option, or too many arguments by position, the call raises a `TypeError` that
    says what to pass. `takes` is the message for too many arguments.
    """

    def decorate(function: F) -> F:
        _, *parameters = inspect.signature(function).parameters.values()
        names = [each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY]
        count = sum(each.kind is not each.KEYWORD_ONLY for each in parameters)
        method = function.__name__

        def check(args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
            for name in options:
                if name not in names:
                    raise TypeError(with_nearest(f"{method} has no option {name!r}", name, names))
            if len(args) > count:
                raise TypeError(takes)

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def async_method(self: Any, /, *args: Any, **options: Any) -> Any:
                check(args, options)
                return await function(self, *args, **options)

            return cast("F", async_method)

        @wraps(function)
        def method_with_checks(self: Any, /, *args: Any, **options: Any) -> Any:
            check(args, options)
            return function(self, *args, **options)

        return cast("F", method_with_checks)

    return decorate


def with_meanings(
    documented: Any, meanings: Mapping[str, str], defaults: Mapping[str, object]
) -> None:
    """Appends a list of options to the docstring of a function or a class.

    Does nothing if there is no docstring, as under `python -OO`.
    """
    if documented.__doc__ is not None:
        lines = [
            f"- `{name}={_shown(defaults.get(name))}`: {meaning}"
            for name, meaning in meanings.items()
        ]
        text = inspect.cleandoc(documented.__doc__)
        documented.__doc__ = "\n".join([text, "", "Options, with their defaults:", "", *lines])


def _shown(default: object) -> str:
    if isinstance(default, Enum):
        return repr(default.value)
    return f"{type(default).__name__}()" if is_dataclass(default) else repr(default)
