"""Simple statements and the object mapper of other drivers, plain and accelerated, the server live.

    .venv/bin/python bench/mapper.py [PATTERN...] [--keep] [--rounds N]

A pattern is words of a case's name, such as "model_create scylla-driver". Of each case, callgrind
counts the instructions of a request as `bench/accelerator_instructions.py` does, and processes that
take turns measure the processor time. Samples go where those of the accelerator go.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from codec_environments import BUILD, HERE, ROOT, keep_samples
from counting import switch, total
from end_to_end_cases import ACCELERATED, PYTHON, Case
from timing import chosen, provenance

WARM_UP = 200
FEW, MANY = 200, 800
REQUESTS = 3000
SCENARIOS = {
    "simple_insert": "session.execute(text, parameters), nine values",
    "model_create": "Model.create, nine columns",
    "model_save": "save of an instance in which two of nine columns have changed",
    "model_get": "Model.get by its key",
    "model_read": "Model.objects.filter, a row of 100",
}
"""What a request is."""


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="words of names of cases")
    parser.add_argument("--keep", action="store_true", help="into bench/samples/, and docs/")
    parser.add_argument("--rounds", type=int, default=5, help="of processor time")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run(json.loads(given.patterns[0]))
        return
    cases = [
        Case(scenario, "sync", driver + ending, 1)
        for scenario in SCENARIOS
        for driver in PYTHON
        for ending in ("", ACCELERATED)
    ]
    wanted = [case for case in cases if chosen(str(case), given.patterns, "accelerator")]
    # Not in every environment that this file runs in.
    import report

    from turbocql.testing import Cassandra

    samples: list[dict[str, Any]] = []
    with Cassandra(heap_mb=1024) as cluster:
        contact_point = cluster.contact_points[0]
        prepare(contact_point)
        for _ in range(given.rounds):
            for case in wanted:
                said, _ = process(case, contact_point, REQUESTS, counted=False)
                samples.append(sample(case, said))
        for case in wanted:
            (_, few), (said, many) = (
                process(case, contact_point, count, counted=True) for count in (FEW, MANY)
            )
            instructions = (many - few) / (MANY - FEW)
            samples.append(sample(case, {**said, "instructions": instructions}))
            print(f"{case}: {instructions:,.0f} instructions a request", flush=True)
    for place in (BUILD, *([HERE / "samples"] if given.keep else [])):
        keep_samples(place / "accelerator.jsonl", samples)
    if given.keep:
        report.main()


def prepare(contact_point: str) -> None:
    """The table, and the rows that are read."""
    case = Case("set_up", "sync", PYTHON[0], 1)
    process(case, contact_point, 20_000, counted=False)


def sample(case: Case, said: dict[str, Any]) -> dict[str, Any]:
    """A sample as the report reads it."""
    kept = dict(said)
    if "instructions" in kept:
        # Under callgrind, time says nothing.
        kept.pop("cpu_s")
        kept.pop("requests")
    return {**kept, **dataclasses.asdict(case), "suite": "accelerator", "series": "mapper"}


def process(
    case: Case, contact_point: str, requests: int, *, counted: bool
) -> tuple[dict[str, Any], int]:
    """What a client's process says, and the instructions that it has taken."""
    python = ROOT / f".venv-{case.client.removesuffix(ACCELERATED)}" / "bin" / "python"
    job = {
        "client": case.client,
        "scenario": case.scenario,
        "contact_point": contact_point,
        "requests": requests,
        "counted": counted,
    }
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        command = [str(python), __file__, "--inside", json.dumps(job)]
        if counted:
            callgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]
            command = [*callgrind, f"--callgrind-out-file={out}", *command]
        said = subprocess.run(
            command, check=True, cwd=HERE, stdout=subprocess.PIPE, text=True
        ).stdout
        return json.loads(said.splitlines()[-1]), total(out) if counted else 0


def run(job: dict[str, Any]) -> None:
    """In a driver's environment: the requests, and what they took."""
    if job["client"].endswith(ACCELERATED):
        sys.path.append(str(ROOT / "python"))
        import turbocql

        turbocql.accelerate()
    warnings.simplefilter("ignore")
    os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
    import cassandra
    from cassandra.cqlengine import connection

    host, _, port = job["contact_point"].rpartition(":")
    connection.setup([host], "shop", port=int(port), protocol_version=4)
    connection.get_session().default_timeout = 60
    work = works(job["scenario"])
    if job["scenario"] != "set_up":
        work(WARM_UP)
    if job["counted"]:
        switch("on")
    begin = time.process_time()
    work(job["requests"])
    taken = time.process_time() - begin
    if job["counted"]:
        switch("off")
    connection.unregister_connection("default")
    said = {"cpu_s": taken, "requests": job["requests"]}
    print(json.dumps({**provenance(job["client"], cassandra.__version__), **said}))


def works(scenario: str) -> Callable[[int], None]:
    """A function that sends so many requests."""
    from cassandra.cqlengine import columns, connection, management, models

    class Thing(models.Model):  # type: ignore[misc]
        __keyspace__ = "shop"
        id = columns.UUID(primary_key=True, default=uuid.uuid4)
        seq = columns.Integer(primary_key=True)
        name = columns.Text()
        price = columns.Double()
        count = columns.BigInt()
        active = columns.Boolean(default=True)
        at = columns.DateTime()
        amount = columns.Decimal()
        tags = columns.Set(columns.Text)

    session = connection.get_session()
    at = datetime.datetime(2026, 11, 23, 1, 2, 3)
    amount = Decimal("1.50")

    def create(requests: int) -> None:
        for i in range(requests):
            Thing.create(
                id=uuid.UUID(int=i % 100),
                seq=i,
                name=f"name {i}",
                price=i * 0.5,
                count=i * 1000,
                at=at,
                amount=amount,
                tags={"a", "b"},
            )

    def insert(requests: int) -> None:
        text = (
            "INSERT INTO shop.thing (id, seq, name, price, count, active, at, amount, tags)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
        )
        for i in range(requests):
            given = (uuid.UUID(int=i % 100), i, f"name {i}", i * 0.5, i * 1000, True)
            session.execute(text, (*given, at, amount, {"a", "b"}))

    def save(requests: int) -> None:
        thing = Thing.create(id=uuid.UUID(int=1000), seq=1, name="x", price=1, tags={"a"})
        for i in range(requests):
            thing.name, thing.count = f"name {i}", i
            thing.save()

    def get(requests: int) -> None:
        for i in range(requests):
            Thing.get(id=uuid.UUID(int=i % 100), seq=i % 100)

    def read(requests: int) -> None:
        found = 0
        for i in range(requests // 100):
            found += len(list(Thing.objects.filter(id=uuid.UUID(int=i % 100)).limit(100)))
        assert found == requests, found

    def set_up(rows: int) -> None:
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        session.execute(f"CREATE KEYSPACE shop WITH replication = {replication}")
        management.sync_table(Thing)
        create(rows)

    return {
        "set_up": set_up,
        "simple_insert": insert,
        "model_create": create,
        "model_save": save,
        "model_get": get,
        "model_read": read,
    }[scenario]


if __name__ == "__main__":
    main()
