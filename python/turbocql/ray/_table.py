"""The classes of Ray Data that read and write tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasink, Datasource, ReadTask

from .._checks import with_nearest
from .._engines.parts import Reading, Writing, checked_count, reading, writing
from ..columns import ColumnTypes
from ..errors import EncodeError
from ..tables import Split
from ._fit import fitted

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import LoadOptions
    from ..config import Config
    from ..workers import Environment, Profile

__all__ = ["TableDatasink", "TableDatasource"]

_BYTES_PER_TASK = 8 << 20
"""Ray asks for 200 tasks or more, even for little data. But a task with fewer bytes than this costs
more time than it saves, so a small table gets fewer tasks."""
_MIN_TASKS = 16
_UNIT_BYTES, _MAX_UNIT, _MIN_UNIT = 1 << 20, 1024, 16
"""A unit is a number of rows: as many as `_UNIT_BYTES` contain, but at least `_MIN_UNIT` and at
most `_MAX_UNIT`. The number of rows in a block is a multiple of the unit, except in the last block
of a task."""
_OPTIONS = ("page_size", "consistency", "timeout_s", "retry_for_s", "profile")
"""The scan options of a task. If a worker dies, Ray runs its task again, and skips as many blocks
as Ray already has. So the order of rows must not change, and `concurrency` is not among the
options."""


class TableDatasource(Datasource):  # type: ignore[misc]
    """A table as a source of `ray.data.read_datasource`. The options are those of `read`."""

    def __init__(
        self,
        table: str,
        *,
        config: Config | Environment | Profile | str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        values: Sequence[Any] = (),
        parallelism: int | None = None,
        types: ColumnTypes | None = None,
        scan: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        checked_count("parallelism", parallelism, 100_000)
        for name in scan or ():
            if name not in _OPTIONS:
                raise TypeError(with_nearest(f"scan has no option {name!r} here", name, _OPTIONS))
        options = {**(scan or {}), "columns": columns, "where": where}
        if values:
            options["values"] = values
        # Ray converts columns of fixed-shape tensors to arrays.
        types = ColumnTypes(tensors=True) if types is None else types
        self._reading = reading(table, config, types, options)
        self._schema = self._reading.schema()
        row_bytes = self._reading.row_bytes() or 1
        self._unit = max(_MIN_UNIT, min(_MAX_UNIT, _UNIT_BYTES // row_bytes))
        self._parallelism = parallelism
        self._splits: list[Split] | None = None
        # In this attribute, Ray stores the columns that a query of Ray needs.
        self._projection_map: dict[str, str] | None = None

    def get_name(self) -> str:
        """The name of the read tasks."""
        return f"Turbocql({self._reading.table})"

    def supports_projection_pushdown(self) -> bool:
        """Returns True: a read task reads only the columns that a query of Ray needs."""
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """Returns the nodes' estimate of the table's size on disk, or `None` without estimates."""
        sizes = [split.size_bytes for split in self._parts(_MIN_TASKS)]
        reported_sizes = [size for size in sizes if size is not None]
        return sum(reported_sizes) if reported_sizes else None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[ReadTask]:
        """A task for each part of the table."""
        size = self.estimate_inmemory_data_size()
        if self._parallelism is None:
            parallelism = min(parallelism, max(_MIN_TASKS, (size or 0) // _BYTES_PER_TASK))
        names = None if self._projection_map is None else list(self._projection_map)
        selected_reading, schema = self._reading, self._schema
        if names is not None:
            # If the query needs no column, the first column is read, because a block without
            # columns would have no rows.
            names = names or self._schema.names[:1]
            schema = pa.schema([schema.field(name) for name in names])
            selected_reading = selected_reading.selecting(names)
        return [
            ReadTask(
                partial(_blocks, selected_reading, split, self._unit, per_task_row_limit, schema),
                BlockMetadata(
                    num_rows=None, size_bytes=split.size_bytes, input_files=None, exec_stats=None
                ),
                schema=schema,
                per_task_row_limit=per_task_row_limit,
            )
            for split in self._parts(parallelism)
        ]

    def _parts(self, parallelism: int) -> list[Split]:
        if self._splits is None or len(self._splits) != parallelism:
            self._splits = self._reading.splits(parallelism)
        return self._splits


def _blocks(
    reading: Reading, split: Split, unit: int, limit: int | None, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Reads the rows of a part of the table. Ray calls this function on a worker."""
    is_empty = True
    tensors = [field.name for field in schema if isinstance(field.type, pa.FixedShapeTensorType)]
    for table in reading.in_order(split, unit, limit):
        for name in tensors:
            if table.column(name).null_count:
                raise EncodeError(
                    f'column "{name}": a row has no vector, and Ray\'s tensors have no nulls: read'
                    " with types=turbocql.columns.ColumnTypes(), which makes lists of vectors"
                )
        is_empty = False
        yield table.select(schema.names)
    if is_empty:
        yield pa.Table.from_batches([], schema)


