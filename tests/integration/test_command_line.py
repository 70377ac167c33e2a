"""Tests of the command line. Commands run as processes, and the shell in a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest
from tests.meta.sources import ROOT

import turbocql
from turbocql.testing import Cassandra
from turbocql.testing.jars import cache_dir

PYTHON = ROOT / ".venv-columns" / "bin" / "python"
SPACE = "command_line"
Done = subprocess.CompletedProcess[str]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Returns the environment for commands, without the user's own turbocql settings."""
    kept = {name: value for name, value in os.environ.items() if "TURBOCQL" not in name}
    kept |= {"XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    # turbocql is not installed in the environment of `PYTHON`, so PYTHONPATH gives the folder of
    # the package. The native module there fits, because `PYTHON` has the same version as the Python
    # that runs the tests.
    return {**kept, "PYTHONPATH": str(ROOT / "python"), "COLUMNS": "100", **more}


class Line:
    """Runs commands that connect to the test cluster."""

    def __init__(self, cassandra: Cassandra, home: Path) -> None:
        self.point, self.home = cassandra.contact_points[0], home
        assert PYTHON.exists(), f"make -C {ROOT} .venv-columns/.installed"

    def raw(self, *arguments: str, text: str = "", **more: str) -> Done:
        return subprocess.run(
            [str(PYTHON), "-m", "turbocql.cli", *arguments],
            cwd=self.home,
            env=environment(self.home, **more),
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def __call__(self, command: str, *arguments: str, text: str = "", **more: str) -> Done:
        return self.raw(command, "--url", f"{self.point}", *arguments, text=text, **more)

    def ok(self, command: str, *arguments: str, text: str = "") -> str:
        done = self(command, *arguments, text=text)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout

    def fails(self, code: int, command: str, *arguments: str, text: str = "") -> str:
        done = self(command, *arguments, text=text)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def space(cassandra: Cassandra) -> str:
    with turbocql.connect(cassandra.contact_points, timeout_s=30) as session:
        session.execute(f"DROP KEYSPACE IF EXISTS {SPACE}")
        session.execute(
            f"CREATE KEYSPACE {SPACE} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TYPE {SPACE}.place (street text, number int)")
        session.execute(
            f"CREATE TABLE {SPACE}.t (k int PRIMARY KEY, name text, tags set<text>, at timestamp,"
            " home frozen<place>, data blob)"
        )
    return SPACE


@pytest.fixture
def line(cassandra: Cassandra, space: str, tmp_path: Path) -> Line:
    made = Line(cassandra, tmp_path)
    assert made.ok("query", f"TRUNCATE {space}.t") == ""
    return made


def insert(line: Line, *params: str) -> str:
    names = [param.partition("=")[0] for param in params]
    marks = ", ".join("?" for _ in names)
    given = [text for param in params for text in ("--param", param)]
    return line.ok("query", f"INSERT INTO {SPACE}.t ({', '.join(names)}) VALUES ({marks})", *given)


def test_results_in_each_form(line: Line) -> None:
    insert(line, "k=1", "name=it's; ok", 'tags=["b", "a"]', "at=2024-01-02T03:04:05.678Z")
    insert(line, "k=2", "name", "data=0x00ff", 'home={"street": "Elm", "number": 7}')
    select = f"SELECT k, name, tags, at, home, data FROM {SPACE}.t"
    table = line.ok("query", select, "--format", "table")
    assert "it's; ok" in table
    assert "2024-01-02 03:04:05.678Z" in table
    assert "0x00ff" in table
    rows = {
        row["k"]: row
        for row in map(json.loads, line.ok("query", select, "--format", "jsonl").splitlines())
    }
    assert rows[1]["tags"] == ["a", "b"]
    assert rows[2]["home"] == {"street": "Elm", "number": 7}
    assert rows[2]["name"] is None
    # Without a terminal, the output is CSV.
    text = line.ok("query", select)
    assert text.splitlines()[0].replace('"', "") == "k,name,tags,at,home,data"
    assert text == line.ok("query", select, "--format", "csv")
    done = subprocess.run(
        [
            str(PYTHON),
            "-m",
            "turbocql.cli",
            "query",
            "--url",
            line.point,
            select,
            "--format",
            "arrow",
        ],
        env=environment(line.home),
        capture_output=True,
        check=True,
    )
    code = (
        "import pyarrow as pa, sys; print(pa.ipc.open_stream(sys.stdin.buffer).read_all().num_rows)"
    )
    read = subprocess.run(
        [str(PYTHON), "-c", code], input=done.stdout, capture_output=True, check=True
    )
    assert read.stdout == b"2\n"
    heading, first_row = text.splitlines()[:2]
    limited = line.ok("query", select, "--limit", "1", "--format", "csv")
    assert limited.splitlines() == [heading, first_row]
    assert line.ok("query", select, "--expand", "--format", "table").startswith("@ row 1\n")


def test_exit_codes_of_wrong_parameters_and_statements(line: Line) -> None:
    select = f"SELECT * FROM {SPACE}.t WHERE k = ?"
    assert "parameter 'k' (int)" in line.fails(2, "query", select)
    assert "expected int" in line.fails(2, "query", select, "-p", "k=x")
    assert "no parameter 'z'" in line.fails(2, "query", select, "-p", "k=1", "-p", "z=1")
    assert "not both" in line.fails(2, "query", select, "--file", "-")
    assert "there is no statement" in line.fails(2, "query", " ; ")
    assert "error: " in line.fails(1, "query", "SELEC 1")
    assert "nothere" in line.fails(1, "query", f"SELECT * FROM {SPACE}.nothere")
    done = line("query", "SELEC 1")
    assert "Traceback" not in done.stderr
    twice = f"SELECT k AS a, k AS a FROM {SPACE}.t"
    assert "two values for 'a'" in line.fails(1, "query", twice, "--format", "jsonl")
    assert "no table 'nothere'" in line.fails(1, "count", f"{SPACE}.nothere")
    assert "No such file: nothere.csv" in line.fails(1, "load", "nothere.csv", f"{SPACE}.t")
    debug = line.raw("--debug", "query", "--url", line.point, "SELEC 1")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr


def test_parameters_cannot_become_statements(line: Line) -> None:
    evil = f"x'); DROP TABLE {SPACE}.t; --\x1b[31m"
    insert(line, "k=1", f"name={evil}")
    (row,) = line.ok("query", f"SELECT name FROM {SPACE}.t", "--format", "jsonl").splitlines()
    assert json.loads(row) == {"name": evil}
    table = line.ok("query", f"SELECT name FROM {SPACE}.t", "--format", "table")
    assert "\x1b" not in table
    for name in (f"{SPACE}.t; DROP TABLE {SPACE}.t", f"{SPACE}.t WHERE k = 1", '"a"."b"."c"', ""):
        for command in (["count", name], ["unload", name, "out.csv"], ["load", "x.csv", name]):
            done = line(*command)
            assert done.returncode in (1, 2), (command, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr
    assert line.ok("count", f"{SPACE}.t") == "1\n"


def test_several_statements_stop_at_the_first_that_fails(line: Line) -> None:
    text = f"""
        -- two rows; and an error between them
        INSERT INTO {SPACE}.t (k, name) VALUES (1, 'a;b');
        INSERT INTO {SPACE}.t (k, nam) VALUES (2, 'b');
        INSERT INTO {SPACE}.t (k, name) VALUES (3, 'c')
    """
    (line.home / "some.cql").write_text(text)
    assert "statement 2:" in line.fails(1, "query", "--file", "some.cql")
    assert line.ok("count", f"{SPACE}.t") == "1\n"
    line.fails(1, "query", "--keep-going", text=text)
    assert line.ok("count", f"{SPACE}.t") == "2\n"
    assert "1" in line.ok("query", f"SELECT count(*) FROM {SPACE}.t WHERE k = 3", text="ignored")


def test_a_trace_is_printed_as_a_tree(line: Line) -> None:
    done = line("query", f"SELECT * FROM {SPACE}.t WHERE k = 1", "--trace")
    assert done.returncode == 0, done.stderr
    assert "└── " in done.stderr
    assert re.search(r"\d+\.\d{3} ms", done.stderr)


def test_settings_come_from_options_environment_and_profile(line: Line) -> None:
    statement = "SELECT key FROM system.local"
    assert line.raw("query", statement, TURBOCQL_URL=f"cql://{line.point}").returncode == 0
    config = line.home / "config" / "turbocql" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[default]\ncontact_points = ["{line.point}"]\n[slow]\ntimeout_s = "x"\n')
    assert line.raw("query", statement).returncode == 0
    assert line.raw("query", statement, "--profile", "default").returncode == 0
    assert line.raw("query", statement, "--profile", "slow").returncode == 2
    assert line.raw("query", statement, "--profile", "none").returncode == 2
    assert line.raw("query", statement, "--config", "nowhere.toml").returncode == 2
    done = line.raw("query", statement, "--url", f"ann:secret@{line.point}")
    assert done.returncode == 2
    assert "secret" not in done.stderr
    assert "command line" in done.stderr
    done = line.raw("query", statement, "--url", f"ann@{line.point}")
    assert (done.returncode, "TURBOCQL_PASSWORD" in done.stderr) == (2, True)
    done = line.raw("query", statement, "--url", f"ann@{line.point}", TURBOCQL_PASSWORD="x")
    assert done.returncode == 0, done.stderr
    assert line("query", statement, "--timeout", "-1").returncode == 2
    assert line("query", statement, "--consistency", "quorum").returncode == 0
    done = line.raw("query", statement, "--url", "127.0.0.1:1")
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


def items(path: Path, count: int) -> Path:
    """Writes a Parquet file of small vectors and returns its path."""
    code = (
        "import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq\n"
        "path, count = sys.argv[1], int(sys.argv[2])\n"
        "flat = pa.array(np.arange(count * 4, dtype=np.float32))\n"
        "vectors = pa.FixedSizeListArray.from_arrays(flat, 4)\n"
        "names = [f'name {n}' for n in range(count)]\n"
        "pq.write_table(pa.table({'id': np.arange(count), 'name': names, 'v': vectors}), path,"
        " row_group_size=1000)"
    )
    subprocess.run([str(PYTHON), "-c", code, str(path), str(count)], check=True)
    return path


def test_a_file_is_loaded_into_a_new_table_and_unloaded(line: Line) -> None:
    items(line.home / "some; items.parquet", 5000)
    where, path = f"{SPACE}.items", "some; items.parquet"
    line.ok("query", f"DROP TABLE IF EXISTS {where}")
    dry = line.ok("load", path, where, "--create", "--key", "id", "--dry-run")
    assert '"v" vector<float, 4>' in dry or "v vector<float, 4>" in dry
    assert "items" in line.fails(2, "load", path, where)
    loaded = line.ok("load", path, where, "--create", "--key", "id")
    assert "5,000 of 5,000 rows loaded" in loaded
    assert line.ok("count", where) == "5000\n"
    assert line.ok("count", where, "--where", "id < ?", "-p", "id=10") == "10\n"
    assert "equal" in line.ok("verify", path, where)
    assert "5,000 of 5,000 rows fit" in line.ok("load", path, where, "--dry-run")
    for name in ("out.csv", "out.jsonl", "out.arrow", "out.parquet"):
        assert "5,000 rows" in line.ok("unload", where, name)
        assert "equal" in line.ok("verify", name, where)
    assert "exists already" in line.fails(2, "unload", where, "out.csv")
    line.ok("unload", where, "out.csv", "--overwrite", "--limit", "7", "--columns", "id,name")
    assert len((line.home / "out.csv").read_text().splitlines()) == 8
    line.ok("load", "out.csv", where, "--rename", "name=name", "--columns", "id,name")
    line.ok("query", f"UPDATE {where} SET name = 'other' WHERE id = 17")
    done = line("verify", path, where)
    assert done.returncode == 5
    assert "row 17, \"name\": expected 'name 17', found 'other'" in done.stdout
    assert "1,000 rows loaded" in line.ok("load", path, where, "--limit", "1000")


def test_rows_that_fail_have_a_code_and_a_file(line: Line) -> None:
    lines = ["k,name", *(f"{'x' if n in (3, 5) else n},n{n}" for n in range(100))]
    (line.home / "bad.csv").write_text("\n".join(lines))
    where = f"{SPACE}.t"
    done = line("load", "bad.csv", where, "--rejects", "rejects.jsonl")
    assert done.returncode == 4, done.stderr
    assert "98 of 100 rows loaded" in done.stdout
    assert "2 rows failed; they are in rejects.jsonl" in done.stderr
    rejected = [json.loads(it) for it in (line.home / "rejects.jsonl").read_text().splitlines()]
    assert [it["row"] for it in rejected] == [3, 5]
    assert line("load", "bad.csv", where, "--max-errors", "1").returncode == 1
    assert line("load", "bad.csv", where, "--max-errors", "many").returncode == 2
    assert line("load", "none.csv", where).returncode == 1
    assert line("load", "bad.csv", where, "--dry-run").returncode == 4


def test_ctrl_c_leaves_a_checkpoint_to_resume_from(line: Line) -> None:
    items(line.home / "many.parquet", 20_000)
    where = f"{SPACE}.many"
    line.ok(
        "query",
        f"CREATE TABLE {where} (id bigint PRIMARY KEY, name text, v vector<float, 4>)",
    )
    command = ["load", "--url", line.point, "many.parquet", where]
    running = subprocess.Popen(
        [str(PYTHON), "-m", "turbocql.cli", *command, "--checkpoint", "c", "--rate-limit", "4000"],
        cwd=line.home,
        env=environment(line.home),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (line.home / "c").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "--resume c" in said
    assert "Traceback" not in said
    assert 0 < int(line.ok("count", where)) < 20_000
    assert " before, " in line.ok("load", "many.parquet", where, "--resume", "c")
    assert line.ok("count", where) == "20000\n"
    assert "equal" in line.ok("verify", "many.parquet", where)


def test_the_cluster_is_described(line: Line) -> None:
    assert f"CREATE TABLE {SPACE}.t" in line.ok("describe", f"{SPACE}.t")
    whole = line.ok("describe", SPACE)
    assert f"CREATE KEYSPACE {SPACE}" in whole
    assert f"CREATE TYPE {SPACE}.place" in whole
    assert SPACE in line.ok("describe")
    assert "nothere" in line.fails(1, "describe", f"{SPACE}.nothere")
    assert line("describe", "a.b.c").returncode == 2
    assert line.point in line.ok("nodes")
    top = line.ok("top", "--times", "2", "--every", "0.1")
    assert top.count(line.point) == 2
    assert "requests" in top
    assert "partitioner" in line.ok("diagnose")
    assert line.raw("diagnose", "--url", "127.0.0.1:1").returncode == 3


def test_help_is_quick_because_it_imports_little(line: Line) -> None:
    code = (
        "import sys\n"
        "from turbocql.cli import main\n"
        "assert main(['--help']) == 0\n"
        "assert main(['query', '--help']) == 0\n"
        "heavy = {'rich', 'prompt_toolkit', 'pyarrow', 'numpy', 'pygments'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [str(PYTHON), "-c", code], env=environment(line.home), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for command in (
        "query",
        "shell",
        "load",
        "unload",
        "verify",
        "count",
        "describe",
        "nodes",
        "top",
        "diagnose",
        "testing",
        "accel",
        "completion",
    ):
        assert command in done.stdout
        asked = line.raw(command, "--help")
        assert asked.returncode == 0, (command, asked.stderr)
    assert turbocql.__version__ in line.raw("--version").stdout
    assert line.raw("nothere").returncode == 2
    for shell in ("bash", "zsh", "fish"):
        assert "_TURBOCQL_COMPLETE" in line.raw("completion", shell).stdout
    # This is the call that a completion script makes.
    asked = line.raw(_TURBOCQL_COMPLETE="bash_complete", COMP_WORDS="turbocql unl", COMP_CWORD="1")
    assert "unload" in asked.stdout


def test_exit_codes_of_other_programs_are_passed_on(line: Line) -> None:
    (line.home / "ends.py").write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    done = line.raw("accel", "ends.py", "--help", "x")
    # cassandra-driver is not installed here. So `accel` accelerates nothing, but it still runs the
    # program.
    assert (done.returncode, done.stdout) == (7, "['--help', 'x']\n"), done.stderr
    running = subprocess.Popen(
        [str(PYTHON), "-m", "turbocql.cli", "testing", "--heap-mb", "400"],
        cwd=line.home,
        env={**environment(line.home), "TURBOCQL_CACHE_DIR": str(cache_dir())},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    try:
        for text in running.stdout:
            if text.startswith("contact points: "):
                point = text.split(": ")[1].strip()
                done = line.raw("nodes", "--url", point)
                assert (done.returncode, point in done.stdout) == (0, True)
                break
    finally:
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=60)
    assert (running.returncode, "ended" in rest) == (0, True)


def test_a_pipe_that_is_closed_early_prints_no_error(line: Line) -> None:
    query = "SELECT * FROM system_schema.columns"
    shell = f"{PYTHON} -m turbocql.cli query --url {line.point} '{query}' | head -1"
    done = subprocess.run(
        ["bash", "-c", shell],
        env=environment(line.home),
        capture_output=True,
        text=True,
        check=False,
    )
    (heading,) = done.stdout.replace('"', "").splitlines()
    names = ["keyspace_name", "table_name", "column_name", "clustering_order"]
    names += ["column_name_bytes", "kind", "position", "type"]
    assert heading.split(",") == names
    assert done.stderr == ""


PROMPT = re.compile(r"turbocql(:\w+)?>")


class Terminal:
    """A command in a pseudo-terminal. The screen is emulated, so tests see what users see."""

    def __init__(
        self, line: Line, *arguments: str, command: str = "shell", columns: int = 100
    ) -> None:
        more = {"TERM": "xterm-256color", "PAGER": "sed s/^/P:/", "PROMPT_TOOLKIT_NO_CPR": "1"}
        env = environment(line.home, **more)
        del env["COLUMNS"]
        self.screen = pyte.Screen(columns, 60)
        self._stream = pyte.Stream(self.screen)
        self.child = pexpect.spawn(
            str(PYTHON),
            ["-m", "turbocql.cli", command, *arguments],
            cwd=str(line.home),
            env=env,
            dimensions=(60, columns),
            encoding="utf-8",
        )

    def text(self) -> str:
        return "\n".join(it.rstrip() for it in self.screen.display).strip("\n")

    def wait(self, wanted: str, *, prompt: bool = True) -> None:
        """Reads until the screen matches `wanted`.

        If `prompt` is true, the last line of the screen must also be a prompt.
        """
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            try:
                self._stream.feed(self.child.read_nonblocking(4096, timeout=0.1))
            except pexpect.TIMEOUT:
                pass
            except pexpect.EOF:
                break
            lines = self.text().splitlines() or [""]
            if re.search(wanted, self.text()) and (PROMPT.fullmatch(lines[-1]) or not prompt):
                return
        raise AssertionError(f"expected {wanted!r}:\n{self.text()}")

    def run(self, text: str, wanted: str) -> None:
        """Clears the screen, types a line and waits until the screen matches `wanted`."""
        self.child.send("\x0c")
        self.wait(r"^turbocql(:\w+)?>$")
        self.child.send(text + "\r")
        self.wait(wanted)
        assert "Traceback" not in self.text()

    def end(self, *, eof: bool = True) -> int:
        if eof:
            self.child.sendeof()
        self.child.expect(pexpect.EOF, timeout=30)
        self.child.close()
        status = self.child.exitstatus
        assert status is not None
        return status


def opened(line: Line, *arguments: str) -> Terminal:
    """Returns a shell that shows its prompt."""
    shell = Terminal(line, "--url", line.point, *arguments)
    shell.wait("")
    return shell


def test_a_password_is_asked_for_and_a_long_result_is_paged(line: Line) -> None:
    query = "SELECT table_name, column_name FROM system_schema.columns"
    terminal = Terminal(line, "--url", f"ann@{line.point}", query, command="query")
    terminal.wait("password of ann:", prompt=False)
    terminal.child.send("geheim\r")
    terminal.wait("(?m)^P: ", prompt=False)
    assert "geheim" not in terminal.text()
    assert terminal.end(eof=False) == 0
    short = Terminal(line, "--url", line.point, f"{query} LIMIT 3", command="query")
    short.wait(r"(?m)^\(3 rows\)", prompt=False)
    assert "P:" not in short.text()
    assert short.end(eof=False) == 0


def test_the_shell(line: Line) -> None:
    insert(line, "k=1", "name=first")
    (line.home / "more.cql").write_text(f"INSERT INTO {SPACE}.t (k, name) VALUES (2, 'second');")
    shell = opened(line)
    shell.run(f"USE {SPACE};", rf"turbocql:{SPACE}>$")
    shell.run("SELECT k, name FROM t;", r"1 \| first")
    # This statement has several lines.
    shell.run("SELECT name\rFROM t\rWHERE k = 1;", r"first[\s\S]*\(1 row\)")
    shell.run("\\d", rf"{SPACE}: .*\bt\b")
    shell.run("DESCRIBE TABLE t", rf"CREATE TABLE {SPACE}\.t")
    shell.run("\\d t", rf"CREATE TABLE {SPACE}\.t")
    shell.run("SOURCE 'more.cql'", "SOURCE 'more.cql'\n")
    shell.run("EXPAND ON", "expand is on")
    shell.run("SELECT k, name FROM t WHERE k = 2;", r"@ row 1[\s\S]*name \| second")
    shell.run("\\x", "expand is off")
    shell.run("CONSISTENCY ONE", "consistency is ONE")
    shell.run("CONSISTENCY MANY", "expected one of")
    shell.run("PAGING 10", "10 rows are fetched")
    shell.run("TIMING ON", "timing is on")
    shell.run("SELECT k FROM t WHERE k = 1;", r"\d+\.\d{3} ms")
    shell.run("TIMING OFF", "timing is off")
    shell.run("TRACING ON", "tracing is on")
    shell.run("SELECT k FROM t WHERE k = 1;", r"── ")
    shell.run("TRACING OFF", "tracing is off")
    shell.run("CAPTURE 'out.txt'", "results go to out.txt")
    shell.run("SELECT name FROM t WHERE k = 2;", "k = 2;\n")
    shell.run("CAPTURE OFF", "results go to the terminal")
    shell.run("SELEC 1;", "error: ")
    shell.run("NODES", line.point.replace(".", r"\."))
    shell.run("FORMAT jsonl", "jsonl")
    shell.run("SELECT k FROM t WHERE k = 1;", r'\{"k":1\}')
    shell.run("\\nope", "there is no command")
    shell.run("CREATE ROLE x WITH PASSWORD = 'geheim';", "error: ")
    # Ctrl-C discards a line, and Ctrl-D ends the shell.
    shell.child.send("SELECT nothing")
    shell.wait("SELECT nothing", prompt=False)
    shell.child.send("\x03")
    shell.wait("")
    assert shell.end() == 0
    assert "second" in (line.home / "out.txt").read_text()
    kept = line.home / "state" / "turbocql" / "history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "SELECT k, name FROM t;" in kept.read_text()
    assert "geheim" not in kept.read_text()


def test_the_shell_completes_names(line: Line) -> None:
    shell = opened(line, "--keyspace", SPACE)
    # The shell reads the schema in the background, so it may not know the names at first.
    for _ in range(20):
        shell.child.send("\x0cDESCRIBE command_l\t")
        time.sleep(0.5)
        # If the menu of completions is open, the first Enter accepts the selected one and the
        # second Enter runs the line.
        for _ in range(2):
            shell.child.send("\r")
            time.sleep(0.3)
        # The output is longer than the screen.
        shell.wait("CREATE TABLE|error: ")
        if "CREATE TABLE" in shell.text():
            break
    assert f"CREATE TABLE {SPACE}.t" in shell.text()
    assert shell.end() == 0


def test_ctrl_c_cancels_the_request_and_not_the_shell(line: Line, cassandra: Cassandra) -> None:
    shell = opened(line, "--timeout", "60")
    node = cassandra.nodes[0]
    with paused(node):
        shell.child.send(f"SELECT * FROM {SPACE}.t;\r")
        time.sleep(1.0)
        shell.child.send("\x03")
        shell.wait("canceled")
    shell.run("SELECT key FROM system.local;", "local")
    assert shell.end() == 0


class paused:
    """Stops a node with SIGSTOP while the block runs."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def __enter__(self) -> None:
        os.kill(self._node.pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        os.kill(self._node.pid, signal.SIGCONT)


def test_without_a_terminal_there_is_no_shell(line: Line) -> None:
    assert "terminal" in line.fails(2, "shell")
