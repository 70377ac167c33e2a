"""Sends simple statements, or reads and writes models of cqlengine, with a Python driver.

The driver is scylla-driver or cassandra-driver, plain or accelerated.

python -m bench.clients.cassandra.mapper JOB
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

from bench.harness.callgrind import counting
from bench.harness.provenance import provenance
from bench.suites.requests.cases import ACCELERATED


def main(job: dict[str, Any]) -> None:
    """Sends the job's requests with the driver that is installed, and prints the sample."""
    if job["client"].endswith(ACCELERATED):
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
        work(job["warm_up"])
    with counting() if job["counted"] else nullcontext():
        begin = time.process_time()
        work(job["requests"])
        cpu_s = time.process_time() - begin
    connection.unregister_connection("default")
    figures = {"cpu_s": cpu_s, "requests": job["requests"]}
    print(json.dumps({**provenance(job["client"], cassandra.__version__), **figures}))


def works(scenario: str) -> Callable[[int], None]:
    """Returns a function that takes a number, and sends that many requests of the scenario.

    For `set_up` and `model_read`, the argument is the number of rows.
    """
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
            first = (uuid.UUID(int=i % 100), i, f"name {i}", i * 0.5, i * 1000, True)
            session.execute(text, (*first, at, amount, {"a", "b"}))

    def save(requests: int) -> None:
        thing = Thing.create(id=uuid.UUID(int=1000), seq=1, name="x", price=1, tags={"a"})
        for i in range(requests):
            thing.name, thing.count = f"name {i}", i
            thing.save()

    def get(requests: int) -> None:
        for i in range(requests):
            Thing.get(id=uuid.UUID(int=i % 100), seq=i % 100)

    def read(requests: int) -> None:
        rows = 0
        for i in range(requests // 100):
            rows += len(list(Thing.objects.filter(id=uuid.UUID(int=i % 100)).limit(100)))
        assert rows == requests, rows

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
    main(json.loads(sys.argv[1]))
