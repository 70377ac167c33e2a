"""Runs programs of cassandra-driver and scylla-driver with and without the accelerator."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.accel.environments import (
    ALL_DRIVERS,
    DRIVERS,
    LEFT,
    LEFT_LATER,
    PROGRAMS,
    SAFE,
    python_of,
    run,
    run_installed,
)
from tests.support.differences import differences

from turbocql.testing import Cassandra

USED = (
    "query.BoundStatement.bind",
    "query.BoundStatement.routing_key",
    "protocol.QueryMessage.send_body",
    "protocol.ExecuteMessage.send_body",
    "protocol.BatchMessage.send_body",
    "protocol.ProtocolHandler: recv_results_rows",
    "query.namedtuple",
    "connection.Timer.cancel",
)
REQUESTS = {
    "policies.TokenAwarePolicy.make_query_plan",
    "connection.Connection.process_io_buffer",
    "connection.Connection.process_msg",
    "protocol._ProtocolHandler.decode_message",
    "protocol._ProtocolHandler.encode_message",
    "pool.HostConnection.borrow_connection",
    "pool.HostConnection.return_connection",
    "cluster.Session._create_response_future",
    *(
        f"cluster.ResponseFuture.{name}"
        for name in (
            "__init__",
            "_start_timer",
            "_cancel_timer",
            "_query",
            "_set_result",
            "_set_final_result",
            "result",
        )
    ),
    "concurrent.ConcurrentExecutorListResults._put_result",
}
SEGMENTS = {f"segment.SegmentCodec.{name}" for name in ("encode", "decode_header", "decode")}

STEPS = {
    *("dates", "wrong type", "too many", "wrong element", "too large", "unset key", "routing key"),
    *(f"everything {key}" for key in range(1, 8)),
    *(f"column {name}" for name in (*"abcdefghijklmnopqrstuvwxyz", "aa", "bb")),
    *("batched", "composite key", "counted", "paged", "first page", "second page", "has more"),
    *(f"factory {name}_factory" for name in ("tuple", "named_tuple", "dict", "ordered_dict")),
    *("applied", "factory own", "odd names", "concurrent", "concurrent, an error", "callback"),
    *("registered", "registered anew", "written as tuples", "encrypted", "as stored"),
    *("model", "updated", "counted models", "after deletion"),
}
"""Steps of the program `scenario` that run with each driver."""
HANDLER_STEPS = {
    "CythonProtocolHandler",
    *(
        f"CythonProtocolHandler {table}, {turn}"
        for table in ("paged WHERE a = 1 LIMIT 3", "everything")
        for turn in (1, 2)
    ),
}
"""Steps that run only if the driver has a compiled codec."""
VIEWS = {
    *(f"customer {number}" for number in range(5)),
    *(f"invalid customer {{{text}}}" for text in ("'email': None", "'email': 5", "'nothing': 1")),
    f"invalid customer {{'email': '{'x' * 41}'}}",
    *("saved customer", "customer that was read", "products of a maker", "labels", "count"),
    *("saved product", "product that was read", "updated product", "numbers and prices", "names"),
    *("after a batch", "existing product", "product with a TTL", "visits"),
    *("counts after deletions", "equal", "repr"),
}
"""The views of the program `shop`."""
MAPPER_SEAMS = {
    f"cqlengine.{name}"
    for name in (
        *(f"models.BaseModel.{name}" for name in ("__init__", "_set_persisted", "validate")),
        *("models.BaseModel.create", "models.BaseModel.column_family_name"),
        *("query.DMLQuery.save", "query.DMLQuery._delete_null_columns"),
        *("query.AbstractQuerySet.__deepcopy__", "query.AbstractQuerySet.create"),
        "statements.InsertStatement.__unicode__",
        "statements.AssignmentStatement.get_context",
        "statements.AssignmentStatement.partition_key_values",
        "connection.execute",
    )
}
"""Functions of the object mapper that the program `shop` calls."""
TASK_RESULTS: dict[str, list[Any]] = {
    **{f"add({number}, {number})": ["SUCCESS", number * 2] for number in range(60)},
    **{f"""add("it's", ' {number}')""": ["SUCCESS", f"it's {number}"] for number in range(20)},
    "add(1, 'a')": [
        "FAILURE",
        """TypeError("unsupported operand type(s) for +: 'int' and 'str'")""",
    ],
    "total({'b': 1.5, 'a': 2.0},)": ["SUCCESS", {"total": 3.5, "names": ["a", "b"]}],
    "nothing()": ["FAILURE", "KeyError('nothing')"],
}
"""The status and the result of each task of the program `worker`."""


def by_step(report: dict[str, Any]) -> dict[str, list[Any]]:
    """Maps each step of the program `scenario` to its results. Some steps run several times."""
    results: dict[str, list[Any]] = {}
    for step, result in report["seen"]:
        results.setdefault(step, []).append(result)
    return results


def scenario(cassandra: Cassandra, driver: str, version: int, *options: str) -> dict[str, Any]:
    host, _, port = cassandra.contact_points[0].rpartition(":")
    done = run(
        python_of(driver), "-m", "tests.accel.programs.scenario", host, port, str(version), *options
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("driver", ALL_DRIVERS)
def test_a_program_has_the_same_results(cassandra: Cassandra, driver: str, version: int) -> None:
    plain = scenario(cassandra, driver, version)
    accelerated = scenario(cassandra, driver, version, "--accelerated")
    assert not plain["on"]
    assert accelerated["on"]
    assert plain["version"] == accelerated["version"] == version
    results = by_step(plain)
    is_compiled = driver != "cassandra-driver-earlier"
    assert results.keys() == (STEPS | HANDLER_STEPS if is_compiled else STEPS)
    changed = differences(results, by_step(accelerated))
    assert not changed, changed
    assert set(accelerated["left"]) == LEFT[driver] | LEFT_LATER[driver]
    counts = accelerated["counts"]
    if SAFE:
        # If `SAFE` is set, all quick paths are off, and the driver's own functions convert values.
        assert counts["connection.Timer.cancel"][0] > 0
        return
    for name in USED:
        assert counts[name][0] > 0, (name, counts)
    used = {name for name in SEGMENTS if counts[name][0] > 0}
    # turbocql's reader of frames decodes received segments itself, so it does not call the two
    # functions for decoding.
    assert used == ({"segment.SegmentCodec.encode"} if version == 5 else set())
    # The accelerator does not use these functions here. The scenario has a RoundRobinPolicy and not
    # a TokenAwarePolicy. Frames of version 4 are compressed, so the driver itself encodes and
    # decodes them.
    elsewhere = {"policies.TokenAwarePolicy.make_query_plan"}
    if driver.startswith("scylla-driver"):
        # Cassandra has no shards, so this driver's pools choose connections at random.
        elsewhere.add("pool.HostConnection.borrow_connection")
    if "cluster.Session._create_response_future" not in LEFT[driver]:
        # This method makes the futures without a call of their `__init__`.
        elsewhere.add("cluster.ResponseFuture.__init__")
    elsewhere |= {name for name in REQUESTS if version == 4 and "_ProtocolHandler" in name}
    for name in REQUESTS - LEFT[driver] - elsewhere:
        assert counts[name][0] > 0, (name, counts)
    # The accelerator replaces functions of the driver, which are called seams. For a value of a
    # wrong type, a replacement falls back to the driver's function. The replacements of the
    # functions in `LEFT_LATER` fall back in all calls after the first use.
    fallen = {name for name, (_, fallback, _) in counts.items() if fallback}
    # The seams of cqlengine are not compared, because they fall back until the third use of a
    # model. The functions in `REQUESTS` are not compared either. They fall back for errors, retries
    # and events, which the driver itself handles.
    assert {name for name in fallen - REQUESTS if not name.startswith("cqlengine.")} == {
        "cqltypes._ParameterizedType.serialize",
        "query.BoundStatement.bind",
        *LEFT_LATER[driver],
    }


def program(
    cassandra: Cassandra,
    tmp_path: Path,
    driver: str,
    name: str,
    *options: str,
    accelerated: bool,
) -> Any:
    """Runs one of the programs. Returns the object that it prints as JSON, and its stderr."""
    host, _, port = cassandra.contact_points[0].rpartition(":")
    before = ("-m", "turbocql.accel", "--status") if accelerated else ()
    arguments = (*before, str(PROGRAMS / name), host, port, *options)
    done = run_installed(python_of(driver), tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert ("turbocql.accel is on" in done.stderr) == accelerated
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("driver", ALL_DRIVERS)
def test_models_of_a_shop_have_the_same_results(
    cassandra: Cassandra, tmp_path: Path, driver: str
) -> None:
    plain, _ = program(cassandra, tmp_path, driver, "shop.py", accelerated=False)
    accelerated, status = program(cassandra, tmp_path, driver, "shop.py", accelerated=True)
    assert plain.keys() == VIEWS
    changed = differences(plain, accelerated)
    assert not changed, changed
    counted = dict(re.findall(r"^  (cqlengine[.\w]+) .* native ([\d,]+),", status, re.MULTILINE))
    assert counted.keys() == MAPPER_SEAMS, status
    assert SAFE or int(counted["cqlengine.models.BaseModel.__init__"]) > 100, status


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_workers_of_a_task_queue_have_the_same_results(
    cassandra: Cassandra, tmp_path: Path, driver: str, method: str
) -> None:
    plain, _ = program(cassandra, tmp_path, driver, "worker.py", method, accelerated=False)
    accelerated, _ = program(cassandra, tmp_path, driver, "worker.py", method, accelerated=True)
    assert plain.pop("workers") == [None, None]
    workers = accelerated.pop("workers")
    changed = differences(plain["results"], accelerated["results"])
    assert not changed, changed
    assert plain == accelerated
    assert {call: result[:2] for call, result in plain["results"].items()} == TASK_RESULTS
    assert plain["done"] == len(TASK_RESULTS)
    deleted = [f"add({number}, {number})" for number in range(5)]
    assert plain["gone"] == {
        **dict.fromkeys(deleted),
        "add(5, 5)": plain["results"]["add(5, 5)"],
    }
    assert all(is_on for is_on, _ in workers)
    assert sum(native for _, native in workers) == len(TASK_RESULTS)


ANSWERED = """
import gc, sys, weakref
import turbocql
from cassandra.cluster import Cluster
if sys.argv[3] == "on":
    turbocql.accelerate()
cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]))
session = cluster.connect()
gc.collect()
gc.disable()
seen = []
for _ in range(20):
    future = session.execute_async("SELECT key FROM system.local", timeout=600)
    assert future.result().one()
    seen.append(weakref.ref(future))
    del future
print(sum(future() is not None for future in seen[:-2]))
cluster.shutdown()
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_answered_requests_are_freed(cassandra: Cassandra, driver: str) -> None:
    host, _, port = cassandra.contact_points[0].rpartition(":")
    kept = {}
    for state in ("off", "on"):
        done = run(python_of(driver), "-c", ANSWERED, host, port, state)
        assert done.returncode == 0, done.stderr
        kept[state] = int(done.stdout)
    assert kept == {"off": 18, "on": 0}


COUNTING = """
import os, sys
import turbocql
if sys.argv[3] == "early":
    turbocql.accelerate()
from cassandra.cluster import Cluster
from cassandra.query import BatchStatement, SimpleStatement
turbocql.accelerate()
cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]))
session = cluster.connect()
replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
for text in (
    "DROP KEYSPACE IF EXISTS counting",
    f"CREATE KEYSPACE counting WITH replication = {replication}",
    "CREATE TABLE counting.t (a int PRIMARY KEY, b text)",
):
    session.execute(text)
insert = "INSERT INTO counting.t (a, b) VALUES (%s, %s)"
for i in range(7):
    session.execute(insert, (i, "it's"))
session.execute_async(SimpleStatement(insert), (7, "b")).result()
batch = BatchStatement()
batch.add(insert, (8, "b"))
batch.add(SimpleStatement("INSERT INTO counting.t (a, b) VALUES (9, 'c')"))
session.execute(batch)
prepared = session.prepare("INSERT INTO counting.t (a, b) VALUES (?, ?)")
session.execute(prepared, (10, "d"))
assert len(list(session.execute("SELECT * FROM counting.t"))) == 11
# Asks with parameters of the driver's own.
cluster.refresh_table_metadata("counting", "t")
cluster.refresh_keyspace_metadata("counting")
cluster.shutdown()
seams = {seam.name: seam for seam in turbocql.accel.status().seams}
print(seams["query.bind_params"].native, seams["query.BoundStatement.bind"].native)
"""


@pytest.mark.parametrize("when", ["early", "late"])
@pytest.mark.parametrize("driver", ALL_DRIVERS)
def test_simple_statements_are_counted(cassandra: Cassandra, driver: str, when: str) -> None:
    host, _, port = cassandra.contact_points[0].rpartition(":")
    done = run(python_of(driver), "-c", COUNTING, host, port, when)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "9 1\n"
