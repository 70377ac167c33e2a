"""Runs programs that use the drivers as popular libraries do, with and without the accelerator."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from tests.accel.environments import DRIVERS, SAFE, python_of, run_installed
from tests.accel.programs.running import PREFIX
from tests.support.differences import line_differences

import turbocql
from turbocql.testing import Cassandra

REQUESTS = ("bodies", "rows")
BOUND = ("bind", "routing_key", "segments", *REQUESTS)
NAMED = ("named_rows", "simple_statements", *BOUND)
PROGRAMS: dict[str, tuple[str, ...]] = {
    "vector_store": ("types", "timers", "named_rows", *BOUND),
    "chat_history": ("simple_statements", *BOUND),
    "feature_store": NAMED,
    "hash_storage": ("simple_statements", *BOUND),
    "changed_columns": ("cqlengine", "segments", *REQUESTS),
    "data_frames": ("types", "simple_statements", *BOUND),
    "copy_workers": ("timers", *BOUND),
    "threaded_server": ("timers", "sending", "responses", *NAMED),
    "threaded_server asyncore": ("timers", "responses", *NAMED),
    "prefork_server": ("simple_statements", *BOUND),
    "asyncio_service": NAMED,
    "asyncio_service reactor": NAMED,
    "traced": ("timers", *NAMED),
}
"""Maps each program to the parts of the accelerator that the program must use."""
INSERT_SPAN = "INSERT INTO spans (id, name, tags) VALUES (?, ?, ?)"
PRINTED: dict[str, tuple[str, ...]] = {
    "vector_store": (
        "INSERT INTO with 5 values: 'row23', 'text of 23'",
        "{'row_id': 'row3', ",
        "[Row(row_id='row5', ",
        "OverflowError: ",
        "[('row0', [0.001230153371579945, ",
    ),
    "chat_history": (
        "{'partition_id': 'session1', ",
        """'body_blob': "a 'quoted' %s"}""",
        "[(True, []), (True, []), (True, [])]",
        "SortedSet(['d', 'd10'])",
        'invalid type for column "row_id"',
        "\n60\n(11,)",
    ),
    "feature_store": (
        "0\nTrue [('acc_rate', ",
        "True []\nTrue []\nTrue [Row(entity_key=",
        'invalid type for column "value"',
        "False InvalidRequest: ",
        "Row(event_ts=datetime.datetime(2026, 11, 23, 10, 30, 15, 123000)) None",
    ),
    "hash_storage": (
        *(f"'m{number}'" for number in range(60)),
        "[(True, []), (True, []), (True, []), (True, [])]\n[[], [], [], []]",
        'invalid type for column "ts"',
        """None [(b'k', b"\\x00'", -1), (b'k', b'v', 0)]""",
    ),
    "changed_columns": (
        """title head line "it's 10" False""",
        "'views': '99'",
        """'title': "'batch'\"""",
        """'title': "'defaults'\"""",
        "ValidationError: Incorrect columns passed: {'nothing'}",
    ),
    "data_frames": (
        "SyntaxException: ",
        "ValueError: NaTType does not support utctimetuple",
        'invalid type for column "number"',
        """{'symbol': ["it's0", """,
        """{'symbol': ["simple it's0", """,
        "{'symbol': [], 'at': [], ",
    ),
    "copy_workers": (
        "[(48, []), (48, [])]",
        *(f", Decimal('{number}.{number:02}'), " for number in range(96)),
        *(f'invalid type for column "{name}"' for name in ("id", "number", "at", "stock")),
    ),
    "threaded_server": (
        *(f"{worker} {rows} [Row(" for worker in range(8) for rows in range(8, 41, 8)),
        *(f'{worker} Received an argument of invalid type for column "' for worker in range(8)),
        "Row(count=320, system_sum_number=6240, ",
    ),
    "prefork_server": (
        "[Row(id=0, items=None, note='master', total=None)]",
        *(f"{{'id': {100 * worker + number}, " for worker in (1, 2) for number in range(30)),
        "\n0\n",
        'invalid type for column "items"',
        "Row(count=61, system_sum_total=Decimal('870'))",
    ),
    "asyncio_service": (
        *(f"[Row(id={number}, day=Date(" for number in range(80)),
        "\n[]\n[]\n",
        "InvalidRequest: ",
        "\nCancelledError()\nRow(id=5, ",
    ),
    "traced": (
        *(f"execute PreparedStatement: {INSERT_SPAN} ({number}, " for number in range(20)),
        "failed: TypeError: ",
        "failed: InvalidRequest: ",
        *(f"""ended [Row(id={number}, name="it's {number}", """ for number in range(20)),
        """ended [Row(name="it's 3")]""",
    ),
    "green_threads": (
        "Connection\n[Row(id=0, ",
        *(f"] done {number}" for number in range(60)),
        "InvalidRequest: ",
        "\nRow(id=1, at=Time(1), name='done 1', parts=[1, 1, 1])",
    ),
}
"""Maps each program to texts that it must print."""
GREEN = {"cassandra-driver": "green_threads gevent", "eventlet": "green_threads eventlet"}
TWISTED = ("eventlet", "threaded_server twisted")
"""`GREEN` and `TWISTED` have environments, each with a program that runs only there. The program
uses a reactor (an event loop of the driver) that scylla-driver lacks."""
NEEDS = {
    "data_frames": pytest.mark.needs(sys.version_info < (3, 15), "pandas"),
    "threaded_server asyncore": pytest.mark.needs(sys.version_info < (3, 12), "asyncore"),
}
STEPS_ASIDE = {
    *("threaded_server asyncore", "asyncio_service reactor"),
    *("green_threads gevent", "green_threads eventlet", "threaded_server twisted"),
}
"""Programs whose connections do not use libev. For them the accelerator leaves sending to the
driver."""
PATCHED = pytest.mark.needs(sys.version_info < (3, 14), "gevent or eventlet")
CASES = [
    *(
        pytest.param(driver, program, marks=NEEDS.get(program, ()))
        for driver in DRIVERS
        for program in PROGRAMS
    ),
    *(pytest.param(driver, program, marks=PATCHED) for driver, program in GREEN.items()),
    pytest.param(*TWISTED),
]


