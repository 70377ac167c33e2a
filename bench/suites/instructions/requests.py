"""Counts the instructions of whole requests, with 100 in flight to an embedded Cassandra.

The counts cover the Python thread and the network thread, but not the kernel. The count per
request varies by up to 1 %, because the threads interleave differently each time. So each entry of
`REQUESTS` is counted several times, and the lowest count is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from bench.harness import callgrind, processes
from bench.suites.instructions.dump import Counts, read_dump
from bench.suites.requests.cases import Case
from bench.suites.requests.server import Server
from bench.suites.requests.suite import job_of

__all__ = ["REQUESTS", "count_requests"]

PROGRAM = "bench.clients.turbocql.profile"
COUNTED = 5000
"""How many requests are sent for one count."""
TIMES = 2


class Request(NamedTuple):
    """A scenario and a shape of the suite of requests."""

    scenario: str
    shape: str


REQUESTS = {
    "request: insert of (int, text), workers": Request("insert_text", "workers"),
    "request: select of (int, text), blocking": Request("select_text", "sync"),
}


def count_requests(names: Sequence[str], core: Path) -> dict[str, Counts]:
    """Returns the lowest counts of each request."""
    if not names:
        return {}
    with Server() as server:
        return {name: _least(REQUESTS[name], server.contact_point, core) for name in names}


def _least(request: Request, contact_point: str, core: Path) -> Counts:
    case = Case(request.scenario, request.shape, "turbocql", 100)
    job = job_of(case, contact_point, COUNTED, 0)
    arguments = ("requests", json.dumps(asdict(job)))
    command = processes.command(Path(sys.executable), PROGRAM, *arguments)
    counts = []
    for _ in range(TIMES):
        with callgrind.counted(command) as (_, out):
            text = out.read_text(encoding="utf-8", errors="replace")
            counts.append(read_dump(text, str(core)))
    return Counts(*(round(min(each) / COUNTED, 1) for each in zip(*counts, strict=True)))
