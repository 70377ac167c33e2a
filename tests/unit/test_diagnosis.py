"""Tests a diagnosis without a server, and how rows of system tables become its list of nodes."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import ROOT

import turbocql
from turbocql import Diagnosis, _core
from turbocql._diagnosis.collect import NodeDiagnosis, _nodes
from turbocql.errors import InvalidQuery, RequestTimeout

FIELDS = {field.name for field in dataclasses.fields(Diagnosis)}


def test_a_diagnosis_without_a_session() -> None:
    found = turbocql.diagnosis()
    assert found.turbocql == found.core_version == turbocql.__version__
    assert found.folder == str(Path(turbocql.__file__).parent)
    assert found.core == Path(_core.__file__ or "").name
    assert found.compressions == ("lz4", "snappy")
    assert found.python == f"cpython {sys.version.split()[0]}"
    assert found.cpus >= 1
    assert found.platform.startswith("Linux")
    assert found.libc
    assert found.numpy
    assert found.uvloop
    assert found.session is None
    assert (found.event_loop, found.woken_by) == (None, None)


def test_a_diagnosis_is_printed_to_any_file_and_converts_to_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    turbocql.diagnose()
    printed, file = capsys.readouterr().out, io.StringIO()
    turbocql.diagnose(file=file)
    assert printed == file.getvalue() == f"{turbocql.diagnosis()}\n"
    assert f"turbocql        {turbocql.__version__}" in printed
    assert "event loop      none runs here" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert set(json.loads(json.dumps(dataclasses.asdict(turbocql.diagnosis())))) == FIELDS


def test_the_asynchronous_diagnosis_adds_the_event_loop() -> None:
    async def main() -> tuple[Diagnosis, Diagnosis]:
        return await turbocql.aio.diagnosis(), turbocql.diagnosis()

    awaited, called = asyncio.run(main())
    assert awaited == called
    assert awaited.event_loop
    assert awaited.event_loop.startswith("asyncio.")
    # The program awaited no native operation, so the loop has no wake mechanism yet.
    assert awaited.woken_by is None
    assert dataclasses.replace(awaited, event_loop=None) == turbocql.diagnosis()


def test_a_diagnosis_describes_the_native_core() -> None:
    found = turbocql.diagnosis()
    assert (found.core_profile, found.core_allocator) == ("release", "mimalloc")
    assert found.engine == f"scylla {_core.ENGINE_VERSION}"
    assert f"scylla {_core.ENGINE_VERSION}" in str(found)
    assert found.tls_backend.startswith("rustls")
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    assert f'name = "scylla"\nversion = "{_core.ENGINE_VERSION}"' in lock


def test_a_diagnosis_says_whether_accelerate_is_on() -> None:
    program = (
        "import turbocql; print(turbocql.diagnosis().accelerate)\n"
        "turbocql.accelerate(); print(turbocql.diagnosis().accelerate)\n"
        "turbocql.accel.uninstall(); print(turbocql.diagnosis().accelerate)"
    )
    ran = run("-c", program)
    off, on, off_again = ran.stdout.splitlines()
    assert off == "off"
    assert on.startswith("on: the package cassandra is not imported yet")
    assert off_again.startswith("off: ")


@pytest.mark.parametrize("session", [5, "db1", object()])
def test_diagnose_accepts_only_sessions(session: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a turbocql\.Session, got"):
        turbocql.diagnose(session)
    with pytest.raises(TypeError, match=r"expected a turbocql\.aio\.AsyncSession, got"):
        asyncio.run(turbocql.aio.diagnose(session))


# The command line


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURBOCQL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**kept, **environment},
    )


def test_the_command_line_without_a_cluster() -> None:
    ran = run("-m", "turbocql.diagnose")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"turbocql        {turbocql.__version__}" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["cql://ann:hunter2@db1:x"], {}, "no session: the URL: host 1 must be"),
        (["cql://ann:hunter2@127.0.0.1:1?connect_timeout_s=5"], {}, "no session: "),
        (["--env"], {"TURBOCQL_TIMEOUT": "hunter2"}, "no session: unknown environment variable"),
        (["--env"], {"TURBOCQL_URL": "cql://ann:hunter2@127.0.0.1:1"}, "no session: "),
    ],
)
def test_the_command_line_if_no_session_can_be_opened(
    arguments: list[str], environment: dict[str, str], said: str
) -> None:
    ran = run("-m", "turbocql.diagnose", *arguments, **environment)
    assert ran.returncode == 1
    assert ran.stderr.strip().startswith(said)
    assert "Traceback" not in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "turbocql        " in ran.stdout


# Nodes


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"host_id": number, "data_center": "dc", "rack": "r", "release_version": "5", **more}


def local(number: int) -> tuple[list[dict[str, Any]], str]:
    return [row(number, key="local", rpc_address=f"10.0.0.{number}")], f"10.0.0.{number}:9042"


def peers(number: int, *others: int) -> tuple[list[dict[str, Any]], str]:
    rows = [row(n, native_address=f"10.0.0.{n}", native_port=9042) for n in others]
    return rows, f"10.0.0.{number}:9042"


def answered(*answers: Any) -> tuple[tuple[NodeDiagnosis, ...], list[str], list[str]]:
    """Answers the queries of a diagnosis with `answers`.

    Returns the list of nodes, the notes, and the table that each query reads.
    """
    notes: list[str] = []
    running: Generator[str, Any, tuple[NodeDiagnosis, ...]] = _nodes(notes)
    asked = [next(running)]
    try:
        for answer in answers:
            asked.append(running.send(answer))
    except StopIteration as end:
        assert len(asked) == len(answers)
        return end.value, notes, [statement.split()[-1] for statement in asked]
    pytest.fail(f"still asking: {asked}")


def addresses(nodes: tuple[NodeDiagnosis, ...]) -> list[str]:
    return [node.address for node in nodes]


ALL = ["10.0.0.1:9042", "10.0.0.2:9042", "10.0.0.3:9042"]


def test_one_node_describes_itself_and_its_peers() -> None:
    nodes, notes, asked = answered(local(1), peers(1, 3, 2))
    assert addresses(nodes) == ALL
    assert nodes[0] == NodeDiagnosis(ALL[0], "dc", "r", "5", "1", None)
    assert (notes, asked) == ([], ["system.local", "system.peers_v2"])


def test_queries_are_repeated_until_every_node_is_described() -> None:
    nodes, notes, _ = answered(local(1), peers(2, 1, 3), local(3), peers(1, 2, 3))
    assert (addresses(nodes), notes) == (ALL, [])
    nodes, notes, _ = answered(local(1), peers(2, 1, 3), local(2), peers(2, 1, 3))
    assert (addresses(nodes), notes) == (ALL, [])
    nodes, notes, _ = answered(*[local(1), peers(2, 1, 3)] * 8)
    assert addresses(nodes) == [ALL[0], ALL[2]]
    assert notes == ["different nodes have answered each time: one node may be missing"]


def test_servers_without_peers_v2() -> None:
    older = [row(2, peer="10.0.0.9", rpc_address="10.0.0.2")], "10.0.0.1:9042"
    nodes, notes, asked = answered(local(1), InvalidQuery("unconfigured table"), older)
    assert addresses(nodes) == ["10.0.0.1:9042", "10.0.0.2"]
    assert (notes, asked[1:]) == ([], ["system.peers_v2", "system.peers"])


def test_failed_queries_are_noted() -> None:
    nodes, notes, _ = answered(RequestTimeout("no answer after 10 s"))
    assert (nodes, notes) == ((), ["system.local: no answer after 10 s"])
    nodes, notes, _ = answered(local(1), RequestTimeout("no answer after 10 s"))
    assert addresses(nodes) == ALL[:1]
    assert notes == ["system.peers_v2: no answer after 10 s"]
    nodes, notes, _ = answered(local(1), InvalidQuery("none"), InvalidQuery("none either"))
    assert notes == ["system.peers: none either"]


def test_addresses_of_ipv6_and_unknown_nodes() -> None:
    rows = [row(2, native_address="2001:db8::2", native_port=9043), row(3)], "[2001:db8::1]:9042"
    nodes, _, _ = answered(([row(1, key="local")], "[2001:db8::1]:9042"), rows)
    assert addresses(nodes) == ["[2001:db8::1]:9042", "[2001:db8::2]:9043", "unknown"]
