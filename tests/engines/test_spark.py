"""Tests tables as a Spark data source, in local mode with two threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.engines.rows import Sums, rows_of, sums_as_texts, table_of, total_of_texts
from tests.engines.support import VICTIMS, Faults, Tables, during

import turbocql
import turbocql.spark

pytestmark = pytest.mark.cassandra

WORKER = "pyspark.daemon"
SCHEMA = "part int, id long, bucket int, name string, ratio double, at timestamp, emb array<float>"
ODD = "engines.odd_types"

Frame = Any
"""A Spark DataFrame. mypy does not know Spark's types."""


@pytest.fixture(scope="module")
def spark(environment: None) -> Iterator[SparkSession]:
    # "local[2,4]" allows four attempts per task. In local mode the default is one.
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    turbocql.spark.register(session)
    yield session
    session.stop()


class Source:
    """Reads and writes tables with Spark."""

    def __init__(self, spark: SparkSession, tables: Tables, points: list[str]) -> None:
        self.spark, self.tables, self.url = spark, tables, ",".join(points)

    def reader(self) -> Any:
        return self.spark.read.format("turbocql").option("url", self.url)

    def frame(self, table: str, **options: Any) -> Frame:
        return self.reader().options(**options).load(table)

    def sums(self, table: str, **options: Any) -> Sums:
        """Returns the sums of a table as read by Spark's workers."""

        def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield pa.RecordBatch.from_pydict(sums_as_texts(batch))

        data = self.frame(table, **options)
        texts = data.mapInArrow(sums, "count long, ids string, checksum string")
        return total_of_texts(texts.collect())

    def write(self, table: str) -> None:
        """Writes the generated rows. Spark's workers make them with `table_of`."""

        def generated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = table_of(batch.column("id").to_numpy())
                emb = rows.column("emb").cast(pa.list_(pa.float32()))
                at = rows.column("at").cast(pa.timestamp("us", "UTC"))
                for name, column in (("emb", emb), ("at", at)):
                    rows = rows.set_column(rows.schema.get_field_index(name), name, column)
                yield from rows.to_batches()

        rows = self.spark.range(0, self.tables.count, 1, 16).mapInArrow(generated, SCHEMA)
        rows.write.format("turbocql").mode("append").option("url", self.url).save(table)


@pytest.fixture(scope="module")
def source(spark: SparkSession, tables: Tables, points: list[str]) -> Source:
    return Source(spark, tables, points)


@pytest.fixture(scope="module")
def table(source: Source, tables: Tables) -> str:
    """Returns the name of a table with all rows, which Spark has written."""
    name = tables.new("spark")
    source.write(name)
    return name


def test_writes(table: str, tables: Tables) -> None:
    tables.check(table)


@pytest.mark.parametrize("options", [{}, {"partitions": 3}], ids=["default", "partitions-3"])
def test_reads(options: dict[str, Any], table: str, source: Source, tables: Tables) -> None:
    assert source.sums(table, **options) == tables.expected


# Operations on a data source


def test_counts(table: str, source: Source, count: int) -> None:
    assert source.frame(table).count() == count


def test_schema(table: str, source: Source) -> None:
    assert [field.simpleString() for field in source.frame(table).schema] == [
        *("part:int", "id:bigint", "at:timestamp", "bucket:int", "emb:array<float>", "name:string"),
        "ratio:double",
    ]


def test_columns_and_conditions(table: str, source: Source, count: int) -> None:
    some = source.frame(table, columns="id,bucket", where="bucket = 7")
    assert some.columns == ["id", "bucket"]
    assert sorted(row.id for row in some.collect()) == list(range(7, count, 1000))


def test_a_schema_of_the_user(table: str, source: Source, tables: Tables) -> None:
    part = source.reader().schema("id long").load(table)
    assert part.selectExpr("sum(id)").first()[0] == tables.expected.ids


def test_filters_on_keys_are_pushed(table: str, source: Source, count: int) -> None:
    # The filter names three partitions, of which two exist.
    few = source.frame(table, push_filters="true")
    few = few.where(f"part in (0, 1, {count}) and id >= 198 and id < 202")
    expected = rows_of(range(198, 202))
    rows = few.orderBy("id").collect()
    assert [row.name for row in rows] == list(expected["name"])
    assert [row.emb for row in rows] == expected["emb"].tolist()


