"""Runs the examples of the pages and docstrings, and compares output that docstrings show.

`make check-engines` runs the examples of docs/engines.md. The tests of `tests/cookbook` run the
programs of docs/cookbook.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from tests.support.shared_node import PRELUDE, new_keyspaces_dropped

import turbocql
from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MARK = "-- next --"


def programs(page: Path) -> list[list[str]]:
    """Returns the programs of a page. Each program is a list of its blocks of code.

    A block that does not import turbocql continues the program before it. A folded set-up and the
    block after it count as one block, because `test_page` requires that each block prints, and a
    set-up alone need not print. The function also finds indented blocks, because blocks in tabs are
    indented.
    """
    text = page.read_text()
    found: list[list[str]] = []
    after_set_up = False
    for block in re.finditer(r"^( *)```python\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE):
        code = textwrap.dedent(block[2])
        begins = re.search(r"^\s*(import|from) turbocql", code, re.MULTILINE)
        if after_set_up:
            found[-1][-1] += code
        elif not found or begins:
            found.append([code])
        else:
            found[-1].append(code)
        before = text[: block.start()]
        after_set_up = before.count("<details") > before.count("</details>")
    return found


GEVENT = pytest.mark.needs(sys.version_info < (3, 14), "gevent")
PROGRAMS = [
    pytest.param(
        blocks,
        id=f"{page.relative_to(ROOT)}-{i}",
        marks=GEVENT if "from gevent" in blocks[0] else (),
    )
    for page in PAGES
    for i, blocks in enumerate(programs(page))
]
# These interpreters run the programs of the migration guide. The keys are the drivers.
DRIVERS = {
    "cassandra-driver": ROOT / ".venv-cassandra-driver" / "bin" / "python",
    "turbocql": Path(sys.executable),
}
MIGRATED = [
    "1000 rows",
    "124875.0",
    "2024-02-29 12:00:00 ['new', 'raw']",
    "False",
    "not a value of its type",
    "not a query",
    "[11.5, 11.75]",
]
"""The lines that each program of docs/migrating.md prints."""
# These are the programs of docs/engines.md. `make check-engines` installs the engines and runs the
# programs.
ENGINES = [f"examples/engines/with_{name}.py" for name in ("ray", "spark", "duckdb", "dask")]
MODULES = [
    turbocql.codec,
    turbocql.config,
    turbocql.paging,
    turbocql.protocol,
    turbocql.quoting,
    turbocql.security,
    turbocql.statements,
    turbocql.types,
    turbocql.uuids,
]


def takes_any_node(program: str) -> bool:
    """Whether a program uses `Cassandra()` only in ways that a shared node supports."""
    uses = set(re.findall(r"\bcluster\.(\w+)", program))
    return "Cassandra()" in program and uses <= {"contact_points", "start", "stop"}


@pytest.mark.cassandra
@pytest.mark.parametrize("blocks", PROGRAMS)
def test_page(blocks: list[str], cassandra: Cassandra, tmp_path: Path) -> None:
    """Runs a program of a page. Each block must print something.

    The README's first program starts its own node. Another program uses the node that all tests
    share if `takes_any_node` allows this.
    """
    program = f"\nprint({MARK!r})\n".join(blocks)
    if "cluster.start()" in program and "cluster.stop()" not in program:
        # The page's program does not close the session or the cluster. In this test, warnings are
        # errors, so the ResourceWarnings about unclosed objects would fail the program.
        program += "session.close()\ncluster.stop()\n"
    python, env = sys.executable, None
    if re.search(r"^(from|import) cassandra\b", program, re.MULTILINE) or "from gevent" in program:
        # cassandra-driver and gevent are both installed in the same environment.
        python = str(DRIVERS["cassandra-driver"])
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    if "import polars" in program or "import pyarrow" in program:
        python = str(ROOT / ".venv-columns" / "bin" / "python")
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    points = list(cassandra.contact_points)
    if takes_any_node(program) and [blocks] != programs(PAGES[0])[:1]:
        program = PRELUDE.format(root=str(ROOT), contact_points=points) + program
    with new_keyspaces_dropped(points):
        ran = subprocess.run(
            [python, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=env,
            timeout=120,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert all(printed.strip() for printed in ran.stdout.split(MARK))


def test_every_example_is_run() -> None:
    """Every block of Python begins with a fence that the other tests recognize."""
    for page in PAGES:
        fences = re.findall(r"^ *(?:```+|~~~+) *(?:py|pycon|python)\b.*", page.read_text(), re.M)
        others = [fence for fence in fences if fence.strip() != "```python"]
        if page.parent.name == "cookbook":
            # tests/cookbook/test_pages.py checks that each block includes a file of the examples,
            # and the other tests of tests/cookbook run these files.
            assert others == fences, page
            continue
        titles = {
            "migrating.md": [f'```python title="readings.py, on {driver}"' for driver in DRIVERS],
            "engines.md": [f'```python title="{name}"' for name in ENGINES],
        }
        assert others == titles.get(page.name, []), page


@pytest.mark.parametrize("name", ENGINES)
def test_programs_of_engines_are_those_of_the_examples(name: str) -> None:
    """docs/engines.md shows the example files. `make check-engines` runs these files."""
    page = (ROOT / "docs" / "engines.md").read_text()
    program = (ROOT / name).read_text()
    assert f'```python title="{name}"\n{program}```\n\nIt prints:\n\n```text\n' in page


def test_the_migration_guides_programs_print_the_same(cassandra: Cassandra, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "migrating.md").read_text()
    host, _, port = cassandra.contact_points[0].rpartition(":")
    printed = {}
    for driver, python in DRIVERS.items():
        assert python.exists(), f"make -C {ROOT} .venv-{driver}/.installed"
        found = re.search(rf'```python title="[^"]* {driver}"\n(.*?)```', page, re.DOTALL)
        assert found, driver
        assert ("import turbocql" in found[1]) == (driver == "turbocql")
        program = tmp_path / "readings.py"
        program.write_text(found[1])
        ran = subprocess.run(
            [str(python), str(program), host, port],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        printed[driver] = ran.stdout.splitlines()
    assert printed == dict.fromkeys(DRIVERS, MIGRATED)


def test_the_home_page_has_both_apis() -> None:
    """The page's first tab has the README's program, and the second tab uses asyncio."""
    (first,), (second,), *_ = programs(ROOT / "docs" / "index.md")
    assert [first] == programs(ROOT / "README.md")[0]
    assert "turbocql.connect(" in first
    assert "turbocql.aio.connect(" in second


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstrings_of(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module, extraglobs={"turbocql": turbocql})
    assert tried > 0
    assert failed == 0


@pytest.fixture
def table(cassandra: Cassandra, unique_keyspace: str) -> str:
    """Creates the table that the docstrings' examples use and returns its keyspace."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {unique_keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE {unique_keyspace}.t (k int PRIMARY KEY, v text)")
        session.execute(f"INSERT INTO {unique_keyspace}.t (k, v) VALUES (1, 'a')")
    return unique_keyspace


