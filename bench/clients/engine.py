"""Runs the network engine from Rust without Python. turbocql cannot take less time than this."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.harness.environments import ROOT
from bench.harness.provenance import provenance
from bench.suites.requests import data
from bench.suites.requests.job import Job

__all__ = ["PROGRAM", "main"]

PROGRAM = ROOT / "target" / "release" / "examples" / "pure_engine"


def main() -> None:
    """Runs the job that is passed on the command line, and prints the sample."""
    job = Job(**json.loads(sys.argv[1]))
    passes = [f"2000000:{job.warm_up}", f"0:{job.requests}"]
    ready = b"".join(data.vector_bytes()) if job.kind == "vector" else b""
    command = [str(PROGRAM), job.contact_point, job.statement, str(job.salt), str(job.in_flight)]
    ended = subprocess.run([*command, *passes], input=ready, stdout=subprocess.PIPE, check=True)
    cpu_ns, wall_ns = map(int, ended.stdout.splitlines()[-1].split())
    sample = {"scenario": job.scenario, "shape": job.shape, "in_flight": job.in_flight}
    sample |= {"requests": job.requests, "cpu_s": cpu_ns / 1e9, "wall_s": wall_ns / 1e9}
    sample |= {"p50_us": None, "p99_us": None, "note": "Rust, ready bytes"}
    print(json.dumps({**provenance(job.client, "1.9.0"), **sample}))


if __name__ == "__main__":
    main()
