"""Reads readings with Spark, computes the mean of each sensor, and writes the means to a table."""

import sys

import numpy as np
from pyspark.sql import SparkSession, functions

import turbocql
import turbocql.spark

point = sys.argv[1]
with turbocql.connect(point) as session:
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS with_spark WITH replication ="
        " {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS with_spark.readings"
        " (sensor int, at timestamp, value double, PRIMARY KEY (sensor, at))"
    )
    session.execute(
        "CREATE TABLE IF NOT EXISTS with_spark.means"
        " (sensor int PRIMARY KEY, mean double, n bigint)"
    )
    number = np.arange(50_000)
    readings = {
        "sensor": (number // 1000).astype(np.int32),
        "at": (1_760_000_000_000 + number % 1000 * 1000).astype("M8[ms]"),
        "value": number / 8,
    }
    session.load("with_spark.readings", readings)

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.python.filterPushdown.enabled", "true")
    .getOrCreate()
)
turbocql.spark.register(spark)
readings = spark.read.format("turbocql").option("url", point).load("with_spark.readings")
readings.printSchema()
means = readings.groupBy("sensor").agg(
    functions.avg("value").alias("mean"), functions.count("*").alias("n")
)
means.write.format("turbocql").mode("append").option("url", point).save("with_spark.means")
written = spark.read.format("turbocql").option("url", point).load("with_spark.means")
written.orderBy("sensor").select("sensor", "mean", "n").limit(3).show()

# A filter on the whole partition key: only these partitions are read.
few = spark.read.format("turbocql").option("url", point).option("push_filters", "true")
late = few.load("with_spark.readings").where("sensor in (7, 8) and at >= '2025-10-09 09:09:59'")
print(late.count(), "late readings of two sensors")