class TableDatasink(Datasink):  # type: ignore[misc]
    """The target to which a data set is written. `sink` makes it."""

    def __init__(
        self,
        table: str,
        *,
        config: Config | Environment | Profile | str | None = None,
        rows_per_task: int | None = None,
        **options: Unpack[LoadOptions],
    ) -> None:
        self._unstarted = writing(table, config, options)
        self._writing: Writing | None = None
        self._rows_per_task = checked_count("rows_per_task", rows_per_task, 2**31 - 1)
        self.rows: int | None = None
        """The number of rows of the last write; `None` before one has ended."""

    def get_name(self) -> str:
        """The name of the write tasks."""
        return f"Turbocql({self._unstarted.table})"

    @property
    def min_rows_per_write(self) -> int | None:
        """The minimum number of rows per write task; `None` leaves the number to Ray."""
        return self._rows_per_task

    def on_write_start(self, schema: Any = None) -> None:
        """Chooses the write time, before the first task begins.

        Raises: `ConfigError` when there is no such table.
        """
        # The schema is not used: if Ray fuses the write with earlier operations, `schema` describes
        # the input of the first operation. Each task checks its columns before it sends a row.
        self.rows = None
        self._writing = self._unstarted.begun()

    def write(self, blocks: Iterable[Any], ctx: Any) -> int:
        """Writes the blocks of a task; returns the number of rows."""
        if self._writing is None:
            raise RuntimeError("on_write_start was not called")
        writing, rename = self._writing, self._writing.options.get("rename") or {}
        types = {name: writing.types.get(rename.get(name, name)) for name in rename}
        types = {**writing.types, **types}
        tables = (
            fitted(_plain(BlockAccessor.for_block(block).to_arrow()), types) for block in blocks
        )
        return self._writing.load(table for table in tables if table.num_rows).succeeded

    def on_write_complete(self, write_result: Any) -> None:
        """Adds up the rows of all tasks."""
        self.rows = sum(write_result.write_returns)


def _plain(table: pa.Table) -> pa.Table:
    """The table with Ray's own tensor columns replaced by their storage."""
    for index, field in enumerate(table.schema):
        if type(field.type).__module__.startswith("ray."):
            table = table.set_column(index, field.name, _storage(table.column(index)))
    return table


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind, dimensions = column.type.storage_type, getattr(column.type, "ndim", None)
    if dimensions is None:
        dimensions = len(column.type.shape)
    if dimensions != 1:
        raise EncodeError(f"tensors of {dimensions} dimensions are no vectors: reshape them first")
    chunks = [chunk.storage for chunk in column.chunks]
    if pa.types.is_struct(kind) and [field.name for field in kind] == ["data", "shape"]:
        # Ray stores tensors of different shapes as structs. If the tensors are one-dimensional, the
        # field `data` has the vectors.
        kind = kind.field("data").type
        chunks = [chunk.field("data") for chunk in chunks]
    return pa.chunked_array(chunks, kind)
