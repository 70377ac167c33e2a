"""Reads the project's sources for the tests of this folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PACKAGE", "ROOT", "imports", "python_modules", "rust_files", "without_comments"]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "turbocql"


def rust_files(*folders: str) -> list[Path]:
    """Returns every Rust source below these folders of the project."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.rs")]
    assert files, folders
    return sorted(files)


def without_comments(path: Path) -> str:
    """Returns a Rust source without comments and without the contents of its strings.

    The remaining code stays on lines with the same numbers.
    """
    pattern = r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"'

    def blank(match: re.Match[str]) -> str:
        return '""' + "\n" * match[0].count("\n")

    return re.sub(pattern, blank, path.read_text(encoding="utf-8"), flags=re.DOTALL)


def python_modules() -> dict[str, Path]:
    """Maps the full name of every module of the package to the module's path."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = path
    return modules


def imports(name: str, path: Path) -> Iterator[str]:
    """Yields the full names of the turbocql modules that a module imports at run time."""
    known = {*python_modules(), "turbocql._core"}
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            module = ".".join(filter(None, [base if node.level else "", node.module or ""]))
            inside = [f"{module}.{alias.name}" for alias in node.names]
            found = [one if one in known else module for one in inside]
        else:
            continue
        yield from (one for one in found if one.split(".")[0] == "turbocql")


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes except those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from (other, *_at_run_time(other))
        else:
            yield node
            yield from _at_run_time(node)
