"""Every example of the documentation runs, and gives what it says it gives."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

import turbocql
from turbocql.testing import Cassandra

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
MODULES = [turbocql.codec, turbocql.protocol, turbocql.statements, turbocql.types]


@pytest.mark.cassandra
@pytest.mark.parametrize("block", BLOCKS)
def test_page(block: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout != ""


def test_the_readme_has_both_faces() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGES[0].read_text(), re.DOTALL)
    assert any("turbocql.connect(" in block and "await" not in block for block in blocks)
    assert any("turbocql.aio.connect(" in block for block in blocks)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstrings_of(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module, extraglobs={"turbocql": turbocql})
    assert tried > 0
    assert failed == 0


@pytest.fixture
def table(cassandra: Cassandra, unique_keyspace: str) -> str:
    """A keyspace with the table that the examples speak of."""
    with turbocql.connect(cassandra.contact_points) as session:
        session.execute(
            f"CREATE KEYSPACE {unique_keyspace} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute(f"CREATE TABLE {unique_keyspace}.t (k int PRIMARY KEY, v text)")
        session.execute(f"INSERT INTO {unique_keyspace}.t (k, v) VALUES (1, 'a')")
    return unique_keyspace


async def run_example(example: doctest.Example, names: dict[str, Any], keyspace: str) -> None:
    """Runs one example, `await` at its top and all, and compares what it shows."""
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

    # What the interpreter would show: the values of expressions, inside a block too.
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


@pytest.mark.parametrize("face", ["session", "aio"])
def test_docstrings_of_the_faces(face: str, cassandra: Cassandra, table: str) -> None:
    module: ModuleType = getattr(sys.modules["turbocql"], face)
    point = cassandra.contact_points[0]

    async def run() -> int:
        tried = 0
        names: dict[str, Any] = {"turbocql": turbocql, "contact_point": point}
        if face == "session":
            names["session"] = turbocql.connect(point, keyspace=table)
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
