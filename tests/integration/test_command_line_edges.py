"""Tests of the command line with unusual input and files, closed streams and pipes, and signals."""

from __future__ import annotations

import signal
import socket
import subprocess
import time

import pytest
from tests.integration.test_command_line import (
    PYTHON,
    SPACE,
    Line,
    environment,
    items,
    line,
    opened,
    space,
)

__all__ = ["line", "space"]


def made(line: Line, code: str, *arguments: str) -> None:
    """Runs Python code that makes files. The code can use `sys`, `pa` (pyarrow) and `pq`."""
    program = f"import sys, pyarrow as pa, pyarrow.parquet as pq\n{code}"
    subprocess.run([str(PYTHON), "-c", program, *arguments], check=True, cwd=line.home)


@pytest.mark.parametrize(
    "told",
    [
        b"int, pwned text, other int",
        b"int, PRIMARY KEY (id)) WITH comment = 'x' --",
        b"int); DROP TABLE x; --",
        b"nothing",
        b"list<",
        b"\xff\xfe",
        b'other."un""known"',
    ],
)
def test_the_metadata_of_a_file_cannot_become_a_statement(line: Line, told: bytes) -> None:
    made(
        line,
        "told = bytes.fromhex(sys.argv[1])\n"
        "of_v = pa.field('v', pa.int32(), True, {b'cql_type': told})\n"
        "fields = [pa.field('id', pa.int32()), of_v]\n"
        "table = pa.table([pa.array([1], pa.int32())] * 2, pa.schema(fields))\n"
        "pq.write_table(table, 'told.parquet')",
        told.hex(),
    )
    where = f"{SPACE}.told"
    said = line.fails(2, "load", "told.parquet", where, "--create", "--key", "id")
    assert 'column "v"' in said
    assert "--type" in said
    assert "no table" in line.fails(1, "describe", where)


def test_tables_of_nested_types_are_created_again_from_their_files(line: Line) -> None:
    columns = (
        "k frozen<place>, c tuple<int, text>, m map<uuid, frozen<set<decimal>>>,"
        " l list<frozen<list<float>>>, home place, v vector<frozen<list<int>>, 2>, d duration,"
        ' "A b" text, PRIMARY KEY (k, c)'
    )
    line.ok("query", "-k", SPACE, f"CREATE TABLE {SPACE}.nested ({columns})")
    line.ok(
        "query",
        "-k",
        SPACE,
        "INSERT INTO nested (k, c, m, l, home, v, d, \"A b\") VALUES ({street: 's', number: 1},"
        " (1, 'x'), {9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f: {1.50}}, [[0.1]], {number: 2},"
        " [[1], [2, 3]], 1h30m, 'x')",
    )
    for form in ("parquet", "arrow"):
        line.ok("unload", f"{SPACE}.nested", f"n.{form}")
        where = f"{SPACE}.again_{form}"
        line.ok("load", f"n.{form}", where, "--create", "--key", "k", "--clustering", "c")
        assert "equal" in line.ok("verify", f"n.{form}", where)
    shown = line.ok("query", "--format", "table", f'SELECT l, home, d, "A b" FROM {where}')
    assert shown.splitlines()[2].split(" | ")[:3] == [
        " [[0.1]]",
        "{street: null, number: 2}",
        "1h30m",
    ]


