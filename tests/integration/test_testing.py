"""Tests of `turbocql.testing`: clusters answer, obey their settings and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.nodes import eventually

from turbocql.testing import Cassandra, CassandraError, MissingPrerequisite, Node
from turbocql.testing.addresses import Claim
from turbocql.testing.jars import VERSION, cache_dir, ensure_jars
from turbocql.testing.java import find_java
from turbocql.testing.probe import Connection, ProbeError

HEAP_MB = 512
KEYSPACE = (
    "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {}}}"
)

needs_cassandra = pytest.mark.cassandra


def exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def processes_of(folder: Path) -> list[int]:
    """Returns the ids of all processes whose command line names the cluster's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in line:
                found.append(int(entry.name))
    return found


def folder_of(node: Node) -> Path:
    return node.log.parent.parent


def pid_of(node: Node) -> int:
    assert node.pid is not None
    return node.pid


def answers(node: Node) -> bool:
    with node.probe() as connection:
        return connection.query("SELECT release_version FROM system.local").rows == [
            [VERSION.encode()]
        ]


@pytest.fixture(scope="module")
def one() -> Iterator[Cassandra]:
    with Cassandra(heap_mb=HEAP_MB) as cluster:
        yield cluster


@needs_cassandra
def test_a_node_answers_and_has_its_features_enabled(one: Cassandra) -> None:
    (node,) = one.nodes
    assert one.contact_points == [node.contact_point] == [f"{node.address}:9042"]
    assert (one.user, one.password, one.ca_certificate, one.client_key) == (None,) * 4
    assert node.is_running
    assert node.log.is_file()
    with node.probe() as connection:
        connection.query(KEYSPACE.format("features", 1))
        connection.query("USE features")
        connection.query("CREATE TABLE t (k int PRIMARY KEY, v int, e vector<float, 2>)")
        connection.query("CREATE INDEX ON t (e) USING 'sai'")
        connection.query(
            "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t "
            "WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)"
        )
        connection.query(
            "CREATE FUNCTION twice (n int) RETURNS NULL ON NULL INPUT RETURNS int "
            "LANGUAGE java AS 'return n * 2;'"
        )
        connection.query("INSERT INTO t (k, v, e) VALUES (1, 21, [1, 2])")
        doubled = connection.query("SELECT twice(v) FROM t WHERE k = 1").rows
        assert doubled == [[b"\x00\x00\x00\x2a"]]
        assert connection.query("SELECT k FROM by_v WHERE v = 21").rows == [[b"\0\0\0\1"]]
        nearest = connection.query("SELECT k FROM t ORDER BY e ANN OF [1, 1] LIMIT 1").rows
        assert nearest == [[b"\0\0\0\1"]]


@pytest.mark.exhaustive
@needs_cassandra
def test_two_clusters_at_once_do_not_collide(one: Cassandra) -> None:
    with Cassandra(heap_mb=HEAP_MB, config={"num_tokens": 4}) as other:
        assert other.nodes[0].address != one.nodes[0].address
        assert answers(one.nodes[0])
        assert answers(other.nodes[0])
        with other.nodes[0].probe() as connection:
            (tokens,) = connection.query("SELECT tokens FROM system.local").rows[0]
        assert tokens is not None
        assert int.from_bytes(tokens[:4], "big") == 4  # num_tokens is that of `config`
        pid, folder = pid_of(other.nodes[0]), folder_of(other.nodes[0])
    assert not exists(pid)
    assert not folder.exists()
    assert processes_of(folder) == []
    assert answers(one.nodes[0])


@needs_cassandra
def test_a_paused_node_is_silent_until_it_resumes(one: Cassandra) -> None:
    (node,) = one.nodes
    with node.probe(timeout_s=1.0) as connection:
        node.pause()
        assert node.is_running
        assert node.is_paused
        with pytest.raises(TimeoutError):
            connection.query("SELECT key FROM system.local")
    node.resume()
    assert not node.is_paused
    assert eventually(lambda: answers(node))


