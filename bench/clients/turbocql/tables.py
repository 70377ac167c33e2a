"""Loads or unloads a file with turbocql, or makes the files.

    python -m bench.clients.turbocql.tables ACT SHAPE CONTACT_POINT PATH ROWS
    python -m bench.clients.turbocql.tables files SHAPE DIRECTORY ROWS

ACT is `parse` (read a CSV file, write nothing), `load` (load a file), `apart` (load a file, and
send its rows one by one, not in batches), `ready` (load the same rows from Arrow data in memory) or
`unload`. For each of these, the program prints the time, which leaves out the interpreter's start.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import turbocql
from bench.suites.tables.cases import SHAPES, generated, make


def act(what: str, shape: str, point: str, path: str, count: int) -> None:
    """Reads, loads or unloads a file, and prints the time."""
    from turbocql._files.source import open_source

    if what == "parse":
        source = open_source(path, types=SHAPES[shape].types)
        began = _now()
        assert sum(len(batch) for _, batch in source.batches()) == count
        _print(began)
        return
    data: Any = generated(shape, count) if what == "ready" else path
    with turbocql.connect(point, timeout_s=60) as session:
        began = _now()
        if what == "unload":
            assert session.unload(f"whole.{shape}", path).rows == count
        else:
            batches: Any = False if what == "apart" else "auto"
            assert session.load(f"whole.{shape}", data, batches=batches).succeeded == count
        _print(began)


def _now() -> tuple[float, float]:
    times = os.times()
    return time.perf_counter(), times.user + times.system


def _print(began: tuple[float, float]) -> None:
    wall, cpu = (now - before for now, before in zip(_now(), began, strict=True))
    print(json.dumps({"wall_s": wall, "cpu_s": cpu}))


if __name__ == "__main__":
    if sys.argv[1] == "files":
        make(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        _, what, shape, point, path, rows = sys.argv
        act(what, shape, point, path, int(rows))
