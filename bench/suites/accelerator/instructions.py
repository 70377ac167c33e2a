"""Counts instructions per request through other drivers, plain and accelerated.

Callgrind counts a client's process that sends few requests, and one that sends many. The difference
gives the instructions per request, without work that a process does once. The kernel's instructions
are not counted. Unlike processor time, the counts do not depend on other processes. The suite needs
valgrind and the drivers' environments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TypeAlias

from bench.harness import callgrind, processes
from bench.harness.environments import python_in
from bench.harness.samples import Sample
from bench.harness.selection import chosen
from bench.harness.suites import Options, Run
from bench.suites.accelerator.parts import PARTS, by_part
from bench.suites.requests.cases import CLIENTS, Case, accelerated_cases
from bench.suites.requests.suite import by_server, job_of

__all__ = ["WARM_UP", "Counted", "names", "per_request", "run"]

SERIES = "instructions"
Counted: TypeAlias = tuple[Sample, dict[str, int]]
"""The sample that a client's process prints, and its counted instructions by part."""
WARM_UP = 200
FEW, MANY = 500, 2000


def _cases(patterns: Sequence[str]) -> list[Case]:
    cases = [case for case in accelerated_cases() if case.scenario != "scan"]
    suites = ("accelerator", "accelerator-instructions")
    return [case for case in cases if chosen(str(case), patterns, *suites)]


def names(patterns: Sequence[str]) -> list[str]:
    """Returns the names of the cases that the patterns choose."""
    return list(map(str, _cases(patterns)))


def run(file: str, options: Options) -> Run:
    """Counts the instructions per request of each case."""
    callgrind.need_valgrind()
    current = Run(file)
    for server, cases in by_server(_cases(options.patterns)):
        with server:
            for case in cases:
                count = partial(_counted, case, server.contact_point)
                for sample in current.measure(case, partial(_sampled, case, count)):
                    each = sample["instructions"]
                    print(f"{case}: {each:,.0f} instructions a request", flush=True)
    return current


def _sampled(case: Case, count: Callable[[int], Counted]) -> list[Sample]:
    figures = per_request(count, FEW, MANY)
    return [{**figures, **asdict(case), "suite": "accelerator", "series": SERIES}]


def per_request(count: Callable[[int], Counted], few: int, many: int) -> Sample:
    """Returns the sample of the process that sends `many`, with the instructions per request."""
    _, before = count(few)
    about, after = count(many)
    requests = many - few
    parts = {part: (after.get(part, 0) - before.get(part, 0)) / requests for part in PARTS}
    return {**about, "instructions": sum(parts.values()), "parts": parts}


def _counted(case: Case, contact_point: str, requests: int) -> Counted:
    """Returns the sample that the client's process prints, and its instructions by part."""
    environment, program = CLIENTS[case.client]
    job = job_of(case, contact_point, requests, WARM_UP)
    command = processes.command(
        python_in(environment),
        "bench.clients.cassandra.counted",
        program,
        json.dumps(asdict(job)),
    )
    with callgrind.counted(command) as (text, out):
        return json.loads(text.splitlines()[-1]), by_part(out)