@needs_cassandra
def test_a_node_keeps_address_and_data(one: Cassandra) -> None:
    (node,) = one.nodes
    address, pid = node.address, pid_of(node)
    with node.probe() as connection:
        connection.query(KEYSPACE.format("kept", 1))
        connection.query("CREATE TABLE kept.t (k int PRIMARY KEY)")
        connection.query("INSERT INTO kept.t (k) VALUES (7)")
    node.pause()
    node.stop()  # also stops a paused node
    assert not node.is_running
    assert not exists(pid)
    assert "shutdown complete" in node.log_tail()
    with pytest.raises(ConnectionRefusedError):
        node.probe()
    with pytest.raises(CassandraError, match=r"cannot pause node .* not running"):
        node.pause()
    node.stop()
    node.kill()
    node.start()
    assert node.address == address
    with node.probe() as connection:
        assert connection.query("SELECT k FROM kept.t").rows == [[b"\0\0\0\7"]]


@needs_cassandra
def test_tls_and_authentication() -> None:
    with Cassandra(
        tls=True, require_client_certificate=True, authentication=True, heap_mb=HEAP_MB
    ) as cluster:
        (node,) = cluster.nodes
        assert (cluster.user, cluster.password) == ("cassandra", "cassandra")
        assert answers(node)
        for path in (cluster.ca_certificate, cluster.client_certificate, cluster.client_key):
            assert path is not None
            assert path.read_text().startswith("-----BEGIN ")

        trusting = ssl.create_default_context(cafile=cluster.ca_certificate)
        with pytest.raises((ssl.SSLError, ConnectionError)):  # the client has no certificate
            Connection(node.address, context=trusting)
        with pytest.raises(ssl.SSLCertVerificationError):  # the client does not know the authority
            Connection(node.address, context=ssl.create_default_context())
        with pytest.raises((OSError, CassandraError)):  # the client does not encrypt
            Connection(node.address, timeout_s=2.0)

        assert cluster.client_certificate is not None
        trusting.load_cert_chain(cluster.client_certificate, cluster.client_key)
        with pytest.raises(ProbeError, match="password are incorrect"):
            Connection(node.address, context=trusting, user="cassandra", password="wrong")
        with pytest.raises(CassandraError, match="asks for a user"):
            Connection(node.address, context=trusting)


