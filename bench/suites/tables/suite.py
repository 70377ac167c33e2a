"""Measures loads and unloads of whole tables with turbocql, dsbulk and cqlsh's COPY.

All tools use CSV files, and turbocql also Parquet. Each sample comes from a new process. All
processes use one node of the embedded Cassandra. A sample has the number of rows, the wall-clock
time, the processor time of the client and of the node, and the client's largest resident size.

Two of the tools are floors, in which turbocql does only a part of a load. The tool `parse` reads
the CSV file, as a load does, and writes nothing. The tool `ready` loads the same rows from Arrow
data in memory. The sum of their times is the floor of a load of CSV.

After each load, and after each unload to CSV, the suite counts the written rows.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import turbocql
from bench.harness import processes
from bench.harness.environments import ROOT, python_in
from bench.harness.processes import Failed
from bench.harness.provenance import provenance
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.servers import JVM_OPTIONS
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite, say
from bench.harness.usage import processor_s
from bench.suites.tables.cases import SHAPES
from turbocql.testing import Cassandra

__all__ = ["SUITE"]

ROWS, ROUNDS = 1_000_000, 3
PROGRAM = "bench.clients.turbocql.tables"
CQLSH = ".venv-cqlsh/bin/cqlsh"
DSBULK = "build/dsbulk/*"


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the tables that the patterns choose."""
    return [name for name in SHAPES if chosen(name, patterns, "tables")]


def _command(
    tool: str, task: str, shape: str, point: str, directory: Path, count: int
) -> list[str]:
    """Returns the command of a sample."""
    host, _, port = point.rpartition(":")
    source = directory / f"{shape}.csv"
    target = directory / "out.csv"
    if tool == "cqlsh":
        names = f"whole.{shape} ({', '.join(SHAPES[shape].types)})"
        if task == "load":
            statement = f"COPY {names} FROM '{source}' WITH HEADER = TRUE"
            if shape == "vectors":
                # By default cqlsh puts rows of several partitions into batches that are too large.
                statement += " AND MAXBATCHSIZE = 1 AND MINBATCHSIZE = 1"
        else:
            statement = f"COPY {names} TO '{target}' WITH HEADER = TRUE"
        return [str(ROOT / CQLSH), host, port, "--request-timeout=600", "-e", statement]
    if tool == "dsbulk":
        common = ["-h", host, "-port", port, "-k", "whole", "-t", shape, "-header", "true"]
        url = str(source) if task == "load" else str(directory / "dsbulk")
        runner = "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader"
        logs = ["-logDir", str(directory / "logs")]
        return ["java", "-cp", str(ROOT / DSBULK), runner, task, *common, "-url", url, *logs]
    form = "parquet" if tool == "turbocql-parquet" else "csv"
    path = directory / (f"{shape}.{form}" if task != "unload" else f"out.{form}")
    what = {"parse": "parse", "ready": "ready", "turbocql-apart": "apart"}.get(tool, task)
    arguments = (what, shape, point, str(path), str(count))
    return processes.command(python_in(".venv-columns"), PROGRAM, *arguments)


def _sampled(
    tool: str, task: str, shape: str, node: Any, directory: Path, count: int
) -> list[Sample]:
    """Runs the process of one sample, and checks what the process has written."""
    with turbocql.connect(node.contact_point, timeout_s=60) as session:
        if task == "load":
            session.execute(f"TRUNCATE whole.{shape}")
    for path in (directory / "out.csv", directory / "out.parquet"):
        path.unlink(missing_ok=True)
    shutil.rmtree(directory / "dsbulk", ignore_errors=True)
    before = processor_s(node.pid)
    command = _command(tool, task, shape, node.contact_point, directory, count)
    text, usage, wall = processes.with_usage(command)
    figures: Sample = {"tool": tool, "task": task, "shape": shape, "rows": count}
    figures |= {"whole_wall_s": wall, "whole_cpu_s": usage.ru_utime + usage.ru_stime}
    figures |= {"peak_mib": usage.ru_maxrss / 1024, "node_cpu_s": processor_s(node.pid) - before}
    lines = text.strip().splitlines()
    times = json.loads(lines[-1]) if tool not in ("cqlsh", "dsbulk") else {}
    figures |= {
        "wall_s": times.get("wall_s", wall),
        "cpu_s": times.get("cpu_s", figures["whole_cpu_s"]),
    }
    _check(tool, task, shape, node.contact_point, directory, count)
    version = {"cqlsh": "6.2.2", "dsbulk": "1.10.0"}.get(tool, turbocql.__version__)
    return [{**provenance(tool, version), **figures}]


