"""Loads and unloads of whole tables: turbocql beside dsbulk and cqlsh's COPY, interleaved.

    .venv/bin/python bench/whole_tables.py [--rows N] [--rounds N] [--shapes NAME ...] [--keep]

The tables are those of `whole_tables_cases`; files are CSV for all and Parquet for turbocql too.
Each sample is a process of its own against one embedded Cassandra. It has the rows a second, the
processor time of the client and of the node, and the client's largest resident size. *parse* only
reads the CSV file as a load does; *ready* loads the same rows from Arrow in memory: together they
are the floor of a load of CSV. What was written is counted after each sample. Samples go to
`build/bench/whole_tables.jsonl`, or with `--keep` to `bench/samples`, of which the page is written.
"""

from __future__ import annotations

import argparse
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

import report_whole_tables
from codec_environments import read_samples
from timing import provenance
from whole_tables_cases import SHAPES, generated, make

import turbocql
from turbocql.testing import Cassandra

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
PYTHON = str(ROOT / ".venv-columns" / "bin" / "python")
CQLSH = str(ROOT / ".venv-cqlsh" / "bin" / "cqlsh")
DSBULK = str(ROOT / "build" / "dsbulk" / "*")
SAMPLES = ROOT / "build" / "bench" / "whole_tables.jsonl"
Sample = dict[str, Any]


def act(what: str, shape: str, point: str, path: str, count: int) -> None:
    """One of turbocql's samples, in a process of its own. The time it names is its work alone."""
    from turbocql._files.source import open_source

    if what == "parse":
        source = open_source(path, types=SHAPES[shape].types)
        began = _now()
        assert sum(len(batch) for _, batch in source.batches()) == count
        _told(began)
        return
    data: Any = generated(shape, count) if what == "ready" else path
    with turbocql.connect(point, timeout_s=60) as session:
        began = _now()
        if what == "unload":
            assert session.unload(f"whole.{shape}", path).rows == count
        else:
            batches: Any = False if what == "apart" else "auto"
            assert session.load(f"whole.{shape}", data, batches=batches).succeeded == count
        _told(began)


def _now() -> tuple[float, float]:
    times = os.times()
    return time.perf_counter(), times.user + times.system


def _told(began: tuple[float, float]) -> None:
    wall, cpu = (now - before for now, before in zip(_now(), began, strict=True))
    print(json.dumps({"wall_s": wall, "cpu_s": cpu}))


def command(tool: str, task: str, shape: str, point: str, directory: Path, count: int) -> list[str]:
    """What is run for a sample."""
    host, _, port = point.rpartition(":")
    source = directory / f"{shape}.csv"
    target = directory / "out.csv"
    if tool == "cqlsh":
        names = f"whole.{shape} ({', '.join(SHAPES[shape].types)})"
        if task == "load":
            statement = f"COPY {names} FROM '{source}' WITH HEADER = TRUE"
            if shape == "vectors":
                # By default it puts rows of several partitions into batches that are too large.
                statement += " AND MAXBATCHSIZE = 1 AND MINBATCHSIZE = 1"
        else:
            statement = f"COPY {names} TO '{target}' WITH HEADER = TRUE"
        return [CQLSH, host, port, "--request-timeout=600", "-e", statement]
    if tool == "dsbulk":
        common = ["-h", host, "-port", port, "-k", "whole", "-t", shape, "-header", "true"]
        place = str(source) if task == "load" else str(directory / "dsbulk")
        runner = "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader"
        logs = ["-logDir", str(directory / "logs")]
        return ["java", "-cp", DSBULK, runner, task, *common, "-url", place, *logs]
    form = "parquet" if tool == "turbocql-parquet" else "csv"
    path = directory / (f"{shape}.{form}" if task != "unload" else f"out.{form}")
    what = {"parse": "parse", "ready": "ready", "turbocql-apart": "apart"}.get(tool, task)
    return [PYTHON, __file__, "--act", what, shape, point, str(path), str(count)]