@pytest.mark.parametrize(
    ("racks", "error", "message"),
    [
        (["a"], ValueError, "racks: expected the racks of 2 nodes, got"),
        ("ab", TypeError, "racks: expected the racks of 2 nodes, got 'ab'"),
        ({"a", "b"}, TypeError, "racks: expected the racks of 2 nodes, got"),
        (1, TypeError, "racks: expected the racks of 2 nodes, got 1"),
        (["a", ""], ValueError, "racks: expected letters, digits and any of _.-, got ''"),
        (["a", "b\nrack=c"], ValueError, "got 'b.nrack=c'"),
        (["a", ("b",)], TypeError, "racks: expected a rack or .datacenter, rack. for each node"),
        ([1, 2], TypeError, "for each node, got 1"),
    ],
)
def test_wrong_racks(racks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Cassandra(nodes=2, racks=racks)


@needs_cassandra
def test_a_node_in_a_rack_of_its_own() -> None:
    with Cassandra(heap_mb=HEAP_MB, racks=[("east", "r-1.a")]) as cluster:
        with cluster.nodes[0].probe() as connection:
            rows = connection.query("SELECT data_center, rack FROM system.local").rows
        assert rows == [[b"east", b"r-1.a"]]


@pytest.mark.exhaustive
@needs_cassandra
def test_three_nodes_survive_the_loss_of_one() -> None:
    with Cassandra(nodes=3, heap_mb=HEAP_MB) as cluster:
        assert len({node.address for node in cluster.nodes}) == 3
        first, second, third = cluster.nodes
        with first.probe() as connection:
            connection.query(KEYSPACE.format("replicated", 3))
            connection.query("CREATE TABLE replicated.t (k int PRIMARY KEY, v text)")
            cluster.wait_until_settled()  # every node must know the table
            connection.query("INSERT INTO replicated.t (k, v) VALUES (1, 'x')", "ALL")
        pid = pid_of(third)
        third.kill()
        assert not third.is_running
        assert not exists(pid)
        for node in (first, second):
            with node.probe() as connection:
                select = "SELECT v FROM replicated.t WHERE k = 1"
                assert connection.query(select, "QUORUM").rows == [[b"x"]]
        third.start()  # returns when all nodes see each other, so ALL works at once
        for node in cluster.nodes:
            with node.probe() as connection:
                assert connection.query(select, "ALL").rows == [[b"x"]]
                assert len(connection.query("SELECT peer FROM system.peers").rows) == 2
        pids = [pid_of(node) for node in cluster.nodes]
    assert not any(exists(pid) for pid in pids)


@needs_cassandra
def test_an_exception_ends_the_cluster() -> None:
    cluster = Cassandra(heap_mb=HEAP_MB)
    with pytest.raises(ZeroDivisionError), cluster:
        assert 1 // 0
    assert processes_of(folder_of(cluster.nodes[0])) == []
    assert not folder_of(cluster.nodes[0]).exists()


@pytest.mark.exhaustive
@needs_cassandra
def test_ctrl_c_ends_a_cluster_of_the_command_line() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "turbocql.testing", "--heap-mb", str(HEAP_MB)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=child_environment(),
    )
    try:
        assert child.stdout is not None
        shown = ""
        while "Ctrl-C" not in shown:
            line = child.stdout.readline()
            assert line, shown
            shown += line
        log = Path(shown.split("log:")[1].split()[0])
        assert "contact points: 127." in shown
        assert "turbocql.connect(" in shown
        assert len(processes_of(log.parent.parent)) == 2  # the server, and its parent, the guard
        os.killpg(child.pid, signal.SIGINT)  # like Ctrl-C in a terminal
        rest, _ = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0
    assert "ended" in rest
    assert processes_of(log.parent.parent) == []
    assert not log.parent.parent.exists()


@pytest.mark.exhaustive
@needs_cassandra
def test_the_death_of_the_starter_ends_the_cluster() -> None:
    script = textwrap.dedent(f"""
        import os, threading, time
        from turbocql.testing import Cassandra

        cluster = Cassandra(heap_mb={HEAP_MB})
        # In a thread that ends: the node belongs to the process, not to the thread.
        starting = threading.Thread(target=cluster.start)
        starting.start()
        starting.join()
        if os.fork() == 0:  # a child that inherits every pipe and lives on
            time.sleep(5)
            os._exit(0)
        time.sleep(1)
        print(cluster.nodes[0].is_running, cluster.nodes[0].log, flush=True)
        time.sleep(600)
    """)
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=child_environment()
    )
    try:
        assert child.stdout is not None
        running, log = child.stdout.readline().split()
    finally:
        child.kill()
        child.wait()
        child.stdout.close() if child.stdout else None
    assert running == "True"
    folder = Path(log).parent.parent
    assert eventually(lambda: processes_of(folder) == [] and not folder.exists())


@pytest.mark.exhaustive
@needs_cassandra
def test_the_death_of_the_guard_ends_its_node() -> None:
    with Cassandra(heap_mb=HEAP_MB) as cluster:
        (node,) = cluster.nodes
        pid = pid_of(node)
        (guard,) = set(processes_of(folder_of(node))) - {pid}
        os.kill(guard, signal.SIGKILL)
        assert eventually(lambda: not exists(pid))
        assert eventually(lambda: not node.is_running)


