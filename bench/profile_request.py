"""Where requests' instructions go, by callgrind: `profile_request.py "insert_vector workers"`.

What is given is a scenario and a shape; turbocql's client runs it with 100 in flight against a
Cassandra of its own. Writes the top functions to `profiles.json`, as `profile_case.py` does. Needs
valgrind. What the kernel does is not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from clients.job import Job, Pass
from clients.with_turbocql import connect
from codec_environments import BUILD, HERE
from counting import switch
from end_to_end_server import Server
from profile_case import add, annotated

REQUESTS = 5000


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", help="a scenario and a shape each")
    parser.add_argument("--keep", action="store_true", help="into bench/samples/ as well")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run(Job(**json.loads(given.cases[0])))
        return
    if shutil.which("valgrind") is None:
        raise SystemExit("profile_request.py needs valgrind: install it")
    with Server() as server:
        for name in given.cases:
            total, lines = callgrind(name, server.contact_point)
            said = f"Instructions per request, both threads, without the kernel's: {total:,.0f}"
            found = {name: {"lines": lines, "floor": said}}
            print("\n".join([name, said, *lines]))
            for place in (BUILD, *([HERE / "samples"] if given.keep else [])):
                add(place / "profiles.json", found)


def callgrind(name: str, contact_point: str) -> tuple[float, list[str]]:
    """Instructions per request, and the functions that they are in."""
    scenario, shape = name.split()
    job = Job(
        client="turbocql",
        scenario=scenario,
        shape=shape,
        in_flight=100,
        contact_point=contact_point,
        requests=REQUESTS,
        warm_up=0,
        latency_requests=0,
        salt=1,
        check=False,
    )
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        command = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={out}", sys.executable, __file__, "--inside"]
        subprocess.run([*command, json.dumps(asdict(job))], check=True, cwd=HERE)
        return annotated(out, REQUESTS)


def run(job: Job) -> None:
    """The requests, with callgrind counting only meanwhile."""
    client = connect(job)
    rows = job.rows(0, job.requests, ready_bytes=False)
    client.run(Pass(rows[:500]))
    switch("on")
    client.run(Pass(rows))
    switch("off")
    client.close()


if __name__ == "__main__":
    main()
