"""The data source of PySpark that reads and writes tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from .._checks import with_nearest
from .._engines.parts import Reading, Writing, checked_count, reading, writing
from ..columns import ColumnTypes
from ..config import Config
from ..errors import ConfigError, EncodeError
from ..tables import Split
from ..workers import Environment, Profile
from ._filters import Keys, pushed

__all__ = ["TableSource"]

_BYTES_PER_PARTITION = 64 << 20
_MIN_PARTITIONS, _MAX_PARTITIONS = 16, 10_000


class TableSource(DataSource):  # type: ignore[misc]
    """The data source `turbocql`. The docstring of `register` lists its options."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "turbocql"

    def schema(self) -> StructType:
        """The columns of the table in Spark's types."""
        plain = pa.schema([_plain_field(field) for field in self._reading(None).schema()])
        return from_arrow_schema(plain)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Makes a reader of the columns in `schema`, which may be only some of the table's."""
        table_reading = self._reading(schema.fieldNames())
        count = _number("partitions", self.options.get("partitions"))
        is_filtering = _flag("push_filters", self.options.get("push_filters", "false"))
        # Spark refuses a reader with `pushFilters` if Spark's setting for this is off.
        kind = _FilteringReader if is_filtering else _Reader
        return kind(table_reading, schema, checked_count("partitions", count, 100_000))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Makes a writer of rows. The write time is the time of this call, unless an option sets
        another.

        Raises: `ConfigError` for the mode `overwrite`; `EncodeError` when a column or its type does
            not fit the table.
        """
        if overwrite:
            raise ConfigError(
                "turbocql writes with mode('append') only: rows with equal keys are replaced, and"
                " no others are deleted"
            )
        settings, table, option_texts = self._split_options()
        for name in _READ_ONLY:
            if option_texts.pop(name, None) is not None:
                raise ConfigError(f"the option {name!r} is for reading")
        table_writing = writing(table, settings, _typed(option_texts))
        no_rows = pa.Table.from_batches([], to_arrow_schema(schema, timezone="UTC"))
        try:
            return _Writer(table_writing.begun(no_rows))
        except EncodeError as error:
            raise EncodeError(f"{error}. In Spark: select, cast or withColumnRenamed") from error

    def _reading(self, columns: Sequence[str] | None) -> Reading:
        settings, table, option_texts = self._split_options()
        for name in ("partitions", "push_filters"):
            option_texts.pop(name, None)
        for name in _WRITE_ONLY:
            if option_texts.pop(name, None) is not None:
                raise ConfigError(f"the option {name!r} is for writing")
        types = _types(option_texts.pop("decimal", None), option_texts.pop("varint", None))
        listed = option_texts.pop("columns", None)
        if columns is None and listed is not None:
            columns = [name.strip() for name in listed.split(",")]
        options: dict[str, Any] = {**_typed(option_texts), "columns": columns}
        if "ranges" in options:
            options["concurrency"] = options.pop("ranges")
        return reading(table, settings, types, options)

    def _split_options(self) -> tuple[Config | Environment | Profile, str, dict[str, str]]:
        """Returns the settings, the table's name, and the texts of all other options."""
        option_texts = {name.lower(): text for name, text in dict(self.options).items()}
        if any(name.startswith("option.") for name in option_texts):
            # PySpark 4.3 passes options with such names only for a table in the catalog. It passes
            # them to `schema`, but passes no options to `reader`, so the table cannot be read.
            raise ConfigError(
                "a table in Spark's catalog cannot be read, because Spark passes no options to its"
                " reader: use CREATE TEMPORARY VIEW ... USING turbocql OPTIONS (...)"
            )
        path = option_texts.pop("path", None)
        table = option_texts.pop("table", path)
        if table is None:
            raise ConfigError("name the table: option('table', 'keyspace.table')")
        settings = _settings(option_texts)
        unknown = option_texts.keys() - _ALL_OPTIONS
        if unknown:
            name, names = sorted(unknown)[0], sorted({*_ALL_OPTIONS, *_CONNECTION_OPTIONS, "table"})
            raise ConfigError(with_nearest(f"unknown option {name!r}", name, names, "there are"))
        return settings, table, option_texts