@pytest.mark.exhaustive
@needs_cassandra
def test_a_failed_start_shows_the_log() -> None:
    with pytest.raises(CassandraError) as caught:
        Cassandra(heap_mb=HEAP_MB, config={"no_such_setting": 1}).start()
    message = str(caught.value)
    assert "ended while it was starting; the end of its log:" in message
    assert "no_such_setting" in message


@pytest.mark.exhaustive
@needs_cassandra
def test_a_failed_start_says_where_the_log_is_kept() -> None:
    cluster = Cassandra(heap_mb=HEAP_MB, jvm_options=["-XX:NoSuchOption"], keep_logs=True)
    with pytest.raises(CassandraError, match="NoSuchOption") as caught:
        cluster.start()
    log = cluster.nodes[0].log
    try:
        assert f"(kept in {log})" in str(caught.value)
        assert "NoSuchOption" in log.read_text()
        assert [path.name for path in folder_of(cluster.nodes[0]).iterdir()] == ["logs"]
        assert processes_of(log.parent.parent) == []
    finally:
        log.unlink()
        log.parent.rmdir()
        log.parent.parent.rmdir()


def test_the_error_for_missing_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingPrerequisite) as caught, Cassandra():
        pass
    message = str(caught.value)
    assert "install OpenJDK 17" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("prints", "complaint"),
    [
        ("    java.specification.version = 21", "is version 21: install OpenJDK 17"),
        ("    java.specification.version = 1.8", "is version 8: install OpenJDK 17"),
        ("No Java runtime present", "is not a working Java: install OpenJDK 17"),
    ],
)
def test_an_unsuitable_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, complaint: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPrerequisite, match=complaint):
        find_java()


def test_the_error_for_missing_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("TURBOCQL_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(MissingPrerequisite, match=r"Maven .* apt-get install maven") as caught:
        ensure_jars()
    assert "\n" not in str(caught.value)


def fake_maven(folder: Path, body: str) -> None:
    """Creates an `mvn` script that records its runs and then executes `body`."""
    folder.mkdir()
    mvn = folder / "mvn"
    mvn.write_text(f"#!/bin/sh\necho ran >> {folder}/runs\n{body}\n")
    mvn.chmod(0o755)


@pytest.mark.exhaustive
def test_two_concurrent_fetches_run_maven_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_maven(tmp_path / "bin", f"mkdir lib; sleep 1; echo > lib/cassandra-all-{VERSION}.jar")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TURBOCQL_CACHE_DIR", str(tmp_path / "cache"))
    # Such a folder remains if an earlier fetch was killed before it was complete.
    (tmp_path / "cache" / f"cassandra-{VERSION}.partial-old" / "lib").mkdir(parents=True)
    fetch = "from turbocql.testing.jars import ensure_jars; print(ensure_jars())"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", fetch],
            stdout=subprocess.PIPE,
            text=True,
            env=child_environment(),
        )
        for _ in range(3)
    ]
    lib = cache_dir() / f"cassandra-{VERSION}"
    assert [child.communicate(timeout=30)[0].strip() for child in children] == [str(lib)] * 3
    assert (lib / f"cassandra-all-{VERSION}.jar").is_file()
    assert (tmp_path / "bin" / "runs").read_text() == "ran\n"
    assert sorted(path.name for path in cache_dir().iterdir()) == [lib.name, f"{lib.name}.lock"]


@pytest.mark.exhaustive
def test_a_failed_fetch_shows_the_reason_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_maven(tmp_path / "bin", "mkdir lib; touch lib/half.jar; echo no such host; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TURBOCQL_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        with pytest.raises(CassandraError, match=r"exit status 1\):\nno such host"):
            ensure_jars()
    assert (tmp_path / "bin" / "runs").read_text() == "ran\nran\n"
    assert [path.name for path in cache_dir().iterdir()] == [f"cassandra-{VERSION}.lock"]


def test_a_claimed_block_of_addresses_is_exclusive() -> None:
    with Claim(3) as claim:
        block = claim.addresses[0].rpartition(".")[0]
        assert claim.addresses == [f"{block}.{number}" for number in (1, 2, 3)]
        with socket.socket() as rival:
            rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                rival.bind((f"{block}.254", 9042))


