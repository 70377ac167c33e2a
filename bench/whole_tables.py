"""Loads and unloads of whole tables: turbocql beside dsbulk and cqlsh's COPY, interleaved.

    .venv/bin/python bench/whole_tables.py [--rows N] [--rounds N] [--tools NAME ...]

Rows are (bigint, text, double, timestamp), in CSV for all and in Parquet for turbocql too. Each
sample is a process of its own against one embedded Cassandra. It has the rows a second, the
processor time of the client and of the node, and the client's largest resident size. *parse* only
reads the CSV file as a load does; *ready* loads the same rows from Arrow in memory: together they
are the floor of a load of CSV. What was written is counted after each sample. Samples go to
`build/bench/whole_tables.jsonl`, and a table of medians is printed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# turbocql is installed in its own environment only; its module fits interpreters of one version.
sys.path.append(str(Path(__file__).parents[1] / "python"))

from timing import provenance

import turbocql
from turbocql.testing import Cassandra

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
PYTHON = str(ROOT / ".venv-columns" / "bin" / "python")
CQLSH = str(ROOT / ".venv-cqlsh" / "bin" / "cqlsh")
DSBULK = str(ROOT / "build" / "dsbulk" / "*")
SAMPLES = ROOT / "build" / "bench" / "whole_tables.jsonl"
TABLE = "whole.rows"
COLUMNS = "k bigint PRIMARY KEY, name text, ratio double, at timestamp"
TIMEOUT_S = 3600
Sample = dict[str, Any]


def generated(count: int) -> Any:
    """The rows, as a `pyarrow.Table`."""
    import pyarrow as pa

    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    at = [start + datetime.timedelta(seconds=number) for number in range(count)]
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "name": [f"name {number}" for number in range(count)],
            "ratio": [number / 7 for number in range(count)],
            "at": pa.array(at, pa.timestamp("ms", "UTC")),
        }
    )


def make(directory: str, count: int) -> None:
    """Writes the files that are loaded."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet

    table = generated(count)
    pyarrow.parquet.write_table(table, f"{directory}/rows.parquet", row_group_size=100_000)
    texts = pc.strftime(table["at"].cast(pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%SZ")
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    pyarrow.csv.write_csv(
        table.set_column(3, "at", texts), f"{directory}/rows.csv", write_options=options
    )


def act(what: str, point: str, path: str, count: int) -> None:
    """One of turbocql's samples, in a process of its own. The time it names is its work alone."""
    from turbocql._files import open_source

    types = {"k": "bigint", "name": "text", "ratio": "double", "at": "timestamp"}
    if what == "parse":
        source = open_source(path, types=types)
        began = _now()
        assert sum(len(batch) for _, batch in source.batches()) == count
        _told(began)
        return
    data: Any = generated(count) if what == "ready" else path
    with turbocql.connect(point, timeout_s=60) as session:
        began = _now()
        if what == "unload":
            assert session.unload(TABLE, path).rows == count
        else:
            assert session.load(TABLE, data).succeeded == count
        _told(began)


def _now() -> tuple[float, float]:
    times = os.times()
    return time.perf_counter(), times.user + times.system


def _told(began: tuple[float, float]) -> None:
    wall, cpu = (now - before for now, before in zip(_now(), began, strict=True))
    print(json.dumps({"wall_s": wall, "cpu_s": cpu}))


def command(tool: str, task: str, point: str, directory: Path, count: int) -> list[str]:
    """What is run for a sample."""
    host, _, port = point.rpartition(":")
    source = directory / "rows.csv"
    target = directory / "out.csv"
    if tool == "cqlsh":
        names = "(k, name, ratio, at)"
        if task == "load":
            statement = f"COPY {TABLE} {names} FROM '{source}' WITH HEADER = TRUE"
        else:
            statement = f"COPY {TABLE} {names} TO '{target}' WITH HEADER = TRUE"
        return [CQLSH, host, port, "--request-timeout=600", "-e", statement]
    if tool == "dsbulk":
        keyspace, _, table = TABLE.partition(".")
        common = ["-h", host, "-port", port, "-k", keyspace, "-t", table, "-header", "true"]
        place = str(source) if task == "load" else str(directory / "dsbulk")
        runner = "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader"
        logs = ["-logDir", str(directory / "logs")]
        return ["java", "-cp", DSBULK, runner, task, *common, "-url", place, *logs]
    form = "parquet" if tool == "turbocql-parquet" else "csv"
    path = directory / (f"rows.{form}" if task != "unload" else f"out.{form}")
    what = {"parse": "parse", "ready": "ready"}.get(tool, task)
    return [PYTHON, __file__, "--act", what, point, str(path), str(count)]


def sample(tool: str, task: str, node: Any, directory: Path, count: int) -> Sample:
    """Runs one process, and checks what it did."""
    with turbocql.connect(node.contact_point, timeout_s=60) as session:
        if task == "load":
            session.execute(f"TRUNCATE {TABLE}")
    for left in (directory / "out.csv", directory / "out.parquet"):
        left.unlink(missing_ok=True)
    shutil.rmtree(directory / "dsbulk", ignore_errors=True)
    before, began = _processor_s(node.pid), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            command(tool, task, node.contact_point, directory, count),
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        _, status, usage = os.wait4(running.pid, 0)
        wall = time.perf_counter() - began
        said.seek(0)
        text = said.read()
    if status:
        raise SystemExit(f"{tool} {task} failed: {text[-2000:]}")
    made: Sample = {"tool": tool, "task": task, "rows": count, "whole_wall_s": wall}
    made |= {"whole_cpu_s": usage.ru_utime + usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}
    made["node_cpu_s"] = _processor_s(node.pid) - before
    lines = text.strip().splitlines()
    own = json.loads(lines[-1]) if tool not in ("cqlsh", "dsbulk") else {}
    made |= {"wall_s": own.get("wall_s", wall), "cpu_s": own.get("cpu_s", made["whole_cpu_s"])}
    _check(tool, task, node.contact_point, directory, count)
    return {**provenance(tool, turbocql.__version__), **made}


def _check(tool: str, task: str, point: str, directory: Path, count: int) -> None:
    if tool == "parse":
        return
    if task == "load":
        with turbocql.connect(point, timeout_s=60) as session:
            found = sum(len(batch) for batch in session.scan(TABLE, columns=["k"]).batches())
    elif tool == "turbocql-parquet":
        return
    else:
        files = sorted((directory / "dsbulk").glob("*.csv")) or [directory / "out.csv"]
        found = sum(sum(1 for _ in path.open("rb")) - 1 for path in files)
    if found != count:
        raise SystemExit(f"{tool} {task}: {found} rows, not {count}")


def _processor_s(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """What the command line asks for."""
    tools = ["turbocql-csv", "turbocql-parquet", "parse", "ready", "cqlsh", "dsbulk"]
    if sys.argv[1:2] == ["--act"]:
        what, point, path, count = sys.argv[2:]
        act(what, point, path, int(count))
        return
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", nargs="*", default=tools, choices=tools)
    given = parser.parse_args()
    taken: list[Sample] = []
    with tempfile.TemporaryDirectory() as made, Cassandra(heap_mb=1024) as cluster:
        directory = Path(made)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        rows = ["--make", made, str(given.rows)]
        subprocess.run([PYTHON, __file__, *rows], check=True, env=environment)
        with turbocql.connect(cluster.contact_points) as session:
            session.execute(
                "CREATE KEYSPACE whole WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
            session.execute(f"CREATE TABLE {TABLE} ({COLUMNS})")
        SAMPLES.parent.mkdir(parents=True, exist_ok=True)
        # The node compiles its code while it works: the first load would be the slowest.
        for _ in range(2):
            sample("ready", "load", cluster.nodes[0], directory, given.rows)
        for _ in range(given.rounds):
            for task in ("load", "unload"):
                for tool in given.tools:
                    if task == "unload" and tool in ("parse", "ready"):
                        continue
                    found = sample(tool, task, cluster.nodes[0], directory, given.rows)
                    taken.append(found)
                    with SAMPLES.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(found) + "\n")
                    print(_line(tool, task, [found]), file=sys.stderr, flush=True)
    for task in ("load", "unload"):
        for tool in given.tools:
            same = [it for it in taken if (it["tool"], it["task"]) == (tool, task)]
            if same:
                print(_line(tool, task, same))


def _line(tool: str, task: str, taken: list[Sample]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(it[name] for it in taken))

    rows = taken[0]["rows"]
    return (
        f"{task:7} {tool:17} {rows / median('wall_s'):>10,.0f} rows/s"
        f" {median('cpu_s') / rows * 1e6:8.2f} us of CPU a row,"
        f" whole process {median('whole_cpu_s') / rows * 1e6:8.2f},"
        f" node {median('node_cpu_s') / rows * 1e6:8.2f}, {median('peak_mib'):7.0f} MiB"
    )


if __name__ == "__main__":
    main()