def test_filters_that_are_not_pushed(table: str, source: Source, count: int) -> None:
    # Without the option `push_filters`, a filter does not change what later uses of the same
    # DataFrame return.
    data = source.frame(table)
    assert data.where("part = 0 and id = 5").count() == 1
    assert data.count() == count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "cql://u:secret@h"}, "pickle_secrets"),
        ({"url": "POINT", "partition": "3"}, "unknown option 'partition'"),
        ({"url": "POINT", "ttl": "3"}, "is for writing"),
        ({}, "set one of the options url"),
    ],
    ids=["secret", "unknown", "for-writing", "no-url"],
)
def test_wrong_options_are_refused(
    options: dict[str, str], message: str, table: str, spark: SparkSession, points: list[str]
) -> None:
    if options.get("url") == "POINT":
        options = {**options, "url": points[0]}
    read = spark.read.format("turbocql").options(**options)
    with pytest.raises(AnalysisException, match=message) as refused:
        read.load(table)
    assert "secret@" not in str(refused.value)


def test_overwriting_is_refused(table: str, source: Source) -> None:
    over = source.frame(table).write.format("turbocql").mode("overwrite").option("url", source.url)
    with pytest.raises(AnalysisException, match="append"):
        over.save(table)


# Lossy types, nulls, empty keys, and tables of Spark's catalog


@pytest.fixture(scope="module")
def odd(source: Source, config: turbocql.Config) -> Source:
    """Returns the source. Creates the table `ODD`, which has a user-defined type and nulls."""
    with turbocql.connect(config=config) as session:
        session.execute("CREATE TYPE IF NOT EXISTS engines.place (street text, number int)")
        session.execute(f"DROP TABLE IF EXISTS {ODD}")
        session.execute(
            f"CREATE TABLE {ODD} (k text PRIMARY KEY, d double, b bigint, t timestamp, p place)"
        )
        session.execute(
            f"INSERT INTO {ODD} (k, d, b, t, p) VALUES"
            " ('a', 1e300, 2, '2024-01-05 00:56:12Z', {street: 's', number: 1})"
        )
        session.execute(f"INSERT INTO {ODD} (k) VALUES ('b')")
    return source


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("d float", "lose"),
        ("b boolean", "lose"),
        ("t date", "lose"),
        ("p struct<a: string, number: int>", "fields"),
        ("d double NOT NULL", "NOT NULL"),
    ],
)
def test_types_that_lose_values_are_refused(schema: str, message: str, odd: Source) -> None:
    rows = odd.reader().schema(schema).load(ODD)
    with pytest.raises(Exception, match=message):
        rows.collect()


def test_nulls(odd: Source) -> None:
    rows = odd.reader().schema("k string, b int").load(ODD).orderBy("k").collect()
    assert [tuple(row) for row in rows] == [("a", 2), ("b", None)]


@pytest.mark.parametrize(("condition", "rows"), [("k = ''", 0), ("k in ('a', '')", 1)])
def test_empty_keys(condition: str, rows: int, odd: Source) -> None:
    assert odd.frame(ODD, push_filters="true").where(condition).count() == rows


def test_tables_of_the_catalog_are_refused(odd: Source) -> None:
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        odd.spark.sql(
            f"CREATE TABLE odd_types USING turbocql OPTIONS (url '{odd.url}', table '{ODD}')"
        )


def test_temporary_views(odd: Source) -> None:
    odd.spark.sql(
        f"CREATE TEMPORARY VIEW odd_types USING turbocql OPTIONS (url '{odd.url}', table '{ODD}')"
    )
    try:
        assert odd.spark.sql("SELECT p.street FROM odd_types WHERE k = 'a'").first()[0] == "s"
    finally:
        odd.spark.catalog.dropTempView("odd_types")


# Faults


@pytest.mark.parametrize("victim", VICTIMS)
def test_reads_while_killed(
    victim: str, table: str, source: Source, tables: Tables, faults: Faults
) -> None:
    read = partial(source.sums, table)
    assert during(faults.of(victim, WORKER, 0.5), read) == tables.expected


@pytest.mark.parametrize("victim", VICTIMS)
def test_writes_while_killed(victim: str, source: Source, tables: Tables, faults: Faults) -> None:
    name = tables.new(f"spark_{victim}")
    during(faults.of(victim, WORKER, 2.0), partial(source.write, name))
    tables.check(name)