@pytest.mark.parametrize("nodes", [0, 4])
def test_one_to_three_nodes(nodes: int) -> None:
    with pytest.raises(ValueError, match=f"nodes: expected an int from 1 to 3, got {nodes}"):
        Cassandra(nodes)


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="needs tls=True"):
        Cassandra(require_client_certificate=True)
    with pytest.raises(TypeError, match="list of options"):
        Cassandra(jvm_options="-Xint")


PLUGIN_TESTS = """
import pytest

def test_plain(unique_keyspace):
    assert unique_keyspace.startswith("test_")

@pytest.mark.cassandra
def test_marked():
    pass

def test_one(cassandra):
    pass

def test_one_again(cassandra):
    pass
"""


def run_pytest(
    folder: Path, *options: str, path: str | None = None, tests: str = PLUGIN_TESTS
) -> str:
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    environment = child_environment()
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if path is not None:
        environment["PATH"] = path
        environment.pop("JAVA_HOME", None)
    plugin = ["-p", "turbocql.testing.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_no_cassandra_deselects_tests_that_need_it(tmp_path: Path) -> None:
    assert "1 passed, 3 deselected" in run_pytest(tmp_path, "--no-cassandra")


@pytest.mark.exhaustive
def test_a_database_that_cannot_start_is_an_error_not_a_skip(tmp_path: Path) -> None:
    shown = run_pytest(tmp_path, path="")
    assert "2 passed, 2 errors" in shown
    assert "install OpenJDK 17" in shown


def test_loading_the_plugin_loads_no_server() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, turbocql.testing.pytest_plugin\n"
            "print(*(name for name in sys.modules if name.startswith('turbocql.testing')))",
        ],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.split() == ["turbocql.testing", "turbocql.testing.pytest_plugin"]


def child_environment() -> dict[str, str]:
    """Returns this process's environment, with the folder of turbocql in PYTHONPATH."""
    import turbocql.testing

    root = Path(turbocql.testing.__file__ or "").parents[2]
    return {**os.environ, "PYTHONPATH": str(root)}


SESSION_TESTS = """
import asyncio
import pytest
import turbocql

@pytest.fixture(scope="session")
def cassandra_schema():
    counters = "CREATE TABLE n (k int PRIMARY KEY, c counter)"
    return ['CREATE TABLE "Items" (id int PRIMARY KEY, name text)', counters]

@pytest.fixture(scope="session")
def cassandra_settings():
    return {"rows": "dict"}

INSERT = 'INSERT INTO "Items" (id, name) VALUES (?, ?)'
SELECT = 'SELECT * FROM "Items"'

def test_sync(cassandra_session, cassandra_keyspace):
    assert cassandra_session.keyspace == cassandra_keyspace
    assert cassandra_session.execute(SELECT).all() == []
    cassandra_session.execute(INSERT, (1, "a"))
    cassandra_session.execute("UPDATE n SET c = c + 1 WHERE k = 1")
    cassandra_session.execute("CREATE TABLE made_by_a_test (k int PRIMARY KEY)")
    cassandra_session.execute("INSERT INTO made_by_a_test (k) VALUES (1)")

def test_async(cassandra_async_session, cassandra_session):
    async def scenario():
        assert await (await cassandra_async_session.execute(SELECT)).all() == []
        await cassandra_async_session.execute(INSERT, (2, "b"))
    asyncio.run(scenario())
    for table in ("n", "made_by_a_test"):
        assert cassandra_session.execute(f"SELECT * FROM {table}").one() is None
    # The two sessions use one keyspace.
    assert cassandra_session.execute(SELECT).one() == {"id": 2, "name": "b"}

@pytest.mark.parametrize("again", [1, 2])
def test_a_spoilt_session_is_replaced(cassandra_session, cassandra_async_session, again):
    assert cassandra_session.execute(SELECT).one() is None
    cassandra_session.close()
    async def scenario():
        await cassandra_async_session.execute(INSERT, (3, "c"))
        await cassandra_async_session.use_keyspace("system")
    asyncio.run(scenario())

def test_the_cluster(cassandra):
    assert cassandra.contact_points
    print("KEYSPACES", *turbocql.connect(cassandra.contact_points).schema().keyspaces)
"""
NODE_TEST = """
def test_nodes(cassandra):
    cassandra.nodes[0].stop()
"""
SECURE_TESTS = """
import pytest

@pytest.fixture(scope="session")
def cassandra(cassandra_secure):
    return cassandra_secure

def test_it(cassandra_session):
    assert cassandra_session.config.user == "cassandra"
"""
SECURE_SETTINGS_TESTS = """
import pytest
from turbocql import Tls

@pytest.fixture(scope="session")
def cassandra_settings():
    return {"tls": Tls(ca="CA"), "user": "cassandra", "password": "cassandra"}

def test_it(cassandra_session):
    assert cassandra_session.execute("SELECT key FROM system.local").scalar() == "local"
"""
FAULTY_SCHEMA = """
import pytest

@pytest.fixture(scope="session")
def cassandra_schema():
    return "CREATE TABLE wrong"

def test_it(cassandra_session):
    pass
"""


