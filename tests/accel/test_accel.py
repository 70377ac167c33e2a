"""The accelerator in the environments of both drivers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAFE = bool(os.environ.get("_TURBOCQL_TEST_INTERPRETER"))
"""Whether the native core runs as on an interpreter that nobody has tested."""
DRIVERS = ("scylla-driver", "cassandra-driver")
EARLIER = ("scylla-driver-previous", "scylla-driver-earlier", "cassandra-driver-earlier")
ALL_DRIVERS = [
    *DRIVERS,
    *(pytest.param(driver, marks=pytest.mark.exhaustive) for driver in EARLIER),
]
"""Releases that write and read otherwise; the last has no compiled codec."""

_HANDLERS = {
    name: f"protocol.{name}: recv_results_rows"
    for name in ("_ProtocolHandler", "LazyProtocolHandler", "NumpyProtocolHandler")
}
LEFT: dict[str, set[str]] = {
    "scylla-driver": set(),
    "scylla-driver-previous": set(),
    "scylla-driver-earlier": set(),
    # With NumPy 2, its parser gives no rows.
    "cassandra-driver": {_HANDLERS["NumpyProtocolHandler"]},
    # It has one way of reading pages.
    "cassandra-driver-earlier": {*_HANDLERS.values()},
}
"""What is left alone."""


def run(
    driver: str, *arguments: str, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """A program in the driver's environment."""
    python = ROOT / f".venv-{driver}" / "bin" / "python"
    assert python.exists(), f"make -C {ROOT} .venv-{driver}/.installed"
    paths = os.pathsep.join((str(ROOT / "python"), str(ROOT)))
    return subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@pytest.mark.parametrize("driver", ALL_DRIVERS)
def test_bytes_cells_bodies_and_errors_are_the_drivers(driver: str, proof: bool) -> None:
    done = run(driver, "-m", "tests.accel.compare", "--count", "800" if proof else "100")
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert not report["failures"], "\n\n".join(report["failures"])
    # The object mapper is not imported there; `mapper` compares it.
    left = {name for name in report["left"] if not name.startswith("cqlengine.")}
    assert left == LEFT[driver], report["status"]
    if SAFE:
        # The driver's own way is taken for values; what is no value is still native.
        assert not report["native"]["protocol.ProtocolHandler: recv_results_rows"]
        assert report["native"]["segment.SegmentCodec.encode"]
        return
    unused = {name for name, native in report["native"].items() if not native}
    unused = {name for name in unused if not name.startswith("cqlengine.")}
    assert unused == LEFT[driver], report["status"]


PARTS = (
    "bodies",
    "classes",
    "connections",
    "extensions",
    "hostile",
    "literals",
    "mapper",
    "mapper_odd",
    "overrides",
    "readings",
    "regressions",
    "serializers",
    "status_counts",
    "without",
)


# These count what is native, which is less where all quick paths are off.
COUNTING = {"bodies", "extensions", "status_counts"}


@pytest.mark.parametrize("part", [part for part in PARTS if not (SAFE and part in COUNTING)])
@pytest.mark.parametrize("driver", ALL_DRIVERS)
def test_what_users_have_put_in_its_place_wins(driver: str, part: str) -> None:
    done = run(driver, "-m", f"tests.accel.{part}")
    assert done.returncode == 0, done.stderr


LATER = """
import sys, turbocql
turbocql.accelerate()
assert "cassandra" not in sys.modules
assert "not imported" in turbocql.accel.status().driver
import cassandra.{first}
from cassandra.query import BoundStatement
import cassandra.query
def left():
    return {{seam.name: seam.why for seam in turbocql.accel.status().seams if not seam.patched}}
assert turbocql.accel.status().seams
waiting = {{name for name, why in left().items() if "it waits for" in why}}
assert set(left()) - waiting == {left} - waiting, turbocql.accel.status()
mapper = {{name for name in waiting if name.startswith("cqlengine.")}}
assert len(mapper) == 13
assert bool(waiting - mapper) == ("cassandra.cluster" not in sys.modules)
assert ("connection.Timer.cancel" in waiting) == ("cassandra.connection" not in sys.modules)
import cassandra.cluster
assert {{name for name in left() if not name.startswith("cqlengine.")}} == {left}
import cassandra.cqlengine.models
assert set(left()) == {left}, turbocql.accel.status()
assert not any("accel" in type(finder).__module__ for finder in sys.meta_path)
assert type(cassandra.query.__spec__.loader).__module__ != "turbocql.accel._install"
assert type(cassandra.query.__loader__).__module__ != "turbocql.accel._install"
turbocql.accel.uninstall()
assert not turbocql.accel.status().on
assert not any("accel" in type(finder).__module__ for finder in sys.meta_path)
"""