def sample(tool: str, task: str, shape: str, node: Any, directory: Path, count: int) -> Sample:
    """Runs one process, and checks what it did."""
    with turbocql.connect(node.contact_point, timeout_s=60) as session:
        if task == "load":
            session.execute(f"TRUNCATE whole.{shape}")
    for left in (directory / "out.csv", directory / "out.parquet"):
        left.unlink(missing_ok=True)
    shutil.rmtree(directory / "dsbulk", ignore_errors=True)
    before, began = _processor_s(node.pid), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen(
            command(tool, task, shape, node.contact_point, directory, count),
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
    made: Sample = {"tool": tool, "task": task, "shape": shape, "rows": count}
    made |= {"whole_wall_s": wall, "whole_cpu_s": usage.ru_utime + usage.ru_stime}
    made |= {"peak_mib": usage.ru_maxrss / 1024, "node_cpu_s": _processor_s(node.pid) - before}
    lines = text.strip().splitlines()
    own = json.loads(lines[-1]) if tool not in ("cqlsh", "dsbulk") else {}
    made |= {"wall_s": own.get("wall_s", wall), "cpu_s": own.get("cpu_s", made["whole_cpu_s"])}
    _check(tool, task, shape, node.contact_point, directory, count)
    version = {"cqlsh": "6.2.2", "dsbulk": "1.10.0"}.get(tool, turbocql.__version__)
    return {**provenance(tool, version), **made}


def _check(tool: str, task: str, shape: str, point: str, directory: Path, count: int) -> None:
    if tool == "parse":
        return
    if task == "load":
        key = SHAPES[shape].key
        with turbocql.connect(point, timeout_s=60) as session:
            batches = session.scan(f"whole.{shape}", columns=[key]).batches()
            found = sum(len(batch) for batch in batches)
    elif tool == "turbocql-parquet":
        return
    else:
        files = sorted((directory / "dsbulk").glob("*.csv")) or [directory / "out.csv"]
        # cqlsh ends each line with CR and LF, and none of the cells has a line break.
        found = sum(sum(1 for _ in path.open("rb")) - 1 for path in files)
    if found != count:
        raise SystemExit(f"{tool} {task}: {found} rows, not {count}")


def _processor_s(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """What the command line asks for."""
    if sys.argv[1:2] == ["--act"]:
        work, name, point, path, rows = sys.argv[2:]
        act(work, name, point, path, int(rows))
        return
    if sys.argv[1:2] == ["--make"]:
        make(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--keep", action="store_true", help="replace the kept samples and the page")
    given = parser.parse_args()
    taken: list[Sample] = []
    with tempfile.TemporaryDirectory() as made, Cassandra(heap_mb=1024) as cluster:
        directory, node = Path(made), cluster.nodes[0]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        with turbocql.connect(cluster.contact_points) as session:
            session.execute(
                "CREATE KEYSPACE whole WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
        SAMPLES.parent.mkdir(parents=True, exist_ok=True)
        for name in given.shapes:
            shape, count = SHAPES[name], int(given.rows * SHAPES[name].share)
            # One by one, and then dropped: dsbulk cannot read a schema with vectors in it.
            _execute(node, f"CREATE TABLE whole.{name} ({shape.columns})")
            files = ["--make", name, made, str(count)]
            subprocess.run([PYTHON, __file__, *files], check=True, env=environment)
            # The node compiles its code while it works: the first load would be the slowest.
            for _ in range(2):
                sample("ready", "load", name, node, directory, count)
            for _ in range(given.rounds):
                for task, tools in (("load", shape.loads), ("unload", shape.unloads)):
                    for tool in tools:
                        found = sample(tool, task, name, node, directory, count)
                        taken.append(found)
                        with SAMPLES.open("a", encoding="utf-8") as out:
                            out.write(json.dumps(found) + "\n")
                        print(_line(tool, task, [found]), file=sys.stderr, flush=True)
            _execute(node, f"DROP TABLE whole.{name}")
            for left in directory.glob(f"{name}.*"):
                left.unlink()
    for line in _medians(taken):
        print(line)
    if given.keep:
        place = report_whole_tables.SAMPLES
        # Those of other tables stay.
        kept = [it for it in read_samples(place) if it["shape"] not in given.shapes]
        lines = [json.dumps(found) + "\n" for found in [*kept, *taken]]
        place.write_text("".join(lines), encoding="utf-8")
        report_whole_tables.write()


def _execute(node: Any, statement: str) -> None:
    with turbocql.connect(node.contact_point, timeout_s=60) as session:
        session.execute(statement)


def _medians(taken: list[Sample]) -> list[str]:
    keys = dict.fromkeys((it["shape"], it["task"], it["tool"]) for it in taken)
    return [
        _line(tool, task, [it for it in taken if (it["shape"], it["task"], it["tool"]) == key])
        for key in keys
        for _, task, tool in [key]
    ]


def _line(tool: str, task: str, taken: list[Sample]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(it[name] for it in taken))

    rows = taken[0]["rows"]
    return (
        f"{taken[0]['shape']:10} {task:7} {tool:17} {rows / median('wall_s'):>10,.0f} rows/s"
        f" {median('cpu_s') / rows * 1e6:8.2f} us of CPU a row,"
        f" whole process {median('whole_cpu_s') / rows * 1e6:8.2f},"
        f" node {median('node_cpu_s') / rows * 1e6:8.2f}, {median('peak_mib'):7.0f} MiB"
    )


if __name__ == "__main__":
    main()