@pytest.fixture(scope="module")
def keyspaces(cassandra: Cassandra) -> dict[tuple[str, str], str]:
    """Creates two keyspaces for each environment, and returns their names.

    One keyspace is for runs with the accelerator, and the other is for runs without it.
    """
    names = {
        (driver, variable): f"{driver.partition('-')[0]}_{variable}_{uuid4().hex[:8]}"
        for driver in (*DRIVERS, "eventlet")
        for variable in ("0", "1")
    }
    with turbocql.connect(cassandra.contact_points) as session:
        for name in names.values():
            session.execute(
                f"CREATE KEYSPACE {name} WITH replication ="
                " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
    return names


@pytest.mark.parametrize(("driver", "program"), CASES)
def test_a_program_prints_the_same(
    cassandra: Cassandra,
    keyspaces: dict[tuple[str, str], str],
    tmp_path: Path,
    driver: str,
    program: str,
) -> None:
    name, *options = program.split()
    host, _, port = cassandra.contact_points[0].rpartition(":")

    def printed(variable: str) -> list[str]:
        keyspace = keyspaces[driver, variable]
        module = f"tests.accel.programs.{name}"
        folder = tmp_path / variable
        folder.mkdir()
        arguments = ("-m", module, host, port, keyspace, *options)
        done = run_installed(python_of(driver), folder, *arguments, variable=variable)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.replace(keyspace, "KEYSPACE").splitlines()

    with ThreadPoolExecutor(2) as pool:
        plain, accelerated = pool.map(printed, ("0", "1"))
    report = accelerated.pop()
    assert report.startswith(PREFIX)
    output = "\n".join(plain)
    missing = [text for text in PRINTED[name] if text not in output]
    assert not missing, output
    changed = line_differences(plain, accelerated)
    assert not changed, changed
    native = json.loads(report.removeprefix(PREFIX))
    unused = {part for part in PROGRAMS.get(program, ("timers", *NAMED)) if not native[part]}
    assert SAFE or not unused, native
    assert (native["sending"] == 0) == (program in STEPS_ASIDE), native