STAGES = """
import importlib, importlib.util, runpy, sys, threading, turbocql
from turbocql import accel
def left():
    return {seam.name: seam.why for seam in accel.status().seams if not seam.patched}
def watching():
    return any("accel" in type(finder).__module__ for finder in sys.meta_path)
def is_native(module="cassandra.connection"):
    return "native" in repr(vars(sys.modules[module].Timer)["cancel"])
"""
IN_STAGES = {
    # As hooks after imports do.
    "while it is imported": """
import cassandra.query
class Late:
    def find_spec(self, name, path, target=None):
        if name == "cassandra.segment" and "cassandra.connection" in sys.modules:
            accel.accelerate()
sys.meta_path.insert(0, Late())
import cassandra.connection
sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Late)]
import wave
assert is_native()
assert watching()
import cassandra.cluster
import cassandra.cqlengine.models
assert accel.status().seams and "it waits" not in str(accel.status())
assert not watching()
""",
    "interrupted": """
import cassandra.query
from turbocql.accel import _connections
accel.accelerate()
patches = _connections.Timers.patches
def interrupted(self, driver):
    _connections.Timers.patches = patches
    raise KeyboardInterrupt
_connections.Timers.patches = interrupted
try:
    import cassandra.connection
except KeyboardInterrupt:
    assert "cassandra.connection" not in sys.modules
else:
    raise AssertionError
import cassandra.connection
assert is_native()
assert "native" in repr(vars(cassandra.query.BoundStatement)["bind"])
""",
    "imported again": """
import cassandra.cluster
accel.accelerate()
assert is_native()
del sys.modules["cassandra.connection"]
importlib.import_module("cassandra.connection")
accel.status()
assert is_native()
accel.uninstall()
assert not is_native()
""",
    "over between": """
import cassandra.query
with accel.accelerated():
    assert "it waits for" in left()["connection.Timer.cancel"]
assert not watching()
import cassandra.connection
assert not is_native()
assert "waits" not in str(accel.status()), str(accel.status())
""",
    "asked how it is loaded": """
accel.accelerate()
spec = importlib.util.find_spec("cassandra.connection")
assert watching()
assert spec.loader.is_package("cassandra.connection") is False
assert spec.loader.path == spec.origin
""",
}


@pytest.mark.parametrize("stage", IN_STAGES)
@pytest.mark.parametrize("driver", [*DRIVERS, ALL_DRIVERS[-1]])
def test_connections_come_later(driver: str, stage: str) -> None:
    done = run(driver, "-c", STAGES + IN_STAGES[stage])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", ["query", "cluster", "cqltypes", "protocol"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_before_the_driver_is_imported(driver: str, first: str) -> None:
    done = run(driver, "-c", LATER.format(first=first, left=LEFT[driver]))
    assert done.returncode == 0, done.stderr


def test_a_program_is_run_accelerated(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, cassandra.query\n"
        "import beside\n"
        "from turbocql import accel\n"
        "print(__name__, sys.argv[1:], accel.status().on, len(accel.status().seams) > 5)\n"
        "sys.exit(3)\n",
        encoding="utf-8",
    )
    (tmp_path / "beside.py").touch()
    done = run("scylla-driver", "-m", "turbocql.accel", str(program), "a", "-b")
    assert (done.returncode, done.stdout) == (3, "__main__ ['a', '-b'] True True\n"), done.stderr
    done = run("scylla-driver", "-m", "turbocql.accel", "--status", str(program))
    assert "turbocql.accel is on: cassandra 3.29" in done.stderr
    where = "import os; os.chdir('/'); print(os.path.exists(__file__), __import__('sys').argv[0])"
    program.write_text(where, encoding="utf-8")
    name = os.path.relpath(program, ROOT)
    done = run("scylla-driver", "-m", "turbocql.accel", name)
    assert done.stdout == f"True {name}\n"
    assert run("scylla-driver", "-m", "turbocql.accel").returncode == 2