def test_column_types_are_inferred_from_text_files(line: Line) -> None:
    (line.home / "j.jsonl").write_text(
        '{"id": 1, "tags": ["a"], "of": {"k": 1}, "score": 0.5, "day": "2024-01-05", "b": true,'
        ' "at": "2024-01-05T01:02:03Z", "u": "9f1c5b9e-2a5c-4d5c-8d8f-0a1b2c3d4e5f"}\n'
        '{"id": 2, "tags": [], "of": {}, "score": 1, "day": null, "b": null, "at": null}\n'
    )
    said = line.ok("load", "j.jsonl", f"{SPACE}.j", "--create", "--key", "id")
    for column in (
        *("id bigint", "tags list<text>", "of map<text, bigint>", "score double", "day date"),
        *("b boolean", "at timestamp", "u uuid"),
    ):
        assert column.replace("of ", '"of" ') in said, said
    assert "2 of 2 rows loaded" in said
    (line.home / "mixed.jsonl").write_text('{"id": 1, "x": 1}\n{"id": 2, "x": "b"}\n')
    said = line.fails(2, "load", "mixed.jsonl", f"{SPACE}.x", "--create", "--key", "id")
    assert '--type "x=TYPE"' in said
    text = 'id,score,day,zip,v\n1,0.0,2024-01-05,00123,"[1,2]"\n2,0.33,2024-01-06,99999,"[3,4]"\n'
    options = ("--create", "--key", "id", "--format", "csv", "--type", "v=vector<float, 2>")
    said = line.ok("load", "-", f"{SPACE}.c", *options, text=text)
    for column in ("id bigint", "score double", "day date", "zip text", "v vector<float, 2>"):
        assert column in said, said
    found = line.ok("query", f"SELECT zip, v FROM {SPACE}.c WHERE id = 1")
    assert found == '"zip","v"\n"00123","[1,2]"\n'
    assert "alone" in line.fails(2, "load", "-", "j.jsonl", f"{SPACE}.c")
    assert "standard output" in line.fails(2, "unload", f"{SPACE}.c", "-", "--format", "csv")


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "table"])
def test_a_pipe_that_is_closed_early_gives_exit_code_141(line: Line, form: str) -> None:
    query = "SELECT * FROM system_schema.columns"
    command = f"{PYTHON} -m turbocql.cli query --url {line.point} --format {form} '{query}'"
    done = subprocess.run(
        ["bash", "-c", f"({command}; echo $? >&2) | true"],
        env=environment(line.home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "141\n"


@pytest.mark.parametrize("place", ["?password=geheim&user=u", "?user=u&passwor%64=geheim"])
def test_a_url_with_a_password_is_refused(line: Line, place: str) -> None:
    done = line.raw("query", "--url", f"{line.point}/{place}", "SELECT key FROM system.local")
    assert done.returncode == 2
    assert "can be read by other users" in done.stderr
    assert "geheim" not in done.stderr


def test_rejects_are_not_written_over_another_file(line: Line) -> None:
    (line.home / "ok.csv").write_text("k,name\n1,a\nx,b\n")
    other = line.home / "notes.txt"
    other.write_text("keep\n")
    where = f"{SPACE}.t"
    assert "has no rejects" in line.fails(2, "load", "ok.csv", where, "--rejects", "notes.txt")
    assert other.read_text() == "keep\n"
    for _ in range(2):
        # The second load replaces the rejects of the first.
        assert line("load", "ok.csv", where, "--rejects", "r.jsonl").returncode == 4
        assert len((line.home / "r.jsonl").read_text().splitlines()) == 1


def test_half_of_a_pair_of_surrogates_is_a_reject(line: Line) -> None:
    (line.home / "half.jsonl").write_text('{"k": 1, "name": "\\ud800"}\n{"k": 2, "name": "b"}\n')
    done = line("load", "half.jsonl", f"{SPACE}.t", "--rejects", "half.rejects")
    assert done.returncode == 4, done.stderr
    assert "\\ud800" in (line.home / "half.rejects").read_text()


def test_too_many_errors_name_the_first(line: Line) -> None:
    rows = "".join(f"{'x' if n % 2 else n},n\n" for n in range(100))
    (line.home / "bad.csv").write_text(f"k,name\n{rows}")
    said = line.fails(1, "load", "bad.csv", f"{SPACE}.t", "--max-errors", "3")
    assert "stopped because --max-errors 3 was exceeded" in " ".join(said.split())
    assert "the first, row 1" in " ".join(said.split())


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(line: Line, closed: str) -> None:
    for command in (f"query 'SELECT k FROM {SPACE}.t'", f"count {SPACE}.t"):
        whole = f"{PYTHON} -m turbocql.cli {command.replace(' ', f' --url {line.point} ', 1)}"
        done = subprocess.run(
            ["bash", "-c", f"{whole} {closed}"],
            env=environment(line.home),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), (command, closed)


def test_output_that_is_not_utf_8(line: Line) -> None:
    query = "SELECT k, name FROM command_line.t"
    line.ok("query", f"INSERT INTO {SPACE}.t (k, name) VALUES (1, 'é')")
    done = line("query", "--format", "table", query, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\xe9" in done.stdout


STARTED = """
import sys
from turbocql.cli import main
print("started", flush=True)
sys.exit(main())
"""


def test_ctrl_c_during_a_scan_ends_it_soon(line: Line) -> None:
    items(line.home / "some.parquet", 20_000)
    where = f"{SPACE}.scanned"
    line.ok("load", "some.parquet", where, "--create", "--key", "id")
    for command in (["count", where], ["unload", where, "scanned.csv", "--overwrite"]):
        for after_s in (0.05, 0.1, 0.15, 0.2):
            name, *rest = command
            with subprocess.Popen(
                [str(PYTHON), "-c", STARTED, name, "--url", line.point, *rest],
                cwd=line.home,
                env=environment(line.home),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as running:
                # Python itself returns 1 if it is interrupted while it starts.
                assert running.stdout is not None
                assert running.stdout.readline() == "started\n"
                time.sleep(after_s)
                running.send_signal(signal.SIGINT)
                began = time.monotonic()
                _, errors = running.communicate(timeout=60)
            assert running.returncode in (0, 130, -signal.SIGINT), errors
            assert time.monotonic() - began < 5
    assert not list(line.home.glob("*.part"))


def test_the_timeout_option_limits_the_wait_for_a_hung_node(line: Line) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=8) as mute:
        began = time.monotonic()
        point = f"127.0.0.1:{mute.getsockname()[1]}"
        done = line.raw("query", "--url", point, "--timeout", "1", "SELECT key FROM system.local")
        assert done.returncode == 3, done.stderr
        assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("param", "said"),
    [
        ("d=1e400", "too large"),
        ("i=9223372036854775808", "range"),
        ("m=[1,2]", "[key, value]"),
        ('m={"a":1,"a":2}', "two values"),
        ("l=" + "[" * 20_000, "nested too deeply"),
        ("i=²", "expected digits"),
    ],
)
def test_invalid_parameters_are_refused(line: Line, param: str, said: str) -> None:
    where = f"{SPACE}.params"
    line.ok(
        "query",
        f"CREATE TABLE IF NOT EXISTS {where} (k int PRIMARY KEY, d double, i int, da date,"
        " ts timestamp, m map<text, int>, l list<int>, vi varint, tu tuple<int, text>)",
    )
    name = param.partition("=")[0]
    insert = f"INSERT INTO {where} (k, {name}) VALUES (1, ?)"
    assert said in line.fails(2, "query", insert, "--param", param)


def test_printed_values_are_accepted_as_parameters(line: Line) -> None:
    test_invalid_parameters_are_refused(line, "i=x", "expected digits")
    where = f"{SPACE}.params"
    digits = "9" * 5000
    given = {
        "da": "-5000-01-01",
        "ts": "0000-12-31T23:59:59.999Z",
        "tu": '{"0":1,"1":"z"}',
        "vi": digits,
    }
    names = ", ".join(given)
    params = [text for name, value in given.items() for text in ("-p", f"{name}={value}")]
    line.ok("query", f"INSERT INTO {where} (k, {names}) VALUES (2, ?, ?, ?, ?)", *params)
    shown = line.ok("query", f"SELECT {names} FROM {where} WHERE k = 2", "--format", "jsonl")
    for value in given.values():
        assert value in shown
    assert digits in line.ok("query", f"SELECT vi FROM {where} WHERE k = 2", "--format", "table")
    twice = f"SELECT k FROM {where} WHERE k > ? AND k < ? ALLOW FILTERING"
    assert "two markers" in line.fails(2, "query", twice, "--param", "k=1")


@pytest.mark.parametrize("end", [" -- comment", " // it's;", "\n-- a\n-- b", " /* c */"])
def test_comments_may_follow_a_statement(line: Line, end: str) -> None:
    assert line.ok("query", f"SELECT k FROM {SPACE}.t LIMIT 1{end}") == '"k"\n'
    (line.home / "bom.cql").write_text(f"SELECT k FROM {SPACE}.t{end}\n;", "utf-8-sig")
    assert line.ok("query", "--file", "bom.cql") == '"k"\n'


def test_no_invalid_input_ends_the_shell(line: Line) -> None:
    line.ok("query", f"INSERT INTO {SPACE}.t (k, name) VALUES (1, 'first')")
    shell = opened(line, "--keyspace", SPACE)
    for typed in ("DESCRIBE a.b.c", "DESCRIBE a..b", '\\d "', '\\d ""', "PAGING ²", "SHOW x"):
        shell.run(typed, "error: ")
    shell.run("HELP; HELP;", "Ctrl-D ends the shell")
    shell.run(f"TRACING OFF; SELECT name FROM {SPACE}.t;", r"tracing is off[\s\S]*first")
    shell.run("SHOW VERSION", r"turbocql \d+\.\d+")
    shell.run("DESCRIBE TYPES", rf"{SPACE}: place")
    shell.run("DESCRIBE CLUSTER", "Murmur3Partitioner")
    shell.run("DESCRIBE KEYSPACE nowhere", "no keyspace 'nowhere'")
    shell.run("COPY t TO 'x'", "turbocql load FILES")
    shell.run("USE system", r"turbocql:system>$")
    shell.run("SELECT key FROM local -- it's;\r;", r"\blocal\b[\s\S]*\(1 row\)")
    shell.run("\\o out.txt", "results go to out.txt")
    shell.run("SELECT key FROM local;", r"\(1 row\) in out.txt")
    shell.run("\\o", "results go to the terminal")
    assert shell.end() == 0


def test_another_user_logs_in(line: Line) -> None:
    shell = opened(line)
    shell.child.send("LOGIN ann\r")
    shell.wait("password of ann", prompt=False)
    shell.child.send("geheim\r")
    shell.wait("logged in as ann")
    assert "geheim" not in shell.text()
    shell.run("SELECT key FROM system.local;", "local")
    assert shell.end() == 0


def test_nodes_are_printed_as_csv_and_as_a_table(line: Line) -> None:
    rows = line.ok("nodes", "--format", "csv").splitlines()
    assert rows[0].startswith("address,datacenter,")
    assert rows[1].startswith(line.point)
    done = subprocess.run(
        [str(PYTHON), "-m", "turbocql.cli", "nodes", "--url", line.point],
        env={name: it for name, it in environment(line.home).items() if name != "COLUMNS"},
        capture_output=True,
        text=True,
        check=True,
    )
    heading, rule, node = done.stdout.splitlines()
    names = ["address", "datacenter", "rack", "state", "tokens", "shards", "host id"]
    assert [name.strip() for name in heading.split("|")] == names
    assert set(rule) == {"-", "+"}
    assert node.split()[0] == line.point


def test_files_and_profiles_are_completed(line: Line) -> None:
    (line.home / "items.parquet").touch()
    config = line.home / "config" / "turbocql" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[default]\n[production]\n")

    def completed(*words: str) -> str:
        more = {
            "_TURBOCQL_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("turbocql", *words)),
            "COMP_CWORD": str(len(words)),
        }
        code = "import sys; sys.argv[0] = 'turbocql'; from turbocql.cli import main; main()"
        return subprocess.run(
            [str(PYTHON), "-c", code],
            cwd=line.home,
            env=environment(line.home, **more),
            capture_output=True,
            text=True,
            check=False,
        ).stdout

    assert "file,it" in completed("load", "it")
    assert completed("query", "--profile", "pro") == "plain,production\n"


def test_a_terminated_unload_leaves_no_part(line: Line) -> None:
    items(line.home / "some.parquet", 20_000)
    where = f"{SPACE}.terminated"
    line.ok("load", "some.parquet", where, "--create", "--key", "id")
    for number in (signal.SIGTERM, signal.SIGHUP):
        running = subprocess.Popen(
            [str(PYTHON), "-m", "turbocql.cli", "unload", "--url", line.point, where, "u.csv"],
            cwd=line.home,
            env=environment(line.home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not list(line.home.glob(".*.part")):
            if running.poll() is not None:
                break
            time.sleep(0.002)
        running.send_signal(number)
        ended = running.wait(60)
        assert not list(line.home.glob(".*.part"))
        if ended != 128 + number:
            # The unload was complete before the signal arrived. The command has then ended
            # normally, or the signal has killed the interpreter during its shutdown.
            assert ended in (0, -number)
            assert len((line.home / "u.csv").read_text().splitlines()) == 20_001
        (line.home / "u.csv").unlink(missing_ok=True)
