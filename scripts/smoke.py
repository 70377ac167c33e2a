"""Checks that the installed turbocql is complete and works: smoke.py CONTACT_POINT...

Without a contact point, it leaves out the checks that need a server. scripts/wheels runs this
script with `python -I`, in an environment with no other package. On success it prints one line.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import subprocess
import sys
import uuid
from pathlib import Path

import turbocql
import turbocql.aio
from turbocql.codec import decode, encode


def main(points: list[str]) -> str:
    """Runs all checks, and returns the line to print. Raises an exception if a check fails."""
    package = Path(turbocql.__file__).parent
    expect(package.is_relative_to(sys.prefix), True)
    expect(turbocql.__version__, importlib.metadata.version("turbocql"))
    (core,) = (path for path in package.glob("_core*") if path.suffix in (".so", ".pyd"))
    codec()
    accelerator()
    if points:
        table = f"smoke_{uuid.uuid4().hex[:12]}.t"
        synchronous(points, table)
        asyncio.run(asynchronous(points, table))
        settings(points)
    return (
        f"turbocql {turbocql.__version__} on CPython {platform.python_version()},"
        f" native core {core.stat().st_size / 1e6:.1f} MB:"
        f" all well{'' if points else ', without a server'}"
    )


def expect(got: object, expected: object) -> None:
    """Raises SystemExit if the values differ. An `assert` would have no effect with `python -O`."""
    if got != expected:
        raise SystemExit(f"smoke.py: expected {expected!r}, got {got!r}")


def codec() -> None:
    """Checks encoding and decoding of values, without a server."""
    for cql_type, value, data in (
        ("int", 7, "00000007"),
        ("text", "sieben", "7369656265 6e"),
        ("list<int>", [1, None], "00000002 00000004 00000001 ffffffff"),
        ("vector<float, 2>", [0.5, 1.0], "3f000000 3f800000"),
    ):
        expect(encode(cql_type, value), bytes.fromhex(data))
        expect(decode(cql_type, bytes.fromhex(data)), value)
    try:
        encode("int", "seven")
    except turbocql.errors.EncodeError:
        return
    raise SystemExit("smoke.py: a str was taken for an int")


def accelerator() -> None:
    """Checks that the accelerator can be switched on and off, with no driver installed."""
    turbocql.accelerate()
    expect(turbocql.accel.status().on, True)
    turbocql.accel.uninstall()
    expect(turbocql.accel.status().on, False)


def synchronous(points: list[str], table: str) -> None:
    """Checks the synchronous API. Creates the table."""
    with turbocql.connect(points, compression="lz4") as session:
        keyspace = table.partition(".")[0]
        session.execute(
            f"CREATE KEYSPACE {keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, v text, e vector<float, 2>)")
        insert = session.prepare(f"INSERT INTO {table} (k, v, e) VALUES (?, ?, ?)")
        session.execute(insert, (1, "one", [0.5, 1.0]))
        report = session.execute_many(insert, ((k, str(k), [k, 0]) for k in range(2, 500)))
        expect(report.succeeded, 498)
        row = session.execute(f"SELECT v, e FROM {table} WHERE k = ?", (1,)).one()
        expect((row.v, row.e), ("one", [0.5, 1.0]))
        expect(len(session.execute(f"SELECT * FROM {table}", page_size=100).all()), 499)


async def asynchronous(points: list[str], table: str) -> None:
    """Checks the asynchronous API."""
    async with turbocql.aio.connect(points, compression="snappy", rows="tuple") as session:
        insert = await session.prepare(f"INSERT INTO {table} (k, v) VALUES (?, ?)")
        await asyncio.gather(*(session.execute(insert, (k, "a")) for k in range(1000, 1100)))
        report = await session.execute_many(insert, ((k, "b") for k in range(2000, 2100)))
        expect(report.succeeded, 100)
        rows = await session.execute(f"SELECT k FROM {table}", page_size=100)
        expect(len([row async for row in rows]), 699)


def settings(points: list[str]) -> None:
    """Checks a connection by URL, and `python -m turbocql.diagnose`."""
    with turbocql.connect(f"cql://{','.join(points)}/system?timeout_s=10") as session:
        expect(session.execute("SELECT key FROM local").one().key, "local")
    ran = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-m", "turbocql.diagnose", points[0]],
        capture_output=True,
        text=True,
    )
    expect((ran.returncode, ran.stderr), (0, ""))
    expect(turbocql.__version__ in ran.stdout, True)


if __name__ == "__main__":
    print(main(sys.argv[1:]))
