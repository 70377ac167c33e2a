"""Checks what the package exports, which modules its import loads, and how long that takes."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import time

import pytest
from tests.meta.sources import python_modules

import turbocql

MODULES = python_modules()
PUBLIC = [
    name
    for name in MODULES
    if not any(part.startswith("_") for part in name.split(".")) and name.count(".") == 1
]
FOR_THE_CORE = {"from_codec", "from_engine", "in_batch"}
"""Functions that only the native core calls. It finds them by their names."""


def order(name: str) -> tuple[int, str]:
    """Returns a sort key: constants are first, then classes, then all other names."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", ["turbocql", *PUBLIC])
def test_all_is_sorted_and_its_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    exported = list(module.__all__)
    assert exported == sorted(exported, key=order)
    assert len(exported) == len(set(exported))
    for one in exported:
        assert getattr(module, one) is not None
        assert one in dir(module)


@pytest.mark.parametrize("name", PUBLIC)
def test_all_has_everything_that_is_defined(name: str) -> None:
    """Each definition of a module is exported, private, a type variable, or in `FOR_THE_CORE`."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    defined: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            if ast.unparse(node.value).startswith("TypeVar("):
                continue
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    hidden = {one for one in defined if one.startswith("_")}
    assert defined - hidden - FOR_THE_CORE <= set(importlib.import_module(name).__all__)


def test_the_package_exports_all_public_names() -> None:
    exported = set(turbocql.__all__)
    for module in (
        "bulk",
        "config",
        "policies",
        "rows",
        "session",
        "statements",
        "types",
        "diagnose",
    ):
        offered = set(importlib.import_module(f"turbocql.{module}").__all__)
        # The package does not export these names. Users need them only for annotations, and can
        # import them from their modules.
        offered -= {
            "AwaitableRows",
            "BatchKind",
            "ConsistencyName",
            "NodeDiagnosis",
            "QuickPath",
            "RowsAs",
            "SerialConsistencyName",
            "SessionDiagnosis",
            "Settings",
            "Statement",
            "UnsetType",
            "Values",
        }
        assert offered <= exported, module
    namespace: dict[str, object] = {}
    exec("from turbocql import *", namespace)
    assert exported <= set(namespace)


def imported_by(statement: str) -> set[str]:
    """Returns the modules that a statement imports in a fresh interpreter."""
    program = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_importing_imports_nothing_heavy() -> None:
    loaded = imported_by("import turbocql")
    assert "turbocql._core" in loaded
    heavy = {"numpy", "pytest", "asyncio", "ssl", "subprocess", "uvloop", "typing_extensions"}
    assert loaded & heavy == set()
    assert not any(name.startswith("turbocql.testing") for name in loaded)


def test_numpy_is_imported_when_it_is_used() -> None:
    decode = "from turbocql.codec import decode; decode('vector<float, 1>', bytes(4)"
    assert "numpy" not in imported_by(f"{decode})")
    assert "numpy" in imported_by(f"{decode}, numpy_vectors=True)")


def test_importing_is_quick() -> None:
    """An import takes about 50 ms. The limit is 20 s, so only an import that hangs exceeds it."""
    took = []
    for _ in range(3):
        before = time.perf_counter()
        imported_by("import turbocql")
        took.append(time.perf_counter() - before)
    assert min(took) < 20
