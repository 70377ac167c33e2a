"""Measures other drivers' simple statements and object mapper, plain and accelerated.

A pattern has words of a case's name, such as "model_create scylla-driver". The suite measures each
case's processor time in processes that take turns. It counts the instructions per request with
callgrind, as the suite `accelerator-instructions` does. Samples go to the file of the suite
`accelerator`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from bench.harness import callgrind, processes
from bench.harness.environments import python_in
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.servers import JVM_OPTIONS
from bench.harness.spread import turns
from bench.harness.suites import Options, Run, Suite
from bench.suites.accelerator.instructions import WARM_UP, Counted, per_request
from bench.suites.accelerator.parts import by_part
from bench.suites.requests.cases import ACCELERATED, PYTHON, Case
from turbocql.testing import Cassandra

__all__ = ["SUITE"]

ROUNDS = 5
FEW, MANY = 200, 800
FEW_ROWS, MANY_ROWS = 2000, 8000
"""The numbers of rows for `model_read`, whose requests read 100 rows each. With fewer rows, a full
collection by the GC would be a large part of the count."""
REQUESTS = 3000
STORED = 20_000
SCENARIOS = {
    "simple_insert": "session.execute(text, parameters), nine values",
    "model_create": "Model.create, nine columns",
    "model_save": "save of an instance in which two of nine columns have changed",
    "model_get": "Model.get by its key",
    "model_read": "Model.objects.filter, a row of 100",
}
"""The request of each scenario."""


def _cases(patterns: Sequence[str]) -> list[Case]:
    cases = [
        Case(scenario, "sync", driver + ending, 1)
        for scenario in SCENARIOS
        for driver in PYTHON
        for ending in ("", ACCELERATED)
    ]
    return [case for case in cases if chosen(str(case), patterns, "accelerator", "mapper")]


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return list(map(str, _cases(patterns)))


def run(options: Options) -> Run:
    """Measures processor time in turns, then counts instructions."""
    callgrind.need_valgrind()
    current = Run(SUITE.file)
    cases = _cases(options.patterns)
    with Cassandra(heap_mb=1024, jvm_options=JVM_OPTIONS) as cluster:
        contact_point = cluster.contact_points[0]
        # The process of this case creates the table and the rows that are read.
        set_up = Case("set_up", "sync", cases[0].client.removesuffix(ACCELERATED), 1)
        processes.output(_command(set_up, contact_point, STORED, counted=False))
        for _, case in turns(cases, options.rounds or ROUNDS):
            current.measure(case, partial(_timed, case, contact_point))
        for case in cases:
            for sample in current.measure(case, partial(_counted, case, contact_point)):
                print(f"{case}: {sample['instructions']:,.0f} instructions a request", flush=True)
    return current


def _timed(case: Case, contact_point: str) -> list[Sample]:
    text = processes.output(_command(case, contact_point, REQUESTS, counted=False))
    return [_sample(case, json.loads(text.splitlines()[-1]))]


def _counted(case: Case, contact_point: str) -> list[Sample]:
    def count(requests: int) -> Counted:
        command = _command(case, contact_point, requests, counted=True)
        with callgrind.counted(command) as (text, out):
            return json.loads(text.splitlines()[-1]), by_part(out)

    sizes = (FEW_ROWS, MANY_ROWS) if case.scenario == "model_read" else (FEW, MANY)
    figures = per_request(count, *sizes)
    # Times under callgrind are meaningless.
    figures = {name: figures[name] for name in figures if name not in ("cpu_s", "requests")}
    return [_sample(case, figures)]


def _sample(case: Case, figures: Sample) -> Sample:
    return {**figures, **asdict(case), "suite": "accelerator", "series": "mapper"}


def _command(case: Case, contact_point: str, requests: int, *, counted: bool) -> list[str]:
    job = {
        "client": case.client,
        "scenario": case.scenario,
        "contact_point": contact_point,
        "requests": requests,
        "warm_up": WARM_UP,
        "counted": counted,
    }
    python = python_in(f".venv-{case.client.removesuffix(ACCELERATED)}")
    return processes.command(python, "bench.clients.cassandra.mapper", json.dumps(job))


SUITE = Suite(
    "mapper",
    "simple statements and the object mapper of other drivers, plain and accelerated",
    names,
    run,
    "accelerator.jsonl",
)
