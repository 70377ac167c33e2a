"""Results as columns: Arrow, NumPy, pandas and polars. The names here are provisional until 1.0.

`Rows` is a stream of Arrow record batches, which polars, pandas, pyarrow, duckdb and others can
read. pyarrow is imported only by `to_arrow()` and `to_pandas()`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from . import _core, errors

__all__ = ["AsyncBatches", "Batch", "Batches", "ColumnTypes"]

Batch = _core.Batch
"""A record batch: `num_rows`, `column_names`, and the Arrow PyCapsule interface."""

_DIGITS, _SCALES = 38, 127


@dataclass(frozen=True)
class ColumnTypes:
    """Selects the Arrow types of some CQL types, for consumers that lack the default types.

    The default types lose nothing. A value that does not fit its Arrow type raises `DecodeError`.
    """

    decimal: Literal["text"] | tuple[int, int] = "text"
    """Text as Python's `Decimal` writes it, or the precision and scale of a `decimal128`."""
    varint: Literal["text", "int64"] = "text"
    duration: Literal["struct", "interval"] = "struct"
    """A struct of `months`, `days` and `nanoseconds`, or Arrow's `month_day_nano_interval`."""
    uuid: Literal["uuid", "text"] = "uuid"
    """The extension type `arrow.uuid` (16 bytes), or text."""
    time: Literal["time64", "int64"] = "time64"
    """`time64` in nanoseconds, or the nanoseconds since midnight as a number."""
    text: Literal["text", "binary"] = "text"
    """`string`, which refuses texts that are not UTF-8, or `binary`, which accepts them."""
    tensors: bool = False
    """Whether vectors of numbers have the extension type `arrow.fixed_shape_tensor`."""

    def __post_init__(self) -> None:
        kinds = {
            "varint": ("text", "int64"),
            "duration": ("struct", "interval"),
            "uuid": ("uuid", "text"),
            "time": ("time64", "int64"),
            "text": ("text", "binary"),
        }
        for name, allowed in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                choices = " or ".join(map(repr, allowed))
                raise errors.ConfigError(f"{name} must be {choices}, got {value!r}")
        if type(self.tensors) is not bool:
            raise errors.ConfigError(f"tensors must be True or False, got {self.tensors!r}")
        if not isinstance(self.decimal, str) or self.decimal != "text":
            _check_decimal(self.decimal)

    @classmethod
    def spark(cls) -> ColumnTypes:
        """Types that Spark has: UUIDs as text, times as numbers of nanoseconds."""
        return cls(uuid="text", time="int64")

    def _profile(self) -> tuple[tuple[int, int] | None, list[bool]]:
        flags = [
            self.varint == "int64",
            self.duration == "interval",
            self.uuid == "text",
            self.time == "int64",
            self.text == "binary",
            self.tensors,
        ]
        return None if isinstance(self.decimal, str) else self.decimal, flags


def _check_decimal(decimal: Any) -> None:
    is_pair = isinstance(decimal, tuple) and [type(part) for part in decimal] == [int, int]
    if not is_pair or not 1 <= decimal[0] <= _DIGITS or not -_SCALES <= decimal[1] <= decimal[0]:
        raise errors.ConfigError(
            "decimal must be 'text' or a precision from 1 to 38 and a scale up to the precision,"
            f" got {decimal!r}"
        )


class Batches:
    """The record batches of a result: an iterator of `Batch`, and a stream of the Arrow PyCapsule
    interface.

    It contains the rows of one `Rows`, and can be read once.
    """

    def __init__(self, pages: Any, gatherer: _core.Gatherer, *, is_foreign: bool = True) -> None:
        self._pages, self._gatherer, self._is_foreign = pages, gatherer, is_foreign
        self._ready: list[Batch] = []
        self._ended = False
        self._use = ""
        """How the batches are read: "a stream", "an iterator", or empty before the first read."""

    def _start_reading(self, use: str) -> None:
        if self._use not in ("", use) or (use == "a stream" and self._use):
            raise errors.Error(f"these batches are already read, as {self._use}")
        self._use = use

    def __arrow_c_schema__(self) -> object:
        return self._gatherer.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._start_reading("a stream")
        return self._gatherer.stream(self._pages, self._is_foreign)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self._start_reading("an iterator")
        while not self._ready:
            if self._ended:
                raise StopIteration
            page = self._pages.next_page()
            _append_page(self, page)
        return self._ready.pop(0)


class AsyncBatches:
    """The record batches of a result, for `async for`."""

    def __init__(self, pages: Any, gatherer: _core.Gatherer) -> None:
        self._pages, self._gatherer = pages, gatherer
        self._ready: list[Batch] = []
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            page = await self._pages.next_page()
            _append_page(self, page)
        return self._ready.pop(0)


def _append_page(batches: Any, page: list[_core.RawPage] | None) -> None:
    """Gathers the rows of a page, and adds to `batches` each record batch that has become full.
    After the last page, `page` is `None`: then adds a batch of the rows that are in no batch yet.
    """
    if page is None:
        # If a page could not be gathered, `finish` raises the error of that page once more.
        last_batch = batches._gatherer.finish()
        batches._ended = True
        batches._ready += [] if last_batch is None else [last_batch]
        return
    for raw in page:
        batches._ready += batches._gatherer.append(raw)
