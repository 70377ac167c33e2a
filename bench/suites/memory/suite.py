"""Measures resident memory while many rows are loaded and read back as record batches.

The rows are generated batch by batch, and each batch that is read is dropped, so the program itself
needs no more memory for more rows. The load and the scan each run in a process of their own in
`.venv-columns`, which has pyarrow. The process records its resident size every 20 ms. Memory is
flat if the second half of the run needs at most 16 MiB more than the first half. The first 5 % of
the rows are left out. With fewer than 1,000,000 rows the verdict says little. A row needs only some
60 bytes, so even if no row were ever freed, the rows might need less than 16 MiB.

Without a contact point, an embedded Cassandra is started. With `--keep` the table stays. The run
fails if memory is not flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import turbocql
from bench.harness import processes
from bench.harness.environments import python_in
from bench.harness.provenance import provenance
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.servers import JVM_OPTIONS
from bench.harness.suites import Options, Run, Suite
from bench.suites.memory.course import KEYSPACE, TABLE, Course
from turbocql.testing import Cassandra

__all__ = ["SUITE"]

ROWS = 5_000_000
DIRECTIONS = ("load", "scan")


def names(patterns: Sequence[str]) -> list[str]:
    """Returns both names if the patterns choose one, because a scan needs the rows of a load."""
    if any(chosen(direction, patterns, "memory") for direction in DIRECTIONS):
        return list(DIRECTIONS)
    return []


def run(options: Options) -> Run:
    """Measures the load, then the scan."""
    current = Run(SUITE.file, SUITE.subject)
    rows, contact_point = options.rows or ROWS, options.contact_point
    with (
        nullcontext()
        if contact_point
        else Cassandra(heap_mb=1024, jvm_options=JVM_OPTIONS) as cluster
    ):
        if cluster is not None:
            contact_point = cluster.contact_points[0]
        with turbocql.connect(contact_point, timeout_s=60) as session:
            _make_table(session)
            try:
                for direction in DIRECTIONS:
                    sampled = partial(_sampled, direction, rows, str(contact_point))
                    for sample in current.measure(direction, sampled):
                        _judge(current, _course(sample))
            finally:
                if not options.keep:
                    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    return current


def _sampled(direction: str, rows: int, contact_point: str) -> list[Sample]:
    (course,) = processes.samples(
        python_in(".venv-columns"),
        "bench.clients.turbocql.memory",
        *(direction, str(rows), contact_point),
    )
    about = {"suite": "memory", **provenance("turbocql", turbocql.__version__)}
    return [{**about, **course}]


def _course(sample: Sample) -> Course:
    return Course(**{name: sample[name] for name in Course.__dataclass_fields__})


def _judge(current: Run, course: Course) -> None:
    print("\n".join(course.lines()), flush=True)
    if not course.is_flat:
        current.fail(course.direction, "memory grew")


def _make_table(session: turbocql.Session) -> None:
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute(
        f"CREATE TABLE {TABLE} (k bigint PRIMARY KEY, name text, ratio double, at timestamp)"
    )


SUITE = Suite(
    "memory",
    "resident memory while many rows go in and out as columns",
    names,
    run,
    "columns_memory.jsonl",
    ("direction",),
    is_kept=False,
)
