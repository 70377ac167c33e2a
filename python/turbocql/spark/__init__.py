"""Tables as a data source of PySpark 4: `spark.read.format("turbocql")` and `df.write`.

Needs PySpark 4 and pyarrow: `pip install 'turbocql[spark]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engines.parts import needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Makes the format `turbocql` known to a session of Spark, for `spark.read` and `df.write`.

    Options, as texts: `table`, unless it is the path of `load` or `save`; where workers connect,
    as `url`, or `profile` and `profile_file`, or `environment` (a prefix), and `pickle_secrets`; to
    read, `columns`, `where`, `partitions`, `ranges` (token ranges that a task reads at a time, by
    default 2), `page_size`, `decimal` (`38,10`), `varint` (`int64`), `push_filters`; to write,
    those of [`Session.load`][turbocql.session.Session.load]; for both, `consistency`, `timeout_s`
    and `retry_for_s`. The guide has a table of them.

    Columns without a type in Spark are UUIDs, inets, decimals and varints as texts, times as
    numbers of nanoseconds, durations as structs, vectors as arrays.

    With `push_filters`, and Spark's setting `spark.sql.python.filterPushdown.enabled`, a query with
    equal values (or `IN`) for the whole partition key reads these partitions alone, and comparisons
    with clustering columns are left to the server. It is off because Spark (4.1 to 4.3) keeps the
    filters of one query for the next that uses the same loaded DataFrame, and twice in one query:
    rows would be missing. Use it on a DataFrame that is loaded for one query.

    Modes: `append` only. Rows with equal keys are replaced, and no others are deleted. All rows of
    a job have one write time, that of its beginning, unless `timestamp` says otherwise; so a task
    that Spark runs again changes nothing. The time is the later one of this machine's and the
    server's. Where a list is written that is not frozen, each run of a task has later times of its
    own, and replaces what the run before it has written.

    Raises: `ModuleNotFoundError` without PySpark. Reading and writing raise Spark's
        `AnalysisException` or `PythonException` with turbocql's error as text: `ConfigError` for
        options, `EncodeError` for columns that do not fit.

    Example:
        turbocql.spark.register(spark)
        readings = spark.read.format("turbocql").option("profile", "production").load("ks.readings")
    """
    needed("spark", "pyspark.sql.datasource", "pyarrow")
    from ._source import TableSource

    spark.dataSource.register(TableSource)
