"""Instructions of a request through other drivers, plain and accelerated, the server live.

    .venv/bin/python bench/accelerator_instructions.py [PATTERN...] [--keep]

A pattern is words of a case's name, such as "insert_vector callbacks". Callgrind counts what the
client's process does for some requests and for more of them; a request is the difference, so that
what is done once does not count. What the kernel does is not counted. Processor time depends on
what else the machine does; this does not. Samples go where those of the accelerator's times go.
Needs valgrind and the drivers' environments (`make bench CASE=accelerator` makes them).
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clients.job import Job, Pass
from codec_environments import BUILD, HERE, ROOT, keep_samples
from counting import switch, total
from end_to_end_cases import CLIENTS, Case, accelerated_cases
from timing import chosen, provenance

SERIES = "instructions"
WARM_UP = 200
FEW, MANY = 500, 2000


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="words of names of cases")
    parser.add_argument("--keep", action="store_true", help="into bench/samples/, and docs/")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run(Job(**json.loads(given.patterns[0])))
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("accelerator_instructions.py needs valgrind: install it")
    cases = [case for case in accelerated_cases() if case.scenario != "scan"]
    wanted = [case for case in cases if chosen(str(case), given.patterns, "accelerator")]
    # Not in every environment that this file runs in.
    import report
    from end_to_end_server import Server

    samples = []
    with Server() as server:
        for case in wanted:
            samples.append(sample(case, server.contact_point))
            count = samples[-1]["instructions"]
            print(f"{case}: {count:,.0f} instructions a request", flush=True)
    for place in (BUILD, *([HERE / "samples"] if given.keep else [])):
        keep_samples(place / "accelerator.jsonl", samples)
    if given.keep:
        report.main()


def sample(case: Case, contact_point: str) -> dict[str, Any]:
    """The instructions of a request of one case."""
    (_, few), (said, many) = (counted(case, contact_point, count) for count in (FEW, MANY))
    return {
        **said,
        **asdict(case),
        "suite": "accelerator",
        "series": SERIES,
        "instructions": (many - few) / (MANY - FEW),
    }


def counted(case: Case, contact_point: str, requests: int) -> tuple[dict[str, Any], int]:
    """Who was counted, and the instructions of so many requests."""
    job = Job(
        client=case.client,
        scenario=case.scenario,
        shape=case.shape,
        in_flight=case.in_flight,
        contact_point=contact_point,
        requests=requests,
        warm_up=WARM_UP,
        latency_requests=0,
        salt=1,
        check=False,
        variant=case.variant,
    )
    python = ROOT / CLIENTS[case.client][0] / "bin" / "python"
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={out}", str(python), __file__, "--inside"]
        said = subprocess.run(
            [*command, json.dumps(asdict(job))],
            check=True,
            cwd=HERE,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        return json.loads(said.splitlines()[-1]), total(out)


def run(job: Job) -> None:
    """The requests, with callgrind counting only meanwhile."""
    client = importlib.import_module(CLIENTS[job.client][1]).Cassandra(job)
    rows = job.rows(0, job.requests, ready_bytes=False)
    client.run(Pass(rows[:WARM_UP]))
    switch("on")
    client.run(Pass(rows))
    switch("off")
    client.close()
    print(json.dumps(provenance(job.client, client.version)))


if __name__ == "__main__":
    main()
