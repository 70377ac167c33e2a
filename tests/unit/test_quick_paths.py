"""Tests which quick paths are on.

A quick path depends on CPython's internals. It is on if two conditions hold: it was tested with the
version of the interpreter, and its probe, which is a test in this process, succeeds. Values must be
right with and without the quick paths.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
from typing import Any

import pytest
from tests.meta.sources import ROOT

import turbocql
from turbocql import _core

PATHS = [path.name for path in turbocql.diagnosis().quick_paths]
FORCED = os.environ.get("_TURBOCQL_TEST_INTERPRETER")
TESTED = {f"3.{minor}" for minor in range(10, 16)}
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_gil = pytest.mark.needs(not WITHOUT_GIL, "an interpreter built with the GIL")

VALUES = """
import dataclasses, gc, json, sys, asyncio, decimal, uuid, ipaddress, datetime
from collections import namedtuple
import turbocql
from turbocql.codec import RowEncoder, decode, encode, find_serializer
from turbocql.protocol import RowsDecoder
from tests.support.results import result

day = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.timezone.utc)
VALUES = [
    ("int", -70_000), ("bigint", -2**63), ("varint", 2**200), ("varint", -2**90), ("double", 1e300),
    ("float", -1.5), ("text", "a"), ("text", "caf\\u00e9"), ("blob", b"\\0\\1"), ("boolean", True),
    ("timestamp", day), ("date", datetime.date(1970, 1, 2)), ("decimal", decimal.Decimal("-1.50")),
    ("uuid", uuid.UUID(int=2**127 + 5)), ("inet", ipaddress.ip_address("192.168.0.1")),
    ("time", turbocql.types.Time(5)), ("list<int>", [1, None, 3]), ("set<text>", {"a", "b"}),
    ("map<text, int>", {"a": 1}), ("tuple<int, text>", (1, "a")), ("vector<float, 3>", [1, 2.5, 3]),
    ("frozen<set<frozen<list<uuid>>>>", {(uuid.UUID(int=7), uuid.UUID(int=2**100))}),
]
for cql_type, value in VALUES:
    data = find_serializer(cql_type).serialize(value)
    assert data == encode(cql_type, value)
    for _ in range(3):
        back = decode(cql_type, data)
        assert back == value, (cql_type, back, value)
        if not isinstance(value, (list, set, dict)):
            assert hash(back) == hash(value), (cql_type, back)
            assert back in {value}
if sys.argv[1:] == ["arrays"]:
    import numpy as np

    array = np.arange(32, dtype=np.float32)
    assert decode("vector<float, 32>", encode("vector<float, 32>", array)) == array.tolist()
columns = [("a", "int"), ("b", "text"), ("c", "uuid")]
row = (7, "x", uuid.UUID(int=2**100))
body = result(columns, [[encode(t, v) for (_, t), v in zip(columns, row)]] * 3)
for kind in ("tuple", "named"):
    rows = RowsDecoder(kind).decode(body).rows
    assert set(rows) == {row} and rows[0] in {row} and {row: 1}[rows[0]] == 1
    assert rows == [row] * 3
    gc.collect()
    assert hash(rows[0]) == hash(row) and sys.getrefcount(rows[1]) <= 3
assert RowsDecoder("dict").decode(body).rows == [dict(zip("abc", row))] * 3
made = find_serializer("int")
for wrong in ("x", 2**40):
    try:
        made.serialize(wrong)
    except turbocql.errors.EncodeError as error:
        assert "int" in str(error)
    else:
        raise AssertionError(wrong)
