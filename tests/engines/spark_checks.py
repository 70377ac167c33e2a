"""Tables as a data source of Spark, local with two threads: run by `tests.engines.run`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.engines.rows import rows_of, sums_of_arrow, table_of, total
from tests.engines.support import (
    EXPECTED,
    POINTS,
    ROWS,
    check_faults,
    check_table,
    new_table,
    refused,
    said,
)

import turbocql
import turbocql.spark

WORKER = "pyspark.daemon"
SCHEMA = "part int, id long, bucket int, name string, ratio double, at timestamp, emb array<float>"


def generated(spark: SparkSession) -> Any:
    """The rows, made by the workers."""

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = table_of(batch.column("id").to_numpy())
            emb = table.column("emb").cast(pa.list_(pa.float32()))
            at = table.column("at").cast(pa.timestamp("us", "UTC"))
            for name, column in (("emb", emb), ("at", at)):
                table = table.set_column(table.schema.get_field_index(name), name, column)
            yield from table.to_batches()

    return spark.range(0, ROWS, 1, 16).mapInArrow(made, SCHEMA)


def table_as(spark: SparkSession, table: str, **options: Any) -> Any:
    read = spark.read.format("turbocql").option("url", ",".join(POINTS))
    return read.options(**options).load(table)


def read_sums(spark: SparkSession, table: str, **options: Any) -> Any:
    """What Spark's workers find in a table."""

    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            count, ids, checksum = sums_of_arrow(batch)
            made = {"count": [count], "ids": [str(ids)], "checksum": [str(checksum)]}
            yield pa.RecordBatch.from_pydict(made)

    data = table_as(spark, table, **options)
    rows = data.mapInArrow(sums, "count long, ids string, checksum string").collect()
    return total((row["count"], int(row["ids"]), int(row["checksum"])) for row in rows)


def write(spark: SparkSession, table: str) -> None:
    written = generated(spark).write.format("turbocql").mode("append")
    written.option("url", ",".join(POINTS)).save(table)


def main() -> None:
    # Four tries of a task: in local mode Spark gives up after the first.
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    turbocql.spark.register(spark)

    began, table = time.time(), new_table("spark")
    write(spark, table)
    check_table(table)
    said("spark writes", began)

    began = time.time()
    assert read_sums(spark, table) == EXPECTED
    assert read_sums(spark, table, partitions=3) == EXPECTED
    said("spark reads", began)
    check_features(spark, table)

    check_faults("spark", WORKER, table, partial(read_sums, spark), partial(write, spark))
    spark.stop()


def check_features(spark: SparkSession, table: str) -> None:
    """Projection, conditions, filters on keys, modes and refusals."""
    data = table_as(spark, table)
    assert data.count() == ROWS
    assert [it.simpleString() for it in data.schema] == [
        *("part:int", "id:bigint", "at:timestamp", "bucket:int", "emb:array<float>", "name:string"),
        "ratio:double",
    ]
    some = table_as(spark, table, columns="id,bucket", where="bucket = 7")
    assert some.columns == ["id", "bucket"]
    assert sorted(row.id for row in some.collect()) == list(range(7, ROWS, 1000))
    part = spark.read.format("turbocql").option("url", ",".join(POINTS)).schema("id long")
    assert part.load(table).selectExpr("sum(id)").first()[0] == EXPECTED.ids

    # Two of the three partitions are there; nothing but these is read.
    began = time.time()
    few = table_as(spark, table, push_filters="true")
    few = few.where(f"part in (0, 1, {ROWS}) and id >= 198 and id < 202")
    expected = rows_of(range(198, 202))
    found = few.orderBy("id").collect()
    assert [row.name for row in found] == list(expected["name"])
    assert [row.emb for row in found] == expected["emb"].tolist()
    said("spark reads by key", began)
    # Without the option the same DataFrame can be used with and without a filter.
    assert data.where("part = 0 and id = 5").count() == 1
    assert data.count() == ROWS

    check_types(spark)
    for options, what in (
        ({"url": "cql://u:secret@h"}, "pickle_secrets"),
        ({"url": POINTS[0], "partition": "3"}, "unknown option 'partition'"),
        ({"url": POINTS[0], "ttl": "3"}, "is for writing"),
        ({}, "set one of the options url"),
    ):
        read = spark.read.format("turbocql").options(**options)
        told = refused(partial(read.load, table), AnalysisException, what)
        assert "secret@" not in told
    over = data.write.format("turbocql").mode("overwrite").option("url", POINTS[0])
    refused(partial(over.save, table), AnalysisException, "append")


def check_types(spark: SparkSession) -> None:
    """Types that the table has not, empty keys, and tables of Spark's catalog."""
    with turbocql.connect(POINTS) as session:
        session.execute("CREATE TYPE IF NOT EXISTS engines.place (street text, number int)")
        session.execute("DROP TABLE IF EXISTS engines.odd_types")
        session.execute(
            "CREATE TABLE engines.odd_types (k text PRIMARY KEY, d double, b bigint, t timestamp,"
            " p place)"
        )
        session.execute(
            "INSERT INTO engines.odd_types (k, d, b, t, p) VALUES"
            " ('a', 1e300, 2, '2024-01-05 00:56:12Z', {street: 's', number: 1})"
        )
        session.execute("INSERT INTO engines.odd_types (k) VALUES ('b')")
    read = spark.read.format("turbocql").option("url", ",".join(POINTS))
    for schema, what in (
        ("d float", "lose"),
        ("b boolean", "lose"),
        ("t date", "lose"),
        ("p struct<a: string, number: int>", "fields"),
        ("d double NOT NULL", "NOT NULL"),
    ):
        refused(read.schema(schema).load("engines.odd_types").collect, Exception, what)
    # A NOT NULL column alone would be left out by Spark, were it not read.
    found = read.schema("k string, b int").load("engines.odd_types").orderBy("k").collect()
    assert [tuple(row) for row in found] == [("a", 2), ("b", None)]
    pushing = read.option("push_filters", "true").load("engines.odd_types")
    assert pushing.where("k = ''").count() == 0
    assert (
        read.option("push_filters", "true")
        .load("engines.odd_types")
        .where("k in ('a', '')")
        .count()
        == 1
    )
    options = f"(url '{','.join(POINTS)}', table 'engines.odd_types')"
    create = partial(spark.sql, f"CREATE TABLE odd_types USING turbocql OPTIONS {options}")
    refused(create, AnalysisException, "CREATE TEMPORARY VIEW")
    spark.sql(f"CREATE TEMPORARY VIEW odd_types USING turbocql OPTIONS {options}")
    assert spark.sql("SELECT p.street FROM odd_types WHERE k = 'a'").first()[0] == "s"
    spark.catalog.dropTempView("odd_types")


if __name__ == "__main__":
    main()
