"""Reads the project's sources for the tests of this folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = [
    "PACKAGE",
    "ROOT",
    "code",
    "imports",
    "imports_in",
    "python_modules",
    "rust_files",
    "without_comments",
]

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
    return code(path.read_text(encoding="utf-8"))


def code(text: str) -> str:
    """Returns the text of a Rust source without comments, and `""` for each string and char."""
    kept: list[str] = []
    start = 0
    while match := _NO_CODE.search(text, start):
        end = _end_of_comment(text, match.start()) if match[0] == "/*" else match.end()
        lifetime, is_comment = match["lifetime"], match[0].startswith("/")
        lines = "\n" * text.count("\n", match.start(), end)
        kept += (text[start : match.start()], lifetime or (" " if is_comment else '""') + lines)
        start = end
    return "".join([*kept, text[start:]])


_NO_CODE = re.compile(
    r"//[^\n]*|/\*"
    r'|\b[bc]?r(?P<hashes>#*)".*?"(?P=hashes)|(?:\b[bc])?"(?:\\.|[^"\\])*"'
    r"|(?:\bb)?'(?:\\u\{\w*\}|\\x\w\w|\\.|[^'\\])'"
    r"|(?P<lifetime>'\w+)",
    re.DOTALL,
)
"""Matches a comment or its beginning, a string, a char (`'a'`), or a lifetime (`'a`)."""


def _end_of_comment(text: str, start: int) -> int:
    """Returns where the comment ends that begins at `start` with `/*`. It may contain others."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)


@cache
def python_modules() -> dict[str, Path]:
    """Maps the full name of every module of the package to the module's path."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = path
    return modules


@cache
def imports(name: str, *, types: bool = False) -> frozenset[str]:
    """Returns the full names of the turbocql modules that a module imports at run time.

    With `types`, returns those that it imports under `if TYPE_CHECKING` too.
    """
    path = python_modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    text = path.read_text(encoding="utf-8")
    return frozenset(imports_in(text, name, package, types=types))


def imports_in(text: str, name: str, package: str, *, types: bool = False) -> Iterator[str]:
    """Yields the full names of the turbocql modules that the text of a module imports.

    A call of `import_module` or `__import__` counts if the name in it is a constant.
    """
    known = {*python_modules(), "turbocql._core"}
    tree = ast.parse(text)
    nodes = [*(ast.walk(tree) if types else _at_run_time(tree))]
    functions = {"import_module", "__import__"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "importlib":
            functions |= {
                alias.asname
                for alias in node.names
                if alias.name == "import_module" and alias.asname
            }
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            module = ".".join(filter(None, [base if node.level else "", node.module or ""]))
            inside = [f"{module}.{alias.name}" for alias in node.names]
            found = [one if one in known else module for one in inside]
        elif isinstance(node, ast.Call) and _called(node) in functions:
            found = _imported_by_call(node, {"__name__": name, "__package__": package})
        else:
            continue
        yield from (one for one in found if one.split(".")[0] == "turbocql")


def _called(call: ast.Call) -> str:
    """Returns the name of the called function, without the name of its module."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _imported_by_call(call: ast.Call, globals_: dict[str, str]) -> list[str]:
    """Returns the module that `import_module` or `__import__` imports, if its name is constant."""
    given = dict(zip(("name", "package"), call.args, strict=False))
    given |= {keyword.arg or "": keyword.value for keyword in call.keywords}
    name, package = given.get("name"), given.get("package")
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return []
    steps = len(name.value) - len(name.value.lstrip("."))
    if not steps:
        return [name.value]
    if isinstance(package, ast.Constant):
        base = str(package.value)
    else:
        base = globals_.get(getattr(package, "id", ""), globals_["__package__"])
    parts = base.split(".")
    return [".".join(filter(None, [*parts[: len(parts) - steps + 1], name.value[steps:]]))]


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes except those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from (other, *_at_run_time(other))
        else:
            yield node
            yield from _at_run_time(node)
