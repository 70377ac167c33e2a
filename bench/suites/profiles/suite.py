"""Profiles codec cases and requests with callgrind.

A pattern is the full name of a case, such as "value: int", or a scenario and a shape of requests,
such as "insert_vector workers". With "insert_text workers recorded" or "... sampled-out", the
requests are traced, and all or none of their spans are recorded. turbocql's client sends requests
with 100 in flight to an embedded Cassandra. The functions with the most instructions, and the
instructions of a case's floors, go to `profiles.json`. For each missed target,
`bench report --targets` shows both. Instructions are counted only while the case runs, and without
those of the kernel. The suite needs valgrind.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness import callgrind, processes
from bench.harness.environments import BUILD, KEPT
from bench.harness.processes import Failed
from bench.harness.suites import Options, Run, Suite
from bench.suites.codec.cases import NAMES
from bench.suites.requests.cases import Case, request_cases
from bench.suites.requests.server import Server
from bench.suites.requests.suite import job_of

__all__ = ["SUITE"]

TOP = 12
SPANS = ("recorded", "sampled-out")
"""What the tracer does with spans of requests: it records all, or samples none."""
REQUESTS = 5000
PROGRAM = "bench.clients.turbocql.profile"
FILE = "profiles.json"
_LINE = re.compile(r"^\s*([\d,]+) \(\s*([\d.]+)%\)\s+(\S.*)$")
_TOTAL = re.compile(r"^\s*([\d,]+)(?: \(100\.0%\))?\s+PROGRAM TOTALS")


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of cases and requests in `patterns`. Without patterns, returns all."""
    ours = [case for case in request_cases() if case.client == "turbocql"]
    requests = dict.fromkeys(f"{case.scenario} {case.shape}" for case in ours)
    spans = [f"insert_text workers {spans}" for spans in SPANS]
    return [name for name in [*NAMES, *requests, *spans] if not patterns or name in patterns]


def run(options: Options) -> Run:
    """Profiles the chosen cases and requests. Prints the profiles and adds them to the file."""
    callgrind.need_valgrind()
    current = Run(SUITE.file)
    chosen = names(options.patterns)
    profiles: dict[str, Any] = {}
    for name in chosen:
        if name in NAMES:
            profiles[name] = _of_case(name)
    requests = [name for name in chosen if name not in NAMES]
    if requests:
        with Server() as server:
            for name in requests:
                profiles[name] = _of_requests(name, server.contact_point)
    for name, profile in profiles.items():
        print("\n".join([name, profile["floor"], *profile["lines"]]))
    for folder in (BUILD, *([KEPT] if options.keep else [])):
        _add(folder / FILE, profiles)
    return current


def _add(path: Path, profiles: dict[str, Any]) -> None:
    """Adds profiles to a file. Profiles of other cases in the file stay."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**before, **profiles}, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _of_case(name: str) -> dict[str, Any]:
    """Returns the top functions of turbocql's call, and the instructions of the floors."""
    (ours, *floors) = _ways(name)
    total, lines = _counted(ours)
    parts = [f"Instructions per call, the interpreter's loop included: turbocql {total:,.0f}"]
    parts += [f"floor {floor['note']}: {_counted(floor)[0]:,.0f}" for floor in floors]
    return {"lines": lines, "floor": "; ".join(parts)}


def _ways(name: str) -> list[dict[str, Any]]:
    """Returns turbocql's case of this name, then the floors, each with its number of calls."""
    return processes.samples(Path(sys.executable), PROGRAM, "ways", name)


def _command(*arguments: str) -> list[str]:
    return processes.command(Path(sys.executable), PROGRAM, *arguments)


def _counted(way: dict[str, Any]) -> tuple[float, list[str]]:
    arguments = ("case", way["client"], way["name"], str(way["calls"]))
    with callgrind.counted(_command(*arguments)) as (_, out):
        return annotated(out, way["calls"])


def _of_requests(name: str, contact_point: str) -> dict[str, Any]:
    """Returns the top functions of requests, and the instructions per request."""
    scenario, shape, *spans = name.split()
    job = job_of(Case(scenario, shape, "turbocql", 100), contact_point, REQUESTS, 0)
    arguments = ("requests", json.dumps(asdict(job)), *spans)
    with callgrind.counted(_command(*arguments)) as (_, out):
        total, lines = annotated(out, REQUESTS)
    text = f"Instructions per request, both threads, without the kernel's: {total:,.0f}"
    return {"lines": lines, "floor": text}


def annotated(out: Path, calls: int) -> tuple[float, list[str]]:
    """Reads callgrind's file. Returns the instructions per call, and the top functions."""
    lines = subprocess.run(
        ["callgrind_annotate", "--threshold=99", "--auto=no", out],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    totals = [match for line in lines if (match := _TOTAL.match(line))]
    if not totals:
        raise Failed("callgrind counted nothing")
    functions = []
    for line in lines:
        match = _LINE.match(line)
        if match is None or "PROGRAM TOTALS" in line:
            continue
        count, share, where = match.groups()
        per_call = int(count.replace(",", "")) / calls
        functions.append(f"{per_call:10,.0f} {float(share):5.1f} %  {function(where)}")
    return int(totals[0][1].replace(",", "")) / calls, functions[:TOP]


def function(where: str) -> str:
    """Returns the names of the function and of its library, without paths."""
    name, _, library = where.partition(" [")
    name = name.partition(":")[2] or name
    library = Path(library.rstrip("]")).name.partition(".")[0] if library else ""
    return f"{name[:90]} [{library}]" if library else name[:90]


SUITE = Suite(
    "profiles",
    "the functions in which the instructions of a case or of requests are executed",
    names,
    run,
    FILE,
    is_kept=False,
)
