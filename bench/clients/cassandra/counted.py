"""Sends requests through cassandra-driver or scylla-driver while callgrind counts instructions.

    python -m bench.clients.cassandra.counted PROGRAM JOB

PROGRAM is the module with the client. Importing the module of an accelerated client switches the
accelerator on.
"""

from __future__ import annotations

import importlib
import json
import sys

from bench.harness.callgrind import counting
from bench.harness.provenance import provenance
from bench.suites.requests.job import Job, Pass


def main(program: str, job: Job) -> None:
    """Sends the requests. Callgrind counts only while they run, after a warm-up."""
    client = importlib.import_module(program).Cassandra(job)
    rows = job.rows(0, job.requests)
    client.run(Pass(rows[: job.warm_up]))
    with counting():
        client.run(Pass(rows))
    client.close()
    print(json.dumps(provenance(job.client, client.version)))


if __name__ == "__main__":
    main(sys.argv[1], Job(**json.loads(sys.argv[2])))
