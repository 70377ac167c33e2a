"""The program that callgrind profiles: it runs one case of the codec, or requests of one shape.

python -m bench.clients.turbocql.profile ways NAME
python -m bench.clients.turbocql.profile case CLIENT NAME CALLS
python -m bench.clients.turbocql.profile requests JOB [SPANS]

SPANS is `recorded` or `sampled-out`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from bench.clients import floors
from bench.clients.turbocql import codec
from bench.clients.turbocql.requests import connect
from bench.harness.callgrind import counting
from bench.harness.timing import Case, ns_per_call, say
from bench.suites.requests.job import Job, Pass

NATIVE_NS = 30e6
"""Without callgrind, the profiled calls take about this many nanoseconds. Callgrind also counts a
few instructions before and after the calls. These are too few to matter beside the instructions of
the calls."""
WARM_UP = 500


def case_of(client: str, name: str) -> Case:
    """Returns the floor of this name if the client is `floor`, otherwise turbocql's case."""
    return (floors.cases() if client == "floor" else codec.cases())[name]()


def say_ways(name: str) -> None:
    """Prints a line of JSON for turbocql's case, and one for each of its floors."""
    ways = [("turbocql", name)]
    ways += [("floor", each) for each in floors.cases() if each.partition("#")[0] == name]
    for client, each in ways:
        case = case_of(client, each)
        calls = max(20, int(NATIVE_NS / ns_per_call(case)))
        say({"client": client, "name": each, "note": case.note, "calls": calls})


def run_case(case: Case, calls: int) -> None:
    """Runs the calls once to warm up, and once while callgrind counts."""
    code = f"def run():\n for _ in range({calls}):\n  {case.expression}\n"
    names = dict(case.names)
    exec(compile(code, "case", "exec"), names)
    run = names["run"]
    run()
    with counting():
        run()


def make_spans(session: Any, spans: str) -> None:
    """Traces a session with OpenTelemetry, whose sampler records all spans or leaves all out."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

    from turbocql import telemetry

    provider = TracerProvider(sampler=ALWAYS_ON if spans == "recorded" else ALWAYS_OFF)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    telemetry.instrument(session, tracer_provider=provider)


def run_requests(job: Job, spans: str = "") -> None:
    """Sends the requests. Callgrind counts only while they run, after a warm-up."""
    client = connect(job)
    if spans:
        make_spans(client.session, spans)
    rows = job.rows(0, job.requests)
    client.run(Pass(rows[:WARM_UP]))
    with counting():
        client.run(Pass(rows))
    client.close()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "ways":
        say_ways(*arguments)
    elif what == "case":
        run_case(case_of(*arguments[:2]), int(arguments[2]))
    else:
        run_requests(Job(**json.loads(arguments[0])), *arguments[1:])