async def run_example(example: doctest.Example, names: dict[str, Any], keyspace: str) -> None:
    """Runs an example, which may have `await` at its top level, and compares its output."""
    point = names["contact_point"]
    source = example.source.replace("127.0.0.1:9042", point).replace('"demo"', f'"{keyspace}"')
    tree = ast.parse(source)
    shown: list[str] = []

    def show(value: object) -> None:
        if value is not None:
            shown.append(repr(value))

    def compiled(nodes: list[ast.stmt], mode: str) -> CodeType:
        part: Any
        if mode == "eval":
            assert isinstance(nodes[0], ast.Expr)
            part = ast.Expression(nodes[0].value)
        else:
            part = ast.Module(nodes, [])
        code: CodeType = compile(part, "<example>", mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return code

    # The example also shows the value of an expression that is inside a `with` block.
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for inner in node.body:
                if isinstance(inner, ast.Expr):
                    inner.value = ast.Call(ast.Name("__show__", ast.Load()), [inner.value], [])
    ast.fix_missing_locations(tree)
    names["__show__"] = show
    for statement in tree.body:
        mode = "eval" if isinstance(statement, ast.Expr) else "exec"
        value = eval(compiled([statement], mode), names)
        if inspect.iscoroutine(value):
            value = await value
        if mode == "eval":
            show(value)
    assert "\n".join(shown) == example.want.strip()


@pytest.mark.parametrize("name", ["session", "aio", "dbapi"])
def test_docstrings_of_the_apis(name: str, cassandra: Cassandra, table: str) -> None:
    module: ModuleType = getattr(sys.modules["turbocql"], name)
    point = cassandra.contact_points[0]

    async def run() -> int:
        tried = 0
        names: dict[str, Any] = {"turbocql": turbocql, "contact_point": point}
        if name == "session":
            names["session"] = turbocql.connect(point, keyspace=table)
        elif name == "dbapi":
            connection = turbocql.dbapi.connect(point, keyspace=table)
            names |= {"session": connection, "cursor": connection.cursor()}
        else:
            names["session"] = await turbocql.aio.connect(point, keyspace=table)
        for test in doctest.DocTestFinder().find(module):
            for example in test.examples:
                await run_example(example, names, table)
                tried += 1
        closing = names["session"].close()
        if inspect.isawaitable(closing):
            await closing
        return tried

    assert asyncio.run(run()) >= 2
