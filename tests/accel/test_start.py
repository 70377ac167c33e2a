"""Checks which modules an accelerated program imports at its start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.accel.environments import PROGRAMS, SAFE, run, run_installed

CLUSTER = "import cassandra.cluster"
MAPPER = f"{CLUSTER}, cassandra.cqlengine.models"
PRINTED = "; import sys; print(*sys.modules)"
OWN = {
    "_turbocql_accelerate",
    "turbocql",
    "turbocql._core",
    "turbocql._native",
    "turbocql._native.cassandra_types",
    "turbocql._native.imports",
    "turbocql.diagnose",
    "turbocql.types",
    *(
        f"turbocql.accel{name}"
        for name in (
            *("", "._arrays", "._bodies", "._connections", "._install", "._mapper", "._marshal"),
            *(
                "._origin",
                "._patch",
                "._plans",
                "._readers",
                "._results",
                "._seams",
                "._serializers_module",
                "._serializers_state",
            ),
            *("._checked", "._concurrent", "._creating", "._frames", "._policies", "._pools"),
            *("._querying", "._responses", "._sending", "._thread_events"),
            "._sources",
            *("._start", "._statements", "._variable"),
        )
    ),
}
"""turbocql's modules that an accelerated program imports with the driver."""
HEAVY = {
    *("csv", "glob", "gzip", "hashlib", "hmac", "importlib.abc"),
    *("importlib.metadata", "importlib.resources", "inspect", "logging", "numpy", "numpy.ma"),
    *("secrets", "ssl", "asyncio", "tokenize", "typing", "unicodedata", "zoneinfo"),
}
"""Modules that take long to import. The driver imports some of them."""
OWN_MAPPER = {
    f"turbocql.accel._mapper_{name}" for name in ("functions", "patches", "plans", "sources")
}
"""turbocql's further modules that an accelerated program imports with the object mapper."""


def imported(tmp_path: Path, program: str, variable: str | None) -> set[str]:
    """Runs a program and returns the modules that it has imported."""
    ended = run_installed(sys.executable, tmp_path, "-c", program + PRINTED, variable=variable)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    ("program", "own"), [(CLUSTER, OWN), (MAPPER, OWN | OWN_MAPPER)], ids=["cluster", "mapper"]
)
def test_an_accelerated_start_imports_little(tmp_path: Path, program: str, own: set[str]) -> None:
    added = imported(tmp_path, program, "1") - imported(tmp_path, program, None)
    # The probes of quick paths import `turbocql.types`. If `SAFE` is true, there are no probes.
    probed = {"turbocql.types"} if SAFE else set()
    assert {name for name in added if "turbocql" in name} == own - probed
    assert not added & HEAVY


def test_modules_come_when_they_are_needed(tmp_path: Path) -> None:
    program = f"""{CLUSTER}
import sys
from turbocql import accel
assert accel.status().on
assert "turbocql.accel._status" in sys.modules
assert "turbocql.codec" not in sys.modules
from cassandra.serializers import find_serializer
from cassandra.cqltypes import Int32Type
assert find_serializer(Int32Type).serialize(7, 4) == bytes((0, 0, 0, 7))
assert "turbocql.codec" in sys.modules"""
    assert "turbocql.session" not in imported(tmp_path, program, "1")


def test_nothing_is_imported_by_calls() -> None:
    """Calls of an accelerated driver must not import modules, because a process that has run out of
    file descriptors cannot import any.
    """
    ended = run(sys.executable, str(PROGRAMS / "without_files.py"), *(["safe"] if SAFE else []))
    assert ended.returncode == 0, ended.stderr