_CONNECTION_OPTIONS = ("url", "profile", "profile_file", "environment", "pickle_secrets")
_READ_ONLY: tuple[str, ...] = (
    "columns",
    "where",
    "partitions",
    "decimal",
    "varint",
    "ranges",
    "page_size",
)
_READ_ONLY += ("push_filters",)
_WRITE_ONLY: tuple[str, ...] = (
    "nulls",
    "ttl",
    "timestamp",
    "truncate_time",
    "concurrency",
    "rate_limit",
)
_WRITE_ONLY += ("max_errors", "batches", "batch_bytes")
_ALL_OPTIONS = {*_READ_ONLY, *_WRITE_ONLY, "consistency", "timeout_s", "retry_for_s"}
_INTEGERS = ("ranges", "page_size", "concurrency", "batch_bytes")
_NUMBERS = ("timeout_s", "retry_for_s")
_FLAGS = ("truncate_time",)


def _settings(option_texts: dict[str, str]) -> Config | Environment | Profile:
    """Removes the connection options from the options, and returns the settings."""
    url, profile = option_texts.pop("url", None), option_texts.pop("profile", None)
    file, prefix = option_texts.pop("profile_file", None), option_texts.pop("environment", None)
    secrets = _flag("pickle_secrets", option_texts.pop("pickle_secrets", "false"))
    if [url is None, profile is None and file is None, prefix is None].count(False) != 1:
        raise ConfigError("set one of the options url, profile (or profile_file) and environment")
    if url is not None:
        return Config.from_url(url if "://" in url else f"cql://{url}", pickle_secrets=secrets)
    if prefix is not None:
        return Environment(prefix)
    return Profile(profile or "default", file)


def _types(decimal: str | None, varint: str | None) -> ColumnTypes:
    digits: Any = "text"
    if decimal not in (None, "text"):
        try:
            precision, _, scale = str(decimal).partition(",")
            digits = (int(precision), int(scale or "0"))
        except ValueError:
            raise ConfigError(f"decimal must be like 38,10 or text, got {decimal!r}") from None
    numbers: Any = varint or "text"
    return replace(ColumnTypes.spark(), decimal=digits, varint=numbers)


def _typed(option_texts: Mapping[str, str]) -> dict[str, Any]:
    """Converts the texts of options to keyword arguments of a session's methods."""
    typed_options: dict[str, Any] = {}
    for name, text in option_texts.items():
        if name in _INTEGERS:
            typed_options[name] = _number(name, text)
        elif name in _NUMBERS:
            typed_options[name] = _number(name, text, float)
        elif name in _FLAGS:
            typed_options[name] = _flag(name, text)
        elif name == "max_errors":
            typed_options[name] = (
                int(text) if re.fullmatch("[0-9]+", text) else _number(name, text, float)
            )
        elif name == "batches":
            typed_options[name] = text if text == "auto" else _flag(name, text)
        elif name in ("ttl", "timestamp", "rate_limit"):
            # The text is a number, the name of a column, or a rate in bytes.
            typed_options[name] = int(text) if text.lstrip("-").isdigit() else text
        else:
            typed_options[name] = text
    return typed_options


def _number(name: str, text: str | None, kind: Any = int) -> Any:
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"the option {name} must be a number, got {text!r}") from None


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"the option {name} must be true or false, got {text!r}")
    return text.lower() == "true"


