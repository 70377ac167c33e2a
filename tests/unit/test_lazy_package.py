"""Tests that the package imports its names when they are first looked up."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pickle
import pydoc
import subprocess
import sys
import sysconfig
import types

import pytest

import turbocql

QUICK_PATHS_ARE_OFF = bool(
    os.environ.get("_TURBOCQL_TEST_INTERPRETER") or sysconfig.get_config_var("Py_GIL_DISABLED")
)
LIGHT = {
    *("turbocql", "turbocql._core", "turbocql._native", "turbocql._native.imports"),
    "turbocql.diagnose",
    # In each process, the core tests whether its quick paths work. This test needs
    # `turbocql.types`.
    *(() if QUICK_PATHS_ARE_OFF else ("turbocql.types",)),
}
"""The modules of the package that `import turbocql` loads."""


def run(program: str) -> str:
    """Returns what a program prints in a fresh interpreter."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def loaded_by(program: str) -> set[str]:
    """Returns turbocql's modules that a program imports in a fresh interpreter."""
    printed = run(f"{program}; import sys; print(*sys.modules)").splitlines()[-1]
    return {name for name in printed.split() if name.startswith("turbocql")}


def test_the_import_alone_loads_few_modules() -> None:
    assert loaded_by("import turbocql") == LIGHT
    assert loaded_by("import turbocql; turbocql.__version__, turbocql.accelerate") == LIGHT
    assert loaded_by("import turbocql; turbocql.UNSET, turbocql.Time") == LIGHT | {"turbocql.types"}


@pytest.mark.parametrize("name", turbocql.__all__)
def test_every_name_is_the_object_of_its_module(name: str) -> None:
    value = getattr(turbocql, name)
    assert vars(turbocql)[name] is value, "it is looked up only once"
    if isinstance(value, types.ModuleType):
        assert value is sys.modules[f"turbocql.{name}"]
    elif inspect.isclass(value) or inspect.isfunction(value):
        assert getattr(sys.modules[value.__module__], value.__name__) is value


@pytest.mark.parametrize("name", turbocql._SUBMODULES)
def test_submodules_are_attributes(name: str) -> None:
    printed = run(f"import turbocql; print(turbocql.{name}.__name__)")
    assert printed == f"turbocql.{name}\n"


def test_a_name_looked_up_first_is_the_object_of_its_module() -> None:
    program = """
import importlib, json, turbocql
assert set(turbocql.__all__) <= set(dir(turbocql))
print(json.dumps([
    name for name, module in turbocql._ORIGINS.items()
    if getattr(turbocql, name)
    is not vars(importlib.import_module("turbocql." + module)).get(name, turbocql.UNSET)
]))"""
    assert json.loads(run(program)) == [], "names of diagnose are cached in its module"


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="module 'turbocql' has no attribute 'conect'"):
        turbocql.conect  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'conect' from 'turbocql'"):
        from turbocql import conect  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        importlib.import_module("turbocql.diagnose").nothing  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        turbocql.accel.nothing  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(turbocql, "testing") or "turbocql.testing" in sys.modules


def test_a_failing_import_raises_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(turbocql), "Split", raising=False)
    monkeypatch.setitem(sys.modules, "turbocql.tables", None)
    with pytest.raises(ImportError, match=r"turbocql\.tables"):
        turbocql.Split  # noqa: B018


def test_a_keyboard_interrupt_during_the_import_is_raised_as_such() -> None:
    program = """
import sys
class Interrupting:
    def find_spec(name, path, target=None):
        if name == "datetime":
            raise KeyboardInterrupt
assert "datetime" not in sys.modules
sys.meta_path.insert(0, Interrupting)
try:
    import turbocql
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program) == "interrupted\n"


def test_dir_and_star_import_have_all_names() -> None:
    assert set(turbocql.__all__) <= set(dir(turbocql))
    program = """
