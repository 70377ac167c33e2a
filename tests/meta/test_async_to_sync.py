"""Checks the translations of scripts/async_to_sync.py, and that its generated files are current."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.meta.sources import PACKAGE, ROOT

SCRIPT = ROOT / "scripts" / "async_to_sync.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("async_to_sync", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load()


def test_the_generated_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_each_generated_file_names_its_source() -> None:
    for source, target in script.FILES.items():
        first_line = (PACKAGE / target).read_text(encoding="utf-8").partition("\n")[0]
        assert first_line == (
            f"# Generated from {source} by scripts/async_to_sync.py: change that file."
        )


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the script work on a copy of the files that it reads and writes."""
    definitions = script.DEFINITIONS
    for name in (
        *script.FILES,
        *script.FILES.values(),
        *definitions,
        *(source for source, _ in definitions.values()),
    ):
        path = tmp_path / "python" / "turbocql" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((PACKAGE / name).read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "PACKAGE", tmp_path / "python" / "turbocql")
    return tmp_path / "python" / "turbocql"


@pytest.mark.parametrize(
    ("source", "target", "before", "after"),
    [
        ("aio.py", "session.py", "concurrency: int = 256", "concurrency: int = 128"),
        ("aio.py", "_diagnosis/blocking.py", "statement = next", "text = next"),
        ("_session/async_tables.py", "_session/tables.py", "= await in_thread(", "= await ("),
        ("rows.py", "rows.py", "await self._trace()", "self._trace()"),
    ],
)
def test_a_change_of_a_source_is_noticed_and_written(
    copy: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    target: str,
    before: str,
    after: str,
) -> None:
    text = (copy / source).read_text(encoding="utf-8")
    assert before in text
    (copy / source).write_text(text.replace(before, after, 1), encoding="utf-8")
    target_before = (copy / target).read_bytes()

    assert script.main(["--check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"--- python/turbocql/{target}",
        f"+++ python/turbocql/{target}, generated",
    ]
    assert any(line.startswith("+ ") for line in lines)
    assert (copy / target).read_bytes() == target_before

    assert script.main([]) == 0
    assert capsys.readouterr().out == f"python/turbocql/{target} is written\n"
    assert (copy / target).read_bytes() != target_before


@pytest.mark.parametrize("target", ["session.py", "rows.py"])
def test_a_change_of_a_generated_file_is_noticed_and_undone(copy: Path, target: str) -> None:
    text = (copy / target).read_text(encoding="utf-8")
    first, generated, rest = text.partition("# Generated from ")
    changed = first + generated + rest.replace("return ", "return  not ", 1)
    (copy / target).write_text(changed, encoding="utf-8")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert (copy / target).read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"),
    [
        ("async def f() -> AsyncSession:\n    await g()\n", "def f() -> Session:\n    g()\n"),
        ("def f() -> Coroutine[Any, Any, AsyncRows[T]]: ...\n", "def f() -> Rows[T]: ...\n"),
        ("async with a as b:\n    pass\n", "with a as b:\n    pass\n"),
        ("rows = [row async for row in rows]\n", "rows = [row for row in rows]\n"),
        # An awaited native operation becomes a call of its `wait`. Other awaits are removed.
        ("await op\n", "op.wait()\n"),
        ("await op.result()\n", "op.result()\n"),
        ("await operation\n", "operation\n"),
        ("await self._core.close(timeout_s)\n", "self._core.close(timeout_s).wait()\n"),
        ("await self._start_scan(f(x)[0])\n", "self._start_scan(f(x)[0]).wait()\n"),
        (
            "while f() and await self._advance(): ...\n",
            "while f() and self._advance().wait(): ...\n",
        ),
        # Parentheses around an awaited expression are removed, unless they belong to a call.
        ("(await f(x)).one()\n", "f(x).one()\n"),
        ("f(await g(x))\n", "f(g(x))\n"),
        ("f[0](await g(x), 1)\n", "f[0](g(x), 1)\n"),
        ("x += await (await op).all()\n", "x += op.wait().all()\n"),
        ("(await (await f()).all())[0]\n", "f().all()[0]\n"),
        ("x = (await f(), 1)\n", "x = (f(), 1)\n"),
        ("x = not (await f())\n", "x = not f()\n"),
        # A call that runs in a thread becomes a direct call.
        ("await in_thread(self.end)\n", "self.end()\n"),
        ("x = await in_thread(a.b, c, await op)\n", "x = a.b(c, op.wait())\n"),
        ("if not await in_thread(f, g(1, 2)): ...\n", "if not f(g(1, 2)): ...\n"),
        # Strings and comments keep `await`. Doctest examples do not.
        ('f("await x")  # await x\n', 'f("await x")  # await x\n'),
        (
            '"""E:\n    >>> async with a.b() as c:\n    ...     (await c.d()).one()\n    1\n"""\n',
            '"""E:\n    >>> with a.b() as c:\n    ...     c.d().one()\n    1\n"""\n',
        ),
        # Comments mark code for one of the two APIs.
        ("a = 1\n# Why.\nb = [\n]  # async only\n", None),
        ("a = 1\n# Why.\nb = [  # async only\n    2,\n]\nc = 3\n", "a = 1\nc = 3\n"),
        ("if a:  # async only\n    b()\n# sync: c()\nd()  # async only\n", "c()\n"),
        # Some names differ between the two APIs.
        ("__all__ = ['AsyncPages', 'AsyncioPages']\n", "__all__ = ['SyncPages', 'AsyncioPages']\n"),
        ("from .async_tables import AsyncTables\n", "from .tables import Tables\n"),
        (
            "def __aiter__(self): raise StopAsyncIteration\n",
            "def __iter__(self): raise StopIteration\n",
        ),
        (
            "x = 'see [`a`][turbocql.aio.a], turbocql.aio.a'\n",
            "x = 'see [`a`][turbocql.session.a], turbocql.a'\n",
        ),
    ],
)
def test_translation(asynchronous: str, synchronous: str | None) -> None:
    if synchronous is None:
        with pytest.raises(SystemExit, match="no statement begins here"):
            script.synchronous(asynchronous)
    else:
        assert script.synchronous(asynchronous) == synchronous


def test_a_replacement_whose_text_is_in_no_source_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "TEXTS", [*script.TEXTS, ("as it once was", "as it is")])
    with pytest.raises(SystemExit, match="not exactly once in the sources:\nas it once was"):
        script.generated()
