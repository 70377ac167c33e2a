"""Tables as data sets of Ray Data: `read` makes a `Dataset`, `sink` makes a target for writing.

This module needs Ray and pyarrow: `pip install 'turbocql[ray]'`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._checks import with_nearest
from .._engines.parts import SINK_OPTIONS, needed
from .._options import MEANINGS, spelled_out
from .._transfer.load_options import DEFAULTS
from ..columns import ColumnTypes

if TYPE_CHECKING:
    import ray.data
    from typing_extensions import Unpack

    from .._options import LoadOptions
    from ..config import Config
    from ..workers import Environment, Profile

__all__ = ["read", "sink"]


def read(
    table: str,
    *,
    config: Config | Environment | Profile | str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    values: Sequence[Any] = (),
    parallelism: int | None = None,
    types: ColumnTypes | None = None,
    scan: Mapping[str, Any] | None = None,
    **resources: Any,
) -> ray.data.Dataset:
    """A table as a data set. When the data set is used, tasks read parts of the table.

    `config` says where the workers connect: see [`workers`][turbocql.workers.session]. `columns`,
    `where` and `values` are those of [`Session.scan`][turbocql.session.Session.scan]. `scan` is a
    mapping of further options of `Session.scan` to their values. It may have `page_size`,
    `consistency`, `timeout_s`, `retry_for_s` and `profile`. If you call `select_columns` on the
    data set, only these columns are read. If you call `limit`, the reading ends early.
    `parallelism` is the number of parts. By default, Ray chooses it, and turbocql reduces it for
    small tables. `types` selects Arrow types. `resources` are options of `read_datasource` for the
    read tasks, such as `num_cpus`, `memory`, `resources` and `concurrency` (how many tasks run at a
    time).

    Vectors of numbers become Ray's tensors, which are 2-D arrays in batches of NumPy. A row whose
    vector is null is then an error. With `types=turbocql.columns.ColumnTypes()`, vectors become
    lists, which may be null.

    A task reads its rows in the order of their tokens. So if Ray runs a lost task again, Ray can
    skip the blocks that it already has.

    Raises: `ConfigError` or `TypeError` when there is no such table or column, for invalid options,
        and when `config` contains a secret and may not be pickled; `ConnectError` when no node
        answers.
    """
    needed("ray", "ray.data")
    import ray.data

    from ._table import TableDatasource

    # `read_datasource` itself accepts options of any name.
    parameters = inspect.signature(ray.data.read_datasource).parameters.values()
    option_names = {
        parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    } - {"parallelism"}
    for name in resources:
        if name not in option_names:
            problem = f"read has no option {name!r}"
            raise TypeError(with_nearest(problem, name, option_names, "of Ray's, it has"))

    datasource = TableDatasource(
        table,
        config=config,
        columns=columns,
        where=where,
        values=values,
        parallelism=parallelism,
        types=types,
        scan=scan,
    )
    if parallelism is not None:
        resources["override_num_blocks"] = parallelism
    return ray.data.read_datasource(datasource, **resources)


@spelled_out(SINK_OPTIONS, MEANINGS["load"], DEFAULTS)
def sink(
    table: str,
    *,
    config: Config | Environment | Profile | str | None = None,
    rows_per_task: int | None = None,
    **options: Unpack[LoadOptions],
) -> Any:
    """A target for `Dataset.write_datasink`, which writes the rows of a data set to a table.

    `config` says where the workers connect: see [`workers`][turbocql.workers.session]. The options
    are those of [`Session.load`][turbocql.session.Session.load], such as `rename`, `columns`,
    `nulls`, `ttl`, `concurrency`, `rate_limit` (for each task, not for all together) and
    `consistency`. Options about files and reports are refused. Each task checks columns and types
    before it sends its first row.

    All rows have one write time, the beginning of the job, unless `timestamp` sets another. So a
    task that Ray runs again, on another worker, changes nothing. The time is the later of two
    times: this machine's and the server's. Rows of the data set with equal primary keys have the
    same time too, so the greater value of each cell stays. If the job writes lists that are not
    frozen, each run of a task has later write times than all earlier runs of the same task, and
    replaces their rows.

    A sink is for one job at a time. Its attribute `rows` is the number of rows that the last job
    wrote.

    Raises: `ConfigError` or `TypeError` for invalid options, and when `config` contains a secret
        and may not be pickled.
    """
    needed("ray", "ray.data")
    from ._table import TableDatasink

    return TableDatasink(table, config=config, rows_per_task=rows_per_task, **options)
