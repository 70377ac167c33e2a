"""Tables as a data source of PySpark 4: `spark.read.format("turbocql")` and `df.write`.

This module needs PySpark 4 and pyarrow: `pip install 'turbocql[spark]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engines.parts import needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes the format `turbocql` known to a session of Spark, for `spark.read` and `df.write`.

    All options are texts. `table` names the table, or else the path passed to `load` or `save`. The
    workers connect by `url`, or by `profile` and `profile_file`, or by `environment` (the prefix of
    environment variables). With `pickle_secrets`, the `url` may have a password. The options to
    read are `columns`, `where`, `partitions`, `ranges` (how many token ranges a task reads at a
    time, by default 2), `page_size`, `decimal` (such as `38,10`), `varint` (such as `int64`) and
    `push_filters`. The options to write are those of
    [`Session.load`][turbocql.session.Session.load]. Reading and writing take `consistency`,
    `timeout_s` and `retry_for_s`. The guide on engines has a table of all options.

    UUIDs, inets, decimals and varints become texts, times become numbers of nanoseconds, durations
    become structs, and vectors become arrays, because no type of Spark has exactly their values.

    With `push_filters`, and Spark's setting `spark.sql.python.filterPushdown.enabled`, a query that
    compares the whole partition key by `=` or `IN` reads only the partitions with these keys. The
    server also evaluates comparisons with clustering columns. `push_filters` is off by default: if
    a loaded DataFrame is used twice, Spark 4.1 to 4.3 applies the filters of the first use to the
    second too, so rows would be missing. Set `push_filters` on a DataFrame that you use in one
    query only.

    Modes: `append` only. Rows with equal keys are replaced, and no other rows are deleted. All rows
    of a job have one write time, its beginning, unless `timestamp` sets another. So a task that
    Spark runs again changes nothing. The time is the later of two times: this machine's and the
    server's. If the job writes lists that are not frozen, each run of a task has later write times
    than all earlier runs of the same task, and replaces their rows.

    Raises: `ModuleNotFoundError` without PySpark. Reading and writing raise Spark's
        `AnalysisException` or `PythonException`, whose text has turbocql's error: `ConfigError` for
        options, `EncodeError` for columns that do not fit.

    Example:
        turbocql.spark.register(spark)
        readings = spark.read.format("turbocql").option("profile", "production").load("ks.readings")
    """
    needed("spark", "pyspark.sql.datasource", "pyarrow")
    from ._source import TableSource

    spark.dataSource.register(TableSource)