namespace = {}
exec("from turbocql import *", namespace)
import turbocql
print(sorted(set(turbocql.__all__) - set(namespace)))"""
    assert run(program) == "[]\n"


@pytest.mark.parametrize("first", ["import turbocql.diagnose", "import turbocql.aio", "pass"])
def test_diagnose_is_the_function(first: str) -> None:
    """`turbocql.diagnose` is the function and not the module, although both have this name."""
    program = f"{first}; import turbocql; print(turbocql.diagnose.__name__); turbocql.diagnose()"
    assert run(program).startswith("diagnose\nturbocql")
    assert run("from turbocql.diagnose import diagnose as f; print(f.__name__)") == "diagnose\n"


def test_threads_that_look_a_name_up_at_once_get_the_same() -> None:
    program = """
import threading, turbocql
start, found = threading.Barrier(8), []
def look():
    start.wait()
    found.append((turbocql.Session, turbocql.diagnose, turbocql.errors, turbocql.UNSET))
threads = [threading.Thread(target=look) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8 and len(set(found)) == 1, found
assert callable(found[0][1])
print("same")"""
    assert run(program) == "same\n"


def test_objects_can_be_pickled_before_their_module_is_imported() -> None:
    split = turbocql.Split("k", "t", ((0, 1),), None, ())
    data = pickle.dumps([split, turbocql.Consistency.QUORUM, turbocql.UNSET, turbocql.connect])
    program = f"import pickle; print(*map(str, pickle.loads({data!r})[:3]), sep='|')"
    assert run(program).strip() == f"{split}|{turbocql.Consistency.QUORUM}|UNSET"


def test_help_shows_the_public_classes() -> None:
    text = pydoc.plain(pydoc.render_doc(turbocql))
    for name in ("class Session", "class Config", "accelerate(", "connect("):
        assert name in text, name


def test_the_modules_that_the_core_needs_are_imported_early() -> None:
    needed = {f"turbocql._native.{name}" for name in ("cassandra_types", "records", "row_classes")}
    needed |= {"turbocql.errors", "turbocql.types"}
    for module in ("codec", "protocol", "session", "aio"):
        assert needed <= loaded_by(f"import turbocql.{module}"), module
    assert {"turbocql.rows", "turbocql.policies"} <= loaded_by("import turbocql.protocol")
    assert not needed & loaded_by("import turbocql") - LIGHT


TAKE_ALL = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(1))
except OSError:
    pass
"""
VALUES = """
import dataclasses
from turbocql import codec
UNKNOWN = chr(233)

@dataclasses.dataclass
class Point:
    x: int
    y: int
"""
VALUES += (
    TAKE_ALL
    + """
point = "frozen<point{x int, y int}>"
data = codec.encode(point, Point(1, 2))
assert codec.encode(point, {"x": 1, "y": 2}) == data
assert codec.decode(point, data).x == 1
named = codec.decode('frozen<p{"' + UNKNOWN + ' 1" int}>', bytes((0, 0, 0, 4)) * 2)
assert len(named) == 1
refused = []
for wrong, cql_type in [("a", "int"), (2**31, "int"), (1, "frozen<point{x int}>"), (1, "uuid")]:
    try:
        codec.encode(cql_type, wrong)
    except ValueError as error:
        refused.append(type(error).__name__)
assert refused == ["EncodeError", "RangeError", "EncodeError", "EncodeError"], refused
try:
    codec.decode("int", b"1")
except ValueError as error:
    assert type(error).__name__ == "DecodeError"
else:
    raise AssertionError("decoded")
assert codec.decode("duration", bytes((2, 4, 6))).days == 2
assert codec.decode("map<frozen<map<int, int>>, int>", bytes(4)) == {}
print("done")
"""
)
FRAMES = """
from turbocql import protocol
"""
FRAMES += (
    TAKE_ALL
    + """
message = protocol.QueryMessage("q", consistency="QUORUM")
assert message.encode(4)
assert message.consistency.name == "QUORUM"
try:
    protocol.QueryMessage("q", consistency="NONE")
except ValueError:
    print("done")
"""
)


@pytest.mark.parametrize("program", [VALUES, FRAMES], ids=["values", "frames"])
def test_nothing_is_imported_when_no_file_descriptor_is_free(program: str) -> None:
    """After `TAKE_ALL`, no file descriptor is free. An import needs one, so it would fail."""
    assert run(program) == "done\n"