print(json.dumps([dataclasses.asdict(path) for path in turbocql.diagnosis().quick_paths]))
"""


def paths_of(*arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    """Checks values in a new process. Maps the name of each quick path to its state there."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", VALUES, *arguments],
        env={**os.environ, "_TURBOCQL_TEST_INTERPRETER": "", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return {path["name"]: path for path in json.loads(ran.stdout)}


def test_all_are_on_in_tested_versions() -> None:
    """Fails if the Python version is not in `TESTED`. Add a version only after testing it."""
    assert sys.implementation.name == "cpython"
    assert ".".join(platform.python_version_tuple()[:2]) in TESTED
    off = [path for path in paths_of("arrays").values() if not path["on"]]
    assert len(off) == (len(PATHS) if WITHOUT_GIL else 0), off
    for path in off:
        assert path["reason"] == "not made for an interpreter built without the GIL"


def test_none_is_on_in_untested_versions() -> None:
    for version in ("3.9", "3.16", "3.99", "4.0", "3.1", "3.130"):
        found = paths_of(_TURBOCQL_TEST_INTERPRETER=version)
        assert [name for name, path in found.items() if path["on"]] == []
        for path in found.values():
            assert path["reason"] == f"tested with CPython 3.10 to 3.15, this is cpython {version}"


def test_this_process_has_the_expected_paths() -> None:
    on = {path.name for path in turbocql.diagnosis().quick_paths if path.on}
    said = str(turbocql.diagnosis())
    if FORCED:
        assert on == set()
        assert "quick paths     all off (tested with CPython 3.10 to 3.15" in said
    elif WITHOUT_GIL:
        assert on == set()
        assert "quick paths     all off (not made for an interpreter built without the GIL" in said
    else:
        assert on == set(PATHS)
        assert "quick paths     all on" in said


READ = {"sets", "attributes", "lookups", "versions", "decimals", "arrays", "coroutines"}
"""The quick paths that only read objects. Their probes compare only values."""
TRACKED = {"decode", "uuids", "addresses", "times", "records", "rows"}
"""The quick paths that create objects of types with GC support. Their probes check whether the GC
tracks each object: for some paths it must, for others it must not."""
CORRUPTED = [
    *((name, "value") for name in PATHS if name != "handles"),
    *((name, "hash") for name in PATHS if name not in {*READ, "encode", "handles"}),
    *((name, "references") for name in PATHS if name not in {*READ, "encode", "handles"}),
    *((name, "tracking") for name in PATHS if name in TRACKED),
]
BUILT_ON = {"encode": {"big ints", "serialize"}, "records": {"uuids", "addresses", "times"}}
"""Maps a path to the paths that depend on it. If the path is off, they are off too."""


@needs_gil
@pytest.mark.parametrize(("name", "fault"), CORRUPTED)
def test_each_probe_notices_what_is_wrong(name: str, fault: str) -> None:
    found = paths_of(name, _TURBOCQL_TEST_PROBE=f"{name}:{fault}")
    off = {name for name, path in found.items() if not path["on"]}
    assert off == {name} | BUILT_ON.get(name, set())
    assert found[name]["reason"]


def test_the_safe_path_can_be_forced_and_released() -> None:
    before = _core.quick_paths()
    _core.force_safe(True)
    try:
        installed = {"coroutines", "handles", "serialize"}
        assert not any(on for name, on, _ in _core.quick_paths() if name not in installed)
    finally:
        _core.force_safe(False)
    assert _core.quick_paths() == before


def run_here(program: str) -> None:
    """Runs a program in a new process with all available quick paths."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "_TURBOCQL_TEST_INTERPRETER": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr


ONLY_UUIDS = """
from turbocql import _core
off = {name for name, on, _ in _core.quick_paths() if not on}
assert off == {"uuids"}, off
"""


@needs_gil
@pytest.mark.parametrize(
    "replacement",
    [
        "lambda *_, **__: None",
        "lambda *_, **__: True",
        "lambda *_, **__: memoryview(b'')",
        "lambda *_, **__: (one for one in ())",
        "memoryview",
        "type('Own', (uuid.UUID,), {'__eq__': lambda self, other: 1 / 0, '__hash__': None})",
        "type('Own', (uuid.UUID,), {'__init__': lambda self, *_: 1 / 0})",
    ],
)
def test_what_somebody_has_put_in_the_place_of_a_class(replacement: str) -> None:
    """Each replacement of `uuid.UUID` turns the quick path `uuids` off, and none causes a crash."""
    run_here(f"import uuid\nuuid.UUID = {replacement}\n{ONLY_UUIDS}")


@needs_gil
def test_a_probe_that_raises_leaves_its_path_off() -> None:
    """The quick path `uuids` is off here, so the GC tracks the UUIDs that the safe path creates."""
    run_here(
        "import gc, uuid\nown = uuid.UUID.__eq__\n"
        "def fail(self, other):\n    raise RuntimeError\n"
        "uuid.UUID.__eq__ = fail\nimport turbocql.codec\nuuid.UUID.__eq__ = own\n"
        f"{ONLY_UUIDS}"
        "assert gc.is_tracked(turbocql.codec.decode('uuid', bytes(16)))\n"
    )


@needs_gil
def test_interrupts_and_memory_errors_end_the_import_not_the_path() -> None:
    program = (
        "import uuid\nown, left = uuid.UUID.__eq__, [KeyboardInterrupt, MemoryError]\n"
        "def fail(self, other):\n    raise left.pop(0)\n"
        "uuid.UUID.__eq__ = fail\n"
        "for error in list(left):\n"
        "    try:\n        import turbocql\n    except error:\n        pass\n"
        "    else:\n        raise AssertionError(error)\n"
        "uuid.UUID.__eq__ = own\n"
        "from turbocql import _core\n"
        "assert all(on for _, on, _ in _core.quick_paths()), _core.quick_paths()\n"
    )
    run_here(program)