def keyspaces(cluster: Cassandra) -> set[bytes | None]:
    (node,) = cluster.nodes
    with node.probe() as connection:
        rows = connection.query("SELECT keyspace_name FROM system_schema.keyspaces").rows
    return {name for (name,) in rows}


@needs_cassandra
def test_sessions_for_tests_on_a_server_that_runs(tmp_path: Path, one: Cassandra) -> None:
    before = keyspaces(one)
    url = f"cql://{one.contact_points[0]}"
    for points in (one.contact_points[0], url):
        shown = run_pytest(tmp_path, "-s", "--cassandra", points, tests=SESSION_TESTS)
        assert "5 passed" in shown
        (line,) = [line for line in shown.splitlines() if "KEYSPACES" in line]
        new = {name.encode() for name in line.split()} - before - {b"KEYSPACES"}
        (created,) = [name for name in new if name.startswith(b"test_")]
        assert len(created) == len("test_") + 16
        assert keyspaces(one) == before, "the keyspace of the run is dropped"
    shown = run_pytest(tmp_path, "--cassandra", url, tests=NODE_TEST)
    assert "this run did not start its nodes" in shown
    assert answers(one.nodes[0])
    shown = run_pytest(tmp_path, "--cassandra", url, tests=FAULTY_SCHEMA)
    assert "CqlSyntaxError" in shown
    assert keyspaces(one) == before


@needs_cassandra
def test_sessions_for_tests_on_a_server_of_the_run(tmp_path: Path) -> None:
    assert "5 passed" in run_pytest(tmp_path, tests=SESSION_TESTS)
    assert "5 deselected" in run_pytest(tmp_path, "--no-cassandra", tests=SESSION_TESTS)


@needs_cassandra
def test_sessions_for_tests_with_tls_and_passwords(
    tmp_path: Path, cassandra_secure: Cassandra
) -> None:
    tests = SECURE_SETTINGS_TESTS.replace("CA", str(cassandra_secure.ca_certificate))
    points = cassandra_secure.contact_points[0]
    assert "1 passed" in run_pytest(tmp_path, "--cassandra", points, tests=tests)


@pytest.mark.exhaustive
@needs_cassandra
def test_sessions_for_tests_on_another_cluster(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, tests=SECURE_TESTS)


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    shown = run_pytest(tmp_path, "--cassandra", "127.0.0.1:1", tests=SESSION_TESTS)
    assert "ConnectError" in shown
    assert "1 failed, 4 errors" in shown
    shown = run_pytest(tmp_path, "--cassandra", "db:port", tests=SESSION_TESTS)
    assert "ConfigError" in shown