def _check(tool: str, task: str, shape: str, point: str, directory: Path, count: int) -> None:
    if tool == "parse":
        return
    if task == "load":
        key = SHAPES[shape].key
        with turbocql.connect(point, timeout_s=60) as session:
            batches = session.scan(f"whole.{shape}", columns=[key]).batches()
            rows = sum(len(batch) for batch in batches)
    elif tool == "turbocql-parquet":
        return
    else:
        files = sorted((directory / "dsbulk").glob("*.csv")) or [directory / "out.csv"]
        # Each line ends with an LF, and no cell contains one. The first line has the column names.
        rows = sum(sum(1 for _ in path.open("rb")) - 1 for path in files)
    if rows != count:
        raise Failed(f"{tool} {task}: {rows} rows, not {count}")


def run(options: Options) -> Run:
    """Measures the loads and unloads of each chosen table; the tools take turns."""
    current = Run(SUITE.file, SUITE.subject)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cassandra(heap_mb=1024, jvm_options=JVM_OPTIONS) as cluster,
    ):
        _execute(
            cluster.nodes[0],
            "CREATE KEYSPACE whole WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        for name in names(options.patterns):
            _measure(current, options, name, cluster.nodes[0], Path(folder))
    print("\n".join(_medians(current.samples)))
    return current


def _measure(current: Run, options: Options, name: str, node: Any, directory: Path) -> None:
    shape, count = SHAPES[name], int((options.rows or ROWS) * SHAPES[name].share)
    # Only one table exists at a time, because dsbulk cannot read a schema with vectors.
    _execute(node, f"CREATE TABLE whole.{name} ({shape.columns})")
    arguments = ("files", name, str(directory), str(count))
    processes.output(processes.command(python_in(".venv-columns"), PROGRAM, *arguments))
    # The samples of these loads are dropped: Cassandra is slow until its JVM has compiled its code.
    for _ in range(2):
        _sampled("ready", "load", name, node, directory, count)
    steps = [("load", tool) for tool in shape.loads] + [("unload", tool) for tool in shape.unloads]
    for _, (task, tool) in turns(steps, options.rounds or ROUNDS):
        sampled = partial(_sampled, tool, task, name, node, directory, count)
        for sample in current.measure(f"{name} {task} {tool}", sampled):
            say(_line(tool, task, [sample]))
    _execute(node, f"DROP TABLE whole.{name}")
    for path in directory.glob(f"{name}.*"):
        path.unlink()


def _execute(node: Any, statement: str) -> None:
    with turbocql.connect(node.contact_point, timeout_s=60) as session:
        session.execute(statement)


def _medians(samples: list[Sample]) -> list[str]:
    keys = dict.fromkeys((sample["shape"], sample["task"], sample["tool"]) for sample in samples)
    return [
        _line(
            tool,
            task,
            [
                sample
                for sample in samples
                if (sample["shape"], sample["task"], sample["tool"]) == key
            ],
        )
        for key in keys
        for _, task, tool in [key]
    ]


def _line(tool: str, task: str, samples: list[Sample]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(sample[name] for sample in samples))

    rows = samples[0]["rows"]
    return (
        f"{samples[0]['shape']:10} {task:7} {tool:17} {rows / median('wall_s'):>10,.0f} rows/s"
        f" {median('cpu_s') / rows * 1e6:8.2f} us of CPU a row,"
        f" whole process {median('whole_cpu_s') / rows * 1e6:8.2f},"
        f" node {median('node_cpu_s') / rows * 1e6:8.2f}, {median('peak_mib'):7.0f} MiB"
    )


SUITE = Suite(
    "tables",
    "files into whole tables and out of them, beside dsbulk and cqlsh",
    names,
    run,
    "whole_tables.jsonl",
    ("shape",),
)