@dataclass
class _Part(InputPartition):  # type: ignore[misc]
    """A part of the table, or, if `split` is `None`, a query of one of the table's partitions."""

    split: Split | None
    values: tuple[Any, ...] = ()


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, table_reading: Reading, schema: StructType, count: int | None) -> None:
        self._reading = table_reading
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._count = count
        self._keys: Keys | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """The parts of the table to read, or the partitions to query."""
        if self._keys is not None and self._keys.bind_values_by_partition:
            return [_Part(None, values) for values in self._keys.bind_values_by_partition]
        count = self._count
        if count is None:
            sizes = [split.size_bytes or 0 for split in self._reading.splits(_MIN_PARTITIONS)]
            count = sum(sizes) // _BYTES_PER_PARTITION
            count = max(_MIN_PARTITIONS, min(_MAX_PARTITIONS, count))
        return [_Part(split) for split in self._reading.splits(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part as record batches of exactly Spark's types."""
        for batch in self._batches(partition):
            columns = [_cast_to_field(batch.column(field.name), field) for field in self._schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _batches(self, part: Any) -> Iterator[pa.RecordBatch]:
        table_reading, keys = self._reading, self._keys
        if part.split is None and keys is not None:
            return table_reading.query(keys.where, part.values)
        if keys is not None and keys.where:
            table_reading = replace(
                table_reading,
                options={**table_reading.options, "where": keys.where, "values": keys.values},
            )
        return table_reading.batches(part.split)


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Uses filters that the server can evaluate, and returns the other filters for Spark."""
        if "where" in self._reading.options:
            return filters
        self._keys, remaining_filters = pushed(filters, self._reading.columns())
        return remaining_filters


def _plain(kind: pa.DataType) -> pa.DataType:
    """Converts an Arrow type to a type that Spark has. An extension type becomes its storage type,
    a list of fixed length becomes a list of any length, and a timestamp gets the unit microsecond.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type))


def _cast_to_field(array: pa.Array, field: pa.Field) -> pa.Array:
    """An array cast to the type of Spark's field, without loss."""
    if array.null_count and not field.nullable:
        raise ConfigError(f"column {field.name!r} has nulls, and is NOT NULL in the schema")
    if array.type.equals(field.type):
        return array
    try:
        _check_types(array.type, field.type)
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigError(
            f"column {field.name!r}: {array.type} of the table is not {field.type} of the schema:"
            f" {error}"
        ) from error


def _check_types(source: pa.DataType, target: pa.DataType) -> None:
    """Raises `ArrowInvalid` if a cast might silently lose a part of a value. In a cast of structs,
    Arrow matches fields by name, and makes missing fields null. So two structs must have the same
    fields.
    """
    types = pa.types
    if isinstance(source, pa.BaseExtensionType):
        _check_types(source.storage_type, target)
    elif types.is_struct(source) and types.is_struct(target):
        names = [[field.name for field in kind] for kind in (source, target)]
        if names[0] != names[1]:
            raise pa.ArrowInvalid(f"the fields are {names[0]}, not {names[1]}")
        for source_field, target_field in zip(source, target, strict=True):
            _check_types(source_field.type, target_field.type)
    elif types.is_map(source) and types.is_map(target):
        _check_types(source.key_type, target.key_type)
        _check_types(source.item_type, target.item_type)
    elif hasattr(source, "value_type") and hasattr(target, "value_type"):
        _check_types(source.value_type, target.value_type)
    elif (
        (types.is_float64(source) and types.is_float32(target))
        or (types.is_boolean(target) and not types.is_boolean(source))
        or (types.is_timestamp(source) and types.is_date(target))
    ):
        raise pa.ArrowInvalid(
            "this may lose a part of a value: read the table's own type, and cast it in Spark"
        )


@dataclass
class _TaskRows(WriterCommitMessage):  # type: ignore[misc]
    rows: int


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, table_writing: Writing) -> None:
        self._writing = table_writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the batches of a task."""
        filled = (batch for batch in iterator if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return _TaskRows(0)
        return _TaskRows(self._writing.load(itertools.chain([first], filled)).succeeded)
